"""An immutable mapping that is copied in pieces: one more entry among many thousands copies a few hundred pointers.

What is kept of volumes and claims is a value as everything around a decision is, and there may be as many as pods.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from typing import TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")
_BUCKETS = 256
_MASK = _BUCKETS - 1


class Keyed(Mapping[K, V]):
    """Entries in no particular order; `put` and `without` share every piece that they do not touch."""

    __slots__ = ("_buckets", "_length")

    def __init__(self) -> None:
        nothing: dict[K, V] = {}
        self._buckets: list[dict[K, V]] = [nothing] * _BUCKETS
        self._length = 0

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[K]:
        for bucket in self._buckets:
            yield from bucket

    def __getitem__(self, key: K) -> V:
        return self._buckets[hash(key) & _MASK][key]

    def __contains__(self, key: object) -> bool:
        return key in self._buckets[hash(key) & _MASK]

    def put(self, key: K, value: V) -> Keyed[K, V]:
        """With this entry, in the place of the key's older one."""
        number = hash(key) & _MASK
        bucket = self._buckets[number]
        return self._with(number, {**bucket, key: value}, self._length + (key not in bucket))

    def without(self, key: K) -> Keyed[K, V]:
        """Without the key's entry; itself when there is none."""
        number = hash(key) & _MASK
        bucket = self._buckets[number]
        if key not in bucket:
            return self
        return self._with(number, {name: value for name, value in bucket.items() if name != key}, self._length - 1)

    def differing(self, other: Keyed[K, V]) -> Iterator[K]:
        """The keys whose entries are not the same objects in both; cheap where one was made from the other."""
        for mine, theirs in zip(self._buckets, other._buckets, strict=True):
            if mine is not theirs:
                for key in mine.keys() | theirs.keys():
                    if mine.get(key) is not theirs.get(key):
                        yield key

    def _with(self, number: int, bucket: dict[K, V], length: int) -> Keyed[K, V]:
        changed: Keyed[K, V] = type(self)()
        changed._buckets = self._buckets.copy()
        changed._buckets[number] = bucket
        changed._length = length
        return changed
