"""Runs the collected tests in several forks of pytest: `make check` sets the variable `TESTS_PROCESSES`.

::

    pytest: collects ──fork──► process 0 ─┐   each takes the next few tests from a queue, a pipe,
                     ├─fork──► process 1 ─┤   and sends what pytest reports of them
                     └─fork──► process 2 ─┴─► pytest: counts and prints, as if it had run them

Processes of pytest-xdist, which `make test` uses, each import and collect all the tests, and send several messages
about each. Where tests take milliseconds, that doubles the processor time. Tests with servers take seconds, and share
servers by the file; there xdist's scheduling is worth more.

Neighbours: `tests.conftest` registers the plugin, `tests.patience` counts the processes.
"""

from __future__ import annotations

import os
import pickle
import selectors
import signal
import sys
import traceback
import warnings
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any, NoReturn

import pytest

from tests.patience import PROCESS, PROCESSES
from wharfinger.dev import processes

_TESTS_AT_ONCE = 8
"""A process takes so many tests of one file. They often share fixtures; but the last ones should not be many."""
_NUMBER_BYTES = 4
_LENGTH_BYTES = 4
_PIPE_BYTES = 65_536
"""What a pipe holds on Linux before a writer must wait."""
_LONG = ("properties", "tooling", "packaging")
"""Folders that go first: tests of seconds must not be the last ones, while other processes have none left."""


class ForkedSession:
    """Takes the place of pytest's own loop over the tests."""

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool | None:
        """Run all tests; None leaves a session without tests to run to pytest."""
        if session.testsfailed or session.config.option.collectonly or not session.items:
            return None
        batches = _batches(session.items)
        queue = _filled(len(batches))
        # Each fork would look for a free name of its own, and remove the folders of earlier sessions.
        temporary = session.config._tmp_path_factory
        temporary.getbasetemp()
        forks: dict[int, int] = {}
        try:
            for number in range(PROCESSES):
                reading, writing = os.pipe()
                sys.stdout.flush()
                fork = _Fork(session, number, writing)
                if (pid := os.fork()) == 0:
                    fork.run(_taken(batches, queue))
                os.close(writing)
                forks[pid] = reading
            os.close(queue)
            _Reports(session, forks).receive()
        finally:
            for pid in forks:
                os.kill(pid, signal.SIGKILL)  # what it has started ends with it; a test may have ignored other signals
                os.waitpid(pid, 0)
        return True


def _batches(items: Sequence[pytest.Item]) -> list[list[pytest.Item]]:
    """The tests, those that may take long first; a batch has tests of one file."""
    found: list[list[pytest.Item]] = []
    for _, group in groupby(items, lambda item: item.path):
        of_file = list(group)
        found += [of_file[at : at + _TESTS_AT_ONCE] for at in range(0, len(of_file), _TESTS_AT_ONCE)]
    found.sort(key=lambda batch: _LONG.index(room) if (room := batch[0].path.parent.name) in _LONG else len(_LONG))
    return found


def _filled(count: int) -> int:
    """A pipe with the numbers of all batches. Whoever reads one has it alone, and its end is the end of the work."""
    assert count * _NUMBER_BYTES <= _PIPE_BYTES, f"{count} batches do not fit into a pipe"
    reading, writing = os.pipe()
    os.write(writing, b"".join(number.to_bytes(_NUMBER_BYTES, "big") for number in range(count)))
    os.close(writing)
    return reading


def _taken(batches: Sequence[Sequence[pytest.Item]], queue: int) -> Iterator[pytest.Item]:
    """The tests of one process."""
    while number := os.read(queue, _NUMBER_BYTES):
        yield from batches[int.from_bytes(number, "big")]


