"""Whom preemption evicts for other reasons than resources: anti-affinity, spreading, claims, own plugins."""

from __future__ import annotations

from typing import Any

import pytest

from tests.volumes import PROFILE as WITH_VOLUMES
from tests.volumes import claim, cluster, host, storage, user
from wharfinger.framework.catalog import Enabled
from wharfinger.framework.cycle_state import CycleState
from wharfinger.framework.evaluation import Evaluation
from wharfinger.framework.interface import PreFilterResult
from wharfinger.framework.node_info import NodeInfo
from wharfinger.framework.profile import Profile
from wharfinger.framework.profiles import load_profiles
from wharfinger.framework.snapshot import Snapshot
from wharfinger.framework.status import SUCCESS, Status, unresolvable, unschedulable
from wharfinger.objects.model.pod import HostPort, Pod
from wharfinger.objects.model.selectors import LabelSelector, Operator, PodAffinityTerm, Requirement, SpreadConstraint
from wharfinger.testing.builders import node, pod

DEFAULT = load_profiles()["default-scheduler"]
NO_TOKEN = unschedulable("no token")
ALONE = frozenset({"ReadWriteOncePod"})
HIGH, MIDDLE, LOW = 100, 50, 1


def app(value: str) -> LabelSelector:
    return LabelSelector((Requirement("app", Operator.IN, (value,)),))


def repels(value: str, key: str = "zone") -> dict[str, Any]:
    """Required anti-affinity to pods of that app."""
    return {"required_anti_affinity": (PodAffinityTerm(key, app(value), frozenset({"default"})),)}


def there(name: str, on: str, priority: int = LOW, *, of: str = "web", **fields: Any) -> Pod:
    number = sum(map(ord, name))
    return pod(name, node_name=on, priority=priority, create_revision=number, labels={"app": of}, **fields)


def zones(**pods: list[Pod]) -> Snapshot:
    """A node for each name, in the zone of its first letter, with these pods."""
    return Snapshot.of(NodeInfo.of(node(name, labels={"zone": name[0]}), found) for name, found in pods.items())


def preemption(evaluation: Evaluation) -> tuple[str | None, list[str]]:
    """The nominated node, and the victims there."""
    assert evaluation.node is None
    return evaluation.nominated_node, sorted(victim.name for victim in evaluation.victims)


def high(**fields: Any) -> Pod:
    return pod("high", **{"priority": HIGH, "labels": {"app": "high"}, **fields})


WEBS = (there("w", "a1"), there("v", "a1"))


# --- anti-affinity --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("preemptor", "around", "expected"),
    [
        (high(**repels("web")), zones(a1=[there("w", "a1")]), ("a1", ["w"])),
        (high(), zones(a1=[there("w", "a1", **repels("high"))]), ("a1", ["w"])),
        (high(**repels("web")), zones(a1=[*WEBS, there("x", "a1", of="db")]), ("a1", ["v", "w"])),
        (high(**repels("web")), zones(a1=[there("w", "a1")], b1=[there("v", "b1", MIDDLE)]), ("a1", ["w"])),
    ],
    ids=["its own", "the victim's", "of two pods", "in the less important zone"],
)  # fmt: skip
def test_eviction_satisfies_anti_affinity(preemptor: Pod, around: Snapshot, expected: tuple[str, list[str]]) -> None:
    assert preemption(DEFAULT.evaluate(preemptor, around)) == expected


@pytest.mark.parametrize(
    "around",
    [
        zones(a1=[there("w", "a1", HIGH)]),
        zones(a1=[there("w", "a1"), there("v", "a1", HIGH)]),
        zones(a1=[there("w", "a1")], a2=[there("v", "a2")]),
    ],
    ids=["as important", "one as important", "one on another node of the zone"],
)
def test_no_pod_is_evicted_where_anti_affinity_would_still_refuse(around: Snapshot) -> None:
    assert preemption(DEFAULT.evaluate(high(**repels("web")), around)) == (None, [])


