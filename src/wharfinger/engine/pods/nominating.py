"""What a refusal does about preemption at the moment when it is recorded: nominate, keep a nomination, or neither.

A decision may be old when it is recorded. So its victims are looked at again on the current snapshot, and pods are
evicted only where nothing less helps. `recording` writes what is left.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from pydantic import ValidationError

from wharfinger.contracts.eviction import Victim, digest
from wharfinger.contracts.records import AttemptRecord
from wharfinger.contracts.scheduling import RefusalInput
from wharfinger.engine.pods import preemption
from wharfinger.engine.pods.core import Core
from wharfinger.engine.pods.eligibility import PodReference
from wharfinger.engine.pods.extending import answered
from wharfinger.framework.snapshot import Snapshot
from wharfinger.model.pod import Pod, PodKey
from wharfinger.registry import keys

OTHERS_EVICT_WITHIN = timedelta(seconds=30)
"""How long a nomination counts as one whose evictions are about to happen."""


@dataclass(frozen=True, slots=True)
class RefusalToRecord:
    """A refusal to record, and the workflow that the pod waits with from then on."""

    request: RefusalInput
    parked: bool = True
    """Whether that workflow is open and waits to be woken."""
    urgent: bool = False
    decided_by: str = ""
    """`<workflow id>@<run id>` where another workflow decided than the one that waits."""
    gang_victims: tuple[Victim, ...] | None = None
    """Victims of all members of the pod's gang; None for a pod that is placed alone."""
    record_revision: int | None = None
    """Mod revision of the attempt record that may be overwritten; None = any."""
    keeps: str = ""
    """The node where the pod stays nominated, whatever is there now; empty where that depends."""

    @property
    def reference(self) -> PodReference:
        """The pod that was refused."""
        return PodReference(
            PodKey(self.request.namespace, self.request.name), self.request.uid, self.request.create_revision
        )

    def without_nomination(self, *, keeps: str = "") -> RefusalToRecord:
        """The refusal alone; no pod is evicted. `keeps`: the node where the pod stays nominated."""
        request = self.request.model_copy(update={"nominated_node": "", "victims": (), "victim_count": 0})
        return replace(self, request=request, keeps=keeps)


class Nominations:
    """Checks and keeps the nominations of one worker's refusals."""

    def __init__(self, core: Core) -> None:
        self._store = core.process.store
        self._cache = core.pool.cache
        self._profiles = core.pool.profiles
        self._utc_now = core.process.utc_now
        self._catch_up = core.settings.catch_up
        """Seconds to wait for the watch to show what a decision has seen."""

    async def with_all_victims(self, refusal: RefusalToRecord, pod: Pod) -> tuple[RefusalToRecord, bool]:
        """Decide again which pods are the victims, where they are too many to travel; the digest must be the same.

        The refusal with all of them; or without a nomination, and False.
        """
        request = refusal.request
        await self._cache.progress.wait_for(request.revision, self._catch_up)
        profile = self._profiles.get(pod.scheduler_name)
        if profile is not None:
            answers = answered(request.answers)
            found = profile.evaluate(
                pod,
                self._cache.snapshot(excluding=pod.identity),
                verdicts=answers.verdicts,
                preemption=answers.preemption,
            )
            victims = preemption.victims(found.victims)
            if found.nominated_node == request.nominated_node and digest(victims) == request.victims_digest:
                return replace(refusal, request=request.model_copy(update={"victims": victims})), True
        return refusal.without_nomination(), False

    async def checked(self, refusal: RefusalToRecord, pod: Pod) -> RefusalToRecord:
        """The refusal as it is; without its nomination where evicting would not help, or is not needed any more.

        Raises `StoreError`.
        """
        snapshot = self._cache.snapshot(excluding=pod.identity)
        if not self._makes_room(refusal, pod, snapshot):
            return refusal.without_nomination()
        if refusal.gang_victims is None and await self._others_give_way(pod, snapshot):
            return refusal.without_nomination(keeps=pod.nominated_node_name)
        return refusal

    def kept(self, pod: Pod) -> str:
        """The earlier nomination, where it stays: see `preemption.stays_nominated`."""
        profile = self._profiles.get(pod.scheduler_name)
        snapshot = self._cache.snapshot(excluding=pod.identity)
        stays = preemption.stays_nominated(pod, profile, snapshot, self._utc_now())
        return pod.nominated_node_name if stays else ""

    def _makes_room(self, refusal: RefusalToRecord, pod: Pod, snapshot: Snapshot) -> bool:
        """Whether the pod fits its nominated node now without the victims, and no node with them.

        Some members of a gang may fit with them; all must fit without.
        """
        node = refusal.request.nominated_node
        profile = self._profiles.get(pod.scheduler_name)
        if profile is None or node not in snapshot:
            return False
        verdicts = answered(refusal.request.answers).verdicts
        if (
            refusal.gang_victims is None
            and profile.evaluate(pod, snapshot, preempt=False, verdicts=verdicts).node is not None
        ):
            return False  # the pod fits by now, so no pod has to leave
        left = preemption.without(snapshot, node, refusal.gang_victims or refusal.request.victims)
        return profile.verify(pod, left, node).ok

    async def _others_give_way(self, pod: Pod, snapshot: Snapshot) -> bool:
        """Whether the pod's earlier room is free as soon as the evictions for pods nominated there later are done.

        Its victims have left, another pod as important was nominated to the same node, and that one's victims still
        run there: then both fit in a moment, and evicting more pods elsewhere would be needless. kube-scheduler
        decides one pod after the other, so for it the moment is hardly there.
        """
        node, profile = pod.nominated_node_name, self._profiles.get(pod.scheduler_name)
        others = [one for one in snapshot.nominated.get(node, ()) if one.key != pod.key]
        if not others or profile is None or node not in snapshot:
            return False
        about_to_leave: list[Victim] = []
        for other in others:
            about_to_leave += await self._about_to_leave(other, snapshot)
        return (
            bool(about_to_leave)
            and profile.verify(pod, preemption.without(snapshot, node, tuple(about_to_leave)), node).ok
        )

    async def _about_to_leave(self, preemptor: Pod, snapshot: Snapshot) -> tuple[Victim, ...]:
        """Victims of the preemptor's nomination that its attempt evicts about now."""
        node = preemptor.nominated_node_name
        kv = (await self._store.get(keys.attempt(*preemptor.key))).kv
        record = _readable(kv.value) if kv is not None else None
        if record is None or record.nominated_node != node or record.create_revision != preemptor.create_revision:
            return ()
        if not _is_young(record.time, self._utc_now()):
            return ()
        there = snapshot.info(node).pods.values()
        return preemption.victims(
            tuple(one for one in there if str(one.key) in record.victims and one.priority < preemptor.priority)
        )


def _readable(value: bytes) -> AttemptRecord | None:
    try:
        return AttemptRecord.model_validate_json(value)
    except ValidationError:
        return None  # a stranger wrote it: it promises nothing


def _is_young(time: str, now: datetime) -> bool:
    try:
        return now - datetime.fromisoformat(time) < OTHERS_EVICT_WITHIN
    except (ValueError, TypeError):
        return False
