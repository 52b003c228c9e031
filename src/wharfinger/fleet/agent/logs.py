"""Logs of processes: kept from growing without end, and read for last words."""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from pathlib import Path

LOG_LIMIT = 16 * 1024 * 1024
"""Bytes of a log before it is set aside; two such pieces are kept a process."""
SET_ASIDE = ".log.1"
"""Suffix of the piece before the last."""
WORDS_LIMIT = 300
"""Characters of last words."""
_TAIL = 8 * 1024


def bound(log: Path, limit: int = LOG_LIMIT) -> None:
    """Set a log aside that grew too long; one that cannot be set aside (a full disk) is let go.

    Its process keeps the file open for appending, so it is copied and emptied, not renamed.
    """
    with suppress(OSError):
        if log.stat().st_size > limit:
            with suppress(OSError):
                shutil.copyfile(log, log.with_suffix(SET_ASIDE))
            os.truncate(log, 0)


def last_words(log: Path) -> str:
    """The last line that says something; empty when there is none."""
    with suppress(OSError), log.open("rb") as opened:
        opened.seek(max(0, opened.seek(0, os.SEEK_END) - _TAIL))
        lines = [line for line in opened.read().decode(errors="replace").splitlines() if line.strip()]
        if lines:
            return lines[-1].strip()[:WORDS_LIMIT]
    return ""
