"""Values of the dynamic configuration as `wharfinger config get` and `history` show them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from wharfinger.cli.output import plain
from wharfinger.configuration.stored_values import SHOWN, Effective, StoredValue
from wharfinger.process.records import ConfigChangeRecord

HEADINGS = ("KIND", "TARGET", "HASH", "VALUE")
EFFECTIVE_HEADINGS = ("KIND", "TARGET", "HASH", "IN FORCE", "VALUE")
HISTORY_HEADINGS = ("NUMBER", "TIME", "WHO", "HASH", "WHY")
_WIDTH = 60


def value_row(value: StoredValue) -> Sequence[str]:
    """For people."""
    return value.kind, value.target, value.digest[:SHOWN] or "-", _short(value.value)


def effective_mapping(found: Effective) -> dict[str, Any]:
    """For programs."""
    said = {"kind": found.kind, "inForce": plain(found.in_force), "problem": plain(found.problem)}
    return {**said, "counts": found.counts.mapping() if found.counts is not None else None}


def effective_row(found: Effective) -> Sequence[str]:
    """For people."""
    if found.counts is None:
        return found.kind, "-", "-", plain(found.in_force), "as started"
    _, target, shown, value = value_row(found.counts)
    return found.kind, target, shown, plain(found.in_force), value


def history_row(number: int, record: ConfigChangeRecord) -> Sequence[str]:
    """For people."""
    return str(number), record.time, record.who, record.digest[:SHOWN] or "unset", record.why


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=isinstance(value, Mapping))
    return text if len(text) <= _WIDTH else f"{text[: _WIDTH - 1]}…"
