"""Quantities as they were written: equal ones may be different numbers once they are read as floats.

Properties of clusters are compared exactly, but a weight is interpolated between floats. As in Kubernetes, a
quantity's float is its digits times ten to the power that was written (`Quantity.AsApproximateFloat64`).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from wharfinger.objects.model.quantities import BINARY, DECIMAL, LENGTH_LIMIT, LIMIT, NANO, NUMBER, exponent_of

_DIGITS = 18
"""So many decimal digits always fit into an int64."""
_NANO_SCALE = -9


@dataclass(frozen=True, slots=True)
class WrittenAmount:
    """A quantity: exact in billionths, and the float that it is read as."""

    nanos: int
    approximate: float


@lru_cache(maxsize=16_384)
def parse_amount(text: str) -> WrittenAmount:
    """Read a quantity. Raises `ValueError` when it is none.

    As Kubernetes reads it: what is finer than a nano-unit is rounded away from zero, and what is beyond int64 units is
    capped, unless it was written with an exponent.
    """
    match = NUMBER.fullmatch(text) if len(text) <= LENGTH_LIMIT else None
    if match is None or not (match[2] or match[3]):
        raise ValueError("is no quantity")
    whole, fraction, suffix = match[2].lstrip("0") or "0", match[3] or "", match[4]
    sign = -1 if match[1] == "-" else 1
    if suffix in BINARY:
        return _binary(sign, whole, fraction, BINARY[suffix])
    exponent = DECIMAL[suffix] if suffix in DECIMAL else exponent_of(suffix[1:])
    scale = exponent - len(fraction)
    if len(whole) + len(fraction) <= _DIGITS and scale >= _NANO_SCALE:
        value = int(whole + fraction) * sign
        return WrittenAmount(value * 10 ** (scale - _NANO_SCALE), _float(value, scale))
    return _long(sign, int(whole + fraction), scale)


def _binary(sign: int, whole: str, fraction: str, power: int) -> WrittenAmount:
    if not fraction and 15 - len(whole) - power * 3 // 10 - 1 >= 0:
        value = (int(whole) << power) * sign
        return WrittenAmount(value * NANO, float(value))
    return _long(sign, int(whole + fraction) << power, -len(fraction))


def _long(sign: int, digits: int, scale: int) -> WrittenAmount:
    """What does not fit the short form is kept in billionths, rounded up and capped."""
    factor = 10 ** abs(scale - _NANO_SCALE)
    nanos = digits * factor if scale >= _NANO_SCALE else -(-digits // factor)
    if nanos > LIMIT * NANO:
        return WrittenAmount(LIMIT * NANO * sign, float(LIMIT * sign))
    return WrittenAmount(nanos * sign, _float(nanos * sign, _NANO_SCALE))


def _float(value: int, scale: int) -> float:
    try:
        return float(value) * float(f"1e{scale}") if scale else float(value)
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")
