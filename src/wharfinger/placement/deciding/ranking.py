"""Picking members one after the other: by spread, then affinity, then whether they were chosen before, then name.

Members that have the same values of the spread's labels share one judgement, so that a pick costs as much as there are
such groups, not as there are members.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from wharfinger.placement.deciding import spread
from wharfinger.placement.deciding.deviations import D1, D4
from wharfinger.placement.deciding.spread import Domains, Judgement
from wharfinger.placement.model.members import Member
from wharfinger.placement.model.placement import ClusterSpread, MemberScores


@dataclass(frozen=True, slots=True)
class MemberCandidate:
    """A member that every filter before spread passes."""

    member: Member
    affinity: int
    sticky: bool
    """Whether it was chosen under an older policy."""


@dataclass(slots=True)
class Ranking:
    """Candidates, best first, and the spread they are judged by."""

    constraints: Sequence[ClusterSpread]
    counts: Sequence[Domains]
    without: frozenset[str] = frozenset()
    """The deviations that are undone."""
    triggered: set[str] = field(default_factory=set)
    """The deviations that came into play."""
    _groups: dict[tuple[str | None, ...], list[MemberCandidate]] = field(default_factory=dict)
    """By the values of the spread's labels; the best candidate last."""
    _sticky: int = 0
    """Candidates that were chosen before."""
    _forget: bool = False

    def put(self, candidates: Iterable[MemberCandidate]) -> None:
        """Add candidates."""
        for one in candidates:
            self._sticky += one.sticky
            self._groups.setdefault(self._values(one.member), []).append(one)
        for group in self._groups.values():
            group.sort(key=_rank)

    def pick(self, count: int) -> list[tuple[Member, MemberScores]]:
        """Take the best ones, one after the other; fewer where too few are left, or allowed. The best is first.

        What `rest` says afterwards is by the state before the last pick, or after it where one more was wanted.
        """
        picked: list[tuple[Member, MemberScores]] = []
        if not self.constraints:
            group = self._groups.get((), [])
            for _ in range(min(count, len(group))):
                best = group.pop()
                picked.append((best.member, MemberScores(0, best.affinity)))
            return picked
        while True:
            self._judge()
            if len(picked) == count:
                return picked
            found = self._best()
            if found is None:
                return picked
            values, candidate = found
            group = self._groups[values]
            group.remove(candidate)
            picked.append((candidate.member, MemberScores(self._judged[values].score, candidate.affinity)))
            if len(picked) == count:
                return picked
            self._count(candidate)

    def rest(self) -> tuple[list[tuple[Member, MemberScores]], list[tuple[Member, ClusterSpread]]]:
        """Who was not picked, best first, with scores; and who would violate a constraint."""
        if not self.constraints:
            return [(one.member, MemberScores(0, one.affinity)) for one in reversed(self._groups.get((), []))], []
        scored: list[tuple[tuple[MemberScores, bool, str], Member]] = []
        refused: list[tuple[Member, ClusterSpread]] = []
        for values, group in self._groups.items():
            if not group:
                continue
            judgement = self._judged[values]
            if judgement.violated is not None:
                refused += [(one.member, judgement.violated) for one in group]
            else:
                scored += [
                    ((MemberScores(judgement.score, one.affinity), self._is_sticky(one), one.member.name), one.member)
                    for one in group
                ]
        scored.sort(key=lambda one: one[0], reverse=True)
        return [(member, rank[0]) for rank, member in scored], refused

    _judged: dict[tuple[str | None, ...], Judgement] = field(default_factory=dict)

    def _values(self, member: Member) -> tuple[str | None, ...]:
        return tuple([member.labels.get(constraint.key) for constraint in self.constraints])

    def _judge(self) -> None:
        undone = D1 in self.without
        self._judged = {}
        for values, group in self._groups.items():
            if not group:
                continue
            member = group[-1].member
            self._judged[values] = spread.judge(self.constraints, self.counts, member, upstream=undone)
            if not undone and D1 not in self.triggered:
                other = spread.judge(self.constraints, self.counts, member, upstream=True)
                if other != self._judged[values]:
                    self.triggered.add(D1)

    def _best(self) -> tuple[tuple[str | None, ...], MemberCandidate] | None:
        best = None
        for values, judgement in self._judged.items():
            group = self._groups[values]
            if judgement.violated is not None or not group:
                continue
            candidate = group[-1] if not self._forget else max(group, key=lambda one: (one.affinity, one.member.name))
            rank = judgement.score, candidate.affinity, self._is_sticky(candidate), candidate.member.name
            if best is None or rank > best[0]:
                best = rank, values, candidate
        return None if best is None else best[1:]

    def _is_sticky(self, candidate: MemberCandidate) -> bool:
        return candidate.sticky and not self._forget

    def _count(self, picked: MemberCandidate) -> None:
        for domain in self.counts:
            domain.add(picked.member)
        self._sticky -= picked.sticky
        if self._sticky:
            self.triggered.add(D4)
            self._forget = D4 in self.without


def _rank(candidate: MemberCandidate) -> tuple[int, bool, str]:
    return candidate.affinity, candidate.sticky, candidate.member.name
