"""Log lines: one line each, whatever was said."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from types import SimpleNamespace

import pytest
from temporalio.exceptions import ApplicationError

from wharfinger.process.logs import CoreLines, OneLine, RunLines


def record(message: str, **extra: object) -> logging.LogRecord:
    made = logging.LogRecord("wharfinger.test", logging.WARNING, __file__, 1, message, (), None)
    made.__dict__.update(extra)
    return made


def test_an_exception_is_named_on_the_same_line() -> None:
    try:
        raise ValueError("two\nlines")
    except ValueError:
        line = OneLine().format(record("failed", exc_info=sys.exc_info()))

    assert line.endswith("WARNING wharfinger.test failed error='ValueError: two\\nlines'")


def test_line_of_the_sdk_names_its_attempt() -> None:
    about = {"workflow_id": "c/pod/ns/p/u", "activity_type": "bind", "attempt": 3, "task_queue": "c/common"}

    line = OneLine().format(record("Completing activity as failed", temporal_activity=about))

    assert line.endswith("as failed workflow_id=c/pod/ns/p/u activity_type=bind attempt=3")


def test_tracebacks_are_shown_when_asked_for() -> None:
    try:
        raise ValueError("no")
    except ValueError:
        text = OneLine(tracebacks=True).format(record("failed", exc_info=sys.exc_info()))

    assert "Traceback" in text


@pytest.mark.parametrize(
    ("error", "shown"),
    [(ApplicationError("no node", type="Unschedulable"), False), (ValueError("a fault"), True)],
    ids=["refused", "a fault"],
)
def test_a_run_that_fails_as_it_should_is_told_without_a_traceback(error: Exception, shown: bool) -> None:
    line = record("Workflow raised failure with run ID 1", exc_info=(type(error), error, None))

    assert RunLines().filter(line)

    text = OneLine(tracebacks=True).format(line)
    assert str(error) in text
    assert ("\n" in text) is shown


DOES_NOT_FIT = (
    'Failure { failure: Some(Failure { message: "[TMPRL1100] Nondeterminism error: Timer machine does not handle this '
    'event", source: "", cause: None }), force_cause: NonDeterministicError }'
)
RAISED = 'Failure { failure: Some(Failure { message: "no" }), force_cause: WorkflowWorkerUnhandledFailure }'


def core_line(level: int, message: str, **fields: str) -> logging.LogRecord:
    """A line of the SDK's core, as the SDK forwards it."""
    made = record(f"{message} {fields}", temporal_log=SimpleNamespace(message=message, fields=fields))
    made.levelno = level
    return made


def test_a_task_whose_code_does_not_fit_the_history_is_an_event_of_its_own() -> None:
    line = core_line(logging.WARNING, "Failing workflow task", run_id="run-1", failure=DOES_NOT_FIT)

    assert CoreLines().filter(line)
    assert line.getMessage() == (
        "workflow_task_failed effect=repeated_until_a_worker_has_code_that_fits run_id=run-1 "
        "error='[TMPRL1100] Nondeterminism error: Timer machine does not handle this event'"
    )


@pytest.mark.parametrize(
    ("line", "logged"),
    [
        (core_line(logging.WARNING, "Failing workflow task", run_id="run-1", failure=RAISED), False),
        (core_line(logging.WARNING, "Task not found when completing"), False),
        (core_line(logging.ERROR, "Worker panicked"), True),
    ],
    ids=["an exception, which the SDK has logged", "another warning", "an error"],
)
def test_of_other_lines_of_the_core_only_errors_are_logged(line: logging.LogRecord, logged: bool) -> None:
    assert CoreLines().filter(line) is logged


COLOURFUL = """
import asyncio, os
from temporalio.client import Client
from temporalio.runtime import LoggingConfig, Runtime, TelemetryConfig, TelemetryFilter
from wharfinger.process.logs import write_lines

write_lines("info")
everything = LoggingConfig(TelemetryFilter(core_level="TRACE", other_level="TRACE"))
runtime = Runtime(telemetry=TelemetryConfig(logging=everything))
try:
    asyncio.run(Client.connect("127.0.0.1:9", runtime=runtime))
except RuntimeError:
    os._exit(0)  # as the commands do: the SDK's threads may abort an interpreter that is torn down
"""


def test_a_file_gets_no_colours_of_the_sdk() -> None:
    environment = {name: value for name, value in os.environ.items() if name != "NO_COLOR"}

    said = subprocess.run(
        [sys.executable, "-c", COLOURFUL], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environment, check=True
    ).stdout

    assert b"127.0.0.1:9" in said
    assert b"\x1b" not in said
