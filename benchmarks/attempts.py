"""How much a scheduling attempt costs beyond the workflow that it is.

In one run, on the same server with the same worker options: (bare) a workflow with one trivial local and one
trivial ordinary activity, and `ScheduleAttempt`, from a pod's put in etcd until etcd shows it bound. Prints one
JSON object: `bare_per_s`, `attempt_per_s`, `ratio` (of the two), `bare_p50_ms`, `lone_p50_ms`, `latency_ratio`.

    python benchmarks/attempts.py --nodes 1000 --pods 2000
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import uvloop
from objects import node, pod
from report import say

from wharfinger.demo.audit import audit
from wharfinger.dev import processes
from wharfinger.dev.ports import free_port
from wharfinger.dev.progress import progress_for
from wharfinger.dev.settings import DevSettings, Servers, prepare
from wharfinger.dev.tree import running
from wharfinger.registry import keys
from wharfinger.registry.etcd import EtcdStore
from wharfinger.registry.store import Put, WatchBatch
from wharfinger.settings import EtcdSettings

ROUNDS = 5
"""Turns of bare workflows and attempts; each does its share."""
LONE = 100
"""Lone pods and workflows, one after another, of which the median is taken."""
PUTS_AT_ONCE = 20
"""In one transaction, as a controller creates the pods of a set."""
SILENCE = 60.0
"""Seconds without a bind after which the measurement is given up."""


@dataclass(frozen=True)
class Measured:
    """One turn: seconds for many at once, and seconds of each lone one."""

    seconds: float
    lone: list[float]


class Binds:
    """Follows the binding versions, which every bind rewrites: as light as it gets, for it shares the machine."""

    def __init__(self, batches: AsyncIterator[WatchBatch]) -> None:
        self._batches = batches

    async def wait_for(self, count: int) -> None:
        """Until so many more binds are seen; raises TimeoutError after a minute without one."""
        while count > 0:
            async with asyncio.timeout(SILENCE):
                while not (events := (await anext(self._batches)).events):
                    pass  # only progress: the silence goes on
            count -= len(events)


class Attempts:
    """Measures attempts on one etcd."""

    def __init__(self, store: EtcdStore, binds: Binds) -> None:
        self._store = store
        self._binds = binds

    async def measure(self, name: str, pods: int, lone: int) -> Measured:
        """Warm up, then time lone pods and many at once, from put to bound."""
        await self._many(f"{name}-warm", max(20, pods // 10))
        taken = [await self._many(f"{name}-lone-{index}", 1) for index in range(lone)]
        return Measured(await self._many(f"{name}-many", pods), taken)

    async def _many(self, name: str, count: int) -> float:
        """Seconds from the first put to the last bind."""
        puts = [Put(keys.pod("bench", f"{name}-{index}"), pod(f"{name}-{index}")) for index in range(count)]
        began = time.perf_counter()
        for at in range(0, count, PUTS_AT_ONCE):
            await self._store.txn((), puts[at : at + PUTS_AT_ONCE])
        await self._binds.wait_for(count)
        return time.perf_counter() - began


async def bare(temporal: str, workflows: int, lone: int) -> Measured:
    """The same of the bare workflow, measured in a process of its own."""
    command = [sys.executable, str(Path(__file__).with_name("bare.py")), "--temporal", temporal]
    process = await asyncio.create_subprocess_exec(
        *command, "--workflows", str(workflows), "--lone", str(lone), stdout=asyncio.subprocess.PIPE
    )
    said, _ = await process.communicate()
    if process.returncode:
        raise SystemExit(f"the bare workflow's process failed: {process.returncode}")
    return Measured(**json.loads(said))


async def measure(servers: Servers, folder: Path, nodes: int, pods: int, temporal: str = "") -> dict[str, Any]:
    """Both in turn on one server, so that what else the machine does falls on both."""
    ports = (free_port(), free_port(), free_port(), free_port())
    settings = DevSettings(folder, 1, *ports, cohorts="off", temporal_address=temporal, etcd_open=True)
    plain, ours, share = [], [], -(-pods // ROUNDS)
    async with (
        running(settings, servers, say=say) as tree,
        EtcdStore(EtcdSettings(endpoints=(tree.etcd.url,))) as store,
    ):
        first = (await store.get(keys.INSTALLATION)).revision + 1
        for at in range(0, nodes, 100):
            names = [f"node-{index:05}" for index in range(at, min(at + 100, nodes))]
            await store.txn((), [Put(keys.node(name), node(name)) for name in names])
        async with store.watch(keys.BINDINGS, first) as batches:
            attempts = Attempts(store, Binds(batches))
            for turn in range(ROUNDS):
                plain.append(await bare(tree.temporal.address, share, LONE // ROUNDS))
                say(f"bare workflows: {share} in {plain[-1].seconds:.1f} s")
                ours.append(await attempts.measure(f"round-{turn}", share, LONE // ROUNDS))
                say(f"attempts: {share} in {ours[-1].seconds:.1f} s")
        judged = await audit(store, first)
        if not judged.sound:
            raise SystemExit(f"not sound: {judged}")
    return result(share * ROUNDS, plain, ours)


def result(count: int, plain: list[Measured], ours: list[Measured]) -> dict[str, float]:
    """The figures that are printed."""
    bare_per_s, attempt_per_s = (count / sum(turn.seconds for turn in turns) for turns in (plain, ours))
    bare_p50, lone_p50 = (statistics.median(s for turn in turns for s in turn.lone) * 1000 for turns in (plain, ours))
    return {
        "bare_per_s": round(bare_per_s, 1),
        "attempt_per_s": round(attempt_per_s, 1),
        "ratio": round(attempt_per_s / bare_per_s, 3),
        "bare_p50_ms": round(bare_p50, 1),
        "lone_p50_ms": round(lone_p50, 1),
        "latency_ratio": round(lone_p50 / bare_p50, 3),
    }


def main() -> None:
    """Parse, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=1000, help="nodes in the cluster (1000)")
    parser.add_argument("--pods", type=int, default=2000, help="pods, and bare workflows (2000)")
    parser.add_argument("--temporal", default="", metavar="HOST:PORT", help="a Temporal that runs already (none)")
    given = parser.parse_args()
    servers = prepare(progress_for(sys.stderr))
    processes.work_in_batch()  # so does the tree: the bare workflow's process is to have the same
    folder = Path(tempfile.mkdtemp(prefix="wharfinger-bench-"))
    try:
        figures = uvloop.run(measure(servers, folder, given.nodes, given.pods, given.temporal))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print(json.dumps(figures), flush=True)
    os._exit(0)  # the SDK's threads may abort an interpreter that is torn down


if __name__ == "__main__":
    main()
