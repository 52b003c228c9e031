"""Required and preferred affinity: whom a policy accepts by labels and properties, and whom it likes more."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from operator import attrgetter

from wharfinger.model.amounts import WrittenAmount
from wharfinger.model.members import Member
from wharfinger.model.placement import ClusterPreference, ClusterTerm, PlacementPolicy
from wharfinger.placement.properties import Range, Unreadable, amount_of, interpolated, satisfies

NAME = "ClusterAffinity"

_nanos = attrgetter("nanos")


def accepts(required: Iterable[ClusterTerm], member: Member, *, dashes: bool) -> bool | Unreadable:
    """Whether one of the terms matches. The first that cannot be evaluated ends it, unless one before it matched."""
    for term in required:
        matched = _matches(term, member, dashes=dashes)
        if matched is not False:
            return matched
    return False


def _matches(term: ClusterTerm, member: Member, *, dashes: bool) -> bool | Unreadable:
    if term.labels is not None and not term.labels.matches(member.labels):
        return False
    for requirement in term.properties:
        satisfied = satisfies(member, requirement, dashes=dashes)
        if satisfied is not True:
            return satisfied
    return True


def ranges(
    policy: PlacementPolicy, members: Sequence[Member], *, dashes: bool, strict: bool
) -> Mapping[str, Range | None] | Unreadable:
    """The range of every property that a preference sorts by, over all members, also those that are refused.

    `strict`: a property that cannot be read makes all of it unreadable; else that member has none.
    """
    found: dict[str, Range | None] = {}
    for preference in policy.preferred:
        if preference.sorter is None or preference.sorter.name in found:
            continue
        name = preference.sorter.name
        amounts = []
        for member in members:
            amount = amount_of(member, name, dashes=dashes)
            if isinstance(amount, WrittenAmount):
                amounts.append(amount)
            elif strict and isinstance(amount, Unreadable):
                return amount
        if not amounts:
            found[name] = None
            continue
        low, high = min(amounts, key=_nanos), max(amounts, key=_nanos)
        ends = {(one.nanos, one.approximate) for one in amounts if one.nanos in (low.nanos, high.nanos)}
        found[name] = Range(low, high, spelled_apart=len(ends) > len({nanos for nanos, _ in ends}))
    return found


def score(
    preferred: Iterable[ClusterPreference],
    member: Member,
    among: Mapping[str, Range | None],
    *,
    dashes: bool,
    exactly: bool,
) -> int | Unreadable:
    """The sum of what each preference gives a member."""
    total = 0
    for preference in preferred:
        if preference.weight == 0 or (preference.labels is not None and not preference.labels.matches(member.labels)):
            continue
        sorter = preference.sorter
        if sorter is None:
            total += preference.weight
            continue
        amount = amount_of(member, sorter.name, dashes=dashes)
        if isinstance(amount, Unreadable):
            return amount
        span = among[sorter.name]
        if amount is None or span is None:
            continue
        share = interpolated(preference.weight, sorter.order, amount, span, exactly=exactly)
        if isinstance(share, Unreadable):
            return share
        total += share
    return total
