"""Evicting pods that do not tolerate a NoExecute taint of their node, as Kubernetes' taint eviction controller does.

A pod leaves as a victim of preemption does (`--eviction`), with the condition DisruptionTarget and the reason
DeletionByTaintManager. Nothing makes a pod without a controller anew, as in Kubernetes. Each transaction compares the
mod revisions of the pod and of the node, so no pod is evicted for a taint that is gone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from wharfinger.errors import InvalidObject, RequestTooLarge
from wharfinger.etcd import keys
from wharfinger.etcd.store import Compare, Delete, Get, KeyValue, Operation, Put, Store
from wharfinger.objects.documents.formats import format_of
from wharfinger.objects.documents.times import rfc3339
from wharfinger.objects.model.conditions import TAINT
from wharfinger.objects.model.node_evictions import leaves, leaves_at, no_execute
from wharfinger.objects.model.pod import PodIdentity
from wharfinger.objects.model.selectors import Taint
from wharfinger.scheduling.effects.nodes.requeueing import decoded
from wharfinger.scheduling.effects.refusing.eviction import IMMEDIATE
from wharfinger.scheduling.state.cache.cache import Cache

MESSAGE = "Taint manager: deleting due to NoExecute taint"
"""Of the condition DisruptionTarget, as Kubernetes words it."""
AT_A_TIME = 64
"""Pods that are read at once: one after the other, hundreds would take longer than a look may where etcd is slow."""
TRIES = 4
"""Transactions for one pod that others change at the same time; the next look finds what is left."""


@dataclass(frozen=True, slots=True)
class TaintedNode:
    """A node as stored, with its NoExecute taints."""

    kv: KeyValue
    taints: Mapping[Taint, float]
    """Since when it has each, seconds since 1970."""
    since: Mapping[str, str]
    """Of the taints that do not say when they were added: when they were first seen, RFC 3339."""


class TaintEviction:
    """Evicts pods from tainted nodes."""

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
            node = self._format.decode_node(
                kv.value, name=name, create_revision=kv.create_revision, mod_revision=kv.mod_revision
            )
        except InvalidObject:
            return None
        taints: dict[Taint, float] = {}
        since: dict[str, str] = {}
        for taint in no_execute(node.taints):
            added = seconds(taint.time_added)
            if added is None:
                named = f"{taint.key}={taint.value}"
                since[named] = seen.get(named) or rfc3339(datetime.fromtimestamp(now, UTC))
                added = seconds(since[named]) or now
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
        bound_at = seconds(self._format.scheduled_since(kv.value)) or 0.0
        return leaves_at(pod.tolerations, node.taints, bound_at=bound_at)


def seconds(stamp: str) -> float | None:
    """An RFC 3339 time as seconds since 1970; None for a text that is none."""
    try:
        time = datetime.fromisoformat(stamp)
    except ValueError:
        return None
    return (time if time.tzinfo is not None else time.replace(tzinfo=UTC)).timestamp()
