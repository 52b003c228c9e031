"""Pods a second, durably: from the first put in etcd to the last bind in etcd, everything on this machine.

One tree of etcd, Temporal and workers, as `wharfinger dev` runs it. Prints a JSON object a mode: `mode` (`auto`:
cohorts while the backlog is deep; `single`: one workflow a pod), `pods_per_s`, `cpu_ms_per_pod` of each part; with
`--mode both` also how many times faster `auto` was in that run. At the end etcd is asked whether every pod is bound,
once, and no node overcommitted. With two formats, each on a tree of its own, `of_kubernetes` is the rate of rk8s'
documents divided by that of Kubernetes' objects.

    python benchmarks/throughput.py --nodes 5000 --pods 20000
    python benchmarks/throughput.py --nodes 5000 --pods 20000 --mode both --single-pods 2000
    python benchmarks/throughput.py --nodes 5000 --pods 12000 --rate 200     latency of a steady stream
    python benchmarks/throughput.py --nodes 1000 --pods 5000 --format kubernetes rk8s

Pods with rules across nodes, each kind as a flood of its own namespace after the plain ones, on one tree; `of_plain` is
the rate divided by that of the plain pods in the same run. With `--beside`, as many plain pods are put into the same
namespace at the same time, which also prints the longest time from the first put to a bind:

    python benchmarks/throughput.py --nodes 5000 --pods 3000 --workload spread affinity anti-affinity preferred-spread
    python benchmarks/throughput.py --nodes 5000 --pods 1500 --workload spread affinity --workers 2 --beside

Beside kube-scheduler with a Kubernetes API server and an etcd, on the same nodes, with as many of the same pods;
`of_peer` is the rate divided by that of kube-scheduler, and `cpu_of_peer` divides the CPU times of all processes:

    python benchmarks/throughput.py --nodes 5000 --pods 20000 --peer kube-scheduler

On a Temporal that runs already, with the CPU of its processes (`python -m tests.integration.temporal_cluster` starts
one on PostgreSQL and prints these options):

    python benchmarks/throughput.py --mode single --pods 2000 --temporal 127.0.0.1:7233 --part temporal=PID ...
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
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import core_workloads
import kubernetes_peer
import processes
import uvloop
from attempts import say
from objects import OBJECTS

from wharfinger.demo.audit import audit
from wharfinger.dev.ports import free_port
from wharfinger.dev.progress import progress_for
from wharfinger.dev.settings import DevSettings, Servers, prepare
from wharfinger.dev.tree import DevTree, running
from wharfinger.model.formats import ClusterFormat
from wharfinger.registry import keys
from wharfinger.registry.etcd import EtcdStore
from wharfinger.registry.rk8s_keys import store_of
from wharfinger.registry.store import Put, Store, WatchBatch
from wharfinger.settings import EtcdSettings

PUTS_AT_ONCE = 500
"""In one transaction."""
QUIET = 1.0
"""Seconds without a bind after which etcd is asked whether all are bound."""
SILENCE = 60.0
"""Seconds without a bind after which the measurement is given up."""
WARM = 300
"""Pods placed before the measured ones, where no fewer are measured."""


WORKLOADS: dict[str, Callable[[str], dict[str, Any]]] = {
    "plain": core_workloads.pod,
    "spread": lambda name: core_workloads.spread(name, "DoNotSchedule"),
    "preferred-spread": lambda name: core_workloads.spread(name, "ScheduleAnyway"),
    "affinity": core_workloads.affinity,
    "anti-affinity": core_workloads.anti_affinity,
}
"""By name: a pod of kube-scheduler's own performance workloads."""


@dataclass
class Ends:
    """When binds were seen: every one rewrites the version of its namespace, the lightest thing to watch."""

    batches: AsyncIterator[WatchBatch]
    last: float = 0.0

    async def follow(self) -> None:
        """Until cancelled."""
        async for batch in self.batches:
            if batch.events:
                self.last = time.perf_counter()


def zoned(name: str) -> bytes:
    """A node of kube-scheduler's own performance workloads, in one of three zones."""
    made = core_workloads.node(int(name.rpartition("-")[2]))
    made["metadata"] |= {"name": name, "labels": made["metadata"]["labels"] | {core_workloads.HOSTNAME: name}}
    return json.dumps({"apiVersion": "v1"} | made).encode()


