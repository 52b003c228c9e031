"""How often several workers get in each other's way, by how much they prefer nodes of their own.

`python benchmarks/contention.py --workers 4 --nodes 1000 --pods 4000`; a JSON line for each `--margin`. Workers decide
on caches of their own that watches feed, and commit on one store: in memory, or `--etcd URL` of one that nothing else
uses. There is no Temporal; a placement rests `--between` milliseconds before it is committed, as it does there.

`conflicts`: transactions that failed because another worker's was faster; `contended`: attempts that began anew;
`tries_per_pod`: transactions for each bound pod; `unevenness`: of the nodes' use of cpu, in points.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import random
import statistics
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from typing import Any

import core_workloads
import uvloop
from etcd_side import put_all
from streams import beside

from wharfinger.activities.scheduling import SchedulingActivities
from wharfinger.etcd import keys
from wharfinger.etcd.etcd import EtcdStore
from wharfinger.etcd.store import Store
from wharfinger.framework.preferred_nodes import PreferredNodes
from wharfinger.framework.profiles import load_profiles
from wharfinger.process.names import pod_workflow_id
from wharfinger.process.parts import ProcessParts
from wharfinger.scheduling.contracts.scheduling import BindInput, Bound, Contended, Placed, PlaceInput
from wharfinger.scheduling.loops.shards import Ring
from wharfinger.scheduling.state.cache.cache import Cache
from wharfinger.scheduling.state.informer.informer import Informer
from wharfinger.scheduling.state.informer.view import View
from wharfinger.scheduling.state.pool import Identity, Ownership, Pool
from wharfinger.settings import BindSettings, EtcdSettings
from wharfinger.telemetry import Metrics
from wharfinger.testing.memory_store import MemoryStore

CLUSTER = "contention"
NAMESPACE = "sched-1"
AT_ONCE = 100
"""Puts in a transaction."""
PATIENCE = 600.0
"""Seconds for everything."""


class Hand:
    """One worker: cache, informer, activities."""

    def __init__(self, store: Store, name: str, members: list[str], margin: int) -> None:
        self.metrics = Metrics()
        self._cache = Cache(clock=time.monotonic)
        self._informer = Informer(store, View(self._cache, self.metrics), [], self.metrics, rng=random.Random(name))
        preferred_nodes = PreferredNodes(margin)
        preferred_nodes.share(members, name)
        profiles = load_profiles()
        self._activities = SchedulingActivities(
            ProcessParts(store, self.metrics),
            Pool(self._cache, profiles, Ownership(frozenset(profiles)), preferred_nodes),
            Identity(CLUSTER, name),
            BindSettings(),
        )
        self.tries: Counter[int] = Counter()
        self.contended = 0
        self.runners_up = 0
        self.passed_over = 0

    @contextlib.asynccontextmanager
    async def following(self) -> AsyncIterator[None]:
        """Follow the store."""
        async with beside(self._informer.run()):
            await self._informer.synced.wait()
            yield
        await self._activities.close()

    async def work(self, names: Iterator[str], between: float) -> None:
        """Place and bind one pod after the other."""
        for name in names:
            while not await self._attempt(name, between):
                self.contended += 1

    async def _attempt(self, name: str, between: float) -> bool:
        uid = f"uid-{NAMESPACE}-{name}"
        ids: dict[str, Any] = {"workflow_id": pod_workflow_id(CLUSTER, NAMESPACE, name, uid), "run_id": "run-1"}
        placed = await self._activities.place(PlaceInput(namespace=NAMESPACE, name=name, revision=1, **ids))
        if not isinstance(placed, Placed):
            raise SystemExit(f"pod {name} was not placed: {placed}")
        await asyncio.sleep(between)
        bound = await self._activities.bind(BindInput(namespace=NAMESPACE, name=name, placed=placed.to_commit(), **ids))
        if isinstance(bound, Contended):
            return False
        if not isinstance(bound, Bound):
            raise SystemExit(f"pod {name} was not bound: {bound}")
        self.tries[bound.tries] += 1
        self.passed_over += placed.passed_over is not None
        self.runners_up += bound.node != placed.node
        return True

    @property
    def conflicts(self) -> int:
        """Transactions that another one was faster than."""
        samples = (sample for metric in self.metrics.bind_conflicts.collect() for sample in metric.samples)
        return round(sum(one.value for one in samples if one.name.endswith("_total")))


def nodes(number: int, sizes: int) -> Iterator[tuple[str, dict[str, Any]]]:
    """The template, in so many sizes: of 4 cpu and 32 GiB, twice that, and so on."""
    for each in range(number):
        manifest = core_workloads.node(each)
        size = each % sizes + 1
        manifest["status"]["allocatable"] |= {"cpu": str(4 * size), "memory": f"{32 * size}Gi"}
        yield keys.node(manifest["metadata"]["name"]), manifest


async def empty(store: Store) -> None:
    """Whatever the round before has left."""
    for key in [kv.key async for kv in store.each(keys.ROOT)]:
        await store.delete(key)


async def spread(store: Store, cpu: int) -> float:
    """The standard deviation of the nodes' use of cpu, in points of a hundred."""
    offered = {kv.key.removeprefix(keys.NODES): cpu_of(kv.value) async for kv in store.each(keys.NODES)}
    used = Counter([json.loads(kv.value)["spec"]["nodeName"] async for kv in store.each(keys.PODS)])
    return statistics.pstdev(used[name] * cpu / 10 / room for name, room in offered.items())


