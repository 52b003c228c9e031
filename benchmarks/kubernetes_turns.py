"""The turn of one side: a start without pods, lone pods, a steady stream, and a backlog.

::

    start ─► stop ─► start ─► quiet ─► warm ─► lone ─► stream ─► all deleted ─► stop ─► pods created ─► start ─► bound
      └ catches up     └ CPU of an empty start                                                            └ CPU of the
        with the other side's turn                                                                          backlog

CPU is that of all processes of the side, the API server and its etcd included, until the side is quiet again: events
that are written later, and workflows that end later, count. `backlog.cpu_ms_per_pod` begins with the first bind; by
then wharfinger has read the pods, and kube-scheduler has, too. `backlog.whole_cpu_ms_per_pod` begins with the start of
the process, and the CPU of an empty start is subtracted from it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass

from kubernetes_pods import PodWatch, clear, load_at_rate, load_pods, pod
from kubernetes_sides import ApiServer, Side
from processes import quiet, up
from report import latencies, say

from wharfinger.apiserver.client import ApiClient

WARM = 20
"""Pods that are bound before those that are measured."""

LONE_PAUSE = 0.05
"""Seconds after each lone pod: its event is written and its workflow ends meanwhile."""


@dataclass(frozen=True)
class Sizes:
    """How many pods of each workload; 0 leaves it out."""

    backlog: int
    arrivals: float
    """A second."""
    seconds: float
    """How long they arrive."""
    lone: int


@dataclass
class Turn:
    """One side's turn."""

    api: ApiServer
    client: ApiClient
    watch: PodWatch
    side: Side
    sizes: Sizes

    async def run(self) -> dict[str, float]:
        """All workloads; the API server has no pods before and after. The figures by `<workload>.<name>`."""
        figures: dict[str, float] = {}
        await self._start()
        await quiet(self.cpu)
        await self.side.stop()
        before = await quiet(self.cpu)
        await self._start()
        empty = sum((await quiet(self.cpu)).values()) - sum(before.values())
        figures["start.cpu_s"] = empty
        try:
            await self._bound_at_once("warm", WARM)
            if self.sizes.lone:
                figures |= {f"lone.{name}": value for name, value in (await self.lone()).items()}
            if self.sizes.arrivals:
                figures |= {f"arrivals.{name}": value for name, value in (await self.arrivals()).items()}
            await self._clear()
        finally:
            await self.side.stop()
        if self.sizes.backlog:
            try:
                backlog = await self.backlog(empty)
                await self._clear()
            finally:
                await self.side.stop()
            figures |= {f"backlog.{name}": value for name, value in backlog.items()}
        return figures

    def cpu(self) -> dict[str, float]:
        """CPU seconds so far of each process that counts for this side."""
        return {part.name: part.cpu_seconds for part in (*self.api.parts, *self.side.parts)}

    # --- workloads ----------------------------------------------------------------------------

    async def lone(self) -> dict[str, float]:
        """Pods one after another: milliseconds from the request that creates one until the watch shows it bound."""
        taken = []
        for number in range(self.sizes.lone):
            name = f"lone-{number}"
            self.watch.expect([name])
            began = time.perf_counter()
            await load_pods(self.client, [pod(name)])
            await self.watch.all_bound()
            taken.append(self.watch.bound[name] - began)
            await asyncio.sleep(LONE_PAUSE)
        return latencies(taken)

    async def arrivals(self) -> dict[str, float]:
        """A steady stream."""
        names = [f"arrival-{number}" for number in range(int(self.sizes.arrivals * self.sizes.seconds))]
        self.watch.expect(names)
        sent: dict[str, float] = {}
        before = await quiet(self.cpu)
        await load_at_rate(self.client, [pod(name) for name in names], self.sizes.arrivals, sent.__setitem__)
        await self.watch.all_bound()
        after = await quiet(self.cpu)
        taken = [self.watch.bound[name] - sent[name] for name in names]
        return latencies(taken) | self._cpu_per_pod(before, after, len(names))

    async def backlog(self, empty: float) -> dict[str, float]:
        """Pods that were created while the scheduler did not run. `empty`: CPU seconds of a start without pods."""
        names = [f"backlog-{number}" for number in range(self.sizes.backlog)]
        await load_pods(self.client, map(pod, names))
        before = await quiet(self.cpu)
        self.watch.expect(names)
        started = time.perf_counter()
        await self.side.start()
        await self.watch.first_bound()
        at_first = self.cpu()
        await self.watch.all_bound()
        after = await quiet(self.cpu)
        times = sorted(self.watch.bound[name] for name in names)
        whole = sum(after.values()) - sum(before.values()) - empty
        return {
            "pods_per_s": (len(names) - 1) / max(times[-1] - times[0], 1e-3),
            "from_start_pods_per_s": len(names) / (times[-1] - started),
            "first_bind_s": times[0] - started,
            **self._cpu_per_pod(at_first, after, len(names)),
            "whole_cpu_ms_per_pod": whole / len(names) * 1000,
        }

    # --- between them -------------------------------------------------------------------------

    async def _start(self) -> None:
        say(f"{self.side.name} starts")
        await up(await self.side.start(), self.side.is_up)

    async def _bound_at_once(self, name: str, count: int) -> None:
        names = [f"{name}-{number}" for number in range(count)]
        self.watch.expect(names)
        await load_pods(self.client, map(pod, names))
        await self.watch.all_bound()

    async def _clear(self) -> None:
        """Everything is deleted, and everybody has seen it; events that came meanwhile are deleted, too."""
        await quiet(self.cpu)
        await clear(self.client)
        await quiet(self.cpu)
        await clear(self.client)

    def _cpu_per_pod(self, before: Mapping[str, float], after: Mapping[str, float], pods: int) -> dict[str, float]:
        """Milliseconds a pod: the sum, and of each process."""
        used = {name: (seconds - before.get(name, 0.0)) / pods * 1000 for name, seconds in after.items()}
        return {"cpu_ms_per_pod": sum(used.values()), **{f"cpu_ms.{name}": value for name, value in used.items()}}
