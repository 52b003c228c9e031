"""Evicts the victims of a nomination: marks and deletes each one, in transactions of its own.

::

    immediate   mark (condition DisruptionTarget) ──► delete the key: no platform runs the pods
                where pods are not marked (rk8s): delete the key
    graceful    mark, with a deletion timestamp   ──► the platform ends the pod, and deletes the key

Every transaction compares three things: the victim, which must be the pod that was chosen; the preemptor, which must
still be pending and nominated to the node; and its attempt record, which must be the one that names the victims. So
no pod is evicted for a preemptor that was deleted or bound, decided otherwise, or lost its nomination to a more
important pod. The activity may run again: it skips the victims that have left already. First, less
important pods lose their nomination to the node.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from wharfinger.apiserver.events import pod_reference
from wharfinger.errors import RequestTooLarge, Unavailable
from wharfinger.etcd import keys
from wharfinger.etcd.store import Compare, Delete, Get, KeyValue, Operation, Put
from wharfinger.objects.documents.formats import format_of
from wharfinger.objects.documents.times import rfc3339
from wharfinger.objects.model.conditions import PREEMPTION
from wharfinger.objects.model.pod import Pod, PodKey
from wharfinger.process.records import AttemptRecord
from wharfinger.scheduling.contracts.eviction import GRACEFUL, IMMEDIATE, LISTED, Evicted, EvictInput, Victim
from wharfinger.scheduling.contracts.scheduling import EvictOutcome, Gone
from wharfinger.scheduling.effects.binding.core import Core
from wharfinger.scheduling.effects.binding.eligibility import PodReference, StoredPod
from wharfinger.scheduling.effects.binding.writers import ApiWriters, CopyKind
from wharfinger.scheduling.effects.clearing_nodes import decoded
from wharfinger.scheduling.effects.refusing import nominations

COPY_WITHIN = 3.0
"""Seconds until the importer has copied what was deleted in a Kubernetes API; a tenth of one is usual."""
COPY_TRIES = 60
PREEMPTED = "{scheduler}: preempting to accommodate a higher priority pod {pod}"
"""Of the condition DisruptionTarget."""


class Superseded(Exception):
    """The preemptor has changed; `outcome` is the activity's result."""

    def __init__(self, outcome: EvictOutcome) -> None:
        super().__init__(str(outcome))
        self.outcome = outcome


@dataclass(slots=True)
class Saga:
    """One eviction in progress: its preemptor, and the results so far."""

    request: EvictInput
    reference: PodReference
    preemptor: StoredPod
    evicted: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    leaving: float = 0.0
    revision: int = 0
    complete: bool = True

    @property
    def message(self) -> str:
        """The message of the victims' condition."""
        pod = self.preemptor.pod
        return PREEMPTED.format(scheduler=pod.scheduler_name, pod=pod.key)

    @property
    def record_key(self) -> str:
        """The key of the preemptor's attempt record."""
        return keys.attempt(*self.reference.key)

    def outcome(self) -> Evicted:
        """The activity's result."""
        return Evicted(
            evicted=tuple(self.evicted[:LISTED]),
            notes=first_ones(self.notes),
            leaving=self.leaving,
            revision=self.revision,
            complete=self.complete,
        )

    def lapsed(self, revision: int = 0) -> Evicted:
        """The result when the other victims must stay: the preemptor is placed again, on a state that shows why."""
        self.complete, self.revision = False, max(self.revision, revision)
        return self.outcome()


