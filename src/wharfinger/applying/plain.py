"""Plain copies of objects, so that the other modules may walk, change and share them without limits of their own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

DEEPEST = 100
"""Levels of mappings and lists that an object may have."""


def plain(value: object, depth: int = 0) -> Any:
    """Copy a value into new dicts and lists. Raises `ValueError` beyond 100 levels."""
    if not isinstance(value, Mapping | list | tuple):
        return value
    if depth == DEEPEST:
        raise ValueError(f"the object is nested more than {DEEPEST} levels deep; such an object cannot be applied")
    if isinstance(value, Mapping):
        return {key: plain(one, depth + 1) for key, one in value.items()}
    return [plain(one, depth + 1) for one in value]


def mapping(value: object) -> dict[str, Any]:
    """A plain dict itself, or an empty one for anything else."""
    return value if isinstance(value, dict) else {}


def same(a: object, b: object) -> bool:
    """Whether two plain values are the same JSON. Unlike in Python, true is not 1."""
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(same(value, b[key]) for key, value in a.items())
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(same, a, b))
    return isinstance(a, bool) == isinstance(b, bool) and a == b


def pointer(path: str, token: object) -> str:
    """The JSON pointer (RFC 6901) to an entry below a path."""
    return f"{path}/{str(token).replace('~', '~0').replace('/', '~1')}"
