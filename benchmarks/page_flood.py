"""Whether workers notice the page: CPU of a worker a pod in a flood, with a page that viewers follow and without.

Called by `page.py --flood`. One tree of etcd, Temporal and one worker; floods take turns with and without, so that
a growing cluster weighs on both alike.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import statistics
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import processes
from etcd_side import EtcdSide
from objects import node
from throughput import WARM

from wharfinger.dev.ports import free_port
from wharfinger.dev.settings import Servers
from wharfinger.dev.tree import DevTree

MOST = 1.1
"""Times the CPU without a page: what floods differ by among themselves."""
TURNS = (False, True, True, False, True, False, False, True)
Follow = Callable[..., None]


@asynccontextmanager
async def followed(
    tree: DevTree, folder: Path, viewers: int, follow: Follow
) -> AsyncIterator[asyncio.subprocess.Process]:
    """A page, and so many viewers of it."""
    port, link = free_port(), folder / "page.link"
    command = [sys.executable, "-m", "wharfinger", "ui", f"--port={port}", f"--link-file={link}"]
    command.append(f"--end-with={os.getpid()}")
    named = [f"--etcd={tree.etcd.url}", f"--temporal={tree.temporal.address}"]
    with (folder / "page.log").open("wb") as log:
        page = await asyncio.create_subprocess_exec(*command, *named, stdout=log, stderr=log)
    context = multiprocessing.get_context("spawn")
    stop = context.Event()
    try:
        while not link.exists():
            if page.returncode is not None:
                raise SystemExit((folder / "page.log").read_text())
            await asyncio.sleep(0.1)
        url = f"http://127.0.0.1:{port}"
        process = context.Process(target=follow, args=(url, link.read_text().strip(), viewers, 1, stop))
        process.start()
        await asyncio.sleep(3)
        yield page.pid
        stop.set()
        await asyncio.to_thread(process.join)
    finally:
        stop.set()
        page.terminate()
        await page.wait()


async def measure(nodes: int, pods: int, viewers: int, follow: Follow, servers: Servers, folder: Path) -> int:
    """Print one line; the exit code: whether the bar is kept."""
    used: dict[bool, list[float]] = {False: [], True: []}
    of_page = 0.0
    made = {name: node(name) for name in map("node-{:05}".format, range(nodes))}
    async with EtcdSide.open("tree", servers, made) as side:
        await side.flood("warm", max(WARM, pods))
        for turn, looked_at in enumerate(TURNS):
            if looked_at:
                async with followed(side.tree, folder, viewers, follow) as page:
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
    return int(with_ / without > MOST)


async def _worker(side: EtcdSide, turn: int, pods: int) -> float:
    """CPU seconds of the worker for one flood."""
    before = side.cpu()["worker"]
    await side.flood(f"flood-{turn}", pods)
    return side.cpu()["worker"] - before