class Evictions:
    """Evicts for the attempts of one worker."""

    def __init__(self, core: Core, *, mode: str) -> None:
        """`mode`: `immediate` or `graceful`."""
        self._store = core.process.store
        self._format = format_of(core.process.store.format)
        self._catch_up = core.settings.catch_up
        self._cache = core.pool.cache
        self._eligibility = core.eligibility
        self._mode = mode
        self._kubernetes = core.kubernetes
        """Where a Kubernetes API is the store, pods are evicted from it, and copies follow."""
        self._utc_now = core.process.utc_now

    async def evict(self, request: EvictInput) -> EvictOutcome:
        """Evict the victims of the preemptor's nomination; Gone when the preemptor needs no room any more.

        Safe to run again. Raises `StoreError`.
        """
        reference = PodReference(PodKey(request.namespace, request.name), request.uid, request.create_revision)
        if not self._format.marks_pods:  # the nomination is in the record
            await self._cache.progress.wait_for(request.record_revision, self._catch_up)
        found = await self._eligibility.read(reference)
        if isinstance(found, Gone):
            return found
        saga = Saga(request, reference, found, revision=found.read_at)
        try:
            self._check_nomination(saga)
            # Any client may have changed a copy in etcd, so a copy alone is no reason to delete pods in the API.
            if self._kubernetes is not None and not await self._kubernetes.evictions.may_preempt(found.pod, found.raw):
                return saga.lapsed()
            node = await self._store.get(keys.node(request.node))
            if node.kv is None:  # its pods are gone with it
                return saga.lapsed(node.revision)
            await self._clear_lower_nominations(saga)
            for victim in await self._victims(saga):
                await self._evict(saga, victim)
        except Superseded as ended:
            return ended.outcome
        return saga.outcome()

    async def _victims(self, saga: Saga) -> Sequence[Victim]:
        """All victims, from the record where they are too many for a payload. Raises `Superseded`."""
        if not saga.request.in_record:
            return saga.request.victims
        read = await self._store.get(saga.record_key)
        if read.kv is None or read.kv.mod_revision != saga.request.record_revision:
            raise Superseded(saga.lapsed(read.revision))
        record = AttemptRecord.model_validate_json(read.kv.value)
        return [
            Victim(pod=pod, create_revision=revision, uid="")
            for pod, revision in zip(record.victims, record.victim_revisions or (), strict=True)
        ]

    def _check_nomination(self, saga: Saga) -> None:
        """Raise `Superseded` unless the preemptor is still nominated to the node."""
        if saga.preemptor.pod.nominated_node_name != saga.request.node:
            raise Superseded(saga.lapsed())

    async def _evict(self, saga: Saga, victim: Victim) -> None:
        """Mark and delete one victim, unless it has left or must be spared by now."""
        identity = nominations.victim_identity(victim)
        key = keys.pod(identity.namespace, identity.name)
        read = await self._store.get(key)
        saga.revision = max(saga.revision, read.revision)
        kv = read.kv
        while True:
            if kv is None or kv.create_revision != identity.create_revision:
                saga.notes.append(f"{victim.pod} had left already")
                return
            pod = decoded(kv, identity, self._format)
            pod = self._cache.resolved(pod) if pod is not None else None
            spared = self._why_spared(saga, pod)
            if spared:
                saga.notes.append(f"{victim.pod} was not evicted: {spared}")
                saga.complete = False
                return
            assert pod is not None
            if pod.finished:
                saga.notes.append(f"{victim.pod} had finished already")
                return
            if self._kubernetes is not None and not pod.deletion_timestamp:
                if await self._has_lost_its_bind(saga, self._kubernetes, pod, kv):
                    saga.notes.append(f"{victim.pod} was not bound yet: its bind was given up")
                    return
                done = await self._evict_in_kubernetes(saga, self._kubernetes, pod, kv)
                if done and victim.pod not in saga.evicted:
                    saga.evicted.append(victim.pod)
                kv = await self._after(saga, kv, done=done)
                continue
            operation = self._next(saga, pod, kv)
            if operation is None:
                saga.leaving = max(saga.leaving, nominations.until_overdue(pod.deletion_timestamp, self._utc_now()))
                return
            done, kv = await self._step(saga, kv, operation)
            if done and victim.pod not in saga.evicted:
                saga.evicted.append(victim.pod)
            if done and kv is None:
                return

    async def _has_lost_its_bind(self, saga: Saga, kubernetes: ApiWriters, pod: Pod, kv: KeyValue) -> bool:
        """Give up the bind of a victim that waits for its volumes or plugins; whether it is not bound now.

        Such a pod runs nowhere, so it is not deleted: it waits again, as in kube-scheduler. Raises `Superseded`,
        `StoreError` and `UpstreamError`.
        """
        promise = self._cache.kubernetes.promises.get(pod.key) if self._cache.kubernetes is not None else None
        if promise is None or promise.ready:
            return False
        still, _ = await self._step(saga, kv, Get(kv.key))
        if not still:
            return False
        copy = (await kubernetes.promises.give_up(pod.key, f"pod {saga.preemptor.pod.key} preempts it")).copy
        found = decoded(copy, pod.identity, self._format) if copy is not None else None
        if copy is None or found is None or found.bound:
            return False
        saga.revision = max(saga.revision, copy.mod_revision)
        return True

    async def _evict_in_kubernetes(self, saga: Saga, kubernetes: ApiWriters, pod: Pod, kv: KeyValue) -> bool:
        """Evict a victim from the Kubernetes API, after a look at whether it still is to go; whether it was done.

        Raises `Superseded`, `StoreError` and `UpstreamError`.
        """
        still, _ = await self._step(saga, kv, Get(kv.key))
        if not still:
            return False
        preemptor = saga.preemptor.pod
        done = await kubernetes.evictions.evict(pod, kv.value, scheduler=preemptor.scheduler_name)
        if done:
            events = kubernetes.teller.events(pod, saga.request.run_id, scheduler=preemptor.scheduler_name)
            events.preempted(pod_reference(*preemptor.key, preemptor.uid), saga.request.node)
        return done

    async def _after(self, saga: Saga, kv: KeyValue, *, done: bool) -> KeyValue | None:
        """The victim's copy as it is once the importer has shown what was done; None when it is gone.

        Where nothing was done, because the pod had changed in the API, it is looked at again soon: what changed there
        may be nothing that copies have.
        """
        for _ in range(COPY_TRIES):
            read = await self._store.get(kv.key)
            saga.revision = max(saga.revision, read.revision)
            if read.kv is None or read.kv.mod_revision != kv.mod_revision:
                return read.kv
            await self._cache.progress.wait_for(read.revision + 1, COPY_WITHIN / COPY_TRIES)
            if not done:
                return read.kv
        raise Unavailable(f"the copy of pod {kv.key} does not follow the API")

    def _why_spared(self, saga: Saga, pod: Pod | None) -> str:
        """Why the pod must not be evicted; empty when it may be."""
        if pod is None:
            return "it cannot be read"
        if pod.node_name != saga.request.node:
            return f"it is not bound to {saga.request.node}"
        if pod.priority >= saga.preemptor.pod.priority:
            return "its priority is not lower"
        return ""

    def _next(self, saga: Saga, pod: Pod, kv: KeyValue) -> Operation | None:
        """The next operation on a victim as it is now; None when the platform has to do the rest."""
        key = keys.pod(*pod.key)
        if self._kubernetes is None and (self._mode == IMMEDIATE or not self._format.marks_pods):
            marked = pod.disruption_target or not self._format.marks_pods
            return Delete(key) if marked else Put(key, self._marked(saga, kv))
        if pod.deletion_timestamp:
            return None
        grace = pod.termination_grace_seconds
        ends = self._utc_now() + timedelta(seconds=grace)
        return Put(key, self._marked(saga, kv, ends=ends, grace=grace))

    def _marked(self, saga: Saga, kv: KeyValue, *, ends: datetime | None = None, grace: int = 0) -> bytes:
        return self._format.evict_pod(
            kv.value,
            message=saga.message,
            now=rfc3339(self._utc_now()),
            deletion=None if ends is None else (rfc3339(ends), grace),
            reason=PREEMPTION,
        )

    async def _step(self, saga: Saga, kv: KeyValue, operation: Operation) -> tuple[bool, KeyValue | None]:
        """One transaction on a pod that is not the preemptor: whether it was done, and the pod as it is now.

        Raises `Superseded`.
        """
        while True:
            pod = saga.preemptor.pod
            preemptor_key = keys.pod(*pod.key)
            compares = [
                Compare(kv.key, "mod", kv.mod_revision),
                Compare(preemptor_key, "mod", pod.mod_revision),
                Compare(saga.record_key, "mod", saga.request.record_revision),
            ]
            reads = [Get(compare.key) for compare in compares]
            try:
                answer = await self._store.txn(compares, [operation, Get(kv.key)], reads)
            except RequestTooLarge:
                if self._mode == GRACEFUL or not isinstance(operation, Put):
                    raise
                operation = Delete(kv.key)  # no room for the mark in a pod of this size
                continue
            saga.revision = max(saga.revision, answer.revision)
            if answer.succeeded:
                return True, answer.reads[0]
            current, preemptor, record = answer.reads
            found = await self._eligibility.found(saga.reference, preemptor, answer.revision)
            if isinstance(found, Gone):
                raise Superseded(found)
            if record is None or record.mod_revision != saga.request.record_revision:
                raise Superseded(saga.lapsed())
            saga.preemptor = found
            self._check_nomination(saga)
            if current is None or current.mod_revision != kv.mod_revision:
                return False, current

    async def _clear_lower_nominations(self, saga: Saga) -> None:
        """Clear nominations of pods of lower priority to this node, because its room is for a more important pod."""
        pod = saga.preemptor.pod
        for other in self._cache.nominated_on(saga.request.node):
            if other.priority >= pod.priority or other.key == pod.key:
                continue
            key = keys.pod(*other.key) if self._format.marks_pods else keys.attempt(*other.key)
            kv = (await self._store.get(key)).kv
            while kv is not None and (cleared := self._without_nomination(kv, other, saga.request.node)) is not None:
                if self._kubernetes is None:
                    _, kv = await self._step(saga, kv, Put(kv.key, cleared))
                else:
                    kv = await self._clear_in_kubernetes(saga, self._kubernetes, other, kv, cleared)

    async def _clear_in_kubernetes(
        self, saga: Saga, kubernetes: ApiWriters, other: Pod, kv: KeyValue, cleared: bytes
    ) -> KeyValue | None:
        """Clear a nomination in the Kubernetes API, whose answer clears it in the copy; the copy afterwards.

        Where it is not answered, the activity is tried again before anything is evicted. Where it is refused for good,
        and where only the copy has the nomination, the copy alone is cleared: at least here the room is for the more
        important pod.
        """
        still, current = await self._step(saga, kv, Get(kv.key))
        if not still:
            return current
        found = await kubernetes.evictions.compare(other, kv.value)
        if found.kind is CopyKind.OTHER:
            return await self._after(saga, kv, done=False)
        # The API clears it: a copy that alone was changed would get it back with the next state of the pod.
        refused = await kubernetes.teller.clear_nomination(other, kv.value) if found.kind is CopyKind.TRUE else ""
        if refused is None:  # the API has a newer state than the copy, which follows
            return await self._after(saga, kv, done=True)
        if refused:
            saga.notes.append(f"the nomination of {other.key} was not cleared in the API: {refused}")
        else:
            current = (await self._store.get(kv.key)).kv
            if current is None or current.mod_revision != kv.mod_revision:
                return current
        # The API keeps it, or has never been told of it, so that its answer is no newer state.
        _, current = await self._step(saga, kv, Put(kv.key, cleared))
        return current

    def _without_nomination(self, kv: KeyValue, pod: Pod, node: str) -> bytes | None:
        """The pod, or its record where pods do not carry it, without its nomination to that node; None without one."""
        if self._format.marks_pods:
            alive = kv.create_revision == pod.create_revision
            return self._format.clear_nomination(kv.value, node) if alive else None
        record = AttemptRecord.from_bytes(kv.value)
        if record is None or (record.create_revision, record.nominated_node) != (pod.create_revision, node):
            return None
        return record.model_copy(update={"nominated_node": ""}).to_bytes()


def first_ones(notes: Sequence[str]) -> tuple[str, ...]:
    """Notes within the size of a payload: a decision may have very many victims."""
    more = len(notes) - LISTED
    return (*notes[:LISTED], *([f"and {more} more like these"] if more > 0 else ()))
