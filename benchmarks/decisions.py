"""How long one decision takes, without servers: `python benchmarks/decisions.py --nodes 1000 --nodes 5000`.

A plain pod (100m cpu, 500 MiB) is decided and assumed again and again on equal nodes of 4 cpu and 32 GiB. A JSON line
for each number of nodes; times are medians in microseconds.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from typing import TypeVar

from wharfinger.cache.cache import Cache
from wharfinger.framework.profile import Profile
from wharfinger.model.node import Node
from wharfinger.model.pod import Pod
from wharfinger.plugins.builtin import catalog
from wharfinger.profiles import load_profiles

T = TypeVar("T")


class Stopwatch:
    """Times calls, by what they are for."""

    def __init__(self) -> None:
        self.seconds: dict[str, list[float]] = {}

    def time(self, what: str, action: Callable[[], T]) -> T:
        """The action's result; how long it took is noted."""
        start = time.perf_counter()
        result = action()
        self.seconds.setdefault(what, []).append(time.perf_counter() - start)
        return result

    def medians(self) -> dict[str, float]:
        """Microseconds."""
        return {what: round(statistics.median(times) * 1e6, 1) for what, times in self.seconds.items()}


def pod(number: int, cpu: int = 100) -> Pod:
    requests = {"cpu": cpu, "memory": 500 << 20}
    return Pod("default", f"p{number}", f"uid-{number}", number + 1, requests=requests, scoring_cpu=cpu,
               scoring_memory=500 << 20)  # fmt: skip


def measure(nodes: int, pods: int) -> dict[str, float]:
    profile = load_profiles(catalog=catalog())["default-scheduler"]
    cache = Cache(clock=time.monotonic)
    for number in range(nodes):
        zone = {"topology.kubernetes.io/zone": f"z{number % 3}"}
        cache.set_node(Node(f"n{number}", labels=zone, allocatable={"cpu": 4000, "memory": 32 << 30, "pods": 110}))
    cache.snapshot()
    watch = Stopwatch()
    for number in range(pods):
        decide_and_assume(watch, profile, cache, number)
    return {"nodes": nodes, **watch.medians()}


def decide_and_assume(watch: Stopwatch, profile: Profile, cache: Cache, number: int) -> None:
    """One pod is placed; one that fits nowhere is refused."""
    subject, large = pod(number), pod(number, cpu=100_000)
    snapshot = watch.time("snapshot_after_assume", cache.snapshot)
    node = watch.time("evaluate", lambda: profile.evaluate(subject, snapshot).node) or ""
    watch.time("evaluate_with_decision", lambda: profile.evaluate(subject, snapshot).decision)
    watch.time("refuse_with_decision", lambda: profile.evaluate(large, snapshot).decision)
    watch.time("verify", lambda: profile.verify(subject, cache.snapshot(only=node), node))
    watch.time("assume", lambda: cache.assume(subject, node))


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--nodes", type=int, action="append", help="may be given several times")
    options.add_argument("--pods", type=int, default=1000)
    given = options.parse_args()
    for nodes in given.nodes or [1000, 5000]:
        print(json.dumps(measure(nodes, given.pods)))


if __name__ == "__main__":
    main()
