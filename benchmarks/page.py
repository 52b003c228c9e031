"""What the web page costs: CPU of its process while viewers follow a cluster in memory that changes.

`python benchmarks/page.py [--viewers 100] [--changes 2000] [--seconds 15] [--namespaces]`. Viewers are a process of
their own; with `--namespaces` each filters another namespace, and the pods that change lie in all of them. The store
and its writer are part of the page's process here; what writing costs by itself is measured before, and told.

`python benchmarks/page.py --flood 3000 [--nodes 500] [--viewers 20]`: how much CPU a worker takes for each pod of a
flood through real servers while viewers follow a page, divided by what it takes without a page.

Exits 1 when the page takes more than half a core, or a worker notices it.
"""

from __future__ import annotations

import argparse
import asyncio
import functools
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
from wharfinger.etcd import keys
from wharfinger.etcd.store import Store
from wharfinger.process.garbage import tune_garbage_collection
from wharfinger.testing import MemoryStore, pod_manifest

TOPICS = ("status,overview,trends", "status,nodes,pending")
BATCHES = 50
"""Batches of changes a second."""
MOST_CORES = 0.5
PODS = 4000
"""Pods that come to be and are bound, again and again."""


def follow(url: str, link: str, viewers: int, namespaces: int, stop: multiprocessing.synchronize.Event) -> None:
    """Be so many viewers until told to stop; with more than one namespace, each of another one."""

    async def view(session: aiohttp.ClientSession, number: int) -> None:
        topics = TOPICS[number % 2]
        if namespaces > 1:
            topics = ",".join(
                f"{topic}?namespace=load-{number % namespaces}" if topic != "status" else topic
                for topic in topics.split(",")
            )
        async with session.get(f"{url}/api/v1/stream", params={"topics": topics}) as answer:
            answer.raise_for_status()
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


async def change(store: Store, nodes: list[str], pace: int, seconds: float, namespaces: int = 1) -> float:
    """Change pods, so many a second; answers how many a second it were."""
    began, done = time.monotonic(), 0
    while (passed := time.monotonic() - began) < seconds:
        for _ in range(max(1, pace // BATCHES)):
            done += 1
            name, bound = f"pod-{done % PODS}", (done // PODS) % 2
            space = f"load-{done % namespaces}"
            more = {"nodeName": nodes[done % len(nodes)]} if bound else {}
            await store.put(
                keys.pod(space, name), json.dumps(pod_manifest(name, "100m", namespace=space, **more)).encode()
            )
        await asyncio.sleep(max(0.0, done / pace - passed))
    return done / (time.monotonic() - began)


async def measure(viewers: int, pace: int, seconds: float, namespaces: int) -> bool:
    """Print one line; answers whether the bar is kept."""
    cluster = await filled(5000, 10_000)
    nodes = [kv.key.removeprefix(keys.NODES) async for page in cluster.store.list(keys.NODES) for kv in page.items]
    before = time.process_time()
    alone = await change(MemoryStore(), nodes, pace, 4)
    writing = (time.process_time() - before) / 4 / alone
    context = multiprocessing.get_context("fork")
    async with served(cluster) as page:
        stop = context.Event()
        process = context.Process(target=follow, args=(page.server.url, page.link, viewers, namespaces, stop))
        process.start()
        while len(page.parts.stream) < viewers:  # noqa: ASYNC110 - they are another process
            await asyncio.sleep(0.05)
        before, began = time.process_time(), time.monotonic()
        reached = await change(cluster.store, nodes, pace, seconds, namespaces)
        cores = (time.process_time() - before) / (time.monotonic() - began)
        stop.set()
        await asyncio.to_thread(process.join)
    own = cores - writing * reached
    print(
        f"{viewers} viewers{f' of {namespaces} namespaces' * (namespaces > 1)}, {reached:,.0f} changes a second: "
        f"{own:.2f} cores for the page, {own / reached * pace:.2f} at {pace:,} a second "
        f"(with the store's writer {cores:.2f}); load of the machine {os.getloadavg()[0]:.1f}"
    )
    return own / reached * pace <= MOST_CORES


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--viewers", type=int, default=100)
    parser.add_argument("--changes", type=int, default=2000)
    parser.add_argument("--seconds", type=float, default=15.0)
    parser.add_argument("--flood", type=int, default=0, metavar="PODS", help="of real servers: what a worker notices")
    parser.add_argument("--nodes", type=int, default=500, help="of --flood")
    parser.add_argument("--namespaces", action="store_true", help="each viewer filters another namespace")
    told = parser.parse_args()
    if told.flood:
        import page_flood
        import real_cluster

        viewers = 20 if told.viewers == parser.get_default("viewers") else told.viewers
        real_cluster.run(functools.partial(page_flood.measure, told.nodes, told.flood, viewers, follow))
    tune_garbage_collection()
    spaces = told.viewers if told.namespaces else 1
    sys.exit(0 if uvloop.run(measure(told.viewers, told.changes, told.seconds, spaces)) else 1)
