"""What a placement has on its members, and the steps that bring there what was decided: facts, before any decision.

*Chosen* is the decision's, *delivered* the work's, *available* the result's. `deciding.rolling` decides the steps;
`contracts.delivery_records` keeps works and results.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Literal

from wharfinger.objects.model.int_or_percent import IntOrPercent
from wharfinger.placement.model.contents import ResourceSelector

Want = Literal["present", "absent", "release"]
"""What a member shall do with the objects: have them, delete them, or keep them as nobody's."""


QUARTER = IntOrPercent(25, percent=True)


@dataclass(frozen=True, slots=True)
class RolloutBudget:
    """How many members change at a time. The defaults are KubeFleet's."""

    max_unavailable: IntOrPercent = QUARTER
    max_surge: IntOrPercent = QUARTER
    unavailable_period: float = 60.0
    """Seconds after which what cannot be tracked counts as ready."""


@dataclass(frozen=True, slots=True)
class DeliverySpec:
    """How a placement is delivered."""

    budget: RolloutBudget = field(default_factory=RolloutBudget)
    strategy: Mapping[str, Any] = field(default_factory=dict)
    """How objects are applied, complete: as `ApplyStrategyFields.complete` of `spec.placement_fields` makes it."""
    external: bool = False
    """Whether update runs deliver it."""
    selectors: tuple[ResourceSelector, ...] = ()


@dataclass(frozen=True, slots=True)
class MemberDelivery:
    """How a placement stands on one member."""

    member: str
    chosen: bool = False
    want: Want | None = None
    """Of its work; None = it has none."""
    there: bool = True
    """Whether the member that the work is for is there: not gone, and not joined anew since."""
    current: bool = True
    """Whether the work has the wanted contents and overrides."""
    same_strategy: bool = True
    """Whether the work has the wanted apply strategy."""
    reachable: bool = True
    available: bool = False
    """Whether its result says so of these contents."""
    untrackable: bool = False
    """Whether that is said of what cannot be tracked."""
    failed: bool = False
    passing: bool = False
    """Whether the cause of the failure may end."""
    reported: bool = False
    """Whether only differences are told of, and they were."""
    gone: bool = False
    """Whether nothing is there any more."""
    outrun: bool = False
    """Whether the member has seen a later work than this: the hub was restored from a backup."""
    applied: bool = False
    """Whether its result says that all was applied."""
    unchanged: float = 0.0
    """Seen seconds for which it has been as it is: available, or applied and not available."""
    leaving: bool = False
    yields: bool = False
    """Whether it leaves or is drained: what comes in its place comes first."""


class StepKind(StrEnum):
    """What is done about one member."""

    ADD = "add"
    UPDATE = "update"
    STRATEGY = "strategy"
    """Only another apply strategy."""
    REMOVE = "remove"
    DROP = "drop"
    """Work and result go: nothing is there, or the member is another one."""


@dataclass(frozen=True, slots=True)
class RolloutStep:
    """One member whose work changes."""

    member: str
    kind: StepKind
    want: Want = "present"
    ready: bool = False
    """Whether it takes a member away that is counted on."""
    free: bool = False
    """Whether it is done beyond the budget, because the member was not available."""


@dataclass(frozen=True, slots=True)
class RolloutSteps:
    """What follows now."""

    steps: tuple[RolloutStep, ...] = ()
    held: tuple[str, ...] = ()
    """Members that wait for the budget."""
    waiting: tuple[str, ...] = ()
    """Reachable members whose result is awaited."""
    away: tuple[str, ...] = ()
    """Members without an agent whose result is awaited."""
    failed: tuple[str, ...] = ()
    timer: float | None = None
    """Seconds until a member counts as ready by itself, where that lets something go on."""
    target: int = 0
    ready: int = 0
    floor: int = 0
    ceiling: int = 0

    @property
    def settled(self) -> bool:
        """Whether everything is where it shall be, and said to be."""
        return not (self.steps or self.held or self.waiting or self.away or self.failed)
