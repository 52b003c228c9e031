"""How much a scheduling attempt costs beyond the workflow that it is.

In one run, on the same server with the same worker options: (bare) a workflow with one trivial local and one
trivial ordinary activity, and `ScheduleAttempt`, from a pod's put in etcd until etcd shows it bound. Prints one
JSON object: `bare_per_s`, `attempt_per_s`, `ratio` (of the two), `bare_p50_ms`, `lone_p50_ms`, `latency_ratio`.

    python benchmarks/attempts.py --nodes 1000 --pods 2000
"""

from __future__ import annotations

import argparse
import asyncio
import functools
import json
import statistics
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import real_cluster
from etcd_side import EtcdSide, first_event, tree_settings
from kubernetes_pods import SILENCE
from objects import node
from report import say

from wharfinger.dev import processes
from wharfinger.dev.settings import Servers
from wharfinger.etcd import keys

ROUNDS = 5
"""Turns of bare workflows and attempts; each does its share."""
LONE = 100
"""Lone pods and workflows, one after another, of which the median is taken."""


@dataclass(frozen=True)
class Measured:
    """One turn: seconds for many at once, and seconds of each lone one."""

    seconds: float
    lone: list[float]


async def attempts(side: EtcdSide, name: str, pods: int, lone: int) -> Measured:
    """Warm up, then time lone pods and many at once, from put to bound."""
    await side.flood(f"{name}-warm", max(20, pods // 10))
    taken = []
    # One watch for all: etcd brings a fresh one up to date within a tenth of a second only.
    async with side.store.watch(keys.BINDINGS, await side.revision() + 1) as batches:
        for one in (f"{name}-lone-{index}" for index in range(lone)):
            began = time.perf_counter()
            await side.store.put(keys.pod("bench", one), side.pod(one))
            async with asyncio.timeout(SILENCE):
                taken.append(await first_event(batches) - began)  # every bind rewrites its node's binding version
    return Measured(await side.flood(f"{name}-many", pods), taken)


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


async def measure(nodes: int, pods: int, temporal: str, servers: Servers, folder: Path) -> int:
    """Both in turn on one server, so that what else the machine does falls on both."""
    processes.work_in_batch()  # so does the tree: the bare workflow's process is to have the same
    plain, ours, share = [], [], -(-pods // ROUNDS)
    made = {name: node(name) for name in map("node-{:05}".format, range(nodes))}
    settings = tree_settings(folder / "attempts", 1, cohorts="off", temporal_address=temporal)
    async with EtcdSide.open("attempts", servers, settings, made) as side:
        for turn in range(ROUNDS):
            plain.append(await bare(side.tree.temporal.address, share, LONE // ROUNDS))
            say(f"bare workflows: {share} in {plain[-1].seconds:.1f} s")
            ours.append(await attempts(side, f"round-{turn}", share, LONE // ROUNDS))
            say(f"attempts: {share} in {ours[-1].seconds:.1f} s")
    print(json.dumps(result(share * ROUNDS, plain, ours)), flush=True)
    return 0


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
    real_cluster.run(functools.partial(measure, given.nodes, given.pods, given.temporal))


if __name__ == "__main__":
    main()
