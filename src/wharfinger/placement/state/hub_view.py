"""All that a hub has seen of members and placements: what three streams of etcd show, each up to its own revision.

Whoever follows the streams calls `listed` and `changed`, and gets what to reconcile. The hub's loops, its
activities, and commands that read etcd once all decide from such a view (`effects.questions`).
What cannot be read is not gone: it stays as it was, and is named by its `unreadable`.

Neighbours: `members_view`, `delivery_view` and `update_runs_view` are its parts, with the records of each subject.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from wharfinger.errors import InvalidObject
from wharfinger.etcd.store import Event, KeyValue
from wharfinger.placement.contracts import placement_keys
from wharfinger.placement.contracts.placements import StreamRevisions
from wharfinger.placement.model.placement import Placement, PlacementBudget, PlacementRef
from wharfinger.placement.spec.placements import budget_from_mapping
from wharfinger.placement.state.delivery_view import FOLDERS, DeliveryView
from wharfinger.placement.state.hub_changes import HubChange, MemberChange
from wharfinger.placement.state.members_view import MembersView
from wharfinger.placement.state.seen import (
    SeenDecision,
    SeenEviction,
    SeenPlacement,
    decision_of,
    ended_identity,
    eviction_of,
    keep,
    object_of,
    placement_of,
    put,
)
from wharfinger.placement.state.update_runs_view import UpdateRunsView

MEMBERS, OBJECTS, HUB = "members", "objects", "hub"
STREAMS: Mapping[str, str] = {
    MEMBERS: placement_keys.member_cluster.prefix,
    OBJECTS: placement_keys.PLACEMENT_OBJECTS,
    HUB: placement_keys.HUB,
}
"""What a hub follows: the prefix of each stream. Their names are the fields of `StreamRevisions`."""
LEFT = ("works", "results", "snapshots", "pins")
"""Records without which a placement that is being deleted goes: an attempt waits for the last of them."""


class HubView:
    """What was seen. It is changed by `listed` and `changed` only."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self.placements: dict[str, SeenPlacement] = {}
        """By reference, P."""
        self.decisions: dict[str, SeenDecision] = {}
        self.policies: dict[str, set[int]] = {}
        self.delivery = DeliveryView(clock)
        self.member_view = MembersView(clock, back=self.delivery.back, note_unreadable=self._note_unreadable)
        self.members = self.member_view.by_name
        self.update_runs = UpdateRunsView()
        self.works = self.delivery.works
        self.results = self.delivery.results
        self.evictions: dict[str, SeenEviction] = {}
        self.ended: dict[str, int] = {}
        """Evictions that have ended, by name: the create revision of the one that did; 0 = any of that name."""
        self.budgets: dict[str, PlacementBudget] = {}
        """By the name of their placement."""
        self.hubs: set[str] = set()
        self.unreadable: dict[str, str] = {}
        """Key -> why its value cannot be read."""
        self.revisions: dict[str, int] = dict.fromkeys(STREAMS, 0)
        self.heard = 0.0
        """Clock seconds of the last change or notice in the hub's own stream."""
        self._changed: dict[str, int] = dict.fromkeys(STREAMS, 0)
        self.synced: set[str] = set()
        self._known: dict[str, dict[str, int]] = {stream: {} for stream in STREAMS}
        """Key -> mod revision."""
        self._names: dict[tuple[str, ...], tuple[str, ...]] = {}
        """Sets of members that decisions name: most decisions name the same ones."""
        self._moved = asyncio.Event()

    @property
    def seen(self) -> StreamRevisions:
        """Up to where this view shows the streams."""
        return StreamRevisions(**self.revisions)

    @property
    def newest(self) -> StreamRevisions:
        """The newest change that was seen in each: `seen` may be ahead, by notices that others have not had yet."""
        return StreamRevisions(**self._changed)

    @property
    def in_sync(self) -> bool:
        """Whether everything was listed."""
        return self.synced.issuperset(STREAMS)

    def mod_revision(self, key: str) -> int:
        """Of a key of the hub or of an object; 0 = it is not there."""
        return next((known[key] for known in self._known.values() if key in known), 0)

    async def wait_for(self, wanted: StreamRevisions, seconds: float) -> bool:
        """Wait until each stream was seen up to that revision; whether it was."""
        try:
            async with asyncio.timeout(seconds):
                while not self.in_sync or not self.has_seen(wanted):
                    await self._moved.wait()
        except TimeoutError:
            return False
        return True

    def has_seen(self, wanted: StreamRevisions) -> bool:
        """Whether each stream was seen that far."""
        return all(self.revisions[stream] >= getattr(wanted, stream) for stream in STREAMS)

    def listed(self, stream: str, found: Sequence[KeyValue], revision: int = 0) -> list[HubChange]:
        """A new list of a stream, of a revision: what it does not contain is gone."""
        known, now = self._known[stream], {kv.key for kv in found}
        self.delivery.listing = True
        changes: list[HubChange] = []
        for key in [key for key in known if key not in now]:
            del known[key]
            changes += self._take(stream, key, None)
        for kv in found:
            if known.get(kv.key) != kv.mod_revision:
                known[kv.key] = kv.mod_revision
                changes += self._take(stream, kv.key, kv)
        self.delivery.listing = False
        self.synced.add(stream)
        self._changed[stream] = max([self._changed[stream], *(kv.mod_revision for kv in found)])
        self.reached(stream, max(revision, self._changed[stream]))
        return changes

    def changed(self, stream: str, event: Event) -> list[HubChange]:
        """One change in a stream."""
        kv = event.kv
        if event.deleted:
            self._known[stream].pop(kv.key, None)
        else:
            self._known[stream][kv.key] = kv.mod_revision
        changes = self._take(stream, kv.key, None if event.deleted else kv)
        self._changed[stream] = max(self._changed[stream], kv.mod_revision)
        self.reached(stream, kv.mod_revision)
        return changes

    def reached(self, stream: str, revision: int) -> None:
        """All of a stream was seen up to that revision."""
        self.revisions[stream] = max(self.revisions[stream], revision)
        if stream == HUB:
            self.heard = self._clock()
        moved, self._moved = self._moved, asyncio.Event()
        moved.set()

    def _take(self, stream: str, key: str, kv: KeyValue | None) -> list[HubChange]:
        try:
            self.unreadable.pop(key, None)
            if stream == MEMBERS:
                name = key.removeprefix(placement_keys.member_cluster.prefix)
                return _of_member(name, self.member_view.take(name, kv))
            return self._take_object(key, kv) if stream == OBJECTS else self._take_record(key, kv)
        except Exception as error:  # whatever one value is, the others have to be taken
            if kv is not None:
                self._note_unreadable(key, error)
            return []

    def _note_unreadable(self, key: str, error: Exception) -> None:
        self.unreadable[key] = " ".join(str(error).split())[:200]

    # --- objects ----------------------------------------------------------------------------------

    def _take_object(self, key: str, kv: KeyValue | None) -> list[HubChange]:
        for prefix, scope in (
            (placement_keys.CLUSTER_PLACEMENTS, "cluster"),
            (placement_keys.NAMESPACED_PLACEMENTS, "ns"),
        ):
            if key.startswith(prefix):
                return self._take_placement(f"{scope}/{key.removeprefix(prefix)}", kv)
        name = key.rpartition("/")[2]
        if key.startswith(placement_keys.PLACEMENT_EVICTIONS):
            return self._take_eviction(name, kv)
        if key.startswith(placement_keys.PLACEMENT_BUDGETS):
            put(self.budgets, name, budget_from_mapping(object_of(kv)) if kv is not None else None)
            return [HubChange(f"cluster/{name}")] if any(self.pending_evictions(f"cluster/{name}")) else []
        if key.startswith(placement_keys.OVERRIDES):
            overrides = self.delivery.take_override(key, object_of(kv) if kv is not None else None)
            return [HubChange(delivered=True, overrides=overrides)]
        if key.startswith((*placement_keys.UPDATE_STRATEGIES, *placement_keys.UPDATE_RUNS)):
            return self._runs_changed(self.update_runs.take_object(key, kv))
        return []

    def _runs_changed(self, references: Iterable[str]) -> list[HubChange]:
        for reference in references:
            self.delivery.notify(reference)
        return [HubChange(reference, delivered=True) for reference in references]

    def _take_eviction(self, name: str, kv: KeyValue | None) -> list[HubChange]:
        before, now = self.evictions.pop(name, None), None
        if kv is not None:
            try:
                now = eviction_of(kv, name)
            except InvalidObject as error:
                self._note_unreadable(kv.key, error)
                if before is not None and before.identity == kv.create_revision:
                    now = replace(before, revision=kv.mod_revision)
        if now is not None:
            self.evictions[name] = now
        return [HubChange(str(one.eviction.placement)) for one in (before, now) if one is not None]

    def _take_placement(self, reference: str, kv: KeyValue | None) -> list[HubChange]:
        if kv is None:
            self.placements.pop(reference, None)
            return [HubChange(reference, own=True)]
        before = self.placements.get(reference)
        try:
            found = placement_of(kv, reference)
        except InvalidObject as error:
            if before is not None and before.placement.identity == kv.create_revision:
                self.placements[reference] = replace(before, unreadable=str(error))
            else:
                nothing = Placement(PlacementRef.parse(reference), 0, identity=kv.create_revision)
                self.placements[reference] = SeenPlacement(nothing, kv.mod_revision, {}, "", unreadable=str(error))
            self._note_unreadable(kv.key, error)
        else:
            self.placements[reference] = found
        return [HubChange(reference, own=True)]

    # --- records ----------------------------------------------------------------------------------

    def _take_record(self, key: str, kv: KeyValue | None) -> list[HubChange]:
        folder, _, rest = key.removeprefix(placement_keys.HUB).partition("/")
        value = kv.value if kv is not None else None
        match folder:
            case "decisions":
                return self._take_decision(rest, kv)
            case "policies":
                reference, _, number = rest.rpartition("/")
                if str(PlacementRef.parse(reference)) != reference:
                    raise ValueError("its key names no placement")
                keep(numbers := self.policies.get(reference, set()), int(number), there=value is not None)
                put(self.policies, reference, numbers or None)
            case _ if folder in FOLDERS:
                return self._take_delivered(folder, rest, value)
            case "runs":
                return self._runs_changed([self.update_runs.take(rest, value)])
            case "members":
                return _of_member(rest, self.member_view.take_agent(rest, value))
            case "memberstatus":
                return _of_member(rest, self.member_view.take_status(rest, value))
            case "drains":
                return _of_member(rest, self.member_view.take_drain(rest, value))
            case "evictions":
                put(self.ended, rest, ended_identity(value) if value is not None else None)
            case "hubs":
                keep(self.hubs, rest, there=value is not None)
        return []

    def _take_decision(self, reference: str, kv: KeyValue | None) -> list[HubChange]:
        if kv is None:
            self.decisions.pop(reference, None)
            return [HubChange(reference)]
        seen = decision_of(kv)
        if len(self._names) > 2 * len(self.decisions) + 100:
            self._names.clear()
        self.decisions[reference] = replace(seen, names=self._names.setdefault(seen.names, seen.names))
        return [HubChange(reference)]

    def _take_delivered(self, folder: str, rest: str, value: bytes | None) -> list[HubChange]:
        reference = self.delivery.take(folder, rest, value)
        self.delivery.notify(reference)
        changes = [HubChange(reference, own=folder == "pins", delivered=True)]
        decision, member = self.decisions.get(reference), rest.rpartition("/")[2]
        if decision is None or decision.deleting:
            waited_for = folder in LEFT
        else:
            waited_for = member in decision.evicted and folder in ("works", "results")
        if (waited_for and value is None) or (folder != "pins" and any(self.pending_evictions(reference))):
            changes.append(HubChange(reference))
        return changes

    # --- reading ----------------------------------------------------------------------------------

    def pending_evictions(self, reference: str) -> Sequence[SeenEviction]:
        """Evictions of a placement that have not ended, in the order in which they were put."""
        found = [one for one in self._waiting() if str(one.eviction.placement) == reference]
        return sorted(found, key=lambda one: one.revision)

    def _waiting(self) -> Iterator[SeenEviction]:
        return (one for name, one in self.evictions.items() if self.ended.get(name, -1) not in (0, one.identity))

    @property
    def references(self) -> set[str]:
        """All placements that there are, that have left something, or that evictions name."""
        evicting = {str(one.eviction.placement) for one in self._waiting()}
        return self.placements.keys() | self.decisions.keys() | self.policies.keys() | evicting


def _of_member(name: str, fields: MemberChange) -> list[HubChange]:
    return [HubChange(member=name, fields=fields)] if fields else []
