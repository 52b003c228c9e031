"""Takes and reads snapshots: what a placement selects at one revision, kept as parts by their digests and a head.

The head comes after its parts, and compares them and who delivers: a crash between leaves parts that nothing names,
which the next snapshot removes. Old snapshots go last. Equal contents are no new snapshot.
"""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import orjson

from wharfinger.contracts.delivery_records import PinRecord, RolloutRecord, SnapshotRecord, WorkRecord
from wharfinger.contracts.placement_rollouts import (
    ForgetContentsInput,
    ForgottenContents,
    TakenSnapshot,
    TakeSnapshotInput,
)
from wharfinger.contracts.placements import StreamRevisions
from wharfinger.contracts.update_run_records import PLAN, RunPlanRecord
from wharfinger.engine.placements.hub_view import HubView
from wharfinger.engine.placements.seen import HISTORY_LIMIT
from wharfinger.engine.placements.selected import Selected, read_selected
from wharfinger.engine.placements.works import next_record, record_of
from wharfinger.errors import InvalidObject
from wharfinger.manifests import documents
from wharfinger.model.contents import ObjectId
from wharfinger.placement.enveloping import is_envelope, opened
from wharfinger.registry import keys
from wharfinger.registry.store import Compare, Delete, Get, Operation, Put, Store

PART = 1024 * 1024
"""Bytes of a part before it is deflated; one object may be larger."""
PART_LIMIT = 16 * 1024 * 1024
"""Bytes of a part when it is read."""
FORGOTTEN = 40
"""Keys that are removed in one transaction."""


async def take(store: Store, view: HubView, request: TakeSnapshotInput, time: str) -> TakenSnapshot:
    """Look at what is selected now, and keep what is new. `time`: RFC 3339, UTC. May be called again."""
    reference = request.placement
    read = await store.get(keys.placement(reference))
    if read.kv is None:
        return TakenSnapshot(outcome="gone", seen=StreamRevisions(objects=read.revision))
    try:
        obj = documents.parse(read.kv.value)
        if not isinstance(obj, Mapping):
            raise InvalidObject("is no object")
    except InvalidObject as error:
        return TakenSnapshot(outcome="gone", why=f"the placement cannot be read: {error}")
    selected = await read_selected(store, obj, reference, read.revision)
    there = (await store.get(keys.rollout(reference))).kv
    record = record_of(there)
    if (there.mod_revision if there is not None else 0) != request.rollout:
        if there is not None and (record.run_id, record.selected) == (request.run_id, request.selected):
            return _told("same", record, selected, there.mod_revision)  # an earlier try, whose answer was lost
        return TakenSnapshot(outcome="contended", seen=_hub(there.mod_revision if there is not None else 0))
    after = next_record(record, request, time).model_copy(
        update={"selected": request.selected, "trouble": selected.trouble}
    )
    known = await _known(store, reference)
    newest = max(known, default=0)
    after = after.model_copy(update={"snapshot": newest})
    if selected.trouble or (newest and known[newest].digest == selected.digest):
        return await _finish(store, request, after, selected, outcome="trouble" if selected.trouble else "same")
    after = after.model_copy(update={"snapshot": newest + 1})
    parts = list(_parts(selected.objects))
    compares = [Compare(keys.snapshot(reference, newest + 1), "create", 0)]
    for digest, raw in parts:
        compares.append(Compare(keys.contents(reference, digest), "mod", await _kept(store, reference, digest, raw)))
    head = SnapshotRecord(
        digest=selected.digest,
        parts=tuple(digest for digest, _ in parts),
        objects=selected.ids,
        enveloped=_enveloped(selected),
        revision=selected.revision,
        time=time,
    )
    writes = [Put(keys.snapshot(reference, newest + 1), head.to_bytes())]
    taken = await _finish(store, request, after, selected, outcome="taken", compares=compares, writes=writes)
    if taken.outcome == "taken":
        await _forget_old(store, view, request, taken.seen.hub, {**known, newest + 1: head})
    return taken


async def read(store: Store, reference: str, snapshot: SnapshotRecord) -> list[dict[str, Any]]:
    """The objects of a snapshot. Raises the store's errors, and `InvalidObject` when they are not what was kept."""
    found: list[dict[str, Any]] = []
    for digest in snapshot.parts:
        kv = (await store.get(keys.contents(reference, digest))).kv
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
    """Remove all snapshots of a placement whose decision is emptied, the heads last. May be called again."""
    reference = request.placement
    fence = Compare(keys.decision(reference), "mod", request.decision)
    removed = revision = 0
    for prefix in (keys.contents_of(reference), keys.pin(reference), keys.snapshots_of(reference)):
        names = [kv.key async for page in store.list(prefix, page_size=20) for kv in page.items]
        names = [name for name in names if prefix.endswith("/") or name == prefix]
        for first in range(0, len(names), FORGOTTEN):
            batch = names[first : first + FORGOTTEN]
            answered = await store.txn([fence], [Delete(name) for name in batch])
            if not answered.succeeded:
                return ForgottenContents(outcome="contended", seen=_hub(answered.revision))
            removed, revision = removed + len(batch), answered.revision
    return ForgottenContents(outcome="forgotten", keys=removed, seen=_hub(revision))


