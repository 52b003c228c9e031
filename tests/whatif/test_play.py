"""What would happen to pods, and to the cluster's use."""

from __future__ import annotations

import pytest

from tests.whatif.objects import ask, node, nodes_of, pod, scene, workload
from wharfinger.errors import InvalidObject, UsageError
from wharfinger.objects.model.pod import PodKey
from wharfinger.whatif.changes import MoreNodes, NodeChanges
from wharfinger.whatif.outcome import Cause, Result

ZONE = "topology.kubernetes.io/zone"


def test_pods_go_by_priority_then_in_the_order_of_the_file() -> None:
    answer = ask(node("n", cpu="2"), pod("first"), pod("second"), pod("third"), pod("urgent", priority=10))

    assert nodes_of(answer) == {"first": "n", "second": None, "third": None, "urgent": "n"}
    assert [outcome.pod.name for outcome in answer.pods] == ["first", "second", "third", "urgent"]


def test_pod_that_does_not_fit_has_reasons_and_they_are_grouped() -> None:
    answer = ask(node("n", cpu="1"), pod("a", cpu="2"), pod("b", cpu="3"), pod("c"))

    refused = answer.pods[0]
    assert refused.result is Result.REFUSED
    assert refused.message.startswith("0/1 nodes are available: 1 Insufficient cpu.")
    assert refused.refusals == {"NodeResourcesFit": {"Insufficient cpu": 1}}
    assert answer.reasons == {("Insufficient cpu",): [PodKey("default", "a"), PodKey("default", "b")]}
    assert not answer.complete


def test_use_is_counted_before_and_after() -> None:
    answer = ask(node("n", cpu="4"), pod("there", nodeName="n"), pod("new", cpu="2"))

    assert (answer.before.resources["cpu"].requested, answer.before.resources["cpu"].percent) == (1000, 25.0)
    assert (answer.after.resources["cpu"].requested, answer.after.resources["cpu"].percent) == (3000, 75.0)
    assert answer.after.resources["pods"].requested == 2
    assert list(answer.before.resources) == ["cpu", "memory", "pods"]


def test_preemption_is_played_to_its_end() -> None:
    answer = ask(
        node("a", cpu="2"),
        node("b", cpu="1"),
        pod("low", nodeName="a", cpu="1", owner=("ReplicaSet", "web")),
        pod("lower", nodeName="a", cpu="1"),
        pod("urgent", cpu="2", priority=100),
    )

    urgent, *others = answer.pods
    assert (urgent.result, urgent.node, urgent.nominated_node) == (Result.PREEMPTING, "a", "a")
    assert [victim.name for victim in urgent.victims] == ["low", "lower"]
    assert [(one.pod.name, one.node, one.preemptor.name) for one in answer.evictions] == [
        ("low", "a", "urgent"),
        ("lower", "a", "urgent"),
    ]
    assert {one.cause for one in others} == {Cause.EVICTED}
    assert sorted((one.pod.name, one.node, one.left, one.workload) for one in others) == [
        ("low", "b", "a", "ReplicaSet/web"),
        ("lower", None, "a", ""),
    ]


def test_a_pod_that_a_later_one_helps_is_tried_again() -> None:
    follower = pod("follower", priority=5, affinity={"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
        {"labelSelector": {"matchLabels": {"app": "leader"}}, "topologyKey": "kubernetes.io/hostname"}]}})  # fmt: skip

    answer = ask(node("n"), follower, pod("leader", labels={"app": "leader"}))

    assert nodes_of(answer) == {"follower": "n", "leader": "n"}


def test_gated_pods_and_pods_of_other_schedulers_are_distinguished() -> None:
    answer = ask(
        node("n"), pod("gated", schedulingGates=[{"name": "later"}]), pod("other", schedulerName="somebody-else")
    )

    assert [outcome.result for outcome in answer.pods] == [Result.GATED, Result.FAILED]
    assert "somebody-else" in answer.pods[1].message


def test_priority_classes_count_as_an_api_server_would_have_it() -> None:
    high = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}, "value": 7}
    base = {**high, "metadata": {"name": "base"}, "value": 3, "globalDefault": True, "preemptionPolicy": "Never"}
    answer = ask(node("n", cpu="1"), high, base, pod("a"), pod("b", priorityClassName="high"))

    assert nodes_of(answer) == {"a": None, "b": "n"}


