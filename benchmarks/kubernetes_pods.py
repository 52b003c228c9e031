"""Nodes and pods of a Kubernetes API for the benchmarks: loaded at once or at a rate, watched, and deleted again.

Works on any `ApiClient`, so its tests need no server. Neighbours: `kubernetes_sides` starts the API server and its
schedulers, `kubernetes_turns` measures them with what is here.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import Any

from streams import beside, send, together

from wharfinger.apiserver.client import EVENTS, NAMESPACES, NODES, PODS, ApiClient, Batch, ChangeKind
from wharfinger.errors import UpstreamError, UpstreamUnavailable
from wharfinger.testing import node_manifest, pod_manifest

NAMESPACE = "bench"
AT_ONCE = 30
"""Requests on the way while objects are loaded and deleted."""
SILENCE = 60.0
"""Seconds without a bind after which a measurement is given up."""
AGAIN_AFTER = 0.01
"""Seconds until a watch that was ended is resumed."""
PODS_PER_NODE = 40
"""As many as a node's CPU has room for; a scheduler that binds more has overcommitted it."""
ZONES = 3


def node_name(number: int) -> str:
    """The name of a node."""
    return f"node-{number:05}"


def node(number: int) -> dict[str, Any]:
    """A ready node in one of three zones, as large as those of kube-scheduler's own performance tests."""
    labels = {"topology.kubernetes.io/zone": f"zone-{number % ZONES}"}
    return node_manifest(node_name(number), "4", "32Gi", labels=labels)


def pod(name: str, on: str = "") -> dict[str, Any]:
    """A pod with one container; `on`: the node that it is bound to from its creation."""
    return pod_manifest(name, "100m", "100Mi", namespace=NAMESPACE, **({"nodeName": on} if on else {}))


class BenchmarkFailed(Exception):
    """Nothing can be measured any more; the message says why."""


async def all_of(requests: Iterable[Coroutine[Any, Any, None]]) -> None:
    """Send all of them, so many at once; the first failure is raised, and the others are given up."""
    several = asyncio.Semaphore(AT_ONCE)

    async def one(request: Coroutine[Any, Any, None]) -> None:
        async with several:
            await request

    waiting = list(requests)
    try:
        await together([asyncio.create_task(one(request)) for request in waiting])
    finally:
        for request in waiting:
            request.close()  # no effect on one that has run; Python warns of those that never did


async def load_nodes(api: ApiClient, nodes: Iterable[dict[str, Any]]) -> None:
    """Make the nodes, and the namespace of the pods. Raises `BenchmarkFailed` when the API refuses."""
    await all_of([_made(api, NAMESPACES, {"metadata": {"name": NAMESPACE}}, "")])
    await all_of(_made(api, NODES, body, "") for body in nodes)


async def load_pods(api: ApiClient, pods: Iterable[dict[str, Any]]) -> None:
    """Make the pods. Raises `BenchmarkFailed` when the API refuses."""
    await all_of(_made(api, PODS, body, NAMESPACE) for body in pods)


async def load_at_rate(
    api: ApiClient, pods: Sequence[dict[str, Any]], rate: float, answered: Callable[[str, float], None]
) -> None:
    """Make so many pods a second, whatever each request takes; `answered` gets each name and when it was due."""

    async def one(number: int, due: float) -> None:
        await _made(api, PODS, pods[number], NAMESPACE)
        answered(pods[number]["metadata"]["name"], due)

    await send((number / rate for number in range(len(pods))), one)


async def delete_pods(api: ApiClient, names: Iterable[str]) -> None:
    """Delete these pods, without grace."""
    await all_of(_deleted(api, PODS, name) for name in names)


async def clear(api: ApiClient) -> None:
    """Delete all pods of the benchmarks, without grace, and all of their events."""
    for resource in (PODS, EVENTS):
        names = [
            str(one["metadata"]["name"])
            async for page, _ in api.list(resource, namespace=NAMESPACE)
            for one in page
        ]  # fmt: skip
        await all_of(_deleted(api, resource, name) for name in names)


