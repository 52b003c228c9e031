"""Single rules of admission: scopes of quotas, amounts of pods, and what budgets count."""

from __future__ import annotations

from typing import Any

import pytest

from tests.whatif.objects import pod, workload
from wharfinger.errors import InvalidObject
from wharfinger.whatif.admission.amounts import best_effort, pod_limits, pod_requests, shown
from wharfinger.whatif.admission.quotas import is_counted_for, scopes_of, usage_of
from wharfinger.whatif.budgets import BudgetStatus, may_always_be_evicted, status_of
from wharfinger.whatif.inventory import Inventory

NANO = 10**9
ACROSS = {"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [
    {"weight": 1, "podAffinityTerm": {"topologyKey": "zone", "namespaceSelector": {}}}]}}  # fmt: skip


def container(requests: dict[str, Any] | None = None, limits: dict[str, Any] | None = None, **more: Any) -> Any:
    return {"name": "c", "resources": {"requests": requests or {}, "limits": limits or {}}, **more}


@pytest.mark.parametrize(
    ("scope", "spec", "matches"),
    [
        ({"scopes": ["Terminating"]}, {"activeDeadlineSeconds": 0}, True),
        ({"scopes": ["NotTerminating"]}, {"activeDeadlineSeconds": 5}, False),
        ({"scopes": ["BestEffort"]}, {"containers": [container({"example.com/gpu": 1})]}, True),
        ({"scopes": ["NotBestEffort"]}, {"initContainers": [container(limits={"cpu": 1})]}, True),
        ({"scopes": ["BestEffort"]}, {"resources": {"requests": {"cpu": 1}}, "containers": [container()]}, False),
        ({"scopes": ["PriorityClass"]}, {"priorityClassName": "high"}, True),
        ({"scopes": ["CrossNamespacePodAffinity"]}, {"affinity": ACROSS}, True),
        ({"scopes": ["CrossNamespacePodAffinity"]}, {}, False),
        ({"scopes": ["VolumeAttributesClass"]}, {}, False),
        (("PriorityClass", "In", ["low", "high"]), {"priorityClassName": "high"}, True),
        (("PriorityClass", "NotIn", ["high"]), {}, True),
        (("PriorityClass", "DoesNotExist", []), {"priorityClassName": "high"}, False),
    ],
)
def test_scope_of_a_quota_matches_pods(scope: Any, spec: dict[str, Any], matches: bool) -> None:
    if isinstance(scope, tuple):
        name, operator, values = scope
        expression = {"scopeName": name, "operator": operator, "values": values}
        scope = {"scopeSelector": {"matchExpressions": [expression]}}

    assert all(one.matches("Pod", {"spec": spec}) for one in scopes_of(scope)) is matches


def test_scope_with_an_unknown_operator_is_refused() -> None:
    wrong = {"scopeSelector": {"matchExpressions": [{"scopeName": "PriorityClass", "operator": "Gt"}]}}

    with pytest.raises(InvalidObject, match=r"spec.scopeSelector.matchExpressions\[0\].operator 'Gt' is none of"):
        scopes_of(wrong)


def test_pod_uses_a_quota_by_its_requests_limits_and_overhead() -> None:
    spec = {
        "overhead": {"cpu": "100m"},
        "initContainers": [container({"cpu": "2"}), container({"memory": "1Gi"}, restartPolicy="Always")],
        "containers": [container({"cpu": "1"}, {"memory": "2Gi", "example.com/gpu": 1, "hugepages-2Mi": "4Mi"})],
    }

    used = usage_of("Pod", {"spec": spec})

    assert {name: shown(name, amount) for name, amount in used.items() if not name.startswith("count/")} == {
        "pods": "1",
        "cpu": "2100m",
        "requests.cpu": "2100m",
        "memory": "3Gi",
        "requests.memory": "3Gi",
        "limits.memory": "2Gi",
        "requests.example.com/gpu": "1",
        "hugepages-2Mi": "4Mi",
        "requests.hugepages-2Mi": "4Mi",
    }
    assert used.keys() <= {name for name in used if is_counted_for("Pod", name)}
    assert usage_of("Pod", {"spec": spec, "status": {"phase": "Failed"}}) == {"count/pods": NANO}


def test_pod_level_resources_replace_those_of_containers() -> None:
    spec = {"resources": {"limits": {"cpu": "4"}}, "containers": [container({"cpu": "1"}, {"cpu": "2"})]}

    assert (pod_requests(spec, overhead=True), pod_limits(spec, overhead=True)) == ({"cpu": NANO}, {"cpu": 4 * NANO})
    assert not best_effort(spec)


@pytest.mark.parametrize(
    ("resource", "nanos", "text"),
    [
        ("cpu", 1_500_000_000, "1500m"),
        ("cpu", 2 * NANO, "2"),
        ("memory", 2**31 * NANO, "2Gi"),
        ("memory", 1000 * NANO, "1000"),
        ("requests.storage", 0, "0"),
        ("pods", 1024 * NANO, "1024"),
    ],
)
def test_amounts_are_written_as_kubernetes_writes_them(resource: str, nanos: int, text: str) -> None:
    assert shown(resource, nanos) == text


def budget(**spec: Any) -> dict[str, Any]:
    about = {"name": "b", "namespace": "default"}
    spec = {"selector": {"matchLabels": {"app": "web"}}, **spec}
    return {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": about, "spec": spec}


@pytest.mark.parametrize(
    ("spec", "owner", "allowed"),
    [
        ({"minAvailable": 1}, None, 2),
        ({"minAvailable": 4}, None, 0),
        ({"maxUnavailable": 1}, ("ReplicaSet", "web"), 0),
        ({"maxUnavailable": "50%"}, ("ReplicaSet", "web"), 1),
        ({"minAvailable": "50%"}, ("ReplicaSet", "not-given"), 1),
        ({"maxUnavailable": 2}, ("ReplicaSet", "not-given"), 2),
        ({"maxUnavailable": 2}, ("Job", "sum"), 0),
        ({"maxUnavailable": 2}, None, 0),
        ({}, None, 0),
    ],
)
def test_budget_allows_evictions_as_its_controller_counts(spec: Any, owner: Any, allowed: int) -> None:
    inventory = Inventory()
    ref = inventory.put(budget(**spec))
    inventory.put(workload("ReplicaSet", "web", replicas=4))
    for name in ("a", "b", "c"):
        inventory.put(pod(name, owner=owner, nodeName="n", labels={"app": "web"}))
    inventory.put(pod("waits", owner=owner, labels={"app": "other"}))

    assert status_of(inventory, ref, budget(**spec)).allowed == allowed


def test_unready_pods_need_no_budget_where_enough_are_healthy() -> None:
    unready = {**pod("a", nodeName="n"), "status": {"conditions": [{"type": "Ready", "status": "False"}]}}
    enough, too_few = (budget() | {"status": BudgetStatus(0, healthy, 2).as_status()} for healthy in (2, 1))

    assert may_always_be_evicted(enough, unready)
    assert not may_always_be_evicted(too_few, unready)
    assert may_always_be_evicted(budget(unhealthyPodEvictionPolicy="AlwaysAllow"), unready)
    assert not may_always_be_evicted(enough, pod("b", nodeName="n"))
