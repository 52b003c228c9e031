"""Real instance processes, of a script that does what it is told by its arguments."""

from __future__ import annotations

import os
import sys
import textwrap
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from wharfinger.fleet.agent.processes import Processes
from wharfinger.process.children import locks
from wharfinger.process.children.limits import ProcessLimits
from wharfinger.process.children.runtime import Command

SCRIPT = textwrap.dedent(
    """
    import os, pathlib, signal, subprocess, sys, time
    from wharfinger.process.children import locks
    lock = locks.hold(pathlib.Path(sys.argv[1]))
    what = sys.argv[2] if len(sys.argv) > 2 else "sleep"
    if what == "stubborn":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    elif what == "polite":
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    elif what == "child":
        print("child", subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"]).pid)
    elif what.startswith("exit"):
        print("leaving with", what)
        sys.exit(int(what[4:]))
    print("up", flush=True)
    time.sleep(600)
    """
)


def instance_command(lock: Path, what: str = "sleep", **more: int) -> Command:
    """Runs the script."""
    environment = {"PYTHONPATH": os.environ["PYTHONPATH"]} if "PYTHONPATH" in os.environ else {}
    return Command(Path(sys.executable), ("-c", SCRIPT, str(lock), what), environment, **more)


@asynccontextmanager
async def runtime_on(data: Path, group: Path | None = None) -> AsyncIterator[Processes]:
    """A runtime, with a cgroup where one is given; what it started goes on when it is closed."""
    runtime = Processes(data, ProcessLimits(group))
    try:
        yield runtime
    finally:
        await runtime.close()


@pytest.fixture
def data(tmp_path: Path) -> Iterator[Path]:
    """A data folder; no process of it outlives the test."""
    yield tmp_path
    for lock in (tmp_path / "instances").glob("*/*/*.lock"):
        if locks.locked(lock) and (life := locks.holder(lock)) is not None:
            life.kill()
            with suppress(ChildProcessError):
                os.waitpid(life.pid, 0)
        with suppress(OSError):
            lock.unlink()
