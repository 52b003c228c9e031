"""Names that an API server makes of `metadata.generateName`. Here they follow from the object, so runs are alike."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Container, Mapping
from typing import Any

_LETTERS = "bcdfghjklmnpqrstvwxz2456789"
"""As an API server takes them: no vowels, so that no words are made."""
_MADE = 5
"""Letters that are made."""
_GIVEN = 63 - _MADE
"""Letters of the given part that are kept."""


def generated(stem: str, taken: Container[str]) -> str:
    """The first name that follows from the stem and that is not taken."""
    return next(name for number in itertools.count() if (name := _name(stem, number)) not in taken)


def _name(stem: str, number: int) -> str:
    digest = hashlib.sha256(f"{stem}/{number}".encode()).digest()
    return stem[:_GIVEN] + "".join(_LETTERS[byte % len(_LETTERS)] for byte in digest[:_MADE])


def stem_of(obj: Mapping[str, Any]) -> str:
    """`metadata.generateName` of an object without a name; empty for any other."""
    metadata = obj.get("metadata")
    if not isinstance(metadata, Mapping) or metadata.get("name"):
        return ""
    stem = metadata.get("generateName")
    return stem if isinstance(stem, str) else ""
