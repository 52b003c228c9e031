"""Pods a second, and how long each takes, durably: from put in etcd to bound in etcd, everything on this machine.

One tree of etcd, Temporal and workers, as `wharfinger dev` runs it. A flood prints a JSON object a mode: `mode`
(`auto`: pods that arrive together share a workflow; `single`: one workflow a pod), `pods_per_s`, from the first put to
the last bind, and `cpu_ms_per_pod` of each part, until the tree is quiet again; with `--mode both` also how many times
faster `auto` was. At the end etcd is asked whether every pod is bound, once, and no node overcommitted. With two
formats, each on a tree of its own, `of_kubernetes` is the rate of rk8s' documents divided by that of Kubernetes'
objects.

    python benchmarks/throughput.py --nodes 5000 --pods 20000
    python benchmarks/throughput.py --nodes 5000 --pods 20000 --mode both --single-pods 2000
    python benchmarks/throughput.py --nodes 1000 --pods 5000 --format kubernetes rk8s

Steady streams, each rate for some seconds: a JSON object a rate, and a table at the end. A latency counts from when a
pod was due. Pods arrive evenly, or as a Poisson process with `--arrivals poisson`. `groups_per_s` are the workflow runs
that bound them, and `pods_per_group` the pods of each. With `--turns` each rate has as many turns, and the table has
the medians. `--busy` runs a busy loop on each core beside them; `--unfitting 0.1` lets a tenth of the pods fit nowhere,
and measures the others; `--urgent 20` puts so many pods of high priority into a flood, one every 50 ms;
`--neighbour 20` so many of another namespace, one every 250 ms, with and without `--compatible`, which has no turns:

    python benchmarks/throughput.py --rate 20 50 100 200 500 1000 --seconds 10 --turns 3
    python benchmarks/throughput.py --rate 20 100 --busy
    python benchmarks/throughput.py --rate 100 --seconds 600 --unfitting 0.1
    python benchmarks/throughput.py --pods 3000 --urgent 20
    python benchmarks/throughput.py --pods 10000 --neighbour 20

Pods with rules across nodes, each kind as a flood of its own namespace after the plain ones, on one tree; `of_plain` is
the rate divided by that of the plain pods in the same run. With `--beside`, as many plain pods are put into the same
namespace at the same time, which also prints the longest time from the first put to a bind:

    python benchmarks/throughput.py --nodes 5000 --pods 3000 --workload spread affinity anti-affinity preferred-spread
    python benchmarks/throughput.py --nodes 5000 --pods 1500 --workload spread affinity --workers 2 --beside

Also gangs of ten, and pods of high priority of which each evicts three others: nodes are filled first, so give this one
last, and at least as many nodes as pods:

    python benchmarks/throughput.py --nodes 500 --pods 500 --workload gang preemption

Beside kube-scheduler with a Kubernetes API server and an etcd, on the same nodes, with as many of the same pods, in
turns; `of_peer` is a figure divided by that of kube-scheduler in the same turn, and `cpu_of_peer` divides the CPU times
of all processes:

    python benchmarks/throughput.py --nodes 5000 --pods 20000 --peer kube-scheduler
    python benchmarks/throughput.py --rate 20 50 100 200 --peer kube-scheduler

On a Temporal that runs already, with the CPU of its processes (`python -m tests.integration.temporal_cluster` starts
one on PostgreSQL and prints these options):

    python benchmarks/throughput.py --mode single --pods 2000 --temporal 127.0.0.1:7233 --part temporal=PID ...

`commits.py` runs any of these with two commits in turns.
"""

from __future__ import annotations

import argparse
import asyncio
import functools
import json
import os
import statistics
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import core_workloads
import kubernetes_sides
import objects
import real_cluster
import streams
from etcd_side import EtcdSide, tree_settings
from kubernetes_peer import PeerSide
from report import latencies, medians, ratio_of, say, table
from streams import Arrival

from wharfinger.dev.processes import die_with_parent
from wharfinger.dev.settings import Servers
from wharfinger.objects.model.formats import ClusterFormat

WARM = 300
"""Pods placed before the measured ones, where no fewer are measured."""
URGENT_EVERY = 0.05
"""Seconds between two urgent pods."""
URGENT = 1000
"""Their priority."""
NEIGHBOUR_EVERY = 0.25
"""Seconds between two pods of another namespace."""
NOWHERE = "1000"
"""Cores that no node has."""
BUSY = "while True: pass"

