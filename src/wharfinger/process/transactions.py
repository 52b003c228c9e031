"""Cutting binds and records into transactions that etcd takes: operations counted in each list, and bytes.

Pure. What many pods share (a node, its binding version, the rules of a namespace) is compared, written and read once.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

PER_KEY = 64
"""Bytes of an operation beside its key and its value, about."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What a server takes in one transaction."""

    operations: int = 128
    """In each of its three lists: compares, success, failure."""
    size: int = 1024 * 1024
    """Bytes of all of it."""

    def halved(self) -> Limits:
        """For a server that takes less than was said."""
        return Limits(self.operations // 2, self.size // 2)


STOCK = Limits()
"""Of a server as it comes."""


@dataclass(frozen=True, slots=True)
class Shape:
    """What one pod adds to a transaction, unless it is in it already."""

    compares: tuple[str, ...]
    """Keys; each is read when the transaction fails."""
    writes: tuple[str, ...]
    """Keys that are put or deleted."""
    size: int
    """Bytes of the values that are put."""


@dataclass(slots=True)
class Load:
    """A transaction being filled."""

    limits: Limits
    compares: set[str] = field(default_factory=set)
    writes: set[str] = field(default_factory=set)
    size: int = 0

    def takes(self, shapes: Sequence[Shape]) -> bool:
        """Add them all if they fit, else none; whether they did. What is too much by itself fits nowhere."""
        compares = {key for shape in shapes for key in shape.compares if key not in self.compares}
        writes = {key for shape in shapes for key in shape.writes if key not in self.writes}
        size = (
            self.size + sum(shape.size for shape in shapes) + 2 * _size(compares) + _size(writes)
        )  # compares are read
        most = self.limits.operations
        if (
            len(self.compares) + len(compares) > most
            or len(self.writes) + len(writes) > most
            or size > self.limits.size
        ):
            return False
        self.compares |= compares
        self.writes |= writes
        self.size = size
        return True


def measure(shapes: Sequence[Shape]) -> Load:
    """What they come to together, whatever the limits."""
    load = Load(Limits(operations=1 << 60, size=1 << 60))
    load.takes(shapes)
    return load


def cut(shapes: Sequence[Shape], limits: Limits) -> list[list[int]]:
    """Their numbers in order, a list a transaction; one that is too much by itself is alone."""
    lists: list[list[int]] = []
    load: Load | None = None
    for number, shape in enumerate(shapes):
        if load is not None and load.takes([shape]):
            lists[-1].append(number)
            continue
        load = Load(limits)
        if not load.takes([shape]):
            load = None
        lists.append([number])
    return lists


def _size(keys: Collection[str]) -> int:
    return sum(map(len, keys)) + PER_KEY * len(keys)
