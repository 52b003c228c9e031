"""What etcd's two protocols cost a client: CPU milliseconds a pod by the JSON gateway and by gRPC, and their ratio.

It starts an etcd of its own. Four things that a worker does with each pod are measured, each in a new process
for each protocol, because libraries keep threads and memory; the two take turns, and the median counts::

    list    the pods, in pages of 500
    replay  a watch of puts that have been, in transactions of 40
    watch   a watch of puts that another process makes, one a transaction
    bind    a transaction for each pod, 32 at a time: three compares, two puts and a delete

`python benchmarks/etcd_protocols.py --pods 5000`; the CPU time is that of the client's process, all threads of it.
"""

from __future__ import annotations

import argparse
import asyncio
import functools
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import real_cluster
import uvloop
from etcd_side import put_all
from kubernetes_sides import start_etcd
from processes import Children

from wharfinger.dev.settings import Servers
from wharfinger.etcd.etcd import EtcdStore
from wharfinger.etcd.store import Compare, Delete, Get, Put
from wharfinger.settings import EtcdSettings

PROTOCOLS: tuple[Literal["json", "grpc"], ...] = ("json", "grpc")
VALUE = b"x" * 1000
"""About a small pod."""
PODS = "/bench/pods/"
WRITTEN = "/bench/written/"
SHARED = 40
"""Pods a transaction, as a cohort binds them."""


async def fill(store: EtcdStore, pods: int) -> int:
    """Put all pods; answers the revision before."""
    before = (await store.get(PODS)).revision
    await put_all(store, {f"{PODS}{number}": VALUE for number in range(pods)}, at_once=SHARED)
    return before


@dataclass(frozen=True)
class Given:
    """What work has to do, and with what."""

    store: EtcdStore
    endpoint: str
    pods: int
    start: int
    """The first revision of the pods; for `bind` a number that no other measurement has."""


async def list_pods(given: Given) -> None:
    listed = 0
    async for page in given.store.list(PODS):
        listed += len(page.items)
    assert listed == given.pods


async def replay_pods(given: Given) -> None:
    await watch(given, PODS, given.start)


async def watch_pods(given: Given) -> None:
    now = (await given.store.get(PODS)).revision
    line = [sys.executable, __file__, "--write", given.endpoint, str(given.pods)]
    writer = await asyncio.create_subprocess_exec(*line)
    await watch(given, WRITTEN, now + 1)
    await writer.wait()


async def watch(given: Given, prefix: str, start: int) -> None:
    seen = 0
    async with given.store.watch(prefix, start) as batches:
        async for batch in batches:
            seen += len(batch.events)
            if seen == given.pods:
                return


async def write_pods(endpoint: str, pods: int) -> None:
    numbers = iter(range(pods))
    async with EtcdStore(EtcdSettings(endpoints=(endpoint,))) as store:

        async def write() -> None:
            for number in numbers:
                await store.put(f"{WRITTEN}{number}", VALUE)

        await asyncio.gather(*(write() for _ in range(8)))


async def bind_pods(given: Given) -> None:
    below, numbers = f"/bench/binds/{given.start}", iter(range(given.pods))

    async def bind() -> None:
        for number in numbers:
            compares = [Compare(f"{below}/{part}/{number}", "mod", 0) for part in ("pod", "node", "binding")]
            writes = [Put(f"{below}/pod/{number}", VALUE), Put(f"{below}/version/{number % 500}", b"{}")]
            looks = [Get(compare.key) for compare in compares]
            result = await given.store.txn(compares, [*writes, Delete(f"{below}/record/{number}")], looks)
            assert result.succeeded

    await asyncio.gather(*(bind() for _ in range(32)))


WORK: dict[str, Callable[[Given], Awaitable[None]]] = {
    "list": list_pods,
    "replay": replay_pods,
    "watch": watch_pods,
    "bind": bind_pods,
}


async def measure(endpoint: str, protocol: Literal["json", "grpc"], work: str, pods: int, start: int) -> None:
    """Print the CPU milliseconds a pod, and how many pods a second there were."""
    async with EtcdStore(EtcdSettings(endpoints=(endpoint,), protocol=protocol)) as store:
        await store.get(PODS)  # connected, and everything is imported
        cpu, began = time.process_time(), time.perf_counter()
        await WORK[work](Given(store, endpoint, pods, start))
        cpu, seconds = time.process_time() - cpu, time.perf_counter() - began
    print(json.dumps({"cpu_ms": cpu / pods * 1e3, "per_s": pods / seconds}))


def measured(*arguments: object) -> dict[str, float]:
    line = [sys.executable, __file__, "--measure", *map(str, arguments)]
    answer: dict[str, float] = json.loads(subprocess.run(line, check=True, capture_output=True, text=True).stdout)
    return answer


async def compare(pods: int, rounds: int, servers: Servers, folder: Path) -> int:
    """Fill an etcd, then measure each kind of work by both protocols."""
    async with Children(folder / "logs") as children:
        etcd, _ = await start_etcd(children, "etcd", servers.etcd, folder / "etcd", fsync=False)
        async with EtcdStore(EtcdSettings(endpoints=(etcd.url,))) as store:
            start = await fill(store, pods) + 1
        await asyncio.to_thread(take_turns, etcd.url, pods, rounds, start)
    return 0


def take_turns(endpoint: str, pods: int, rounds: int, start: int) -> None:
    """Print the medians of each kind of work. `start`: the first revision of the pods."""
    for work in WORK:
        found: dict[str, list[dict[str, float]]] = {protocol: [] for protocol in PROTOCOLS}
        for number in range(rounds):
            for protocol in PROTOCOLS:
                unique = f"{number}{PROTOCOLS.index(protocol)}" if work == "bind" else start
                found[protocol].append(measured(endpoint, protocol, work, pods, unique))
        cpu = {name: statistics.median(one["cpu_ms"] for one in all_of_it) for name, all_of_it in found.items()}
        rate = {name: statistics.median(one["per_s"] for one in all_of_it) for name, all_of_it in found.items()}
        print(json.dumps({
            "work": work, "pods": pods, "cpu_ms_per_pod": {name: round(value, 4) for name, value in cpu.items()},
            "grpc_of_json": round(cpu["grpc"] / cpu["json"], 2),
            "pods_per_s": {name: round(value) for name, value in rate.items()},
        }), flush=True)  # fmt: skip


def main() -> None:
    """Compare, or be a part of that."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--pods", type=int, default=5000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--measure", nargs=5, help=argparse.SUPPRESS)
    parser.add_argument("--write", nargs=2, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.write:
        asyncio.run(write_pods(given.write[0], int(given.write[1])))
        return
    if given.measure:
        endpoint, protocol, work, pods, start = given.measure
        uvloop.run(measure(endpoint, protocol, work, int(pods), int(start)))
        return
    real_cluster.run(functools.partial(compare, given.pods, given.rounds))


if __name__ == "__main__":
    main()
