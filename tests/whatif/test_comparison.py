"""Bound pods, compared with where they would have been placed."""

from __future__ import annotations

from typing import Any

import pytest

from tests.whatif.objects import node, pod
from wharfinger.errors import UsageError
from wharfinger.whatif.comparison import NOT_SAMPLED, ComparedPod, Comparison, NodeVerdict, compare, differences
from wharfinger.whatif.inventory import Inventory, Ref
from wharfinger.whatif.simulator.simulator import Simulator

CONFIGURATION = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
AWAY = {
    "podAntiAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {"labelSelector": {"matchLabels": {"app": "web"}}, "topologyKey": "kubernetes.io/hostname"}
        ]
    }
}


def at(minute: int, obj: dict[str, Any]) -> dict[str, Any]:
    """The object, created so many minutes after noon."""
    return {**obj, "metadata": {**obj["metadata"], "creationTimestamp": f"2026-05-01T12:{minute:02}:00Z"}}


def compared(*objects: dict[str, Any], **options: Any) -> Comparison:
    inventory = Inventory()
    for obj in objects:
        inventory.put(obj)
    return compare(inventory, Simulator(), **options)


def only(comparison: Comparison) -> ComparedPod:
    (found,) = comparison.pods
    return found


def test_a_pod_on_the_node_that_would_be_chosen_is_the_same() -> None:
    found = only(compared(node("big", cpu="8"), node("small", cpu="2"), pod("web", nodeName="big")))

    assert (found.verdict, found.node, found.chosen) == (NodeVerdict.SAME, "big", "big")


def test_another_node_of_the_same_score_is_a_tie() -> None:
    nodes = node("a", cpu="4"), node("b", cpu="4")
    both = [only(compared(*nodes, pod("web", nodeName=name))) for name in ("a", "b")]

    assert sorted(found.verdict for found in both) == [NodeVerdict.SAME, NodeVerdict.TIED]
    tied = next(found for found in both if found.verdict is NodeVerdict.TIED)
    assert tied.score == tied.chosen_score


def test_a_node_of_a_lower_score_is_named_with_both_scores() -> None:
    found = only(compared(node("big", cpu="8"), node("small", cpu="2"), pod("web", nodeName="small")))

    assert (found.verdict, found.chosen) == (NodeVerdict.LOWER, "big")
    assert found.score is not None
    assert found.chosen_score is not None
    assert found.score < found.chosen_score


def test_a_node_that_would_be_refused_is_named_with_its_reasons() -> None:
    found = compared(
        node("a", cpu="2"),
        node("b", cpu="2"),
        at(1, pod("first", cpu="2", nodeName="a")),
        at(2, pod("second", cpu="1", nodeName="a")),
    )

    overcommitted = found.pods[1]
    assert (overcommitted.verdict, overcommitted.chosen) == (NodeVerdict.REFUSED, "b")
    assert overcommitted.refusals == {"NodeResourcesFit": ("Insufficient cpu",)}
    assert list(differences(found)) == [overcommitted]


def test_a_pod_that_fits_on_no_node_has_the_message_of_its_refusal() -> None:
    found = only(compared(node("a", cpu="1"), node("b", cpu="1"), pod("web", cpu="2", nodeName="a")))

    assert (found.verdict, found.chosen) == (NodeVerdict.NOWHERE, None)
    assert found.message == "0/2 nodes are available: 2 Insufficient cpu."
    assert found.refusals == {"NodeResourcesFit": ("Insufficient cpu",)}


def test_every_plugin_that_refuses_the_node_is_named_and_counted() -> None:
    taint = {"key": "gpu", "value": "", "effect": "NoSchedule"}
    objects = [node("a", cpu="1", taints=[taint]), node("b", cpu="4")]
    found = compared(*objects, at(1, pod("big", cpu="2", nodeName="a")), at(2, pod("small", cpu="1", nodeName="a")))

    assert found.pods[0].refusals == {
        "TaintToleration": ("node(s) had untolerated taint(s)",),
        "NodeResourcesFit": ("Insufficient cpu",),
    }
    assert found.reasons == {
        ("NodeResourcesFit", "Insufficient cpu"): 2,
        ("TaintToleration", "node(s) had untolerated taint(s)"): 2,
    }


def test_anti_affinity_of_a_running_pod_refuses_the_node_of_a_later_one() -> None:
    """A scheduler that looks at the rules of new pods alone puts both on one node."""
    found = compared(
        node("a"),
        node("b"),
        at(1, pod("alone", nodeName="a", affinity=AWAY)),
        at(2, pod("web", nodeName="a", labels={"app": "web"})),
    )

    assert (found.pods[1].verdict, found.pods[1].chosen) == (NodeVerdict.REFUSED, "b")
    assert list(found.pods[1].refusals) == ["InterPodAffinity"]


