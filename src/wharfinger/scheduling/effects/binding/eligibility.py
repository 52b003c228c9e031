"""Where a pod stands: still ours to place, or gone, and why.

The cache may be behind, so what it says never ends an attempt; a linearizable read does. Activities
share this so that they agree on what `Gone` means.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from wharfinger.errors import InvalidObject, Unavailable
from wharfinger.etcd import keys
from wharfinger.etcd.store import Compare, Get, KeyValue, Store
from wharfinger.objects.documents.formats import KUBERNETES, ObjectFormat, format_of
from wharfinger.objects.model.pod import Pod, PodKey
from wharfinger.objects.model.texts import one_line
from wharfinger.process.records import binder_of
from wharfinger.scheduling.contracts.attempts import GoneReason
from wharfinger.scheduling.contracts.scheduling import Gone
from wharfinger.scheduling.state.cache.cache import Cache
from wharfinger.scheduling.state.pool import Ownership

CATCH_UP = 0.5
"""Seconds to wait for the watch before whose pod it is counts as unknown."""
READ_TOGETHER = 32
"""Pods that are read in one transaction."""
DETAIL_LIMIT = 400
"""Characters of why an object cannot be read: the text may quote the object."""


@dataclass(frozen=True, slots=True)
class StoredPod:
    """A pod and the very object it was read from."""

    pod: Pod
    raw: bytes
    read_at: int = 0
    """The store's revision when it was read; 0 = it comes from the watch."""
    format: ObjectFormat = KUBERNETES
    """Of the object."""


@dataclass(frozen=True, slots=True)
class PodAnswer:
    """A pod as etcd has it."""

    kv: KeyValue | None
    revision: int
    bound_by: KeyValue | None = None
    """The record of its binder, where pods do not carry it."""


@dataclass(frozen=True, slots=True)
class PodReference:
    """A pod by its key, and by uid and create revision where they are known."""

    key: PodKey
    uid: str = ""
    """Empty = any."""
    create_revision: int = 0
    """0 = any."""

    def matches(self, pod: Pod) -> bool:
        """Whether it refers to this pod, and not to an earlier or later one of the same name."""
        return self.uid in ("", pod.uid) and self.create_revision in (0, pod.create_revision)


