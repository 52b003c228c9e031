"""Runs the collected tests in several forks of pytest: `make check` and `make test` set `TESTS_PROCESSES`.

::

    pytest: collects ──fork──► process 0 ─┐   each takes the next batch of tests from a queue, a pipe,
                     ├─fork──► process 1 ─┤   and sends what pytest reports of them
                     └─fork──► process 2 ─┴─► pytest: counts and prints, as if it had run them

Processes that each import and collect all the tests would need as much processor time again as those of `make check`.

Neighbours: `tests.batches` says which tests are a batch, `tests.conftest` registers the plugin, `tests.patience` counts
the processes.
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
from itertools import pairwise
from pathlib import Path
from typing import Any, NoReturn

import pytest

from tests.batches import Batch, batches
from tests.patience import PROCESS, PROCESSES
from wharfinger.dev import processes

_NUMBER_BYTES = 4
_LENGTH_BYTES = 4
_PIPE_BYTES = 65_536
"""What a pipe holds on Linux before a writer must wait."""
STATE = "XDG_STATE_HOME"
"""Variable with the folder where workers remember their dynamic configuration, unless a test says where."""
_NICENESS = 10
"""Of the calm process, which yields to all others."""


class ForkedSession:
    """Takes the place of pytest's own loop over the tests."""

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool | None:
        """Run all tests; None leaves a session without tests to run to pytest."""
        if session.testsfailed or session.config.option.collectonly or not session.items:
            return None
        busy, calm = batches(session.items)
        queues = (_filled(range(len(busy))), _filled(range(len(busy), len(busy) + len(calm))))
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
                    is_calm = bool(calm) and PROCESSES > 2 and number == PROCESSES - 1
                    if is_calm:
                        os.nice(_NICENESS)
                    fork.run(_taken([*busy, *calm], queues[1:] if is_calm else queues))
                os.close(writing)
                forks[pid] = reading
            for queue in queues:
                os.close(queue)
            _Reports(session, forks).receive()
        finally:
            for pid in forks:
                os.kill(pid, signal.SIGKILL)  # what it has started ends with it; a test may have ignored other signals
                os.waitpid(pid, 0)
        return True


def _filled(numbers: Sequence[int]) -> int:
    """A pipe with the numbers of batches. Each is read by one process, and its end is the end of the work."""
    assert len(numbers) * _NUMBER_BYTES <= _PIPE_BYTES, f"{len(numbers)} batches do not fit into a pipe"
    reading, writing = os.pipe()
    os.write(writing, b"".join(number.to_bytes(_NUMBER_BYTES, "big") for number in numbers))
    os.close(writing)
    return reading


def _taken(found: Sequence[Batch], queues: Sequence[int]) -> Iterator[Batch]:
    """The batches of one process: it begins with a queue when the one before is empty."""
    for queue in queues:
        while number := os.read(queue, _NUMBER_BYTES):
            yield found[int.from_bytes(number, "big")]


class _Fork:
    """One of the processes. It prints nothing and does not end the session: its parent does both."""

    def __init__(self, session: pytest.Session, number: int, output: int) -> None:
        self._session, self._config = session, session.config
        self._number, self._descriptor = number, output
        self._end_with_parent = processes.die_with_parent()
        self._reports: list[pytest.TestReport | dict[str, Any]] = []

    def run(self, taken: Iterator[Batch]) -> NoReturn:
        """Run the tests and end the process."""
        session = self._session
        try:
            self._prepare()
            for item, following in self._tests(taken):
                self._config.hook.pytest_runtest_protocol(item=item, nextitem=following)
                if session.shouldfail or session.shouldstop:
                    break
        except KeyboardInterrupt:
            os._exit(2)
        except BaseException:
            traceback.print_exc(file=sys.__stderr__)
            os._exit(3)
        os._exit(0)

    def _tests(self, taken: Iterator[Batch]) -> Iterator[tuple[pytest.Item, pytest.Collector | pytest.Item]]:
        """Each test, and what follows, whose fixtures are kept.

        The next batch is taken when the last test of a batch has run: that may be long, and another process idle. The
        fixtures of its folder are kept until then, because the next batch is often from there.
        """
        last: pytest.Item | None = None
        for batch in taken:
            self._tear_down(last, batch[0])
            last = batch[-1]
            yield from pairwise([*batch, last.getparent(pytest.Directory) or self._session])
        self._tear_down(last, None)

    def _tear_down(self, last: pytest.Item | None, following: pytest.Item | None) -> None:
        """End the fixtures that the following test does not use; a failure is one of the last test that has run."""
        if last is not None:
            end = self._session._setupstate.teardown_exact
            call = pytest.CallInfo.from_call(lambda: end(following), when="teardown")
            report = self._config.hook.pytest_runtest_makereport(item=last, call=call)
            if report.failed:
                self.pytest_runtest_logreport(report)
                self.pytest_runtest_logfinish(last.nodeid, last.location)

    def _prepare(self) -> None:
        if self._end_with_parent is not None:
            self._end_with_parent()
        os.environ[PROCESS] = str(self._number)
        os.environ[STATE] = str(Path(os.environ[STATE], str(self._number)))
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
        self._missing.pop(nodeid, None)
        self._hook.pytest_runtest_logstart(nodeid=nodeid, location=location)
        for sent in reports:
            report = sent
            if isinstance(sent, dict):
                report = self._hook.pytest_report_from_serializable(config=self._session.config, data=sent)
            self._hook.pytest_runtest_logreport(report=report)
        self._hook.pytest_runtest_logfinish(nodeid=nodeid, location=location)
