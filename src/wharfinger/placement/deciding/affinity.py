"""Required and preferred affinity: whom a policy accepts by labels and properties, and whom it likes more.

It also has how properties of members are read, compared, and share out a weight. What it finds out about a member is
kept with the member, which never changes: the next decision by an equal affinity only looks it up.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from operator import attrgetter
from typing import cast

from wharfinger.objects.model.quantities import WrittenAmount, parse_amount
from wharfinger.placement.model.members import RESOURCES, Member, resource_of
from wharfinger.placement.model.placement import (
    ClusterPreference,
    ClusterTerm,
    PlacementPolicy,
    PropertyOperator,
    PropertyRequirement,
)


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A property, or a requirement, that cannot be evaluated."""

    why: str


Reading = WrittenAmount | Unreadable | None
"""None: a member has no property of that name."""

_UNREAD = object()


def amount_of(member: Member, name: str, *, dashes: bool) -> Reading:
    """A property of a member. `dashes`: names of resources may have some."""
    found = member.known.get(name, _UNREAD)
    if found is _UNREAD:
        found = member.known[name] = _read(member, name)
    if not dashes and name.startswith(RESOURCES) and name.count("-", len(RESOURCES)) > 1:
        return Unreadable(f"invalid resource property name: {name.removeprefix(RESOURCES)}")
    return cast("Reading", found)


def _read(member: Member, name: str) -> Reading:
    if name.startswith(RESOURCES):
        found = resource_of(name)
        if found is None:
            return Unreadable(f"invalid resource property name: {name.removeprefix(RESOURCES)}")
        kind, resource = found
        usage = member.usage
        amounts = usage.capacity if kind == "total" else usage.allocatable if kind == "allocatable" else usage.available
        value = amounts.get(resource)
    else:
        value = member.properties.get(name)
    if value is None:
        return None
    try:
        return parse_amount(value)
    except ValueError:
        return Unreadable(f"value {value} of property {name} from cluster {member.name} is not a valid quantity")


def satisfies(member: Member, requirement: PropertyRequirement, *, dashes: bool) -> bool | Unreadable:
    """Whether a property compares as it is required."""
    amount = amount_of(member, requirement.name, dashes=dashes)
    if amount is None:
        return False
    if isinstance(amount, Unreadable):
        return amount
    if len(requirement.values) != 1:
        return Unreadable("more than one value in the property selector expression")
    try:
        wanted = parse_amount(requirement.values[0]).nanos
    except ValueError:
        return Unreadable(f"value specified in property selector {requirement.values[0]} is no valid resource quantity")
    found = amount.nanos
    match requirement.operator:
        case PropertyOperator.EQ:
            return found == wanted
        case PropertyOperator.NE:
            return found != wanted
        case PropertyOperator.GT:
            return found > wanted
        case PropertyOperator.GE:
            return found >= wanted
        case PropertyOperator.LT:
            return found < wanted
        case PropertyOperator.LE:
            return found <= wanted
        case other:
            return Unreadable(f"invalid operator: {other}")


@dataclass(frozen=True, slots=True)
class Range:
    """The smallest and the largest amount of a property among all members; the first of equal ones."""

    low: WrittenAmount
    high: WrittenAmount
    spelled_apart: bool = False
    """Whether an end of it is written in two ways that are different floats."""


def interpolated(weight: int, order: str, amount: WrittenAmount, among: Range, *, exactly: bool) -> int | Unreadable:
    """How much of a weight an amount gets: all of it at one end of the range, none at the other.

    `(v - low) / (high - low) * weight` for Descending, one minus that for Ascending, rounded half away from zero.
    `exactly`: an amount that equals an end of the range is that end, however it was written; else floats are compared.
    """
    value, low, high = amount.approximate, among.low.approximate, among.high.approximate
    if exactly:
        if amount.nanos == among.low.nanos:
            value = low
        elif amount.nanos == among.high.nanos:
            value = high
        if among.low.nanos == among.high.nanos:
            return 0
    if math.isinf(low) or math.isinf(high) or low > high or value < low or value > high:
        return Unreadable(f"cannot interpolate weight, observed value {value}, observed min {low}, observed max {high}")
    if low == high:
        return 0
    match order:
        case "Descending":
            share = (value - low) / (high - low) * weight
        case "Ascending":
            share = (1 - (value - low) / (high - low)) * weight
        case _:
            return Unreadable(f"cannot interpolate weight as sort order {order} is invalid")
    return int(math.copysign(math.floor(abs(share) + 0.5), share))


KNOWN_LIMIT = 256
"""Facts kept with a member: those of policies and ranges that are gone are forgotten, now and then, with all others."""

_nanos = attrgetter("nanos")


