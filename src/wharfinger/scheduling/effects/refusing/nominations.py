"""Nominations: which pods have to leave for a pending pod, and whether its nomination still stands when it is recorded.

A nominated pod waits for its victims. While they leave, it keeps the nomination, and the plugin preempts no other pod
for it. Victims that are still there 30 s after they should have ended are reported; nothing forces them.

A refusal may be recorded long after it was decided. So `NominationsNow` looks at its victims on the current snapshot:
the pod is nominated, keeps its nomination, or neither, and pods are evicted only where nothing less helps.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from wharfinger.errors import PluginError
from wharfinger.etcd import keys
from wharfinger.framework.plugins.default_preemption import is_leaving
from wharfinger.framework.profile import Profile
from wharfinger.framework.snapshot import Snapshot
from wharfinger.objects.model.pod import Pod, PodIdentity, PodKey
from wharfinger.process.failures import gather_to_end
from wharfinger.process.records import AttemptRecord
from wharfinger.scheduling.contracts.eviction import Victim, digest
from wharfinger.scheduling.effects.binding.core import Core
from wharfinger.scheduling.effects.placing.extenders import answered
from wharfinger.scheduling.effects.refusing.refusal_writing import RefusalToRecord

OVERDUE_AFTER = 30.0
"""Seconds past the end of its grace after which a victim is overdue."""


@dataclass(frozen=True, slots=True)
class Leaving:
    """Pods that were evicted from a pending pod's nominated node and are still there."""

    seconds: float = 0.0
    """Until the last one is overdue; 0 when it is already, or none is there."""
    present: bool = False
    overdue: tuple[PodKey, ...] = ()

    @property
    def report(self) -> str:
        """A sentence for the pod's condition; empty when no victim is overdue."""
        if not self.overdue:
            return ""
        names = ", ".join(map(str, self.overdue[:5])) + (", ..." if len(self.overdue) > 5 else "")
        return f" Evicted pods are still there though their grace is over: {names}."


NONE_LEAVING = Leaving()


def leaving(pod: Pod, snapshot: Snapshot, now: datetime) -> Leaving:
    """The pods that leave the pod's nominated node because of a preemption."""
    node_name = pod.nominated_node_name
    if not node_name or node_name not in snapshot:
        return NONE_LEAVING
    pods = [one for one in snapshot.info(node_name).pods.values() if is_leaving(one, pod)]
    if not pods:
        return NONE_LEAVING
    left = {one.key: until_overdue(one.deletion_timestamp, now) for one in pods}
    overdue = sorted(key for key, seconds in left.items() if seconds <= 0)
    return Leaving(max(0.0, *left.values()), True, tuple(overdue))


def stays_nominated(pod: Pod, profile: Profile | None, snapshot: Snapshot, now: datetime) -> bool:
    """Whether a refused pod keeps its nomination: while its victims are leaving, and while it fits there alone.

    A pod that fits was refused by a plugin at Reserve or later. Its room was made by evictions, and must not go to a
    less important pod before the next attempt. `snapshot`: without the pod. A member of a gang does not keep its
    nomination for the second reason, because the gang may not fit; nor does a pod of which an extender has a say.
    """
    node = pod.nominated_node_name
    if leaving(pod, snapshot, now).present:
        return True
    if not node or pod.group or profile is None or profile.extenders_of(pod):
        return False
    try:
        return profile.verify(pod, snapshot, node).ok
    except PluginError:
        return False  # its next attempt meets the error again, and reports it


def until_overdue(deletion_timestamp: str, now: datetime) -> float:
    """Seconds until a terminating pod is overdue; negative when it is. A time that cannot be read counts as now."""
    try:
        ends = datetime.fromisoformat(deletion_timestamp)
    except ValueError:
        ends = now
    if ends.tzinfo is None:
        ends = ends.replace(tzinfo=UTC)
    return (ends - now + timedelta(seconds=OVERDUE_AFTER)).total_seconds()


def as_victims(pods: tuple[Pod, ...]) -> tuple[Victim, ...]:
    """As they travel."""
    return tuple(Victim(pod=str(pod.key), create_revision=pod.create_revision, uid=pod.uid) for pod in pods)


def victim_identity(victim: Victim) -> PodIdentity:
    """The very pod that is meant."""
    namespace, _, name = victim.pod.partition("/")
    return PodIdentity(namespace, name, victim.create_revision)


def without_victims(snapshot: Snapshot, node_name: str, gone: tuple[Victim, ...]) -> Snapshot:
    """The snapshot as it will be when the victims have left the node."""
    row = snapshot.index.get(node_name)
    if row is None:
        return snapshot
    info = snapshot.rows[row].without_pods(victim_identity(victim) for victim in gone)
    return snapshot.with_pods_changed({row: info})