def cpu_of(node: bytes) -> int:
    return int(json.loads(node)["status"]["allocatable"]["cpu"])


async def measure(store: Store, clients: list[Store], margin: int, given: argparse.Namespace) -> dict[str, object]:
    """One line of the result."""
    names = [f"pod-{number}" for number in range(given.pods)]
    await store.put(keys.INSTALLATION, b"{}")
    pods = {keys.pod(NAMESPACE, name): core_workloads.pod(name, cpu=f"{given.cpu}m") for name in names}
    objects = dict(nodes(given.nodes, given.sizes)) | pods
    await put_all(store, {key: json.dumps(obj).encode() for key, obj in objects.items()}, at_once=AT_ONCE)
    members = [f"common/{number}" for number in range(len(clients))]
    ring = Ring(members)
    hands = {name: Hand(client, name, members, margin) for name, client in zip(members, clients, strict=True)}
    async with contextlib.AsyncExitStack() as stack:
        for hand in hands.values():
            await stack.enter_async_context(hand.following())
        mine = {name: iter([pod for pod in names if ring.owner(f"pod/{NAMESPACE}/{pod}") == name]) for name in members}
        began = time.perf_counter()
        async with asyncio.timeout(PATIENCE), asyncio.TaskGroup() as group:
            for name, hand in hands.items():
                for _ in range(given.in_flight):
                    group.create_task(hand.work(mine[name], given.between / 1000))
        seconds = time.perf_counter() - began
    tries = sum(number * count for hand in hands.values() for number, count in hand.tries.items())
    conflicts = sum(hand.conflicts for hand in hands.values())
    return {
        "margin": margin,
        "workers": given.workers,
        "nodes": given.nodes,
        "pods": given.pods,
        "conflicts": conflicts,
        "conflicts_per_100_pods": round(100 * conflicts / given.pods, 2),
        "tries_per_pod": round(tries / given.pods, 3),
        "contended": sum(hand.contended for hand in hands.values()),
        "runners_up": sum(hand.runners_up for hand in hands.values()),
        "passed_over": sum(hand.passed_over for hand in hands.values()),
        "unevenness": round(await spread(store, given.cpu), 2),
        "pods_per_s": round(given.pods / seconds),
    }


async def run(given: argparse.Namespace) -> None:
    for margin in given.margin or (0, 1, 2, 4):
        async with contextlib.AsyncExitStack() as stack:
            if given.etcd:
                settings = EtcdSettings(endpoints=(given.etcd,))
                clients: list[Store] = [
                    await stack.enter_async_context(EtcdStore(settings)) for _ in range(given.workers + 1)
                ]
                await empty(clients[0])
            else:
                memory = MemoryStore()
                clients = [memory, *(memory.client() for _ in range(given.workers))]
            print(json.dumps(await measure(clients[0], clients[1:], margin, given)), flush=True)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--workers", type=int, default=4)
    options.add_argument("--nodes", type=int, default=1000)
    options.add_argument("--sizes", type=int, default=1, help="of nodes; 1: all are alike")
    options.add_argument("--pods", type=int, default=4000)
    options.add_argument("--cpu", type=int, default=100, help="of a pod, in milli-units")
    options.add_argument("--in-flight", type=int, default=40, help="attempts of a worker at a time")
    options.add_argument("--between", type=float, default=10, help="milliseconds from a decision to its commit")
    options.add_argument("--margin", type=int, action="append", help="may be repeated; default 0, 1, 2 and 4")
    options.add_argument("--etcd", metavar="URL", help="of an etcd that may be emptied; default: in memory")
    uvloop.run(run(options.parse_args()))


if __name__ == "__main__":
    main()
