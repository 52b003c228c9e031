"""Which pods workloads stand for."""

from __future__ import annotations

import pytest

from tests.whatif.objects import SMALL, ask, node, nodes_of, pod, workload
from wharfinger.errors import InvalidObject, UsageError
from wharfinger.whatif.inventory import Inventory
from wharfinger.whatif.workloads import MissingPods

BIG = node("n1", cpu="100")
TAINT = {"key": "dedicated", "value": "x", "effect": "NoSchedule"}


def names(*objects: object, **options: object) -> list[str]:
    return sorted(nodes_of(ask(BIG, *objects, **options)))  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", ["Deployment", "ReplicaSet", "ReplicationController"])
def test_workload_has_as_many_pods_as_replicas_and_one_by_default(kind: str) -> None:
    assert names(workload(kind, "web", replicas=3)) == ["web-1", "web-2", "web-3"]
    assert names(workload(kind, "web")) == ["web-1"]
    assert names(workload(kind, "web", replicas=0)) == []


def test_stateful_set_pods_are_numbered_and_existing_ones_are_left_out() -> None:
    there = pod("db-1", owner=("StatefulSet", "db"), nodeName="n1")

    assert names(workload("StatefulSet", "db", replicas=3), there) == ["db-0", "db-2"]
    assert names(workload("StatefulSet", "db", replicas=2, ordinals={"start": 5})) == ["db-5", "db-6"]


def test_stateful_set_claims_are_made_unless_they_are_there() -> None:
    templates = [{"metadata": {"name": "data"}, "spec": {"storageClassName": "fast"}}]
    waits = {"provisioner": "disk.example.com", "volumeBindingMode": "WaitForFirstConsumer"}
    fast = {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "fast"}, **waits}
    lost = {"spec": {"volumeName": "gone"}, "status": {"phase": "Lost"}}
    there = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data-db-1"}, **lost}

    first, second = ask(
        BIG, fast, there, workload("StatefulSet", "db", replicas=2, volumeClaimTemplates=templates)
    ).pods

    assert first.node == "n1"
    assert 'persistentvolumeclaim "data-db-1" bound to non-existent persistentvolume "gone"' in second.message


def test_a_job_counts_as_the_pods_that_run_at_a_time() -> None:
    assert len(names(workload("Job", "sum", parallelism=3, completions=10))) == 3
    assert len(names(workload("Job", "sum", parallelism=3, completions=2))) == 2
    assert len(names(workload("Job", "sum", parallelism=3))) == 3
    assert len(names({**workload("Job", "sum", parallelism=3, completions=4), "status": {"succeeded": 3}})) == 1
    assert names(workload("Job", "sum", suspend=True)) == []
    done = {"conditions": [{"type": "Complete", "status": "True"}]}
    assert names({**workload("Job", "sum"), "status": done}) == []


def test_a_cron_job_counts_as_one_run() -> None:
    assert len(names(workload("CronJob", "nightly", parallelism=2, completions=2))) == 2
    assert names(workload("CronJob", "nightly", suspend=True)) == []
    running = pod("nightly-28391040-abc", owner=("Job", "nightly-28391040"), nodeName="n1")
    assert names(workload("CronJob", "nightly"), running) == []


def test_pods_that_a_workload_has_are_not_counted_twice() -> None:
    replica_set = workload("ReplicaSet", "web-77", replicas=3)
    replica_set["metadata"]["ownerReferences"] = [{"kind": "Deployment", "name": "web", "controller": True}]
    owned = pod("web-77-x", owner=("ReplicaSet", "web-77"), nodeName="n1")

    assert len(names(workload("Deployment", "web", replicas=3), replica_set, owned)) == 2
    assert len(names(workload("Deployment", "web", replicas=3), live=[replica_set, owned])) == 2


def test_missing_replica_set_is_recognised_by_the_hash_in_its_name() -> None:
    owned = pod("web-77-x", owner=("ReplicaSet", "web-77"), nodeName="n1", labels={"pod-template-hash": "77"})

    assert len(names(workload("Deployment", "web", replicas=2), owned)) == 1


def test_a_pending_pod_of_a_workload_is_placed_once() -> None:
    owned = pod("web-x", owner=("ReplicaSet", "web"))

    assert names(workload("ReplicaSet", "web", replicas=2), owned) == ["web-1", "web-x"]


