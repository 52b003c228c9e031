"""Takes and reads snapshots: what a placement selects at one revision, kept as parts by their digests and a head.

The head comes after its parts, and compares them and who delivers: a crash between leaves parts that nothing names,
which the next snapshot removes, or the end of the placement. A head goes before its parts; old ones go last. Equal
contents are no new snapshot; parts of the newest one that are missing are put back.
"""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import orjson

from wharfinger.errors import InvalidObject, RequestTooLarge
from wharfinger.etcd.store import Compare, Delete, Get, Operation, Put, Store
from wharfinger.objects.documents import documents
from wharfinger.placement.contracts import placement_keys
from wharfinger.placement.contracts.delivery_records import (
    PLAN,
    PinRecord,
    RolloutRecord,
    RunPlanRecord,
    SnapshotRecord,
    WorkRecord,
)
from wharfinger.placement.contracts.placement_rollouts import (
    ForgetContentsInput,
    ForgottenContents,
    TakenSnapshot,
    TakeSnapshotInput,
)
from wharfinger.placement.contracts.placements import StreamRevisions
from wharfinger.placement.deciding.enveloping import is_envelope, opened
from wharfinger.placement.effects.selected import Selected, read_selected
from wharfinger.placement.effects.works import next_record, record_of, rewrite, shown
from wharfinger.placement.model.delivery import ObjectId
from wharfinger.placement.state.hub_view import HubView
from wharfinger.placement.state.seen import HISTORY_LIMIT

PART = 1024 * 1024
"""Bytes of a part before it is deflated; one object may be larger."""
PART_LIMIT = 16 * 1024 * 1024
"""Bytes of a part when it is read."""
TROUBLE = 300
"""Characters of a trouble."""
FORGOTTEN = 40
"""Keys that are removed in one transaction."""


async def take(store: Store, view: HubView, request: TakeSnapshotInput, time: str) -> TakenSnapshot:
    """Look at what is selected now, and keep what is new. `time`: RFC 3339, UTC. May be called again."""
    reference = request.placement
    read = await store.get(placement_keys.placement(reference))
    if read.kv is None:
        return TakenSnapshot(outcome="gone")
    try:
        obj = documents.parse(read.kv.value)
        if not isinstance(obj, Mapping):
            raise InvalidObject("is no object")
    except InvalidObject as error:
        seen = StreamRevisions(objects=read.kv.mod_revision)
        return TakenSnapshot(outcome="gone", why=f"the placement cannot be read: {error}", seen=seen)
    selected = await read_selected(store, obj, reference, read.revision)
    there = (await store.get(placement_keys.rollout(reference))).kv
    record = record_of(there)
    if (there.mod_revision if there is not None else 0) != request.rollout:
        if there is not None and (record.run_id, record.selected) == (request.run_id, request.selected):
            outcome = "trouble" if record.trouble else "same"  # an earlier try, whose answer was lost
            return _taken(outcome, record, selected, there.mod_revision)
        return TakenSnapshot(outcome="contended", seen=_hub(there.mod_revision if there is not None else 0))
    same_trouble = selected.trouble and (record.selected, record.trouble) == (request.selected, selected.trouble)
    if same_trouble and there is not None:
        return _taken("trouble", record, selected, there.mod_revision)
    known = await _known(store, reference)
    after = next_record(record, request, time).model_copy(
        update={"selected": request.selected, "trouble": selected.trouble, "snapshot": max(known, default=0)}
    )
    try:
        return await _keep(store, view, request, after=after, selected=selected, known=known)
    except RequestTooLarge as error:
        names = "an object is too large" if len(selected.objects) == 1 else "its objects, or their names, are too large"
        trouble = f"{names} to be kept in etcd: {error}"[:TROUBLE]
    return await _finish(
        store, request, after.model_copy(update={"trouble": trouble}), Selected(trouble=trouble), outcome="trouble"
    )


async def _keep(
    store: Store,
    view: HubView,
    request: TakeSnapshotInput,
    *,
    after: RolloutRecord,
    selected: Selected,
    known: Mapping[int, SnapshotRecord],
) -> TakenSnapshot:
    """Keep what is selected, where it is not kept yet. Raises `RequestTooLarge`."""
    if selected.trouble:
        return await _finish(store, request, after, selected, outcome="trouble")
    newest, parts = after.snapshot, dict(_parts(selected.written))
    if newest and known[newest].digest == selected.digest:
        compares = await _mended(store, request, known[newest], parts)
        if compares is not None:
            return await _finish(store, request, after, selected, outcome="same", compares=compares)
    head = SnapshotRecord(
        digest=selected.digest,
        parts=tuple(parts),
        objects=selected.ids,
        enveloped=_enveloped(selected),
        revision=selected.revision,
        time=after.time,
    )
    key = placement_keys.snapshot(request.placement, newest + 1)
    compares = [Compare(key, "create", 0)]
    compares += [await _kept(store, request, digest, raw) for digest, raw in parts.items()]
    after = after.model_copy(update={"snapshot": newest + 1})
    writes = [Put(key, head.to_bytes())]
    taken = await _finish(store, request, after, selected, outcome="taken", compares=compares, writes=writes)
    if taken.outcome == "taken":
        await _forget_old(store, view, request, taken.seen.hub, {**known, newest + 1: head})
    return taken


