"""What signals do to a command that runs a tree of processes."""

from __future__ import annotations

import asyncio
import os
import signal
from contextlib import suppress

import pytest

from wharfinger.dev.cli.stopping import Stopping


class Tree:
    """Counts how often it was killed."""

    killed = 0

    def kill(self) -> None:
        self.killed += 1


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
async def test_first_signal_cancels_the_work_and_gives_the_exit_code(number: signal.Signals, code: int) -> None:
    stopping = Stopping()

    async def work() -> None:
        with stopping:
            os.kill(os.getpid(), number)
            await asyncio.Event().wait()

    with suppress(asyncio.CancelledError):
        await asyncio.create_task(work())

    assert stopping.asked
    assert (stopping.exit_code, stopping.signal_name) == (code, number.name)


async def test_second_signal_kills_the_tree() -> None:
    stopping, tree = Stopping(), Tree()
    stopping.tree = tree  # type: ignore[assignment]

    async def work() -> None:
        with stopping:
            os.kill(os.getpid(), signal.SIGINT)
            try:
                await asyncio.Event().wait()
            finally:
                os.kill(os.getpid(), signal.SIGTERM)
                while not tree.killed:
                    await asyncio.sleep(0)

    with suppress(asyncio.CancelledError):
        await asyncio.create_task(work())

    assert tree.killed == 1
    assert stopping.exit_code == 130


async def test_work_that_ends_by_itself_has_no_signal() -> None:
    with Stopping() as stopping:
        pass

    assert not stopping.asked
    assert (stopping.exit_code, stopping.signal_name) == (0, "")
