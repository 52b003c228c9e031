"""Finds the pods to decide for in this worker's cache, and asks etcd where an attempt might end.

The cache may be behind, so it never ends an attempt. A lone pod is `Gone` only after a linearizable read. A cohort
skips a pod that does not look pending, and the queue's owner finds out why. The members of a gang are looked up when
it is decided. A gang with too few members, or with none that is pending, is skipped as a whole.
"""

from __future__ import annotations

import asyncio
from collections.abc import Container
from dataclasses import dataclass

from wharfinger.errors import PluginError, Unavailable
from wharfinger.framework.status import Status, unschedulable
from wharfinger.objects.model.gang import (
    GANG_SCHEDULING,
    Gang,
    GangKey,
    Standing,
    counts,
    gang_of,
    in_order,
    standing,
)
from wharfinger.objects.model.pod import Pod, PodIdentity, PodKey
from wharfinger.process.names import gang_workflow_id, pod_workflow_id
from wharfinger.scheduling.contracts.cohort_scheduling import CohortPod, GangName, PlaceManyInput
from wharfinger.scheduling.contracts.scheduling import Gone, PlaceInput
from wharfinger.scheduling.effects.binding.core import Core
from wharfinger.scheduling.effects.binding.eligibility import PodReference, StoredPod
from wharfinger.scheduling.effects.failures import behind, check_workflow_id

READ_LIMIT = 0.8
"""Seconds for the one read of a decision. Read and waits together stay below the activity's time-out."""


@dataclass(frozen=True, slots=True)
class Found:
    """A gang whose members may be placed."""

    gang: Gang
    pending: tuple[Pod, ...]
    """In the order in which they are placed."""
    bound: tuple[Pod, ...]


