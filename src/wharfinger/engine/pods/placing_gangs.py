"""Placing gangs: who belongs to one is looked up when it is decided, in this worker's cache.

From the look-up to the assumptions nothing is awaited. A gang that has too few members by now, or none that is pending,
is gone as far as its run is concerned: whoever keeps the queue starts another when there are enough.
"""

from __future__ import annotations

from wharfinger.cache.cache import Cache
from wharfinger.contracts.cohort_scheduling import PlacedMany, PlaceManyInput, Skipped
from wharfinger.contracts.cohorts import GangName
from wharfinger.contracts.names import gang_workflow_id
from wharfinger.engine.failures import behind, wrong_id
from wharfinger.engine.pods.eligibility import Eligibility
from wharfinger.engine.pods.gang_decision import Deciding, GangDecision
from wharfinger.engine.pods.gang_members import GangMembers
from wharfinger.errors import Unavailable
from wharfinger.model.gang import GangKey


class GangPlacements:
    """Decides for the gangs of one worker."""

    def __init__(
        self,
        *,
        cache: Cache,
        members: GangMembers,
        eligibility: Eligibility,
        deciding: Deciding,
        cluster: str,
        behind_limit: float,
    ) -> None:
        """`behind_limit`: seconds to wait for the watch."""
        self._eligibility = eligibility
        self._cluster = cluster
        self._cache = cache
        self._members = members
        self._deciding = deciding
        self._behind_limit = behind_limit

    async def place(self, request: PlaceManyInput, name: GangName) -> PlacedMany:
        """Decide and assume. Raises `StoreError`, and the failures WrongWorkflowId, Behind and Unavailable."""
        right = gang_workflow_id(self._cluster, name.namespace, name.name)
        if request.workflow_id != right:
            raise wrong_id(f"gang {name.namespace}/{name.name}", request.workflow_id, right)
        progress = self._cache.progress
        if not await progress.wait_for(request.revision, self._behind_limit):
            newest = await self._eligibility.newest()
            # A revision that does not exist is of the time before etcd was restored: nothing waits for it.
            wanted = request.revision if request.revision <= newest else newest
            if not await progress.wait_for(wanted, self._behind_limit):
                raise behind(progress.revision, wanted)
        found = self._members.find(GangKey(name.namespace, name.name))
        if isinstance(found, str):
            return PlacedMany(skipped=(Skipped(namespace=name.namespace, name=name.name, reason=found),))
        for pod in found.pending:
            if self._cache.is_sent(pod.identity):  # a transaction of all is out, and only etcd knows what became of it
                raise Unavailable(f"what became of the bind of {pod.key} is not known yet")
        for pod in found.pending:  # whatever an earlier run assumed and never sent: they are decided anew
            self._cache.forget_unsent(pod.identity)
        return GangDecision(self._deciding, found).decide()
