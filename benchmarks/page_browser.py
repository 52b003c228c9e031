"""The web page in a real browser, before 5,000 nodes and 50,000 pods with a rollout running: how soon, how smooth.

`python benchmarks/page_browser.py [--nodes 5000] [--pods 50000] [--tries 5]`. Prints, for every view, the seconds from
navigation to the complete first view and from a change in the store to seeing it, each with its median and the worst
of the tries; then the explorer's frames over all rows, what starting takes, and whether memory grows over ten minutes'
worth of changes. Exits 1 when a bar is missed: run it on a machine of its own. Needs `make browser`.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import itertools
import multiprocessing
import os
import random
import statistics
import sys
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from processes import resident_mib
from streams import beside

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.page import browser
from tests.page.cluster import SUBJECT, MemoryCluster, Page, filled, in_step, served, stir, with_history
from tests.page.pictures import POD
from wharfinger.etcd import keys
from wharfinger.objects.documents.pods import GROUP_LABEL
from wharfinger.process.running import tune_garbage_collection
from wharfinger.scheduling.page.following import Following
from wharfinger.telemetry import Metrics
from wharfinger.testing import node_manifest

FIRST_VIEW = 1.0
VISIBLE = 1.0
"""Seconds."""
FRAME = 1000 / 30
"""Milliseconds, the median."""
GROWTH = 5.0
"""Per cent more memory after the second half of the changes than after the first."""
ROLLOUT = 1.0
"""Seconds between two steps of the rollout."""


@dataclass(frozen=True)
class LookedAt:
    """One view: when it is complete, and a change that it has to show."""

    name: str
    address: str
    complete: str
    """A selector."""
    change: Callable[[MemoryCluster, int], Awaitable[str]] | None = None
    """Writes something new and answers the condition, in JavaScript, under which it is seen; None: it is not live."""


NAMES = itertools.count()


class Rolling:
    """The rollout of the common fleet."""

    replicas = 4

    async def run(self, cluster: MemoryCluster) -> None:
        """Let it go on, until cancelled."""
        step = 0
        while True:
            step += 1
            await cluster.fleet(step % (self.replicas + 1), self.replicas)
            await asyncio.sleep(ROLLOUT)


ROLLING = Rolling()


def _text(where: str, words: str) -> str:
    return f"document.querySelector({where!r})?.innerText.includes({words!r})"


async def _held(cluster: MemoryCluster, number: int) -> str:
    """One more pod that is held back."""
    count = 6 + number
    await cluster.pod(f"held-more-{number}", "1", "platform", schedulingGates=[{"name": "example.com/quota"}])
    return (
        "[...document.querySelectorAll('.legend a')]"
        f".some((one) => one.innerText.replace(/\\s/g, '').startsWith('{count}heldback'))"
    )


async def _labelled(cluster: MemoryCluster, number: int) -> str:
    """One more label, by which the map may be grouped."""
    labels = {"pool": "bench", f"bench-{number}": "x"}
    await cluster.put(keys.node("bench"), node_manifest("bench", "32", "128Gi", labels=labels))
    return f"[...document.querySelectorAll('option')].some((one) => one.innerText.startsWith('bench-{number} '))"


async def _on_node(cluster: MemoryCluster, number: int) -> str:
    """One more pod on the node."""
    name = f"new-here-{number}"
    await cluster.pod(name, "10m", "web", nodeName="gpu-c-00008", status={"phase": "Running"})
    return _text(".drawer", name)


async def _reason(cluster: MemoryCluster, number: int) -> str:
    """One more reason, of a plugin of its own."""
    name, plugin = f"odd-{number}", f"Bench{number}"
    await cluster.pod(name, "1", "web")
    await cluster.refusal("web", name, (plugin,), "0/5000 nodes are available: 5000 no.")
    return _text("#view", f"{plugin} ·")


async def _in_list(cluster: MemoryCluster, _number: int) -> str:
    """A pod that sorts first."""
    name = f"aaa-{next(NAMES):03d}"
    await cluster.pod(name, "1", "aaa")
    await cluster.refusal("aaa", name, ("NodeAffinity",), "0/5000 nodes are available: 5000 no.")
    return _text("#view", f"aaa/{name}")


async def _again(cluster: MemoryCluster, number: int) -> str:
    """The subject is refused once more."""
    message = f"0/5000 nodes are available: {number} no."
    await cluster.refusal(SUBJECT.namespace, SUBJECT.name, ("NodeResourcesFit",), message, attempt=5 + number)
    return _text("#view", message)


async def _member(cluster: MemoryCluster, number: int) -> str:
    """One more member of the gang."""
    await cluster.pod(f"mpi-more-{number}", "8", "training", labels={GROUP_LABEL: "mpi-solve"})
    return _text("#view", f"mpi-more-{number}")


async def _gang(cluster: MemoryCluster, number: int) -> str:
    """A gang that sorts first."""
    await cluster.pod(f"a-{number}", "1", "aaa", labels={GROUP_LABEL: f"a-gang-{number:03d}"})
    return _text("#view", f"aaa/a-gang-{number:03d}")


async def _rolled(cluster: MemoryCluster, number: int) -> str:
    """The rollout says something else; the steps that go on beside it say it as well."""
    ROLLING.replicas = 5 + number
    await cluster.fleet(number % 4, ROLLING.replicas)
    return _text("#view", f"of {ROLLING.replicas} ready")


async def _alert(cluster: MemoryCluster, number: int) -> str:
    """One more pod that nobody serves."""
    await cluster.put(keys.pod("web", f"broken-{number}"), b"no json")
    return _text("#view", f"{number + 1} object")


VIEWS = (
    LookedAt("overview", "/", ".legend a", _held),
    LookedAt("map", "/map?group=pool", "canvas[aria-label*='00 nodes'], canvas[aria-label*='01 nodes']", _labelled),
    LookedAt(
        "map, fragmentation",
        "/map?group=topology.kubernetes.io/zone&by=fits&cpu=16&memory=32Gi",
        ".scale >> text=more fit",
    ),
    LookedAt("node", "/nodes/gpu-c-00008?group=topology.kubernetes.io/rack", ".drawer h1", _on_node),
    LookedAt("pending", "/pending", ".reason", _reason),
    LookedAt("a reason", "/pending/Unschedulable~NodeResourcesFit", ".vbody .vrow"),
    LookedAt("pods", "/pods", ".vbody .vrow", _in_list),
    LookedAt("pods that wait", "/pods?state=waiting", ".vbody .vrow", _in_list),
    LookedAt("pod", POD, ".attempts", _again),
    LookedAt("explorer", f"{POD}?tab=explorer&attempt=4", ".vbody .mark"),
    LookedAt("difference", f"{POD}?tab=difference&first=1&second=2", ".compare"),
    LookedAt("what if", f"{POD}?tab=what-if", "summary >> text=Weights"),
    LookedAt("fields", f"{POD}?tab=fields", "#view dl"),
    LookedAt("gangs", "/gangs", ".vbody .vrow", _gang),
    LookedAt("gang", "/gangs/training/mpi-solve", ".vbody .vrow", _member),
    LookedAt("fleets", "/fleets", ".figure", _rolled),
    LookedAt("placements", "/placements", "#view p"),
    LookedAt("kubernetes", "/kubernetes", "#view p"),
    LookedAt("replays", "/replays", "#view > * >> nth=1"),
    LookedAt("alerts", "/alerts", "tbody tr", _alert),
)
DECIDED_AGAIN = ("explorer", "difference", "what if")
"""They read a past state of 5,000 nodes and decide on it: the time is told, and has no bar."""


class Rows:
    """The table, and what missed its bar."""

    def __init__(self) -> None:
        self.missed: list[str] = []
        print(f"{'view':<22} {'first view, s':>22} {'change seen, s':>22}")

    def row(self, view: str, first: list[float], seen: list[float], bar: float | None) -> None:
        """One line; `bar`: of the first view."""
        print(f"{view:<22} {_told(first):>22} {_told(seen):>22}", flush=True)
        if bar is not None and statistics.median(first) > bar:
            self.missed.append(f"{view}: first view {statistics.median(first):.2f} s")
        if seen and statistics.median(seen) > VISIBLE:
            self.missed.append(f"{view}: change seen after {statistics.median(seen):.2f} s")

    def line(self, what: str, told: str, *, bad: bool) -> None:
        """One figure."""
        print(f"{what:<42} {told}", flush=True)
        if bad:
            self.missed.append(f"{what}: {told}")


def _told(times: list[float]) -> str:
    return f"{statistics.median(times):.2f} (worst {max(times):.2f})" if times else "-"


async def look(page: Page, tab: Any, rows: Rows, tries: int) -> None:
    """Every view: open it, change something, wait until that is seen."""
    loop, number = asyncio.get_running_loop(), 0
    for view in VIEWS:
        first: list[float] = []
        seen: list[float] = []
        for _ in range(tries):
            began = loop.time()
            await tab.goto(page.server.url + view.address, wait_until="commit")
            await tab.wait_for_selector(view.complete, timeout=60_000)
            first.append(loop.time() - began)
        for _ in range(tries if view.change is not None else 0):
            await asyncio.sleep(page.cluster.rng.random())  # at any time of a tick
            assert view.change is not None
            number = CHANGES[view.name] = CHANGES.get(view.name, -1) + 1
            began = loop.time()
            condition = await view.change(page.cluster, number)
            async with asyncio.timeout(30):
                await tab.evaluate(
                    f"async () => {{ while (!({condition})) await new Promise(requestAnimationFrame); }}"
                )
            seen.append(loop.time() - began)
        rows.row(view.name, first, seen, None if view.name in DECIDED_AGAIN else FIRST_VIEW)


CHANGES: dict[str, int] = {}
"""How often each view's change was made."""


