"""Notices that files were replaced, so that certificates and tokens are rotated without a restart."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

LOOK_EVERY = 1.0
"""Seconds between two looks at the most: a look costs a system call a file."""

_Stamp = tuple[int, int, int] | None


class FileChanges:
    """Says whether any of some files has changed since the last time. Mounted secrets are links that are switched."""

    def __init__(self, paths: Iterable[Path], clock: Callable[[], float]) -> None:
        """`clock`: monotonic seconds."""
        self._paths = tuple(paths)
        self._clock = clock
        self._looked = clock()
        self._stamps = self._read()

    def any(self) -> bool:
        """Whether a file is another one, or has other contents, than at the last look."""
        now = self._clock()
        if now - self._looked < LOOK_EVERY:
            return False
        self._looked = now
        before, self._stamps = self._stamps, self._read()
        return self._stamps != before

    def _read(self) -> tuple[_Stamp, ...]:
        return tuple(map(_stamp, self._paths))


def _stamp(path: Path) -> _Stamp:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
