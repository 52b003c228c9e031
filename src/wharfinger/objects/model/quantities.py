"""Kubernetes quantities, exactly: `100m`, `1.5Gi`, `2e3`, `4`.

Amounts are kept as integers of billionths (nano-units), the finest that Kubernetes knows, so that sums
are exact; where Kubernetes rounds, it always rounds up. Grammar and rounding as in
`k8s.io/apimachinery/pkg/api/resource`, except that what exceeds int64 is refused there by capping and
here by an error.
"""

from __future__ import annotations

import re
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
