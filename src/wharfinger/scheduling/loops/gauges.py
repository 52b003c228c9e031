"""Gauges, set when the metrics endpoint is read, so that they cost nothing otherwise."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection

from wharfinger.objects.model.pod import PodKey
from wharfinger.process.records import served_names
from wharfinger.scheduling.loops.node_evictions import LostPods
from wharfinger.scheduling.loops.shards import Instances, Shards
from wharfinger.scheduling.state.cache.cache import Cache
from wharfinger.scheduling.state.pool import Pool
from wharfinger.scheduling.state.queue.scheduling_queue import SchedulingQueue
from wharfinger.telemetry import Metrics


class UnservedPods:
    """Counts the pending pods whose scheduler name no live instance serves.

    Only the owner of a pod's shard counts it, so the sum over all workers is the number of pods.
    """

    def __init__(self, foreign: Collection[PodKey], pool: Pool, instances: Instances, shards: Shards) -> None:
        """`foreign`: the pending pods, of any pool and shard, that name none of this worker's profiles."""
        self._foreign = foreign
        self._cache = pool.cache
        self._instances = instances
        self._ownership = pool.ownership
        self._shards = shards

    def count(self) -> int:
        """The unserved pods of this worker's shard; 0 while an instance of an earlier release is registered."""
        served = served_names(self._instances.pool(self._ownership.tenant).records())
        if served is None:
            return 0
        pods = filter(None, map(self._cache.pods.get, self._foreign))
        return sum(
            pod.scheduler_name not in served
            and self._ownership.tenant_of(pod, self._cache.tenants) == self._ownership.tenant
            and self._shards.mine(pod)
            for pod in pods
        )


class Gauges:
    """What the queue, the cache and the shards are like now."""

    def __init__(
        self,
        metrics: Metrics,
        queue: SchedulingQueue,
        cache: Cache,
        shards: Shards,
        *,
        unserved: UnservedPods,
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
        metrics.pending_pods.labels("active").set(len(queue.active) - queue.active.held)
        metrics.pending_pods.labels("backoff").set(queue.active.held)
        metrics.pending_pods.labels("gated").set(len(queue.gated))
        metrics.pending_pods.labels("in-flight").set(len(queue.in_flight))
        metrics.pending_pods.labels("unschedulable").set(len(queue.waiting))
        metrics.parked_chains.set(queue.waiting.chains)
        metrics.waiting_without_chain.set(queue.waiting.chainless)
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
