"""Where the time goes between a worker's start and its first bind, and between a lone pod's creation and its bind.

Prints one line a moment: milliseconds since the start, or since the request that creates the pod, and what was seen.
The moments are those of the worker's log, of a watch on its etcd, of a watch on the Kubernetes API, and, for lone pods,
of the history in Temporal. All processes are on this machine and read one clock. A watch shows a moment up to a few
milliseconds late.

    python benchmarks/worker_start.py                           a worker on a Kubernetes API, kube-scheduler beside it
    python benchmarks/worker_start.py --store etcd              a worker whose pods are in etcd itself
    python benchmarks/worker_start.py --nodes 1000 --backlog 1  one pod waits; `--backlog 2000` as in kubernetes.py
    python benchmarks/worker_start.py --imports                 also the modules that take longest to import
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import functools
import json
import math
import re
import statistics
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import objects
import real_cluster
from etcd_side import first_event, put_all
from kubernetes_pods import NAMESPACE, SILENCE, PodWatch, clear, load_nodes, load_pods, node, node_name, pod
from kubernetes_sides import ApiServer, KubeScheduler, Side, Wharfinger
from kubernetes_turns import Sizes, Turn
from processes import Child, Children, quiet, up
from report import say
from streams import beside
from temporalio.api.enums.v1 import EventType
from temporalio.client import Client

from wharfinger.apiserver.client import PODS, ApiClient, uid_of
from wharfinger.dev.settings import Servers
from wharfinger.etcd import keys
from wharfinger.etcd.etcd import EtcdStore
from wharfinger.etcd.store import Store
from wharfinger.process.names import pod_workflow_id
from wharfinger.settings import EtcdSettings

LINE = re.compile(r"(\d{4}-\d\d-\d\dT\S+) \S+ +\S+ (.*)")
"""A line of the worker's log: time, level, logger, message."""
LEAST = 3.0
"""Milliseconds of its own that a module must take to be printed by `--imports`."""
SKEW = 0.1
"""Seconds by which one watch may show a moment later than another."""
SETTLED = 0.3
"""Seconds after each lone pod: its run ends meanwhile."""


@dataclass
class Timeline:
    """Moments, in seconds of the wall clock."""

    began: float
    until: float = math.inf
    """What comes later is not shown."""
    moments: list[tuple[float, str]] = field(default_factory=list)

    def add(self, what: str, at: float | None = None) -> None:
        """Something was seen, now or at `at`."""
        self.moments.append((time.time() if at is None else at, what))

    def lines(self) -> list[str]:
        """All moments that are shown, in order."""
        shown = sorted(one for one in self.moments if one[0] <= self.until)
        return [f"{(at - self.began) * 1000:8.0f} ms  {what}" for at, what in shown]


def read_log(child: Child, timeline: Timeline) -> None:
    """Add what the worker has logged since the timeline began."""
    for line in child.log.read_text(encoding="utf-8", errors="replace").splitlines():
        if (found := LINE.match(line)) is None:
            continue
        at = datetime.fromisoformat(found[1]).timestamp()
        if at >= timeline.began:
            timeline.add(f"log    {found[2][:110]}", at)


@contextlib.asynccontextmanager
async def etcd_moments(store: Store, timeline: Timeline, name: str) -> AsyncIterator[None]:
    """Add each change of a pod and its promise, of workers' registrations, and of the importer's keys."""

    async def follow(prefix: str, first: int) -> None:
        async with store.watch(prefix, first) as batches:
            async for batch in batches:
                for event in batch.events:
                    what = f"put {len(event.kv.value)} B" if event.kv.value else "delete"
                    timeline.add(f"etcd   {what} {event.kv.key.removeprefix(keys.ROOT)} @{event.kv.mod_revision}")

    shown = keys.pod(NAMESPACE, name), keys.promise(NAMESPACE, name), keys.INSTANCES, keys.IMPORTER, keys.IMPORTED
    first = (await store.get(keys.INSTALLATION)).revision + 1
    async with beside(*(follow(prefix, first) for prefix in (*shown, keys.ACTIVE))):
        yield


