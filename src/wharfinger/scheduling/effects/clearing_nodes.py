"""Clearing nodes of their pods: those of an absent node are requeued, those of a tainted one are evicted.

A budget that all workers share bounds how many nodes are cleared at a time.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum

from pydantic import ValidationError

from wharfinger.errors import InvalidObject, RequestTooLarge, Unavailable
from wharfinger.etcd import keys
from wharfinger.etcd.store import Compare, Delete, Get, KeyValue, Operation, Put, Store
from wharfinger.objects.documents.formats import ObjectFormat, decode_made_anew, format_of
from wharfinger.objects.documents.times import rfc3339
from wharfinger.objects.model.conditions import TAINT
from wharfinger.objects.model.node_evictions import Admission, admission, leaves, leaves_at, no_execute, recently
from wharfinger.objects.model.pod import Pod, PodIdentity
from wharfinger.objects.model.selectors import Taint
from wharfinger.process.records import NodeBudgetRecord
from wharfinger.scheduling.contracts.eviction import IMMEDIATE
from wharfinger.scheduling.state.cache.cache import Cache

log = logging.getLogger(__name__)

ADMISSION_TRIES = 10
"""Compare-and-sets; each fails only because another worker admitted a node in between."""
ADMISSION_PAUSE = 0.02
"""Seconds of the first pause between two of them; each is that much longer than the one before."""


class NodeBudget:
    """Admits nodes to be cleared, by a record in etcd that all workers share by compare-and-set.

    At most a tenth of the nodes, present and lost, is admitted within the window. A network split makes many nodes look
    lost at once; their pods still run there, so a scheduler that trusted that sight would double the load.
    """

    def __init__(
        self, store: Store, *, window: float, known: Callable[[Iterable[str]], int], utc_now: Callable[[], datetime]
    ) -> None:
        """`window` in seconds; `known`: the number of nodes, present and lost, and the given ones."""
        self._store = store
        self._window = window
        self._known = known
        self._utc_now = utc_now
        self._turn = asyncio.Lock()
        """Many nodes ask at once when many are lost; one process then need not contend with itself."""

    async def admit(self, node: str) -> Admission:
        """Admit the node, or say when to ask again. Safe to run again: an admitted node stays so in the window.

        Raises `StoreError`; so it does where others write all the time, and Temporal tries it again.
        """
        async with self._turn:
            for number in range(ADMISSION_TRIES):
                await asyncio.sleep(ADMISSION_PAUSE * number)
                kv = (await self._store.get(keys.NODE_BUDGET)).kv
                now = self._utc_now().timestamp()
                recent = recently(_admitted(kv), now=now, window=self._window)
                found = admission(recent, node, now=now, window=self._window, known=self._known(recent))
                if found.wait:
                    return found
                record = NodeBudgetRecord(admitted=dict(found.admitted))
                compares = [Compare(keys.NODE_BUDGET, "mod", kv.mod_revision if kv is not None else 0)]
                if (await self._store.txn(compares, [Put(keys.NODE_BUDGET, record.to_bytes())])).succeeded:
                    return found
            raise Unavailable(f"others changed {keys.NODE_BUDGET} {ADMISSION_TRIES} times in a row")


def _admitted(kv: KeyValue | None) -> dict[str, float]:
    if kv is None:
        return {}
    try:
        return NodeBudgetRecord.model_validate_json(kv.value).admitted
    except ValidationError:
        log.warning("node_budget_unreadable key=%s effect=starts_anew", keys.NODE_BUDGET)
        return {}


TRIES = 4
"""Transactions for one pod that others change at the same time; the next look finds what is left."""


class Requeued(StrEnum):
    """What became of a pod."""

    DELETED = "deleted"
    """It is not made anew: its controller makes another one, or it was about to end."""
    MADE_ANEW = "made_anew"
    NOT_LOST = "is not lost any more"
    CHANGING = "was changed by others again and again"
    UNREADABLE = "cannot be read"
    TOO_LARGE = "is too large to be made anew"
    NODE_RETURNED = "its node is there again"


class Requeueing:
    """Requeues pods of nodes that do not exist.

    ::

        controller, static copy, terminating   one transaction: delete the pod
        bare pod                               delete the pod, put `requeued/<node>/<pod>` with the new manifest
                                               ──► put the pod, delete `requeued/...`

    The first transaction compares the pod's mod revision, which fixes its uid and its node, and the absence of the
    node. The second one compares the absence of the pod. The record in between survives a crash, and keeps the
    manifest, with all that it may contain, out of Temporal.
    """

    def __init__(self, store: Store, *, new_uid: Callable[[], str], utc_now: Callable[[], datetime]) -> None:
        self._store = store
        self._format = format_of(store.format)
        self._new_uid = new_uid
        self._utc_now = utc_now

    async def requeue(self, identity: PodIdentity, node: str) -> Requeued:
        """Requeue the pod if it still is bound to that absent node. Safe to run again. Raises `StoreError`."""
        key = keys.pod(identity.namespace, identity.name)
        record = keys.requeued(node, identity.namespace, identity.name)
        for _ in range(TRIES):
            kv = (await self._store.get(key)).kv
            if kv is None or kv.create_revision != identity.create_revision:
                return Requeued.NOT_LOST
            pod = decoded(kv, identity, self._format)
            if pod is None:
                return Requeued.UNREADABLE
            if pod.node_name != node or pod.finished:
                return Requeued.NOT_LOST
            manifest = self._format.made_anew(kv.value, uid=self._new_uid(), now=rfc3339(self._utc_now()))
            compares = [Compare(key, "mod", kv.mod_revision), Compare(keys.node(node), "create", 0)]
            # A put over the old key would keep its create revision, which identifies one life of a pod. And etcd takes
            # no two operations on one key in a transaction: so the new pod is put by a second one, from the record.
            operations: list[Operation] = [Delete(key)]
            if manifest is not None:
                compares.append(Compare(record, "create", 0))
                operations.append(Put(record, manifest))
            try:
                answer = await self._store.txn(compares, operations, [Get(keys.node(node)), Get(record)])
            except RequestTooLarge:
                return Requeued.TOO_LARGE
            if answer.succeeded:
                if manifest is None:
                    return Requeued.DELETED
                await self.put_anew(KeyValue(record, manifest, answer.revision, answer.revision))
                return Requeued.MADE_ANEW
            returned, left_over = answer.reads
            if returned is not None:
                return Requeued.NODE_RETURNED
            if left_over is not None and self._holds_a_pod(left_over):
                await self.put_anew(left_over)
        return Requeued.CHANGING

    async def finish(self, node: str) -> int:
        """Put the pods that were deleted and not yet made anew, whether the node is absent or not; how many there were.

        Raises `StoreError`.
        """
        records = await self.half_done(node)
        for record in records:
            await self.put_anew(record)
        return len(records)

    async def half_done(self, node: str) -> list[KeyValue]:
        """The records of pods that were deleted and not yet made anew; one that holds no such pod is left where it is.

        Informers report it as invalid. Raises `StoreError`.
        """
        return [kv async for kv in self._store.each(keys.requeued.below(node)) if self._holds_a_pod(kv)]

    async def put_anew(self, record: KeyValue) -> None:
        """Put the pod of the record, unless a client has put one of that name meanwhile; the record goes either way."""
        namespace, name = record.key.split("/")[-2:]
        key = keys.pod(namespace, name)
        unmoved = Compare(record.key, "mod", record.mod_revision)
        absent = Compare(key, "create", 0)
        answer = await self._store.txn([unmoved, absent], [Put(key, record.value), Delete(record.key)], [Get(key)])
        if not answer.succeeded and answer.reads[0] is not None:
            await self._store.txn([unmoved], [Delete(record.key)])

    def _holds_a_pod(self, record: KeyValue) -> bool:
        namespace, _, name = record.key.removeprefix(keys.REQUEUED).partition("/")[2].partition("/")
        try:
            decode_made_anew(self._format, record.value, namespace=namespace, name=name)
        except InvalidObject:
            return False
        return True


def decoded(kv: KeyValue, identity: PodIdentity, format_: ObjectFormat) -> Pod | None:
    """The stored pod; None when it cannot be read."""
    try:
        return format_.decode_pod(kv.value, namespace=identity.namespace, name=identity.name, **kv.revisions)
    except InvalidObject:
        return None


MESSAGE = "Taint manager: deleting due to NoExecute taint"
"""Of the condition DisruptionTarget, as Kubernetes words it."""
AT_A_TIME = 64
"""Pods that are read at once: one after the other, hundreds would take longer than a look may where etcd is slow."""


@dataclass(frozen=True, slots=True)
class TaintedNode:
    """A node as stored, with its NoExecute taints."""

    kv: KeyValue
    taints: Mapping[Taint, float]
    """Since when it has each, seconds since 1970."""
    since: Mapping[str, str]
    """Of the taints that do not say when they were added: when they were first seen, RFC 3339."""


class TaintEviction:
    """Evicts pods that do not tolerate a NoExecute taint of their node, as Kubernetes' taint eviction controller does.

    A pod leaves as a victim of preemption does (`--eviction`), with the condition DisruptionTarget and the reason
    DeletionByTaintManager. Nothing makes a pod without a controller anew, as in Kubernetes. Each transaction compares
    the mod revisions of the pod and of the node, so no pod is evicted for a taint that is gone.
    """

    def __init__(self, store: Store, cache: Cache, *, mode: str, utc_now: Callable[[], datetime]) -> None:
        """`mode`: `immediate` or `graceful`."""
        self._store = store
        self._format = format_of(store.format)
        self._cache = cache
        self._mode = mode
        self._utc_now = utc_now

    def read(self, kv: KeyValue, seen: Mapping[str, str], now: float) -> TaintedNode | None:
        """The stored node; None for one that cannot be read.

        `seen`: when those taints were first seen that do not say when they were added.
        """
        name = kv.key.removeprefix(keys.NODES)
        try:
            node = self._format.decode_node(kv.value, name=name, **kv.revisions)
        except InvalidObject:
            return None
        taints: dict[Taint, float] = {}
        since: dict[str, str] = {}
        for taint in no_execute(node.taints):
            added = seconds_of(taint.time_added)
            if added is None:
                named = f"{taint.key}={taint.value}"
                since[named] = seen.get(named) or rfc3339(datetime.fromtimestamp(now, UTC))
                added = seconds_of(since[named]) or now
            taints[taint] = added
        return TaintedNode(kv, taints, since)

    async def leaving(self, node: TaintedNode, now: float, most: int) -> dict[PodIdentity, float]:
        """The pods that have to leave, and when, the first ones first. Raises `StoreError`.

        Some pods are read at a time, and no more once so many are due: the next look finds the others.
        """
        info = self._cache.node_info(node.kv.key.removeprefix(keys.NODES))
        if info is None or not node.taints:
            return {}
        found: dict[PodIdentity, float] = {}
        asked = [one for one, pod in info.pods.items() if pod.bound and leaves(pod.tolerations, node.taints)]
        for start in range(0, len(asked), AT_A_TIME):
            some = asked[start : start + AT_A_TIME]
            reads = await asyncio.gather(*(self._store.get(keys.pod(one.namespace, one.name)) for one in some))
            for identity, read in zip(some, reads, strict=True):
                at = self._leaves_at(read.kv, identity, node)
                if at is not None:
                    found[identity] = at
            if sum(at <= now for at in found.values()) >= most:
                break
        return dict(sorted(found.items(), key=lambda entry: (entry[1], entry[0])))

    async def evict(self, identity: PodIdentity, node: TaintedNode, now: float) -> bool:
        """Evict the pod if it still has to leave now; whether it was. Safe to run again. Raises `StoreError`."""
        key = keys.pod(identity.namespace, identity.name)
        kv = (await self._store.get(key)).kv
        evicted = False
        for _ in range(TRIES):
            at = self._leaves_at(kv, identity, node)
            if kv is None or at is None or at > now:
                return evicted
            evicted, kv, node_kv = await self._step(kv, node, self._operation(kv, identity, marked=evicted))
            if evicted and (kv is None or self._mode != IMMEDIATE):
                return True
            if node_kv is not None and node_kv.mod_revision != node.kv.mod_revision:
                moved = self.read(node_kv, node.since, now)
                if moved is None or moved.taints != node.taints:
                    return evicted  # the next look decides about the taints that there are now
                node = moved
        return evicted

    async def _step(
        self, kv: KeyValue, node: TaintedNode, operation: Operation
    ) -> tuple[bool, KeyValue | None, KeyValue | None]:
        """One transaction: whether it was done, and the pod and the node as they are then."""
        compares = [Compare(kv.key, "mod", kv.mod_revision), Compare(node.kv.key, "mod", node.kv.mod_revision)]
        reads = [Get(kv.key), Get(node.kv.key)]
        try:
            answer = await self._store.txn(compares, [operation, *reads], reads)
        except RequestTooLarge:
            if self._mode != IMMEDIATE or isinstance(operation, Delete):
                raise
            answer = await self._store.txn(compares, [Delete(kv.key), *reads], reads)  # no room for the mark
        return answer.succeeded, answer.reads[0], answer.reads[1]

    def _operation(self, kv: KeyValue, identity: PodIdentity, *, marked: bool) -> Operation:
        now = self._utc_now()
        if not self._format.marks_pods:
            return Delete(kv.key)
        if self._mode == IMMEDIATE:
            if marked:
                return Delete(kv.key)
            return Put(kv.key, self._format.evict_pod(kv.value, message=MESSAGE, now=rfc3339(now), reason=TAINT))
        pod = decoded(kv, identity, self._format)
        grace = pod.termination_grace_seconds if pod is not None else 0
        deletion = rfc3339(now + timedelta(seconds=grace)), grace
        mark = self._format.evict_pod(kv.value, message=MESSAGE, now=rfc3339(now), deletion=deletion, reason=TAINT)
        return Put(kv.key, mark)

    def _leaves_at(self, kv: KeyValue | None, identity: PodIdentity, node: TaintedNode) -> float | None:
        """When the stored pod has to leave; None where it need not, or is about to."""
        if kv is None or kv.create_revision != identity.create_revision:
            return None
        pod = decoded(kv, identity, self._format)
        here = pod is not None and keys.node(pod.node_name) == node.kv.key
        if pod is None or not here or pod.finished or pod.deletion_timestamp:
            return None
        bound_at = seconds_of(self._format.scheduled_since(kv.value)) or 0.0
        return leaves_at(pod.tolerations, node.taints, bound_at=bound_at)


def seconds_of(stamp: str) -> float | None:
    """An RFC 3339 time as seconds since 1970; None for a text that is none."""
    try:
        time = datetime.fromisoformat(stamp)
    except ValueError:
        return None
    return (time if time.tzinfo is not None else time.replace(tzinfo=UTC)).timestamp()
