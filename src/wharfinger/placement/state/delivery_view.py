"""What a hub has seen of deliveries: works, results, rollouts, snapshots, pins and overrides, by placement.

A part of `state.hub_view`, which passes it the records of its stream, so that all of it is of one revision.
Values are kept small: of a work without what is changed for the member, of a result without what it tells.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar, cast

from wharfinger.placement.contracts.delivery_records import (
    PinRecord,
    ResultRecord,
    RolloutRecord,
    SnapshotRecord,
    WorkRecord,
)
from wharfinger.placement.model.delivery import ObjectId, Override
from wharfinger.placement.model.placement import PlacementRef
from wharfinger.placement.spec.placement_override_fields import stored_override
from wharfinger.placement.state.seen import put_below, store
from wharfinger.process.records import Record

FOLDERS = ("works", "results", "rollouts", "losses", "snapshots", "pins")
"""Records that are taken here."""
COUNTED = 2.0
"""Seconds that count as seen at most between two ticks: a hub that stood still has seen nothing."""
R = TypeVar("R", bound=Record)
_NO_FIELDS: set[str] = set()
STRATEGIES = 8
"""Apply strategies that works share."""
TAKEN_APART = 64
"""Snapshots whose objects are kept as ids."""


@dataclass(frozen=True, slots=True)
class ChangedThere:
    """What overrides change of a snapshot on one member."""

    labels: Mapping[str, str]
    """Of the member, when that was found."""
    digest: str = ""
    trouble: str = ""
    """Why it cannot be found."""


@dataclass(frozen=True, slots=True)
class OverrideChanges:
    """What overrides change of one snapshot."""

    snapshot: SnapshotRecord
    overrides: tuple[Override, ...]
    """Those that may change something of it."""
    members: dict[str, ChangedThere]
    """By name, as far as it was found; callers add what they find."""


class DeliveryView:
    """What was seen. Changed by `take` and `take_override` only."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self.works: dict[str, dict[str, WorkRecord]] = {}
        self.results: dict[str, dict[str, ResultRecord]] = {}
        self.rollouts: dict[str, RolloutRecord] = {}
        self.snapshots: dict[str, dict[int, SnapshotRecord]] = {}
        self.taken: dict[str, float] = {}
        """Placement -> clock seconds at which its newest snapshot was seen to be taken."""
        self.listing = False
        """Whether records come from a list: then they are old."""
        self.pins: dict[str, PinRecord] = {}
        self.overrides: dict[str, Override] = {}
        """By key."""
        self.on_member: defaultdict[str, set[str]] = defaultdict(set)
        """Member -> placements that have a work for it."""
        self.seen_seconds = 0.0
        """Grows while the hub sees etcd."""
        self._changed: dict[tuple[str, str], float] = {}
        """Placement and member -> seen seconds at which its result became as it is."""
        self._strategies: list[dict[str, Any]] = []
        """Apply strategies that works have; most have the same."""
        self.waiting = 0
        """Activities that wait for a change now."""
        self._waiters: dict[str, asyncio.Event] = {}
        self._objects: dict[int, tuple[SnapshotRecord, frozenset[ObjectId]]] = {}
        """By the identity of the record, which is kept with them."""
        self._changes: dict[str, OverrideChanges] = {}
        """By placement; forgotten when any override changes."""

    def tick(self, elapsed: float) -> None:
        """So many seconds have passed in which etcd was seen."""
        self.seen_seconds += min(max(elapsed, 0.0), COUNTED)

    def unchanged(self, reference: str, member: str) -> float:
        """Seen seconds for which a member's result says what it says of the same contents."""
        since = self._changed.get((reference, member))
        return 0.0 if since is None else self.seen_seconds - since

    def back(self, member: str) -> None:
        """A member's agent is there, or well, again: what its results said meanwhile was not seen to be so."""
        for reference in self.on_member.get(member, ()):
            if (reference, member) in self._changed:
                self._changed[reference, member] = self.seen_seconds

    def take(self, folder: str, rest: str, value: bytes | None) -> str:
        """One record; answers the placement that it is about. Raises `ValueError`, and keeps what there was."""
        match folder:
            case "works":
                return self._take_work(rest, value)
            case "results":
                return self._take_result(rest, value)
            case "snapshots":
                reference, _, number = rest.rpartition("/")
                snapshot = SnapshotRecord.model_validate_json(value) if value is not None else None
                put_below(self.snapshots, reference, int(number), snapshot)
                if snapshot is not None and not self.listing:
                    self.taken[reference] = self._clock()
                if reference not in self.snapshots:
                    self.taken.pop(reference, None)
                    self._changes.pop(reference, None)
                return reference
            case "rollouts":
                store(self.rollouts, rest, value, RolloutRecord)
            case "pins":
                store(self.pins, rest, value, PinRecord)
        return rest

    def _take_work(self, rest: str, value: bytes | None) -> str:
        reference, _, member = rest.rpartition("/")
        if value is None:
            put_below(self.works, reference, member, None)
            on_it = self.on_member[member]
            on_it.discard(reference)
            if not on_it:
                del self.on_member[member]
            return reference
        work = WorkRecord.model_validate_json(value)
        strategy = next((one for one in self._strategies if one == work.strategy), None)
        if strategy is None:
            self._strategies = [strategy := work.strategy, *self._strategies[: STRATEGIES - 1]]
        put_below(self.works, reference, member, _small(work, resolved=(), strategy=strategy))
        self.on_member[member].add(reference)
        return reference

    def _take_result(self, rest: str, value: bytes | None) -> str:
        reference, _, member = rest.rpartition("/")
        before = self.results.get(reference, {}).get(member)
        result = None
        if value is not None:
            result = _small(ResultRecord.model_validate_json(value), told=(), drifted=())
        put_below(self.results, reference, member, result)
        if result is None:
            self._changed.pop((reference, member), None)
        elif before is None or _says(before) != _says(result):
            self._changed[reference, member] = self.seen_seconds
        return reference

    def take_override(self, key: str, obj: Mapping[str, object] | None) -> tuple[Override, ...]:
        """An override's object, or that it is gone; answers how it was, and how it is.

        Raises `InvalidObject`, and keeps what there was.
        """
        before, now = self.overrides.get(key), stored_override(obj) if obj is not None else None
        if now is None:
            self.overrides.pop(key, None)
        else:
            self.overrides[key] = now
        self._changes.clear()
        return tuple(one for one in (before, now) if one is not None)

    def objects_of(self, snapshot: SnapshotRecord) -> frozenset[ObjectId]:
        """The objects of a snapshot, those in envelopes included."""
        found = self._objects.get(id(snapshot))
        if found is None or found[0] is not snapshot:
            ids = frozenset(ObjectId(*one) for one in (*snapshot.objects, *snapshot.enveloped))
            if len(self._objects) >= TAKEN_APART:
                self._objects.clear()
            found = self._objects[id(snapshot)] = snapshot, ids
        return found[1]

    def changes_of(self, reference: str, snapshot: SnapshotRecord) -> OverrideChanges:
        """What overrides change of a snapshot."""
        found = self._changes.get(reference)
        if found is None or found.snapshot is not snapshot:
            overrides = tuple(self._concerning(reference, snapshot)) if self.overrides else ()
            found = self._changes[reference] = OverrideChanges(snapshot, overrides, {})
        return found

    def _concerning(self, reference: str, snapshot: SnapshotRecord) -> Iterator[Override]:
        ref, objects = PlacementRef.parse(reference), self.objects_of(snapshot)
        namespaces = {one.namespace for one in objects}
        kinds = {(one.group, one.kind, one.namespace, one.name) for one in objects}
        for override in self.overrides.values():
            if override.placement in (None, ref) and any(
                (one.group, one.kind, one.namespace, one.name) in kinds
                or (one.kind == "Namespace" and not one.group and one.name in namespaces)
                for one in override.selectors
            ):
                yield override

    def notify(self, reference: str) -> None:
        """Something of a placement changed."""
        waiter = self._waiters.pop(reference, None)
        if waiter is not None:
            waiter.set()

    def waiter(self, reference: str) -> asyncio.Event:
        """Set at the next change of the placement."""
        return self._waiters.setdefault(reference, asyncio.Event())


def _small(record: R, **others: Any) -> R:
    """The record with these values, without a set of its own of the fields that were written."""
    return cast("R", type(record).model_construct(_fields_set=_NO_FIELDS, **{**record.__dict__, **others}))


def _says(result: ResultRecord) -> tuple[object, ...]:
    contents = result.since, result.identity
    return *contents, result.applied, result.available, result.untrackable, result.failed, result.reported