async def history_moments(client: Client, workflow_id: str, timeline: Timeline) -> None:
    """Add the events of a run."""
    history = await client.get_workflow_handle(workflow_id).fetch_history()
    for event in history.events:
        name = EventType.Name(event.event_type).removeprefix("EVENT_TYPE_").lower()
        if event.HasField("activity_task_scheduled_event_attributes"):
            name += f" {event.activity_task_scheduled_event_attributes.activity_type.name}"
        timeline.add(f"history {event.event_id} {name}", event.event_time.ToDatetime(UTC).timestamp())


async def first_bind(side: Side, seen: Callable[[], Awaitable[float]], timeline: Timeline) -> dict[str, float]:
    """Start the side while pods wait, until `seen` is over, which returns when: figures of seconds."""
    timeline.began, began = time.time(), time.perf_counter()
    child = await side.start()
    taken = await seen() - began
    cpu = child.cpu_seconds
    timeline.add("       the first pod is bound", timeline.began + taken)
    await asyncio.sleep(SETTLED)
    read_log(child, timeline)
    timeline.until = timeline.began + taken + SKEW
    return {"first_bind_s": taken, "first_bind.cpu_s": cpu}


def _add(figures: dict[str, list[float]], found: Mapping[str, float]) -> None:
    for name, value in found.items():
        figures.setdefault(name, []).append(value)


async def on_kubernetes(given: argparse.Namespace, servers: Servers, folder: Path) -> int:
    """Measure starts and lone pods on a Kubernetes API."""
    figures: dict[str, dict[str, list[float]]] = {}
    async with contextlib.AsyncExitStack() as stack:
        children = await stack.enter_async_context(Children(folder / "logs"))
        api = await ApiServer.start(children, servers.etcd, folder)
        client = await stack.enter_async_context(api.client())
        say(f"creating {given.nodes} nodes")
        await load_nodes(client, map(node, range(given.nodes)))
        ours = Wharfinger(children, api, folder / "wharfinger", servers)
        await ours.open()
        store = await stack.enter_async_context(_store_of(ours))
        watch = await stack.enter_async_context(PodWatch.open(client))
        sides: tuple[Side, ...] = (KubeScheduler(children, api, folder / "kube-scheduler"), ours)
        for turn, side in [(turn, side) for turn in range(given.turns) for side in sides]:
            await up(await side.start(), side.is_up)  # it catches up with the other side's turn
            await quiet(children.cpu)
            await side.stop()
            names = [f"first-{turn}-{number}" for number in range(given.backlog)]
            await load_pods(client, map(pod, names))
            await quiet(children.cpu)
            watch.expect(names)
            timeline = Timeline(0.0)
            async with etcd_moments(store, timeline, names[0]):
                found = await first_bind(side, functools.partial(_first_shown, watch, names), timeline)
            await watch.all_bound()
            shown = [timeline.lines()]
            if given.lone:
                lone = await Turn(api, client, watch, side, Sizes(0, 0, 0, given.lone)).lone()
                found["lone.p50_ms"] = lone["p50_ms"]
                shown.append(await _followed(client, watch, store, ours, f"followed-{turn}") if side is ours else [])
            _add(figures.setdefault(side.name, {}), found)
            await clear(client)
            await quiet(children.cpu)
            await side.stop()
    print("\n\n".join("\n".join(lines) for lines in shown), end="\n\n")
    print_medians(figures)
    return 0


async def _first_shown(watch: PodWatch, names: Sequence[str]) -> float:
    await watch.first_bound()
    return min(watch.bound[name] for name in names if name in watch.bound)


def _store_of(side: Wharfinger) -> EtcdStore:
    assert side.etcd is not None, "it is open"
    return EtcdStore(EtcdSettings(endpoints=(side.etcd.url,)))


async def _followed(client: ApiClient, watch: PodWatch, store: Store, side: Wharfinger, name: str) -> list[str]:
    """The timeline of one pod."""
    assert side.temporal is not None, "it is open"
    timeline = Timeline(time.time())
    async with etcd_moments(store, timeline, name):
        watch.expect([name])
        timeline.began, began = time.time(), time.perf_counter()
        await load_pods(client, [pod(name)])
        timeline.add("api    the request that creates the pod is answered")
        await watch.all_bound()
        timeline.add("api    the pod is bound", timeline.began + watch.bound[name] - began)
        await asyncio.sleep(SETTLED)
    found = (await client.get(PODS, name, namespace=NAMESPACE)).object
    assert found is not None
    temporal = await Client.connect(side.temporal.near)
    await history_moments(temporal, pod_workflow_id("wharfinger", NAMESPACE, name, uid_of(found)), timeline)
    return timeline.lines()


