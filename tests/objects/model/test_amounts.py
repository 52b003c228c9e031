"""Quantities as they were written: exact amounts, and the floats that Kubernetes reads."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wharfinger.objects.model.quantities import LIMIT, NANO, WrittenAmount, parse_amount, parse_quantity


@pytest.mark.parametrize(
    ("text", "nanos", "approximate"),
    [
        ("4", 4 * NANO, 4.0),
        ("250m", NANO // 4, 250 * 1e-3),
        ("0.25", NANO // 4, 25 * 1e-2),
        ("0.06", 60_000_000, 6 * 1e-2),
        ("0.06000", 60_000_000, 6000 * 1e-5),
        ("-1.5", -1_500_000_000, -15 * 1e-1),
        ("1Ki", 1024 * NANO, 1024.0),
        ("0.5Gi", 536870912 * NANO, 536870912 * NANO * 1e-9),
        ("0.4n", 1, 1e-9),
        ("1E", 10**18 * NANO, 1e18),
        ("1E3", 1000 * NANO, 1e3),
        ("5E-1", NANO // 2, 5 * 1e-1),
        ("007", 7 * NANO, 7.0),
        ("9999999999999999999", LIMIT * NANO, float(LIMIT)),
    ],
)
def test_an_amount_is_exact_and_has_the_float_of_its_spelling(text: str, nanos: int, approximate: float) -> None:
    assert parse_amount(text) == WrittenAmount(nanos, approximate)


@pytest.mark.parametrize("text", ["", "v1.2", "1.2.3", "many", "1 Gi", "1gi", "e3", ".", "+", "9" * 65])
def test_what_is_no_quantity_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is no quantity"):
        parse_amount(text)


@given(st.from_regex(r"[+-]?[0-9]{1,9}(\.[0-9]{1,12})?(Ki|Mi|n|u|m|k|M|e-?[0-9])?", fullmatch=True))
def test_the_exact_amount_is_the_one_of_other_quantities(text: str) -> None:
    amount = parse_amount(text)
    assert amount.nanos == parse_quantity(text)
    assert math.isclose(amount.approximate, amount.nanos / NANO, rel_tol=1e-9, abs_tol=1e-9)
