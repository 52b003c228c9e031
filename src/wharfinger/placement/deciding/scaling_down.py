"""Scaling a placement down: which of the chosen members are given up, so that hard spread constraints hold afterwards.

KubeFleet gives up the lowest scores wherever they are, which may leave all members in one domain. Pure.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from wharfinger.placement.model.members import Member
from wharfinger.placement.model.placement import ClusterSpread

STEPS, MOST_GROUPS = 5_000, 200
"""Choices that are tried at most where several constraints have to hold together, and among how many groups."""

_Values = tuple[str | None, ...]
"""A member's domain under each constraint; None = it lacks the label, and is outside that spread."""


def given_up(
    order: Sequence[Member], count: int, constraints: Sequence[ClusterSpread], domains: Sequence[Collection[str]]
) -> list[Member] | None:
    """The members to give up; None where no choice keeps every constraint.

    Args:
        order: the chosen members; of members that may go, the first go.
        count: how many are given up.
        constraints: the hard ones.
        domains: the values that count under each constraint; those of `order` are among them.
    """
    groups: dict[_Values, deque[Member]] = {}
    for member in order:
        groups.setdefault(tuple(member.labels.get(one.key) for one in constraints), deque()).append(member)
    spreads = [
        _Spread(one.max_skew, at, dict.fromkeys(values, 0))
        for at, (one, values) in enumerate(zip(constraints, domains, strict=True))
    ]
    for values, group in groups.items():
        for spread in spreads:
            spread.add(values, len(group))
    kept = {values: len(group) for values, group in groups.items()}
    _give_up(groups, kept, spreads, count, {member.name: at for at, member in enumerate(order)})
    if any(spread.excess() for spread in spreads):
        # Giving up one by one is exact for one constraint: with several, one may have to suffer for the others first.
        searchable = len(spreads) > 1 and len(groups) <= MOST_GROUPS
        found = _searched(groups, spreads, len(order) - count) if searchable else None
        if found is None:
            return None
        kept = found
    return [member for values, group in groups.items() for member in list(group)[: len(group) - kept[values]]]


@dataclass(slots=True)
class _Spread:
    """The members that are kept in each domain of one constraint."""

    max_skew: int
    at: int
    """Place of the constraint in a member's values."""
    counts: dict[str, int]
    _ends: tuple[int, int, int] | None = field(default=None)
    """Fewest, most, and how many domains have the most; None = a count changed."""

    def add(self, values: _Values, members: int) -> None:
        """Count members in their domain."""
        value = values[self.at]
        if value is not None:
            self.counts[value] = self.counts.get(value, 0) + members
            self._ends = None

    def excess(self, values: _Values | None = None) -> int:
        """By how much the skew exceeds its limit, also once one member with these values is gone."""
        if not self.counts:
            return 0
        fewest, most, fullest = self._found()
        value = values[self.at] if values is not None else None
        if value is not None:
            left = self.counts[value] - 1
            most -= left + 1 == most and fullest == 1
            fewest = min(fewest, left)
        return max(0, most - fewest - self.max_skew)

    def overfills(self, values: _Values) -> bool:
        """Whether the domain of a member with these values has more members than the skew allows."""
        value = values[self.at]
        return value is not None and self.counts[value] > self._found()[0] + self.max_skew

    def _found(self) -> tuple[int, int, int]:
        if self._ends is None:
            most = max(self.counts.values())
            self._ends = min(self.counts.values()), most, sum(one == most for one in self.counts.values())
        return self._ends


def _give_up(
    groups: Mapping[_Values, deque[Member]],
    kept: dict[_Values, int],
    spreads: Sequence[_Spread],
    count: int,
    order: Mapping[str, int],
) -> None:
    """Give up one after the other: where the spread suffers least, the first in order. Exact for one constraint."""
    for _ in range(count):
        values = min(
            (values for values, left in kept.items() if left),
            key=lambda one: (
                sum(spread.excess(one) for spread in spreads),
                # Where several domains are the fullest, no single member lessens the skew, but one has to begin.
                -sum(spread.overfills(one) for spread in spreads),
                order[groups[one][len(groups[one]) - kept[one]].name],
            ),
        )
        kept[values] -= 1
        for spread in spreads:
            spread.add(values, -1)


def _searched(
    groups: Mapping[_Values, deque[Member]], spreads: Sequence[_Spread], wanted: int
) -> dict[_Values, int] | None:
    """How many of each group to keep so that every constraint holds; None where none is found in `STEPS`."""
    names, sizes = list(groups), [len(group) for group in groups.values()]
    # The smallest domain has at most the average, so no domain may have more than that and the skew.
    tops = [wanted // max(1, len(one.counts)) + one.max_skew for one in spreads]
    empty = [_Spread(one.max_skew, one.at, dict.fromkeys(one.counts, 0)) for one in spreads]
    steps = iter(range(STEPS))  # shared by all levels of the recursion

    def choices(at: int, left: int) -> Iterator[list[int]]:
        if next(steps, None) is None or left > sum(sizes[at:]):
            return
        if at == len(names):
            if not any(spread.excess() for spread in empty):
                yield []
            return
        values = names[at]
        rooms = [
            top - spread.counts[value]
            for spread, top in zip(empty, tops, strict=True)
            if (value := values[spread.at]) is not None
        ]
        for number in range(min([left, sizes[at], *rooms]), -1, -1):
            for spread in empty:
                spread.add(values, number)
            for rest in choices(at + 1, left - number):
                yield [number, *rest]
            for spread in empty:
                spread.add(values, -number)

    found = next(choices(0, wanted), None)
    return dict(zip(names, found, strict=True)) if found is not None else None
