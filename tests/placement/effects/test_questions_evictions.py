"""Which evictions are carried out: KubeFleet's checks, in its order and its words."""

from __future__ import annotations

import pytest

from tests.placement.deciding.cases import decided, fixed, member, pick
from wharfinger.objects.model.quantities import IntOrPercent
from wharfinger.placement.effects.questions import Delivered, judge_eviction
from wharfinger.placement.model.placement import (
    Eviction,
    EvictionOutcome,
    Placement,
    PlacementBudget,
    PlacementPolicy,
    PlacementRef,
)

REF = PlacementRef("", "web")
EVERYWHERE = Delivered(present={"a", "b", "c"}, available={"a", "b", "c"})


def ended(
    cluster: str = "a",
    policy: PlacementPolicy | None = None,
    delivered: Delivered = EVERYWHERE,
    budget: PlacementBudget | None = None,
    *,
    deleting: bool = False,
) -> EvictionOutcome:
    policy = policy or pick(3)
    placement = Placement(REF, 1, policy, deleting=deleting)
    decision = decided(policy, [member(name) for name in "abc"])
    return judge_eviction(Eviction("e", REF, cluster), placement, decision.chosen, delivered, budget)


def test_an_eviction_without_a_placement_is_invalid() -> None:
    found = judge_eviction(Eviction("e", REF, "a"), None, (), Delivered(), None)
    assert found == EvictionOutcome(False, False, "Failed to find ClusterResourcePlacement targeted by eviction")


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (ended(deleting=True), "Found deleting"),
        (ended(policy=fixed("a", "b")), "with PickFixed placement type"),
        (ended("z"), "Failed to find scheduler decision"),
    ],
)
def test_what_cannot_be_evicted_makes_it_invalid(found: EvictionOutcome, said: str) -> None:
    assert not found.valid
    assert not found.executed
    assert said in found.message


@pytest.mark.parametrize(
    ("found", "executed", "said"),
    [
        (ended(), True, "no ClusterResourcePlacementDisruptionBudget specified"),
        (ended(delivered=Delivered()), False, "has not propagated resources"),
        (ended(delivered=Delivered(present={"a"}, failed={"a"})), True, "placement has failed"),
        (ended(delivered=Delivered(present={"a"}, removing={"a"})), True, "currently being removed"),
        (ended("z", delivered=Delivered(removing={"z"})), True, "currently being removed"),
    ],
)
def test_a_valid_eviction_is_carried_out_or_says_why_not(found: EvictionOutcome, executed: bool, said: str) -> None:
    assert (found.valid, found.executed) == (True, executed)
    assert said in found.message


@pytest.mark.parametrize(
    ("budget", "available", "executed"),
    [
        (PlacementBudget(max_unavailable=IntOrPercent(1)), "abc", True),
        (PlacementBudget(max_unavailable=IntOrPercent(1)), "bc", False),
        (PlacementBudget(max_unavailable=IntOrPercent(0)), "abc", False),
        (PlacementBudget(max_unavailable=IntOrPercent(34, percent=True)), "bc", True),
        (PlacementBudget(max_unavailable=IntOrPercent(1, percent=True)), "abc", True),
        (PlacementBudget(min_available=IntOrPercent(2)), "abc", True),
        (PlacementBudget(min_available=IntOrPercent(3)), "abc", False),
        (PlacementBudget(min_available=IntOrPercent(2)), "bc", False),
        (PlacementBudget(min_available=IntOrPercent(67, percent=True)), "abc", False),
        (PlacementBudget(min_available=IntOrPercent(66, percent=True)), "abc", True),
    ],
)
def test_a_budget_allows_as_many_disruptions(budget: PlacementBudget, available: str, *, executed: bool) -> None:
    found = ended(delivered=Delivered(present=set("abc"), available=set(available)), budget=budget)
    assert found.executed is executed
    assert found.message.endswith(f"availablePlacements: {len(available)}, totalPlacements: 3")


@pytest.mark.parametrize(
    ("budget", "executed"),
    [
        (PlacementBudget(max_unavailable=IntOrPercent(1)), False),
        (PlacementBudget(max_unavailable=IntOrPercent(2)), True),
        (PlacementBudget(min_available=IntOrPercent(2)), True),
        (PlacementBudget(min_available=IntOrPercent(3)), False),
    ],
)
def test_who_was_just_evicted_counts_as_unavailable(budget: PlacementBudget, *, executed: bool) -> None:
    placement = Placement(REF, 1, pick(4))
    decision = decided(placement.policy, [member(name) for name in "abc"])
    found = judge_eviction(Eviction("e", REF, "a"), placement, decision.chosen, EVERYWHERE, budget, evicted=1)
    assert found.executed is executed
    assert found.message.endswith("availablePlacements: 3, totalPlacements: 4")


@pytest.mark.parametrize(
    ("budget", "executed"),
    [
        (PlacementBudget(max_unavailable=IntOrPercent(1)), False),
        (PlacementBudget(min_available=IntOrPercent(50, percent=True)), False),
        (PlacementBudget(min_available=IntOrPercent(2)), True),
        (PlacementBudget(min_available=IntOrPercent(3)), False),
    ],
)
def test_pick_all_takes_only_a_number_that_must_be_available(budget: PlacementBudget, *, executed: bool) -> None:
    assert ended(policy=PlacementPolicy(), budget=budget).executed is executed
