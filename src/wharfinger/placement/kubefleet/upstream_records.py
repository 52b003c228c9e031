"""What KubeFleet's scheduler stores: bindings and the status of a policy snapshot; and what its cycles did to them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from wharfinger.placement.deciding.filters import PART
from wharfinger.placement.model.placement import MemberScores, PolicyCondition

SCHEDULED, BOUND, UNSCHEDULED = "Scheduled", "Bound", "Unscheduled"
DECISIONS = 1000
"""So many decisions fit into a status."""


@dataclass(frozen=True, slots=True)
class StatusLine:
    """One decision in a status."""

    cluster: str
    selected: bool
    reason: str
    scores: MemberScores | None = None


@dataclass(frozen=True, slots=True)
class Binding:
    """A choice, as KubeFleet stores it."""

    cluster: str
    number: int
    """Among the bindings of its member."""
    state: str
    policy: str
    """Name of the policy snapshot."""
    scores: MemberScores | None
    reason: str
    previous: str = ""
    """The state before it was given up."""
    deleting: bool = False
    works: bool = True
    """Whether works keep it while it is deleted."""
    held: bool = True
    """Whether the scheduler keeps it: until a cycle has seen it deleting."""

    @property
    def id(self) -> str:
        """`<member>#<number>`."""
        return f"{self.cluster}#{self.number}"

    @property
    def line(self) -> StatusLine:
        """What the status says of it."""
        return StatusLine(self.cluster, True, self.reason, self.scores)


@dataclass(frozen=True, slots=True)
class SnapshotStatus:
    """The status of a policy snapshot."""

    generation: int
    condition: PolicyCondition
    lines: tuple[StatusLine, ...]


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a cycle failed."""

    text: str
    again: bool = False
    """Whether KubeFleet tries again by itself."""


@dataclass(frozen=True, slots=True)
class Cycle:
    """What one cycle did."""

    changed: tuple[Binding, ...] = ()
    """New, or other than before."""
    gone: tuple[str, ...] = ()
    """Ids of those that ended."""
    again: bool = False
    """Whether another cycle follows at once."""
    wrote: bool = False
    failure: Failure | None = None


def by_name(binding: Binding) -> tuple[str, int]:
    """The order of bindings' names, of which the random end is taken for the number."""
    return binding.cluster[: PART + 1] + "-", binding.number


def unselected(
    selected: Sequence[StatusLine], not_picked: Iterable[StatusLine], refused: Sequence[StatusLine], limit: int
) -> list[StatusLine]:
    """Those that a status names besides the selected, at most `limit`: who was not picked first, then the refused.

    A refused member that is selected all the same (its labels changed since) is not named, and takes a place.
    """
    seen = {line.cluster for line in selected}
    room = DECISIONS - len(selected)
    found = [line for line in not_picked if line.cluster not in seen][: max(0, min(limit, room))]
    left = max(0, min(limit - len(found), room - len(found)))
    return found + [line for line in refused[:left] if line.cluster not in seen]