class Eligibility:
    """Answers whether pods still are to be placed by this worker's pool."""

    def __init__(self, *, store: Store, cache: Cache, ownership: Ownership) -> None:
        self._store = store
        self._format = format_of(store.format)
        self._cache = cache
        self._ownership = ownership

    async def newest(self) -> int:
        """The revision that etcd is at; raises `StoreError`."""
        return (await self._store.get(keys.INSTALLATION)).revision

    async def read(self, reference: PodReference) -> StoredPod | Gone:
        """The pod as etcd holds it now, when it still is to be placed; raises `StoreError`.

        What this worker has not seen of the tenants is waited for: a pod that has just become ours would else be told
        to be another pool's.
        """
        read = await self.ask(reference)
        found = self.of_stored(reference, read.kv, read.revision, read.bound_by)
        if isinstance(found, Gone) and found.reason == "not-ours" and self._cache.progress.revision < read.revision:
            if not await self._cache.progress.wait_for(read.revision, CATCH_UP):
                raise Unavailable(f"this worker's watch is behind, and whose pod {reference.key} is not known here")
            found = self.of_stored(reference, read.kv, read.revision, read.bound_by)
        return found

    async def found(self, reference: PodReference, kv: KeyValue | None, revision: int) -> StoredPod | Gone:
        """`of_stored`, for an object that was read without the record of its binder; raises `StoreError`."""
        found = self.of_stored(reference, kv, revision)
        if isinstance(found, Gone) and found.reason == "bound" and not self._format.marks_pods:
            return await self.read(reference)
        return found

    async def ask(self, reference: PodReference) -> PodAnswer:
        """What etcd has of the pod, with the record of its binder where pods do not carry it; raises `StoreError`."""
        key = keys.pod(*reference.key)
        if self._format.marks_pods:
            read = await self._store.get(key)
            return PodAnswer(read.kv, read.revision)
        answer = await self._store.txn([], [Get(key), Get(keys.bound_by(*reference.key))])
        return PodAnswer(answer.reads[0], answer.revision, answer.reads[1])

    async def ask_many(self, references: Sequence[PodReference]) -> list[PodAnswer]:
        """The same of many pods, many in one transaction; raises `StoreError`, with none on the way."""
        found: list[PodAnswer] = []
        for at in range(0, len(references), READ_TOGETHER):
            pods = [one.key for one in references[at : at + READ_TOGETHER]]
            marks = [] if self._format.marks_pods else [Get(keys.bound_by(*pod)) for pod in pods]
            answer = await self._store.txn([], [*(Get(keys.pod(*pod)) for pod in pods), *marks])
            binders = answer.reads[len(pods) :] or (None,) * len(pods)
            found += [
                PodAnswer(kv, answer.revision, bound_by)
                for kv, bound_by in zip(answer.reads[: len(pods)], binders, strict=True)
            ]
        return found

    def of_stored(
        self, reference: PodReference, kv: KeyValue | None, revision: int = 0, bound_by: KeyValue | None = None
    ) -> StoredPod | Gone:
        """The same for an object read already (linearizably), at this revision of the store.

        `bound_by`: the record of its binder, where pods do not carry it.
        """
        if kv is None:
            return Gone(reason="deleted", cause=GoneReason.DELETED)
        try:
            pod = self.decode(reference.key, kv)
        except InvalidObject as error:
            detail = one_line(f"the stored object cannot be read: {error}", DETAIL_LIMIT)
            return Gone(reason="not-ours", detail=detail, cause=GoneReason.UNREADABLE)
        gone = self.verdict(reference, pod)
        if gone is not None and gone.reason == "bound":
            return gone.model_copy(update={"bound_by": self._binder(kv, pod, bound_by)})
        return gone or StoredPod(self._nominated(pod), kv.value, revision, self._format)

    def decode(self, key: PodKey, kv: KeyValue) -> Pod:
        """The pod of a stored object, with the priority that it has by the classes as they are now.

        Raises `InvalidObject`.
        """
        return self._cache.resolved(self._format.decode_pod(kv.value, **key._asdict(), **kv.revisions))

    def _binder(self, kv: KeyValue, pod: Pod, record: KeyValue | None) -> str:
        """`<workflow id>@<run id>` of what bound a stored pod; empty when that was not wharfinger."""
        if self._format.marks_pods:
            return self._format.attempt_of(kv.value)
        return binder_of(record.value if record is not None else None, pod.create_revision, pod.node_name)

    def _nominated(self, pod: Pod) -> Pod:
        """The pod with its nomination, which this worker has from its record where pods do not carry it."""
        known = self._cache.pods.get(pod.key) if not self._format.marks_pods else None
        if known is None or known.identity != pod.identity or not known.nominated_node_name:
            return pod
        return replace(pod, nominated_node_name=known.nominated_node_name)

    def from_cache(self, reference: PodReference) -> StoredPod | None:
        """The pod as the watch showed it, when it still is to be placed; None means: ask etcd."""
        pod = self._cache.pods.get(reference.key)
        raw = self._cache.raw(reference.key)
        if pod is None or raw is None or self.verdict(reference, pod) is not None:
            return None
        return StoredPod(pod, raw, format=self._format)

    def tenancy(self, pod: Pod) -> list[Compare]:
        """What the pod's pool was decided on, as this worker last saw it: whether its label's tenant exists.

        Compared by every transaction about a pod with such a label, at the moment of its `verdict`: else a pool could
        bind or record a pod that has become the other's.
        """
        tenant = pod.labels.get(self._ownership.tenant_label, "")
        return [Compare(keys.tenant(tenant), "create", self._cache.tenants.get(tenant, 0))] if tenant else []

    def verdict(self, reference: PodReference, pod: Pod) -> Gone | None:
        """Why this pod is not to be placed by us, None when it is."""
        if not reference.matches(pod):
            return Gone(reason="deleted", detail="another pod has the name now", cause=GoneReason.REPLACED)
        if pod.bound:
            return Gone(reason="bound", node=pod.node_name)
        if pod.finished:
            return Gone(reason="finished", detail=f"its phase is {pod.phase}", cause=GoneReason.NOT_PENDING)
        if pod.deletion_timestamp:
            return Gone(reason="terminating", detail="it is being deleted", cause=GoneReason.NOT_PENDING)
        if not self._ownership.owns(pod, self._cache.tenants):
            tenant = self._ownership.tenant_of(pod, self._cache.tenants)
            served = pod.scheduler_name in self._ownership.scheduler_names
            cause = GoneReason.OTHER_POOL if served else GoneReason.OTHER_SCHEDULER
            return Gone(reason="not-ours", detail=f"scheduler {pod.scheduler_name}, pool {tenant}", cause=cause)
        return None


def no_profile(scheduler_name: str) -> Gone:
    """The pod is another scheduler's: this worker has no profile of that name."""
    return Gone(
        reason="not-ours", detail=f"this worker has no profile {scheduler_name}", cause=GoneReason.OTHER_SCHEDULER
    )
