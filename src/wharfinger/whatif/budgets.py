"""Disruption budgets as their controller and the eviction API count them.

As in Kubernetes 1.36 (`pkg/controller/disruption`, `pkg/registry/core/pod/storage/eviction.go`). A bound pod that says
nothing of its readiness counts as healthy, because hand-written pods have no status.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from typing import NamedTuple

from wharfinger.errors import InvalidObject
from wharfinger.objects.documents.fields import int_or_percent, integer, mapping, mappings
from wharfinger.objects.documents.selectors import label_selector
from wharfinger.whatif.inventory import Inventory, Obj, Ref, labels_of, node_of

KIND = "PodDisruptionBudget"
_SCALED_TO_1 = ("ReplicaSet", "ReplicationController", "StatefulSet", "Deployment")
"""By default."""
_WITHOUT_SCALE = ("DaemonSet", "Job", "CronJob", "Node")
_UNCOUNTED = "its pods have no controller whose replicas could be counted"


class BudgetStatus(NamedTuple):
    """What the controller of budgets finds."""

    allowed: int
    """Evictions that are possible now."""
    healthy: int
    desired: int
    why: str = ""
    """Why none is allowed, where the numbers do not show it."""

    def as_status(self) -> dict[str, int]:
        """The fields of the budget's status."""
        return {
            "disruptionsAllowed": self.allowed,
            "currentHealthy": self.healthy,
            "desiredHealthy": self.desired,
        }


def with_status(inventory: Inventory, ref: Ref, budget: Obj) -> Obj:
    """The budget as its controller leaves it; itself where it has been counted already. Raises `InvalidObject`."""
    if mapping(budget, "status").get("disruptionsAllowed") is not None:
        return budget
    counted = status_of(inventory, ref, budget)
    return {**budget, "status": {**mapping(budget, "status"), **counted.as_status()}}


def notes_of_drain(inventory: Inventory, displaced: Iterable[tuple[Ref, Obj]]) -> Iterator[str]:
    """Which budgets a drain has to wait for; the result of a simulation shows how it ends.

    `displaced`: the pods that leave, as they were. Budgets and pods that cannot be read count as those of others.
    """
    leaving = list(displaced)
    for ref, budget in inventory.of_kind(KIND):
        try:
            count = sum(not may_always_be_evicted(budget, pod) for _, pod in protected(ref, budget, leaving))
            allowed = integer(mapping(budget, "status"), "disruptionsAllowed", "status.", low=-(2**31), high=2**31 - 1)
            if count > (allowed or 0):
                why = status_of(inventory, ref, budget).why if allowed == 0 else ""
                said = f"disruption budget {ref.namespace}/{ref.name} allows {allowed or 0}"
                then = f"{said} of the {count} evictions by draining at once; the others have to wait"
                yield f"{then} ({why})" if why else then
        except InvalidObject:
            continue


def after_eviction(inventory: Inventory, given: Collection[Ref], pod_ref: Ref, pod: Obj) -> Iterator[tuple[Ref, Obj]]:
    """The given budgets that allow one eviction less now that this pod had to leave."""
    for ref, budget in inventory.of_kind(KIND):
        status = mapping(budget, "status")
        allowed = status.get("disruptionsAllowed")
        if ref in given and isinstance(allowed, int) and allowed > 0 and protected(ref, budget, [(pod_ref, pod)]):
            yield ref, {**budget, "status": {**status, "disruptionsAllowed": allowed - 1}}


def protected(ref: Ref, budget: Obj, pods: Iterable[tuple[Ref, Obj]]) -> list[tuple[Ref, Obj]]:
    """Those of the pods that the budget selects. Raises `InvalidObject`."""
    selector = label_selector(mapping(budget, "spec"), "selector", "spec.")
    if selector is None:
        return []
    return [(of, pod) for of, pod in pods if of.namespace == ref.namespace and selector.matches(labels_of(pod))]


def status_of(inventory: Inventory, ref: Ref, budget: Obj) -> BudgetStatus:
    """Count the pods that the budget selects. Raises `InvalidObject`."""
    pods = protected(ref, budget, inventory.of_kind("Pod"))
    healthy = sum(is_healthy(pod) for _, pod in pods)
    spec = mapping(budget, "spec")
    most = int_or_percent(spec, "maxUnavailable", "spec.", low=0)
    least = int_or_percent(spec, "minAvailable", "spec.", low=0)
    expected, why = len(pods) if least is not None else 0, ""
    if most is not None or (least is not None and least.percent):
        expected = _scale(inventory, pods) or 0
        why = _UNCOUNTED if pods and not expected else ""
    if most is not None:
        desired = max(0, expected - most.of(expected, up=True))
    else:
        desired = 0 if least is None else least.of(expected, up=True)
    allowed = max(0, healthy - desired) if expected > 0 else 0
    return BudgetStatus(allowed, healthy, desired, why)


def is_healthy(pod: Obj) -> bool:
    """Whether a pod counts as ready. Raises `InvalidObject`."""
    status = mapping(pod, "status")
    if not node_of(pod) or mapping(pod, "metadata").get("deletionTimestamp"):
        return False
    for condition in mappings(status, "conditions", "status."):
        if condition.get("type") == "Ready":
            return condition.get("status") == "True"
    return status.get("phase") in (None, "", "Running")


def may_always_be_evicted(budget: Obj, pod: Obj) -> bool:
    """Whether the eviction API deletes the pod whatever the budget allows. Raises `InvalidObject`."""
    if mapping(pod, "status").get("phase") in ("Pending", "Succeeded", "Failed"):
        return True
    if is_healthy(pod):
        return False
    if mapping(budget, "spec").get("unhealthyPodEvictionPolicy") == "AlwaysAllow":
        return True
    status = mapping(budget, "status")
    healthy, desired = status.get("currentHealthy"), status.get("desiredHealthy")
    return isinstance(healthy, int) and isinstance(desired, int) and healthy >= desired > 0


def _scale(inventory: Inventory, pods: Iterable[tuple[Ref, Obj]]) -> int | None:
    """The replicas that the pods' controllers want; None where one of them has no scale.

    Of a controller that is not given, those of its pods that are there count.
    """
    found: dict[Ref, int] = {}
    of_unknown: Counter[Ref] = Counter()
    for ref, pod in pods:
        owners = list(inventory.controllers(ref, pod))
        if owners and owners[0].kind in _WITHOUT_SCALE:
            return None
        replicas = {owner: count for owner in owners if (count := _replicas(inventory.get(owner))) is not None}
        if replicas:
            found.update([list(replicas.items())[-1]])
        elif owners:
            of_unknown[owners[0]] += 1
    return sum(found.values()) + of_unknown.total()


def _replicas(known: Obj | None) -> int | None:
    if known is None:
        return None
    replicas = mapping(known, "spec").get("replicas", 1 if known.get("kind") in _SCALED_TO_1 else None)
    return replicas if isinstance(replicas, int) and not isinstance(replicas, bool) else None
