"""The incarnations of a fleet, and what each of them is at the moment: the planner's view of one look at etcd.

::

    grant run ── record starting ── ready ── counted (ready for min_ready)      withdrawn, unknown: ready once, not now
    grant drain ── leaving          no grant, but a record ── revoked           exit, or gone for sure ── ended

Every doubt goes against the incarnation's readiness and for its life: a busy retire is not counted, a busy up lives.
Neighbours: `deciding.seeing` keeps the memory that says since when, `deciding.draft` counts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from wharfinger.fleet.deciding.hosts import Hosts
from wharfinger.fleet.model.fleet import HOST_LOST, Exit, FleetSpec, Grant, Instance, Observed, Role, Slot
from wharfinger.fleet.model.rollout import EPSILON, Busy, Crashed, Memory

LOOK_AGAIN = 10.0
"""Seconds of unbroken view beyond a lease time after which what is seen is believed."""

Phase = Literal["starting", "ready", "available", "withdrawn", "unknown", "draining", "revoked", "ended"]


@dataclass(frozen=True, slots=True)
class Asked:
    """The actor that asks for a plan, and what it is doing."""

    role: Role
    tenant: str
    generation: int
    """Of the open rollout: the asker's own, or the one that Fleet started; 0 = none."""
    busy: tuple[Busy, ...]
    lease_ttl: float
    """Seconds of an instance's lease."""
    over: str = ""
    """For Fleet, of the rollout that memory misses: why it is not started again (it was cancelled, or ended itself)."""
    host_lost: float = HOST_LOST
    """Seen seconds without a host's record after which the host may be lost."""


@dataclass(slots=True, eq=False)
class Life:
    """One incarnation of one slot. `deciding.seeing` makes it; after that nothing changes it."""

    slot: int
    incarnation: int
    grant: Grant | None = None
    instance: Instance | None = None
    exit: Exit | None = None
    busy: Busy | None = None
    foreign: bool = False
    """Granted for a fleet of the same name that is no more."""
    gone: bool = False
    """Its process has ended for sure."""
    counted: bool = False
    ready_at: float = 0.0
    """When an instance that is ready, and not counted yet, will be; 0 = it is not ready."""
    newcomer: bool = False
    """It has not been counted so far."""
    since: float = 0.0
    """When a newcomer was seen first."""
    refused: str = ""

    revision: int = field(init=False)
    """Of its template."""
    host: str = field(init=False)
    """Where it is."""
    ended: bool = field(init=False)
    """Whether nothing of it runs any more."""
    living: bool = field(init=False)
    """Whether it counts under the ceiling: its end is not confirmed."""
    runs: bool = field(init=False)
    """Whether it may live and its grant does not say drain."""

    def __post_init__(self) -> None:
        """Derive what follows from its keys: a plan reads that many times."""
        grant, busy = self.grant, self.busy
        shown = grant or self.instance or busy
        self.revision, self.host = (shown.revision, shown.host) if shown is not None else (0, "")
        self.ended = self.exit is not None or self.gone
        self.living = busy is not None or (not self.ended and shown is not None)
        steps_up = busy is None or busy.kind == "up"
        self.runs = not self.ended and steps_up and (grant.want == "run" if grant is not None else busy is not None)

    @property
    def ready(self) -> bool:
        """Whether its record says so, counted or not."""
        return self.instance is not None and self.instance.state == "ready" and not self.ended

    @property
    def phase(self) -> Phase:
        """In one word, for readers."""
        if self.ended:
            return "ended"
        if self.grant is None and self.busy is None:
            return "revoked"
        if not self.runs:
            return "draining"
        if self.counted:
            return "available"
        if self.instance is not None and self.instance.state in ("ready", "withdrawn", "draining"):
            return self.instance.state
        if self.newcomer or self.instance is not None or self.grant is None:
            return "starting"
        return "unknown"


@dataclass(frozen=True, slots=True)
class Look:
    """One look: what is seen, and what memory adds."""

    observed: Observed
    asked: Asked
    spec: FleetSpec
    memory: Memory
    """Brought up to this look by `deciding.seeing`."""
    lives: tuple[Life, ...]
    """By slot and incarnation; ended ones too."""
    places: Mapping[int, tuple[Life, ...]]
    """The same by slot."""
    counting: frozenset[int]
    """Slots with a counted instance."""
    records: Mapping[int, Slot]
    hosts: Hosts

    @property
    def clock(self) -> float:
        """Now, in seen seconds."""
        return self.memory.clock

    @property
    def settled_at(self) -> float:
        """When the unbroken view is long enough to act on what is granted."""
        return self.memory.sight_since + self.asked.lease_ttl + LOOK_AGAIN

    @property
    def settled(self) -> bool:
        """Whether it is."""
        return self.clock >= self.settled_at - EPSILON

    def of(self, slot: int) -> tuple[Life, ...]:
        """The incarnations of a slot, oldest first."""
        return self.places.get(slot, ())

    def living(self, slot: int) -> list[Life]:
        """Those that count under the ceiling."""
        return [life for life in self.places.get(slot, ()) if life.living]

    def available(self, slot: int) -> bool:
        """Whether an instance of it is counted."""
        return slot in self.counting

    def busy(self, slot: int) -> bool:
        """Whether a step is being taken there."""
        return any(step.slot == slot for step in self.asked.busy)

    def assigned(self, slot: int) -> int:
        """The revision that the slot returns on; 0 = it never had one."""
        record = self.records.get(slot)
        return record.revision if record is not None else 0

    def waited(self, life: Life) -> float:
        """Seconds since an instance was seen to be asked to leave; 0 for one that was not before."""
        key = life.slot, life.incarnation
        asked = next((one.since for one in self.memory.leaving if (one.slot, one.incarnation) == key), self.clock)
        return self.clock - asked

    def crashed(self, slot: int) -> Crashed | None:
        """What memory has of its crashes."""
        return next((crash for crash in self.memory.crashed if crash.slot == slot), None)

    def crashes(self, slot: int) -> int:
        """How many in a row."""
        record, crash = self.records.get(slot), self.crashed(slot)
        return max(record.crashes if record is not None else 0, crash.times if crash is not None else 0)
