"""What a command's output becomes when its reader leaves before the end (`| head`), which is nothing wrong."""

from __future__ import annotations

import errno
import io
import os
import select
import stat
import sys
from collections.abc import Coroutine, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, TextIO, TypeVar

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
