"""Counts the pending pods whose scheduler name no live instance serves; a `Subscriber`.

Each pod is counted by one worker: the owner of its shard in its pool. So the sum over all workers is the number of
pods. Only pods that name none of this worker's own profiles are kept, so other pods cost one comparison.
"""

from __future__ import annotations

from wharfinger.cache.cache import Cache
from wharfinger.contracts.serving import served_names
from wharfinger.informer.changes import Changes
from wharfinger.model.ownership import Ownership
from wharfinger.model.pod import PodKey
from wharfinger.worker_loops.instances import Instances
from wharfinger.worker_loops.shards import Shards


class Unserved:
    """Follows the pods that name other schedulers."""

    def __init__(self, *, cache: Cache, instances: Instances, ownership: Ownership, shards: Shards) -> None:
        self._cache = cache
        self._instances = instances
        self._ownership = ownership
        self._shards = shards
        self._foreign: set[PodKey] = set()
        """Pending pods, of any pool and shard, that name none of this worker's profiles."""

    def apply(self, changes: Changes) -> None:
        """Follow the pods."""
        own = self._ownership.scheduler_names
        for change in changes.pods:
            pod = change.new
            if pod is not None and pod.scheduler_name not in own and pod.pending:
                self._foreign.add(change.key)
            else:
                self._foreign.discard(change.key)

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
