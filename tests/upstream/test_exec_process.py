"""Runs of real processes: limits of time and output, and that nothing of them is left."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from tests.patience import patient
from wharfinger.upstream.exec_process import PluginCommand, PluginRun, run_plugin


def shell(script: str, *arguments: str) -> PluginCommand:
    return PluginCommand(("/bin/sh", "-c", script, "sh", *arguments), {"PATH": os.defpath, "A": "b"})


def is_running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state not in {"Z", "X"}


async def gone(pid: int) -> None:
    async with asyncio.timeout(patient(10)):
        while is_running(pid):
            await asyncio.sleep(0.01)


async def test_output_is_returned() -> None:
    assert await run_plugin(shell("echo $A $1", "c")) == PluginRun(b"b c\n")


async def test_arguments_are_not_read_by_a_shell() -> None:
    ran = await run_plugin(PluginCommand(("/bin/echo", "$A; exit 1"), {"A": "b"}))

    assert ran == PluginRun(b"$A; exit 1\n")


async def test_only_the_given_environment_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HIDDEN", "x")

    assert await run_plugin(shell("echo ${HIDDEN-none}")) == PluginRun(b"none\n")


async def test_input_is_empty() -> None:
    assert await run_plugin(shell("cat; echo end")) == PluginRun(b"end\n")


@pytest.mark.parametrize(
    ("script", "failure"),
    [("echo secret; exit 7", "ended with exit code 7"), ("kill -15 $$", "was ended by signal 15")],
)
async def test_failure_has_no_output(script: str, failure: str) -> None:
    assert await run_plugin(shell(script)) == PluginRun(failure=failure)


async def test_command_that_cannot_start_is_a_failure(tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    broken.write_text("#!/no/such/interpreter\n")
    broken.chmod(0o700)

    ran = await run_plugin(PluginCommand((str(broken),), {}))
    nul = await run_plugin(PluginCommand(("/bin/echo", "a\0b"), {}))
    large = await run_plugin(PluginCommand(("/bin/echo",), {"A": "x" * 200_000}))

    assert ran.failure == "cannot be started: No such file or directory"
    assert nul.failure.startswith("cannot be started: there is a NUL character")
    assert large.failure == "cannot be started: Argument list too long"


async def test_hanging_command_is_killed_with_its_children(tmp_path: Path) -> None:
    pids = tmp_path / "pids"

    ran = await run_plugin(shell('sleep 600 & echo $$ $! > "$1"; wait', str(pids)), seconds=patient(0.5))

    assert ran.failure.startswith("did not end within")
    for pid in pids.read_text().split():
        await gone(int(pid))


async def test_child_that_holds_the_output_open_is_killed(tmp_path: Path) -> None:
    """The command itself ends at once; its child keeps the pipe."""
    pid = tmp_path / "pid"

    ran = await run_plugin(shell('sleep 600 & echo $! > "$1"', str(pid)), seconds=patient(0.5))

    assert ran.failure.startswith("did not end within")
    await gone(int(pid.read_text()))


async def test_too_much_output_is_a_failure() -> None:
    within = await run_plugin(shell("head -c 5000 /dev/zero"), limit=5000)
    beyond = await run_plugin(shell("head -c 5001 /dev/zero"), limit=5000)
    endless = await run_plugin(shell("cat /dev/zero"), limit=300_000)

    assert len(within.output) == 5000
    assert beyond.failure == "printed more than 5000 bytes"
    assert endless.failure == "printed more than 300000 bytes"


async def test_cancelled_run_leaves_no_process(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    run = asyncio.create_task(run_plugin(shell('echo $$ > "$1.new"; mv "$1.new" "$1"; exec sleep 600', str(pid))))
    async with asyncio.timeout(patient(10)):
        while not pid.exists():
            await asyncio.sleep(0.01)

    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run

    await gone(int(pid.read_text()))


async def test_event_loop_goes_on_during_a_run() -> None:
    ticks = 0
    run = asyncio.create_task(run_plugin(shell("sleep 0.2")))
    while not run.done():
        await asyncio.sleep(0.01)
        ticks += 1

    assert await run == PluginRun()
    assert ticks >= 3
