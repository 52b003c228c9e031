"""wharfinger on an etcd of its own, as `wharfinger dev` runs it: nodes are put into it, then pods arrive in it.

At the end etcd is asked whether every pod is bound, once, and no node overcommitted.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

import processes
from kubernetes_pods import SILENCE, BenchmarkFailed
from objects import OBJECTS
from processes import quiet
from report import say
from streams import Arrival, Taken, beside, send

from wharfinger.dev.demo.audit import audit
from wharfinger.dev.ready_file import ready_file
from wharfinger.dev.settings import DevSettings, Servers
from wharfinger.dev.tree import DevTree, running
from wharfinger.etcd import keys
from wharfinger.etcd.etcd import EtcdStore
from wharfinger.etcd.rk8s_keys import store_of
from wharfinger.etcd.store import Put, Store, WatchBatch
from wharfinger.objects.model.names import ATTEMPT_ANNOTATION
from wharfinger.process.children.ports import free_port
from wharfinger.settings import EtcdSettings

PUTS_AT_ONCE = 500
"""In one transaction."""
LOOK_AFTER = 1.0
"""Seconds without a bind after which etcd is asked whether all are bound."""
RUN = re.compile(rb'"' + re.escape(ATTEMPT_ANNOTATION).encode() + rb'": ?"([^"]*)"')
"""The workflow run that bound a pod, in the pod. Documents of rk8s have none."""


@dataclass
class Binds:
    """When pods were seen bound, and by which workflow runs."""

    is_bound: Callable[[bytes], bool]
    at: dict[str, float] = field(default_factory=dict)
    """Name -> `perf_counter`."""
    runs: set[bytes] = field(default_factory=set)

    async def follow(self, batches: AsyncIterator[WatchBatch], names: Collection[str]) -> None:
        """Until all of these are bound. Raises `BenchmarkFailed` after a minute without a bind."""
        left = set(names)
        while left:
            try:
                async with asyncio.timeout(SILENCE):
                    while not (seen := left & self._take(await anext(batches))):
                        pass  # other events: the silence goes on
            except TimeoutError:
                raise BenchmarkFailed(f"{len(left)} pods are not bound after {SILENCE:.0f} s of silence") from None
            left -= seen

    def _take(self, batch: WatchBatch) -> set[str]:
        now, seen = time.perf_counter(), set()
        for event in batch.events:
            if self.is_bound(event.kv.value):
                name = event.kv.key.rpartition("/")[2]
                seen.add(name)
                self.at.setdefault(name, now)
                self.runs.update(RUN.findall(event.kv.value)[:1])
        return seen


@dataclass
class EtcdSide:
    """A running tree with its nodes."""

    name: str
    tree: DevTree
    store: Store
    others: Mapping[str, int]
    """More processes whose CPU counts, by part."""

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        name: str,
        servers: Servers,
        settings: DevSettings,
        nodes: Mapping[str, bytes],
        others: Mapping[str, int] = MappingProxyType({}),
    ) -> AsyncIterator[EtcdSide]:
        """A tree with nodes. Raises `BenchmarkFailed` at the end if what was done is not sound."""
        async with tree_with_store(settings, servers, say) as (tree, etcd):
            side = cls(name, tree, store_of(etcd, settings.format), others)
            first = await side.revision() + 1
            await put_all(side.store, {keys.node(node): body for node, body in nodes.items()})
            yield side
            judged = await audit(side.store, first)
            if not judged.sound:
                raise BenchmarkFailed(f"not sound: {judged}")

    def pod(self, name: str) -> bytes:
        """A plain pod."""
        return OBJECTS[self.store.format].pod(name)

    def cpu(self) -> Mapping[str, float]:
        """CPU seconds so far by part."""
        return processes.of_tree(self.tree, self.others)

    async def quiet(self) -> Mapping[str, float]:
        """The same when nothing is left to do: runs end after their pods are bound."""
        return await quiet(self.cpu)

    def worker_mib(self) -> int:
        """Memory of the largest worker."""
        return round(max(map(processes.resident_mib, ready_file(self.tree)["pids"]["workers"])))

    async def revision(self) -> int:
        """etcd's, now."""
        return (await self.store.get(keys.INSTALLATION)).revision

    async def arrive(self, arrivals: Sequence[Arrival], namespace: str = "") -> Taken:
        """Let pods arrive, and wait until those that fit are bound. Those that do not are deleted again."""
        objects = OBJECTS[self.store.format]
        usual = namespace or objects.namespace
        at = {one.name: keys.pod(one.namespace or usual, one.name) for one in arrivals}
        binds = Binds(objects.is_bound)
        later = [one for one in arrivals if one.due is not None]

        async def one(number: int, _: float) -> None:
            await self.store.put(at[later[number].name], later[number].body)

        async with self.store.watch(keys.PODS, await self.revision() + 1) as batches:
            fitting = [arrival.name for arrival in arrivals if arrival.fits]
            async with beside(binds.follow(batches, fitting)) as (following,):
                began = time.perf_counter()
                now = {at[arrival.name]: arrival.body for arrival in arrivals if arrival.due is None}
                await asyncio.gather(put_all(self.store, now), send((one.due or 0.0 for one in later), one))
                await following
        for arrival in arrivals:
            if not arrival.fits:
                await self.store.delete(at[arrival.name])
        taken = {one.name: binds.at[one.name] - began - (one.due or 0.0) for one in arrivals if one.fits}
        return Taken(taken, len(binds.runs))

    async def flood(self, name: str, count: int) -> float:
        """Seconds from the first put to the last bind of so many plain pods, put as fast as etcd takes them."""
        return await flood(self.store, name, count)