class Finder:
    """Finds the pods of one pool."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._cache = core.pool.cache
        self._eligibility = core.eligibility
        self._cluster = core.identity.cluster
        self._behind_limit = core.settings.behind
        """Seconds to wait for the watch."""

    # --- a lone pod ---------------------------------------------------------------------------

    async def lone(self, request: PlaceInput) -> Pod | Gone:
        """The cached pod, not older than `request.revision`; Gone after a read of etcd.

        Raises `StoreError`, and the failures Behind and WrongWorkflowId.
        """
        progress = self._cache.progress
        reference = PodReference(PodKey(request.namespace, request.name), request.uid)
        began = self._core.process.clock()
        caught_up = await progress.wait_for(request.revision, self._behind_limit)
        left = self._behind_limit - (self._core.process.clock() - began) if caught_up else 0.0
        if caught_up and request.revision:
            found = self._known(reference, request)
            if found is not None:
                return found
        stored = await self._read(reference)
        if isinstance(stored, Gone):
            return stored
        right = self._right_id(stored.pod)
        check_workflow_id(f"pod {stored.pod.key}", request.workflow_id, right)
        wanted = max(stored.pod.mod_revision, _existing(request.revision, stored.read_at))
        found = self._known(reference, request) if await progress.wait_for(wanted, max(0.0, left)) else None
        if found is None:  # behind, or the pod changed once more: the next attempt sees the newer state
            raise behind(progress.revision, wanted)
        return found

    async def _read(self, reference: PodReference) -> StoredPod | Gone:
        try:
            async with asyncio.timeout(READ_LIMIT):
                return await self._eligibility.read(reference)
        except TimeoutError:
            raise Unavailable(f"etcd did not tell pod {reference.key} within {READ_LIMIT:g} s") from None

    def _known(self, reference: PodReference, request: PlaceInput) -> Pod | None:
        """The cached pod if this run is to place it, else None: then etcd must be asked."""
        found = self._eligibility.from_cache(reference)
        if found is None or self._right_id(found.pod) != request.workflow_id:
            return None
        # While a bind of this very pod is out and unanswered, only etcd has the outcome.
        return None if self._cache.is_sent(found.pod.identity) else found.pod

    def _right_id(self, pod: Pod) -> str:
        return pod_workflow_id(self._cluster, pod.namespace, pod.name, pod.uid)

    # --- a cohort -----------------------------------------------------------------------------

    async def wait_for(self, pods: tuple[CohortPod, ...]) -> None:
        """Wait for the watch to show all of them, at most as long as a decision may wait."""
        await self._cache.progress.wait_for(max((one.revision for one in pods), default=0), self._behind_limit)

    def begin(self, pods: tuple[CohortPod, ...]) -> None:
        """End what an earlier run assumed for them and never sent; raises Behind if the watch has shown none of them.

        Then another worker had better decide. Skipped here, the pods would wait for long.
        """
        seen = self._cache.progress.revision
        if pods and all(one.revision > seen for one in pods):
            raise behind(seen, min(one.revision for one in pods))
        for one in pods:
            known = self._cache.pods.get(PodKey(one.namespace, one.name))
            if known is not None:
                self._cache.forget_unsent(known.identity)

    def of_cohort(self, one: CohortPod, taken: Container[PodIdentity]) -> Pod | Gone | str:
        """The cached pod, or why it is skipped; `taken`: pods of the cohort that have a seat."""
        reference = PodReference(PodKey(one.namespace, one.name), one.uid)
        if one.revision > self._cache.progress.revision:
            return "this worker has not seen it yet"
        found = self._eligibility.from_cache(reference)
        if found is None:
            known = self._cache.pods.get(reference.key)
            gone = self._eligibility.verdict(reference, known) if known is not None else None
            return gone or "this worker does not know it"
        if found.pod.identity in taken:
            return "it is named twice"
        return "its bind is on its way" if self._cache.is_sent(found.pod.identity) else found.pod

    # --- a gang -------------------------------------------------------------------------------

    async def gang(self, request: PlaceManyInput, name: GangName) -> Found | str:
        """The gang with its members in the cache, or why no member is to be placed now.

        Raises `StoreError`, and the failures Behind, Unavailable and WrongWorkflowId.
        """
        right = gang_workflow_id(self._cluster, name.namespace, name.name)
        check_workflow_id(f"gang {name.namespace}/{name.name}", request.workflow_id, right)
        progress = self._cache.progress
        if not await progress.wait_for(request.revision, self._behind_limit):
            newest = await self._eligibility.newest()
            wanted = _existing(request.revision, newest) or newest
            if not await progress.wait_for(wanted, self._behind_limit):
                raise behind(progress.revision, wanted)
        found = self.members_of(GangKey(name.namespace, name.name))
        if isinstance(found, Found):
            for pod in found.pending:
                if self._cache.is_sent(pod.identity):  # one transaction binds all of them: only etcd has the outcome
                    raise Unavailable(f"what became of the bind of {pod.key} is not known yet")
            for pod in found.pending:  # what an earlier run assumed and never sent: they are decided anew
                self._cache.forget_unsent(pod.identity)
        return found

    def keeps(self, pod: Pod) -> Status | None:
        """The refusal of a pod that may be placed with its gang only; None for any other pod."""
        if not pod.group:
            return None
        key = GangKey(pod.namespace, pod.group)
        found = self._standing(key, self._members(key))
        if found.held:
            return unschedulable(found.held).by(GANG_SCHEDULING)
        return unschedulable(f"PodGroup: placed with gang {key} only").by(GANG_SCHEDULING) if found.gang else None

    def members_of(self, key: GangKey) -> Found | str:
        """The gang with its members in the cache as it is now, or why no member is to be placed."""
        members = self._members(key)
        held = self._standing(key, members).held
        gang = gang_of(key, members, self._cache.surroundings.pod_group(*key))
        if held or isinstance(gang, str):
            return held or str(gang)
        pending = in_order(pod for pod in members if not pod.bound and not self._gated(pod))
        if not pending:
            return "none of its members is to be placed"
        return Found(gang, pending, tuple(pod for pod in members if pod.bound))

    def _standing(self, key: GangKey, members: list[Pod]) -> Standing:
        return standing(key, members, self._cache.surroundings.pod_group(*key), gated=self._gated)

    def _members(self, key: GangKey) -> list[Pod]:
        return [pod for pod in self._cache.gangs.of(key) if counts(pod) and (pod.bound or self._ours(pod))]

    def _ours(self, pod: Pod) -> bool:
        return self._eligibility.verdict(PodReference(pod.key), pod) is None

    def _gated(self, pod: Pod) -> bool:
        try:
            return not self._core.pool.profiles[pod.scheduler_name].gate(pod).ok
        except PluginError:
            return False  # its placement meets the error again, and reports it


def _existing(revision: int, newest: int) -> int:
    """The revision to wait for; 0 for one that does not exist: it is of the time before etcd was restored."""
    return revision if revision <= newest else 0
