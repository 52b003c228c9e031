"""Saying how far long work has come: a live line on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol, TextIO


class ProgressListener(Protocol):
    """Listens to long work."""

    def step(self, text: str) -> None:
        """Something began, or happened; said once."""

    def counting(self, text: str, total: int, unit: str = "") -> AbstractContextManager[Callable[[int], None]]:
        """Work of `total` countable parts (0 = unknown); what it gives is called with the number done so far."""


class Lines:
    """Plain lines, a count at most every 15 seconds: for logs and pipes."""

    def __init__(
        self, say: Callable[[str], None], *, every: float = 15.0, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._say = say
        self._every = every
        self._clock = clock

    def step(self, text: str) -> None:
        """Print the line."""
        self._say(text)

    @contextmanager
    def counting(self, text: str, total: int, unit: str = "") -> Iterator[Callable[[int], None]]:
        """Print the beginning, the count now and then, and the time it took."""
        began = said = self._clock()
        self._say(text)

        def report(done: int) -> None:
            nonlocal said
            now = self._clock()
            if now - said >= self._every:
                said = now
                parts = [str(done), *([f"of {total}"] if total else ()), *([unit] if unit else ())]
                self._say(f"  {text}: {' '.join(parts)} after {now - began:.0f} s")

        yield report
        self._say(f"  {text}: done in {self._clock() - began:.0f} s")


class Live:
    """A moving bar on a terminal."""

    def __init__(self, stream: TextIO) -> None:
        from rich.console import Console

        self._console = Console(file=stream, highlight=False)

    def step(self, text: str) -> None:
        """Print the line."""
        self._console.print(text)

    @contextmanager
    def counting(self, text: str, total: int, unit: str = "") -> Iterator[Callable[[int], None]]:
        """Show a bar with the count and the time gone by, until the work ends."""
        from rich.progress import BarColumn, MofNCompleteColumn, SpinnerColumn, TextColumn, TimeElapsedColumn
        from rich.progress import Progress as Bars

        columns = (
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn(unit),
            TimeElapsedColumn(),
        )
        with Bars(*columns, console=self._console) as bars:
            task = bars.add_task(text, total=total or None)
            yield lambda done: bars.update(task, completed=done)
            if total:
                bars.update(task, completed=total)


def progress_for(stream: TextIO) -> ProgressListener:
    """A live bar when the stream is a terminal, else lines."""
    if stream.isatty():
        return Live(stream)
    return Lines(lambda line: print(line, file=stream, flush=True))
