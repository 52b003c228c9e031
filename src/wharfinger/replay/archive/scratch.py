"""Temporary files for what would take memory: SQLite databases that nobody else sees and that go with the process.

They lie where temporary files lie (`TMPDIR`). Nothing in them outlives the process, so nothing is ever synced.
"""

from __future__ import annotations

import os
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

from wharfinger.errors import UsageError

CACHE_KIB = 4096
"""Of pages in memory, a database; also what is sorted there before it goes to the file."""


def scratch_database(*tables: str) -> sqlite3.Connection:
    """An empty database with these tables, in a file that has no name any more. Close it. Raises `UsageError`."""
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