def test_each_pod_is_decided_on_the_pods_created_before_it() -> None:
    """The younger pod came to a node that had room, whatever was bound there later."""
    found = compared(
        node("a", cpu="2"),
        at(9, pod("later", cpu="1", nodeName="a", labels={"app": "web"}, affinity=AWAY)),
        at(1, pod("earlier", cpu="1", nodeName="a", labels={"app": "web"})),
    )

    assert [(one.pod.name, one.verdict) for one in found.pods] == [
        ("earlier", NodeVerdict.SAME),
        ("later", NodeVerdict.NOWHERE),
    ]


def test_a_pod_counts_where_it_really_is() -> None:
    """Were the first pod counted on its best node, the second one would be at its best place, too."""
    found = compared(
        node("big", cpu="8"),
        node("small", cpu="4"),
        at(1, pod("first", cpu="2", nodeName="small")),
        at(2, pod("second", cpu="2", nodeName="big")),
    )

    assert [one.verdict for one in found.pods] == [NodeVerdict.LOWER, NodeVerdict.SAME]


def test_create_revisions_go_before_creation_timestamps() -> None:
    pods = [at(1, pod("younger", nodeName="a")), at(2, pod("older", nodeName="a")), at(0, pod("given", nodeName="a"))]
    created = {Ref("Pod", "default", "younger"): 7, Ref("Pod", "default", "older"): 5}

    assert [one.pod.name for one in compared(node("a"), *pods, created=created).pods] == ["older", "younger", "given"]
    assert [one.pod.name for one in compared(node("a"), *pods).pods] == ["given", "younger", "older"]


def test_equal_nodes_are_chosen_as_a_worker_chooses_them() -> None:
    """The tie is broken by the uid; a pod without one has a uid made of its create revision."""
    nodes, revisions = [node(f"n{number}") for number in range(8)], range(1, 5)
    simulator, web = Simulator(), pod("web")
    web["metadata"].pop("uid", None)
    for one in nodes:
        simulator.add(one)
    uids = [{**web, "metadata": {**web["metadata"], "uid": f"rev-{revision}"}} for revision in revisions]
    expected = [simulator.decide(one).node for one in uids]
    bound = {**web, "spec": {**web["spec"], "nodeName": "n0"}}
    created = [{Ref("Pod", "default", "web"): revision} for revision in revisions]

    assert [only(compared(*nodes, bound, created=one)).chosen for one in created] == expected
    assert len(set(expected)) > 1


def test_a_node_outside_the_sample_is_not_compared() -> None:
    nodes = [node(f"n{number}") for number in range(200)]
    inventory = Inventory()
    for obj in (*nodes, pod("web", nodeName="n199")):
        inventory.put(obj)
    found = only(compare(inventory, Simulator({**CONFIGURATION, "percentageOfNodesToScore": 50})))

    assert (found.verdict, found.message) == (NodeVerdict.UNDECIDED, NOT_SAMPLED)


def test_pending_finished_and_lost_pods_are_not_compared() -> None:
    found = compared(
        node("a", cpu="8"),
        pod("pending"),
        pod("lost", nodeName="gone"),
        {**pod("done", nodeName="a"), "status": {"phase": "Succeeded"}},
    )

    assert found.pods == ()
    assert found.notes == (
        "1 pods are bound to nodes that are not there, and count nowhere",
        "1 pods have finished, and are left out",
    )


def test_a_pod_that_is_being_deleted_still_holds_its_room() -> None:
    leaving = at(1, pod("leaving", cpu="2", nodeName="a"))
    leaving["metadata"]["deletionTimestamp"] = "2026-05-01T13:00:00Z"
    found = compared(node("a", cpu="2"), node("b", cpu="2"), leaving, at(2, pod("web", nodeName="a")))

    assert [one.verdict for one in found.pods] == [found.pods[0].verdict, NodeVerdict.REFUSED]
    assert found.pods[0].verdict in (NodeVerdict.SAME, NodeVerdict.TIED)


def test_an_unreadable_pod_counts_with_what_it_holds() -> None:
    broken = pod("broken", cpu="2", nodeName="a")
    broken["spec"]["tolerations"] = 7
    found = compared(node("a", cpu="2"), node("b", cpu="2"), at(1, broken), at(2, pod("web", nodeName="a")))

    assert only(found).refusals == {"NodeResourcesFit": ("Insufficient cpu",)}
    assert found.notes == ("1 bound pods cannot be read: what they hold on their nodes counts, nothing else",)


def test_a_stand_in_is_not_compared_and_counts() -> None:
    found = compared(
        node("a", cpu="2"), at(1, pod("held", cpu="2", nodeName="a")), stand_ins=[Ref("Pod", "default", "held")]
    )

    assert found.pods == ()


def test_a_pod_of_no_profile_is_undecided_and_counts() -> None:
    other = at(1, pod("theirs", cpu="2", nodeName="a", schedulerName="another"))
    found = compared(node("a", cpu="2"), other, at(2, pod("web", nodeName="a")))

    assert [one.verdict for one in found.pods] == [NodeVerdict.UNDECIDED, NodeVerdict.NOWHERE]
    assert "another" in found.pods[0].message


def test_without_a_node_there_is_nothing_to_compare() -> None:
    with pytest.raises(UsageError, match="there is no node"):
        compared(pod("web", nodeName="a"))
