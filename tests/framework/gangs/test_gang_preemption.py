"""Whom a gang evicts: as few as it needs, the least important ones, and those that no budget guards."""

from __future__ import annotations

import pytest

from wharfinger.framework.catalog import Enabled
from wharfinger.framework.cycle_state import CycleState
from wharfinger.framework.gangs.gangs import GangPlacement, place
from wharfinger.framework.interface import PostFilterResult, Trial
from wharfinger.framework.node_info import NodeInfo
from wharfinger.framework.profile import Profile
from wharfinger.framework.profiles import load_profiles
from wharfinger.framework.snapshot import Snapshot
from wharfinger.framework.status import unschedulable
from wharfinger.objects.model.gang import Wanted
from wharfinger.objects.model.pod import Pod
from wharfinger.objects.model.selectors import LabelSelector, Operator, Requirement
from wharfinger.objects.model.surroundings import NOTHING_AROUND, DisruptionBudget, Surroundings
from wharfinger.testing.builders import node, pod

DEFAULT = load_profiles()["default-scheduler"]
GUARDED = LabelSelector((Requirement("app", Operator.IN, ("guarded",)),))


def gang(count: int, *, cpu: int = 1000) -> Wanted:
    members = [
        pod(f"m{number}", cpu=cpu, priority=100, create_revision=number + 1, group="g") for number in range(count)
    ]
    return Wanted(tuple(members), count)


def low(name: str, on: str, *, cpu: int = 1000, priority: int = 1, app: str = "plain") -> Pod:
    return pod(name, cpu=cpu, node_name=on, priority=priority, create_revision=50, labels={"app": app})


def cluster(*nodes: list[Pod], around: Surroundings = NOTHING_AROUND) -> Snapshot:
    """Nodes of four CPUs, called a, b, and so on, with these pods."""
    infos = [NodeInfo.of(node(name), pods) for name, pods in zip("abcdef", nodes, strict=False)]
    return Snapshot.of(infos).at(1, surroundings=around)


def victims(placement: GangPlacement) -> list[str]:
    assert placement.seats == ()
    return sorted(victim.name for one in placement.nominations for victim in one.victims)


@pytest.mark.parametrize(
    ("wanted", "nodes", "expected"),
    [
        (gang(2, cpu=2000), [[low("w", "a", cpu=2000), low("x", "a", cpu=2000)]], ["w", "x"]),
        (gang(2), [[low("w", "a", cpu=2000), low("x", "a", cpu=2000)]], ["x"]),
        (gang(3), [[low("w", "a", cpu=3000)], [low("x", "b", cpu=4000, priority=9)]], ["w"]),
        (gang(4, cpu=2000), [[low("w", "a", cpu=4000)], [low("x", "b", cpu=4000)]], ["w", "x"]),
        (gang(5, cpu=2000), [[low("w", "a", cpu=4000)], [low("x", "b", cpu=4000)]], []),
    ],
    ids=["the whole room", "a part of it", "beside free room", "over several nodes", "too little room"],
)
def test_no_more_pods_are_evicted_than_the_gang_needs(
    wanted: Wanted, nodes: list[list[Pod]], expected: list[str]
) -> None:
    assert victims(place(DEFAULT, wanted, cluster(*nodes))) == expected


def test_the_least_important_pods_are_evicted() -> None:
    """On the node with the least important pod, and there the least important ones."""
    around = cluster(
        [low("w", "a", priority=30, cpu=2000), low("x", "a", priority=40, cpu=2000)],
        [low("y", "b", priority=10, cpu=2000), low("z", "b", priority=60, cpu=2000)],
    )

    assert victims(place(DEFAULT, gang(2), around)) == ["y"]
    assert victims(place(DEFAULT, gang(4), around)) == ["w", "y"]


@pytest.mark.parametrize(("allowed", "evicted"), [(0, ["plain"]), (1, ["guarded"])])
def test_a_disruption_budget_is_kept_where_another_pod_can_go(allowed: int, evicted: list[str]) -> None:
    budget = NOTHING_AROUND.with_object(DisruptionBudget("default", "guard", GUARDED, allowed))
    around = cluster(
        [low("guarded", "a", cpu=4000, app="guarded")], [low("plain", "b", cpu=4000, priority=9)], around=budget
    )

    assert victims(place(DEFAULT, gang(2, cpu=2000), around)) == evicted


def test_a_budget_is_broken_where_nothing_else_helps() -> None:
    budget = NOTHING_AROUND.with_object(DisruptionBudget("default", "guard", GUARDED, 0))
    around = cluster([low("guarded", "a", cpu=4000, app="guarded")], around=budget)

    assert victims(place(DEFAULT, gang(2, cpu=2000), around)) == ["guarded"]


class Counting:
    """PostFilter that counts how often it is asked, and never helps."""

    name = "Counting"

    def __init__(self) -> None:
        self.asked: list[str] = []

    def post_filter(self, state: CycleState, pod: Pod, trial: Trial) -> PostFilterResult:
        self.asked.append(pod.name)
        return PostFilterResult(unschedulable("no"))


@pytest.mark.parametrize("members", [2, 5])
def test_post_filter_is_asked_once_where_it_does_not_help(members: int) -> None:
    """The first member without room ends the try: the gang cannot be whole any more."""
    counting = Counting()
    plugins = [plugin for plugin in DEFAULT.plugins if plugin.name != "DefaultPreemption"]
    profile = Profile(DEFAULT.name, Enabled.everywhere([*plugins, counting], {}), digest="counting")

    placement = place(profile, gang(members), cluster([low("w", "a", cpu=4000)]))

    assert (placement.placed, placement.nominations) == (False, ())
    assert counting.asked == ["m0"]