def test_pods_that_have_ended_or_are_leaving_do_not_count() -> None:
    over = {**pod("web-a", owner=("ReplicaSet", "web"), nodeName="n1"), "status": {"phase": "Failed"}}
    leaving = pod("web-b", owner=("ReplicaSet", "web"), nodeName="n1")
    leaving["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"

    assert names(workload("ReplicaSet", "web"), over, leaving) == ["web-1"]


def test_replica_set_adopts_selected_pods_without_a_controller() -> None:
    orphan = pod("lone", nodeName="n1", labels={"app": "web"})

    assert names(workload("ReplicaSet", "web", replicas=2), orphan) == ["web-1"]
    assert len(names(workload("Deployment", "web", replicas=2), orphan)) == 2


def test_a_daemon_set_has_a_pod_on_each_node_that_its_controller_chooses() -> None:
    nodes = [
        node("a"),
        node("b", unschedulable=True, taints=[{"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}]),
        node("c", taints=[TAINT]),
        node("d", labels={"disk": "no"}),
        node("full", cpu="500m"),
    ]
    selector = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
        {"matchExpressions": [{"key": "disk", "operator": "DoesNotExist"}]}]}}}  # fmt: skip

    answer = ask(*nodes, workload("DaemonSet", "agent", {**SMALL, "affinity": selector}))

    assert nodes_of(answer) == {"agent-a": "a", "agent-b": "b", "agent-full": None}


def test_a_node_that_a_daemon_set_serves_already_gets_no_second_pod() -> None:
    there = pod("agent-x", owner=("DaemonSet", "agent"), nodeName="a")

    assert nodes_of(ask(node("a"), node("b"), workload("DaemonSet", "agent"), there)) == {"agent-b": "b"}


def test_pods_that_are_made_take_no_name_of_a_pod_that_is_there() -> None:
    others = [pod("agent-a", nodeName="a", cpu="100m"), pod("web-1", nodeName="a", cpu="100m")]

    answer = ask(node("a"), *others, workload("DaemonSet", "agent"), workload("Deployment", "web"))

    assert sorted(nodes_of(answer)) == ["agent-a-2", "web-2"]
    assert answer.after.resources["pods"].requested == 4
    twins = [workload("Deployment", "web"), workload("ReplicaSet", "web"), workload("ReplicationController", "web")]
    assert names(*twins) == ["web-1", "web-2", "web-3"]


def test_default_spreading_uses_the_replica_set_of_a_deployment() -> None:
    nodes = [node(f"n{number}", labels={"topology.kubernetes.io/zone": f"z{number}"}) for number in range(3)]

    answer = ask(*nodes, workload("Deployment", "web", replicas=3))

    assert sorted(filter(None, nodes_of(answer).values())) == ["n0", "n1", "n2"]


@pytest.mark.parametrize(
    ("broken", "said"),
    [
        (workload("Deployment", "web", replicas=-1), "Deployment default/web: replicas is no integer"),
        (workload("Deployment", "web", replicas="3"), "Deployment default/web: replicas is no integer"),
        ({**workload("Job", "j"), "spec": {}}, "Job default/j: spec.template.spec is missing"),
        ({**workload("CronJob", "j"), "spec": {}}, "spec.jobTemplate.spec.template.spec is missing"),
        ({**workload("DaemonSet", "d"), "spec": {}}, "DaemonSet default/d: spec.template.spec is missing"),
    ],
)
def test_problem_of_a_workload_is_reported_with_its_name(broken: dict[str, object], said: str) -> None:
    with pytest.raises(InvalidObject, match=said):
        ask(BIG, broken)


def test_too_many_pods_are_refused() -> None:
    with pytest.raises(UsageError, match="more than 200,000 pods"):
        ask(BIG, workload("Deployment", "web", replicas=2_000_000_000))


def test_too_many_pods_of_several_workloads_are_refused() -> None:
    inventory = Inventory()
    given = [inventory.put(workload("ReplicationController", name, replicas=3)) for name in ("a", "b")]

    missing = MissingPods(inventory, given, limit=5)

    with pytest.raises(UsageError, match="more than 5 pods"):
        [pod for ref in given for pod in missing.of(ref)]
