"""What `delete` does with placements and member clusters: mark them. A hub removes them when nothing is left."""

from __future__ import annotations

from datetime import UTC, datetime

from wharfinger.cli.output import say
from wharfinger.etcd.store import KeyValue, Store
from wharfinger.objects.documents import documents, merge
from wharfinger.objects.documents.kinds import Reference
from wharfinger.objects.documents.times import rfc3339
from wharfinger.process.committing import commit, readable, same
from wharfinger.process.stored_objects import key_of


async def mark(store: Store, about: Reference, ignore_not_found: bool) -> bool:
    """Mark a placement or a member cluster as deleting; whether that is done, or need not be."""
    marked_now = unreadable = False

    def over(stored: KeyValue | None) -> bytes | None:
        nonlocal marked_now, unreadable
        obj = readable(stored.value) if stored is not None else None
        unreadable = stored is not None and obj is None
        if obj is None:
            return None
        deleting = merge.marked(obj, rfc3339(datetime.now(UTC)))
        marked_now = not same(deleting, obj)
        return documents.to_json(deleting) if marked_now else None

    key = key_of(about)
    if not await commit(store, key, over, str(about)):
        if not ignore_not_found:
            say(f"error: {about} does not exist", err=True)
        return ignore_not_found
    if unreadable:
        say(
            f"error: {about} cannot be read, so it cannot be marked: apply it again and delete it then, "
            f"or remove its key at once (etcdctl --user root del {key})",
            err=True,
        )
        return False
    say(f"{about} marked for deletion" if marked_now else f"{about} is being deleted already")
    return True
