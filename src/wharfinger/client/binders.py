"""Which attempts bound pods, where pods do not carry it themselves: by the records beside them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import NamedTuple

from wharfinger.contracts.records import binder_of
from wharfinger.errors import Compacted, RevisionFuture
from wharfinger.model.pod import PodKey
from wharfinger.registry import keys
from wharfinger.registry.store import Get, Store

READS = 100
"""Records read in one transaction; etcd takes 128 operations unless set."""


class AssignedPod(NamedTuple):
    """A bound pod, as far as its record has to agree with it."""

    key: PodKey
    create_revision: int
    node: str


async def binders_of(store: Store, pods: Iterable[AssignedPod], revision: int) -> Mapping[PodKey, str]:
    """`<workflow id>@<run id>` by pod, of those that an attempt bound. Raises the store's errors.

    A record goes with its pod. So what is not there now is looked for at the revision of the bind, while etcd keeps it.
    """
    found: dict[PodKey, str] = {}
    left = iter(pods)
    while chunk := list(islice(left, READS)):
        answer = await store.txn([], [Get(keys.bound_by(*pod.key)) for pod in chunk])
        for pod, kv in zip(chunk, answer.reads, strict=True):
            found[pod.key] = binder_of(kv.value if kv is not None else None, pod.create_revision, pod.node)
            if not found[pod.key]:
                found[pod.key] = await _then(store, pod, revision)
    return found


async def _then(store: Store, pod: AssignedPod, revision: int) -> str:
    try:
        kv = (await store.get(keys.bound_by(*pod.key), revision=revision)).kv
    except (Compacted, RevisionFuture):
        return ""
    return binder_of(kv.value if kv is not None else None, pod.create_revision, pod.node)


async def listed_binders(store: Store, pods: Sequence[AssignedPod], revision: int) -> Mapping[PodKey, str]:
    """The same by one list, as of a revision; for many pods. Raises the store's errors."""
    if not pods:
        return {}
    values = {kv.key: kv.value async for kv in store.each(keys.BOUND_BY, revision=revision)}
    return {pod.key: binder_of(values.get(keys.bound_by(*pod.key)), pod.create_revision, pod.node) for pod in pods}
