"""A score plugin that packs GPUs so that few of them become useless: fragmentation gradient descent.

After Weng et al., "Beware of Fragmentation: Scheduling GPU-Sharing Workloads with Fragmentation Gradient Descent",
USENIX ATC 2023. The fragmentation of a node is how much of its free GPU a task of the workload cannot use, on average
over the tasks. The node whose fragmentation a pod increases least is best. GPUs of one node are one amount here.
"""

from __future__ import annotations

from typing import Any

import numpy as np

GPU = "example.com/gpu-milli"
TASKS = (
    (3152, 5_872_025_600, 810, 1047),
    (11300, 51_539_607_552, 1000, 857),
    (11400, 50_465_865_728, 1000, 534),
    (3152, 5_872_025_600, 1000, 470),
    (11908, 49_392_123_904, 470, 388),
    (8000, 31_999_393_792, 470, 360),
    (18708, 67_645_734_912, 1000, 255),
    (11908, 49_392_123_904, 650, 237),
    (9810, 43_578_818_560, 1000, 195),
    (12000, 25_769_803_776, 1000, 158),
    (15700, 61_203_283_968, 1000, 158),
    (4000, 23_999_807_488, 320, 111),
)
"""The most frequent tasks of the openb trace: milli-cpu, bytes of memory, thousandths of a GPU, and how many."""
REMEMBERED = 200_000


class LessFragmentation:
    """Decides by fragmentation where a pod asks for a GPU, and says nothing of other pods."""

    name = "LessFragmentation"
    weight = 100

    def __init__(self) -> None:
        self._known: dict[tuple[int, tuple[int, int, int]], float] = {}
        """By state of a node, and what a pod asks for."""

    def score(self, _state: Any, pod: Any, snapshot: Any, rows: Any) -> Any:
        """How much the node's fragmentation grows, in thousandths of a GPU: `normalize` turns it round."""
        asks = tuple(pod.requests.get(name, 0) for name in ("cpu", "memory", GPU))
        selected = range(len(snapshot.rows)) if isinstance(rows, slice) else rows.tolist()
        if len(self._known) > REMEMBERED:
            self._known.clear()
        grows = [self._growth(snapshot.rows[row], asks) if asks[2] else 0.0 for row in selected]
        return np.round(np.array(grows, dtype=np.float64) * 1000).astype(np.int64)

    def normalize(self, _state: Any, _pod: Any, scores: Any, _snapshot: Any, _rows: Any) -> Any:
        """The least growth becomes 100, the largest 0."""
        least, most = scores.min(), scores.max()
        return (most - scores) * 100 // (most - least) if most > least else np.full(len(scores), 100, dtype=np.int64)

    def _growth(self, info: Any, asks: tuple[int, int, int]) -> float:
        known = self._known.get((info.stamp, asks))
        if known is None:
            offered, used = info.node.allocatable, info.requested
            cpu, memory, gpu = (offered.get(name, 0) - used.get(name, 0) for name in ("cpu", "memory", GPU))
            known = fragmentation(cpu - asks[0], memory - asks[1], gpu - asks[2]) - fragmentation(cpu, memory, gpu)
            self._known[info.stamp, asks] = known
        return known


def fragmentation(cpu: int, memory: int, gpu: int) -> float:
    """How much of the free GPU a task cannot use, on average, in thousandths of a GPU."""
    unfit = sum(count for asks, of, part, count in TASKS if cpu < asks or memory < of or gpu < part)
    return gpu * unfit / sum(task[3] for task in TASKS)
