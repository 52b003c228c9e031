"""A fleet's end: it is marked, and its actor drains the instances before it removes the object."""

from __future__ import annotations

from datetime import UTC, datetime

from wharfinger.client.committing import commit, readable
from wharfinger.client.fleet_changes import Author, sign
from wharfinger.config.fleet import is_deleting
from wharfinger.errors import NotFound
from wharfinger.manifests import documents
from wharfinger.manifests.times import rfc3339
from wharfinger.registry import keys
from wharfinger.registry.store import Compare, Delete, KeyValue, Store


async def mark(store: Store, tenant: str, by: Author) -> str:
    """Mark a fleet as deleting; remove one that no actor ever acted on. Returns what was done.

    An object that cannot be read is overwritten: its instances are drained all the same. Raises `NotFound`, and the
    store's errors.
    """
    key = keys.fleet(tenant)
    now = rfc3339(datetime.now(UTC))
    was_deleting = False

    def over(stored: KeyValue | None) -> bytes | None:
        nonlocal was_deleting
        if stored is None:
            raise NotFound(f"there is no fleet {tenant}")
        obj = readable(stored.value) or {}
        was_deleting = is_deleting(obj)
        if was_deleting:
            return None
        sign(obj, by)
        obj["metadata"]["deletionTimestamp"] = now
        return documents.to_json(obj)

    revision = await commit(store, key, over, f"fleet {tenant}")
    alone = [Compare(key, "mod", revision), Compare(keys.actor(tenant), "mod", 0)]
    if (await store.txn(alone, [Delete(key)])).succeeded:
        return f"schedulerfleet/{tenant} deleted"
    return f"schedulerfleet/{tenant} is being deleted" + (" already" if was_deleting else "")
