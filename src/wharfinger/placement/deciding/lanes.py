"""Lanes of a staged update run: members that are written in order, only so many of them unfinished at a time.

A stage is a lane, a stage that is rolled back is one, and so is the removal at the end. `deciding.staging` decides
which lane it is the turn of.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from wharfinger.placement.model.update_runs import (
    FAILING_DEADLINE,
    MemberOutcome,
    MemberProgress,
    MemberSeen,
    MemberWrite,
    PlannedMember,
    RunContents,
)

EPSILON = 1e-6
"""Seconds that do not matter."""
GONE = MemberSeen(gone=True)


@dataclass(frozen=True, slots=True)
class RunLane:
    """Members in the order of their turns, and what is done with them."""

    kind: Literal["forward", "back", "removal"]
    members: tuple[PlannedMember, ...]
    limit: int
    """Members that may be unfinished at a time."""
    deadline: float | None = None
    """Seen seconds within which a member must be ready; None = it may only not fail for `FAILING_DEADLINE`."""

    def skips(self, found: MemberSeen) -> str:
        """Why a member is left alone; empty when it is not."""
        if found.gone:
            return "it has left"
        if found.leaving:
            return "it is leaving"
        if self.kind == "removal":
            return "it is chosen again" if found.chosen else ""
        return "" if found.chosen else "it is not chosen any more"

    def judged(self, was: MemberProgress, found: MemberSeen) -> MemberProgress:
        """The progress of a member without an outcome, after what was found."""
        if self.kind == "removal" and found.updated:
            return replace(was, outcome=MemberOutcome.UPDATED, why="")
        skipped = self.skips(found)
        if skipped:
            return replace(was, outcome=MemberOutcome.SKIPPED, why=skipped)
        if found.updated:
            return replace(was, outcome=MemberOutcome.UPDATED, why="")
        if not was.counter:
            return was
        if not found.written:
            return replace(was, outcome=MemberOutcome.FAILED, why="something else has changed its work")
        # A rollback and a removal may not hang on a member that is away: its agent does the work when it is back.
        if self.kind != "forward" and not found.reachable:
            return replace(was, outcome=MemberOutcome.SKIPPED, why="it is unreachable; its work is written")
        if self.kind == "removal":  # the agent goes on trying, and there is nothing to fall back to
            return replace(was, why=found.why)
        if found.failed and not found.passing:
            return replace(was, outcome=MemberOutcome.FAILED, why=found.why or "it has failed")
        unready = found.why if found.reachable else "it is unreachable"
        failing = (was.failing or 0.0) if found.failed and found.reachable else None
        now = replace(was, failing=failing, why=unready)
        if self.left(now) > EPSILON:
            return now
        limit = self.deadline if self.deadline is not None else FAILING_DEADLINE
        what = "it was not ready within" if self.deadline is not None else "it did not stop failing within"
        why = f"{what} {limit:.0f} s" + (f": {unready}" if unready else "")
        return replace(now, outcome=MemberOutcome.FAILED, why=why)

    def left(self, one: MemberProgress) -> float:
        """Seen seconds until a member that was started has failed, if it stays as it is."""
        if self.deadline is not None:
            return self.deadline - one.seen
        return FAILING_DEADLINE - one.failing if one.failing is not None else math.inf


@dataclass(slots=True)
class Walk:
    """One pass over lanes: what is unfinished, and what is to be written."""

    seen: Mapping[str, MemberSeen]
    wanted: Mapping[str, RunContents]
    """What is written to each member (`staging.wants`)."""
    flying: list[str] = field(default_factory=list)
    """Members that were started and have no outcome."""
    writes: list[MemberWrite] = field(default_factory=list)
    timers: list[float] = field(default_factory=list)
    """Seconds until deadlines."""

    def found(self, name: str) -> MemberSeen:
        """What was seen of a member; one that was not seen is gone."""
        return self.seen.get(name, GONE)

    def follow(self, lane: RunLane, table: dict[str, MemberProgress]) -> None:
        """Judge the members that were started and have no outcome."""
        for one in lane.members:
            was = table[one.name]
            if was.counter and was.outcome is None:
                table[one.name] = lane.judged(was, self.found(one.name))
                self._fly(lane, table[one.name])

    def adopt(self, lane: RunLane, table: dict[str, MemberProgress]) -> None:
        """Count the writes that landed since the look before, and start nothing."""
        room = self._room(lane)
        for one in lane.members:
            was, found = table[one.name], self.found(one.name)
            if room <= 0 or was.outcome is not None or was.counter:
                continue
            if found.written > was.above:
                table[one.name] = lane.judged(replace(was, counter=found.written), found)
                self._fly(lane, table[one.name])
            if table[one.name].outcome is None:
                room -= 1

    def fill(self, lane: RunLane, table: dict[str, MemberProgress], halts: Callable[[], bool] = lambda: False) -> None:
        """Start as many members as there is room for, in order.

        Members that need no write take no room. Nothing is started once `halts` holds.
        """
        room = self._room(lane)
        writes = []
        for one in lane.members:
            was, found = table[one.name], self.found(one.name)
            if room <= 0 or was.outcome is not None or was.counter:
                continue
            landed = found.written > was.above
            now = table[one.name] = lane.judged(replace(was, counter=found.written) if landed else was, found)
            self._fly(lane, now)
            if now.outcome is None:
                room -= 1
                if not now.counter:
                    writes.append(MemberWrite(one.name, one.identity, self.wanted[one.name], was.above))
            elif halts():
                return
        self.writes += writes

    def _room(self, lane: RunLane) -> int:
        return lane.limit - sum(one.name in self.flying for one in lane.members)

    def _fly(self, lane: RunLane, one: MemberProgress) -> None:
        if one.outcome is None and one.counter:
            self.flying.append(one.name)
            left = lane.left(one)
            self.timers += [left] if left < math.inf else []
