"""What waiting pods cost: `python benchmarks/waking.py --nodes 5000 --pods 10000 --fit 3000`, a JSON line a case.

The waker decides on a cluster in memory, without etcd and Temporal; `--classes` are the different kinds of pods among
those that wait (pods that no decision can tell apart are decided once). Seconds of one process:

`arrive`: the pods come to wait, refused on an older snapshot than the last event's; `nobody`: a node grows so that the
plugin that refused them all asks for a decision, and none fits; `beside`: an event that concerns none of them; `sweep`:
all are decided, as every five minutes; `idle`: of a minute in which nothing happens, with its part of the sweep and the
starts that are repeated (not what Temporal makes of them); `fit`: from the moment in which `--fit` pods fit until the
queue has handed them to cohorts.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import uvloop

from wharfinger.framework.profiles import load_profiles
from wharfinger.objects.model.node import Node
from wharfinger.objects.model.pod import Pod
from wharfinger.objects.model.pod_records import Refusal
from wharfinger.process.parts import ProcessParts
from wharfinger.scheduling.contracts.attempts import Wake
from wharfinger.scheduling.loops.queueing import alone_by, gate_by, order_by
from wharfinger.scheduling.loops.signals import WakeSignals
from wharfinger.scheduling.loops.waker import Waker
from wharfinger.scheduling.state.cache.cache import Cache
from wharfinger.scheduling.state.informer.changes import Changes, NodeChange, PodChange
from wharfinger.scheduling.state.pool import Ownership, Pool
from wharfinger.scheduling.state.queue.parts import QueueRules
from wharfinger.scheduling.state.queue.scheduling_queue import SchedulingQueue
from wharfinger.telemetry import Metrics
from wharfinger.testing import MemoryStore, builders

ROOM = 4000
"""Milli-cpu of a node."""
SMALL = 1000
"""Of a waiting pod that fits when a pod leaves; the others ask for as much and a little more."""


class NoTemporal:
    """Takes every signal."""

    async def wake(self, workflow_id: str, wake: Wake) -> bool:  # noqa: ARG002
        """There is a chain."""
        return True


class Together:
    """Groups take what is woken."""

    together, quiet = True, False

    def kick(self) -> None:
        """The bench pops the queue itself."""


class Clock:
    """The real one, and what is added to it."""

    def __init__(self) -> None:
        self.ahead = 0.0

    def __call__(self) -> float:
        """Seconds."""
        return time.monotonic() + self.ahead


class Bench:
    """Full nodes, waiting pods, and a waker."""

    def __init__(self, nodes: int, pods: int, classes: int) -> None:
        self.clock = Clock()
        self.metrics = Metrics()
        self.cache = Cache(clock=self.clock)
        self.profiles = load_profiles()
        rules = QueueRules(gate_by(self.profiles), order_by(self.profiles), alone_by(self.profiles))
        rng = random.Random(1)
        self.queue = SchedulingQueue(rules, clock=self.clock, spread=rng.random)
        process = ProcessParts(MemoryStore(), self.metrics, clock=self.clock, rng=rng)
        self.waker = Waker(
            process,
            Pool(self.cache, self.profiles, Ownership(frozenset(self.profiles))),
            self.queue,
            signals=WakeSignals(process, NoTemporal(), self.queue, kick=lambda: None),
            groups=Together(),
        )
        self.revision = 1
        self.nodes = [self._node(number) for number in range(nodes)]
        self.waiting = [self._waiting(number, number % classes) for number in range(pods)]
        self.bound = [self._bound(number, one) for number, one in enumerate(self.nodes)]

    def _node(self, number: int) -> Node:
        name = f"node-{number}"
        labels = {"zone": f"zone-{number % 3}", "kubernetes.io/hostname": name}
        made = builders.node(name, cpu=ROOM, memory=32 << 30, create_revision=self._next(), labels=labels)
        self.cache.set_node(made)
        return made

    def _bound(self, number: int, on: Node) -> Pod:
        return self.cache.set_pod(self._pod(f"bound-{number}", ROOM - SMALL // 2, node_name=on.name, phase="Running"))

    def _waiting(self, number: int, group: int) -> Pod:
        return self.cache.set_pod(self._pod(f"waiting-{number}", SMALL + group))

    def _pod(self, name: str, cpu: int, **fields: Any) -> Pod:
        revision = self._next()
        return builders.pod(name, cpu=cpu, memory=128 << 20, create_revision=revision, mod_revision=revision, **fields)

    def _next(self) -> int:
        self.revision += 1
        return self.revision

    # --- the cases ------------------------------------------------------------------------------

    async def arrive(self) -> None:
        """All are refused on a snapshot before the last events."""
        known = self.revision - 100
        for pod in self.waiting:
            record = self._next()
            refusal = Refusal(
                attempt=1,
                reason="Unschedulable",
                rejectors=("NodeResourcesFit",),
                revision=known,
                message="0/5000 nodes are available",
                workflow_id=pod.uid,
                run_id="",
                create_revision=pod.create_revision,
                record_revision=record,
            )
            self.queue.put(pod, refusal)
        await self._rounds()

    async def nobody(self) -> None:
        """A node grows, but by too little."""
        self._grow(0, 1)
        await self._rounds()

    async def beside(self) -> None:
        """A node's label changes."""
        old = self.nodes[1]
        new = replace(old, labels={**old.labels, "beside": str(self.revision)}, mod_revision=self._next())
        self._change(1, new)
        await self._rounds()

    async def sweep(self) -> None:
        """All are decided."""
        self.clock.ahead += 301
        await self._rounds()

    async def idle(self) -> None:
        """A minute of looking for what is due."""
        for _ in range(60):
            self.clock.ahead += 1
            self.queue.return_overdue()
            self.queue.due_restarts(8)
            await self.waker.round()

    async def fit(self, number: int) -> None:
        """That many pods leave at once, each making room for one that waits."""
        changes = Changes(self._next())
        for pod in self.bound[:number]:
            self.cache.remove_pod(pod.key)
            changes.pods.append(PodChange(pod.key, pod, None))
        self.waker.apply(changes)
        handed = 0
        task = asyncio.create_task(self._rounds())
        while handed < number:
            await asyncio.sleep(0.001)
            members = self.queue.pop_group(f"c{handed}", 200, lambda _: True)
            handed += len(members)
            if task.done() and not members:
                raise SystemExit(f"{handed} of {number} pods were woken")
        await task

    def _grow(self, row: int, by: int) -> None:
        old = self.nodes[row]
        allocatable = {**old.allocatable, "cpu": old.allocatable["cpu"] + by}
        self._change(row, replace(old, allocatable=allocatable, mod_revision=self._next()))

    def _change(self, row: int, new: Node) -> None:
        old, self.nodes[row] = self.nodes[row], new
        self.cache.set_node(new)
        self.waker.apply(Changes(self.revision, nodes=[NodeChange(new.name, old, new)]))

    async def _rounds(self) -> None:
        while self.waker.has_work():
            await self.waker.round()


async def timed(work: Callable[[], Awaitable[None]]) -> float:
    """Processor seconds of this process."""
    began = time.process_time()
    await work()
    return round(time.process_time() - began, 3)


async def measure(nodes: int, pods: int, classes: int, fit: int) -> dict[str, float]:
    """One cluster, every case."""
    bench = Bench(nodes, pods, classes)
    seconds = {"arrive": await timed(bench.arrive)}
    seconds["sweep"] = await timed(bench.sweep)
    seconds["nobody"] = await timed(bench.nobody)
    seconds["beside"] = await timed(bench.beside)
    seconds["idle"] = round(await timed(bench.idle) + seconds["sweep"] / 5, 3)
    seconds["fit"] = await timed(lambda: bench.fit(fit))
    return seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--pods", type=int, default=10_000)
    parser.add_argument("--classes", type=int, nargs="+", default=[1, 2000])
    parser.add_argument("--fit", type=int, default=3000)
    options = parser.parse_args()
    for classes in options.classes:
        seconds = uvloop.run(measure(options.nodes, options.pods, classes, options.fit))
        print(json.dumps({"pods": options.pods, "classes": classes, "nodes": options.nodes, **seconds}), flush=True)


if __name__ == "__main__":
    main()
