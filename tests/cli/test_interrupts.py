"""Ctrl-C ends a command, also one that misses the first request."""

from __future__ import annotations

import asyncio
import os
import signal

import pytest

from wharfinger.cli import connect


def test_a_command_that_loses_the_first_request_to_end_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connect, "INSIST", 0.01)
    requests = 0

    async def deaf() -> None:
        nonlocal requests
        os.kill(os.getpid(), signal.SIGINT)
        while requests < 2:
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                requests += 1

    with pytest.raises(KeyboardInterrupt):
        connect.run(deaf())

    assert requests == 2


def test_results_and_errors_come_through() -> None:
    async def answer(value: int) -> int:
        if value < 0:
            raise ValueError("negative")
        return value

    assert connect.run(answer(3)) == 3
    with pytest.raises(ValueError, match="negative"):
        connect.run(answer(-1))