def _parts(objects: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, bytes]]:
    """Digest and bytes of each part."""
    batch: list[bytes] = []
    size = 0
    for obj in objects:
        raw = orjson.dumps(obj, option=orjson.OPT_SORT_KEYS)
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


async def _kept(store: Store, reference: str, digest: str, raw: bytes) -> int:
    """Keep a part where it is not there yet; its mod revision."""
    key = keys.contents(reference, digest)
    answered = await store.txn([Compare(key, "create", 0)], [Put(key, zlib.compress(raw, 6))], [Get(key)])
    if answered.succeeded:
        return answered.revision
    found = answered.reads[0]
    return found.mod_revision if found is not None else 0


async def _known(store: Store, reference: str) -> dict[int, SnapshotRecord]:
    found: dict[int, SnapshotRecord] = {}
    prefix = keys.snapshots_of(reference)
    async for page in store.list(prefix):
        for kv in page.items:
            number = kv.key.removeprefix(prefix)
            if number.isdecimal():
                try:
                    found[int(number)] = SnapshotRecord.model_validate_json(kv.value)
                except ValueError:
                    found[int(number)] = SnapshotRecord(digest="")
    return found


async def _forget_old(
    store: Store, view: HubView, request: TakeSnapshotInput, rollout: int, known: Mapping[int, SnapshotRecord]
) -> None:
    """Remove snapshots beyond the limit that nothing names, and parts that no snapshot names.

    What names them is read after `rollouts/<P>` was rewritten: from then on no earlier wave writes a work.
    """
    reference = request.placement
    seen = view.placements.get(reference)
    limit = seen.history_limit if seen is not None else HISTORY_LIMIT
    named = await _named(store, reference) | view.update_runs.named(reference) | {max(known)}
    old = [number for number in sorted(known)[:-limit] if number not in named]
    kept = {part for number, one in known.items() if number not in old for part in one.parts}
    removed: list[Operation] = [Delete(keys.snapshot(reference, number)) for number in old]
    prefix = keys.contents_of(reference)
    async for page in store.list(prefix, page_size=20):
        removed += [Delete(kv.key) for kv in page.items if kv.key.removeprefix(prefix) not in kept]
    if removed:
        await store.txn([Compare(keys.rollout(reference), "mod", rollout)], removed[:FORGOTTEN])


async def _named(store: Store, reference: str) -> set[int]:
    """Snapshots that a work, the pin or the plan of an update run names."""
    found: set[int] = set()
    async for page in store.list(f"{keys.RUNS}{reference}/"):
        for kv in page.items:
            found |= _planned(kv.value) if kv.key.endswith(f"/{PLAN}") else set()
    async for page in store.list(f"{keys.WORKS}{reference}/"):
        for kv in page.items:
            found |= _number(WorkRecord, kv.value)
    pinned = (await store.get(keys.pin(reference))).kv
    return found | (_number(PinRecord, pinned.value) if pinned is not None else set())


def _number(kind: type[WorkRecord] | type[PinRecord], value: bytes) -> set[int]:
    try:
        return {kind.model_validate_json(value).snapshot}
    except ValueError:
        return set()


def _planned(value: bytes) -> set[int]:
    try:
        plan = RunPlanRecord.from_bytes(value).plan
    except ValueError:
        return set()
    return {plan.snapshot} | {one.previous for stage in plan.stages for one in stage.members}


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
    key = keys.rollout(request.placement)
    answered = await store.txn(
        [
            Compare(key, "mod", request.rollout),
            Compare(keys.decision(request.placement), "mod", request.decision),
            *compares,
        ],
        [Put(key, after.to_bytes()), *writes],
        [Get(key)],
    )
    if not answered.succeeded:
        return TakenSnapshot(outcome="contended", seen=_hub(answered.revision))
    return _told(outcome, after, selected, answered.revision)


def _told(outcome: Any, record: RolloutRecord, selected: Selected, revision: int) -> TakenSnapshot:
    return TakenSnapshot(
        outcome=outcome,
        number=record.snapshot,
        objects=len(selected.objects),
        why=selected.trouble,
        seen=_hub(revision),
    )


def _hub(revision: int) -> StreamRevisions:
    return StreamRevisions(hub=revision)