WORKLOADS: dict[str, Callable[[str], dict[str, Any]]] = {
    "plain": core_workloads.pod,
    "spread": lambda name: core_workloads.spread(name, "DoNotSchedule"),
    "preferred-spread": lambda name: core_workloads.spread(name, "ScheduleAnyway"),
    "affinity": core_workloads.affinity,
    "anti-affinity": core_workloads.anti_affinity,
    "gang": core_workloads.gang_member,
    "preemption": core_workloads.high_priority,
}
"""By name: a pod of kube-scheduler's own performance workloads."""

Side = EtcdSide | PeerSide
Figures = dict[str, Any]


def zoned(name: str) -> bytes:
    """A node of kube-scheduler's own performance workloads, in one of three zones."""
    return json.dumps(core_workloads.node(int(name.rpartition("-")[2]), name)).encode()


def of_workload(workload: str, namespace: str, name: str) -> Arrival:
    """A pod of the workload."""
    return arrival(WORKLOADS[workload](name), namespace)


def arrival(made: dict[str, Any], namespace: str) -> Arrival:
    """The pod, in that namespace."""
    name = made["metadata"]["name"]
    made["metadata"] |= {"namespace": namespace, "uid": f"uid-{namespace}-{name}"}
    for kind in made["spec"].get("affinity", {}).values():
        for term in kind.get("requiredDuringSchedulingIgnoredDuringExecution", []):
            term.pop("namespaces", None)  # each workload has one namespace, its own
    return Arrival(name, json.dumps(made).encode())


# --- what is measured: figures, and how many pods -------------------------------------------------

Measure = Callable[[Side, str], Any]
"""Of a side, with a prefix for the names of pods: an awaitable of figures and the number of pods."""


def measures(given: argparse.Namespace) -> Iterator[tuple[Figures, Measure]]:
    """What to measure, each with the figures that name it."""
    if given.rate:
        for rate in given.rate:
            yield {"rate": rate}, lambda side, name, rate=rate: steady(side, name, rate, given)
    elif given.workload:
        for workload in dict.fromkeys(["plain", *given.workload]):
            yield {"workload": workload}, lambda side, name, of=workload: ruled(side, name, of, given)
    elif given.urgent:
        yield {"urgent": given.urgent}, lambda side, name: among(side, name, given.urgent, URGENT_EVERY, given)
    elif given.neighbour:
        every = NEIGHBOUR_EVERY
        yield {"neighbour": given.neighbour}, lambda side, name: among(side, name, given.neighbour, every, given)
    else:
        yield {}, lambda side, name: flood(side, name, given)


async def flood(side: Side, name: str, given: argparse.Namespace) -> tuple[Figures, int]:
    """Plain pods, all at once."""
    pods = given.single_pods or given.pods if side.name.endswith("single") else given.pods
    return {"pods_per_s": round(pods / await side.flood(name, pods), 1)}, pods


async def steady(side: Side, name: str, rate: float, given: argparse.Namespace) -> tuple[Figures, int]:
    """Plain pods, so many a second."""
    due = streams.times(rate, given.seconds, given.arrivals)
    nowhere = streams.unfitting(len(due), given.unfitting)
    arrivals = [
        Arrival(one := f"{name}-{number}", objects.pod(one, cpu=NOWHERE) if lost else side.pod(one), at, not lost)
        for number, (at, lost) in enumerate(zip(due, nowhere, strict=True))
    ]
    taken = await side.arrive(arrivals)
    figures: Figures = {**latencies(list(taken.seconds.values()))}
    if taken.groups:
        figures["groups_per_s"] = round(taken.groups / given.seconds, 1)
        figures["pods_per_group"] = round(len(taken.seconds) / taken.groups, 2)
    return figures, len(due)


async def among(side: Side, name: str, few: int, every: float, given: argparse.Namespace) -> tuple[Figures, int]:
    """A flood, and pods of high priority or of another namespace that arrive meanwhile: the latencies are theirs."""
    pods = [Arrival(one := f"{name}-{number}", objects.pod(one)) for number in range(given.pods)]
    names = [f"{name}-few-{number}" for number in range(few)]
    priority, namespace = (URGENT, "bench") if given.urgent else (0, "neighbour")
    for number, one in enumerate(names):
        pods.append(
            Arrival(one, objects.pod(one, priority=priority, namespace=namespace), every * number, True, namespace)
        )
    taken = await side.arrive(pods)
    rate = given.pods / max(seconds for one, seconds in taken.seconds.items() if one not in names)
    return {"pods_per_s": round(rate, 1), **latencies([taken.seconds[one] for one in names])}, len(pods)


