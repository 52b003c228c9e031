"""How much memory a worker with a deep backlog takes: its loops filled with pending pods, in process.

Everything that a worker imports is imported and every part filled by the real classes, from etcd's bytes to the queue;
what runs in Temporal comes on top. Prints one JSON object: MiB resident at the start, with the nodes, with the pods
pending, with half of them waiting with a record; and bytes for each pod.

    python benchmarks/memory.py --pods 100000 --nodes 5000
    python benchmarks/memory.py --packing --pods 100000

With `--packing`: what packing the objects of pending pods saves (`scheduling.state.cache.pod_indexes`), and its time.
Bytes of an object as etcd holds it; bytes that the cache takes for each when it keeps all of them as they are, and when
it packs all of them; microseconds to keep one, and to read it back, either way. A worker keeps the first 32 MiB as they
are, and packs the objects beyond.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import random
import time
import tracemalloc
from collections.abc import Callable, Iterator
from typing import Any

import processes
import uvloop
from ingest_stream import Recorded, encoded, line, node, pod, revisions, serving, stored

import wharfinger.programs.worker
from wharfinger.etcd import keys
from wharfinger.etcd.store import KeyValue
from wharfinger.objects.model.pod import Pod
from wharfinger.process.records import AttemptRecord
from wharfinger.scheduling.state.cache.pod_indexes import RawPods

PUTS_AT_ONCE = 100
PATIENCE = 600.0


def resident() -> float:
    """MiB of this process, after a collection of its garbage."""
    gc.collect()
    return processes.resident_mib(os.getpid())


def pending(pods: int, revision: int) -> Iterator[bytes]:
    """The pods as they come, a transaction a line."""
    for numbers in revisions(PUTS_AT_ONCE, pods):
        revision += 1
        yield line([stored(number, revision) for number in numbers], revision)


def refused(pods: int, revision: int) -> Iterator[bytes]:
    """Their records, one a transaction."""
    for number in range(pods):
        revision += 1
        namespace, name, _ = pod(number)
        record = AttemptRecord(
            attempt=1,
            plugins=("NodeResourcesFit",),
            revision=revision - 1,
            workflow_id=f"wharfinger/pod/{namespace}/{name}/8d1c{number:08x}-4f6a-4b7e-9c1d-0123456789ab",
            run_id=f"0197c2d1-7a35-7c53-8d2b-{number:012}",
            message="0/5000 nodes are available: 5000 Insufficient cpu.",
        )
        yield line([KeyValue(keys.attempt(namespace, name), record.to_bytes(), revision, revision)], revision)


async def measure(nodes: int, pods: int) -> dict[str, float]:
    """Fill one worker."""
    if not wharfinger.programs.worker.__file__:
        raise SystemExit("this is not the installed package")
    names = [f"node-{number:05}" for number in range(nodes)]
    store = Recorded([], nodes)
    loops, following = await serving(store)
    found = {"start_mib": resident()}
    revision = nodes

    async def told(lines: Iterator[bytes], count: int) -> None:
        nonlocal revision
        for told in lines:  # bit by bit: what is not read yet is no part of the worker
            store.play((told,))
            revision += 1
            if revision % 50 == 0:
                await loops.scheduling.cache.progress.wait_for(revision, PATIENCE)
        if not await loops.scheduling.cache.progress.wait_for(revision, PATIENCE):
            raise SystemExit(f"{count} changes were not taken in")

    each = (line([KeyValue(keys.node(name), node(name), at, at)], at) for at, name in enumerate(names, revision + 1))
    await told(each, nodes)
    loops.scheduling.cache.snapshot()
    found["nodes_mib"] = resident()
    await told(pending(pods, revision), pods)
    found["pending_mib"] = resident()
    found["bytes_a_pending_pod"] = (found["pending_mib"] - found["nodes_mib"]) * 2**20 / pods
    for _ in range(pods // 2):
        entry = loops.scheduling.queue.pop()
        if entry is not None:
            loops.scheduling.queue.started(entry)
    await told(refused(pods // 2, revision), pods // 2)
    loops.scheduling.waker._arrived.clear()
    found["half_waiting_mib"] = resident()
    found["bytes_a_record"] = (found["half_waiting_mib"] - found["pending_mib"]) * 2**20 / (pods // 2)
    following.cancel()
    return {name: round(value) for name, value in found.items()}


WAYS = {"plain": 1 << 62, "packed": 0}
"""Bytes that are kept as they are."""
READ = 20_000
"""Objects that are read back, in random order."""


def backlog(pods: int) -> list[tuple[Pod, dict[str, Any]]]:
    """Pods of 200 Deployments, and their objects."""
    made = [pod(number) for number in range(pods)]
    return [
        (Pod(namespace, name, "", controller=("ReplicaSet", obj["metadata"]["ownerReferences"][0]["name"])), obj)
        for namespace, name, obj in made
    ]


def kept_of(found: list[tuple[Pod, dict[str, Any]]], plain: int) -> RawPods:
    """All of them, each object made as it comes."""
    kept = RawPods(plain)
    for one, obj in found:
        kept.put(one, encoded(obj))
    return kept


def taken(found: list[tuple[Pod, dict[str, Any]]], plain: int) -> float:
    """Bytes that the kept objects take, for each pod."""
    gc.collect()
    tracemalloc.start()
    kept = kept_of(found, plain)
    gc.collect()
    size, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    del kept
    return size / len(found)


def microseconds(action: Callable[[], object], times: int) -> float:
    """Of each time; the action does all of them."""
    began = time.perf_counter()
    action()
    return (time.perf_counter() - began) * 1e6 / times


def packed(pods: int) -> dict[str, float]:
    """Both ways, on the same pods."""
    found = backlog(pods)
    rng = random.Random(1)
    wanted = [rng.choice(found)[0].key for _ in range(READ)]
    raws = [(one, encoded(obj)) for one, obj in found[:READ]]
    result = {"pods": float(pods), "bytes_of_an_object": sum(len(raw) for _, raw in raws) / len(raws)}
    for way, plain in WAYS.items():
        result[f"{way}_bytes_a_pod"] = taken(found, plain)
        kept = RawPods(plain)
        result[f"{way}_put_us"] = microseconds(lambda to=kept: [to.put(one, raw) for one, raw in raws], len(raws))
        kept = kept_of(found, plain)
        result[f"{way}_get_us"] = microseconds(lambda of=kept: [of.get(key) for key in wanted], READ)
    return {name: round(value, 1) for name, value in result.items()}


def main() -> None:
    """Measure as told on the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--pods", type=int, default=100_000)
    parser.add_argument("--packing", action="store_true", help="what packing saves, instead")
    args = parser.parse_args()
    print(json.dumps(packed(args.pods) if args.packing else uvloop.run(measure(args.nodes, args.pods))))


if __name__ == "__main__":
    main()
