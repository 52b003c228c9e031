"""What people write about member clusters: that they join, what they take, and what they give up."""

from __future__ import annotations

from typing import Literal

from wharfinger.errors import InvalidConfiguration, InvalidObject, NotFound, RequestTooLarge, UsageError
from wharfinger.etcd.store import Compare, KeyValue, Put, Store
from wharfinger.objects.documents import documents, kinds, merge
from wharfinger.objects.documents.kinds import Reference, reference
from wharfinger.objects.model.placement_kinds import CLUSTER_GROUP, MEMBER_CLUSTER
from wharfinger.placement.contracts import placement_keys
from wharfinger.placement.contracts.placement_records import DrainRecord
from wharfinger.placement.spec.members import with_labels, with_taints
from wharfinger.placement.spec.placement import check_placement_object
from wharfinger.process.committing import Author, commit, readable, same


async def write_member(
    store: Store, name: str, labels: dict[str, str | None], taints: dict[str, str | None], *, uid: str, now: str
) -> str:
    """Set labels and taints of a member cluster, new or not; `created`, `configured` or `unchanged`.

    All else of it stays as whoever wrote it last has it. `uid` and `now` (RFC 3339, UTC) are given to a new one.
    Raises `UsageError` for what is no member cluster, and the store's errors.
    """
    about = Reference(kinds.MEMBER_CLUSTER, "", name)

    def over(stored: KeyValue | None) -> bytes | None:
        before = readable(stored.value) if stored is not None else None
        metadata = (before or {}).get("metadata") or {}
        if metadata.get("deletionTimestamp"):
            raise UsageError(f"member cluster {name} is leaving: join again when it is gone")
        version = (before or {}).get("apiVersion") or f"{CLUSTER_GROUP}/v1"
        named = {
            **(before or {}),
            "apiVersion": version,
            "kind": MEMBER_CLUSTER,
            "metadata": {**metadata, "name": name},
        }
        given = with_taints(with_labels(named, labels), taints)
        checked = reference(given, "")
        if before is None:
            obj = merge.created(given, checked, uid=uid, now=now)
        else:
            obj = merge.updated(before, given, checked)
        check_placement_object(obj)
        return documents.to_json(obj) if before is None or not same(obj, before) else None

    try:
        return (await commit(store, placement_keys.member_cluster(name), over, str(about))).result
    except (InvalidConfiguration, InvalidObject, RequestTooLarge) as error:
        raise UsageError(str(error)) from error


async def put_drain(store: Store, name: str, want: Literal["cordon", "drain"], by: Author, *, now: str) -> None:
    """Let a member cluster take nothing new, or give up what it has. `now`: RFC 3339. Raises `NotFound`."""
    key = placement_keys.member_cluster(name)
    found = (await store.get(key)).kv
    moved = found is None
    if found is not None:
        identity = found.create_revision
        record = DrainRecord(want=want, identity=identity, by=by.who, why=by.why, time=now)
        same_life = [Compare(key, "create", identity)]
        moved = not (await store.txn(same_life, [Put(placement_keys.drain(name), record.to_bytes())])).succeeded
    if moved:
        raise NotFound(f"there is no member cluster {name[:80]!r}")


async def remove_drain(store: Store, name: str) -> bool:
    """Let a member cluster take placements again; whether it did not."""
    return await store.delete(placement_keys.drain(name))