async def _made(api: ApiClient, resource: Any, body: dict[str, Any], namespace: str) -> None:
    answer = await api.create(resource, body, namespace=namespace)
    if not answer.done:
        raise BenchmarkFailed(f"the API server refuses {resource.plural}/{body['metadata']['name']}: {answer.message}")


async def _deleted(api: ApiClient, resource: Any, name: str) -> None:
    answer = await api.delete(resource, name, namespace=NAMESPACE, grace_seconds=0)
    if not answer.done and answer.code != 404:
        raise BenchmarkFailed(f"the API server does not delete {resource.plural}/{name}: {answer.message}")


class PodWatch:
    """One watch of all pods: when each was seen bound, and where. A pod that changes its node is an error."""

    def __init__(self, room: int = PODS_PER_NODE) -> None:
        """`room`: pods that a node has room for."""
        self._room = room
        self.bound: dict[str, float] = {}
        """Name -> when it was first seen bound, by `time.perf_counter`. Deleted pods are left out."""
        self.nodes: dict[str, str] = {}
        """Name -> node, of the same pods."""
        self._listed = asyncio.Event()
        self._any = asyncio.Event()
        self._left: set[str] = set()
        self._following: asyncio.Task[None] | None = None

    @classmethod
    @asynccontextmanager
    async def open(cls, api: ApiClient, room: int = PODS_PER_NODE) -> AsyncIterator[PodWatch]:
        """A watch that has seen all pods that there are, and sees what comes."""
        watch = cls(room)
        async with beside(watch._follow(api)) as (watch._following,):
            await watch._wait_for(watch._listed)
            yield watch

    def expect(self, names: Iterable[str]) -> None:
        """Forget what was expected, and expect that these will be bound."""
        self._left = set(names) - self.bound.keys()
        self._any = asyncio.Event()

    async def first_bound(self) -> None:
        """Wait until any pod is seen bound after `expect`. Raises `BenchmarkFailed` after a minute."""
        await self._wait_for(self._any)

    async def all_bound(self) -> None:
        """Wait until every expected pod was seen bound. Raises `BenchmarkFailed` after a minute without a bind."""
        while self._left:
            self._any.clear()
            await self._wait_for(self._any)
        self._check_room()

    async def _wait_for(self, event: asyncio.Event) -> None:
        assert self._following is not None
        async with beside(event.wait()) as (waiting,):
            await asyncio.wait({waiting, self._following}, timeout=SILENCE, return_when=asyncio.FIRST_COMPLETED)
        if self._following.done():
            self._following.result()
        if not event.is_set():
            raise BenchmarkFailed(f"{len(self._left)} pods are not bound after {SILENCE:.0f} s of silence")

    async def _follow(self, api: ApiClient) -> None:
        """Until cancelled; a watch that the server ends is resumed where it was, as every client of Kubernetes does."""
        revision: int | None = None
        while True:
            try:
                async with api.watch(PODS, revision=revision) as batches:
                    async for batch in batches:
                        self._take(batch, time.perf_counter())
                        revision = batch.revision or revision
            except UpstreamUnavailable:
                await asyncio.sleep(AGAIN_AFTER)
            except UpstreamError as error:
                raise BenchmarkFailed(f"the watch of pods has ended: {error}") from error

    def _take(self, batch: Batch, now: float) -> None:
        for change in batch.changes:
            self._see(change.kind, str(change.object["metadata"]["name"]), change.object["spec"], now)
        if batch.listed:
            self._listed.set()

    def _see(self, kind: ChangeKind, name: str, spec: Any, now: float) -> None:
        if kind is ChangeKind.DELETED:
            self.bound.pop(name, None)
            self.nodes.pop(name, None)
            return
        where = spec.get("nodeName") or ""
        if not where:
            return
        if self.nodes.setdefault(name, where) != where:
            raise BenchmarkFailed(f"pod {name} was bound to {self.nodes[name]} and to {where}")
        if name not in self.bound:
            self.bound[name] = now
            self._left.discard(name)
            self._any.set()

    def _check_room(self) -> None:
        name, most = max(Counter(self.nodes.values()).items(), key=lambda entry: entry[1], default=("", 0))
        if most > self._room:
            raise BenchmarkFailed(f"not sound: node {name} has {most} pods, and room for {self._room}")
