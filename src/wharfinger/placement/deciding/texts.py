"""What decisions say. The words are KubeFleet's, so that who reads them there can read them here."""

from __future__ import annotations

from wharfinger.objects.model.selectors import Taint
from wharfinger.placement.model.placement import MemberScores, PolicyCondition

FULFILLED = "SchedulingPolicyFulfilled"
UNFULFILLED = "SchedulingPolicyUnfulfilled"
UNSCHEDULABLE = "ClusterUnschedulable"
"""The code of a refusal by a filter."""

LEFT = "cluster has left the fleet"
NOT_ONLINE = "cluster is not connected to the fleet: member agent not online yet"
NO_HEARTBEAT = "cluster is not connected to the fleet: no heartbeat signal was ever received"
NOT_JOINED = "cluster is not connected to the fleet: member agent not joined yet"
NO_HEALTH = "cluster is not connected to the fleet: health condition from member agent is not available"
NO_TERM = "cluster does not match with any of the required cluster affinity terms"
NO_NAMESPACES = "cluster has no namespace information available"
CORDONED = "cluster is cordoned"
CLOSED = "the cluster takes nothing new, and keeps what it has"
DRAINED = "the cluster is drained"
EXCHANGED = "cluster is drained, and another one took its place"
NO_SUCCESSOR = "the cluster is drained, and no other one can take its place"
LINGERS = "it was evicted, and its work is not gone yet"
NO_NAMESPACE = "target namespace does not exist on cluster"


def chosen(name: str, scores: MemberScores | None) -> str:
    """That a member was chosen."""
    scored = "" if scores is None else f" (affinity score: {scores.affinity}, topology spread score: {scores.spread})"
    return f'Successfully scheduled resources for placement in "{name}"{scored}: picked by scheduling policy'


def not_picked(name: str, scores: MemberScores) -> str:
    """That others scored higher."""
    scored = f"(affinity score: {scores.affinity}, topology spread score: {scores.spread})"
    return f'Cluster "{name}" does not score high enough {scored}'


def not_eligible(name: str, reason: str) -> str:
    """That a member which PickFixed names cannot be chosen."""
    return f'Cluster "{name}" is not eligible for resource placement yet: {reason}'


def not_found(name: str) -> str:
    """That PickFixed names what is no member."""
    return f'Specified cluster "{name}" is not found'


def refused(reason: str) -> str:
    """What a filter's refusal reads as."""
    return f"{UNSCHEDULABLE}, {reason}"


def unreadable(why: str) -> str:
    """That a member cannot be evaluated."""
    return f"cluster cannot be evaluated: {why}"


def object_unreadable(why: str) -> str:
    """That the object of a member cannot be read."""
    return f"the object of the cluster cannot be read: {why}"


def silent(age: float) -> str:
    """That a member was not heard for so many seconds."""
    ago = _minutes(age)
    return f"cluster is not connected to the fleet: no recent heartbeat signals (last received {ago} minutes ago)"


def unhealthy(age: float) -> str:
    """That a member is unhealthy for so many seconds."""
    ago = f"last transitioned {_minutes(age)} minutes ago"
    return f"cluster is not connected to the fleet: unhealthy for a prolonged period of time ({ago})"


def untolerated(taint: Taint) -> str:
    """That a taint keeps the placement away."""
    return f"taint &{{Key:{taint.key} Value:{taint.value} Effect:{taint.effect}}} cannot be tolerated"


def skewed(key: str, max_skew: int) -> str:
    """That a member would make the spread too uneven."""
    return f'violated doNotSchedule topology spread constraint "{key}" (max skew {max_skew})'


def uneven(wanted: int) -> str:
    """That scaling down could not keep the hard spread constraints."""
    kept = f"no {wanted} of the clusters keep every doNotSchedule topology spread constraint"
    return f"{kept}; the lowest scores were given up"


def condition(found: int, *, fulfilled: bool) -> PolicyCondition:
    """Whether the policy is fulfilled by so many members."""
    if fulfilled:
        message = f"found all cluster needed as specified by the scheduling policy, found {found} cluster(s)"
        return PolicyCondition(True, FULFILLED, message)
    message = (
        f"could not find all clusters needed as specified by the scheduling policy, found {found} cluster(s) instead"
    )
    return PolicyCondition(False, UNFULFILLED, message)


def _minutes(age: float) -> str:
    whole, rest = divmod(age, 60)
    return f"{whole + rest / 60:.2f}"
