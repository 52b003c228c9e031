"""The live state of what-if questions: what etcd holds of nodes, pods and what else decisions read, at one revision."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from wharfinger.cli.output import progress
from wharfinger.errors import InvalidObject, UsageError
from wharfinger.etcd.store import KeyValue, Store
from wharfinger.objects.documents import decode, documents
from wharfinger.objects.documents.fields import mapping
from wharfinger.objects.documents.kinds import KINDS, POD, Kind
from wharfinger.objects.documents.metadata import check_key
from wharfinger.objects.model.formats import ClusterFormat
from wharfinger.objects.rk8s.applying import KINDS as RK8S_KINDS
from wharfinger.objects.rk8s.format import RK8S
from wharfinger.objects.rk8s.occupants import held_by
from wharfinger.process.stored_objects import prefix_of
from wharfinger.whatif.inventory import Ref
from wharfinger.whatif.scene import KINDS as SCENE_KINDS

if TYPE_CHECKING:
    from wharfinger.whatif.cli.supposed import Supposed

OBJECT_LIMIT = 500_000
"""Objects, given and live together."""


def telling_kinds(format_: ClusterFormat) -> Collection[str]:
    """The kinds that mean something to placing pods."""
    return SCENE_KINDS if format_ is ClusterFormat.KUBERNETES else RK8S_KINDS


async def read_live(store: Store, found: Supposed) -> None:
    """Everything that etcd holds of the kinds that matter, at one revision; what cannot be read is counted in a note.

    Raises `UsageError` beyond the `OBJECT_LIMIT`, `StoreError`.
    """
    found.format = store.format
    unreadable = count = 0
    with progress("reading etcd", 0) as advance:
        for kind in KINDS:
            if kind.name not in telling_kinds(store.format):
                continue
            async for page in store.list(prefix_of(kind), revision=found.revision or 0):
                found.revision = page.revision
                for kv in page.items:
                    count += 1
                    if count > OBJECT_LIMIT:
                        raise UsageError(f"etcd holds more than {OBJECT_LIMIT:,} objects")
                    unreadable += not _put_live(found, kind, kv)
                    advance(count, 0)
    if unreadable:
        found.notes.append(f"{unreadable} objects in etcd cannot be read and do not count")


def _put_live(found: Supposed, kind: Kind, kv: KeyValue) -> bool:
    """Add a stored object; whether it can be read. What it leaves out of kind and namespace, its key says."""
    *spaces, name = kv.key.removeprefix(prefix_of(kind)).split("/")
    if len(spaces) != kind.namespaced:
        return False
    if kind is POD:
        found.created[Ref(kind.name, spaces[0], name)] = kv.create_revision
    if found.format is ClusterFormat.RK8S:
        return _put_live_document(found, kind, kv.value, name)
    try:
        obj = documents.parse(kv.value)
        check_key(obj, namespace="".join(spaces), name=name)
        metadata = {**({"namespace": spaces[0]} if spaces else {}), **mapping(obj, "metadata")}
        version = f"{kind.group}/v1" if kind.group else "v1"
        found.inventory.put({"apiVersion": version, "kind": kind.name, **obj, "metadata": metadata})
    except InvalidObject:
        return False
    return True


def _put_live_document(found: Supposed, kind: Kind, value: bytes, name: str) -> bool:
    """The same of a stored document of rk8s; of a bound pod that cannot be read, what it holds on its node."""
    try:
        if kind is not POD:
            found.inventory.put(RK8S.node_mapping(value, name=name))
            return True
        obj = RK8S.pod_mapping(value, name=name)
        decode.pod_from_mapping(obj)
    except InvalidObject:
        held = held_by(value, name) if kind is POD else None
        if held is None:
            return False
        found.stand_ins.add(found.inventory.put(held))
        return True
    found.inventory.put(obj)
    return True
