"""The preemption part of a decision, prepared for the saga: nomination, victims, and victims that take too long.

Pure. A nominated pod waits for its victims. While they leave, it keeps the nomination, and the plugin preempts no other
pod for it. Victims that are still there 30 s after they should have ended are reported; nothing forces them.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from wharfinger.errors import PluginError
from wharfinger.framework.plugins.victims import is_leaving
from wharfinger.framework.profile import Profile
from wharfinger.framework.snapshot import Snapshot
from wharfinger.objects.model.pod import Pod, PodIdentity, PodKey
from wharfinger.scheduling.contracts.eviction import Victim

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


def victims(pods: tuple[Pod, ...]) -> tuple[Victim, ...]:
    """As they travel."""
    return tuple(Victim(pod=str(pod.key), create_revision=pod.create_revision, uid=pod.uid) for pod in pods)


def identity(victim: Victim) -> PodIdentity:
    """The very pod that is meant."""
    namespace, _, name = victim.pod.partition("/")
    return PodIdentity(namespace, name, victim.create_revision)


def without(snapshot: Snapshot, node_name: str, gone: tuple[Victim, ...]) -> Snapshot:
    """The snapshot as it will be when the victims have left the node."""
    row = snapshot.index.get(node_name)
    if row is None:
        return snapshot
    info = snapshot.rows[row].without_pods(identity(victim) for victim in gone)
    return snapshot.with_pods_changed({row: info})
