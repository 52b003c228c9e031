"""Topology spread, and picking members by it, then by affinity, by whether they were chosen before, and by name.

Members are picked one after the other. Members that have the same values of the spread's labels share one judgement,
so that a pick costs as much as there are such groups, not as there are members.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from wharfinger.placement.deciding.deviations import D1, D4, Deviations
from wharfinger.placement.model.members import Member
from wharfinger.placement.model.placement import ClusterSpread, MemberScores

SPREAD = "TopologySpreadConstraints"
PENALTY = 1000
"""What a ScheduleAnyway constraint costs that would be violated."""


@dataclass(slots=True)
class Domains:
    """Counts of chosen members by the value of one label."""

    key: str
    counts: dict[str, int]
    _ordered: list[int] | None = None
    """The counts in order, until one changes."""

    def add(self, member: Member) -> None:
        """One more is chosen."""
        value = member.labels.get(self.key)
        if value is not None:
            self.counts[value] = self.counts.get(value, 0) + 1
            self._ordered = None

    def change(self, value: str) -> int:
        """How the skew changes when one more is chosen in this domain: -1, 0 or 1, as KubeFleet estimates it."""
        ordered, count = self._in_order(), self.counts[value]
        if ordered[-1] == ordered[0]:
            return 1
        if count == ordered[0] and count != ordered[1]:
            return -1
        return 1 if count == ordered[-1] else 0

    def too_uneven(self, value: str, max_skew: int) -> bool:
        """Whether this domain would have more than `max_skew` above the smallest."""
        return self.counts[value] + 1 - self._in_order()[0] > max_skew

    def too_uneven_as_kubefleet(self, value: str, max_skew: int) -> bool:
        """KubeFleet's rule: the skew that there is, changed, exceeds `max_skew`, wherever it comes from."""
        ordered = self._in_order()
        return ordered[-1] - ordered[0] + self.change(value) > max_skew

    def _in_order(self) -> list[int]:
        if self._ordered is None:
            self._ordered = sorted(self.counts.values())
        return self._ordered


def domains(key: str, counted: Iterable[Member], chosen: Sequence[Member]) -> Domains:
    """The domains that some members make, and the counts of the chosen in them."""
    found = Domains(key, {member.labels[key]: 0 for member in counted if key in member.labels})
    for member in chosen:
        found.add(member)
    return found


@dataclass(frozen=True, slots=True)
class Judgement:
    """What the constraints say about a member: its score, or the first hard one that it would violate."""

    score: int
    violated: ClusterSpread | None = None


def judge(
    constraints: Sequence[ClusterSpread], counts: Sequence[Domains], member: Member, *, as_kubefleet: bool
) -> Judgement:
    """Judge a member by all constraints, hard ones first. Whoever lacks a label is outside that spread."""
    score = 0
    for hard in (True, False):
        for constraint, domain in zip(constraints, counts, strict=True):
            value = member.labels.get(constraint.key)
            if constraint.hard is not hard or value is None:
                continue
            uneven = domain.too_uneven_as_kubefleet if as_kubefleet else domain.too_uneven
            if value in domain.counts and uneven(value, constraint.max_skew):
                if hard:
                    return Judgement(0, constraint)
                score -= PENALTY
            elif value in domain.counts:
                score -= domain.change(value)
    return Judgement(score)


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
    deviations: Deviations = field(default_factory=Deviations)
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
            group.sort(key=lambda one: (one.affinity, one.sticky, one.member.name))

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
            self._judge()  # also where nothing is to be picked: `rest` needs it
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
        undone = not self.deviations.holds(D1)
        self._judged = {}
        for values, group in self._groups.items():
            if not group:
                continue
            member = group[-1].member  # spread looks at the group's values only, which all of its members have
            self._judged[values] = judge(self.constraints, self.counts, member, as_kubefleet=undone)
            if not undone and D1 not in self.deviations.noted:
                other = judge(self.constraints, self.counts, member, as_kubefleet=True)
                if other != self._judged[values]:
                    self.deviations.note(D1)

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
        # KubeFleet picks one member a cycle, and its first cycle gives up all others of the older policy.
        if self._sticky:
            self._forget = not self.deviations.note(D4)
