"""Keeps recorded runs on disk while they are replayed, so that a day of them takes no memory but their places."""

from __future__ import annotations

import tempfile
import zlib
from typing import IO

from wharfinger.replaying.recorded import DecidedRun

LEVEL = 1
"""Of compression: a third of the size, for little time."""


class Spool:
    """Runs by number, in a file that nobody else sees and that goes with the process. Close it."""

    def __init__(self) -> None:
        self._file: IO[bytes] = tempfile.TemporaryFile(prefix="wharfinger-replay-")  # noqa: SIM115 - closed by `close`
        self._places: list[tuple[int, int]] = []
        self._end = 0
        self._last: tuple[int, DecidedRun] | None = None
        """The run that was read last: a cohort is read once a stretch."""

    def __len__(self) -> int:
        return len(self._places)

    @property
    def size(self) -> int:
        """Bytes of all runs as they are kept."""
        return self._end

    def add(self, run: DecidedRun) -> int:
        """Keep it, and answer its number."""
        packed = zlib.compress(run.model_dump_json().encode(), LEVEL)
        self._file.seek(self._end)
        self._file.write(packed)
        self._places.append((self._end, len(packed)))
        self._end += len(packed)
        return len(self._places) - 1

    def get(self, number: int) -> DecidedRun:
        """The run of that number."""
        if self._last is not None and self._last[0] == number:
            return self._last[1]
        place, length = self._places[number]
        self._file.seek(place)
        run = DecidedRun.model_validate_json(zlib.decompress(self._file.read(length)))
        self._last = number, run
        return run

    def close(self) -> None:
        """Give the room back."""
        self._file.close()
