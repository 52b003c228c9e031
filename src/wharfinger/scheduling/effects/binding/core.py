"""What deciding and committing share on one worker."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeVar
from weakref import WeakValueDictionary

from wharfinger.objects.model.pod import PodIdentity
from wharfinger.process.parts import ProcessParts
from wharfinger.process.transactions import Limits
from wharfinger.scheduling.contracts.computation import Computation
from wharfinger.scheduling.effects.binding.eligibility import Eligibility
from wharfinger.scheduling.effects.binding.verification import Verification
from wharfinger.scheduling.effects.binding.writers import ApiWriters
from wharfinger.scheduling.state.pool import Identity, Pool
from wharfinger.settings import BindSettings
from wharfinger.telemetry import Metrics

BOUND = "bound"
REFUSED = "refused"
CONTENDED = "contended"
ERROR = "error"


class Tally:
    """What decisions came to, counted: by profile for this worker, and by revision and tenant for its fleet.

    A bind is often another worker's than the decision. It counts for the revision that decided, so that a canary can be
    judged; a worker started by hand has none, and is counted under the empty one.
    """

    def __init__(self, metrics: Metrics, *, tenant: str, fleet_revision: str) -> None:
        """`fleet_revision`: of this worker's template; empty when it was started by hand."""
        self._metrics = metrics
        self._tenant = tenant
        self.fleet_revision = fleet_revision

    def bound(self, profile: str, computation: Computation, took: float) -> None:
        """A pod was bound: what its decision (`computation`) and its bind (`took`, seconds) took."""
        self._outcome(BOUND, computation.fleet_revision, 1)
        self._took("scheduled", profile, [computation.micros / 1e6 + took], 1)

    def refused(self, profile: str, took: float, pods: int = 1, *, together: bool = False) -> None:
        """Pods fit nowhere; `took`: seconds of each decision, or of the one about all that are placed together."""
        self._outcome(REFUSED, self.fleet_revision, pods)
        self._took("unschedulable", profile, [took] * (1 if together else pods), pods)

    def refused_at_bind(self, profile: str, computation: Computation) -> None:
        """A plugin refused a pod that was placed, right before its bind."""
        self._outcome(REFUSED, computation.fleet_revision, 1)
        self._took("unschedulable", profile, [computation.micros / 1e6], 1)

    def failed(self, profile: str, computation: Computation | None = None) -> None:
        """A decision raised; or a plugin did right before the bind of one that was made (`computation`).

        The latter also where etcd can never take the pod as it would be written.
        """
        self._outcome(ERROR, self.fleet_revision if computation is None else computation.fleet_revision, 1)
        self._metrics.schedule_attempts.labels(result="error", profile=profile).inc()

    def contended(self, computation: Computation, pods: int = 1) -> None:
        """No node was left for a placement; once for all members of a gang."""
        self._outcome(CONTENDED, computation.fleet_revision, pods)
        self._metrics.contended.inc()

    def _outcome(self, outcome: str, fleet_revision: str, pods: int) -> None:
        self._metrics.fleet_attempts.labels(tenant=self._tenant, revision=fleet_revision, outcome=outcome).inc(pods)

    def _took(self, result: str, profile: str, took: list[float], pods: int) -> None:
        labels = {"result": result, "profile": profile}
        self._metrics.schedule_attempts.labels(**labels).inc(pods)
        duration = self._metrics.attempt_duration.labels(**labels)
        for each in took:
            duration.observe(each)


Kind = TypeVar("Kind", str, PodIdentity)


class Locks:
    """Of pods, nodes and namespaces inside one worker: what is known of them is used by one bind at a time.

    By what is locked: a pod's identity, a node's name, a key of etcd. A bind that takes several takes them in this
    order, each kind sorted: pods, then `bound/<namespace>` keys, then nodes.
    """

    def __init__(self) -> None:
        self._locks: WeakValueDictionary[str | PodIdentity, asyncio.Lock] = WeakValueDictionary()

    @asynccontextmanager
    async def hold(self, several: Iterable[Kind]) -> AsyncIterator[None]:
        """All of one kind, each once; taken in their order, so that no two tasks wait for each other."""
        held: list[asyncio.Lock] = []
        try:
            for what in sorted(set(several)):
                lock = self._locks.get(what)
                if lock is None:  # it lives as long as a task holds or awaits it
                    lock = self._locks[what] = asyncio.Lock()
                await lock.acquire()
                held.append(lock)
            yield
        finally:
            for lock in held:
                lock.release()


@dataclass(frozen=True)
class Core:
    """The parts that every activity of one worker uses. It is made once for a worker."""

    process: ProcessParts
    pool: Pool
    identity: Identity
    settings: BindSettings
    limits: Limits
    """Of etcd's transactions."""
    kubernetes: ApiWriters | None = None
    """What writes to the Kubernetes API, where one is the store."""
    locks: Locks = field(default_factory=Locks)

    @cached_property
    def eligibility(self) -> Eligibility:
        """Whether pods still are to be placed by this worker's pool."""
        return Eligibility(store=self.process.store, cache=self.pool.cache, ownership=self.pool.ownership)

    @cached_property
    def verification(self) -> Verification:
        """Whether placements still hold."""
        return Verification(cache=self.pool.cache, profiles=self.pool.profiles)

    @cached_property
    def tally(self) -> Tally:
        """What decisions came to."""
        return Tally(
            self.process.metrics, tenant=self.pool.ownership.tenant, fleet_revision=self.identity.fleet_revision
        )
