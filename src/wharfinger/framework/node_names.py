"""Which node stands in which row, and how equal nodes are distinguished. Shared by all snapshots of the same nodes."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

_MIX = np.uint64(0x9E3779B97F4A7C15)
"""2^64 over the golden ratio: spreads the bits of what it multiplies (Knuth's multiplicative hashing)."""


@lru_cache(maxsize=1 << 17)
def name_hash(name: str) -> int:
    """64 bits of a name, the same on every machine."""
    return int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest(), "little")


class NodeNames:
    """Which node stands in which row."""

    def __init__(self, names: Iterable[str]) -> None:
        self.names: tuple[str, ...] = tuple(names)
        self.index: Mapping[str, int] = {name: row for row, name in enumerate(self.names)}
        self.zeros: NDArray[np.int64] = np.zeros(len(self.names), dtype=np.int64)
        self.zeros.flags.writeable = False

    @cached_property
    def hashes(self) -> NDArray[np.uint64]:
        """A hash of each name, for breaking ties."""
        return np.fromiter((name_hash(name) for name in self.names), dtype=np.uint64, count=len(self.names))

    def tie_break(self, rows: NDArray[np.intp], uid: str) -> NDArray[np.uint64]:
        """A number for each of these rows, of equal nodes the highest goes first.

        Made of the names and the pod's uid: the same on every machine, and spread evenly over the nodes.
        """
        numbers: NDArray[np.uint64] = (self.hashes[rows] ^ np.uint64(name_hash(uid))) * _MIX
        return numbers

    @cached_property
    def alphabetical(self) -> NDArray[np.intp]:
        """Rows in the order of their names."""
        return np.array(sorted(range(len(self.names)), key=self.names.__getitem__), dtype=np.intp)

    @cached_property
    def sorted_names(self) -> tuple[str, ...]:
        """All names, sorted."""
        return tuple(sorted(self.names))

    @cached_property
    def array(self) -> NDArray[np.object_]:
        """The names as an array, for picking many at once."""
        names = np.empty(len(self.names), dtype=object)
        names[:] = self.names
        return names
