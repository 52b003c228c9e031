"""Columns over the nodes of what storage objects say of them, kept in step with snapshots and storage.

Both change in few places at a time: an entry is worked out anew for nodes whose object is another one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

import numpy as np

from wharfinger.framework.columns import IntColumn
from wharfinger.framework.node_names import NodeNames
from wharfinger.framework.snapshot import Snapshot
from wharfinger.objects.model.keyed import Keyed

T = TypeVar("T")


class StorageColumn(Generic[T]):
    """A number for each node, made of the entry that a mapping by node name has for it."""

    def __init__(self, number: Callable[[T], int]) -> None:
        """`number`: of an entry; nodes without one have 0."""
        self._number = number
        self._names: NodeNames | None = None
        self._entries: Keyed[str, T] | None = None
        self._column: IntColumn = np.zeros(0, dtype=np.int64)

    def of(self, snapshot: Snapshot, entries: Keyed[str, T]) -> IntColumn:
        """The numbers, by row. Not to be written to."""
        names, before = snapshot.node_columns.names, self._entries
        if names is not self._names or before is None:
            found = (entries.get(name) for name in names.names)
            numbers = (0 if entry is None else self._number(entry) for entry in found)
            self._column = np.fromiter(numbers, dtype=np.int64, count=len(names.names))
        elif entries is not before:
            changed = {
                names.index[name]: entries.get(name) for name in entries.differing(before) if name in names.index
            }
            if changed:
                column = self._column.copy()
                for row, entry in changed.items():
                    column[row] = 0 if entry is None else self._number(entry)
                self._column = column
        self._names, self._entries = names, entries
        return self._column
