"""What packing the objects of pending pods saves (`scheduling.state.cache.raw_pods`): their memory with it and without,
and its time.

Prints one JSON object: bytes of an object as etcd holds it; bytes that the cache takes for each when it keeps all of
them as they are, and when it packs all of them; microseconds to keep one, and to read it back, either way. A worker
keeps the first 32 MiB as they are, and packs the objects beyond.

    python benchmarks/packing.py --pods 100000
"""

from __future__ import annotations

import argparse
import gc
import json
import random
import time
import tracemalloc
from collections.abc import Callable
from typing import Any

from ingest_stream import encoded, pod

from wharfinger.objects.model.pod import Pod
from wharfinger.scheduling.state.cache.raw_pods import RawPods

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


def filled(found: list[tuple[Pod, dict[str, Any]]], plain: int) -> RawPods:
    """All of them, each object made as it comes."""
    kept = RawPods(plain)
    for one, obj in found:
        kept.put(one, encoded(obj))
    return kept


def memory(found: list[tuple[Pod, dict[str, Any]]], plain: int) -> float:
    """Bytes that the kept objects take, for each pod."""
    gc.collect()
    tracemalloc.start()
    kept = filled(found, plain)
    gc.collect()
    taken, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    del kept
    return taken / len(found)


def microseconds(action: Callable[[], object], times: int) -> float:
    """Of each time; the action does all of them."""
    began = time.perf_counter()
    action()
    return (time.perf_counter() - began) * 1e6 / times


def measure(pods: int) -> dict[str, float]:
    """Both ways, on the same pods."""
    found = backlog(pods)
    rng = random.Random(1)
    wanted = [rng.choice(found)[0].key for _ in range(READ)]
    raws = [(one, encoded(obj)) for one, obj in found[:READ]]
    result = {"pods": float(pods), "bytes_of_an_object": sum(len(raw) for _, raw in raws) / len(raws)}
    for way, plain in WAYS.items():
        result[f"{way}_bytes_a_pod"] = memory(found, plain)
        kept = RawPods(plain)
        result[f"{way}_put_us"] = microseconds(lambda to=kept: [to.put(one, raw) for one, raw in raws], len(raws))
        kept = filled(found, plain)
        result[f"{way}_get_us"] = microseconds(lambda of=kept: [of.get(key) for key in wanted], READ)
    return {name: round(value, 1) for name, value in result.items()}


def main() -> None:
    """Measure as told on the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pods", type=int, default=100_000)
    print(json.dumps(measure(parser.parse_args().pods)))


if __name__ == "__main__":
    main()
