"""Properties of members: what they are, how they compare, and how a weight follows from them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import cast

from wharfinger.objects.model.amounts import WrittenAmount, parse_amount
from wharfinger.placement.model.members import RESOURCES, Member, resource_of
from wharfinger.placement.model.placement import PropertyOperator, PropertyRequirement


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