def of_workload(workload: str, namespace: str, name: str) -> bytes:
    """A pod of the workload."""
    made = WORKLOADS[workload](name)
    made["metadata"] |= {"namespace": namespace, "uid": f"uid-{namespace}-{name}"}
    for kind in made["spec"].get("affinity", {}).values():
        for term in kind.get("requiredDuringSchedulingIgnoredDuringExecution", []):
            term.pop("namespaces", None)  # each workload has one namespace, its own
    return json.dumps({"apiVersion": "v1"} | made).encode()


async def unbound(store: Store, prefix: str) -> int:
    """How many pods with such names have no node yet."""
    waiting, objects = 0, OBJECTS[store.format]
    async for page in store.list(keys.pod(objects.namespace, prefix)):
        waiting += sum(not objects.is_bound(kv.value) for kv in page.items)
    return waiting


async def flood(store: Store, name: str, count: int) -> float:
    """Seconds from the first put to the last bind of so many pods, put as fast as etcd takes them."""
    space, pod = OBJECTS[store.format].namespace, OBJECTS[store.format].pod
    puts = [Put(keys.pod(space, f"{name}-{index}"), pod(f"{name}-{index}")) for index in range(count)]
    first = (await store.get(keys.INSTALLATION)).revision + 1
    async with store.watch(keys.bound(space), first) as batches:
        ends = Ends(batches)
        following = asyncio.create_task(ends.follow())
        began = time.perf_counter()
        for at in range(0, count, PUTS_AT_ONCE):
            await store.txn((), puts[at : at + PUTS_AT_ONCE])
        try:
            await _all_bound(store, name, ends, began)
        finally:
            following.cancel()
            await asyncio.wait({following})
    return ends.last - began


async def _all_bound(store: Store, name: str, ends: Ends, began: float) -> None:
    while True:
        await asyncio.sleep(QUIET / 4)
        silent = time.perf_counter() - max(ends.last, began)
        if silent >= QUIET and not await unbound(store, f"{name}-"):
            return
        if silent >= SILENCE:
            raise SystemExit(f"{await unbound(store, f'{name}-')} pods are not bound after {SILENCE:.0f} s of silence")


async def ruled(store: Store, namespace: str, pods: Sequence[tuple[str, bytes]]) -> dict[str, float]:
    """Seconds from the first put to the bind of each of these pods, by name."""
    puts = [Put(keys.pod(namespace, name), raw) for name, raw in pods]
    ends: dict[str, float] = {}
    prefix = keys.pod(namespace, "")
    first = (await store.get(keys.INSTALLATION)).revision + 1

    async def follow(batches: AsyncIterator[WatchBatch]) -> None:
        async for batch in batches:
            now = time.perf_counter()
            for event in batch.events:
                if b'"nodeName"' in event.kv.value:
                    ends.setdefault(event.kv.key.removeprefix(prefix), now)
            if len(ends) == len(puts):
                return

    async with store.watch(prefix, first) as batches:
        following = asyncio.create_task(follow(batches))
        began = time.perf_counter()
        for at in range(0, len(puts), PUTS_AT_ONCE):
            await store.txn((), puts[at : at + PUTS_AT_ONCE])
        try:
            await asyncio.wait_for(following, SILENCE * 3)
        except TimeoutError:
            raise SystemExit(f"{len(puts) - len(ends)} pods of {namespace} are not bound") from None
    return {name: end - began for name, end in ends.items()}


async def workloads(tree: DevTree, store: Store, given: argparse.Namespace) -> list[dict[str, Any]]:
    """A row of figures for the plain pods, then for each workload that was asked for."""
    rows: list[dict[str, Any]] = []
    plain_rate = 0.0
    for workload in ["plain", *(name for name in given.workload if name != "plain")]:
        namespace = f"bench-{workload}"
        pods = [(f"ruled-{index}", of_workload(workload, namespace, f"ruled-{index}")) for index in range(given.pods)]
        if given.beside and workload != "plain":
            others = [(f"plain-{n}", of_workload("plain", namespace, f"plain-{n}")) for n in range(given.pods)]
            pods = [one for pair in zip(pods, others, strict=True) for one in pair]
        before = processes.of_tree(tree, {})
        revision = (await store.get(keys.INSTALLATION)).revision
        ends = await ruled(store, namespace, pods)
        after = processes.of_tree(tree, {})
        taken = [end for name, end in ends.items() if name.startswith("ruled-")]
        rate = len(taken) / max(taken)
        plain_rate = plain_rate or rate
        rows.append(
            {
                "workload": workload,
                "pods_per_s": round(rate, 1),
                "of_plain": round(rate / plain_rate, 2),
                "longest_s": round(max(taken), 2),
                "revisions": (await store.get(keys.INSTALLATION)).revision - revision,
                "cpu_ms_per_pod": {part: round((after[part] - before[part]) / len(pods) * 1000, 3) for part in before},
            }
        )
        print(json.dumps(rows[-1]), flush=True)
    return rows


