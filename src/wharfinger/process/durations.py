"""Durations as people write them on a command line: `90s`, `45m`, `12h`, `30d`, `1d12h`."""

from __future__ import annotations

import re
from datetime import timedelta

from wharfinger.errors import UsageError

_UNITS = {"d": "days", "h": "hours", "m": "minutes", "s": "seconds"}
_PART = r"(\d+)([dhms])"


def parse(text: str) -> timedelta:
    """The duration; raises `UsageError` when the text is none, or is zero."""
    if not re.fullmatch(f"(?:{_PART})+", text):
        raise UsageError(f"{text!r} is no duration, such as 90s, 45m, 12h or 1d12h")
    parts = re.findall(_PART, text)
    duration = sum((timedelta(**{_UNITS[unit]: int(count)}) for count, unit in parts), timedelta())
    if not duration:
        raise UsageError(f"{text!r} is no time at all")
    return duration