async def on_etcd(given: argparse.Namespace, servers: Servers, folder: Path) -> int:
    """Measure starts on an etcd of one's own."""
    figures: dict[str, list[float]] = {}
    async with Children(folder / "logs") as children:
        ours = Wharfinger(children, None, folder / "wharfinger", servers)
        await ours.open()
        async with _store_of(ours) as store:
            await up(await ours.start(), ours.is_up)
            await ours.stop()
            await put_all(store, {keys.node(name): objects.node(name) for name in map(node_name, range(given.nodes))})
            for turn in range(given.turns):
                names = [f"first-{turn}-{number}" for number in range(given.backlog)]
                await put_all(store, {keys.pod(NAMESPACE, name): objects.pod(name) for name in names})
                await quiet(children.cpu)
                timeline = Timeline(0.0)
                async with etcd_moments(store, timeline, names[0]):
                    _add(figures, await first_bind(ours, functools.partial(_first_in_etcd, store), timeline))
                    await quiet(children.cpu)
                await ours.stop()
                for name in names:
                    await store.delete(keys.pod(NAMESPACE, name))
    print("\n".join(timeline.lines()), end="\n\n")
    print_medians({ours.name: figures})
    return 0


async def _first_in_etcd(store: Store) -> float:
    """When the next bind was seen."""
    first = (await store.get(keys.INSTALLATION)).revision + 1
    async with asyncio.timeout(SILENCE), store.watch(keys.BINDINGS, first) as batches:
        return await first_event(batches)


def print_medians(sides: Mapping[str, Mapping[str, Sequence[float]]]) -> None:
    """Print a line a figure: the medians of all sides, and the ratio of the last one to the first."""
    for figure in next(iter(sides.values())):
        found = {name: round(statistics.median(values[figure]), 3) for name, values in sides.items()}
        values = [*found.values()]
        print(json.dumps({"figure": figure, **found, "ratio": round(values[-1] / values[0], 2)}))


def slow_imports() -> list[str]:
    """The modules that a worker imports and that take longest by themselves, in milliseconds."""
    code = "import gc; gc.set_threshold(300000); import wharfinger.cli.main, wharfinger.programs.worker_process, uvloop"
    command = [sys.executable, "-X", "importtime", "-c", code]
    shown = subprocess.run(command, capture_output=True, text=True, check=True).stderr
    found = re.findall(r"import time: +(\d+) \| +\d+ \| +(\S+)", shown)
    own = sorted(((int(micros) / 1000, name) for micros, name in found), reverse=True)
    total = f"{sum(millis for millis, _ in own):8.0f} ms  all {len(own)} modules"
    return [total, *(f"{millis:8.1f} ms  {name}" for millis, name in own if millis >= LEAST)]


def main() -> None:
    """Parse, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--store", choices=["kubernetes", "etcd"], default="kubernetes", help="where the pods are")
    parser.add_argument("--nodes", type=int, default=5000, help="nodes in the cluster (5000)")
    parser.add_argument("--backlog", type=int, default=1, help="pods that wait when the worker starts (1)")
    parser.add_argument("--turns", type=int, default=3, help="starts; the last one is printed (3)")
    parser.add_argument("--lone", type=int, default=20, help="pods one after another in each turn; 0: none (20)")
    parser.add_argument("--imports", action="store_true", help="print the modules that take longest to import")
    parser.add_argument("--keep", action="store_true", help="keep the folder with logs and data, and print its path")
    given = parser.parse_args()
    if given.imports:
        print("\n".join(slow_imports()), flush=True)
    measure = on_kubernetes if given.store == "kubernetes" else on_etcd
    real_cluster.run(functools.partial(measure, given), keep=given.keep, kubernetes=given.store == "kubernetes")


if __name__ == "__main__":
    main()