async def steady(store: Store, name: str, count: int, rate: float) -> list[float]:
    """Seconds from put to bound of each pod of a stream of so many a second."""
    objects = OBJECTS[store.format]
    put_at: dict[str, float] = {}
    taken: list[float] = []
    first = (await store.get(keys.INSTALLATION)).revision + 1

    async def follow(batches: AsyncIterator[WatchBatch]) -> None:
        async for batch in batches:
            now = time.perf_counter()
            bound = [event.kv.key for event in batch.events if objects.is_bound(event.kv.value)]
            taken.extend(now - put_at.pop(key) for key in bound if key in put_at)
            if len(taken) == count:
                return

    async with store.watch(keys.pod(objects.namespace, f"{name}-"), first) as batches:
        following = asyncio.create_task(follow(batches))
        began = time.perf_counter()
        for index in range(count):
            await asyncio.sleep(max(0.0, began + index / rate - time.perf_counter()))
            key = keys.pod(objects.namespace, f"{name}-{index}")
            put_at[key] = time.perf_counter()
            await store.put(key, objects.pod(f"{name}-{index}"))
        await asyncio.wait_for(following, SILENCE)
    return taken


async def measure(
    servers: Servers, mode: str, pods: int, given: argparse.Namespace, format_: ClusterFormat
) -> dict[str, Any]:
    """One mode on a tree of its own."""
    nodes, workers = given.nodes, given.workers
    folder = Path(tempfile.mkdtemp(prefix="wharfinger-bench-"))
    cohorts = "off" if mode == "single" else "auto"
    ports = (free_port(), free_port(), free_port(), free_port())
    settings = DevSettings(
        folder, workers, *ports, cohorts=cohorts, temporal_address=given.temporal, format=format_, etcd_open=True
    )
    try:
        async with (
            running(settings, servers, say=say) as tree,
            EtcdStore(EtcdSettings(endpoints=(tree.etcd.url,))) as etcd,
        ):
            store = store_of(etcd, format_)
            first = (await store.get(keys.INSTALLATION)).revision + 1
            made = zoned if given.workload else OBJECTS[format_].node
            names = [f"node-{index:05}" for index in range(nodes)]
            for at in range(0, nodes, PUTS_AT_ONCE):
                await store.txn((), [Put(keys.node(name), made(name)) for name in names[at : at + PUTS_AT_ONCE]])
            await flood(store, "warm", min(WARM, given.pods))
            if given.workload:
                figures = {"workloads": len(await workloads(tree, store, given))}
            else:
                figures = await _figures(tree, store, mode, pods, given)
            judged = await audit(store, first)
            if not judged.sound:
                raise SystemExit(f"not sound: {judged}")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return figures


async def _figures(tree: DevTree, store: Store, mode: str, pods: int, given: argparse.Namespace) -> dict[str, Any]:
    others = {name: int(pid) for name, _, pid in (part.partition("=") for part in given.part)}
    before = processes.of_tree(tree, others)
    if given.rate:
        taken = sorted(await steady(store, "steady", pods, given.rate))
        figures = {"mode": mode, "rate": given.rate, **latencies(taken)}
    else:
        seconds = await flood(store, "flood", pods)
        figures = {"mode": mode, "pods_per_s": round(pods / seconds, 1)}
    after = processes.of_tree(tree, others)
    used = {part: round((after[part] - before[part]) / pods * 1000, 3) for part in before}
    memory = round(max(map(processes.resident_mib, tree.ready().worker_pids)))
    return {**figures, "cpu_ms_per_pod": used, "worker_mib": memory}


