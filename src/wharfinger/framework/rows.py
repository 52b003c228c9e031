"""A sequence of rows that is copied in pieces: changing one row of thousands copies one piece.

The snapshot keeps its NodeInfos in it, so that taking a snapshot after one pod was assumed does not copy a
pointer for every node.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Generic, TypeVar

T = TypeVar("T")
_BITS = 6
_SIZE = 1 << _BITS
_MASK = _SIZE - 1


class Rows(Generic[T]):
    """An immutable sequence; `replaced` shares every piece it does not touch."""

    __slots__ = ("_length", "_pieces")

    def __init__(self, items: Iterable[T] = ()) -> None:
        flat = list(items)
        self._length = len(flat)
        self._pieces = [flat[start : start + _SIZE] for start in range(0, len(flat), _SIZE)]

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, row: int) -> T:
        return self._pieces[row >> _BITS][row & _MASK]

    def __iter__(self) -> Iterator[T]:
        for piece in self._pieces:
            yield from piece

    def replaced(self, changes: Mapping[int, T]) -> Rows[T]:
        """The same sequence with other items in some rows."""
        result: Rows[T] = Rows()
        result._length = self._length
        pieces = list(self._pieces)
        owned: set[int] = set()
        for row, item in changes.items():
            number = row >> _BITS
            if number not in owned:
                pieces[number] = list(pieces[number])
                owned.add(number)
            pieces[number][row & _MASK] = item
        result._pieces = pieces
        return result