async def read(store: Store, reference: str, snapshot: SnapshotRecord) -> list[dict[str, Any]]:
    """The objects of a snapshot. Raises the store's errors, and `InvalidObject` when they are not what was kept."""
    found: list[dict[str, Any]] = []
    for digest in snapshot.parts:
        kv = (await store.get(placement_keys.contents(reference, digest))).kv
        if kv is None:
            raise InvalidObject(f"part {digest[:12]} of the snapshot is not there")
        inflater = zlib.decompressobj()
        try:
            raw = inflater.decompress(kv.value, PART_LIMIT)
        except zlib.error as error:
            raise InvalidObject(f"part {digest[:12]} of the snapshot cannot be read: {error}") from error
        if hashlib.sha256(raw).hexdigest() != digest:
            raise InvalidObject(f"part {digest[:12]} of the snapshot is not what was kept")
        found += orjson.loads(raw)
    return found


async def forget(store: Store, request: ForgetContentsInput) -> ForgottenContents:
    """Remove all snapshots of a placement whose decision is emptied, the heads first. May be called again."""
    reference = request.placement
    fence = Compare(placement_keys.decision(reference), "mod", request.decision)
    removed = revision = 0
    for prefix in (
        placement_keys.pin(reference),
        placement_keys.snapshot.below(reference),
        placement_keys.contents.below(reference),
    ):
        names = [kv.key async for page in store.list(prefix, page_size=20) for kv in page.items]
        names = [name for name in names if prefix.endswith("/") or name == prefix]
        for first in range(0, len(names), FORGOTTEN):
            batch = names[first : first + FORGOTTEN]
            compares, writes = [fence], [Delete(name) for name in batch]
            unlooked, operations = await _unlooked(store, reference) if not removed else ([], [])
            answered = await store.txn([*compares, *unlooked], [*writes, *operations], [Get(fence.key)])
            if not answered.succeeded:
                return ForgottenContents(outcome="contended", seen=shown(answered.reads))
            removed += len(batch)
            if operations or not prefix.startswith(placement_keys.contents.prefix):
                revision = answered.revision
    return ForgottenContents(outcome="forgotten", keys=removed, seen=_hub(revision))


async def _unlooked(store: Store, reference: str) -> tuple[list[Compare], list[Operation]]:
    """To record that nothing is known to be looked at: a placement that is made again gets a snapshot at once."""
    there = (await store.get(placement_keys.rollout(reference))).kv
    if there is None:
        return [], []
    record = record_of(there).model_copy(update={"selected": "", "trouble": ""})
    return [Compare(there.key, "mod", there.mod_revision)], [Put(there.key, record.to_bytes())]


def _parts(written: Sequence[bytes]) -> Iterator[tuple[str, bytes]]:
    """Digest and bytes of each part."""
    batch: list[bytes] = []
    size = 0
    for raw in written:
        if batch and size + len(raw) > PART:
            yield _part(batch)
            batch, size = [], 0
        batch.append(raw)
        size += len(raw)
    if batch:
        yield _part(batch)


def _part(batch: Sequence[bytes]) -> tuple[str, bytes]:
    raw = b"[" + b",".join(batch) + b"]"
    return hashlib.sha256(raw).hexdigest(), raw


async def _mended(
    store: Store, request: TakeSnapshotInput, head: SnapshotRecord, parts: Mapping[str, bytes]
) -> list[Compare] | None:
    """What says that all parts of a snapshot are there, missing ones put back; None = that cannot be."""
    found: list[Compare] = []
    for digest in head.parts:
        if digest in parts:
            found.append(await _kept(store, request, digest, parts[digest]))
            continue
        kv = (await store.get(placement_keys.contents(request.placement, digest))).kv
        if kv is None:
            return None
        found.append(Compare(kv.key, "mod", kv.mod_revision))
    return found