async def ruled(side: Side, name: str, workload: str, given: argparse.Namespace) -> tuple[Figures, int]:
    """Pods with rules across nodes, all at once, in a namespace of their own."""
    assert isinstance(side, EtcdSide)
    namespace = f"bench-{workload}-{name}"
    pods = [of_workload(workload, namespace, f"ruled-{number}") for number in range(given.pods)]
    if given.beside and workload != "plain":
        others = [of_workload("plain", namespace, f"plain-{number}") for number in range(given.pods)]
        pods = [one for pair in zip(pods, others, strict=True) for one in pair]
    if workload == "preemption":
        fillers = map(core_workloads.low_priority, map("low-{}".format, range(4 * given.nodes)))
        await side.arrive([arrival(made, namespace) for made in fillers], namespace)
    revision = await side.revision()
    taken = await side.arrive(pods, namespace)
    longest = max(seconds for one, seconds in taken.seconds.items() if one.startswith("ruled-"))
    revisions = await side.revision() - revision
    figures = {"pods_per_s": round(given.pods / longest, 1), "longest_s": round(longest, 2), "revisions": revisions}
    return figures, len(pods)


# --- on all sides, in turns -----------------------------------------------------------------------


@dataclass
class Results:
    """Figures of all turns."""

    given: argparse.Namespace
    names: list[Figures]
    """What was measured, in order."""
    turns: dict[tuple[str, int], list[Figures]]
    """(side, index of what was measured) -> figures of each turn."""

    def add(self, side: Side, which: int, figures: Figures) -> None:
        """Keep them, and print one line."""
        mine = self.turns.setdefault((side.name, which), [])
        if self.given.workload:
            plain = self.turns[side.name, 0][len(mine)] if which else figures
            figures["of_plain"] = round(figures["pods_per_s"] / plain["pods_per_s"], 2)
        mine.append(figures)
        own = {"format": side.store.format} if isinstance(side, EtcdSide) and len(self.given.format) > 1 else {}
        kind = {"mode": side.name.rpartition("/")[2]} if isinstance(side, EtcdSide) else {"peer": side.name}
        turn = {"turn": len(mine)} if self.given.turns > 1 else {}
        print(json.dumps(own | kind | self.names[which] | turn | figures), flush=True)

    def ratio(self, side: str, peer: str, figure: str, which: int = 0) -> float:
        """The median over the turns of one side's figure divided by that of the other."""
        pairs = zip(self.turns[side, which], self.turns[peer, which], strict=True)
        return round(statistics.median(ratio_of(one[figure], other[figure]) for one, other in pairs), 2)

    def summary(self, sides: list[str]) -> list[str]:
        """What is printed at the end: ratios of the sides' rates, or a table."""
        peer = self.given.peer
        if self.given.rate or self.given.turns > 1:
            return [table([self._row(side, peer, which) for which in range(len(self.names)) for side in sides])]
        lines: list[Figures] = []
        for format_ in self.given.format if self.given.mode == "both" else ():
            ratio = self.ratio(_name(format_, "auto", self.given), _name(format_, "single", self.given), "pods_per_s")
            lines.append({"times_faster": ratio})
        for mode in _modes(self.given) if len(self.given.format) > 1 else ():
            pair = (_name(format_, mode, self.given) for format_ in (ClusterFormat.RK8S, ClusterFormat.KUBERNETES))
            lines.append({"mode": mode, "of_kubernetes": self.ratio(*pair, "pods_per_s")})
        for mode in _modes(self.given) if peer else ():
            of_peer = {"of_peer": self.ratio(mode, peer, "pods_per_s"), "cpu_of_peer": self.ratio(mode, peer, "cpu_ms")}
            lines.append({"mode": mode} | of_peer)
        return [json.dumps(line) for line in lines]

    def _row(self, side: str, peer: str, which: int) -> Figures:
        turns = self.turns[side, which]
        parts = medians([turn["cpu_ms_per_pod"] for turn in turns])
        others = medians(
            [{k: v for k, v in turn.items() if k not in ("cpu_ms_per_pod", "worker_mib")} for turn in turns]
        )
        row = self.names[which] | {"side": side} | others | parts
        for figure in ("pods_per_s", "p50_ms", "p99_ms", "cpu_ms") if peer and side != peer else ():
            if figure in others:
                row[f"{figure}/peer"] = self.ratio(side, peer, figure, which)
        return row


def _modes(given: argparse.Namespace) -> tuple[str, ...]:
    if given.neighbour:
        return ("auto", "compatible")
    return ("auto", "single") if given.mode == "both" else (given.mode,)


def _name(format_: str, mode: str, given: argparse.Namespace) -> str:
    return f"{format_}/{mode}" if len(given.format) > 1 else mode


