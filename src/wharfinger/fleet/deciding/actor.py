"""The bookkeeping of an actor's loop: the clock of seen time, gaps in its sight, its open steps, when to plan.

The shell (a workflow, or a simulation) does what takes time, and tells::

    look() ─► plan ─► looked() ─► write, give up, start: begun(), or put_off() ─► granted() ─► ended()
                                   wait at most .timeout ─► slept()        a signal ─► signalled()

Pure: the shell measures the seconds. Neighbours: `deciding.planner` decides, `workflows.fleet` and
`workflows.rolling_update` are the shells.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

from wharfinger.fleet.deciding.seeing import broken
from wharfinger.fleet.model.fleet import Role, altered
from wharfinger.fleet.model.rollout import (
    IDLE,
    LATE,
    REST,
    SLICE,
    AwaitedIncarnation,
    Busy,
    Crashed,
    Drop,
    HostMissing,
    Memory,
    Plan,
    ReadySince,
    Retire,
    Up,
)

PAUSE = 1.0
"""Seconds before the next look when a step ended because what it compared had moved: never round and round."""


@dataclass(frozen=True, slots=True)
class StepResult:
    """How a step ended."""

    kind: Literal["ready", "ended", "not-granted", "silent", "refused", "moved", "gone", "cancelled"]
    mod_revision: int = 0
    """Of the ready record."""
    incarnation: int = 0
    """Which one it was about, if the step did not say."""
    waited: float | None = None
    """Seconds for which it was ready, unchanged; None = by the spec now."""
    why: str = ""


@dataclass(frozen=True, slots=True)
class _Open:
    """A step that is being taken."""

    busy: Busy
    host_asked: bool
    crashed: tuple[Crashed, ...]
    """What was known of its slot's crashes before it was planned."""


class ActorState:
    """The state of one actor between two plans."""

    def __init__(self, role: Role, memory: Memory) -> None:
        """`memory`: of the run before, or of the other actor."""
        self.role = role
        self._memory = memory
        self._clock = memory.clock
        """Seen seconds; `_memory` gets them when it is read, because they advance with every wait."""
        self._open: dict[int, _Open] = {}
        self._keys = 0
        self._due = True
        self._remaining = 0.0
        self._since_look: list[Callable[[Memory], Memory]] = []
        self._before = memory
        """As it was planned with."""

    @property
    def memory(self) -> Memory:
        """As it is now."""
        if self._memory.clock != self._clock:
            self._memory = altered(self._memory, clock=self._clock)
        return self._memory

    @property
    def busy(self) -> tuple[Busy, ...]:
        """The open steps."""
        return tuple(step.busy for step in self._open.values())

    @property
    def idle(self) -> bool:
        """Whether none is open."""
        return not self._open

    @property
    def due(self) -> bool:
        """Whether to plan now."""
        return self._due

    @property
    def timeout(self) -> float:
        """Seconds to wait for an event at most, before `slept`. Slices, as long as anything is waited for."""
        if self._due:
            return 0.0
        if self._open or self._remaining < IDLE - SLICE:
            return min(SLICE, self._remaining)
        return self._remaining

    def signalled(self) -> None:
        """Something happened out there."""
        self._due = True

    def slept(self, planned: float, elapsed: float) -> None:
        """A wait of `planned` seconds took `elapsed`; less, when an event cut it short."""
        self._advance(min(elapsed, SLICE))
        if elapsed - planned > LATE:
            self._gap()
        self._remaining -= elapsed
        if self._remaining <= 1e-6:
            self._due = True

    def look(self) -> tuple[Memory, tuple[Busy, ...]]:
        """What to plan with. What happens from now on is due after that plan."""
        self._due = False
        self._since_look = []
        self._before = self.memory
        return self._before, self.busy

    def looked(self, plan: Plan, took: float, retried: bool = False) -> Plan:
        """Take a plan in, and say what to follow of it: nothing, when it came too late to be believed.

        What was passed in since `look` stays, also when a second call takes the plan back (with the memory before it).

        Args:
            plan: the answer.
            took: seconds between asking and the answer.
            retried: whether it needed more than one try: etcd was away.
        """
        if took > LATE or retried:
            self._advance(min(took, SLICE))
            self._gap()
            self._due = True
            return Plan(memory=self.memory)
        # The time that a look took counts for nothing: what it saw is stamped with the clock of when it was asked for,
        # and may be as young as its answer.
        self._take(plan.memory)
        self._remaining = min(max(plan.wait, 0.0), PAUSE if self._since_look else REST)
        if self._remaining <= 1e-6:
            self._due = True
        return plan

    def unwritten(self) -> None:
        """What the plan wanted written was not: nothing of it is remembered, and it is looked again soon."""
        self._take(self._before)
        self._remaining = min(self._remaining, PAUSE)

    def put_off(self, step: Up | Retire | Drop) -> None:
        """A step of the last plan is left to a later one. What was counted as crashed with it is counted again then."""
        counted = (step.slot, step.host, step.why)
        if isinstance(step, Drop) and any((e.slot, e.host, e.why) == counted for e in self._memory.crashed):
            before = self._crashed_before(step.slot)
            self._change(lambda memory: _uncrashed(memory, step.slot, before))

    def begun(self, step: Up | Retire | Drop) -> int:
        """A step's task was started: the key to report it by."""
        self._keys += 1
        revision = step.revision if isinstance(step, Up) else 0
        busy = Busy(step.kind, step.slot, step.incarnation, revision, step.host)
        host_asked = not isinstance(step, Drop) or step.kill
        self._open[self._keys] = _Open(busy, host_asked, self._crashed_before(step.slot))
        return self._keys

    def granted(self, key: int, incarnation: int) -> None:
        """An `up` has its incarnation."""
        step = self._open[key]
        self._open[key] = replace(step, busy=replace(step.busy, incarnation=incarnation))
        slot = step.busy.slot
        self._change(lambda memory: _awaiting(memory, slot, incarnation))

    def ended(self, key: int, result: StepResult) -> None:
        """A step is over."""
        step = self._open.pop(key)
        busy = step.busy
        if busy.kind == "drop" and result.kind == "moved":  # it was counted as crashed, and lives
            self._change(lambda memory: _uncrashed(memory, step.busy.slot, step.crashed))
        if result.incarnation and not busy.incarnation:
            busy = replace(busy, incarnation=result.incarnation)
        self._change(lambda memory: _learned(memory, busy, result, host_asked=step.host_asked))
        if result.kind in ("moved", "not-granted"):
            self._remaining = min(self._remaining, PAUSE)
        else:
            self._due = True

    def _crashed_before(self, slot: int) -> tuple[Crashed, ...]:
        """What the last plan knew of a slot's crashes before it counted."""
        return tuple(crash for crash in self._before.crashed if crash.slot == slot)

    def _take(self, memory: Memory) -> None:
        """That memory, and what happened since the look; the clock never goes back."""
        self._memory, self._clock = memory, max(memory.clock, self._clock)
        for change in self._since_look:
            self._memory = change(self.memory)

    def _change(self, change: Callable[[Memory], Memory]) -> None:
        self._memory = change(self.memory)
        self._since_look.append(change)

    def _advance(self, seconds: float) -> None:
        self._clock += max(seconds, 0.0)

    def _gap(self) -> None:
        """The view broke: what was seen since when begins anew. Nothing is forgotten."""
        clock = self._clock
        self._change(lambda memory: broken(memory, clock))


