"""A column of few distinct values over many nodes: small codes, and one table of the values.

A question about a value is asked once per distinct value, not once per node. Tables only grow, so columns made
from one another share them; a table that mostly holds values of no object any more is made anew.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from wharfinger.objects.model.selectors import parse_integer

T = TypeVar("T", bound=Hashable)
_SPARE = 1024
"""Unused values a table may hold beyond twice the number of rows."""


class Interned(Generic[T]):
    """Immutable column; code 0 is the plain value (no taint, no label, no port)."""

    __slots__ = ("_code_of", "_integers", "codes", "plain", "values")

    def __init__(self, codes: NDArray[np.int32], values: list[T], code_of: dict[T, int]) -> None:
        self.codes = codes
        self.values = values
        """By code; may hold values that no row has any more."""
        self._code_of = code_of
        self.plain = not codes.any()
        """Whether every row has the plain value."""
        self._integers: tuple[NDArray[np.int64], NDArray[np.bool_]] | None = None

    @classmethod
    def of(cls, items: Iterable[T], plain: T) -> Interned[T]:
        """A column of these items."""
        code_of: dict[T, int] = {plain: 0}
        codes = [code_of.setdefault(item, len(code_of)) for item in items]
        return cls(np.array(codes, dtype=np.int32), list(code_of), code_of)

    def code(self, value: T) -> int:
        """The value's code; -1 when no row has it."""
        return self._code_of.get(value, -1)

    @property
    def integers(self) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """The values (texts, or None) read as integers, and where they are any; read once."""
        if self._integers is None:
            read = [parse_integer(value) if isinstance(value, str) else None for value in self.values]
            numbers = np.array([number or 0 for number in read], dtype=np.int64)
            are_numbers = np.array([number is not None for number in read], dtype=np.bool_)
            self._integers = numbers[self.codes], are_numbers[self.codes]
        return self._integers

    def replaced(self, changes: Mapping[int, T]) -> Interned[T]:
        """The same column with other values in some rows; the column itself when nothing differs."""
        differing = {row: code for row, item in changes.items() if (code := self._intern(item)) != self.codes[row]}
        if not differing:
            return self
        codes = self.codes.copy()
        codes[list(differing)] = list(differing.values())
        return self._with_codes(codes)

    def resized(self, keep: NDArray[np.intp], added: Iterable[T]) -> Interned[T]:
        """The rows in `keep`, then those added."""
        codes = [self._intern(item) for item in added]
        return self._with_codes(np.concatenate([self.codes[keep], np.array(codes, dtype=np.int32)]))

    def map(self, question: Callable[[T], Any], dtype: type[np.generic] | np.dtype[Any]) -> NDArray[Any]:
        """The answer for every row, asked once for every distinct value."""
        answers = np.array([question(value) for value in self.values], dtype=dtype)
        found: NDArray[Any] = answers[self.codes]
        return found

    def _intern(self, item: T) -> int:
        code = self._code_of.setdefault(item, len(self._code_of))
        if code == len(self.values):
            self.values.append(item)
        return code

    def _with_codes(self, codes: NDArray[np.int32]) -> Interned[T]:
        if len(self.values) > 2 * len(codes) + _SPARE:
            return Interned.of((self.values[code] for code in codes.tolist()), self.values[0])
        return Interned(codes, self.values, self._code_of)