def openings(given: argparse.Namespace, servers: Servers, folder: Path) -> Iterator[AbstractAsyncContextManager[Side]]:
    """Each side that is wanted, not started yet."""
    names = [f"node-{number:05}" for number in range(given.nodes)]
    others = {name: int(pid) for name, _, pid in (part.partition("=") for part in given.part)}
    for format_ in map(ClusterFormat, given.format):
        made = zoned if given.workload else objects.OBJECTS[format_].node
        for mode in _modes(given):
            settings = tree_settings(
                folder / f"{format_}-{mode}",
                given.workers,
                cohorts="off" if mode == "single" else "auto",
                agent_options=("--compatible",) if mode == "compatible" else (),
                temporal_address=given.temporal,
                format=format_,
            )
            made_nodes = {name: made(name) for name in names}
            yield EtcdSide.open(_name(format_, mode, given), servers, settings, made_nodes, others)
    if given.peer:
        yield PeerSide.open(servers.etcd, folder, {name: objects.node(name) for name in names})


@asynccontextmanager
async def busy(loops: int) -> AsyncIterator[None]:
    """So many processes that use all of the processor that they get."""
    command = (sys.executable, "-c", BUSY)
    started = [await asyncio.create_subprocess_exec(*command, preexec_fn=die_with_parent()) for _ in range(loops)]
    try:
        yield
    finally:
        for process in started:
            process.kill()
            await process.wait()


async def measured(side: Side, measure: Measure, name: str) -> Figures:
    """The figures, and the CPU that all processes of the side took for each pod."""
    before = await side.quiet()
    figures, pods = await measure(side, name)
    after = await side.quiet()
    used = {part: round((after[part] - before[part]) / pods * 1000, 3) for part in after}
    memory: Mapping[str, int] = {"worker_mib": side.worker_mib()} if isinstance(side, EtcdSide) else {}
    return {**figures, "cpu_ms": round(sum(used.values()), 3), "cpu_ms_per_pod": used, **memory}


async def run(given: argparse.Namespace, servers: Servers, folder: Path) -> int:
    """Measure what was asked for, and print it."""
    what = list(measures(given))
    results = Results(given, [names for names, _ in what], {})
    async with AsyncExitStack() as stack:
        sides = [await stack.enter_async_context(opening) for opening in openings(given, servers, folder)]
        for side in sides:
            await side.flood("warm", min(WARM, given.pods))
        await stack.enter_async_context(busy(os.cpu_count() or 1 if given.busy else 0))
        for turn in range(given.turns):
            for which, (_, measure) in enumerate(what):
                for side in sides if turn % 2 == 0 else reversed(sides):
                    results.add(side, which, await measured(side, measure, f"turn-{turn}-{which}"))
    for line in results.summary([side.name for side in sides]):
        print(line, flush=True)
    return 0


def _rate(text: str) -> float:
    return int(text) if text.isdecimal() else float(text)


def main() -> None:
    """Parse, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=5000, help="nodes in the cluster (5000)")
    parser.add_argument("--pods", type=int, default=20000, help="pods of a flood (20000)")
    parser.add_argument("--mode", choices=("auto", "single", "both"), default="auto", help="see above (auto)")
    parser.add_argument("--single-pods", type=int, default=0, help="pods of `single` when both are measured (--pods)")
    parser.add_argument("--rate", type=_rate, nargs="+", default=[], help="pods a second, steadily (all at once)")
    parser.add_argument("--seconds", type=float, default=10.0, help="how long pods arrive at each rate (10)")
    parser.add_argument(
        "--arrivals", choices=streams.ARRIVALS, default="even", help="when pods of a rate arrive (even)"
    )
    parser.add_argument("--unfitting", type=float, default=0.0, help="share of a rate's pods that fit nowhere (0)")
    parser.add_argument("--urgent", type=int, default=0, help="pods of high priority in a flood (0)")
    parser.add_argument("--neighbour", type=int, default=0, help="pods of another namespace beside a flood (0)")
    parser.add_argument("--busy", action="store_true", help="run a busy loop on each core")
    parser.add_argument("--turns", type=int, default=1, help="how often each is measured (1)")
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
    kubernetes = given.format == formats[:1]
    if sum(map(bool, (given.rate, given.workload, given.urgent, given.neighbour))) > 1:
        parser.error("--rate, --workload, --urgent and --neighbour exclude each other")
    if (given.workload or given.urgent or given.neighbour or given.unfitting or given.peer) and not kubernetes:
        parser.error("--workload, --urgent, --neighbour, --unfitting and --peer have Kubernetes' objects alone")
    if given.peer and (given.workload or given.urgent or given.neighbour):
        parser.error("--peer has floods and streams of plain pods: it excludes --workload, --urgent and --neighbour")
    if given.peer and (lacking := kubernetes_sides.missing()):
        say(f"without kube-scheduler: {lacking}")
        given.peer = ""
    real_cluster.run(functools.partial(run, given))


if __name__ == "__main__":
    main()