def _uncrashed(memory: Memory, slot: int, before: tuple[Crashed, ...]) -> Memory:
    others = (crash for crash in memory.crashed if crash.slot != slot)
    return altered(memory, crashed=tuple(sorted((*others, *before), key=lambda crash: crash.slot)))


def _awaiting(memory: Memory, slot: int, incarnation: int) -> Memory:
    if any((entry.slot, entry.incarnation) == (slot, incarnation) for entry in memory.waiting):
        return memory
    return altered(memory, waiting=(*memory.waiting, AwaitedIncarnation(slot, incarnation, memory.clock)))


def _learned(memory: Memory, busy: Busy, result: StepResult, *, host_asked: bool) -> Memory:
    """What a step's end says about its incarnation and its host."""
    key = busy.slot, busy.incarnation
    if result.kind == "silent":
        others = tuple(entry for entry in memory.silent_hosts if entry.host != busy.host)
        return altered(memory, silent_hosts=(*others, HostMissing(busy.host, memory.clock)))
    if result.kind in ("ready", "refused") or (result.kind == "gone" and host_asked):
        memory = altered(memory, silent_hosts=tuple(e for e in memory.silent_hosts if e.host != busy.host))
    if result.kind == "ready" and result.mod_revision:
        waited = result.waited
        if waited is None:
            waited = memory.spec.min_ready if memory.spec is not None else 0.0
        others_ready = tuple(entry for entry in memory.ready if (entry.slot, entry.incarnation) != key)
        known = next((entry for entry in memory.ready if (entry.slot, entry.incarnation) == key), None)
        entry = ReadySince(*key, result.mod_revision, memory.clock - waited)
        if known is not None and known.mod_revision == result.mod_revision:
            entry = replace(entry, counted_since=known.counted_since)
        return altered(memory, ready=(*others_ready, entry))
    if result.kind in ("refused", "ended"):
        # With an exit record its end is cleared; where none ever comes it must not be brought up again and again.
        others_waiting = tuple(entry for entry in memory.waiting if (entry.slot, entry.incarnation) != key)
        since = next((e.since for e in memory.waiting if (e.slot, e.incarnation) == key), memory.clock)
        return altered(
            memory, waiting=(*others_waiting, AwaitedIncarnation(*key, since, refused=result.why or result.kind))
        )
    if result.kind == "gone" and host_asked and busy.incarnation and key not in memory.gone:
        return altered(memory, gone=(*memory.gone, key))
    return memory
