"""The activities of a cohort: the registered class, which hands each to the part that does it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime

from temporalio import activity

from wharfinger.cache.cache import Cache
from wharfinger.contracts.cohort_scheduling import (
    BindManyInput,
    BoundMany,
    CohortScheduling,
    PlacedMany,
    PlaceManyInput,
    RecordedMany,
    RecordManyInput,
)
from wharfinger.engine.failures import mapped
from wharfinger.engine.pods.binding import Bindings
from wharfinger.engine.pods.binding_many import ManyBindings
from wharfinger.engine.pods.binding_whole import WholeBindings
from wharfinger.engine.pods.committer import Committer
from wharfinger.engine.pods.eligibility import Eligibility
from wharfinger.engine.pods.gang_decision import Deciding
from wharfinger.engine.pods.gang_members import GangMembers
from wharfinger.engine.pods.placing_gangs import GangPlacements
from wharfinger.engine.pods.placing_many import ManyPlacements
from wharfinger.engine.pods.recording_many import ManyRefusals
from wharfinger.engine.pods.refusal import Refusals
from wharfinger.engine.pods.seating import Seating
from wharfinger.engine.pods.tally import Tally
from wharfinger.engine.pods.verification import Verification
from wharfinger.engine.transactions import Limits
from wharfinger.framework.preferred_nodes import PreferredNodes
from wharfinger.framework.profile import Profile
from wharfinger.framework.sampling import Start
from wharfinger.registry.store import Store
from wharfinger.settings import BindSettings
from wharfinger.telemetry import Metrics


class CohortActivities(CohortScheduling):
    """Register `place_many`, `bind_many` and `record_many` of one instance with a Temporal worker."""

    def __init__(
        self,
        *,
        store: Store,
        cache: Cache,
        profiles: Mapping[str, Profile],
        eligibility: Eligibility,
        members: GangMembers,
        verification: Verification,
        committer: Committer,
        bindings: Bindings,
        refusals: Refusals,
        cluster: str,
        identity: str,
        settings: BindSettings,
        limits: Limits,
        preferred_nodes: PreferredNodes,
        start: Start,
        metrics: Metrics,
        tally: Tally,
        utc_now: Callable[[], datetime],
    ) -> None:
        """`bindings`, `refusals`: those of single pods, which share the other parts; `limits`: etcd's."""
        seating = Seating(
            cache=cache, profiles=profiles, eligibility=eligibility, verification=verification, utc_now=utc_now
        )
        self._placements = ManyPlacements(
            cache=cache,
            profiles=profiles,
            eligibility=eligibility,
            members=members,
            verification=verification,
            identity=identity,
            behind_limit=settings.behind,
            preferred_nodes=preferred_nodes,
            start=start,
            metrics=metrics,
            tally=tally,
        )
        self._gangs = GangPlacements(
            cache=cache,
            members=members,
            eligibility=eligibility,
            deciding=Deciding(
                cache=cache,
                profiles=profiles,
                verification=verification,
                identity=identity,
                limits=limits,
                preferred_nodes=preferred_nodes,
                start=start,
                metrics=metrics,
                tally=tally,
                utc_now=utc_now,
            ),
            cluster=cluster,
            behind_limit=settings.behind,
        )
        self._many = ManyBindings(
            bindings=bindings,
            seating=seating,
            committer=committer,
            cache=cache,
            settings=settings,
            limits=limits,
            metrics=metrics,
        )
        self._whole = WholeBindings(
            store=store,
            bindings=bindings,
            seating=seating,
            committer=committer,
            eligibility=eligibility,
            cache=cache,
            settings=settings,
            limits=limits,
            metrics=metrics,
        )
        self._refusals = ManyRefusals(
            store=store, cache=cache, eligibility=eligibility, refusals=refusals, limits=limits, cluster=cluster
        )

    @property
    def all(self) -> list[Callable[..., object]]:
        """The activities, for `temporalio.worker.Worker(activities=...)`."""
        return [self.place_many, self.bind_many, self.record_many]

    @activity.defn(name="place_many")
    async def place_many(self, request: PlaceManyInput) -> PlacedMany:
        """See `CohortScheduling.place_many`."""
        with mapped():
            if request.gang is not None:
                return await self._gangs.place(request, request.gang)
            return await self._placements.place(request)

    @activity.defn(name="bind_many")
    async def bind_many(self, request: BindManyInput) -> BoundMany:
        """See `CohortScheduling.bind_many`."""
        with mapped():
            return await (self._whole if request.whole else self._many).bind(request)

    @activity.defn(name="record_many")
    async def record_many(self, request: RecordManyInput) -> RecordedMany:
        """See `CohortScheduling.record_many`."""
        with mapped():
            return await self._refusals.record(request)
