"""The filters before spread, in KubeFleet's order: affinity, eligibility, namespace, taints.

The first that refuses a member says why.
"""

from __future__ import annotations

from dataclasses import dataclass

from wharfinger.placement.deciding import texts
from wharfinger.placement.deciding.affinity import Affinity
from wharfinger.placement.deciding.eligibility import Ages, why_not_eligible
from wharfinger.placement.deciding.properties import Unreadable
from wharfinger.placement.model.members import Member
from wharfinger.placement.model.placement import Placement

AFFINITY = "ClusterAffinity"
ELIGIBILITY = "ClusterEligibility"
NAMESPACE = "NamespaceAffinity"
TAINTS = "TaintToleration"
CORDON = "Cordon"
EVICTION = "Eviction"
OBJECT = "MemberObject"
"""No filters of KubeFleet: they refuse who is cordoned or drained, who was evicted until its work is gone, and whose
object cannot be read."""


@dataclass(frozen=True, slots=True)
class MemberRefusal:
    """Which filter refused a member, and why."""

    plugin: str
    reason: str


def refusal(
    placement: Placement,
    affinity: Affinity,
    member: Member,
    ages: Ages,
    *,
    upstream: bool,
    lenient: bool = False,
) -> MemberRefusal | Unreadable | None:
    """Why a member is refused; None when it passes.

    `affinity` is the policy's. `upstream`: a missing heart-beat has KubeFleet's age. `lenient`: that its agent is not
    heard, or unhealthy, does not count.
    """
    if affinity.required:
        accepted = affinity.accepts(member)
        if isinstance(accepted, Unreadable):
            return accepted
        if not accepted:
            return MemberRefusal(AFFINITY, texts.NO_TERM)
    why = why_not_eligible(member, ages, upstream=upstream) if not lenient or member.leaving else ""
    if why:
        return MemberRefusal(ELIGIBILITY, why)
    return _by_namespace(placement.ref.namespace, member) or _by_taints(placement, member)


def _by_namespace(namespace: str, member: Member) -> MemberRefusal | None:
    if not namespace or not member.collects_namespaces:
        return None
    if member.namespaces is None:
        return MemberRefusal(NAMESPACE, texts.NO_NAMESPACES)
    return None if namespace in member.namespaces else MemberRefusal(NAMESPACE, texts.NO_NAMESPACE)


def _by_taints(placement: Placement, member: Member) -> MemberRefusal | None:
    for taint in member.taints:
        if not any(toleration.tolerates(taint) for toleration in placement.policy.tolerations):
            return MemberRefusal(TAINTS, texts.untolerated(taint))
    return None
