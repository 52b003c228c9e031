"""How much memory a replay, or an archive, may take; and temporary files for what would take more.

What grows with the span lies in such files, so what is left is the cluster's state, once for each worker that is stood
in for, and what is under way. Its size is known only once it is there: whoever adds to it asks `check` after each part.
What does not fit ends with one line that says what to do. Memory is what the kernel counts as resident, so the limit
bounds the whole process.
"""

from __future__ import annotations

import ctypes
import gc
import os
import resource
import sqlite3
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from wharfinger.errors import UsageError, WharfingerError
from wharfinger.objects.model.quantities import NANO, parse_quantity

MIB = 1 << 20
USUAL = 2048 * MIB
"""Half of a machine with 4 GiB: servers may run there, too."""
LEAST = 192 * MIB
"""The interpreter and its libraries alone take half of it."""
MARGIN = 16
"""The share of the limit that is left free, one in so many: between two checks memory goes on to grow."""
BLOCKS = 32
"""A block of an archive may take one part in so many: as objects it is some ten times as large."""
HISTORIES = 16
"""Histories that are under way may take one part in so many, as Temporal counts their bytes."""
CACHE_KIB = 4096
"""Of pages in memory, a database; also what is sorted there before it goes to the file."""


class MemoryLimitReached(WharfingerError):
    """What is to be done takes more memory than is allowed."""


def resident() -> int:
    """Bytes of memory that this process holds now; where the kernel does not tell, what it held at most."""
    with suppress(OSError, ValueError, IndexError):
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return used if sys.platform == "darwin" else used * 1024


def give_back() -> None:
    """Return to the kernel what is not used any more: freed memory stays with the process otherwise."""
    gc.collect()
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)


@dataclass(frozen=True, slots=True)
class MemoryLimit:
    """One for a whole command."""

    most: int = USUAL
    """Bytes."""
    held: Callable[[], int] = resident
    give_back: Callable[[], None] = give_back

    @classmethod
    def parse(cls, text: str) -> MemoryLimit:
        """From a quantity, such as `512Mi`. Raises `UsageError`."""
        try:
            most = parse_quantity(text.strip()) // NANO
        except ValueError:
            raise UsageError(f"--memory-limit takes a size, such as 512Mi or 2Gi, not {text!r}") from None
        if most < LEAST:
            raise UsageError(f"--memory-limit {text} is too little: {LEAST // MIB}Mi is the least")
        return cls(most)

    @property
    def block(self) -> int:
        """Bytes of one block of an archive, at most."""
        return self.most // BLOCKS

    @property
    def histories(self) -> int:
        """Bytes of the histories that are read at a time."""
        return self.most // HISTORIES

    def check(self, doing: Callable[[], str]) -> None:
        """Raise `MemoryLimitReached` when next to nothing is left. `doing`: what took it, for a person."""
        enough = self.most - self.most // MARGIN
        if self.held() < enough:
            return
        self.give_back()
        held = self.held()
        if held >= enough:
            raise MemoryLimitReached(
                f"{held // MIB}Mi of memory are in use {doing()}, and --memory-limit allows {self.most // MIB}Mi: give "
                "it more, or run this where there is more memory"
            )


UNLIMITED = MemoryLimit(most=sys.maxsize)
"""For spans that are known to be small."""


def scratch_database(*tables: str) -> sqlite3.Connection:
    """An empty database with these tables, in a file that has no name any more. Close it. Raises `UsageError`.

    The file lies where temporary files lie (`TMPDIR`), and goes with the process. So nothing is ever synced.
    """
    with writing():
        descriptor, path = tempfile.mkstemp(prefix="wharfinger-replay-")
        os.close(descriptor)
        try:
            database = sqlite3.connect(path, isolation_level=None)
            database.execute("PRAGMA journal_mode = OFF")
            database.execute("PRAGMA synchronous = OFF")
            database.execute("PRAGMA temp_store = FILE")
            database.execute(f"PRAGMA cache_size = -{CACHE_KIB}")
            for table in tables:
                database.execute(table)
            database.execute("BEGIN")  # is never committed: pages go to the file when the cache is full
        finally:
            os.unlink(path)
    return database


@contextmanager
def writing() -> Iterator[None]:
    """Say in one line why a temporary file cannot be written."""
    try:
        yield
    except (OSError, sqlite3.OperationalError) as error:
        raise UsageError(
            f"a temporary file in {tempfile.gettempdir()} cannot be written: {error}. TMPDIR names another folder"
        ) from error
