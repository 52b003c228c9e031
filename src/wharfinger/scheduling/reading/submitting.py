"""Putting a pod into etcd and waiting for its end: bound, or gone.

The pod is created, never changed: a pod of the name that is there already is waited for when it is the same, so that a
submission can be repeated safely. The workers see the pod and place it in their order; the outcome is read from etcd.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping
from typing import Any
from uuid import uuid4

from wharfinger.errors import (
    AlreadyExists,
    Compacted,
    InvalidObject,
    RevisionWentBack,
    StoreError,
    Unavailable,
    UsageError,
)
from wharfinger.etcd import keys
from wharfinger.etcd.store import KeyValue, Store
from wharfinger.objects.documents import decode, documents, merge, unknown
from wharfinger.objects.documents.kinds import POD, PRIORITY_CLASS, Reference, reference
from wharfinger.objects.documents.metadata import checked_object
from wharfinger.objects.documents.times import rfc3339_now
from wharfinger.objects.model.formats import ClusterFormat
from wharfinger.objects.model.pod import Pod, PodKey
from wharfinger.objects.model.priority import NO_CLASSES, PriorityClass, resolve
from wharfinger.objects.rk8s import applying
from wharfinger.objects.rk8s.applying import is_same, written_over
from wharfinger.process.committing import commit, readable, same
from wharfinger.process.installation_record import check_written_here, has_copies
from wharfinger.scheduling.contracts.attempts import AttemptResult, GoneReason
from wharfinger.scheduling.reading.attempts import bound_by, decoded
from wharfinger.scheduling.reading.held_back import gates, unserved
from wharfinger.scheduling.reading.pods_and_nodes import read_record

TRY_AGAIN = 0.5
"""Seconds between two tries while etcd does not answer."""


async def create(store: Store, manifest: Mapping[str, Any], *, check_fields: bool) -> tuple[PodKey, int]:
    """Create the pod unless it is there already; answers its key and its create revision.

    `check_fields`: refuse fields that Kubernetes does not have, as `wharfinger apply` does.

    Raises `UsageError` for another kind, `InvalidObject`, `AlreadyExists` when a pod of the name differs, and the
    store's errors.
    """
    if store.format is ClusterFormat.RK8S:
        about, (value, is_it) = _made_document(manifest)
    else:
        about = reference(checked_object(manifest), "default")
        if about.kind is not POD:
            raise UsageError(f"{about} is no pod")
        check_written_here(await has_copies(store), "apply", POD)
        value, is_it = _made(manifest, about, check_fields=check_fields)

    def over(stored: KeyValue | None) -> bytes | None:
        if stored is None:
            return value
        if not is_it(stored.value):
            exists = f"{about} exists already and differs"
            raise AlreadyExists(f"{exists}: delete it first, or give the new pod another name")
        return None

    key = PodKey(about.namespace, about.name)
    return key, (await commit(store, keys.pod(*key), over, str(about))).create_revision


_Made = tuple[bytes | None, Callable[[bytes], bool]]
"""A pod's value where there is none yet, and whether a stored value is that of the same pod."""


def _made(manifest: Mapping[str, Any], about: Reference, *, check_fields: bool) -> _Made:
    if check_fields and (found_wrong := unknown.findings(manifest)):
        raise InvalidObject("; ".join(found_wrong))
    obj = merge.created(manifest, about, uid=str(uuid4()), now=rfc3339_now())
    decode.pod_from_mapping(obj)

    def is_it(stored: bytes) -> bool:
        before = readable(stored)
        try:
            return before is not None and same(merge.updated(before, manifest, about), before)
        except InvalidObject:  # bound to another node than the manifest names
            return False

    return documents.to_json(obj), is_it


def _made_document(manifest: Mapping[str, Any]) -> tuple[Reference, _Made]:
    """The same in a cluster of rk8s; fields that rk8s does not have are ignored, as it does."""
    document = applying.GivenDocument(applying.as_tree(manifest))
    if applying.kind_of(document.tree) != POD.name:
        raise UsageError(f"a {applying.kind_of(document.tree)} is no pod")
    about = Reference(POD, *applying.names_of(document.tree))
    value = written_over(None, document, uid=str(uuid4()), now=rfc3339_now())
    return about, (value, lambda stored: is_same(stored, document))


