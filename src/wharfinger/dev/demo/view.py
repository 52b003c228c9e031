"""What the demo shows while it runs: lines that stay, and how far it is."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress, TaskID

LINE_EVERY = 5.0
"""Seconds between two lines of progress where there is no terminal."""


class DemoView:
    """A context: the moving part is gone at its end."""

    def __init__(self, stream: TextIO, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._stream = stream
        self._clock = clock
        self._began = clock()
        self._said = self._began
        self._console: Console | None = None
        self._bars: Progress | None = None
        self._task: TaskID | None = None
        if stream.isatty():
            from rich.console import Console

            self._console = Console(file=stream, highlight=False)

    def __enter__(self) -> DemoView:
        return self

    def __exit__(self, *error: object) -> None:
        self.hide()

    def say(self, line: str) -> None:
        """Print one line, with the seconds gone by."""
        stamped = f"{self._clock() - self._began:6.1f} s  {line}"
        if self._console is not None:
            self._console.print(stamped, markup=False)
        else:
            print(stamped, file=self._stream, flush=True)

    def show(self, pods: int) -> None:
        """Show progress towards `pods` from now on."""
        if self._console is None:
            return
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn

        news = "{task.fields[rate]:.0f} pods/s, refused {task.fields[refused]}, workers up {task.fields[up]}"
        columns = (SpinnerColumn(), TextColumn("bound"), BarColumn(), MofNCompleteColumn(), TextColumn(news))
        self._bars = Progress(*columns, console=self._console, transient=True)
        self._task = self._bars.add_task("", total=pods, rate=0.0, refused=0, up=0)
        self._bars.start()

    def update(self, *, bound: int, refused: int, rate: float, up: int) -> None:
        """How far it is now: `rate` in pods a second, `up` workers running."""
        if self._bars is not None and self._task is not None:
            self._bars.update(self._task, completed=bound, refused=refused, rate=rate, up=up)
        elif self._console is None and self._clock() - self._said >= LINE_EVERY:
            self._said = self._clock()
            self.say(f"bound {bound}, refused {refused}, {rate:.0f} pods/s, workers up: {up}")

    def hide(self) -> None:
        """Take the moving part away."""
        if self._bars is not None:
            self._bars.stop()
            self._bars = None