class _Fork:
    """One of the processes. It prints nothing and does not end the session: its parent does both."""

    def __init__(self, session: pytest.Session, number: int, output: int) -> None:
        self._session, self._config = session, session.config
        self._number, self._descriptor = number, output
        self._end_with_parent = processes.die_with_parent()
        self._reports: list[pytest.TestReport | dict[str, Any]] = []

    def run(self, items: Iterator[pytest.Item]) -> NoReturn:
        """Run the tests and end the process."""
        try:
            self._prepare()
            item = next(items, None)
            while item is not None and not self._session.shouldfail and not self._session.shouldstop:
                following = next(items, None)  # fixtures that it uses too are kept
                self._config.hook.pytest_runtest_protocol(item=item, nextitem=following)
                item = following
        except KeyboardInterrupt:
            os._exit(2)
        except BaseException:
            traceback.print_exc(file=sys.__stderr__)
            os._exit(3)
        os._exit(0)

    def _prepare(self) -> None:
        if self._end_with_parent is not None:
            self._end_with_parent()
        os.environ[PROCESS] = str(self._number)
        self._output = os.fdopen(self._descriptor, "wb")
        temporary = self._config._tmp_path_factory
        temporary._basetemp = temporary.mktemp(f"process{self._number}", numbered=False)
        plugins = self._config.pluginmanager
        plugins.unregister(name="terminalreporter")
        plugins.register(self, "reports to the parent")
        capture: Any = plugins.getplugin("capturemanager")
        capture.stop_global_capturing()  # its files are those of all forks
        capture.start_global_capturing()
        capture.suspend_global_capture(in_=True)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Remember a phase of a test."""
        plain = report.longrepr is None
        self._reports.append(
            report if plain else self._config.hook.pytest_report_to_serializable(config=self._config, report=report)
        )

    def pytest_runtest_logfinish(self, nodeid: str, location: tuple[str, int | None, str]) -> None:
        """Send what there is about the test."""
        self._send((nodeid, location, self._reports))
        self._reports = []

    def pytest_warning_recorded(
        self, warning_message: warnings.WarningMessage, when: str, nodeid: str, location: Any
    ) -> None:
        """Send a warning, which the parent sums up."""
        warning_message.source = None  # for example a coroutine, which no pickle can hold
        self._send({"warning_message": warning_message, "when": when, "nodeid": nodeid, "location": location})

    def _send(self, message: object) -> None:
        body = pickle.dumps(message)
        self._output.write(len(body).to_bytes(_LENGTH_BYTES, "big") + body)
        self._output.flush()


class _Reports:
    """What the parent does: hand on the reports of all forks, and notice one that ends before its time."""

    def __init__(self, session: pytest.Session, forks: dict[int, int]) -> None:
        """`forks`: pid -> where its messages are read. Those that have ended are taken out."""
        self._session, self._hook = session, session.config.hook
        self._forks = forks
        self._missing = {item.nodeid: item.location for item in session.items}
        self._ends: list[str] = []

    def receive(self) -> None:
        """Until all forks have ended. Raises what pytest's own loop does when the session is to stop."""
        with selectors.DefaultSelector() as selector:
            for pid, reading in self._forks.items():
                selector.register(reading, selectors.EVENT_READ, (pid, bytearray()))
            while selector.get_map():
                for key, _ in selector.select():
                    pid, unread = key.data
                    if chunk := os.read(key.fd, _PIPE_BYTES):
                        unread += chunk
                        self._hand_on(unread)
                        continue
                    selector.unregister(key.fd)
                    os.close(key.fd)
                    self._ended(pid)
                if self._session.shouldfail:
                    raise self._session.Failed(self._session.shouldfail)
                if self._session.shouldstop:
                    raise self._session.Interrupted(self._session.shouldstop)
        for nodeid, location in self._missing.items():
            why = f"no process ran this test to its end: {', '.join(self._ends) or 'it was not taken'}"
            self._hook.pytest_runtest_logreport(
                report=pytest.TestReport(nodeid, location, {}, outcome="failed", longrepr=why, when="call")
            )

    def _ended(self, pid: int) -> None:
        _, status = os.waitpid(pid, 0)
        del self._forks[pid]
        if code := os.waitstatus_to_exitcode(status):
            self._ends.append(f"one ended by signal {-code}" if code < 0 else f"one ended with code {code}")

    def _hand_on(self, unread: bytearray) -> None:
        """Give complete messages to pytest; the rest stays unread."""
        while len(unread) >= _LENGTH_BYTES:
            end = _LENGTH_BYTES + int.from_bytes(unread[:_LENGTH_BYTES], "big")
            if len(unread) < end:
                return
            message = pickle.loads(unread[_LENGTH_BYTES:end])
            del unread[:end]
            if isinstance(message, dict):
                self._hook.pytest_warning_recorded.call_historic(kwargs=message)
            else:
                self._report(*message)

    def _report(
        self, nodeid: str, location: tuple[str, int | None, str], reports: list[pytest.TestReport | dict[str, Any]]
    ) -> None:
        del self._missing[nodeid]
        self._hook.pytest_runtest_logstart(nodeid=nodeid, location=location)
        for sent in reports:
            report = sent
            if isinstance(sent, dict):
                report = self._hook.pytest_report_from_serializable(config=self._session.config, data=sent)
            self._hook.pytest_runtest_logreport(report=report)
        self._hook.pytest_runtest_logfinish(nodeid=nodeid, location=location)
