"""Quantities are read exactly as Kubernetes reads them."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wharfinger.objects.model.quantities import (
    LIMIT,
    NANO,
    format_bytes,
    format_cpu,
    parse_quantity,
    round_up,
    to_milli_precision,
)


@pytest.mark.parametrize(
    ("text", "nanos"),
    [
        ("0", 0),
        ("1", NANO),
        ("+1", NANO),
        ("-1", -NANO),
        ("100m", NANO // 10),
        ("1.5", 3 * NANO // 2),
        (".5", NANO // 2),
        ("5.", 5 * NANO),
        ("1u", 1000),
        ("1n", 1),
        ("1k", 1000 * NANO),
        ("2M", 2 * 10**6 * NANO),
        ("1G", 10**9 * NANO),
        ("1T", 10**12 * NANO),
        ("1P", 10**15 * NANO),
        ("1E", 10**18 * NANO),
        ("1Ki", 1024 * NANO),
        ("1.5Gi", 3 * 2**29 * NANO),
        ("1Ei", 2**60 * NANO),
        ("1e3", 1000 * NANO),
        ("1E3", 1000 * NANO),
        ("1e-3", NANO // 1000),
        ("12e+1", 120 * NANO),
        (4, 4 * NANO),
        (0.5, NANO // 2),
    ],
)
def test_each_spelling_means_its_amount(text: object, nanos: int) -> None:
    assert parse_quantity(text) == nanos


@pytest.mark.parametrize("text", ["0.1n", "1e-999999999999", "0.0000000001"])
def test_what_is_finer_than_a_nano_unit_is_rounded_up(text: str) -> None:
    assert parse_quantity(text) == 1


@pytest.mark.parametrize(
    "text",
    ["", " ", "1 ", "m", ".", "-", "1mm", "1KI", "1ki", "0x10", "1e", "1e1.5", "1Ee3", "NaN", "inf", "1_000", "\u0661",
     "1" * 65, True, None, [], {}, float("nan"), float("inf")],
)  # fmt: skip
def test_anything_else_is_no_quantity(text: object) -> None:
    with pytest.raises(ValueError, match="no quantity"):
        parse_quantity(text)


@pytest.mark.parametrize("value", ["8Ei", "9223372036854775808", 2**63, "1e99", "1e999999999", 1e300])
def test_what_int64_cannot_hold_is_refused(value: object) -> None:
    with pytest.raises(ValueError, match="beyond the range"):
        parse_quantity(value)


def test_the_largest_int64_is_a_quantity() -> None:
    assert parse_quantity(str(LIMIT)) == LIMIT * NANO


@given(st.text())
def test_no_text_brings_another_error_than_value_error(text: str) -> None:
    with contextlib.suppress(ValueError):
        parse_quantity(text)


@given(st.integers(0, LIMIT))
def test_integers_survive(amount: int) -> None:
    assert round_up(parse_quantity(str(amount))) == amount == round_up(parse_quantity(amount))


def test_amounts_are_rounded_up() -> None:
    assert round_up(parse_quantity("1.2")) == 2
    assert to_milli_precision(parse_quantity("1.0001")) == parse_quantity("1.001")
    assert to_milli_precision(parse_quantity("1.001")) == parse_quantity("1.001")


def test_amounts_are_shown_as_people_write_them() -> None:
    assert [format_cpu(1500), format_cpu(2000), format_cpu(0)] == ["1500m", "2", "0"]
    assert [format_bytes(3 * 2**29), format_bytes(2**30), format_bytes(10)] == ["1.5Gi", "1Gi", "10"]
