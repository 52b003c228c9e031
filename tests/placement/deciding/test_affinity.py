"""How properties compare, and how a weight follows from them (KubeFleet's own table)."""

from __future__ import annotations

import pytest

from tests.placement.deciding.cases import member
from wharfinger.objects.model.quantities import parse_amount
from wharfinger.placement.deciding.affinity import Range, Unreadable, amount_of, interpolated, satisfies
from wharfinger.placement.model.members import RESOURCES
from wharfinger.placement.model.placement import PropertyRequirement


def between(low: str, high: str) -> Range:
    return Range(parse_amount(low), parse_amount(high))


@pytest.mark.parametrize(
    ("order", "low", "high", "weight", "share"),
    [
        ("Descending", "4", "8", 100, 0),
        ("Descending", "2", "4", 100, 100),
        ("Descending", "2", "7", 7, 3),
        ("Descending", "2", "7", 8, 3),
        ("Ascending", "4", "8", 100, 100),
        ("Ascending", "2", "4", 100, 0),
        ("Ascending", "2", "7", 8, 5),
        ("Ascending", "2", "7", 7, 4),
        ("Descending", "4", "4", 100, 0),
        ("Descending", "3", "5", 1, 1),
        ("Descending", "3", "5", -1, -1),
    ],
)
def test_a_weight_follows_the_place_in_the_range(order: str, low: str, high: str, weight: int, share: int) -> None:
    assert interpolated(weight, order, parse_amount("4"), between(low, high), exactly=True) == share


@pytest.mark.parametrize(("order", "value", "high"), [("Descending", "9", "8"), ("Sideways", "5", "8")])
def test_what_cannot_be_interpolated_is_told(order: str, value: str, high: str) -> None:
    found = interpolated(10, order, parse_amount(value), between("4", high), exactly=True)
    assert isinstance(found, Unreadable)


def test_equal_amounts_spelled_apart_are_one_value_unless_floats_count() -> None:
    short, long = parse_amount("0.06"), parse_amount("0.06000")
    assert short.nanos == long.nanos
    assert short.approximate != long.approximate
    low, high = sorted((short, long), key=lambda one: one.approximate)
    span = Range(high, parse_amount("1"))
    assert interpolated(10, "Descending", low, span, exactly=True) == 0
    assert isinstance(interpolated(10, "Descending", low, span, exactly=False), Unreadable)


@pytest.mark.parametrize(
    ("operator", "values"),
    [
        ("Eq", {"4": True, "4000m": True, "5": False}),
        ("Ne", {"4": False, "5": True}),
        ("Gt", {"4": False, "3999m": True}),
        ("Ge", {"4": True, "4001m": False}),
        ("Lt", {"4": False, "5": True}),
        ("Le", {"4": True, "3": False}),
    ],
)
def test_operators_compare_exact_amounts(operator: str, values: dict[str, bool]) -> None:
    one = member("m", properties={"zones": "4"})
    for value, holds in values.items():
        assert satisfies(one, PropertyRequirement("zones", operator, (value,)), dashes=True) is holds


@pytest.mark.parametrize(("operator", "values"), [("Eq", ()), ("Eq", ("1", "2")), ("Eq", ("many",)), ("Like", ("4",))])
def test_a_requirement_that_cannot_be_evaluated_is_told(operator: str, values: tuple[str, ...]) -> None:
    one = member("m", properties={"zones": "4"})
    assert isinstance(satisfies(one, PropertyRequirement("zones", operator, values), dashes=True), Unreadable)


def test_a_member_without_the_property_satisfies_nothing() -> None:
    assert satisfies(member("m"), PropertyRequirement("zones", "Ne", ("4",)), dashes=True) is False


def test_resources_are_found_by_kind_and_name() -> None:
    one = member("m", cpu="3900m")
    for kind in ("total", "allocatable", "available"):
        assert amount_of(one, f"{RESOURCES}{kind}-cpu", dashes=False) == parse_amount("3900m")
    assert amount_of(one, f"{RESOURCES}available-pods", dashes=False) is None


@pytest.mark.parametrize("name", ["cpu", "-cpu", "available-", "spare-cpu"])
def test_a_name_that_is_no_resources_cannot_be_read(name: str) -> None:
    assert isinstance(amount_of(member("m"), RESOURCES + name, dashes=True), Unreadable)
