"""Runs of real processes: limits of time and output, and that nothing of them is left."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from tests.patience import patient
from wharfinger.apiserver.exec_plugin import PluginCommand, PluginRun, run_plugin


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


async def hanging(command: PluginCommand, pids: Path) -> list[int]:
    """Processes of a command that was ended for hanging. It gets more time where it had not written them by then."""
    for seconds in (0.3, 3.0, patient(30)):
        ran = await run_plugin(command, seconds=seconds)
        assert ran.failure.startswith("did not end within")
        if pids.exists() and pids.read_text().endswith("\n"):
            break
    return [int(pid) for pid in pids.read_text().split()]


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

    for pid in await hanging(shell('sleep 600 & echo $$ $! > "$1"; wait', str(pids)), pids):
        await gone(pid)


async def test_child_that_holds_the_output_open_is_killed(tmp_path: Path) -> None:
    """The command itself ends at once; its child keeps the pipe."""
    pids = tmp_path / "pids"

    for pid in await hanging(shell('sleep 600 & echo $! > "$1"', str(pids)), pids):
        await gone(pid)


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


async def test_event_loop_goes_on_during_a_run(tmp_path: Path) -> None:
    """The command ends only when a task of the loop lets it."""
    go = tmp_path / "go"
    run = asyncio.create_task(run_plugin(shell('while [ ! -e "$1" ]; do sleep 0.01; done', str(go))))
    for _ in range(3):
        await asyncio.sleep(0.01)
        assert not run.done()
    go.touch()

    assert await run == PluginRun()
