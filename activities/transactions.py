"""Cutting binds and records into transactions that etcd takes: operations counted in each list, and bytes.

Pure. What many pods share (a node, its binding version, the rules of a namespace) is compared, written and read once.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
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
        compares = self.compares.union(*(shape.compares for shape in shapes))
        writes = self.writes.union(*(shape.writes for shape in shapes))
        size = self.size + sum(shape.size for shape in shapes)
        size += _size(compares - self.compares) * 2 + _size(writes - self.writes)  # compared keys are read, too
        if len(compares) > self.limits.operations or len(writes) > self.limits.operations or size > self.limits.size:
            return False
        self.compares, self.writes, self.size = compares, writes, size
        return True

    def most(self, shapes: Sequence[Shape]) -> int:
        """Add as many of them as fit, from the first on; how many."""
        for count, shape in enumerate(shapes):
            if not self.takes([shape]):
                return count
        return len(shapes)


def measure(shapes: Sequence[Shape]) -> Load:
    """What they come to together, whatever the limits."""
    load = Load(Limits(operations=1 << 60, size=1 << 60))
    load.takes(shapes)
    return load


def cut(shapes: Sequence[Shape], limits: Limits) -> list[list[int]]:
    """Their numbers in order, a list a transaction; one that is too much by itself is alone."""
    lists: list[list[int]] = []
    load = Load(limits)
    for number, shape in enumerate(shapes):
        if lists and load.takes([shape]):
            lists[-1].append(number)
            continue
        load = Load(limits)
        load.takes([shape])
        lists.append([number])
    return lists


def _size(keys: Iterable[str]) -> int:
    return sum(len(key) + PER_KEY for key in keys)
