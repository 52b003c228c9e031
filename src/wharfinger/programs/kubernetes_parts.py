"""Wires what a worker needs where a Kubernetes API is the store: senders of promises for activities, and its loops."""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping
from functools import partial

from wharfinger.apiserver.access_checks import AccessReport, LeaseName, needed_access, review
from wharfinger.apiserver.event_lane import EventLane, EventPolicy
from wharfinger.kubernetes.effects.adopting import Adopter
from wharfinger.kubernetes.effects.election import Election, LeaseTerms
from wharfinger.kubernetes.effects.evicting import KubernetesEvictions
from wharfinger.kubernetes.effects.extender_binding import ExtenderBinders
from wharfinger.kubernetes.effects.promising import Promises
from wharfinger.kubernetes.effects.telling import Teller
from wharfinger.kubernetes.loops.connecting import COPIED_KINDS, ConnectedApi, lease_name, served_kinds
from wharfinger.kubernetes.loops.importing import Importing
from wharfinger.kubernetes.loops.sweeps import PromiseSweep, RefusalSweep
from wharfinger.kubernetes.loops.worker_loops import KubernetesLoops, MakeKubernetesLoops
from wharfinger.objects.model.pod import PodKey
from wharfinger.objects.model.pod_records import Refusal
from wharfinger.process.connecting import identity
from wharfinger.process.parts import ProcessParts
from wharfinger.process.transactions import Limits
from wharfinger.scheduling.effects.binding.right_to_bind import RightToBind
from wharfinger.scheduling.effects.binding.writers import ApiWriters, TornPolicy
from wharfinger.scheduling.loops.shards import Shards
from wharfinger.scheduling.model.promises import KubernetesSide
from wharfinger.scheduling.state.cache.cache import Cache
from wharfinger.settings import WorkerSettings


class KubernetesParts:
    """Made once for a worker."""

    def __init__(
        self,
        process: ProcessParts,
        upstream: ConnectedApi,
        settings: WorkerSettings,
        *,
        binders: ExtenderBinders | None = None,
        whole: bool = False,
    ) -> None:
        """`binders`: the extenders that bind pods; `whole`: copies of pods and nodes keep all fields, for extenders."""
        self.side = KubernetesSide()
        self._process = process
        self._upstream = upstream
        self._worker = settings
        self._whole = whole
        store = process.store
        adopter = Adopter(store, utc_now=process.utc_now, whole=whole)
        right = RightToBind(store, clock=process.lease_clock, side=self.side)
        self._promises = promises = Promises(
            store, upstream.api, adopter, right, utc_now=process.utc_now, binders=binders
        )
        self.lane = EventLane(
            upstream.api,
            clock=process.clock,
            rng=process.rng,
            policy=EventPolicy(upstream.settings.events),
            on_outcome=lambda outcome: process.metrics.upstream_events.labels(outcome=outcome.value).inc(),
            binds_wait=lambda: promises.some_wait,
        )
        self._teller = Teller(upstream.api, adopter, self.lane, host=socket.gethostname(), utc_now=process.utc_now)
        self.writers = ApiWriters(
            promises,
            self._teller,
            KubernetesEvictions(upstream.api, adopter, utc_now=process.utc_now),
            TornPolicy(upstream.settings.torn_gangs),
        )

    def loops_of(self, cache: Cache, profiles: frozenset[str]) -> MakeKubernetesLoops:
        """What makes the loops, once the shards are there. `profiles`: the names that the worker serves."""

        def make(shards: Shards, records: Mapping[PodKey, Refusal], resumed: Callable[[], None]) -> KubernetesLoops:
            settings, clock = self._upstream.settings, self._process.clock
            sweep = PromiseSweep(self._promises, self.side, cache, shards, after=settings.sweep_after, clock=clock)
            return KubernetesLoops(
                self.side,
                self._importing(profiles),
                sweep,
                RefusalSweep(self._teller, cache, shards, records),
                lane=self.lane,
                review=partial(self._review, profiles),
                behind_after=settings.behind_after,
                clock=clock,
                resumed=resumed,
            )

        return make

    async def _review(self, profiles: frozenset[str]) -> AccessReport:
        """What this worker has to be allowed to do, and is not. Raises `UpstreamError`."""
        settings = self._upstream.settings
        name = lease_name(settings.election, self._worker.cluster, profiles)
        lease = LeaseName(settings.election.namespace, name) if settings.election.enabled else None
        optional = await served_kinds(self._upstream.api)
        events = EventPolicy(settings.events) is not EventPolicy.NONE
        return await review(self._upstream.api, needed_access(lease=lease, optional=optional, events=events))

    def _importing(self, profiles: frozenset[str]) -> Importing:
        etcd = self._worker.etcd
        return Importing(
            self._process,
            self._upstream.api,
            self._upstream.settings,
            election=self._election(profiles),
            resources=COPIED_KINDS,
            limits=Limits(etcd.max_txn_ops, etcd.max_txn_bytes),
            holder=identity(),
            whole=self._whole,
            promised=self.side.promises.get,
        )

    def _election(self, profiles: frozenset[str]) -> Election | None:
        settings = self._upstream.settings.election
        if not settings.enabled:
            return None
        terms = LeaseTerms(
            lease_name(settings, self._worker.cluster, profiles),
            settings.namespace,
            self._upstream.lease_identity,
            settings.lease_duration,
            settings.renew_deadline,
            settings.retry_period,
        )
        return Election(self._upstream.api, terms, clock=self._process.lease_clock, utc_now=self._process.utc_now)