async def end_of(store: Store, key: PodKey, create_revision: int) -> AttemptResult:
    """Wait until that life of the pod is bound or gone; raises `InvalidObject`, `AccessDenied`.

    Every change since its creation is looked at, so that a pod that was bound and deleted since is bound.
    """
    path, start = keys.pod(*key), create_revision
    while True:
        try:
            async with store.watch(path, start) as batches:
                async for batch in batches:
                    for event in batch.events:
                        if event.kv.key == path:  # others only begin like it
                            kv = (await store.get(path)).kv if event.deleted else event.kv
                            ended = await _end(store, key, create_revision, kv)
                            if ended is not None:
                                return ended
                    start = batch.revision + 1
        except (Compacted, RevisionWentBack):
            ended, revision = await _end_now(store, key, create_revision)
            if ended is not None:
                return ended
            start = revision + 1
        except Unavailable:
            await asyncio.sleep(TRY_AGAIN)


async def _end_now(store: Store, key: PodKey, create_revision: int) -> tuple[AttemptResult | None, int]:
    """How it ended by what is stored now, when etcd answers; and the revision of that."""
    while True:
        try:
            read = await store.get(keys.pod(*key))
            return await _end(store, key, create_revision, read.kv), read.revision
        except Unavailable:
            await asyncio.sleep(TRY_AGAIN)


async def _end(store: Store, key: PodKey, create_revision: int, kv: KeyValue | None) -> AttemptResult | None:
    """How it ended; None while the pod is pending. `attempt` is 0: etcd does not keep the number."""
    if kv is None:
        return AttemptResult(outcome="gone", attempt=0, reason=GoneReason.DELETED)
    if kv.create_revision != create_revision:
        detail = "another pod has the name now"
        return AttemptResult(outcome="gone", attempt=0, reason=GoneReason.REPLACED, detail=detail)
    pod = decoded(store, kv, key)
    if pod.bound:
        return AttemptResult(outcome="bound", node=pod.node_name, attempt=0, bound_by=await bound_by(store, kv, pod))
    why = not_pending(pod)
    return AttemptResult(outcome="gone", attempt=0, reason=GoneReason.NOT_PENDING, detail=why) if why else None


def not_pending(pod: Pod) -> str:
    """Why an unbound pod is not to be placed; empty when it is."""
    if pod.finished:
        return f"its phase is {pod.phase}"
    return "it is being deleted" if pod.deletion_timestamp else ""


async def why_pending(store: Store, key: PodKey) -> str:
    """What the pod waits for, in the words of `wharfinger explain`; empty when that cannot be read."""
    try:
        kv = (await store.get(keys.pod(*key))).kv
        if kv is None:
            return ""
        pod = await _with_class(store, decoded(store, kv, key))
        reason = (await unserved(store, [pod])).get(key)
        if reason is not None and reason.by_name:
            return reason.sentence
        record = await read_record(store, key)
    except (StoreError, InvalidObject):
        return ""
    if (held := gates(pod)) or record is not None:
        return held or (record.message if record is not None else "")
    more = reason.sentence if reason is not None else f"`wharfinger explain pod {key}` shows more"
    return f"no attempt has reported yet: {more}"


async def _with_class(store: Store, pod: Pod) -> Pod:
    """The pod as its PriorityClass makes it; unchanged where it needs none."""
    name = pod.class_terms.name if pod.class_terms is not None else ""
    if not name:
        return pod
    classes = NO_CLASSES
    kv = (await store.get(keys.PRIORITY_CLASSES + name)).kv
    if kv is not None:
        with contextlib.suppress(InvalidObject):  # it counts for no gang
            found = decode.decode_surrounding(kv.value, PRIORITY_CLASS.name, name=name)
            classes = classes.with_class(found) if isinstance(found, PriorityClass) else classes
    return resolve(pod, classes)
