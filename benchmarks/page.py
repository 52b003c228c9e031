"""What the web page costs: CPU of its process while viewers follow a cluster in memory that changes.

`python benchmarks/page.py [--viewers 100] [--changes 2000] [--seconds 15] [--namespaces]`. Viewers are a process of
their own; with `--namespaces` each filters another namespace, and the pods that change lie in all of them. The store
and its writer are part of the page's process here; what writing costs by itself is measured before, and told.

`python benchmarks/page.py --flood 3000 [--nodes 500] [--viewers 20]`: how much CPU a worker takes for each pod of a
flood through real servers while viewers follow a page, divided by what it takes without a page. One tree of etcd,
Temporal and one worker; floods take turns with and without, so that a growing cluster weighs on both alike.

Exits 1 when the page takes more than half a core, or a worker notices it.
"""

from __future__ import annotations

import argparse
import asyncio
import functools
import json
import multiprocessing
import os
import statistics
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import processes
import real_cluster
import uvloop
from etcd_side import EtcdSide, tree_settings
from objects import node
from throughput import WARM

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.page.cluster import filled, served
from wharfinger.dev.settings import Servers
from wharfinger.dev.supervisor import python_command
from wharfinger.dev.tree import DevTree
from wharfinger.etcd import keys
from wharfinger.etcd.store import Store
from wharfinger.process.children.ports import free_port
from wharfinger.process.running import tune_garbage_collection
from wharfinger.testing import MemoryStore, pod_manifest

TOPICS = ("status,overview,trends", "status,nodes,pending")
BATCHES = 50
"""Batches of changes a second."""
MOST_CORES = 0.5
PODS = 4000
"""Pods that come to be and are bound, again and again."""
MOST_TIMES = 1.1
"""Times the CPU without a page: what floods differ by among themselves."""
TURNS = (False, True, True, False, True, False, False, True)


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


@asynccontextmanager
async def followed(tree: DevTree, folder: Path, viewers: int) -> AsyncIterator[int]:
    """The process of a page, and so many viewers of it."""
    port, link = free_port(), folder / "page.link"
    link.unlink(missing_ok=True)
    named = [f"--etcd={tree.etcd.url}", f"--temporal={tree.temporal.address}"]
    context = multiprocessing.get_context("spawn")
    stop = context.Event()

    async def there() -> bool:
        return link.exists()

    async with processes.Children(folder) as children:
        page = await children.start("page", python_command("ui", f"--port={port}", f"--link-file={link}", *named))
        await processes.up(page, there)
        url = f"http://127.0.0.1:{port}"
        process = context.Process(target=follow, args=(url, link.read_text().strip(), viewers, 1, stop))
        process.start()
        try:
            await asyncio.sleep(3)
            yield page.process.pid
        finally:
            stop.set()
            await asyncio.to_thread(process.join)


async def flooded(nodes: int, pods: int, viewers: int, servers: Servers, folder: Path) -> int:
    """Print one line; the exit code: whether the bar is kept."""
    used: dict[bool, list[float]] = {False: [], True: []}
    of_page = 0.0
    made = {name: node(name) for name in map("node-{:05}".format, range(nodes))}
    async with EtcdSide.open("tree", servers, tree_settings(folder / "tree", 1), made) as side:
        await side.flood("warm", max(WARM, pods))
        for turn, looked_at in enumerate(TURNS):
            if looked_at:
                async with followed(side.tree, folder, viewers) as page:
                    before = processes.cpu_seconds(page)
                    used[True].append(await _worker(side, turn, pods))
                    of_page += processes.cpu_seconds(page) - before
            else:
                used[False].append(await _worker(side, turn, pods))
    without, with_ = (1000 * statistics.median(used[looked_at]) / pods for looked_at in (False, True))
    told = "; ".join(", ".join(f"{1000 * one / pods:.2f}" for one in used[looked_at]) for looked_at in (False, True))
    print(
        f"{pods:,} pods on {nodes:,} nodes: a worker's CPU a pod is {without:.2f} ms without a page and {with_:.2f} ms "
        f"with one and {viewers} viewers, {with_ / without:.2f} times (medians of {told}); the page's own is "
        f"{1000 * of_page / len(used[True]) / pods:.2f} ms a pod"
    )
    return int(with_ / without > MOST_TIMES)


async def _worker(side: EtcdSide, turn: int, pods: int) -> float:
    """CPU seconds of the worker for one flood."""
    before = side.cpu()["worker"]
    await side.flood(f"flood-{turn}", pods)
    return side.cpu()["worker"] - before


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
        viewers = 20 if told.viewers == parser.get_default("viewers") else told.viewers
        real_cluster.run(functools.partial(flooded, told.nodes, told.flood, viewers))
    tune_garbage_collection()
    spaces = told.viewers if told.namespaces else 1
    sys.exit(0 if uvloop.run(measure(told.viewers, told.changes, told.seconds, spaces)) else 1)
