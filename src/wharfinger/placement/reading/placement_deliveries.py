"""How placements are delivered, for programs: status, snapshots, rollback, evictions, deletion, and the wait for these.

Changes are compare-and-sets in etcd, and work while Temporal is down. The commands are written on this class: they
parse, print and choose exit codes. `reading.placements` adds what Temporal is needed for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from typing import Any
from uuid import uuid4

from wharfinger.errors import InvalidObject, NotFound, Unavailable, UsageError, WharfingerError
from wharfinger.etcd.store import Compare, Delete, KeyValue, Operation, Put, Store
from wharfinger.objects.documents import kinds
from wharfinger.objects.documents.kinds import Reference
from wharfinger.objects.documents.times import rfc3339_now
from wharfinger.objects.model.names import is_dns_subdomain
from wharfinger.objects.model.texts import one_line
from wharfinger.placement.contracts import placement_keys
from wharfinger.placement.contracts.delivery_records import PinRecord
from wharfinger.placement.contracts.placement_records import EvictionRecord
from wharfinger.placement.model.placement import PlacementRef
from wharfinger.placement.reading import placement_delivery, placement_goals
from wharfinger.placement.reading.observe_placements import read_one, reference_of
from wharfinger.placement.reading.placement_delivery import PlacementDelivery, delivery_of
from wharfinger.placement.reading.placement_goals import PATIENCE, PlacementGoal
from wharfinger.placement.reading.written_objects import create, mark, new_object
from wharfinger.process.committing import TRIES, author, readable
from wharfinger.process.following import KeyWatch, watching
from wharfinger.process.waiting import Verdict, opened, wait_until

LONGEST_REASON = 200
"""Characters."""
_OF_NAME = 100
"""Characters of the placement's and of the member's name in the name of an eviction."""


@dataclass(frozen=True, slots=True)
class PlacementChange:
    """What became of a change."""

    reference: str
    """P."""
    written: bool
    """False: it was as wanted already."""
    sentence: str
    """One line, as the command prints it."""


@dataclass(frozen=True, slots=True)
class RequestedEviction:
    """An eviction that was put, and how it ended."""

    name: str
    identity: int
    """Create revision of its object."""
    outcome: EvictionRecord | None = None
    """None: it has not ended yet, or was not waited for."""


@dataclass(frozen=True, slots=True)
class PlacementSnapshot:
    """What a placement selected at one moment, and where it is."""

    number: int
    time: str
    """RFC 3339, UTC."""
    objects: int
    revision: int
    """Of etcd, at which the objects were read."""
    members: tuple[str, ...]
    """Members whose work has it."""
    wanted: bool
    pinned: bool


class PlacementDeliveries:
    """Shows and changes how placements are delivered. Needs etcd alone.

    Every method raises the store's errors, `UsageError` for what names no placement, and `NotFound` when there is no
    such placement. `who` is the author of changes, default this process's user and machine.
    """

    def __init__(self, store: Store, *, who: str = "") -> None:
        self._store = store
        self._who = who

    # --- look -------------------------------------------------------------------------------------

    async def status(self, placement: str) -> PlacementDelivery:
        """How a placement stands, as a whole and on each member."""
        return delivery_of(await placement_delivery.read(self._store, reference_of(placement)))

    def watching(self, placement: str) -> AbstractAsyncContextManager[KeyWatch]:
        """Watch, inside the block, what the status of a placement follows from."""
        return placement_goals.watching_placement(self._store, reference_of(placement))

    async def snapshots(self, placement: str) -> list[PlacementSnapshot]:
        """The snapshots that are kept, the oldest first. A placement without any has none: it raises no `NotFound`."""
        reference = reference_of(placement)
        view = await read_one(self._store, reference)
        known, pin = view.delivery.snapshots.get(reference, {}), view.delivery.pins.get(reference)
        pinned = pin.snapshot if pin is not None and pin.snapshot in known else 0
        works = view.works.get(reference, {})
        return [
            PlacementSnapshot(
                number=number,
                time=one.time,
                objects=len(one.objects),
                revision=one.revision,
                members=tuple(sorted(n for n, w in works.items() if w.want == "present" and w.snapshot == number)),
                wanted=number == (pinned or max(known)),
                pinned=number == pinned,
            )
            for number, one in sorted(known.items())
        ]

    async def wait(
        self,
        placement: str,
        goal: PlacementGoal | str = PlacementGoal.SETTLED,
        *,
        timeout: float = PATIENCE,
        say: Callable[[str], None] = lambda _: None,
    ) -> Verdict:
        """Wait until a placement is as it should be, at most `timeout` seconds; follows etcd.

        `say` gets what is waited for, once for each new sentence.

        Returns `reached`, `failed` (it cannot be so any more) or `waiting` (the time is over), with a sentence. The
        goal `gone` is reached where there is no such placement.
        """
        reference = reference_of(placement)
        if goal not in set(PlacementGoal):
            raise UsageError(f"{goal!r} is no goal; known are {', '.join(PlacementGoal)}")
        wanted = PlacementGoal(goal)
        return await wait_until(
            opened(self._store),
            lambda store: placement_goals.watching_placement(store, reference),
            lambda store: placement_goals.look(store, reference, wanted),
            timeout,
            say=say,
        )

    # --- change -----------------------------------------------------------------------------------

    async def rollback(self, placement: str, to: int | None, *, why: str = "") -> PlacementChange:
        """Pin a placement to a snapshot, which is wanted from then on instead of the newest; None: unpin it.

        Raises `NotFound` for a snapshot that is not kept, `InvalidObject` while the placement is being deleted, and
        `UsageError` where update runs deliver it: they do not follow pins.
        """
        reference = reference_of(placement)
        now = rfc3339_now()
        by = author(one_line(why, LONGEST_REASON), who=self._who)
        sent = False
        for _ in range(TRIES):
            found = await self._pinnable(reference)
            if to is not None and found.external:
                ref = PlacementRef.parse(reference)
                where = f" -n {ref.namespace}" if ref.namespace else ""
                raise UsageError(
                    f"placement {reference} is delivered by update runs, which follow no pin: wharfinger update-run "
                    f"start RUN{where} --placement {ref.name} --strategy S --snapshot {to}"
                )
            if found.is_pinned_to(to, by.why):
                return PlacementChange(reference, sent, found.told(to, changed=sent))
            if to is not None and to not in found.snapshots:
                names = ", ".join(str(one) for one in sorted(found.snapshots)) or "none yet"
                raise NotFound(f"placement {reference} has no snapshot {to}; there are: {names}")
            compares = [Compare(placement_keys.placement(reference), "mod", found.revision)]
            compares.append(Compare(placement_keys.pin(reference), "mod", found.pin_revision))
            operation: Operation = Delete(placement_keys.pin(reference))
            if to is not None:
                compares.append(Compare(placement_keys.snapshot(reference, to), "create", found.snapshots[to]))
                record = PinRecord(snapshot=to, by=by.who, why=by.why, time=now)
                operation = Put(placement_keys.pin(reference), record.to_bytes())
            try:
                answered = await self._store.txn(compares, [operation])
            except Unavailable as error:
                if not error.maybe_applied:
                    raise
                sent = True  # the next reading shows whether it was written
                continue
            if answered.succeeded:
                return PlacementChange(reference, True, found.told(to, changed=True))
        raise WharfingerError(f"placement {reference} is changed by others all the time; gave up after {TRIES} tries")

    async def _pinnable(self, reference: str) -> _Pinnable:
        """What a rollback follows from, at one revision."""
        answered = await self._store.get(placement_keys.placement(reference))
        kv, revision = answered.kv, answered.revision
        obj = _existing(kv, reference)
        assert kv is not None, "it exists"
        if (obj.get("metadata") or {}).get("deletionTimestamp"):
            raise InvalidObject(f"placement {reference} is being deleted: it takes no snapshot any more")
        rows = placement_keys.snapshot.rows(self._store, reference, revision=revision)
        snapshots = {int(number): kv.create_revision async for (_, number), kv in rows if number.isdecimal()}
        pinned = (await self._store.get(placement_keys.pin(reference), revision=revision)).kv
        strategy = (obj.get("spec") or {}).get("strategy")
        external = isinstance(strategy, Mapping) and strategy.get("type") == "External"
        pin_revision = pinned.mod_revision if pinned is not None else 0
        return _Pinnable(
            str(_about(reference)),
            kv.mod_revision,
            external,
            snapshots,
            PinRecord.from_bytes(pinned and pinned.value),
            pin_revision,
        )

    async def evict(self, placement: str, cluster: str, *, wait: float | None = None) -> RequestedEviction:
        """Ask for a placement to leave a member: put a ClusterResourcePlacementEviction, which a hub judges once.

        `wait`: seconds to wait for its outcome; None = return at once. Raises `UsageError` for a ResourcePlacement,
        which KubeFleet has no evictions of.
        """
        reference = reference_of(placement)
        ref = PlacementRef.parse(reference)
        if ref.namespace:
            raise UsageError(f"{reference}: only a ClusterResourcePlacement can be evicted from a member cluster")
        if not is_dns_subdomain(cluster):
            raise UsageError(f"{cluster[:80]!r} is no name of a member cluster")
        _existing((await self._store.get(placement_keys.placement(reference))).kv, reference)
        name = f"{ref.name[:_OF_NAME].rstrip('-.')}-{cluster[:_OF_NAME].rstrip('-.')}-{uuid4().hex[:8]}"
        about = Reference(kinds.PLACEMENT_EVICTION, "", name)
        obj = new_object(about, {"placementName": ref.name, "clusterName": cluster})
        requested = RequestedEviction(name, await create(self._store, about, obj))
        return requested if wait is None else await self.eviction(requested, timeout=wait)

    async def eviction(self, requested: RequestedEviction, *, timeout: float = PATIENCE) -> RequestedEviction:
        """Wait for the outcome of an eviction, at most `timeout` seconds; without one it has not ended."""
        ended: list[EvictionRecord] = []
        key = placement_keys.evicted(requested.name)

        async def look(store: Store) -> Verdict:
            kv = (await store.get(key)).kv
            record = EvictionRecord.model_validate_json(kv.value) if kv is not None else None
            if record is None or record.identity not in (0, requested.identity):
                return Verdict("waiting", "it has not ended")
            ended.append(record)
            return Verdict("reached", record.message)

        await wait_until(opened(self._store), lambda store: watching(store, [key]), look, timeout)
        return replace(requested, outcome=ended[-1] if ended else None)

    async def delete(self, placement: str) -> PlacementChange:
        """Mark a placement as deleting: a hub removes it once nothing of it is left on any member."""
        reference = reference_of(placement)
        try:
            done = await mark(self._store, _about(reference))
        except NotFound:
            raise NotFound(f"there is no placement {reference}") from None
        return PlacementChange(reference, done.written, done.sentence)


@dataclass(frozen=True, slots=True)
class _Pinnable:
    """What a rollback follows from, of one revision."""

    title: str
    revision: int
    """Mod revision of the placement's object."""
    external: bool
    snapshots: Mapping[int, int]
    """Number -> create revision."""
    pin: PinRecord | None
    pin_revision: int

    def is_pinned_to(self, to: int | None, why: str) -> bool:
        """Whether nothing has to be written."""
        if to is None:
            return not self.pin_revision
        return self.pin is not None and self.pin.snapshot == to and to in self.snapshots and why in ("", self.pin.why)

    def told(self, to: int | None, *, changed: bool) -> str:
        """One line on what was done."""
        newest = max(self.snapshots, default=0)
        if to is not None:
            done = (
                f"{self.title} {'pinned' if changed else 'is pinned already'} to snapshot {to} (the newest is {newest})"
            )
        else:
            wanted = f"snapshot {newest}, the newest, is wanted" if newest else "it has no snapshot yet"
            done = f"{self.title} {'unpinned' if changed else 'was not pinned'}: {wanted}"
        if not changed:
            return done
        acts = "an update run delivers it" if self.external else "the hub rolls it out within the placement's budget"
        return f"{done}; {acts}"


def _about(reference: str) -> Reference:
    ref = PlacementRef.parse(reference)
    kind = kinds.NAMESPACED_PLACEMENT if ref.namespace else kinds.CLUSTER_PLACEMENT
    return Reference(kind, ref.namespace, ref.name)


def _existing(kv: KeyValue | None, reference: str) -> dict[str, Any]:
    """The object. Raises `NotFound`, and `InvalidObject` for what is none."""
    if kv is None:
        raise NotFound(f"there is no placement {reference}")
    obj = readable(kv.value)
    if obj is None:
        raise InvalidObject(
            f"placement {reference} cannot be read: apply it again, or remove its key "
            f"(etcdctl --user root del {kv.key})"
        )
    return obj