def tree_settings(folder: Path, workers: int, **more: Any) -> DevSettings:
    """Of a tree with free ports, whose etcd any program on this machine may write to."""
    return DevSettings(folder, workers, *(free_port() for _ in range(4)), etcd_open=True, **more)


@asynccontextmanager
async def tree_with_store(
    settings: DevSettings, servers: Servers, say: Callable[[str], None]
) -> AsyncIterator[tuple[DevTree, EtcdStore]]:
    """A tree, and a client of its etcd."""
    async with (
        running(settings, servers, say=say) as tree,
        EtcdStore(EtcdSettings(endpoints=(tree.etcd.url,))) as store,
    ):
        yield tree, store


@dataclass
class Ends:
    """When binds were seen: every one rewrites the version of its namespace, the lightest thing to watch."""

    batches: AsyncIterator[WatchBatch]
    last: float = 0.0

    async def follow(self) -> None:
        """Until cancelled."""
        async for batch in self.batches:
            if batch.events:
                self.last = time.perf_counter()


async def first_event(batches: AsyncIterator[WatchBatch]) -> float:
    """When a watch shows something, by `perf_counter`. Raises `BenchmarkFailed` when it ends before."""
    async for batch in batches:
        if batch.events:
            return time.perf_counter()
    raise BenchmarkFailed("a watch of etcd has ended")


async def put_all(store: Store, made: Mapping[str, bytes], *, at_once: int = PUTS_AT_ONCE) -> None:
    """Put objects by key, as fast as etcd takes them; `at_once`: in one transaction."""
    puts = [Put(key, body) for key, body in made.items()]
    for at in range(0, len(puts), at_once):
        await store.txn((), puts[at : at + at_once])


async def flood(store: Store, name: str, count: int) -> float:
    """Seconds from the first put to the last bind of so many plain pods, put as fast as etcd takes them."""
    objects = OBJECTS[store.format]
    puts = {keys.pod(objects.namespace, f"{name}-{n}"): objects.pod(f"{name}-{n}") for n in range(count)}
    first = (await store.get(keys.INSTALLATION)).revision + 1
    async with store.watch(keys.bound(objects.namespace), first) as batches:
        ends = Ends(batches)
        async with beside(ends.follow()):
            began = time.perf_counter()
            await put_all(store, puts)
            await _all_bound(store, f"{name}-", ends, began)
    return ends.last - began


async def _all_bound(store: Store, prefix: str, ends: Ends, began: float) -> None:
    while True:
        await asyncio.sleep(LOOK_AFTER / 4)
        silent = time.perf_counter() - max(ends.last, began)
        if silent >= LOOK_AFTER and not (left := await _unbound(store, prefix)):
            return
        if silent >= SILENCE:
            raise BenchmarkFailed(f"{left} pods are not bound after {SILENCE:.0f} s of silence")


async def _unbound(store: Store, prefix: str) -> int:
    """How many pods with such names have no node yet."""
    objects = OBJECTS[store.format]
    pods = store.each(keys.pod(objects.namespace, prefix))
    return sum([not objects.is_bound(kv.value) async for kv in pods])