OTHERS_EVICT_WITHIN = timedelta(seconds=30)
"""How long a nomination counts as one whose evictions are about to happen."""
MOST_OTHERS = 16
"""Other pods nominated to a node whose records are read; the victims of more important ones leave first."""

OthersRecords = Mapping[PodKey, tuple[AttemptRecord, int]]


class NominationsNow:
    """Looks anew at the nominations of one worker's refusals, on the current snapshot."""

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
            victims = as_victims(found.victims)
            if found.nominated_node == request.nominated_node and digest(victims) == request.victims_digest:
                return replace(refusal, request=request.model_copy(update={"victims": victims})), True
        return refusal.without_nomination(), False

    async def others_records(self, refusal: RefusalToRecord, pod: Pod) -> OthersRecords:
        """The attempt records of the other pods that are nominated to the pod's node, with their mod revisions.

        Only where they may count: see `checked`, which makes no reads, so that what it checks is what is compared.
        Raises `StoreError`.
        """
        if not refusal.request.victims or refusal.gang_victims is not None or not pod.nominated_node_name:
            return {}
        there = self._cache.nominated_on(pod.nominated_node_name)
        others = [one for one in there if one.key != pod.key and one.priority >= pod.priority][:MOST_OTHERS]
        reads = await gather_to_end(self._store.get(keys.attempt(*one.key)) for one in others)
        return {
            one.key: (record, read.kv.mod_revision)
            for one, read in zip(others, reads, strict=True)
            if read.kv is not None and (record := AttemptRecord.from_bytes(read.kv.value)) is not None
        }

    def checked(self, refusal: RefusalToRecord, pod: Pod, others: OthersRecords) -> RefusalToRecord:
        """The refusal as it is; without its nomination where evicting would not help, or is not needed any more.

        `others`: see `others_records`.
        """
        snapshot = self._cache.snapshot(excluding=pod.identity)
        if not self._makes_room(refusal, pod, snapshot):
            return refusal.without_nomination()
        if others and self._others_give_way(pod, snapshot, others):
            return refusal.without_nomination(keeps=pod.nominated_node_name)
        return refusal

    def kept(self, pod: Pod) -> str:
        """The earlier nomination, where it stays: see `preemption.stays_nominated`."""
        profile = self._profiles.get(pod.scheduler_name)
        snapshot = self._cache.snapshot(excluding=pod.identity)
        stays = stays_nominated(pod, profile, snapshot, self._utc_now())
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
        left = without_victims(snapshot, node, refusal.gang_victims or refusal.request.victims)
        return profile.verify(pod, left, node).ok

    def _others_give_way(self, pod: Pod, snapshot: Snapshot, others: OthersRecords) -> bool:
        """Whether the pod fits its nominated node as soon as the evictions for others nominated there are done.

        They count there with all of their requests, while their victims still run. kube-scheduler decides one pod after
        the other, so for it that moment is hardly there; here other pods would be evicted elsewhere for nothing.
        """
        node, profile = pod.nominated_node_name, self._profiles.get(pod.scheduler_name)
        if profile is None or node not in snapshot or profile.extenders_of(pod):
            return False
        about_to_leave: list[Victim] = []
        for other in snapshot.nominated.get(node, ()):
            if other.key in others:
                about_to_leave += self._about_to_leave(other, snapshot, *others[other.key])
        if not about_to_leave:
            return False
        try:
            return profile.verify(pod, without_victims(snapshot, node, tuple(about_to_leave)), node).ok
        except PluginError:
            return False  # its next attempt meets the error again, and reports it

    def _about_to_leave(
        self, preemptor: Pod, snapshot: Snapshot, record: AttemptRecord, written: int
    ) -> tuple[Victim, ...]:
        """Victims of the preemptor's nomination that its attempt evicts about now. `written`: the record's revision."""
        node = preemptor.nominated_node_name
        if record.nominated_node != node or record.create_revision != preemptor.create_revision:
            return ()
        if not _is_young(record.time, self._utc_now()):
            return ()
        return as_victims(
            tuple(
                one
                for one in snapshot.info(node).pods.values()
                # A pod that was created later only has a victim's name.
                if str(one.key) in record.victims
                and one.create_revision <= written
                and one.priority < preemptor.priority
            )
        )


def _is_young(time: str, now: datetime) -> bool:
    try:
        return abs(now - datetime.fromisoformat(time)) < OTHERS_EVICT_WITHIN  # clocks differ a little
    except (ValueError, TypeError):
        return False
