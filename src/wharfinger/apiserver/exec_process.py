"""One run of a credential plugin as a process: no shell, no terminal, a limit of time and of output.

What it prints to its standard error is discarded, because it may have secrets.
"""

from __future__ import annotations

import asyncio
import os
import signal
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

RUN_LIMIT = 30.0
"""Seconds that a plugin may take."""
OUTPUT_LIMIT = 1024 * 1024
"""Bytes that it may print."""
_FAREWELL = 5.0
"""Seconds for what was killed to end. A child in a session of its own is not killed and may hold the output open."""


@dataclass(frozen=True, slots=True)
class PluginCommand:
    """What is run."""

    arguments: Sequence[str] = field(repr=False)
    """The program's path first."""
    environment: Mapping[str, str] = field(repr=False)
    """All of it."""


@dataclass(frozen=True, slots=True)
class PluginRun:
    """How a run ended."""

    output: bytes = field(default=b"", repr=False)
    """What it printed, if it succeeded."""
    failure: str = ""
    """Why there is no output to be used, for people: follows the name of the command. Empty = it succeeded."""


RunPlugin = Callable[[PluginCommand], Awaitable[PluginRun]]
"""Runs a command until it ends. Does not raise for anything that a command can do."""


async def run_plugin(command: PluginCommand, *, seconds: float = RUN_LIMIT, limit: int = OUTPUT_LIMIT) -> PluginRun:
    """Run a command and read what it prints. It is killed, with its children, at either limit, or when cancelled."""
    try:
        # A session of its own, so that its children can be killed with it, and a terminal's Ctrl-C does not reach it.
        process = await asyncio.create_subprocess_exec(
            *command.arguments,
            stdin=DEVNULL,
            stdout=PIPE,
            stderr=DEVNULL,
            env=dict(command.environment),
            start_new_session=True,
        )
    except OSError as error:
        return PluginRun(failure=f"cannot be started: {error.strerror}")
    except ValueError:
        return PluginRun(failure="cannot be started: there is a NUL character in its arguments or environment")
    ended = False
    try:
        async with asyncio.timeout(seconds):
            output = await _output(process, limit)
            if output is None:
                return PluginRun(failure=f"printed more than {limit} bytes")
            code = await process.wait()
            ended = True
            return _outcome(code, output)
    except TimeoutError:
        return PluginRun(failure=f"did not end within {seconds:g} s")
    finally:
        if not ended:
            await _kill(process)


async def _output(process: Process, limit: int) -> bytes | None:
    """All that is printed until the output is closed; None if that is more than the limit."""
    if process.stdout is None:
        raise RuntimeError("the process was started without a pipe")
    parts: list[bytes] = []
    size = 0
    while part := await process.stdout.read(64 * 1024):
        parts.append(part)
        size += len(part)
        if size > limit:
            return None
    return b"".join(parts)


def _outcome(code: int, output: bytes) -> PluginRun:
    if code < 0:
        return PluginRun(failure=f"was ended by signal {-code}")
    return PluginRun(failure=f"ended with exit code {code}") if code else PluginRun(output)


async def _kill(process: Process) -> None:
    """End the command and its children. They may outlive it, and hold its output open."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    with suppress(TimeoutError):
        async with asyncio.timeout(_FAREWELL):
            # asyncio reports an end only after the output was read to its end.
            while process.stdout is not None and await process.stdout.read(64 * 1024):
                pass
            await process.wait()
