"""`wharfinger` commands as processes of their own that need not import the package again.

Importing it takes a worker a second of CPU, and tests start hundreds. One process a session imports it once, and each
command is a fork of that one: with its own pid, environment, output, signals and exit code. All die with the session.
The tests of `wharfinger` as a program (its door, `dev`, what agents start, an installed wheel) start a new interpreter.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile
import types
from collections.abc import Iterator, Mapping
from pathlib import Path

_context = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload(["tests.forked_imports"])


def may_fork(env: Mapping[str, str]) -> bool:
    """Whether a command in this environment would import what was imported already.

    With another PYTHONPATH it may be another release, or have packages more: a fork would run the present code instead.
    """
    return env.get("PYTHONPATH") == os.environ.get("PYTHONPATH")


class Forked:
    """A running command, with the methods of `subprocess.Popen` that tests use."""

    def __init__(
        self, arguments: tuple[str, ...], env: Mapping[str, str], output: Path, errors: Path, stdin: str = os.devnull
    ) -> None:
        """`output`, `errors`: files that are made or written on; they may be the same."""
        assert may_fork(env), "another PYTHONPATH needs an interpreter of its own"
        paths = (stdin, str(output), str(errors))
        self._process = _context.Process(target=_run, args=(arguments, dict(env), paths), daemon=True)
        with _no_main_module():
            self._process.start()
        assert self._process.pid is not None
        self.pid = self._process.pid

    @property
    def returncode(self) -> int | None:
        return self._process.exitcode

    def poll(self) -> int | None:
        return self._process.exitcode

    def wait(self, timeout: float | None = None) -> int:
        self._process.join(timeout)
        code = self._process.exitcode
        if code is None:
            raise subprocess.TimeoutExpired(f"pid {self.pid}", timeout or 0)
        return code

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


@contextlib.contextmanager
def _no_main_module() -> Iterator[None]:
    """Meanwhile multiprocessing finds no main module (pytest's), which each new process would import for us."""
    main = sys.modules["__main__"]
    sys.modules["__main__"] = types.ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = main


def run(*arguments: str, env: Mapping[str, str], stdin: str = "", timeout: float) -> subprocess.CompletedProcess[str]:
    """Run a command to its end, as `subprocess.run` with captured text; `timeout` in seconds."""
    if not may_fork(env):
        command = [sys.executable, "-m", "wharfinger", *arguments]
        return subprocess.run(
            command, env=env, input=stdin, timeout=timeout, capture_output=True, text=True, check=False
        )
    with tempfile.TemporaryDirectory() as folder:
        given, output, errors = (Path(folder) / name for name in ("stdin", "stdout", "stderr"))
        given.write_text(stdin)
        process = Forked(arguments, env, output, errors, str(given))
        try:
            code = process.wait(timeout)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise
        return subprocess.CompletedProcess(arguments, code, output.read_text(), errors.read_text())


def _run(arguments: tuple[str, ...], environment: dict[str, str], paths: tuple[str, str, str]) -> None:
    """In the new process: the command, which leaves with its exit code."""
    from tests.forked_imports import die_with_parent

    if die_with_parent is not None:
        die_with_parent()
    os.environ.clear()
    os.environ.update(environment)
    for descriptor, path in enumerate(paths):
        opened = os.open(path, os.O_RDONLY if descriptor == 0 else os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        os.dup2(opened, descriptor)
        os.close(opened)
    sys.stdin = open(0, closefd=False)  # noqa: SIM115 - the process's own; multiprocessing has replaced it
    from wharfinger.cli.main import main

    main(arguments)