def test_of_several_global_defaults_the_lowest_counts() -> None:
    base = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "globalDefault": True}
    classes = [{**base, "metadata": {"name": f"of-{value}"}, "value": value} for value in (9, 5)]

    answer = ask(node("n", cpu="1"), pod("default"), pod("seven", priority=7), *classes)

    assert nodes_of(answer) == {"default": None, "seven": "n"}


def test_a_pod_whose_class_is_not_given_is_held_back_as_live() -> None:
    (outcome,) = ask(node("n"), pod("a", priorityClassName="nobody")).pods

    assert outcome.result is Result.GATED
    assert outcome.message == "SchedulingGated: no PriorityClass with name nobody was found, or it is invalid"
    assert outcome.refusals == {"PriorityClass": {"no PriorityClass with name nobody was found, or it is invalid": 0}}


def test_a_drained_nodes_pods_go_elsewhere_but_for_its_daemons() -> None:
    objects = [
        node("a"),
        node("b", cpu="1"),
        pod("one", nodeName="a", owner=("ReplicaSet", "web")),
        pod("two", nodeName="a"),
        pod("agent", nodeName="a", owner=("DaemonSet", "agent")),
        pod("static", nodeName="a", owner=("Node", "a")),
        {**pod("over", nodeName="a"), "status": {"phase": "Succeeded"}},
    ]

    answer = ask(*objects, changes=NodeChanges(drained=("a",)))

    assert [(one.pod.name, one.cause, one.left, one.node) for one in answer.pods] == [
        ("one", Cause.DRAINED, "a", "b"),
        ("two", Cause.DRAINED, "a", None),
    ]
    assert "1 node(s) were unschedulable" in answer.pods[1].message
    assert answer.after.resources["pods"].requested == 3


def test_drain_names_the_budgets_it_has_to_wait_for() -> None:
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {"selector": {"matchLabels": {"app": "web"}}},
        "status": {"disruptionsAllowed": 1},
    }
    pods = [pod(f"w{number}", cpu="100m", nodeName="a", labels={"app": "web"}) for number in range(3)]

    answer = ask(node("a"), node("b"), budget, *pods, changes=NodeChanges(drained=("a",)))

    assert answer.complete
    assert answer.notes == (
        "disruption budget default/web allows 1 of the 3 evictions by draining at once; the others have to wait",
    )


def test_a_cordoned_node_takes_no_new_pods_and_keeps_its_own() -> None:
    answer = ask(node("a"), pod("there", nodeName="a"), pod("new"), changes=NodeChanges(cordoned=("a",)))

    assert nodes_of(answer) == {"new": None}
    assert answer.after.resources["pods"].requested == 1


def test_nodes_that_are_added_are_like_the_other_but_new() -> None:
    like = node("a", cpu="1", labels={ZONE: "z"}, unschedulable=True, taints=[
        {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}])  # fmt: skip
    agent = pod("agent", cpu="500m", nodeName="a", owner=("DaemonSet", "agent"))

    answer = ask(
        like, agent, pod("x", cpu="500m", nodeSelector={ZONE: "z"}), pod("y"),
        changes=NodeChanges(more=(MoreNodes(2, "a"),)),
    )  # fmt: skip

    assert nodes_of(answer)["x"] in ("a-new-1", "a-new-2")
    assert nodes_of(answer)["y"] is None, "each new node runs the agent, too"
    assert (answer.before.nodes, answer.after.nodes) == (1, 3)


def test_nodes_that_are_added_declare_the_same_features() -> None:
    like = node("a", unschedulable=True)
    like["status"]["declaredFeatures"] = ["RestartAllContainersOnContainerExits"]
    restarting = pod("x")
    restarting["spec"]["containers"][0]["restartPolicyRules"] = [{"action": "RestartAllContainers"}]

    answer = ask(like, restarting, changes=NodeChanges(more=(MoreNodes(1, "a"),)))

    assert nodes_of(answer) == {"x": "a-new-1"}


def test_changes_combine() -> None:
    answer = ask(
        node("a"), node("b"), pod("x", nodeName="a"),
        changes=NodeChanges(more=(MoreNodes(1, "a"),), cordoned=("b",), drained=("a",)),
    )  # fmt: skip

    assert nodes_of(answer) == {"x": "a-new-1"}


def test_a_daemon_set_reaches_nodes_that_are_added() -> None:
    answer = ask(node("a"), workload("DaemonSet", "agent"), changes=NodeChanges(more=(MoreNodes(1, "a"),)))

    assert nodes_of(answer) == {"agent-a": "a", "agent-a-new-1": "a-new-1"}


