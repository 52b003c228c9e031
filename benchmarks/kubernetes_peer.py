"""kube-scheduler, a Kubernetes API server and an etcd, under the floods and streams of `throughput.py`.

The nodes and pods are the same. Those of a flood are created as fast as the API server takes them while kube-scheduler
runs; as with wharfinger, time ends when a watch shows the bind. All processes work in batch, because those of
wharfinger's tree do.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from kubernetes_pods import PodWatch, delete_pods, load_nodes, load_pods
from kubernetes_sides import ApiServer, KubeScheduler
from objects import pod
from processes import Children, quiet, up
from report import say
from streams import Arrival, Taken, send

from wharfinger.apiserver.client import ApiClient

ROOM = 110
"""Pods that a node of the flood has room for."""


@dataclass
class PeerSide:
    """A running kube-scheduler."""

    name: str
    client: ApiClient
    watch: PodWatch
    api: ApiServer
    scheduler: KubeScheduler

    @classmethod
    @asynccontextmanager
    async def open(cls, etcd: Path, folder: Path, nodes: Mapping[str, bytes]) -> AsyncIterator[PeerSide]:
        """Start everything. Raises `BenchmarkFailed` when something does not come up."""
        async with Children(folder / "logs", batch=True) as children:
            api = await ApiServer.start(children, etcd, folder)
            async with api.client() as client:
                say(f"kube-apiserver: creating {len(nodes)} nodes")
                await load_nodes(client, map(json.loads, nodes.values()))
                scheduler = KubeScheduler(children, api, folder / "kube-scheduler")
                await up(await scheduler.start(), scheduler.is_up)
                async with PodWatch.open(client, ROOM) as watch:
                    yield cls("kube-scheduler", client, watch, api, scheduler)

    def pod(self, name: str) -> bytes:
        """A plain pod."""
        return pod(name)

    def cpu(self) -> Mapping[str, float]:
        """CPU seconds so far by process."""
        return {part.name: part.cpu_seconds for part in (*self.api.parts, *self.scheduler.parts)}

    async def quiet(self) -> Mapping[str, float]:
        """The same when nothing is left to do: events are written after the binds."""
        return await quiet(self.cpu)

    async def arrive(self, arrivals: Sequence[Arrival]) -> Taken:
        """As `EtcdSide.arrive`. A pod that is seen on two nodes, or a node with too many pods, ends the benchmark."""
        fitting = [arrival.name for arrival in arrivals if arrival.fits]
        later = [arrival for arrival in arrivals if arrival.due is not None]
        self.watch.expect(fitting)

        async def one(number: int, _: float) -> None:
            await load_pods(self.client, [json.loads(later[number].body)])

        began = time.perf_counter()
        now = (json.loads(arrival.body) for arrival in arrivals if arrival.due is None)
        await asyncio.gather(load_pods(self.client, now), send((one.due or 0.0 for one in later), one))
        await self.watch.all_bound()
        await delete_pods(self.client, (arrival.name for arrival in arrivals if not arrival.fits))
        bound = self.watch.bound
        return Taken({one.name: bound[one.name] - began - (one.due or 0.0) for one in arrivals if one.fits})

    async def flood(self, name: str, count: int) -> float:
        """Seconds from the first request to the last bind."""
        taken = await self.arrive([Arrival(f"{name}-{n}", self.pod(f"{name}-{n}")) for n in range(count)])
        return max(taken.seconds.values())
