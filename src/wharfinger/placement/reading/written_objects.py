"""Objects of placement as commands and clients write them: created, and marked as deleting, for a hub to remove."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import uuid4

from wharfinger.errors import AlreadyExists, InvalidObject, NotFound
from wharfinger.etcd.store import KeyValue, Store
from wharfinger.objects.documents import documents, merge
from wharfinger.objects.documents.kinds import Reference
from wharfinger.objects.documents.times import rfc3339_now
from wharfinger.placement.spec.placement import check_placement_object
from wharfinger.process.committing import Deletion, commit, readable, same
from wharfinger.process.stored_objects import key_of


def new_object(
    about: Reference, spec: Mapping[str, Any], annotations: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """An object that is to be created. Raises `InvalidConfiguration`, which names all that is wrong."""
    manifest = {
        "apiVersion": f"{about.kind.group}/v1",
        "kind": about.kind.name,
        "metadata": {"name": about.name, **({"annotations": dict(annotations)} if annotations else {})},
        "spec": dict(spec),
    }
    obj = merge.created(manifest, about, uid=str(uuid4()), now=rfc3339_now())
    check_placement_object(obj)
    return obj


async def create(store: Store, about: Reference, obj: dict[str, Any]) -> int:
    """Create an object; its create revision. Raises `AlreadyExists`."""

    def over(stored: KeyValue | None) -> bytes | None:
        if stored is None:
            return documents.to_json(obj)
        if readable(stored.value) != obj:
            raise AlreadyExists(f"{about} exists already")
        return None  # an earlier try, whose answer was lost: each object has a uid of its own

    return (await commit(store, key_of(about), over, str(about))).create_revision


async def mark(store: Store, about: Reference) -> Deletion:
    """Mark a placement or a member cluster as deleting.

    Raises `NotFound`, and `InvalidObject` for one that cannot be read.
    """
    key = key_of(about)

    def over(stored: KeyValue | None) -> bytes | None:
        if stored is None:
            raise NotFound(f"{about} does not exist")
        obj = readable(stored.value)
        if obj is None:
            raise InvalidObject(
                f"{about} cannot be read, so it cannot be marked: apply it again and delete it then, "
                f"or remove its key at once (etcdctl --user root del {key})"
            )
        deleting = merge.marked(obj, rfc3339_now())
        return documents.to_json(deleting) if not same(deleting, obj) else None

    if (await commit(store, key, over, str(about))).written:
        return Deletion(f"{about} marked for deletion")
    return Deletion(f"{about} is being deleted already", written=False)
