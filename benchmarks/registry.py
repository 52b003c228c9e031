"""What the etcd adapter costs: calls a second, and CPU of this process a call.

Run it against an etcd that nothing else uses: `python benchmarks/registry.py http://127.0.0.1:2379`,
with `--uvloop` for that event loop. It writes below `/bench/` and leaves it empty.
"""

from __future__ import annotations

import argparse
import asyncio
import time
from collections.abc import Awaitable, Callable

import uvloop

from wharfinger.etcd.etcd import EtcdStore
from wharfinger.etcd.store import Compare, Delete, Get, Put
from wharfinger.settings import EtcdSettings

VALUE = b"x" * 1000
"""About a small pod."""
CALLS = 3000


async def measure(name: str, width: int, call: Callable[[int], Awaitable[object]]) -> None:
    """Run `CALLS` calls, `width` at a time, and print rate and CPU."""
    numbers = iter(range(CALLS))

    async def work() -> None:
        for number in numbers:
            await call(number)

    cpu, began = time.process_time(), time.perf_counter()
    await asyncio.gather(*(work() for _ in range(width)))
    seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
    print(f"{name:<8} {width:>3} at a time  {CALLS / seconds:>8.0f}/s  {cpu / CALLS * 1e6:>5.0f} us CPU")


async def measure_calls(store: EtcdStore) -> None:
    async def bind(number: int) -> None:
        compares = [Compare(f"/bench/{part}/{number}", "mod", 0) for part in ("pod", "node", "binding")]
        writes = [Put(f"/bench/{number % 500}", VALUE), Put(f"/bench/b{number % 100}", b"{}"), Delete("/bench/record")]
        await store.txn(compares, writes, [Get(compare.key) for compare in compares])

    for width in (1, 32):
        await measure("put", width, lambda number: store.put(f"/bench/{number % 500}", VALUE))
        await measure("bind", width, bind)
        await measure("get", width, lambda number: store.get(f"/bench/{number % 500}"))


async def measure_watch(store: EtcdStore, transactions: int = 100, puts: int = 100) -> None:
    start = (await store.get("/bench/0")).revision + 1

    async def write() -> None:
        for _ in range(transactions):
            await store.txn((), [Put(f"/bench/w{number}", VALUE) for number in range(puts)])

    for name, writing in (("live", True), ("replay", False)):
        began, seen = time.perf_counter(), 0
        writer = asyncio.ensure_future(write()) if writing else None
        async with store.watch("/bench/", start) as batches:
            async for batch in batches:
                seen += len(batch.events)
                if seen == transactions * puts:
                    break
        print(f"watch    {name:<14} {seen / (time.perf_counter() - began):>8.0f} events/s")
        if writer is not None:
            await writer


async def main(endpoint: str) -> None:
    async with EtcdStore(EtcdSettings(endpoints=(endpoint,))) as store:
        await measure_calls(store)
        await measure_watch(store)
        async for page in store.list("/bench/", page_size=100):
            await store.txn((), [Delete(kv.key) for kv in page.items])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("endpoint")
    parser.add_argument("--uvloop", action="store_true")
    options = parser.parse_args()
    (uvloop.run if options.uvloop else asyncio.run)(main(options.endpoint))
