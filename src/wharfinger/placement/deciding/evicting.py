"""Whether a placement may be evicted from a member. Checks, order and words are KubeFleet's."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from wharfinger.placement.model.evictions import Eviction, EvictionOutcome, PlacementBudget
from wharfinger.placement.model.placement import Placement, PlacementDecision, PlacementType

_NO_PLACEMENT = "Failed to find ClusterResourcePlacement targeted by eviction"
_DELETING = "Found deleting ClusterResourcePlacement targeted by eviction"
_FIXED = "Found ClusterResourcePlacement with PickFixed placement type targeted by eviction"
_NOT_CHOSEN = "Failed to find scheduler decision for placement in cluster targeted by eviction"
_ALLOWED = "Eviction is allowed, no ClusterResourcePlacementDisruptionBudget specified"
_LEAVING = (
    "Eviction is allowed, "
    "resources propagated by placement is currently being removed from cluster targeted by eviction"
)
_FAILED = "Eviction is allowed, placement has failed"
_WRONG_BUDGET = (
    "Eviction is blocked by misconfigured ClusterResourcePlacementDisruptionBudget, either MaxUnavailable is specified "
    "or MinAvailable is specified as a percentage for PickAll ClusterResourcePlacement"
)
_NOTHING_THERE = "Eviction is blocked, placement has not propagated resources to target cluster yet"
_BUDGET = "by specified ClusterResourcePlacementDisruptionBudget, availablePlacements: {}, totalPlacements: {}"


@dataclass(frozen=True, slots=True)
class Delivered:
    """Where a placement is, and how it does there: names of members."""

    present: Collection[str] = ()
    """Members that have something of it."""
    available: Collection[str] = ()
    """Reachable members of the decision on which all of it is available."""
    failed: Collection[str] = ()
    """Members on which it failed, or only differences are reported."""
    removing: Collection[str] = ()
    """Members that it is being removed from."""


def judge_eviction(
    eviction: Eviction,
    placement: Placement | None,
    decision: PlacementDecision | None,
    delivered: Delivered,
    budget: PlacementBudget | None,
    *,
    evicted: int = 0,
) -> EvictionOutcome:
    """How an eviction ends. The decision that follows from an executed one is stored with it.

    `evicted`: members that left the decision by evictions before this one, and have no successors yet.
    """
    if placement is None:
        return EvictionOutcome(False, False, _NO_PLACEMENT)
    if placement.deleting:
        return EvictionOutcome(False, False, _DELETING)
    if placement.policy.type is PlacementType.PICK_FIXED:
        return EvictionOutcome(False, False, _FIXED)
    name = eviction.cluster
    if name in delivered.removing:
        return EvictionOutcome(True, True, _LEAVING)
    if decision is None or name not in decision.names:
        return EvictionOutcome(False, False, _NOT_CHOSEN)
    if name not in delivered.present:
        return EvictionOutcome(True, False, _NOTHING_THERE)
    if name in delivered.failed:
        return EvictionOutcome(True, True, _FAILED)
    if budget is None:
        return EvictionOutcome(True, True, _ALLOWED)
    return _by_budget(placement, decision, delivered, budget, evicted)


def _by_budget(
    placement: Placement, decision: PlacementDecision, delivered: Delivered, budget: PlacementBudget, evicted: int
) -> EvictionOutcome:
    least, most = budget.min_available, budget.max_unavailable
    if placement.policy.type is PlacementType.PICK_ALL and (most is not None or (least is not None and least.percent)):
        return EvictionOutcome(True, False, _WRONG_BUDGET)
    total = len(decision.chosen) + evicted
    available = sum(one.name in delivered.available for one in decision.chosen)
    wanted = placement.policy.number or 0
    room = 0
    if most is not None:
        room = most.of(wanted, up=True) - (total - available)
    elif least is not None:
        room = available - least.of(wanted, up=True)
    told = _BUDGET.format(available, total)
    if room > 0:
        return EvictionOutcome(True, True, f"Eviction is allowed {told}")
    return EvictionOutcome(True, False, f"Eviction is blocked {told}")
