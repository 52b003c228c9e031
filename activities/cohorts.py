"""The activities of a cohort: the registered class, which hands each to the part that does it."""

from __future__ import annotations

from collections.abc import Callable

from temporalio import activity

from wharfinger.scheduling.contracts.cohort_scheduling import (
    BindManyInput,
    BoundMany,
    CohortScheduling,
    PlacedMany,
    PlaceManyInput,
    RecordedMany,
    RecordManyInput,
)
from wharfinger.scheduling.effects.binding.core import Core
from wharfinger.scheduling.effects.binding.finding import Finder
from wharfinger.scheduling.effects.binding.rounds import Bindings
from wharfinger.scheduling.effects.placing.deciding import Decider
from wharfinger.scheduling.effects.placing.placing_cohorts import CohortPlacements
from wharfinger.scheduling.effects.placing.placing_gangs import GangPlacements
from wharfinger.scheduling.effects.refusing.recording import Recorder


class CohortActivities(CohortScheduling):
    """Register `place_many`, `bind_many` and `record_many` of one instance with a Temporal worker."""

    def __init__(self, core: Core, finder: Finder, decider: Decider, *, bindings: Bindings, recorder: Recorder) -> None:
        """`bindings`: those of lone pods too; what is known of this worker's binds is shared."""
        self._placements = CohortPlacements(core, finder, decider)
        self._gangs = GangPlacements(core, finder, decider)
        self._bindings = bindings
        self._recorder = recorder

    @property
    def all(self) -> list[Callable[..., object]]:
        """The activities, for `temporalio.worker.Worker(activities=...)`."""
        return [self.place_many, self.bind_many, self.record_many]

    @activity.defn(name="place_many")
    async def place_many(self, request: PlaceManyInput) -> PlacedMany:
        """See `CohortScheduling.place_many`."""
        if request.gang is not None:
            return await self._gangs.place(request, request.gang)
        return await self._placements.place(request)

    @activity.defn(name="bind_many")
    async def bind_many(self, request: BindManyInput) -> BoundMany:
        """See `CohortScheduling.bind_many`."""
        return await self._bindings.bind_many(request)

    @activity.defn(name="record_many")
    async def record_many(self, request: RecordManyInput) -> RecordedMany:
        """See `CohortScheduling.record_many`."""
        return await self._recorder.record_many(request)
