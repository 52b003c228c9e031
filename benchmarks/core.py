"""How many decisions a second one process makes, without servers: `python benchmarks/core.py --nodes 5000`.

The workloads are kube-scheduler's own (`core_workloads.py`); each pod is decided for and assumed before the next. A
pod that needs others to leave is decided for, its victims are deleted, it is decided for again and assumed. Refused
pods are decided for with their message. A JSON line for each workload: `decisions_per_s`, and `numpy_passes`, one
decision's time in units of one `a + b` of int64 over the nodes, taken in the same run.
"""

from __future__ import annotations

import argparse
import gc
import json
import statistics
import time
from dataclasses import replace

import core_workloads
import numpy as np
from core_workloads import WORKLOADS, Manifest, Workload

from wharfinger.framework.plugins.builtin import catalog
from wharfinger.framework.profile import Profile
from wharfinger.framework.profiles import load_profiles
from wharfinger.objects.documents.decode import node_from_mapping, pod_from_mapping, surrounding_from_mapping
from wharfinger.objects.model.pod import Pod
from wharfinger.scheduling.state.cache.cache import Cache

FEWEST = 3
"""Nodes: one in each zone."""
ROUNDS = 5
"""Parts of the measured pods; the median of their times counts, so that a neighbour's burst does not."""


def scheduled(manifest: Manifest, number: int) -> Pod:
    """A pod as the watch shows it."""
    return pod_from_mapping(manifest, create_revision=number + 1, mod_revision=number + 1)


class Bench:
    """One cluster in memory, decided on by the default profile."""

    def __init__(self, workload: Workload, nodes: int) -> None:
        self._profile: Profile = load_profiles(catalog=catalog())["default-scheduler"]
        self._workload = workload
        self.cache = Cache(clock=time.monotonic)
        for number in range(nodes):
            self.cache.set_node(node_from_mapping(core_workloads.node(number)))
        for manifest in workload.objects:
            thing = surrounding_from_mapping(manifest, manifest["kind"])
            assert thing is not None
            self.cache.set_surrounding(thing)
        self._number = 0
        for manifest in workload.first(nodes):
            # Bound round robin where they need not be anywhere in particular: deciding would only take longer.
            self._bind_first(scheduled(manifest, self._next()), nodes)

    def _next(self) -> int:
        self._number += 1
        return self._number

    def _bind_first(self, pod: Pod, nodes: int) -> None:
        zone = 3 if pod.required_affinity else 1
        node = f"node-{self._number * zone % (nodes // zone * zone)}"
        self.cache.set_pod(replace(pod, node_name=node, phase="Running"))

    def make(self, number: int) -> list[Pod]:
        """The pods that are measured."""
        return [scheduled(manifest, self._next()) for manifest in self._workload.pods(number)]

    def decide(self, pod: Pod) -> None:
        """Decide and assume; preempt where the workload is about that."""
        evaluation = self._profile.evaluate(pod, self.cache.snapshot())
        if evaluation.node is None and self._workload.preempts:
            if evaluation.nominated_node is None:
                raise SystemExit(f"{pod.key} found no pod to preempt: {evaluation.message}")
            nominated = replace(pod, nominated_node_name=evaluation.nominated_node)
            self.cache.set_pod(nominated)
            for victim in evaluation.victims:
                self.cache.remove_pod(victim.key)
            evaluation = self._profile.evaluate(nominated, self.cache.snapshot())
        if evaluation.node is not None:
            self.cache.assume(pod, evaluation.node)
        elif not evaluation.message:
            raise SystemExit(f"{pod.key} was neither placed nor refused")


def measure(workload: Workload, nodes: int, pods: int) -> dict[str, object]:
    """One line of the result."""
    bench = Bench(workload, nodes)
    subjects = bench.make(pods + pods // 10)
    warm, subjects = subjects[: pods // 10], subjects[pods // 10 :]
    for pod in warm:
        bench.decide(pod)
    gc.collect()
    gc.freeze()
    times = []
    share = max(1, len(subjects) // ROUNDS)
    for start in range(0, share * ROUNDS, share):
        began = time.perf_counter()
        for pod in subjects[start : start + share]:
            bench.decide(pod)
        times.append((time.perf_counter() - began) / share)
    gc.unfreeze()
    each = statistics.median(times)
    return {
        "workload": workload.name,
        "nodes": nodes,
        "decisions_per_s": round(1 / each),
        "numpy_passes": round(each / one_pass(nodes), 1),
    }


def one_pass(nodes: int) -> float:
    """Seconds of one `a + b` of int64 over the nodes."""
    a, b = np.arange(nodes, dtype=np.int64), np.ones(nodes, dtype=np.int64)
    times = []
    for _ in range(50):
        began = time.perf_counter()
        for _ in range(100):
            _ = a + b
        times.append((time.perf_counter() - began) / 100)
    return statistics.median(times)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--nodes", type=int, default=5000)
    options.add_argument("--workload", choices=sorted(WORKLOADS), action="append", help="may be repeated; default all")
    options.add_argument("--pods", type=int, default=2000, help="measured; a tenth more warms up")
    given = options.parse_args()
    if given.nodes < FEWEST:
        options.error(f"--nodes: the workloads have three zones, and need {FEWEST} nodes")
    for name in given.workload or WORKLOADS:
        print(json.dumps(measure(WORKLOADS[name], given.nodes, given.pods)), flush=True)


if __name__ == "__main__":
    main()
