"""The loops of a worker whose pods are a Kubernetes API's: the importer, the sweep of promises, and when to pause.

Nothing is placed while the copies may be old (no sign of the importer for ten seconds) or while this installation may
not bind. Shards and lease are kept: a pause is no reason to hand pods over.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Mapping

from wharfinger.apiserver.access_checks import AccessReport
from wharfinger.apiserver.event_lane import EventLane
from wharfinger.errors import UpstreamError
from wharfinger.kubernetes.loops.importing import Importing
from wharfinger.kubernetes.loops.sweeps import PromiseSweep, RefusalSweep
from wharfinger.objects.model.pod import PodKey
from wharfinger.objects.model.pod_records import Refusal
from wharfinger.scheduling.loops.shards import Shards
from wharfinger.scheduling.model.promises import Imported, KubernetesSide
from wharfinger.scheduling.state.informer.changes import Changes
from wharfinger.telemetry import Metrics

log = logging.getLogger(__name__)

REVIEW_AFTER = 3.0
"""Seconds after the start of the loops until it is asked what this worker may do: some 150 requests, which would delay
the first bind. What is missing for a list or a watch, the importer says at once."""
FLUSH_WITHIN = 2.0
"""Seconds that events which wait get when the worker stops."""


class KubernetesLoops:
    """What a worker runs beside its other loops; a `Subscriber`."""

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
        if changes.upstream:
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

    @property
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
        metrics.upstream_promises.set(len(self.side.promises))
        metrics.upstream_oldest_promise.set(self.sweep.oldest)
        metrics.upstream_import_lag.set(self._clock() - self.side.told_at if self.side.imported is not None else 0.0)

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


MakeKubernetesLoops = Callable[[Shards, Mapping[PodKey, Refusal], Callable[[], None]], KubernetesLoops]
"""From the shards, the attempt records, and what is called when placing may go on."""
