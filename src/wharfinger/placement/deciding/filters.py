"""The filters before spread, in KubeFleet's order: affinity, eligibility, namespace, taints.

The first that refuses a member says why. `MemberFilter` runs them over all members that are not chosen yet.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from wharfinger.placement.deciding import texts
from wharfinger.placement.deciding.affinity import Affinity, Unreadable, affinity_of, liking
from wharfinger.placement.deciding.deviations import D3, D7, D10, D12, D13, Deviations, Stuck
from wharfinger.placement.deciding.question import Question
from wharfinger.placement.deciding.ranking import MemberCandidate
from wharfinger.placement.model.members import RESOURCES, Ages, Member
from wharfinger.placement.model.placement import MemberVerdict, Placement

TOO_OLD = 300.0
"""Seconds since the last heart-beat, and since a member became unhealthy, from which on it takes nothing."""
EVER = (2**63 - 1) / 1e9
"""Seconds: KubeFleet's age of a moment that is not known. Its clock reads no larger span."""
PART = 26
"""Characters of a placement's name in the name of a binding; a member's has one more."""

_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")


def why_not_eligible(member: Member, ages: Ages, *, as_kubefleet: bool = False) -> str:
    """Why a member takes nothing; empty when it does. `as_kubefleet` gives a missing heart-beat KubeFleet's age."""
    if member.leaving:
        return texts.LEFT
    agent = member.agent
    if agent is None:
        return texts.NOT_ONLINE
    heartbeat = ages.heartbeat
    if heartbeat is None:
        return texts.silent(EVER) if as_kubefleet else texts.NO_HEARTBEAT
    if heartbeat > TOO_OLD:
        return texts.silent(heartbeat)
    if agent.joined is None or not agent.joined.true:
        return texts.NOT_JOINED
    healthy = agent.healthy
    if healthy is None:
        return texts.NO_HEALTH
    health = EVER if ages.health is None else ages.health
    if not healthy.true and health > TOO_OLD:
        return texts.unhealthy(health)
    return ""


def nameable(placement: str, member: str) -> bool:
    """Whether KubeFleet can name a binding: it admits dots in both names, but not in a binding's."""
    return _NAME.fullmatch(f"{placement[:PART]}-{member[: PART + 1]}-0") is not None


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
    as_kubefleet: bool,
    lenient: bool = False,
) -> MemberRefusal | Unreadable | None:
    """Why a member is refused; None when it passes.

    `affinity` is the policy's. `as_kubefleet`: a missing heart-beat has KubeFleet's age. `lenient`: that its agent is
    not heard, or unhealthy, does not count.
    """
    if affinity.required:
        accepted = affinity.accepts(member)
        if isinstance(accepted, Unreadable):
            return accepted
        if not accepted:
            return MemberRefusal(AFFINITY, texts.NO_TERM)
    why = why_not_eligible(member, ages, as_kubefleet=as_kubefleet) if not lenient or member.leaving else ""
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


@dataclass(slots=True)
class MemberFilter:
    """Filters and scores members for one decision."""

    question: Question
    deviations: Deviations

    def lingers(self, name: str) -> bool:
        """Whether a member was evicted, and has not lost its work yet."""
        return name in self.question.standing.lingering and self.deviations.note(D12)

    def keeps(self, name: str, obsolete: Collection[str]) -> bool:
        """Whether a member that takes nothing new keeps what it was chosen for under an older policy."""
        return name in obsolete and self.question.closed(name) and self.deviations.note(D13)

    def closed(self, name: str) -> MemberVerdict | None:
        """The verdict on a member that takes nothing new; None for one that does."""
        if name in self.question.unreadable:
            reason = texts.object_unreadable(self.question.unreadable[name])
            return MemberVerdict(name, OBJECT, texts.UNSCHEDULABLE, texts.refused(reason))
        if name in self.question.cordoned or name in self.question.drained:
            return MemberVerdict(name, CORDON, texts.UNSCHEDULABLE, texts.refused(texts.CORDONED))
        return None

    def filter(
        self, current: Collection[str], obsolete: Collection[str]
    ) -> tuple[list[Member], list[MemberVerdict]] | Stuck:
        """Who passes the filters before spread, and the verdicts on those that do not. The current are not filtered.

        `obsolete`: names of those chosen under an older policy.
        """
        passed, verdicts = [], []
        placement, ages, old = self.question.placement, self.question.ages, not self.deviations.holds(D10)
        dashed = self._has_dashes()
        affinity = self._affinity()
        for member in self.question.members:
            name = member.name
            if name in current:
                continue
            lenient = name in obsolete
            found = refusal(placement, affinity, member, ages[name], as_kubefleet=old, lenient=lenient and not old)
            if lenient and why_not_eligible(member, ages[name]):
                self.deviations.note(D10)
            if isinstance(found, Unreadable):
                if not self.deviations.note(D3) or (dashed and not self.deviations.holds(D7)):
                    return Stuck(found.why)
                verdicts.append(self._unreadable(name, found))
            elif found is not None:
                if found.reason == texts.NO_HEARTBEAT:
                    self.deviations.note(D10)
                verdicts.append(MemberVerdict(name, found.plugin, texts.UNSCHEDULABLE, texts.refused(found.reason)))
            elif self.keeps(name, obsolete):
                passed.append(member)
            elif (closed := self.closed(name)) is not None:
                verdicts.append(closed)
            elif self.lingers(name):
                verdicts.append(MemberVerdict(name, EVICTION, texts.UNSCHEDULABLE, texts.refused(texts.LINGERS)))
            else:
                passed.append(member)
        return passed, verdicts

    def _affinity(self) -> Affinity:
        exactly = self.deviations.holds(D7)
        return affinity_of(self.question.placement.policy, dashes=exactly, exactly=exactly)

    def _has_dashes(self) -> bool:
        """Whether the policy names a resource with a dash."""
        names = [one.name for term in self.question.placement.policy.required for one in term.properties]
        names += [one.sorter.name for one in self.question.placement.policy.preferred if one.sorter is not None]
        dashed = any(name.startswith(RESOURCES) and name.count("-", len(RESOURCES)) > 1 for name in names)
        if dashed:
            self.deviations.note(D7)
        return dashed

    def _unreadable(self, name: str, found: Unreadable) -> MemberVerdict:
        return MemberVerdict(name, AFFINITY, texts.UNSCHEDULABLE, texts.refused(texts.unreadable(found.why)))

    def score(
        self, passed: Sequence[Member], verdicts: list[MemberVerdict], obsolete: Collection[str]
    ) -> list[MemberCandidate] | Stuck:
        """The affinity of each; who cannot be evaluated gets a verdict instead."""
        if not self.question.placement.policy.preferred:
            return [MemberCandidate(member, 0, member.name in obsolete) for member in passed]
        strict = not (self.deviations.holds(D3) and self.deviations.holds(D7))
        affinity = self._affinity()
        among = affinity.ranges(self.question.members)
        if among.unreadable is not None:
            self.deviations.note(D3)
            if strict:
                return Stuck(among.unreadable.why)
        if among.spelled_apart:
            self.deviations.note(D7)
        liked_by = liking(affinity, among)
        found = []
        for member in passed:
            liked = liked_by.score(member)
            if isinstance(liked, Unreadable):
                self.deviations.note(D3)
                if strict:
                    return Stuck(liked.why)
                verdicts.append(self._unreadable(member.name, liked))
                continue
            found.append(MemberCandidate(member, liked, member.name in obsolete))
        return found