def test_a_change_of_a_node_that_is_not_there_is_refused() -> None:
    for changes in (NodeChanges(drained=("x",)), NodeChanges(cordoned=("x",)), NodeChanges(more=(MoreNodes(1, "x"),))):
        with pytest.raises(UsageError, match="there is no node x"):
            ask(node("a"), changes=changes)


def test_simulation_without_a_node_is_an_error() -> None:
    with pytest.raises(UsageError, match="--live"):
        ask(pod("a"))


def test_what_is_given_must_be_readable_and_what_is_live_is_left_out() -> None:
    broken = pod("broken", cpu="many")

    with pytest.raises(InvalidObject, match="Pod default/broken: "):
        ask(node("n"), broken)
    assert ask(node("n"), live=[broken]).notes == ("1 objects of the live state cannot be read and do not count",)


def test_unreadable_bound_pods_of_the_live_state_keep_their_room() -> None:
    misspelt = pod("misspelt", cpu="3", nodeName="a", node_selector={"disk": "ssd"})
    live = [node("a", cpu="4"), node("b", cpu="4"), misspelt, pod("waits", node_name="a")]
    answer = ask(pod("new", cpu="4"), pod("small"), live=live, waiting=True)

    assert nodes_of(answer) == {"new": "b", "small": "a"}
    assert answer.notes == (
        "1 objects of the live state cannot be read and do not count",
        "1 bound pods of the live state cannot be read: what they hold on their nodes counts, nothing else",
    )
    drained = ask(pod("large", cpu="4"), live=[*live[:3]], changes=NodeChanges(drained=("a",)))
    assert nodes_of(drained) == {"large": "b"}
    assert "1 pods of drained nodes cannot be read and are placed nowhere" in drained.notes


def test_waiting_pods_of_the_live_state_are_placed_only_when_asked_for() -> None:
    live = [node("n", cpu="1"), pod("waits", priority=1), pod("not-ours", schedulerName="somebody-else")]

    assert nodes_of(ask(pod("new"), live=live)) == {"new": "n"}
    assert nodes_of(ask(pod("new"), live=live, waiting=True)) == {"new": None, "waits": "n"}


def test_a_given_pod_that_is_bound_in_the_live_state_stays_there() -> None:
    answer = ask(pod("web", cpu="3"), live=[node("n"), pod("web", nodeName="n")])

    assert answer.pods == ()
    assert answer.before.resources["cpu"].requested == 3000


def test_pods_on_nodes_that_are_not_there_are_mentioned() -> None:
    assert ask(node("a"), pod("x", nodeName="gone")).notes == (
        "1 pods are bound to nodes that are not there, and count nowhere",
    )


def test_asking_twice_gives_the_same_answer() -> None:
    objects = [node("a"), node("b"), workload("Deployment", "web", replicas=5), pod("x", priority=3)]

    assert ask(*objects) == ask(*objects)


def test_a_configuration_decides() -> None:
    config = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{"plugins": {"multiPoint": {"disabled": [{"name": "NodeResourcesFit"}]}}}],
    }

    assert nodes_of(ask(node("n", cpu="1"), pod("big", cpu="9"), config=config)) == {"big": "n"}


def test_the_scene_keeps_nothing_of_what_it_was_given_changed() -> None:
    objects = [node("a"), pod("x", nodeName="a"), workload("Deployment", "web", replicas=2)]
    before = repr(objects)

    made = scene(objects)
    made.change(NodeChanges(drained=("a",)))
    made.given_pods()

    assert repr(objects) == before


def test_devices_of_a_class_are_named_and_never_insufficient() -> None:
    """A node whose device plugin has the resource decides as for any extended resource."""
    gpu = "example.com/gpu"
    of_class = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": {"name": "gpu"},
        "spec": {"extendedResourceName": gpu, "selectors": [{"cel": {"expression": "true"}}]},
    }
    wanted = pod("p")
    wanted["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "1", gpu: "1"}, "limits": {gpu: "1"}}
    plugin = node("plugin")
    plugin["status"]["allocatable"][gpu] = "1"

    refused = ask(of_class, node("plain"), wanted).pods[0]
    assert refused.message.startswith(f"0/1 nodes are available: 1 devices are not decided here ({gpu}).")
    assert "Insufficient" not in refused.message
    assert nodes_of(ask(of_class, node("plain"), plugin, wanted)) == {"p": "plugin"}
