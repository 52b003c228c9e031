"""Durations as Go writes them: `1h30m`, `1.5s`, `200ms`."""

from __future__ import annotations

import re
from decimal import Decimal

_UNITS = {"ns": 1, "us": 10**3, "µs": 10**3, "μs": 10**3, "ms": 10**6, "s": 10**9, "m": 60 * 10**9, "h": 3600 * 10**9}
_PART = r"(\d+\.?\d*|\.\d+)(ns|us|µs|μs|ms|s|m|h)"
_WHOLE = re.compile(rf"([-+]?)((?:{_PART})+|0)", re.ASCII)
_LARGEST = 2**63 - 1


def parse_duration(text: object) -> int:
    """Nanoseconds; ValueError for what Go's `time.ParseDuration` refuses."""
    matched = _WHOLE.fullmatch(text) if isinstance(text, str) and len(text) < 100 else None
    if matched is None:
        raise ValueError("is no duration, such as 15s or 1m30s")
    parts = re.findall(_PART, matched[2])
    total = sum(int(Decimal(number) * _UNITS[unit]) for number, unit in parts)
    if total > _LARGEST:
        raise ValueError("is longer than a duration can be (292 years)")
    return -total if matched[1] == "-" else total


def written_duration(nanoseconds: int) -> str:
    """As Go's `Duration.String` writes it: `15s`, `1m30s`, `500ms`."""
    sign, rest = ("-" if nanoseconds < 0 else ""), abs(nanoseconds)
    if rest == 0:
        return "0s"
    if rest < _UNITS["s"]:
        unit = next(unit for unit in ("ms", "µs", "ns") if rest >= _UNITS[unit])
        return f"{sign}{_decimal(rest, _UNITS[unit])}{unit}"
    minutes, below = divmod(rest, _UNITS["m"])
    hours, minutes = divmod(minutes, 60)
    leading = (f"{hours}h" if hours else "") + (f"{minutes}m" if hours or minutes else "")
    return f"{sign}{leading}{_decimal(below, _UNITS['s'])}s"


def _decimal(value: int, unit: int) -> str:
    whole, fraction = divmod(value, unit)
    digits = f"{fraction:0{len(str(unit)) - 1}d}".rstrip("0") if fraction else ""
    return f"{whole}.{digits}" if digits else str(whole)
