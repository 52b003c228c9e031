"""What Local plugins said is kept: they are asked once a class of pods, and then only about nodes that changed."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field

import pytest

from tests.framework.conftest import MakeProfile
from tests.framework.doubles import Refuser
from wharfinger.errors import PluginError
from wharfinger.framework.cycle_state import CycleState
from wharfinger.framework.interface import Normalization
from wharfinger.framework.local_table import FEW
from wharfinger.framework.node_info import NodeInfo
from wharfinger.framework.status import SUCCESS, Status, unschedulable
from wharfinger.objects.model.pod import Pod
from wharfinger.testing.builders import node, pod, snapshot

FIVE = snapshot(*(node(f"n{number}") for number in range(5)))


@dataclass
class Crowded:
    """Refuses nodes with as many pods as the pod's priority says; prefers empty ones."""

    name: str = "Crowded"
    asked: list[str] = field(default_factory=list)

    def signature(self, pod: Pod) -> Hashable:
        return pod.priority

    def filter_node(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status:
        self.asked.append(node.node.name)
        return unschedulable(f"{len(node.pods)} pods") if len(node.pods) >= pod.priority else SUCCESS

    def score_node(self, state: CycleState, pod: Pod, node: NodeInfo) -> int:
        return 10 - len(node.pods)


def test_a_second_pod_of_the_class_asks_nothing(profile_of: MakeProfile) -> None:
    plugin = Crowded()
    profile = profile_of(plugin)
    profile.evaluate(pod("a", priority=2), FIVE)
    plugin.asked.clear()
    assert profile.evaluate(pod("b", priority=2), FIVE).feasible_count == 5
    assert plugin.asked == []


def test_only_the_node_that_took_a_pod_is_asked_about_again(profile_of: MakeProfile) -> None:
    plugin = Crowded()
    profile = profile_of(plugin)
    profile.evaluate(pod("a", priority=2), FIVE)
    plugin.asked.clear()
    placed = FIVE.place(pod("a"), "n3")
    decision = profile.evaluate(pod("b", priority=2), placed).decide()
    assert plugin.asked == ["n3"]
    assert decision.totals == {"n0": 10, "n1": 10, "n2": 10, "n3": 9, "n4": 10}


def test_another_class_has_answers_of_its_own(profile_of: MakeProfile) -> None:
    profile = profile_of(Crowded())
    crowded = FIVE.place(pod("x"), "n0")
    assert profile.evaluate(pod("a", priority=1), crowded).feasible == ("n1", "n2", "n3", "n4")
    assert profile.evaluate(pod("b", priority=2), crowded).feasible_count == 5
    assert profile.evaluate(pod("c", priority=1), crowded).refusals == {"Crowded": {"1 pods": 1}}


def test_a_node_that_empties_is_feasible_again(profile_of: MakeProfile) -> None:
    profile = profile_of(Crowded())
    full = FIVE
    for name in FIVE.names:
        full = full.place(pod(f"on-{name}"), name)
    refused = profile.evaluate(pod("a", priority=1), full)
    assert refused.message == "0/5 nodes are available: 5 1 pods."
    emptier = full.with_pods_changed({2: FIVE.rows[2]})
    assert profile.evaluate(pod("b", priority=1), emptier).feasible == ("n2",)
    assert refused.refusals == {"Crowded": {"1 pods": 5}}  # what was decided stays as it was


def test_many_changes_are_answered_by_asking_about_every_node(profile_of: MakeProfile) -> None:
    plugin = Crowded()
    profile = profile_of(plugin)
    many = snapshot(*(node(f"n{number}") for number in range(FEW + 8)))
    profile.evaluate(pod("a", priority=1), many)
    full = many.with_pods_changed({row: many.rows[row].with_pod(pod(f"p{row}")) for row in range(FEW + 1)})
    assert profile.evaluate(pod("b", priority=1), full).feasible_count == 7


def test_refusals_of_local_and_other_plugins_count_in_profile_order(profile_of: MakeProfile) -> None:
    other = Refuser("Other", {"n0": unschedulable("no"), "n1": unschedulable("no")})
    crowded = FIVE.place(pod("x"), "n0")
    first = profile_of(other, Crowded()).evaluate(pod("a", priority=1), crowded)
    assert first.refusals == {"Other": {"no": 2}}
    assert first.feasible_count == 3
    second = profile_of(Crowded(), other).evaluate(pod("a", priority=1), crowded)
    assert second.refusals == {"Crowded": {"1 pods": 1}, "Other": {"no": 1}}


def test_a_declared_normalisation_looks_at_feasible_nodes_only(profile_of: MakeProfile) -> None:
    @dataclass
    class Fewest(Crowded):
        normalization = Normalization.LOWEST

        def score_node(self, state: CycleState, pod: Pod, node: NodeInfo) -> int:
            return len(node.pods)

    three = FIVE.place(pod("x"), "n0").place(pod("y"), "n1").place(pod("z"), "n1").place(pod("v"), "n1")
    scores = profile_of(Fewest(), weights={"Crowded": 2}).evaluate(pod("a", priority=3), three).decide().scores
    assert {name: plugins["Crowded"] for name, plugins in scores.items()} == {"n0": 0, "n2": 200, "n3": 200, "n4": 200}
    empty = profile_of(Fewest(), weights={"Crowded": 2}).evaluate(pod("a", priority=3), FIVE).decide().totals
    assert set(empty.values()) == {200}


def test_verify_asks_about_the_node_as_it_is(profile_of: MakeProfile) -> None:
    profile = profile_of(Crowded())
    profile.evaluate(pod("a", priority=1), FIVE)
    assert profile.verify(pod("a", priority=1), FIVE.place(pod("x"), "n0"), "n0").plugin == "Crowded"
    assert profile.verify(pod("a", priority=1), FIVE, "n0").ok


@pytest.mark.parametrize("point", ["filter_node", "score_node", "signature"])
def test_one_that_raises_is_named_and_decides_again_when_mended(
    profile_of: MakeProfile, point: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    profile = profile_of(Crowded())
    with monkeypatch.context() as broken:
        broken.setattr(Crowded, point, lambda *_: 1 // 0)
        with pytest.raises(PluginError, match=r"plugin Crowded failed in \w+: ZeroDivisionError"):
            profile_of(Crowded()).evaluate(pod("a", priority=1), FIVE)
    assert profile.evaluate(pod("a", priority=1), FIVE).feasible_count == 5
