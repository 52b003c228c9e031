"""Topology spread: how many chosen members each value of a label has, and what one more would change."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from wharfinger.placement.model.members import Member
from wharfinger.placement.model.placement import ClusterSpread

NAME = "TopologySpreadConstraints"
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

    def too_uneven_upstream(self, value: str, max_skew: int) -> bool:
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
    constraints: Sequence[ClusterSpread], counts: Sequence[Domains], member: Member, *, upstream: bool
) -> Judgement:
    """Judge a member by all constraints, hard ones first. Whoever lacks a label is outside that spread."""
    score = 0
    for hard in (True, False):
        for constraint, domain in zip(constraints, counts, strict=True):
            value = member.labels.get(constraint.key)
            if constraint.hard is not hard or value is None:
                continue
            uneven = domain.too_uneven_upstream if upstream else domain.too_uneven
            if value in domain.counts and uneven(value, constraint.max_skew):
                if hard:
                    return Judgement(0, constraint)
                score -= PENALTY
            elif value in domain.counts:
                score -= domain.change(value)
    return Judgement(score)
