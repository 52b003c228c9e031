"""What a worker spends on each change that etcd's watch tells, before any decision.

From the bytes of the stream through wire, decoding, view, cache and queue, with the real classes and no servers.
Prints one JSON object: microseconds of CPU for a pending pod, for a pod bound by us (with its share of the versions
that a bind rewrites) and for a heart-beat of a node. With `--listed` also seconds of CPU for the first list of such a
backlog, the longest stall of the event loop meanwhile, and how long it is held for taking the pods over. With
`--classed` the same for pods, half of them bound, that leave their priority to a PriorityClass, and for how long a
change of that class holds the loop.

    python benchmarks/ingest.py --pods 20000 --nodes 5000
    python benchmarks/ingest.py --profile bound         # where the time goes, to standard error
"""

from __future__ import annotations

import argparse
import asyncio
import cProfile
import json
import pstats
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import uvloop
from ingest_stream import Recorded, bound, encoded, line, node, pod, revisions, serve, serving, stored, worker

from wharfinger.etcd import keys
from wharfinger.etcd.store import KeyValue
from wharfinger.objects.model.pod import PodKey
from wharfinger.process.running import tune_garbage_collection

PUTS_AT_ONCE = 100
"""Pods in one transaction of those who create them."""
PATIENCE = 600.0


@contextmanager
def profile(*, wanted: bool) -> Iterator[None]:
    """Print where the time goes."""
    if not wanted:
        yield
        return
    with cProfile.Profile() as profiler:
        yield
    pstats.Stats(profiler, stream=sys.stderr).sort_stats("tottime").print_stats(45)


def node_names(nodes: int) -> list[str]:
    return [f"node-{number:05}" for number in range(nodes)]


def listed_nodes(nodes: int) -> list[KeyValue]:
    """As etcd lists them, each put by a transaction of its own."""
    return [KeyValue(keys.node(name), node(name), at, at) for at, name in enumerate(node_names(nodes), start=1)]


async def watched(nodes: int, pods: int, binds: int, profiled: str) -> dict[str, float]:
    """Pods come, are assumed, and come back bound; nodes beat."""
    names = node_names(nodes)
    store = Recorded(listed_nodes(nodes), nodes)
    loops, following = await serving(store)
    revision = nodes
    objects = [pod(number) for number in range(pods)]
    found: dict[str, float] = {}

    async def phase(name: str, lines: Iterable[bytes], count: int) -> None:
        """Microseconds of CPU for each of `count` changes, from the stream's bytes until the last is taken in."""
        store.play(lines)
        with profile(wanted=profiled == name):
            began = time.process_time()
            if not await loops.scheduling.cache.progress.wait_for(revision, PATIENCE):
                raise SystemExit(f"the worker did not take in {name} within {PATIENCE:.0f} s")
            found[name] = round((time.process_time() - began) / count * 1e6, 1)

    lines, created = [], []
    for numbers in revisions(PUTS_AT_ONCE, pods):
        revision += 1
        items = [stored(number, revision) for number in numbers]
        created += [revision] * len(items)
        lines.append(line(items, revision))
    await phase("pending", lines, pods)

    while (entry := loops.scheduling.queue.pop()) is not None:
        loops.scheduling.queue.started(entry)
    lines = []
    for numbers in revisions(binds, pods):
        revision += 1
        items = []
        for number in numbers:
            namespace, name, obj = objects[number]
            on = names[number % nodes]
            value = bound(obj, on, revision)
            items.append(KeyValue(keys.pod(namespace, name), value, created[number], revision))
            items.append(KeyValue(keys.binding(on), b"{}", 1, revision))
            known = loops.scheduling.cache.pods[PodKey(namespace, name)]
            loops.scheduling.cache.assume(known, on)
            loops.scheduling.cache.mark_sent(known.identity)
        items += [KeyValue(keys.bound(name), b"{}", 1, revision) for name in sorted({objects[n][0] for n in numbers})]
        lines.append(line(items, revision))
    loops.scheduling.cache.snapshot()
    await phase("bound", lines, pods)

    lines = []
    for beat, name in enumerate(names):
        revision += 1
        lines.append(line([KeyValue(keys.node(name), node(name, beat + 1), 1, revision)], revision))
    await phase("heart_beat", lines, nodes)
    following.cancel()
    return found


async def listed(nodes: int, pods: int, profiled: str) -> dict[str, float]:
    """The first list of a worker that starts into a backlog."""
    items = [*listed_nodes(nodes), *(stored(number, nodes + number + 1) for number in range(pods))]
    items.sort(key=lambda item: item.key)
    loops = worker(Recorded(items, nodes + pods), time.monotonic)
    tune_garbage_collection()
    stall = 0.0
    began = last = time.thread_time()  # what else the machine does must not count
    following = asyncio.create_task(loops.scheduling.informer.run())
    with profile(wanted=profiled == "list"):
        while not loops.scheduling.informer.synced.is_set():
            await asyncio.sleep(0)
            now = time.thread_time()
            stall, last = max(stall, now - last), now
        serve(loops)
        served = time.thread_time() - last
    following.cancel()
    return {"list_s": round(last - began, 2), "list_stall_s": round(stall, 2), "take_over_s": round(served, 2)}


async def classed(nodes: int, pods: int) -> dict[str, float]:
    """The first list of pods that leave their priority to a class, and a change of that class."""
    names, items = node_names(nodes), listed_nodes(nodes)
    for number in range(pods):
        namespace, name, obj = pod(number)
        del obj["spec"]["priority"]
        obj["spec"]["priorityClassName"] = "app"
        value = bound(obj, names[number % nodes], number) if number % 2 else encoded(obj)
        items.append(KeyValue(keys.pod(namespace, name), value, nodes + number + 1, nodes + number + 1))
    revision = nodes + pods + 1
    key = keys.stored("priorityclasses", "", "app")
    items.append(KeyValue(key, encoded({"metadata": {"name": "app"}, "value": 5}), revision, revision))
    items.sort(key=lambda item: item.key)
    store = Recorded(items, revision)
    loops = worker(store, time.monotonic)
    tune_garbage_collection()
    began = time.thread_time()
    following = asyncio.create_task(loops.scheduling.informer.run())
    await loops.scheduling.informer.synced.wait()
    listed_s = time.thread_time() - began
    serve(loops)
    changed = encoded({"metadata": {"name": "app"}, "value": 6})
    began = time.thread_time()
    store.play([line([KeyValue(key, changed, revision, revision + 1)], revision + 1)])
    if not await loops.scheduling.cache.progress.wait_for(revision + 1, PATIENCE):
        raise SystemExit("the worker did not take in the change of the class")
    spent = time.thread_time() - began
    following.cancel()
    return {"classed_list_s": round(listed_s, 2), "class_change_s": round(spent, 2)}


def main() -> None:
    """Measure as told on the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--pods", type=int, default=20000)
    parser.add_argument("--binds", type=int, default=64, help="pods bound in one revision")
    parser.add_argument("--listed", type=int, default=0, help="also list so many pods at the start")
    parser.add_argument("--classed", type=int, default=0, help="also change the class of so many pods")
    parser.add_argument("--profile", default="", choices=("", "pending", "bound", "heart_beat", "list"))
    args = parser.parse_args()
    found = {}
    if args.profile != "list":
        found = uvloop.run(watched(args.nodes, args.pods, args.binds, args.profile))
    if args.listed:
        found |= uvloop.run(listed(args.nodes, args.listed, args.profile))
    if args.classed:
        found |= uvloop.run(classed(args.nodes, args.classed))
    print(json.dumps(found))


if __name__ == "__main__":
    main()
