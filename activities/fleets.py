"""The activities of a fleet's control part, as one agent carries them out; what they do is next door.

`planning` decides, `granting` lets instances live, `awaiting_ready` and `draining` wait for them,
`recording` writes. All effects of fleets' actors on etcd go through here.
"""

from __future__ import annotations

from collections.abc import Callable, Set

from pydantic import ValidationError
from temporalio import activity
from temporalio.client import Client

from wharfinger.fleet.contracts.fleets import (
    AwaitInput,
    AwaitProgress,
    DrainInput,
    DrainOutcome,
    FleetControl,
    GrantInput,
    GrantOutcome,
    PlanInput,
    Planned,
    ReadyOutcome,
    RecordedFleet,
    RecordInput,
)
from wharfinger.fleet.effects.awaiting_ready import AwaitingReady
from wharfinger.fleet.effects.fencing import Asker
from wharfinger.fleet.effects.grants import Draining, Granting
from wharfinger.fleet.effects.planning import Planning
from wharfinger.fleet.effects.recording import Recording
from wharfinger.fleet.model.fleet import HOST_LOST
from wharfinger.fleet.state.fleets import FleetView
from wharfinger.framework.catalog import Catalog
from wharfinger.process.parts import ProcessParts
from wharfinger.process.transactions import STOCK, Limits


class ControlActivities(FleetControl):
    """Register with a Temporal worker on the control queue."""

    def __init__(
        self,
        process: ProcessParts,
        client: Client,
        *,
        view: FleetView,
        catalog: Catalog,
        cluster: str,
        lease_ttl: float,
        host_lost: float = HOST_LOST,
        limits: Limits = STOCK,
    ) -> None:
        """`view`: on the same store; `lease_ttl`, `host_lost`: as in `AgentSettings`."""
        store, clock, metrics = process.store, process.clock, process.metrics
        self._planning = Planning(
            view,
            client,
            cluster=cluster,
            lease_ttl=lease_ttl,
            host_lost=host_lost,
            metrics=metrics,
            clock=clock,
        )
        self._granting = Granting(store)
        self._awaiting = AwaitingReady(store, clock=clock)
        self._draining = Draining(store, clock=clock, host_lost=host_lost)
        self._recording = Recording(store, catalog, limits=limits, metrics=metrics, utc_now=process.utc_now)

    def refresh_metrics(self, fleets: Set[str]) -> None:
        """Tell of these fleets alone; `fleets`: all that there are."""
        self._planning.gauges.only(fleets)

    @property
    def all(self) -> list[Callable[..., object]]:
        """The activities, for `temporalio.worker.Worker(activities=...)`."""
        return [self.plan, self.grant_instance, self.await_ready, self.drain_instance, self.record_fleet]

    @activity.defn(name="plan")
    async def plan(self, request: PlanInput) -> Planned:
        """See `FleetControl.plan`."""
        return await self._planning.plan(request, activity.info().attempt)

    @activity.defn(name="grant_instance")
    async def grant_instance(self, request: GrantInput) -> GrantOutcome:
        """See `FleetControl.grant_instance`."""
        return await self._granting.grant(request, Asker.of_this())

    @activity.defn(name="await_ready")
    async def await_ready(self, request: AwaitInput) -> ReadyOutcome:
        """See `FleetControl.await_ready`."""
        return await self._awaiting.wait(request, _progress(), activity.heartbeat)

    @activity.defn(name="drain_instance")
    async def drain_instance(self, request: DrainInput) -> DrainOutcome:
        """See `FleetControl.drain_instance`."""
        return await self._draining.drain(request, Asker.of_this(), activity.heartbeat)

    @activity.defn(name="record_fleet")
    async def record_fleet(self, request: RecordInput) -> RecordedFleet:
        """See `FleetControl.record_fleet`."""
        return await self._recording.record(request, Asker.of_this())


def _progress() -> AwaitProgress:
    """How far an earlier try of this activity came; another release's heartbeat counts for nothing."""
    for details in activity.info().heartbeat_details:
        try:
            return AwaitProgress.model_validate(details)
        except ValidationError:
            continue
    return AwaitProgress()