async def scroll(page: Page, tab: Any, rows: Rows, nodes: int) -> None:
    """Scroll the explorer over all of its rows."""
    await tab.goto(f"{page.server.url}{POD}?tab=explorer&attempt=4")
    await tab.wait_for_selector(".vbody .mark", timeout=60_000)
    took = await tab.evaluate(browser.FRAMES, nodes)
    median, slow = statistics.median(took), sum(one > FRAME for one in took)
    told = f"median {median:.1f} ms, {slow} of {len(took)} longer than {FRAME:.0f} ms"
    rows.line(f"explorer, scrolled over {nodes:,} rows", told, bad=median > FRAME)


async def _start(cluster: MemoryCluster) -> tuple[float, float, float]:
    gc.collect()
    before = resident_mib(os.getpid())
    following = Following(cluster.store.client(), Metrics(), rng=random.Random(1))
    began, cpu = time.monotonic(), time.process_time()
    async with beside(following.run()):
        await following.in_step.wait()
        return time.monotonic() - began, time.process_time() - cpu, resident_mib(os.getpid()) - before


def start(cluster: MemoryCluster) -> tuple[float, float, float]:
    """What it takes to be in step, and what that keeps: seconds, of CPU, and MiB. In a process of its own."""
    context = multiprocessing.get_context("fork")
    receiving, sending = context.Pipe(duplex=False)
    child = context.Process(target=lambda: sending.send(asyncio.run(_start(cluster))))
    child.start()
    told: tuple[float, float, float] = receiving.recv()
    child.join()
    return told


