"""How much memory a worker with a deep backlog takes: its loops filled with pending pods, in process.

Everything that a worker imports is imported and every part filled by the real classes, from etcd's bytes to the queue;
what runs in Temporal comes on top. Prints one JSON object: MiB resident at the start, with the nodes, with the pods
pending, with half of them waiting with a record; and bytes for each pod.

    python benchmarks/memory.py --pods 100000 --nodes 5000
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import time
from collections.abc import Iterator
from pathlib import Path

import uvloop
from ingest_stream import Recorded, encoded, line, node, pod, revisions, serve, worker

import wharfinger.programs.worker
from wharfinger.etcd import keys
from wharfinger.etcd.store import KeyValue
from wharfinger.process.garbage import tune_garbage_collection
from wharfinger.process.records import AttemptRecord

PUTS_AT_ONCE = 100
PATIENCE = 600.0


def resident() -> float:
    """MiB of this process, as the system counts them."""
    gc.collect()
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(status.partition("VmRSS:")[2].split()[0]) / 1024


def pending(pods: int, revision: int) -> Iterator[bytes]:
    """The pods as they come, a transaction a line."""
    for numbers in revisions(PUTS_AT_ONCE, pods):
        revision += 1
        found = [pod(number) for number in numbers]
        yield line([KeyValue(keys.pod(*names), encoded(obj), revision, revision) for *names, obj in found], revision)


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
    loops = worker(store, time.monotonic)
    tune_garbage_collection()
    following = asyncio.create_task(loops.informer.run())
    await loops.informer.synced.wait()
    serve(loops)
    found = {"start_mib": resident()}
    revision = nodes

    async def told(lines: Iterator[bytes], count: int) -> None:
        nonlocal revision
        for told in lines:  # bit by bit: what is not read yet is no part of the worker
            store.play((told,))
            revision += 1
            if revision % 50 == 0:
                await loops.cache.progress.wait_for(revision, PATIENCE)
        if not await loops.cache.progress.wait_for(revision, PATIENCE):
            raise SystemExit(f"{count} changes were not taken in")

    each = (line([KeyValue(keys.node(name), node(name), at, at)], at) for at, name in enumerate(names, revision + 1))
    await told(each, nodes)
    loops.cache.snapshot()
    found["nodes_mib"] = resident()
    await told(pending(pods, revision), pods)
    found["pending_mib"] = resident()
    found["bytes_a_pending_pod"] = (found["pending_mib"] - found["nodes_mib"]) * 2**20 / pods
    for _ in range(pods // 2):
        entry = loops.queue.pop()
        if entry is not None:
            loops.queue.started(entry)
    await told(refused(pods // 2, revision), pods // 2)
    loops.waker._arrived.clear()
    found["half_waiting_mib"] = resident()
    found["bytes_a_record"] = (found["half_waiting_mib"] - found["pending_mib"]) * 2**20 / (pods // 2)
    following.cancel()
    return {name: round(value) for name, value in found.items()}


def main() -> None:
    """Measure as told on the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--pods", type=int, default=100_000)
    args = parser.parse_args()
    print(json.dumps(uvloop.run(measure(args.nodes, args.pods))))


if __name__ == "__main__":
    main()
