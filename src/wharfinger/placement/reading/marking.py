"""Marks placements and member clusters as deleting, for a hub to remove."""

from __future__ import annotations

from datetime import UTC, datetime

from wharfinger.errors import InvalidObject, NotFound
from wharfinger.etcd.store import KeyValue, Store
from wharfinger.objects.documents import documents, merge
from wharfinger.objects.documents.kinds import Reference
from wharfinger.objects.documents.times import rfc3339
from wharfinger.process.committing import commit, readable, same
from wharfinger.process.stored_objects import key_of


async def mark(store: Store, about: Reference) -> str:
    """Mark a placement or a member cluster as deleting; answers what was done.

    Raises `NotFound`, and `InvalidObject` for one that cannot be read.
    """
    marked_now, key = False, key_of(about)

    def over(stored: KeyValue | None) -> bytes | None:
        nonlocal marked_now
        if stored is None:
            raise NotFound(f"{about} does not exist")
        obj = readable(stored.value)
        if obj is None:
            raise InvalidObject(
                f"{about} cannot be read, so it cannot be marked: apply it again and delete it then, "
                f"or remove its key at once (etcdctl --user root del {key})"
            )
        deleting = merge.marked(obj, rfc3339(datetime.now(UTC)))
        marked_now = not same(deleting, obj)
        return documents.to_json(deleting) if marked_now else None

    await commit(store, key, over, str(about))
    return f"{about} marked for deletion" if marked_now else f"{about} is being deleted already"
