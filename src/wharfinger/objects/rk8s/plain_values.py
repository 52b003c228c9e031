"""Documents of rk8s as plain values, for JSON: numbers and truth values where YAML 1.2 has them, tags as keys."""

from __future__ import annotations

import re
from typing import Any

from wharfinger.objects.rk8s.tree import Plain, Tagged

_TRUTH = {"true": True, "false": False}
_INTEGER = re.compile(r"-?(0|[1-9][0-9]{0,17})", re.ASCII)
_FRACTION = re.compile(r"-?(0|[1-9][0-9]{0,14})\.[0-9]{1,15}", re.ASCII)


def plain_values(value: Any) -> Any:
    """What `tree.parse` returns, for JSON: `!Running {...}` becomes `{"!Running": {...}}`.

    A number that JSON would write in another way stays a text.
    """
    if isinstance(value, Tagged):
        return {f"!{value.variant}": plain_values(value.value)}
    if isinstance(value, dict):
        return {key: plain_values(entry) for key, entry in value.items()}
    if isinstance(value, list):
        return [plain_values(entry) for entry in value]
    return _scalar(value) if isinstance(value, Plain) else value


def _scalar(text: Plain) -> Any:
    if text in _TRUTH:
        return _TRUTH[text]
    if _INTEGER.fullmatch(text):
        return int(text)
    if _FRACTION.fullmatch(text) and str(float(text)) == text:
        return float(text)
    return str(text)