@pytest.mark.parametrize(("priority", "expected"), [(HIGH, ("a1", ["x"])), (LOW, (None, []))])
def test_room_is_made_beside_a_pod_that_is_needed(priority: int, expected: tuple[str | None, list[str]]) -> None:
    """A node is tried without all of its less important pods first, as in kube-scheduler: the needed one is missed."""
    wants = PodAffinityTerm("zone", app("web"), frozenset({"default"}))
    around = zones(a1=[there("w", "a1", priority, cpu=2000), there("x", "a1", of="db", cpu=2000)], b1=[])

    assert preemption(DEFAULT.evaluate(high(cpu=2000, required_affinity=(wants,)), around)) == expected


# --- spreading ------------------------------------------------------------------------------------


def spread(max_skew: int = 1) -> dict[str, Any]:
    constraint = SpreadConstraint(max_skew, "zone", True, app("web"))
    return {"spread_constraints": (constraint,), "labels": {"app": "web"}}


@pytest.mark.parametrize(
    ("around", "expected"),
    [
        (
            zones(a1=[there("w1", "a1"), there("w2", "a1")], b1=[there("x", "b1", HIGH, of="db", cpu=4000)]),
            ("a1", ["w1", "w2"]),
        ),
        (
            zones(a1=[there("w1", "a1", MIDDLE), there("w2", "a1")], b1=[there("v", "b1", HIGH, cpu=4000)]),
            ("a1", ["w2"]),
        ),
        (zones(a1=[there("w1", "a1", HIGH)], b1=[there("x", "b1", HIGH, of="db", cpu=4000)]), (None, [])),
    ],
    ids=["both of the zone", "the less important one", "as important"],
)
def test_eviction_restores_the_balance(around: Snapshot, expected: tuple[str | None, list[str]]) -> None:
    """The other zone has no room: its pod is as important as the preemptor."""
    assert preemption(DEFAULT.evaluate(high(cpu=100, **spread()), around)) == expected


def test_eviction_of_pods_that_do_not_count_is_no_help() -> None:
    around = zones(
        a1=[there("w1", "a1", HIGH), there("x", "a1", of="db")], b1=[there("y", "b1", HIGH, of="db", cpu=4000)]
    )

    assert preemption(DEFAULT.evaluate(high(cpu=100, **spread()), around)) == (None, [])


# --- ports and claims -----------------------------------------------------------------------------


def test_the_user_of_a_host_port_is_evicted() -> None:
    port = {"host_ports": (HostPort("TCP", "0.0.0.0", 80),)}
    around = zones(a1=[there("w", "a1", **port), there("x", "a1")], b1=[there("v", "b1", HIGH, **port)])

    assert preemption(DEFAULT.evaluate(high(**port), around)) == ("a1", ["w"])


@pytest.mark.parametrize(
    ("users", "expected"),
    [
        ({"n2": [("one", ["c1", "c2"])]}, ("n2", ["one"])),
        ({"n2": [("one", ["c1"]), ("two", ["c2"])]}, ("n2", ["one", "two"])),
        ({"n2": [("one", ["c1"]), ("two", ["c3"])]}, ("n2", ["one"])),
        ({"n1": [("one", ["c1"])], "n2": [("two", ["c2"])]}, (None, [])),
    ],
    ids=["one victim with two claims", "two victims", "a bystander", "users on two nodes"],
)
def test_all_users_of_read_write_once_pod_claims_are_evicted(
    users: dict[str, list[tuple[str, list[str]]]], expected: tuple[str | None, list[str]]
) -> None:
    around = storage(*(claim(name, access_modes=ALONE) for name in ("c1", "c2", "c3")))
    pods = {
        name: [user(one, *claims, node_name=name, priority=LOW) for one, claims in found]
        for name, found in users.items()
    }
    snapshot = cluster(host("n1"), host("n2"), around=around, **pods)

    assert preemption(WITH_VOLUMES.evaluate(user("p1", "c1", "c2", priority=HIGH), snapshot)) == expected