async def age(page: Page, rows: Rows, seconds: float, pace: int) -> None:
    """As many changes as come in that time, one after the other; memory after each half."""
    cluster, after = page.cluster, []
    nodes = list(page.parts.following.cache.nodes)
    for half in range(2):
        for number in range(int(seconds * pace / 4)):
            name = f"aging-{half}-{number}"
            await cluster.pod(name, "1m", "batch")
            await cluster.pod(name, "1m", "batch", nodeName=nodes[number % len(nodes)])
            if number >= 500:
                await cluster.store.delete(keys.pod("batch", f"aging-{half}-{number - 500}"))
            if number % 200 == 0:
                await in_step(page.parts, cluster.store.revision)
        for number in range(int(seconds * pace / 4) - 500, int(seconds * pace / 4)):
            await cluster.store.delete(keys.pod("batch", f"aging-{half}-{number}"))
        await in_step(page.parts, cluster.store.revision)
        cluster.store.compact(cluster.store.revision)
        gc.collect()
        after.append(resident_mib(os.getpid()))
    growth = 100 * (after[1] / after[0] - 1)
    told = f"{after[0]:.0f} MiB, then {after[1]:.0f} MiB ({growth:+.1f} %, store and filler included)"
    rows.line(f"memory over {seconds * pace:,.0f} changes", told, bad=growth > GROWTH)


async def measure(cluster: MemoryCluster, began: tuple[float, float, float], nodes: int, tries: int, pace: int) -> int:
    """Print the table; the exit code. `began`: the answer of `start`."""
    rows = Rows()
    async with served(cluster) as page, browser.launched() as chromium:
        await with_history(cluster, page.parts)
        async with beside(stir(cluster), ROLLING.run(cluster)):
            wrong: list[str] = []
            context = await chromium.new_context(viewport={"width": 1440, "height": 900})
            tab = await context.new_page()
            tab.on("console", lambda said: wrong.append(said.text) if said.type == "error" else None)
            tab.on("pageerror", lambda error: wrong.append(str(error)))
            tab.on("request", lambda one: None if one.url.startswith(page.server.url) else wrong.append(one.url))
            await tab.goto(page.link)
            await look(page, tab, rows, tries)
            await scroll(page, tab, rows, nodes)
            rows.line("console errors, requests to other hosts", str(len(wrong)), bad=bool(wrong))
            for one in dict.fromkeys(wrong):
                print(f"  {one[:200]}")
            await context.close()
        rows.line("start, until in step", f"{began[0]:.1f} s ({began[1]:.1f} s of CPU), {began[2]:.0f} MiB", bad=False)
        await age(page, rows, 600.0, pace)
    for one in rows.missed:
        print(f"missed: {one}")
    return 1 if rows.missed else 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--pods", type=int, default=50_000)
    parser.add_argument("--tries", type=int, default=5)
    parser.add_argument("--pace", type=int, default=200, help="changes a second of the ten minutes")
    told = parser.parse_args()
    if not browser.there():
        sys.exit(browser.MISSING)
    tune_garbage_collection()
    written = asyncio.run(filled(told.nodes, told.pods))
    began = start(written)  # before this process has threads
    sys.exit(asyncio.run(measure(written, began, told.nodes, told.tries, told.pace)))
