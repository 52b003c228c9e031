"""Keeps recorded runs, and what was decided in them, on disk while they are replayed: a day of them takes no memory."""

from __future__ import annotations

import zlib
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from typing import overload

from wharfinger.replay.memory_limit import UNLIMITED, MemoryLimit, scratch_database, writing
from wharfinger.replay.recorded import DecidedRun, Unit, units, worker_of

LEVEL = 1
"""Of compression: a third of the size, for little time."""
READ = 1 << 20
"""Bytes of runs, as text, that are kept as they were read: cohorts of several workers take turns."""
_ORDER = ", ".join(Unit._fields)
_TABLES = (
    "CREATE TABLE runs (number INTEGER PRIMARY KEY, id TEXT UNIQUE, packed BLOB)",
    f"CREATE TABLE units ({_ORDER})",
    "CREATE TABLE lost (worker, number INTEGER, told)",
)


class Spool:
    """Runs by number. Close it."""

    def __init__(self, memory: MemoryLimit = UNLIMITED) -> None:
        """`memory`: what a replay of these runs may take."""
        self.memory = memory
        self._database = scratch_database(*_TABLES)
        self._count = 0
        self._size = 0
        self._read: OrderedDict[int, tuple[DecidedRun, int]] = OrderedDict()
        self._read_size = 0
        self._sorted = 0

    def __len__(self) -> int:
        return self._count

    @property
    def size(self) -> int:
        """Bytes of all runs as they are kept."""
        return self._size

    def add(self, run: DecidedRun) -> int:
        """Keep it, and answer its number. A run that is kept already stays as it was."""
        packed = zlib.compress(run.model_dump_json().encode(), LEVEL)
        with writing():
            added = self._database.execute(
                "INSERT OR IGNORE INTO runs VALUES (?, ?, ?)", (self._count, run.run_id, packed)
            )
            if not added.rowcount:
                found = self._database.execute("SELECT number FROM runs WHERE id = ?", (run.run_id,)).fetchone()
                return int(found[0])
            marks = ", ".join("?" * len(Unit._fields))
            self._database.executemany(f"INSERT INTO units VALUES ({marks})", units(run, self._count))  # noqa: S608
            for computation in run.computations():
                told = [(worker_of(computation), int(one.rpartition(" ")[2]), one) for one in computation.lost]
                self._database.executemany("INSERT INTO lost VALUES (?, ?, ?)", told)
        self.memory.check(lambda: f"after {self._count:,} recorded runs were read")
        self._count += 1
        self._size += len(packed)
        return self._count - 1

    def get(self, number: int) -> DecidedRun:
        """The run of that number."""
        if number in self._read:
            self._read.move_to_end(number)
            return self._read[number][0]
        [packed] = self._database.execute("SELECT packed FROM runs WHERE number = ?", (number,)).fetchone()
        text = zlib.decompress(packed)
        run = DecidedRun.model_validate_json(text)
        self._read[number] = run, len(text)
        self._read_size += len(text)
        while len(self._read) > 1 and self._read_size > READ:
            _, (_, size) = self._read.popitem(last=False)
            self._read_size -= size
        return run

    def units(self) -> KeptUnits:
        """Of all runs that are there now, in order."""
        self._sorted += 1
        table = f"sorted{self._sorted}"
        with writing():
            self._database.execute(f"CREATE TABLE {table} (rank INTEGER PRIMARY KEY, {_ORDER})")
            self._database.execute(
                f"INSERT INTO {table} ({_ORDER}) SELECT {_ORDER} FROM units ORDER BY {_ORDER}"  # noqa: S608 - ours
            )
        [count] = self._database.execute(f"SELECT COUNT(*) FROM {table}").fetchone()  # noqa: S608
        return KeptUnits(self, table, 0, count)

    def lost(self, worker: str) -> list[str]:
        """What the worker's later decisions tell of those that are not among these, in their order."""
        query = (
            "SELECT told FROM lost WHERE worker = ? AND number NOT IN (SELECT number FROM units WHERE worker = ?) "
            "ORDER BY number, rowid"
        )
        return [told for (told,) in self._database.execute(query, (worker, worker))]

    def rows(self, table: str, begin: int, end: int) -> Iterator[Unit]:
        """Sorted units from one place up to another."""
        query = f"SELECT {_ORDER} FROM {table} WHERE rank > ? AND rank <= ? ORDER BY rank"  # noqa: S608
        return map(Unit._make, self._database.execute(query, (begin, end)))

    def close(self) -> None:
        """Give the room back."""
        self._database.close()


class KeptUnits(Sequence[Unit]):
    """Units in order, read from the file as they are asked for."""

    def __init__(self, spool: Spool, table: str, begin: int, end: int) -> None:
        self._spool = spool
        self._table = table
        self._begin = begin
        self._end = end

    def __len__(self) -> int:
        return self._end - self._begin

    def __iter__(self) -> Iterator[Unit]:
        return self._spool.rows(self._table, self._begin, self._end)

    @overload
    def __getitem__(self, place: int) -> Unit: ...

    @overload
    def __getitem__(self, place: slice) -> KeptUnits: ...

    def __getitem__(self, place: int | slice) -> Unit | KeptUnits:
        if isinstance(place, slice):
            begin, end, step = place.indices(len(self))
            if step != 1:
                raise ValueError("units are in order")
            return KeptUnits(self._spool, self._table, self._begin + begin, self._begin + max(begin, end))
        at = range(len(self))[place]
        return next(self._spool.rows(self._table, self._begin + at, self._begin + at + 1))
