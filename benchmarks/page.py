"""What the web page costs: CPU of its process while viewers follow a cluster in memory that changes.

`python benchmarks/page.py [--viewers 100] [--changes 2000] [--seconds 15]`. Viewers are a process of their own. The
store and its writer are part of the page's process here; what writing costs by itself is measured before, and told.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import os
import sys
import time
from pathlib import Path

import aiohttp
import uvloop

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.page.cluster import filled, served
from wharfinger.registry import keys
from wharfinger.registry.store import Store
from wharfinger.testing import MemoryStore, pod_manifest

TOPICS = ("status,overview,trends", "status,nodes,pending")
BATCHES = 50
"""Batches of changes a second."""
PODS = 4000
"""Pods that come to be and are bound, again and again."""


def follow(url: str, link: str, viewers: int, stop: multiprocessing.synchronize.Event) -> None:
    """Be so many viewers until told to stop."""

    async def view(session: aiohttp.ClientSession, number: int) -> None:
        async with session.get(f"{url}/api/v1/stream?topics={TOPICS[number % 2]}") as answer:
            async for _ in answer.content.iter_any():
                pass

    async def run() -> None:
        jar, all_at_once = aiohttp.CookieJar(unsafe=True), aiohttp.TCPConnector(limit=0)
        forever = aiohttp.ClientTimeout(total=None)
        async with aiohttp.ClientSession(cookie_jar=jar, connector=all_at_once, timeout=forever) as session:
            await (await session.get(link)).read()
            views = [asyncio.create_task(view(session, number)) for number in range(viewers)]
            await asyncio.to_thread(stop.wait)
            for one in views:
                one.cancel()
            await asyncio.gather(*views, return_exceptions=True)

    asyncio.run(run())


async def change(store: Store, nodes: list[str], pace: int, seconds: float) -> float:
    """Change pods, so many a second; answers how many a second it were."""
    began, done = time.monotonic(), 0
    while (passed := time.monotonic() - began) < seconds:
        for _ in range(max(1, pace // BATCHES)):
            done += 1
            name, bound = f"pod-{done % PODS}", (done // PODS) % 2
            more = {"nodeName": nodes[done % len(nodes)]} if bound else {}
            await store.put(
                keys.pod("load", name), json.dumps(pod_manifest(name, "100m", namespace="load", **more)).encode()
            )
        await asyncio.sleep(max(0.0, done / pace - passed))
    return done / (time.monotonic() - began)


async def measure(viewers: int, pace: int, seconds: float) -> None:
    """Print one line."""
    cluster = await filled(5000, 10_000)
    nodes = [kv.key.removeprefix(keys.NODES) async for page in cluster.store.list(keys.NODES) for kv in page.items]
    before = time.process_time()
    alone = await change(MemoryStore(), nodes, pace, 4)
    writing = (time.process_time() - before) / 4 / alone
    context = multiprocessing.get_context("fork")
    async with served(cluster) as page:
        stop = context.Event()
        process = context.Process(target=follow, args=(page.server.url, page.link, viewers, stop))
        process.start()
        while len(page.parts.stream) < viewers:  # noqa: ASYNC110 - they are another process
            await asyncio.sleep(0.05)
        before, began = time.process_time(), time.monotonic()
        reached = await change(cluster.store, nodes, pace, seconds)
        cores = (time.process_time() - before) / (time.monotonic() - began)
        stop.set()
        await asyncio.to_thread(process.join)
    print(
        f"{viewers} viewers, {reached:,.0f} changes a second: {cores - writing * reached:.2f} cores for the page "
        f"(with the store's writer {cores:.2f}); load of the machine {os.getloadavg()[0]:.1f}"
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--viewers", type=int, default=100)
    parser.add_argument("--changes", type=int, default=2000)
    parser.add_argument("--seconds", type=float, default=15.0)
    told = parser.parse_args()
    uvloop.run(measure(told.viewers, told.changes, told.seconds))