def latencies(taken: Sequence[float]) -> dict[str, float]:
    """Milliseconds from put to bound."""
    cuts = statistics.quantiles(taken, n=100)
    return {
        "p50_ms": round(cuts[49] * 1000, 1),
        "p99_ms": round(cuts[98] * 1000, 1),
        "max_ms": round(max(taken) * 1000, 1),
    }


async def run(given: argparse.Namespace, servers: Servers) -> None:
    """Measure what was asked for, and print it."""
    modes = ("auto", "single") if given.mode == "both" else (given.mode,)
    rates: dict[tuple[str, ClusterFormat], float] = {}
    costs: dict[str, float] = {}
    for format_ in map(ClusterFormat, given.format):
        for mode in modes:
            pods = given.single_pods or given.pods if mode == "single" else given.pods
            figures = await measure(servers, mode, pods, given, format_)
            rates[mode, format_] = figures.get("pods_per_s", 0.0)
            costs[mode] = sum(figures.get("cpu_ms_per_pod", {}).values())
            print(json.dumps({"format": format_, **figures} if len(given.format) > 1 else figures), flush=True)
        if given.mode == "both" and not given.rate:
            ratio = rates["auto", format_] / rates["single", format_]
            print(json.dumps({"times_faster": round(ratio, 1)}), flush=True)
    for mode in modes if len(given.format) > 1 and not given.rate else ():
        ratio = rates[mode, ClusterFormat.RK8S] / rates[mode, ClusterFormat.KUBERNETES]
        print(json.dumps({"mode": mode, "of_kubernetes": round(ratio, 2)}), flush=True)
    if given.peer:
        try:
            peer = await kubernetes_peer.measure(servers.etcd, given.nodes, given.pods, min(WARM, given.pods), say)
        except kubernetes_peer.BenchmarkFailed as error:
            raise SystemExit(str(error)) from error
        print(json.dumps({"peer": given.peer, **peer}), flush=True)
        for mode in modes:
            of_peer = rates[mode, ClusterFormat.KUBERNETES] / peer["pods_per_s"]
            cost = costs[mode] / sum(peer["cpu_ms_per_pod"].values())
            print(json.dumps({"mode": mode, "of_peer": round(of_peer, 2), "cpu_of_peer": round(cost, 2)}), flush=True)


def main() -> None:
    """Parse, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=5000, help="nodes in the cluster (5000)")
    parser.add_argument("--pods", type=int, default=20000, help="pods (20000)")
    parser.add_argument("--mode", choices=("auto", "single", "both"), default="auto", help="see above (auto)")
    parser.add_argument("--single-pods", type=int, default=0, help="pods of `single` when both are measured (--pods)")
    parser.add_argument("--rate", type=float, default=0.0, help="pods a second, steadily; 0: all at once (0)")
    formats = [format_.value for format_ in ClusterFormat]
    parser.add_argument("--format", nargs="+", choices=formats, default=formats[:1], help="of objects (kubernetes)")
    kinds = ", ".join(WORKLOADS)
    parser.add_argument("--workload", nargs="+", choices=WORKLOADS, default=[], help=f"kinds of pods: {kinds} (none)")
    parser.add_argument("--beside", action="store_true", help="put as many plain pods beside those of a workload")
    parser.add_argument("--workers", type=int, default=1, help="worker processes (1)")
    parser.add_argument("--temporal", default="", metavar="HOST:PORT", help="a Temporal that runs already (none)")
    parser.add_argument("--part", action="append", default=[], metavar="NAME=PID", help="a process of it; repeat")
    parser.add_argument("--peer", choices=("kube-scheduler",), default="", help="compare with it (none)")
    given = parser.parse_args()
    if given.workload and given.format != formats[:1]:
        parser.error("--workload has Kubernetes' objects alone")
    if given.peer and (given.workload or given.rate or given.format != formats[:1]):
        parser.error("--peer has one flood of Kubernetes' objects: it excludes --workload, --rate and --format")
    if given.peer and (lacking := kubernetes_peer.missing()):
        say(f"skipped: {lacking}")
        return
    uvloop.run(run(given, prepare(progress_for(sys.stderr))))
    os._exit(0)  # the SDK's threads may abort an interpreter that is torn down


if __name__ == "__main__":
    main()
