"""Judging the members that are not chosen yet: by every filter before spread, and by affinity."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from wharfinger.placement.deciding import filters, texts
from wharfinger.placement.deciding.affinity import Affinity, affinity_of, liking
from wharfinger.placement.deciding.deviations import D3, D7, D10, D12, D13, Stuck
from wharfinger.placement.deciding.eligibility import why_not_eligible
from wharfinger.placement.deciding.properties import Unreadable
from wharfinger.placement.deciding.question import Question
from wharfinger.placement.deciding.ranking import MemberCandidate
from wharfinger.placement.model.members import RESOURCES, Member
from wharfinger.placement.model.placement import MemberVerdict


@dataclass(slots=True)
class Judge:
    """Judges members for one decision."""

    question: Question
    without: frozenset[str]
    """The deviations that are undone."""
    triggered: set[str]
    """Those that came into play; it adds to them."""

    def lingers(self, name: str) -> bool:
        """Whether a member was evicted, and has not lost its work yet."""
        if name not in self.question.standing.lingering:
            return False
        self.triggered.add(D12)
        return D12 not in self.without

    def keeps(self, name: str, obsolete: Collection[str]) -> bool:
        """Whether a member that takes nothing new keeps what it was chosen for under an older policy."""
        if name not in obsolete or not self.question.closed(name):
            return False
        self.triggered.add(D13)
        return D13 not in self.without

    def closed(self, name: str) -> MemberVerdict | None:
        """The verdict on a member that takes nothing new; None for one that does."""
        if name in self.question.unreadable:
            told = texts.object_unreadable(self.question.unreadable[name])
            return MemberVerdict(name, filters.OBJECT, texts.UNSCHEDULABLE, texts.refused(told))
        if name in self.question.cordoned or name in self.question.drained:
            return MemberVerdict(name, filters.CORDON, texts.UNSCHEDULABLE, texts.refused(texts.CORDONED))
        return None

    def judge(
        self, current: Collection[str], obsolete: Collection[str]
    ) -> tuple[list[Member], list[MemberVerdict]] | Stuck:
        """Who passes the filters before spread, and the verdicts on those that do not. The current are not judged.

        `obsolete`: names of those chosen under an older policy.
        """
        passed, verdicts = [], []
        placement, ages, old = self.question.placement, self.question.ages, D10 in self.without
        dashed = self._has_dashes()
        affinity = self._affinity()
        for member in self.question.members:
            name = member.name
            if name in current:
                continue
            lenient = name in obsolete
            found = filters.refusal(placement, affinity, member, ages[name], upstream=old, lenient=lenient and not old)
            if lenient and why_not_eligible(member, ages[name]):
                self.triggered.add(D10)
            if isinstance(found, Unreadable):
                self.triggered.add(D3)
                if D3 in self.without or (D7 in self.without and dashed):
                    return Stuck(found.why)
                verdicts.append(self._unreadable(name, found))
            elif found is not None:
                if found.reason == texts.NO_HEARTBEAT:
                    self.triggered.add(D10)
                verdicts.append(MemberVerdict(name, found.plugin, texts.UNSCHEDULABLE, texts.refused(found.reason)))
            elif self.keeps(name, obsolete):
                passed.append(member)
            elif (closed := self.closed(name)) is not None:
                verdicts.append(closed)
            elif self.lingers(name):
                verdicts.append(
                    MemberVerdict(name, filters.EVICTION, texts.UNSCHEDULABLE, texts.refused(texts.LINGERS))
                )
            else:
                passed.append(member)
        return passed, verdicts

    def _affinity(self) -> Affinity:
        exactly = D7 not in self.without
        return affinity_of(self.question.placement.policy, dashes=exactly, exactly=exactly)

    def _has_dashes(self) -> bool:
        """Whether the policy names a resource with a dash."""
        names = [one.name for term in self.question.placement.policy.required for one in term.properties]
        names += [one.sorter.name for one in self.question.placement.policy.preferred if one.sorter is not None]
        dashed = any(name.startswith(RESOURCES) and name.count("-", len(RESOURCES)) > 1 for name in names)
        if dashed:
            self.triggered.add(D7)
        return dashed

    def _unreadable(self, name: str, found: Unreadable) -> MemberVerdict:
        return MemberVerdict(name, filters.AFFINITY, texts.UNSCHEDULABLE, texts.refused(texts.unreadable(found.why)))

    def score(
        self, passed: Sequence[Member], verdicts: list[MemberVerdict], obsolete: Collection[str]
    ) -> list[MemberCandidate] | Stuck:
        """The affinity of each; who cannot be evaluated gets a verdict instead."""
        if not self.question.placement.policy.preferred:
            return [MemberCandidate(member, 0, member.name in obsolete) for member in passed]
        strict = not self.without.isdisjoint({D3, D7})
        affinity = self._affinity()
        among = affinity.ranges(self.question.members)
        if among.unreadable is not None:
            self.triggered.add(D3)
            if strict:
                return Stuck(among.unreadable.why)
        if among.spelled_apart:
            self.triggered.add(D7)
        liked_by = liking(affinity, among)
        found = []
        for member in passed:
            liked = liked_by.score(member)
            if isinstance(liked, Unreadable):
                self.triggered.add(D3)
                if strict:
                    return Stuck(liked.why)
                verdicts.append(self._unreadable(member.name, liked))
                continue
            found.append(MemberCandidate(member, liked, member.name in obsolete))
        return found
