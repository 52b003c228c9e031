"""Gauges, brought up to date when somebody reads the metrics, so that they cost nothing otherwise."""

from __future__ import annotations

from collections import Counter

from wharfinger.cache.cache import Cache
from wharfinger.queue.scheduling_queue import SchedulingQueue
from wharfinger.telemetry import Metrics
from wharfinger.worker_loops.lost_pods import LostPods
from wharfinger.worker_loops.shards import Shards
from wharfinger.worker_loops.unserved import Unserved


class Gauges:
    """What the queue, the cache and the shards are like now."""

    def __init__(
        self,
        metrics: Metrics,
        queue: SchedulingQueue,
        cache: Cache,
        shards: Shards,
        *,
        unserved: Unserved,
        lost: LostPods,
    ) -> None:
        self._metrics = metrics
        self._queue = queue
        self._cache = cache
        self._shards = shards
        self._unserved = unserved
        self._lost = lost

    def refresh(self, *, ready: bool) -> None:
        """Set every gauge."""
        queue, metrics = self._queue, self._metrics
        metrics.ready.set(1 if ready else 0)
        metrics.members.set(len(self._shards.members))
        metrics.pending_pods.labels("active").set(len(queue.active))
        metrics.pending_pods.labels("gated").set(len(queue.gated))
        metrics.pending_pods.labels("in-flight").set(len(queue.in_flight))
        metrics.pending_pods.labels("unschedulable").set(len(queue.waiting))
        metrics.parked_chains.set(queue.waiting.chains)
        metrics.waiting_without_chain.set(len(queue.waiting.chainless))
        metrics.cache_size.labels("nodes").set(len(self._cache.nodes))
        metrics.cache_size.labels("pods").set(len(self._cache.pods))
        metrics.cache_size.labels("assumed_pods").set(len(self._cache.assumed()))
        metrics.unserved_pods.set(self._unserved.count())
        metrics.lost_pods.set(self._lost.count())
        refused: Counter[tuple[str, str]] = Counter()
        for entry in queue.waiting:
            for plugin in entry.refusal.rejectors if entry.refusal is not None else ():
                refused[plugin, entry.pod.scheduler_name] += 1
        metrics.unschedulable_pods.clear()
        for (plugin, profile), number in refused.items():
            metrics.unschedulable_pods.labels(plugin, profile).set(number)
