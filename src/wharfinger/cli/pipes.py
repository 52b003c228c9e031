"""What a command's output becomes when its reader leaves before the end (`| head`), which is nothing wrong."""

from __future__ import annotations

import io
import os
import select
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import TextIO


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


def discard(stream: TextIO) -> None:
    """Send what is printed to a stream from now on, and what it still holds, nowhere."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)
