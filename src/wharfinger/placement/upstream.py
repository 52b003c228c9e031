"""KubeFleet's scheduler, cycle by cycle: what the deviations of `deciding` are measured against.

Nothing but the simulator uses it. It keeps bindings as KubeFleet does: one object for each choice, which becomes
Unscheduled when it is given up, and may be revived. All defects are kept too; `deciding` lists those that it mends.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from wharfinger.model.members import Member
from wharfinger.model.placement import Placement
from wharfinger.placement.eligibility import Ages
from wharfinger.placement.upstream_cycle import UpstreamCycle
from wharfinger.placement.upstream_records import Binding, Cycle, Failure, SnapshotStatus, by_name

CYCLES = 1000
"""A bound on the cycles of one attempt; each picks one member at least."""


@dataclass(slots=True)
class UpstreamAttempt:
    """All cycles of an attempt, on a copy of the bindings."""

    placement: Placement
    snapshot: str
    """Name of the active policy snapshot."""
    members: tuple[Member, ...]
    """By name."""
    ages: Mapping[str, Ages]
    unselected_limit: int
    bindings: dict[str, Binding]
    """By id."""
    numbers: dict[str, int]
    """Of the next binding of a member."""
    status: SnapshotStatus | None
    cycles: list[Cycle] = field(default_factory=list)
    wrote: bool = False

    def run(self) -> None:
        """Cycle until nothing is left to do, or a cycle fails."""
        while len(self.cycles) < CYCLES:
            self.cycles.append(self._cycle())
            if not self.cycles[-1].again:
                return

    def _cycle(self) -> Cycle:
        before = dict(self.bindings)
        ran = UpstreamCycle(self)
        outcome = ran.run()
        changed = [one for key, one in self.bindings.items() if before.get(key) != one and not one.deleting]
        return Cycle(
            changed=tuple(sorted(changed, key=by_name)),
            gone=tuple(sorted(before.keys() - self.bindings.keys())),
            again=outcome is True,
            wrote=ran.wrote,
            failure=outcome if isinstance(outcome, Failure) else None,
        )
