"""What commands print: plain columns for people, JSON or YAML for programs (`-o`).

A reader that leaves before the end (`| head`) is nothing wrong: then the command ends quietly.
"""

from __future__ import annotations

import errno
import io
import json
import os
import select
import stat
import sys
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from enum import StrEnum
from typing import Annotated, Any, TextIO, TypeVar

import typer

from wharfinger.objects.model.texts import plain as plain  # noqa: PLC0414 - commands print by it what others wrote

T = TypeVar("T")


@contextmanager
def duplicates() -> Iterator[Mapping[TextIO, int]]:
    """The standard streams with duplicates of where they write to: rich redirects a stream whose reader has left."""
    kept: dict[TextIO, int] = {}
    try:
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:  # the process was started without it
                with suppress(io.UnsupportedOperation):  # it is no file
                    kept[stream] = os.dup(stream.fileno())
        yield kept
    finally:
        for pipe in kept.values():
            os.close(pipe)


def reader_left(pipe: int) -> bool:
    """Whether the reader of a pipe has closed it; false of what is no pipe."""
    poll = select.poll()
    poll.register(pipe, 0)  # errors are reported in any case
    return any(events & (select.POLLERR | select.POLLHUP) for _, events in poll.poll(0))


async def until_reader_left(watch: Coroutine[Any, Any, T]) -> T:
    """Await what prints changes. Raises `BrokenPipeError` once the reader of standard output has left.

    A watch may print nothing for hours, so a write does not show it.
    """
    import asyncio

    pipe = _output_pipe()
    if pipe is None:
        return await watch
    loop, task, left = asyncio.get_running_loop(), asyncio.ensure_future(watch), False

    def leave() -> None:
        nonlocal left
        left = True
        loop.remove_reader(pipe)
        task.cancel()

    loop.add_reader(pipe, leave)  # the writing end of a pipe is readable only when it is broken
    try:
        return await task
    except asyncio.CancelledError:
        own = asyncio.current_task()
        if left and not (own is not None and own.cancelling()):  # Ctrl-C comes first
            raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE)) from None
        raise
    finally:
        loop.remove_reader(pipe)


def _output_pipe() -> int | None:
    """Standard output, if it is a pipe."""
    if sys.stdout is None:
        return None
    with suppress(io.UnsupportedOperation):
        output = sys.stdout.fileno()
        return output if stat.S_ISFIFO(os.fstat(output).st_mode) else None
    return None


def discard(stream: TextIO) -> None:
    """Send what is printed to a stream from now on, and what it still holds, nowhere."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)


class Output(StrEnum):
    """How a command prints."""

    TABLE = "table"
    JSON = "json"
    YAML = "yaml"


OutputOption = Annotated[Output, typer.Option("--output", "-o", help="How to print.", metavar="table|json|yaml")]
"""Annotation of a command's parameter `output`, whose default is `Output.TABLE`."""

SHOWN_EACH = 64
"""Pods from one move of a progress bar to the next, at least."""
PROGRESS_FROM = 2000
"""Pods from which on a terminal is shown a progress bar."""
_GAP = "   "


class Columns:
    """Rows under headings, in columns as wide as their widest cell; later rows keep the widths.

    Plain text: it can be piped through grep, and a watch can go on printing rows.
    """

    def __init__(self, *headings: str) -> None:
        self.headings = headings
        self._widths = [len(heading) for heading in headings]

    def render(self, rows: Sequence[Sequence[str]], *, headings: bool = True) -> str:
        """The lines of these rows, without the last line's end."""
        cells = [[plain(cell) for cell in row] for row in rows]
        for row in cells:
            self._widths = [max(width, len(cell)) for width, cell in zip(self._widths, row, strict=True)]
        shown = [self.headings, *cells] if headings else cells
        return "\n".join(self._line(row) for row in shown)

    def _line(self, row: Sequence[str]) -> str:
        return _GAP.join(cell.ljust(width) for cell, width in zip(row, self._widths, strict=True)).rstrip()


def show(value: Any, output: Output) -> None:
    """Print a plain value as JSON or YAML."""
    typer.echo(to_text(value, output))


def show_answer(output: Output, value: Callable[[], Any], text: Callable[[], str]) -> None:
    """Print an answer: `value`, which is plain, for programs, or `text` for people; the other one is not made."""
    typer.echo(text() if output is Output.TABLE else to_text(value(), output))


def show_rows(value: Any, output: Output, headings: Sequence[str], rows: Sequence[Sequence[str]], nothing: str) -> None:
    """Print a plain value for programs, or its rows for people; `nothing` on standard error where there are none."""
    if output is not Output.TABLE:
        show(value, output)
    elif rows:
        typer.echo(Columns(*headings).render(rows))
    else:
        typer.echo(nothing, err=True)


def say(text: str, *, err: bool = False) -> None:
    """Print a line; when the reader has left (`| head`), go on without it.

    For commands that write several objects, which must not end half-way.
    """
    try:
        typer.echo(text, err=err)
    except BrokenPipeError:
        discard(sys.stderr if err else sys.stdout)


@contextmanager
def progress(text: str, total: int, *, shown_from: int = PROGRESS_FROM) -> Iterator[Callable[[int, int], None]]:
    """A bar on standard error, for long work and a terminal; yields a function of how much is done, of how much.

    `total`: of pods or so, as far as it is known before; 0 = unknown, and long. Below `shown_from` there is no bar.
    """
    if (total and total < shown_from) or not sys.stderr.isatty():
        yield lambda _done, _total: None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True, redirect_stdout=sys.stdout.isatty()) as bar:
        task = bar.add_task(text, total=total or None)
        shown = 0

        def moved(done: int, of: int) -> None:
            nonlocal shown
            if done - shown >= SHOWN_EACH or done == of:
                shown = done
                bar.update(task, completed=done, total=of or None)

        yield moved


def to_text(value: Any, output: Output) -> str:
    """A plain value as JSON (indented) or YAML, without a last line's end."""
    if output is Output.YAML:
        from wharfinger.objects.documents.yaml_text import to_yaml

        return to_yaml(value).rstrip("\n")
    return json.dumps(value, indent=2, ensure_ascii=False).encode(errors="replace").decode()
