"""The activities of `ScheduleAttempt` and `ScheduleCohort`, as one worker carries them out.

All effects of attempts on the world go through here; each activity hands its request to a part of `scheduling.effects`.
`process.failures` maps their errors.
"""

from __future__ import annotations

from collections.abc import Callable

from temporalio import activity

from wharfinger.framework.extenders.calls import ExtenderCalls
from wharfinger.process.parts import ProcessParts
from wharfinger.process.transactions import STOCK, Limits
from wharfinger.scheduling.contracts.cohort_scheduling import (
    BindManyInput,
    BoundMany,
    CohortScheduling,
    PlacedMany,
    PlaceManyInput,
    RecordedMany,
    RecordManyInput,
)
from wharfinger.scheduling.contracts.eviction import GRACEFUL, EvictInput
from wharfinger.scheduling.contracts.plugin_calls import PluginAnswer
from wharfinger.scheduling.contracts.scheduling import (
    AskInput,
    AskOutcome,
    BindInput,
    BindOutcome,
    CallInput,
    EvictOutcome,
    PlaceInput,
    PlaceOutcome,
    RefusalInput,
    RefusalOutcome,
    Scheduling,
)
from wharfinger.scheduling.effects.binding.calling import PluginCalls
from wharfinger.scheduling.effects.binding.core import Core
from wharfinger.scheduling.effects.binding.rounds import Bindings
from wharfinger.scheduling.effects.binding.writers import ApiWriters
from wharfinger.scheduling.effects.placing.deciding import Decider
from wharfinger.scheduling.effects.placing.extenders import ExtenderQuestions
from wharfinger.scheduling.effects.placing.placing_cohorts import CohortPlacements
from wharfinger.scheduling.effects.placing.placing_gangs import GangPlacements
from wharfinger.scheduling.effects.placing.placing_lone import LonePlacements
from wharfinger.scheduling.effects.refusing.eviction import Evictions
from wharfinger.scheduling.effects.refusing.recording import Recorder
from wharfinger.scheduling.state.pool import Identity, Pool
from wharfinger.settings import BindSettings


class SchedulingActivities(Scheduling, CohortScheduling):
    """Register the activities of one instance with a Temporal worker."""

    def __init__(
        self,
        process: ProcessParts,
        pool: Pool,
        identity: Identity,
        settings: BindSettings,
        *,
        eviction: str = GRACEFUL,
        limits: Limits = STOCK,
        kubernetes: ApiWriters | None = None,
        calls: ExtenderCalls | None = None,
    ) -> None:
        """`eviction`: how victims leave, `immediate` or `graceful`; `limits`: of etcd's transactions; `kubernetes`:
        what writes to the Kubernetes API, where one is the store; `calls`: calls extenders, and is closed with these
        activities; None = made here.
        """
        core = Core(process, pool, identity, settings, limits, kubernetes=kubernetes)
        decider = Decider(core)
        self._lone = LonePlacements(decider)
        self._cohorts = CohortPlacements(decider)
        self._gangs = GangPlacements(decider)
        self._calls = calls if calls is not None else ExtenderCalls(clock=process.clock)
        self._questions = ExtenderQuestions(core, self._calls)
        self._bindings = Bindings(core)
        self._plugin_calls = PluginCalls(core, self._bindings)
        self._recorder = Recorder(core)
        self._evictions = Evictions(core, mode=eviction)

    @property
    def all(self) -> list[Callable[..., object]]:
        """The activities, for `temporalio.worker.Worker(activities=...)`."""
        return [
            self.place,
            self.ask_extenders,
            self.bind,
            self.call_plugin,
            self.record_refusal,
            self.evict,
            self.place_many,
            self.bind_many,
            self.record_many,
        ]

    @activity.defn(name="place")
    async def place(self, request: PlaceInput) -> PlaceOutcome:
        """See `Scheduling.place`."""
        return await self._lone.place(request)

    @activity.defn(name="ask_extenders")
    async def ask_extenders(self, request: AskInput) -> AskOutcome:
        """See `Scheduling.ask_extenders`."""
        return await self._questions.ask(request)

    @activity.defn(name="bind")
    async def bind(self, request: BindInput) -> BindOutcome:
        """See `Scheduling.bind`."""
        return await self._bindings.bind(request)

    @activity.defn(name="call_plugin")
    async def call_plugin(self, request: CallInput) -> PluginAnswer:
        """See `Scheduling.call_plugin`."""
        return await self._plugin_calls.call(request, attempt=activity.info().attempt, beat=activity.heartbeat)

    @activity.defn(name="record_refusal")
    async def record_refusal(self, request: RefusalInput) -> RefusalOutcome:
        """See `Scheduling.record_refusal`."""
        return await self._recorder.record(request)

    @activity.defn(name="evict")
    async def evict(self, request: EvictInput) -> EvictOutcome:
        """See `Scheduling.evict`."""
        return await self._evictions.evict(request)

    @activity.defn(name="place_many")
    async def place_many(self, request: PlaceManyInput) -> PlacedMany:
        """See `CohortScheduling.place_many`."""
        if request.gang is not None:
            return await self._gangs.place(request, request.gang)
        return await self._cohorts.place(request)

    @activity.defn(name="bind_many")
    async def bind_many(self, request: BindManyInput) -> BoundMany:
        """See `CohortScheduling.bind_many`."""
        return await self._bindings.bind_many(request)

    @activity.defn(name="record_many")
    async def record_many(self, request: RecordManyInput) -> RecordedMany:
        """See `CohortScheduling.record_many`."""
        return await self._recorder.record_many(request)

    async def close(self) -> None:
        """End what runs in the background."""
        await self._bindings.close()
        await self._calls.close()
