"""The objects that extenders are sent, as etcd holds them: extenders read fields that decisions do not.

Nodes are kept between questions. A node is read again once the watch has shown a newer revision of it, so a cluster of
5,000 nodes is read once, and after that only what changes. Nothing is read for extenders that know the nodes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from wharfinger.errors import InvalidObject
from wharfinger.etcd import keys
from wharfinger.etcd.store import Get, KeyValue, Store
from wharfinger.framework.extenders.extender_verdicts import VictimPod
from wharfinger.framework.extenders.wire import Json
from wharfinger.objects.documents import documents
from wharfinger.objects.documents.formats import format_of
from wharfinger.objects.model.pod import Pod, PodKey
from wharfinger.process.transactions import Limits
from wharfinger.scheduling.state.cache.cache import Cache

READ_TOGETHER = 100
"""Objects that are read in one transaction: some 5 ms of decoding at a stretch."""


@dataclass(frozen=True, slots=True)
class ReadNode:
    """A node as it was read."""

    mod_revision: int
    content: bytes
    """JSON; empty for a node that cannot be read."""


class ReadNodes:
    """The nodes of one worker's cluster, as JSON."""

    def __init__(self, store: Store, cache: Cache, limits: Limits) -> None:
        self._store = store
        self._cache = cache
        self._most = min(READ_TOGETHER, limits.operations)
        self._format = format_of(store.format)
        self._read: dict[str, ReadNode] = {}
        self._reading = asyncio.Lock()

    async def get(self, names: Iterable[str]) -> Mapping[str, bytes]:
        """The nodes by name, as the watch has shown them or newer; without those that are gone or unreadable.

        Raises `StoreError`.
        """
        names = tuple(names)
        async with self._reading:  # questions that come together read once
            for gone in [name for name in self._read if name not in self._cache.nodes]:
                del self._read[gone]
            stale = [name for name in names if self._is_stale(name)]
            for kv in await read_all(self._store, map(keys.node, stale), self._most):
                name = kv.key.removeprefix(keys.NODES)
                self._read[name] = ReadNode(kv.mod_revision, self._json(kv, name))
            found = {name: self._read[name].content for name in names if name in self._read}
        return {name: content for name, content in found.items() if content}

    def _is_stale(self, name: str) -> bool:
        known, read = self._cache.nodes.get(name), self._read.get(name)
        return known is not None and (read is None or read.mod_revision < known.mod_revision)

    def _json(self, kv: KeyValue, name: str) -> bytes:
        try:
            return documents.to_json(self._format.node_mapping(kv.value, name=name))
        except InvalidObject:
            return b""


class ExtenderObjects:
    """What one question needs, read beforehand; see `framework.extenders.asking.Objects`."""

    def __init__(
        self,
        subject: Pod,
        cache: Cache,
        *,
        nodes: Mapping[str, bytes] | None = None,
        pods: Mapping[PodKey, Json] | None = None,
    ) -> None:
        """`subject`: the pod that is decided."""
        self._subject = subject
        self._cache = cache
        self._nodes = nodes or {}
        self._pods = pods or {}

    def pod(self, key: PodKey) -> Json | None:
        """A pod that was read."""
        return self._pods.get(key)

    def node(self, name: str) -> Json | None:
        """A node that was read."""
        return self._nodes.get(name)

    def pods_of(self, node: str) -> Mapping[str, VictimPod] | None:
        """The pods on a node that the subject may evict, by uid; None where there is no such node."""
        info = self._cache.node_info(node)
        if info is None:
            return None
        assumed = {one.identity for one in self._cache.assumed()}
        return {
            pod.uid: VictimPod(pod.key, pod.uid, pod.create_revision)
            for pod in info.pods.values()
            if pod.priority < self._subject.priority and pod.identity not in assumed
        }


async def read_pods(store: Store, pods: Iterable[PodKey], limits: Limits) -> dict[PodKey, Json]:
    """Pods as mappings of a `v1.Pod`, without those that are gone or unreadable. Raises `StoreError`."""
    format_ = format_of(store.format)
    by_key = {keys.pod(*pod): pod for pod in pods}
    found: dict[PodKey, Json] = {}
    for kv in await read_all(store, by_key, min(READ_TOGETHER, limits.operations)):
        pod = by_key[kv.key]
        try:
            found[pod] = format_.pod_mapping(kv.value, namespace=pod.namespace, name=pod.name)
        except InvalidObject:
            continue
    return found


async def read_all(store: Store, wanted: Iterable[str], most: int) -> Sequence[KeyValue]:
    """The keys that exist, at most so many in a transaction. Raises `StoreError`."""
    several = list(wanted)
    found: list[KeyValue] = []
    for begin in range(0, len(several), most):
        answer = await store.txn([], [Get(key) for key in several[begin : begin + most]])
        found += [kv for kv in answer.reads if kv is not None]
    return found
