"""Mappings in which a key stands twice: the last value counts, and the key is remembered."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any


class Doubled(dict[str, Any]):
    """A mapping whose text had keys more than once."""

    __slots__ = ("again",)

    def __init__(self, entries: Mapping[str, Any], again: Mapping[str, str]) -> None:
        super().__init__(entries)
        self.again = dict(again)
        """Key -> the line of its last value, such as `line 7`; empty where the format does not tell."""


def from_pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """The mapping that these pairs make: the `object_pairs_hook` of a JSON decoder."""
    found = dict(pairs)
    if len(found) == len(pairs):
        return found
    seen: set[str] = set()
    again = [key for key, _ in pairs if key in seen or seen.add(key)]  # type: ignore[func-returns-value]
    return Doubled(found, dict.fromkeys(again, ""))


def doubled_keys(value: object, where: str = "") -> Iterator[tuple[str, str, str]]:
    """Path of the mapping with its dot, key and line, of every key that stands twice in a value or below it."""
    if isinstance(value, Mapping):
        if isinstance(value, Doubled):
            yield from ((where, key, line) for key, line in value.again.items())
        for key, entry in value.items():
            if isinstance(entry, dict | list):
                yield from doubled_keys(entry, f"{where}{key}.")
    elif isinstance(value, list):
        for index, entry in enumerate(value):
            if isinstance(entry, dict | list):
                yield from doubled_keys(entry, f"{where.removesuffix('.')}[{index}].")
