"""Amounts of CPU and memory as rk8s writes them, for Kubernetes' reader.

What rk8s reads means the same here. What it silently takes for nothing (`1Ti`, `1.5Gi`, `1e9`) is read as Kubernetes
does, because a pod that asks for nothing fits anywhere; what neither can read is refused.
"""

from __future__ import annotations

import re

from wharfinger.errors import InvalidObject
from wharfinger.objects.model.quantities import NANO, NANO_PER_MILLI, parse_quantity

_SMALL = re.compile(r"([+]?[0-9]+)(ki|mi|gi|k|m|g)", re.ASCII | re.IGNORECASE)
"""Whole numbers with the suffixes that rk8s knows for memory, in any case: its `m` is a million, never a thousandth."""
_FACTORS = {"ki": 1 << 10, "mi": 1 << 20, "gi": 1 << 30, "k": 10**3, "m": 10**6, "g": 10**9}


def cpu(text: str, path: str) -> str:
    """Cores as a quantity in thousandths, rounded up; raises `InvalidObject` below zero and for what is no amount."""
    return f"{-(-_amount(text, path) // NANO_PER_MILLI)}m"


def memory(text: str, path: str) -> str:
    """Bytes as a quantity without a suffix, rounded up; raises `InvalidObject` as `cpu` does."""
    known = _SMALL.fullmatch(text.strip()) if len(text) <= 64 else None
    if known is not None:
        return str(int(known[1]) * _FACTORS[known[2].lower()])
    return str(-(-_amount(text, path) // NANO))


def _amount(text: str, path: str) -> int:
    try:
        amount = parse_quantity(text.strip())
    except ValueError as error:
        raise InvalidObject(f"{path} {text[:40]!r} {error}") from None
    if amount < 0:
        raise InvalidObject(f"{path} {text[:40]!r} is below zero")
    return amount
