"""Where preemption made room for a pod, others reckon with it until it comes."""

from __future__ import annotations

from tests.framework.conftest import MakeProfile
from wharfinger.framework.cycle_state import CycleState
from wharfinger.framework.node_info import NodeInfo
from wharfinger.framework.profiles import load_profiles
from wharfinger.framework.snapshot import Snapshot
from wharfinger.framework.status import SUCCESS, Status, unschedulable
from wharfinger.objects.model.pod import Pod
from wharfinger.objects.model.selectors import LabelSelector, Operator, PodAffinityTerm, Requirement
from wharfinger.testing.builders import node, pod

DEFAULT = load_profiles()["default-scheduler"]


def cluster(*nominated: Pod) -> Snapshot:
    return Snapshot.of((NodeInfo.of(node("a")), NodeInfo.of(node("b"))), nominated={"a": nominated})


def test_its_room_is_kept_from_pods_of_the_same_or_a_lower_priority() -> None:
    waiting = pod("waiting", cpu=3000, priority=5)
    for priority, feasible in ((4, ("b",)), (5, ("b",)), (6, ("a", "b"))):
        other = pod("other", cpu=2000, priority=priority)
        assert DEFAULT.evaluate(other, cluster(waiting)).feasible == feasible
        assert DEFAULT.verify(other, cluster(waiting), "a").ok == ("a" in feasible)


def test_its_own_nomination_is_in_nobodys_way() -> None:
    waiting = pod("waiting", cpu=3000, priority=5, nominated_node_name="a")
    assert DEFAULT.evaluate(waiting, cluster(waiting)).feasible == ("a",)


def test_the_refusal_is_that_of_the_pass_with_it() -> None:
    evaluation = DEFAULT.evaluate(pod("other", cpu=4000), cluster(pod("waiting", cpu=1)))
    assert evaluation.decide(None).feasible == ("b",)
    assert evaluation.refusals == {"NodeResourcesFit": {"Insufficient cpu": 1}}
    assert evaluation.verdicts()["a"]["NodeResourcesFit"].reasons == ("Insufficient cpu",)


def test_a_filter_that_skips_without_it_has_no_say_with_it() -> None:
    """kube-scheduler asks PreFilter once, before any nominated pod is added; what skips there is left out of both."""
    green = LabelSelector((Requirement("color", Operator.IN, ("green",)),))
    repels = PodAffinityTerm("host", green, frozenset({"default"}))
    waiting = pod("waiting", priority=5, required_anti_affinity=(repels,))
    alone = NodeInfo.of(node("a", labels={"host": "a"}))
    subject = pod("green", labels={"color": "green"})
    around = Snapshot.of((alone,), nominated={"a": (waiting,)})
    assert DEFAULT.evaluate(subject, around).node == "a"
    assert DEFAULT.verify(subject, around, "a").ok
    with_another = NodeInfo.of(node("b", labels={"host": "b"}), [pod("there", required_anti_affinity=(repels,))])
    both = Snapshot.of((alone, with_another), nominated={"a": (waiting,)})
    assert DEFAULT.evaluate(subject, both).node is None
    assert not DEFAULT.verify(subject, both, "a").ok


def test_nodes_that_did_not_change_are_not_asked_about_again_with_it(profile_of: MakeProfile) -> None:
    """Thousands of pods may wait for their victims to leave, and each decision reckons with all of them."""
    asked: list[tuple[str, int]] = []

    class Noting:
        name = "Noting"

        def signature(self, pod: Pod) -> int:
            return 0

        def filter_node(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status:
            asked.append((node.node.name, len(node.pods)))
            return SUCCESS

    profile, first = profile_of(Noting()), cluster(pod("waiting", priority=5))
    assert profile.evaluate(pod("one"), first).feasible == ("a", "b")
    assert asked == [("a", 0), ("b", 0), ("a", 1)]
    profile.evaluate(pod("two"), first.at(2, nominated={"a": (pod("waiting", priority=5),)}))
    assert len(asked) == 3
    profile.evaluate(pod("three"), first.at(3, nominated={"a": (pod("waiting", priority=5), pod("more"))}))
    assert asked[3:] == [("a", 2)]
    profile.evaluate(pod("four", priority=1), first.at(3, nominated={"a": (pod("waiting", priority=5), pod("more"))}))
    assert asked[4:] == [("a", 1)]
    profile.evaluate(pod("five"), first.place(pod("six"), "a"))
    assert asked[5:] == [("a", 1), ("a", 2)]


def test_a_node_must_do_without_it_too(profile_of: MakeProfile) -> None:
    """A pod that leans on the nominated one must not be placed before it is there."""

    class Company:
        name = "Company"

        def filter_node(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status:
            return SUCCESS if node.pods else unschedulable("lonely")

    profile = profile_of(Company())
    assert profile.evaluate(pod("other"), cluster(pod("waiting"))).message == "0/2 nodes are available: 2 lonely."
