"""Kubernetes quantities, exactly: `100m`, `1.5Gi`, `2e3`, `4`; and numbers that may be a percentage.

Amounts are kept as integers of billionths (nano-units), the finest that Kubernetes knows, so that sums
are exact; where Kubernetes rounds, it always rounds up. Grammar and rounding as in
`k8s.io/apimachinery/pkg/api/resource`, except that what exceeds int64 is refused there by capping and
here by an error.

Properties of clusters are compared exactly, but a weight is interpolated between floats. A `WrittenAmount` has both:
equal amounts may be different numbers once they are read as floats, and a quantity's float is its digits times ten to
the power that was written (`Quantity.AsApproximateFloat64`).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

NANO = 10**9
"""Nano-units in one unit."""
NANO_PER_MILLI = 10**6
LIMIT = 2**63 - 1
"""Units: an int64, as everywhere in Kubernetes."""

NUMBER = re.compile(r"([+-]?)([0-9]*)(?:\.([0-9]*))?(Ki|Mi|Gi|Ti|Pi|Ei|[eE][+-]?[0-9]+|[numkMGTPE]?)", re.ASCII)
"""Sign, whole part, fraction, suffix."""
DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
"""Suffix to power of ten."""
BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
"""Suffix to power of two."""
LENGTH_LIMIT = 64
_EXPONENT_LIMIT = 100
"""Beyond it a number of at most 64 digits is past int64 or below a nano-unit either way."""


def parse_quantity(value: object) -> int:
    """A quantity (text, or a JSON number) in nano-units; finer amounts are rounded away from zero.

    Raises `ValueError` when it is none, or beyond int64 units.
    """
    if isinstance(value, str):
        return _parse(value)
    if isinstance(value, int) and not isinstance(value, bool):
        if abs(value) > LIMIT:
            raise ValueError("is beyond the range of a quantity")
        return value * NANO
    if isinstance(value, float):
        return _parse(repr(value))
    raise ValueError("is no quantity")


@lru_cache(maxsize=8192)
def _parse(text: str) -> int:
    match = NUMBER.fullmatch(text) if len(text) <= LENGTH_LIMIT else None
    if match is None or not (match[2] or match[3]):
        raise ValueError("is no quantity")
    fraction = match[3] or ""
    digits, suffix = int(match[2] + fraction), match[4]
    if suffix in BINARY:
        nanos = _scaled(digits << BINARY[suffix], 9 - len(fraction))
    else:
        exponent = DECIMAL[suffix] if suffix in DECIMAL else exponent_of(suffix[1:])
        nanos = _scaled(digits, 9 - len(fraction) + exponent)
    if nanos > LIMIT * NANO:
        raise ValueError("is beyond the range of a quantity")
    return -nanos if match[1] == "-" else nanos


def exponent_of(text: str) -> int:
    """The power of ten behind an `e`, as far as it can matter."""
    digits = text.lstrip("+-").lstrip("0") or "0"
    size = int(digits) if len(digits) <= 3 else _EXPONENT_LIMIT
    return min(size, _EXPONENT_LIMIT) * (-1 if text.startswith("-") else 1)


def _scaled(digits: int, power: int) -> int:
    """`digits` times ten to the `power`, rounded up."""
    factor: int = 10 ** abs(power)
    return digits * factor if power >= 0 else -(-digits // factor)


def round_up(nanos: int, unit: int = NANO) -> int:
    """Whole units, rounded up, as `Quantity.Value` and `MilliValue` do. `unit` is a unit's size in nano-units."""
    return -(-nanos // unit)


def to_milli_precision(nanos: int) -> int:
    """The amount rounded up to whole milli-units, still in nano-units: no resource list holds anything finer.

    The API server does that to each amount when it reads an object (`SetDefaults_ResourceList`).
    """
    return round_up(nanos, NANO_PER_MILLI) * NANO_PER_MILLI


def format_cpu(milli: int) -> str:
    """Milli-cpu as people write it: `1500m`, `2`."""
    return f"{milli}m" if milli % 1000 else str(milli // 1000)


def format_bytes(amount: int) -> str:
    """Bytes in the largest binary unit that holds them well, at most one decimal: `512Mi`, `1.5Gi`."""
    for suffix in ("Ei", "Pi", "Ti", "Gi", "Mi", "Ki"):
        unit = 1 << BINARY[suffix]
        if abs(amount) >= unit:
            return f"{amount / unit:.1f}".removesuffix(".0") + suffix
    return str(amount)


@dataclass(frozen=True, slots=True)
class IntOrPercent:
    """A number of replicas, slots or clusters, or a percentage of all of them."""

    amount: int
    percent: bool = False

    def of(self, replicas: int, *, up: bool) -> int:
        """How many that is; percentages are rounded up, or down."""
        if not self.percent:
            return self.amount
        product = self.amount * replicas
        return -(-product // 100) if up else product // 100


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
