"""Small changes of what a view keeps by name."""

from __future__ import annotations

from typing import TypeVar

from wharfinger.process.records import Record

K = TypeVar("K")
V = TypeVar("V")
R = TypeVar("R", bound=Record)


def keep(kept: set[K], key: K, *, there: bool) -> None:
    """Keep a key, or forget it."""
    (kept.add if there else kept.discard)(key)


def store(records: dict[str, R], name: str, value: bytes | None, kind: type[R]) -> None:
    """Keep a record, or forget it. Raises `ValidationError`, and keeps what there was."""
    put(records, name, kind.model_validate_json(value) if value is not None else None)


def put(kept: dict[str, V], name: str, value: V | None) -> None:
    """Keep a value, or forget it."""
    if value is None:
        kept.pop(name, None)
    else:
        kept[name] = value
