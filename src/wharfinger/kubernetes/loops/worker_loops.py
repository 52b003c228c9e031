"""The loops of a worker whose pods are a Kubernetes API's: the importer, the sweep of promises, and when to pause.

`KubernetesParts` puts them together, and with them what activities need: senders of promises, refusals and evictions.

Nothing is placed while the copies may be old (no sign of the importer for ten seconds) or while this installation may
not bind. Shards and lease are kept: a pause is no reason to hand pods over.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from functools import partial

from wharfinger.apiserver.access_checks import AccessReport, LeaseName, needed_access, review
from wharfinger.apiserver.event_lane import EventLane, EventPolicy
from wharfinger.errors import UpstreamError
from wharfinger.kubernetes.effects.adopting import Adopter
from wharfinger.kubernetes.effects.election import Election
from wharfinger.kubernetes.effects.evicting import KubernetesEvictions
from wharfinger.kubernetes.effects.extender_binding import ExtenderBinders
from wharfinger.kubernetes.effects.promising import Promises
from wharfinger.kubernetes.effects.telling import Teller
from wharfinger.kubernetes.loops.connecting import COPIED_KINDS, ConnectedApi, lease_name, served_kinds
from wharfinger.kubernetes.loops.importing import Importing
from wharfinger.kubernetes.loops.sweeps import PromiseSweep, RefusalSweep
from wharfinger.process.connecting import identity
from wharfinger.process.parts import ProcessParts
from wharfinger.process.transactions import Limits
from wharfinger.scheduling.effects.binding.right_to_bind import RightToBind
from wharfinger.scheduling.effects.binding.writers import ApiWriters, TornPolicy
from wharfinger.scheduling.loops.shards import Shards
from wharfinger.scheduling.model.promises import Imported, KubernetesSide
from wharfinger.scheduling.state.informer.changes import Changes
from wharfinger.scheduling.state.pool import Pool
from wharfinger.settings import WorkerSettings
from wharfinger.telemetry import Metrics

log = logging.getLogger(__name__)

REVIEW_AFTER = 3.0
"""Seconds after the start of the loops until it is asked what this worker may do: some 150 requests, which would delay
the first bind. What is missing for a list or a watch, the importer says at once."""
FLUSH_WITHIN = 2.0
"""Seconds that events which wait get when the worker stops."""


class KubernetesLoops:
    """What a worker runs beside its other loops; a `Subscriber`."""

    follows = ("promises", "kubernetes")

    def __init__(
        self,
        side: KubernetesSide,
        importing: Importing,
        sweep: PromiseSweep,
        refusals: RefusalSweep,
        *,
        lane: EventLane,
        review: Callable[[], Awaitable[AccessReport]],
        behind_after: float,
        clock: Callable[[], float],
        resumed: Callable[[], None],
    ) -> None:
        """`review`: asks what this worker may do there; `behind_after`: seconds without a sign of the importer;
        `resumed`: placing may go on.
        """
        self.side = side
        self.importing = importing
        self.sweep = sweep
        self.refusals = refusals
        self._lane = lane
        self._review = review
        self._listed: Imported | None = None
        """What the last list of etcd showed."""
        self._behind_after = behind_after
        self._clock = clock
        self._resumed = resumed

    def apply(self, changes: Changes) -> None:
        """Take in promises, and whether placing may go on."""
        self.sweep.apply(changes)
        if changes.listed:  # what a list shows may be hours old, or of a backup
            self.side.signed, self._listed = False, self.side.imported
        elif self.side.imported is not self._listed:
            self.side.signed = True
        if changes.kubernetes:
            self._resumed()

    @property
    def all(self) -> tuple[KubernetesLoops | Importing | PromiseSweep | RefusalSweep, ...]:
        """What the worker has to run."""
        return self, self.importing, self.sweep, self.refusals

    async def run(self) -> None:
        """Send events until cancelled; those that wait then get a moment. Soon, say what this worker may not do."""
        self._lane.start()
        try:
            await asyncio.sleep(REVIEW_AFTER)
            with contextlib.suppress(UpstreamError):  # what hinders that is said by the importer
                for sentence in (await self._review()).sentences():
                    log.warning("upstream_access_missing what=%r", sentence)
            await asyncio.Event().wait()
        finally:
            await self._lane.stop(FLUSH_WITHIN)

    def paused(self) -> bool:
        """Whether nothing may be placed now."""
        return not self.side.active or self._import() != "ok"

    def checks(self) -> Mapping[str, str]:
        """What readiness depends on beside the rest: name -> `ok`, or why not.

        A standby is ready, as kube-scheduler's is: there only the holder of the Lease can fail the check of that name.
        """
        hindered = self.side.imported.hindered if self.side.imported is not None and not self.side.active else ""
        return {"import": self._import(), "leaderElection": hindered or "ok"}

    def refresh(self, metrics: Metrics) -> None:
        """Bring the gauges up to date."""
        metrics.kubernetes_promises.set(len(self.side.promises))
        metrics.kubernetes_oldest_promise.set(self.sweep.oldest)
        metrics.kubernetes_import_lag.set(self._clock() - self.side.told_at if self.side.imported is not None else 0.0)

    def _import(self) -> str:
        troubles = "; ".join(f"{what}: {why}" for what, why in sorted(self.importing.trouble.items()))
        if self.side.imported is None or not self.side.imported.revisions:
            return f"nothing has been copied yet{f' ({troubles})' if troubles else ''}"
        if not self.side.signed:
            return f"no importer has said anything yet{f' ({troubles})' if troubles else ''}"
        silent = self._clock() - self.side.told_at
        if silent > self._behind_after:
            return f"the copies are {silent:.0f} s old{f' ({troubles})' if troubles else ''}"
        return "ok"


class KubernetesParts:
    """Made once for a worker."""

    def __init__(
        self,
        process: ProcessParts,
        connected: ConnectedApi,
        settings: WorkerSettings,
        *,
        binders: ExtenderBinders | None = None,
        whole: bool = False,
    ) -> None:
        """`binders`: the extenders that bind pods; `whole`: copies of pods and nodes keep all fields, for extenders."""
        self.side = KubernetesSide()
        self._process = process
        self._connected = connected
        self._worker = settings
        self._whole = whole
        store = process.store
        adopter = Adopter(store, utc_now=process.utc_now, whole=whole)
        right = RightToBind(store, clock=process.lease_clock, side=self.side)
        self._promises = promises = Promises(connected.api, adopter, right, binders=binders)
        self.lane = EventLane(
            connected.api,
            clock=process.clock,
            rng=process.rng,
            policy=EventPolicy(connected.settings.events),
            on_outcome=lambda outcome: process.metrics.kubernetes_events.labels(outcome=outcome.value).inc(),
            binds_wait=lambda: promises.some_wait,
        )
        self._teller = Teller(connected.api, adopter, self.lane, host=socket.gethostname())
        self.writers = ApiWriters(
            promises,
            self._teller,
            KubernetesEvictions(connected.api, adopter),
            TornPolicy(connected.settings.torn_gangs),
        )

    def loops(self, pool: Pool, shards: Shards, resumed: Callable[[], None]) -> KubernetesLoops:
        """The loops, once the shards are there. `resumed`: placing may go on."""
        settings, clock = self._connected.settings, self._process.clock
        profiles, cache = frozenset(pool.profiles), pool.cache
        return KubernetesLoops(
            self.side,
            self._importing(profiles),
            PromiseSweep(self._promises, self.side, cache, shards, after=settings.sweep_after, clock=clock),
            RefusalSweep(self._teller, cache, shards, cache.refusals),
            lane=self.lane,
            review=partial(self._review, profiles),
            behind_after=settings.behind_after,
            clock=clock,
            resumed=resumed,
        )

    async def _review(self, profiles: frozenset[str]) -> AccessReport:
        """What this worker has to be allowed to do, and is not. Raises `UpstreamError`."""
        settings = self._connected.settings
        name = lease_name(settings.election, self._worker.cluster, profiles)
        lease = LeaseName(settings.election.namespace, name) if settings.election.enabled else None
        optional = await served_kinds(self._connected.api)
        events = EventPolicy(settings.events) is not EventPolicy.NONE
        return await review(self._connected.api, needed_access(lease=lease, optional=optional, events=events))

    def _importing(self, profiles: frozenset[str]) -> Importing:
        etcd = self._worker.etcd
        return Importing(
            self._process,
            self._connected.api,
            self._connected.settings,
            election=self._election(profiles),
            resources=COPIED_KINDS,
            limits=Limits(etcd.max_txn_ops, etcd.max_txn_bytes),
            holder=identity(),
            whole=self._whole,
            promised=self.side.promises.get,
        )

    def _election(self, profiles: frozenset[str]) -> Election | None:
        settings = self._connected.settings.election
        if not settings.enabled:
            return None
        terms = replace(settings, name=lease_name(settings, self._worker.cluster, profiles))
        connected, process = self._connected, self._process
        return Election(
            connected.api, terms, connected.lease_identity, clock=process.lease_clock, utc_now=process.utc_now
        )