async def _kept(store: Store, request: TakeSnapshotInput, digest: str, raw: bytes) -> Compare:
    """Keep a part where it is not there yet; that it is as it is then.

    Nothing is kept any more once the decision is another one: of a placement that goes, nothing would remove it.
    """
    key = placement_keys.contents(request.placement, digest)
    there = (await store.get(key)).kv
    if there is not None:  # deflating takes longer
        return Compare(key, "mod", there.mod_revision)
    decision = Compare(placement_keys.decision(request.placement), "mod", request.decision)
    answered = await store.txn([Compare(key, "create", 0), decision], [Put(key, zlib.compress(raw, 6))], [Get(key)])
    if answered.succeeded:
        return Compare(key, "mod", answered.revision)
    found = answered.reads[0]
    return Compare(key, "mod", found.mod_revision if found is not None else 0)


async def _known(store: Store, reference: str) -> dict[int, SnapshotRecord]:
    found: dict[int, SnapshotRecord] = {}
    async for (_, number), kv in placement_keys.snapshot.rows(store, reference):
        if number.isdecimal():
            found[int(number)] = SnapshotRecord.from_bytes(kv.value) or SnapshotRecord(digest="")
    return found


async def _forget_old(
    store: Store, view: HubView, request: TakeSnapshotInput, rollout: int, known: Mapping[int, SnapshotRecord]
) -> None:
    """Remove snapshots beyond the limit that nothing names, and parts that no snapshot names.

    A pin that is put meanwhile prevents it. What else names them is read after `rollouts/<P>` was rewritten: from then
    on no earlier wave writes a work.
    """
    reference = request.placement
    pinned = (await store.get(placement_keys.pin(reference))).kv
    seen = view.placements.get(reference)
    limit = seen.history_limit if seen is not None else HISTORY_LIMIT
    named = await _named(store, reference) | view.update_runs.named(reference) | {max(known)}
    named |= _number(PinRecord, pinned.value) if pinned is not None else set()
    old = [number for number in sorted(known)[:-limit] if number not in named]
    kept = {part for number, one in known.items() if number not in old for part in one.parts}
    removed: list[Operation] = [Delete(placement_keys.snapshot(reference, number)) for number in old]
    prefix = placement_keys.contents.below(reference)
    async for page in store.list(prefix, page_size=20):
        removed += [Delete(kv.key) for kv in page.items if kv.key.removeprefix(prefix) not in kept]
    if removed:
        same_pin = Compare(placement_keys.pin(reference), "mod", pinned.mod_revision if pinned is not None else 0)
        await store.txn([Compare(placement_keys.rollout(reference), "mod", rollout), same_pin], removed[:FORGOTTEN])


async def _named(store: Store, reference: str) -> set[int]:
    """Snapshots that a work or the plan of an update run names."""
    found: set[int] = set()
    async for kv in store.each(placement_keys.run_record.below(reference)):
        found |= _planned(kv.value) if kv.key.endswith(f"/{PLAN}") else set()
    async for kv in store.each(placement_keys.work.below(reference)):
        found |= _number(WorkRecord, kv.value)
    return found


def _number(kind: type[WorkRecord] | type[PinRecord], value: bytes) -> set[int]:
    record = kind.from_bytes(value)
    return {record.snapshot} if record is not None else set()


def _planned(value: bytes) -> set[int]:
    record = RunPlanRecord.from_bytes(value)
    members = [one for stage in record.plan.stages for one in stage.members] if record is not None else []
    return {record.plan.snapshot, *(one.previous for one in members)} if record is not None else set()


def _enveloped(selected: Selected) -> tuple[tuple[str, str, str, str, str], ...]:
    """The objects in envelopes: overrides change them, too."""
    if not any(is_envelope(one) for one in selected.ids):
        return ()
    ids = set(selected.ids)
    inside = [ObjectId.of(obj) for obj in opened(selected.objects)[0]]
    return tuple(one for one in inside if one not in ids)


async def _finish(
    store: Store,
    request: TakeSnapshotInput,
    after: RolloutRecord,
    selected: Selected,
    *,
    outcome: str,
    compares: Sequence[Compare] = (),
    writes: Sequence[Operation] = (),
) -> TakenSnapshot:
    done = await rewrite(store, request, after, compares, writes)
    if not done.revision:
        return TakenSnapshot(outcome="contended", seen=done.seen)
    return _taken(outcome, after, selected, done.revision)


def _taken(outcome: Any, record: RolloutRecord, selected: Selected, revision: int) -> TakenSnapshot:
    return TakenSnapshot(
        outcome=outcome,
        number=record.snapshot,
        objects=len(selected.objects),
        why=record.trouble,
        seen=_hub(revision),
    )


def _hub(revision: int) -> StreamRevisions:
    return StreamRevisions(hub=revision)
