"""The hub process: puts everything together, and holds no policy.

::

    follow ── members, placements, what hubs keep ──► view ──► placements ─start──► SchedulePlacement      placement.hub
                                                       │  └──► rollouts ──start──► RollOutPlacement
                                                       └─────► decide, plan_rollout, write_works ...   activities
    update runs: runs that are to go on ─start─► StagedUpdateRun                                       placement.hub
    contents: what placements select                                                                   placement.hub
    leavers: the objects of members that have left go                                                  placement.hub

Several hubs may run: they share the placements, and any of them carries out any attempt. `Hub` is one on a given store
and Temporal client; `run_hub` is the process around it.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections import Counter
from collections.abc import Coroutine, Iterable, Mapping
from typing import Any

from temporalio.client import Client

from wharfinger.activities.placements import DecidingActivities, RollingActivities, StagingActivities
from wharfinger.placement.contracts import placement_keys
from wharfinger.placement.contracts.placement_records import HubRecord
from wharfinger.placement.hub.following import ContentsStreams, HubStreams
from wharfinger.placement.hub.leavers import Leavers
from wharfinger.placement.hub.placement_controller import PlacementController
from wharfinger.placement.hub.rollout_controller import RolloutController
from wharfinger.placement.hub.update_run_controller import UpdateRunController
from wharfinger.placement.reading.placement_conditions import SAID_STATES, results_by_state
from wharfinger.placement.reading.placement_starts import TemporalPlacements
from wharfinger.placement.state.catching_up import MOST_WAITING
from wharfinger.placement.state.contents_view import ContentsView
from wharfinger.placement.state.hub_changes import HubChange
from wharfinger.placement.state.hub_view import HubView
from wharfinger.placement.state.seen import STATES, state_of
from wharfinger.process.build import release
from wharfinger.process.children import lives
from wharfinger.process.named_process import NamedProcess
from wharfinger.process.names import check_cluster, placement_queue
from wharfinger.process.opening import Opened, serve
from wharfinger.process.parts import ProcessParts
from wharfinger.process.polling import ACTIVITIES, Polling, worker_factory
from wharfinger.process.registration import LeasedName
from wharfinger.programs.process_settings import HubSettings
from wharfinger.scheduling.effects.failures import PODS_AND_NODES
from wharfinger.serving.content import OK
from wharfinger.serving.options import ServingOptions
from wharfinger.workflows.roll_out_placement import RollOutPlacement
from wharfinger.workflows.schedule_placement import SchedulePlacement
from wharfinger.workflows.staged_update_run import StagedUpdateRun


class Hub(NamedProcess):
    """One hub, on a store and a client that the caller opened and closes."""

    def __init__(self, settings: HubSettings, process: ProcessParts, client: Client, *, health_url: str = "") -> None:
        self._settings = settings
        self.name = settings.name or f"{socket.gethostname().lower()}-{os.getpid()}"
        record = HubRecord(
            boot_id=lives.boot_id(),
            pid=os.getpid(),
            host=socket.gethostname(),
            health=health_url,
            version=release(),
            time=process.utc_now().isoformat(timespec="milliseconds"),
        )
        named = LeasedName("hub", self.name, placement_keys.hub(self.name), "name")
        super().__init__(process, client, named, record, settings.lease)
        self.view = HubView(process.clock)
        starts = TemporalPlacements(client, cluster=settings.cluster)
        self.placements = PlacementController(process, self.view, starts.start, me=self.name)
        self.contents = ContentsView(process.clock)
        self.rollouts = RolloutController(
            process,
            self.view,
            self.contents,
            starts.start_rollout,
            mine=self.placements.mine,
            sees=lambda: self._registration.registered and self.view.in_sync,
        )
        self.update_runs = UpdateRunController(process, self.view, starts.start_update_run, mine=self.placements.mine)
        self._streams = HubStreams(process.store, self.view, note=self._note, rng=process.rng)
        self._contents_streams = ContentsStreams(
            process.store, self.contents, note=self.rollouts.note_contents, rng=process.rng
        )
        self._leavers = Leavers(process, self.view, mine=self.placements.mine)
        factory = worker_factory(
            client,
            task_queue=placement_queue(settings.cluster),
            workflows=[SchedulePlacement, RollOutPlacement, StagedUpdateRun],
            activities=[
                *DecidingActivities(process, self.view, cluster=settings.cluster).all,
                *RollingActivities(process, self.view, self.contents, cluster=settings.cluster).all,
                *StagingActivities(process, self.view, self.contents, cluster=settings.cluster).all,
            ],
            max_cached_workflows=500,
            drain_timeout=settings.drain_timeout,
            failures=PODS_AND_NODES,
            # With fewer, rollouts that wait for members would keep decisions from being committed.
            max_concurrent_activities=MOST_WAITING + ACTIVITIES,
        )
        self._pollings = [Polling(factory, drain_timeout=settings.drain_timeout)]

    def _note(self, changes: Iterable[HubChange]) -> None:
        found = list(changes)
        self.placements.note(found)
        self.rollouts.note(found)
        self.update_runs.note(found)

    def checks(self) -> Mapping[str, str]:
        """What readiness depends on: name -> `ok`, or why not."""
        return self._checks(placements=self.view.in_sync)

    def refresh_metrics(self) -> None:
        """Bring the gauges up to date."""
        view, metrics = self.view, self.metrics
        states = Counter(
            state_of(seen, view.decisions.get(reference))
            for reference, seen in view.placements.items()
            if self.placements.mine(reference)
        )
        for state in STATES:
            metrics.placements_seen.labels(state).set(states[state])
        online = sum(one.there for one in view.members.values())
        metrics.member_clusters.labels("true").set(online)
        metrics.member_clusters.labels("false").set(len(view.members) - online)
        wanted = Counter(work.want for works in view.works.values() for work in works.values())
        for want in ("present", "absent", "release"):
            metrics.works.labels(want).set(wanted[want])
        said = results_by_state(view)
        for state in SAID_STATES:
            metrics.results.labels(state).set(said[state])
        metrics.placements_unsettled.set(self.placements.unsettled + self.rollouts.unsettled)
        metrics.ready.set(all(said == OK for said in self.checks().values()))

    async def run(self, stop: asyncio.Event) -> None:
        """Serve until `stop` is set. Raises `InstallationMismatch`, and `UsageError` when another has the name."""
        await self._serve(stop, cluster=self._settings.cluster)

    def _loops(self) -> Mapping[str, Coroutine[Any, Any, None]]:
        return {
            "streams": self._streams.run(),
            "contents": self._contents_streams.run(),
            "placements": self.placements.run(),
            "rollouts": self.rollouts.run(),
            "update runs": self.update_runs.run(),
            "leavers": self._leavers.run(),
        }


async def run_hub(settings: HubSettings, serving: ServingOptions) -> int:
    """Run a hub process until a signal stops it; returns its exit code. The second signal ends it at once."""
    check_cluster(settings.cluster)

    async def make(found: Opened) -> Hub:
        return Hub(settings, found.process, found.temporal, health_url=found.health.url)

    return await serve(settings.etcd, settings.format, settings.temporal, serving, make)