@dataclass(frozen=True, slots=True)
class Ranges:
    """The range of every property that a policy sorts by."""

    spans: tuple[tuple[str, Range | None], ...]
    unreadable: Unreadable | None
    """The first member's property that cannot be read: that member counts for no range."""

    @property
    def spelled_apart(self) -> bool:
        """Whether an end of a range is written in two ways that are different floats."""
        return any(span is not None and span.spelled_apart for _, span in self.spans)


@dataclass(frozen=True, slots=True, eq=False)
class Affinity:
    """The affinity of a policy."""

    required: tuple[ClusterTerm, ...]
    preferred: tuple[ClusterPreference, ...]
    dashes: bool
    """Whether names of resources may have dashes."""
    exactly: bool
    """Whether equal amounts are one value however they are written."""

    def accepts(self, member: Member) -> bool | Unreadable:
        """Whether one of the terms matches. The first that cannot be read ends it, unless one before it matched."""
        found = member.known.get(self)
        if isinstance(found, bool | Unreadable):
            return found
        accepted = next((matched for term in self.required if (matched := self._matches(term, member))), False)
        _remember(member, self, accepted)
        return accepted

    def ranges(self, members: tuple[Member, ...]) -> Ranges:
        """Over all members, also those that are refused."""
        names = dict.fromkeys(one.sorter.name for one in self.preferred if one.sorter is not None)
        found = {name: _range(members, name, self.dashes) for name in names}
        unreadable = next((bad for _, bad in found.values() if bad is not None), None)
        return Ranges(tuple((name, span) for name, (span, _) in found.items()), unreadable)

    def _matches(self, term: ClusterTerm, member: Member) -> bool | Unreadable:
        if term.labels is not None and not term.labels.matches(member.labels):
            return False
        for requirement in term.properties:
            satisfied = satisfies(member, requirement, dashes=self.dashes)
            if satisfied is not True:
                return satisfied
        return True


@dataclass(frozen=True, slots=True, eq=False)
class Liking:
    """How much a policy likes members, as long as the ranges are these."""

    affinity: Affinity
    spans: Mapping[str, Range | None]

    def score(self, member: Member) -> int | Unreadable:
        """The sum of what each preference gives a member."""
        found = member.known.get(self)
        if isinstance(found, int | Unreadable):
            return found
        liked = self._score(member)
        _remember(member, self, liked)
        return liked

    def _score(self, member: Member) -> int | Unreadable:
        total = 0
        for preference in self.affinity.preferred:
            labels, sorter = preference.labels, preference.sorter
            if preference.weight == 0 or (labels is not None and not labels.matches(member.labels)):
                continue
            if sorter is None:
                total += preference.weight
                continue
            amount = amount_of(member, sorter.name, dashes=self.affinity.dashes)
            if isinstance(amount, Unreadable):
                return amount
            span = self.spans[sorter.name]
            if amount is None or span is None:
                continue
            share = interpolated(preference.weight, sorter.order, amount, span, exactly=self.affinity.exactly)
            if isinstance(share, Unreadable):
                return share
            total += share
        return total


def affinity_of(policy: PlacementPolicy, *, dashes: bool, exactly: bool) -> Affinity:
    """The affinity of a policy; the same one for equal policies."""
    return _affinity(policy.required, policy.preferred, dashes, exactly)


@lru_cache(maxsize=1024)
def _affinity(
    required: tuple[ClusterTerm, ...],
    preferred: tuple[ClusterPreference, ...],
    dashes: bool,
    exactly: bool,
) -> Affinity:
    return Affinity(required, preferred, dashes, exactly)


@lru_cache(maxsize=1024)
def liking(affinity: Affinity, ranges: Ranges) -> Liking:
    """The liking of an affinity over ranges; the same one for equal ranges."""
    return Liking(affinity, dict(ranges.spans))


@lru_cache(maxsize=64)
def _range(members: tuple[Member, ...], name: str, dashes: bool) -> tuple[Range | None, Unreadable | None]:
    """The range of a property, and the first that cannot be read; None where no member has it."""
    amounts, unreadable = [], None
    for member in members:
        amount = amount_of(member, name, dashes=dashes)
        if isinstance(amount, WrittenAmount):
            amounts.append(amount)
        elif amount is not None and unreadable is None:
            unreadable = amount
    if not amounts:
        return None, unreadable
    low, high = min(amounts, key=_nanos), max(amounts, key=_nanos)
    ends = {(one.nanos, one.approximate) for one in amounts if one.nanos in (low.nanos, high.nanos)}
    return Range(low, high, spelled_apart=len(ends) > len({nanos for nanos, _ in ends})), unreadable


def _remember(member: Member, key: object, value: object) -> None:
    if len(member.known) >= KNOWN_LIMIT:
        member.known.clear()
    member.known[key] = value