# --- plugins of one's own -------------------------------------------------------------------------


class Tokens:
    """One token a node, held by pods with the label `token`; counted in PreFilter or in Filter."""

    name = "Tokens"

    def __init__(self, answer: Status = NO_TOKEN, *, early: bool = False) -> None:
        self._answer = answer
        self._early = early
        self.pre_filtered = 0

    def pre_filter(self, state: CycleState, pod: Pod, snapshot: Snapshot) -> PreFilterResult:
        self.pre_filtered += 1
        if self._early:
            held = {info.node.name for info in snapshot.rows if self._held(info)}
            state.write(self.name, held)
        return PreFilterResult()

    def filter_node(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status:
        held = node.node.name in state.read(self.name) if self._early else self._held(node)
        return self._answer if held else SUCCESS

    @staticmethod
    def _held(info: NodeInfo) -> bool:
        return any("token" in one.labels for one in info.pods.values())


def with_tokens(plugin: Tokens) -> Profile:
    return Profile(DEFAULT.name, Enabled.everywhere([*DEFAULT.plugins, plugin], {}), digest="tokens")


def holder(name: str, on: str, priority: int = LOW) -> Pod:
    return pod(name, node_name=on, priority=priority, create_revision=7, labels={"token": "yes"})


@pytest.mark.parametrize("early", [False, True], ids=["Filter", "PreFilter"])
def test_victims_are_tried_against_an_own_plugin_too(early: bool) -> None:
    around = zones(a1=[holder("h", "a1"), there("w", "a1")], b1=[holder("g", "b1", HIGH)])

    assert preemption(with_tokens(Tokens(early=early)).evaluate(high(), around)) == ("a1", ["h"])


@pytest.mark.parametrize("early", [False, True], ids=["Filter", "PreFilter"])
def test_a_refusal_for_good_by_an_own_plugin_evicts_no_pod(early: bool) -> None:
    around = zones(a1=[holder("h", "a1")])
    evaluation = with_tokens(Tokens(unresolvable("never"), early=early)).evaluate(high(), around)

    assert preemption(evaluation) == (None, [])
    assert evaluation.message.endswith("1 Preemption is not helpful for scheduling.")


def test_without_post_filter_no_lone_pod_preempts() -> None:
    points = {"plugins": {"postFilter": {"disabled": [{"name": "*"}]}}}
    profile = load_profiles({"profiles": [points]})["default-scheduler"]
    around = zones(a1=[there("w", "a1", cpu=4000)])

    evaluation = profile.evaluate(high(cpu=1000), around)

    assert preemption(evaluation) == (None, [])
    assert evaluation.message == "0/1 nodes are available: 1 Insufficient cpu."
    assert preemption(DEFAULT.evaluate(high(cpu=1000), around)) == ("a1", ["w"])


# --- rooms that are kept, and nodes that do not exist ---------------------------------------------


@pytest.mark.parametrize(("cpu", "node_name"), [(1000, "a1"), (2000, None)])
def test_a_less_important_pod_shares_the_nominated_node_where_both_fit(cpu: int, node_name: str | None) -> None:
    waiting = high(cpu=3000, nominated_node_name="a1")
    around = Snapshot.of([NodeInfo.of(node("a1"), [])], nominated={"a1": (waiting,)})

    assert DEFAULT.evaluate(pod("less", cpu=cpu, priority=LOW), around).node == node_name


def test_preemption_overrules_a_nomination_from_outside() -> None:
    """The nominated node cannot take the pod, and its pods are more important: the other node is nominated."""
    around = zones(a1=[there("w", "a1", HIGH, cpu=4000)], b1=[there("v", "b1", cpu=4000)])

    assert preemption(DEFAULT.evaluate(high(cpu=1000, nominated_node_name="a1"), around)) == ("b1", ["v"])
