"""Evictions of a placement from a member, and the budget of disruptions that they may not exceed."""

from __future__ import annotations

from dataclasses import dataclass

from wharfinger.objects.model.int_or_percent import IntOrPercent
from wharfinger.placement.model.placement import PlacementRef


@dataclass(frozen=True, slots=True)
class PlacementBudget:
    """How many members may be unavailable, or must be available; exactly one of the two is said."""

    max_unavailable: IntOrPercent | None = None
    min_available: IntOrPercent | None = None


@dataclass(frozen=True, slots=True)
class Eviction:
    """A user's wish that a placement leaves a member."""

    name: str
    placement: PlacementRef
    cluster: str


@dataclass(frozen=True, slots=True)
class EvictionOutcome:
    """How an eviction ended. It is written once."""

    valid: bool
    executed: bool
    message: str
