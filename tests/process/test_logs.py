"""Log lines: one line each, whatever was said; as JSON in the form of Kubernetes' components."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import pytest
from temporalio.exceptions import ApplicationError

from wharfinger.process.logs import CoreLines, JsonLine, OneLine, RunLines, parsed


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


def line(message: str, level: int = logging.INFO, *, tracebacks: bool = False, **fields: Any) -> dict[str, Any]:
    record = logging.LogRecord(
        fields.pop("name", "wharfinger.programs.lifecycle"), level, "/x/programs/lifecycle.py", 88, message,
        (), fields.pop("exc_info", None),
    )  # fmt: skip
    record.created = 1767182400.1234
    record.__dict__.update(fields)
    text = JsonLine(tracebacks=tracebacks).format(record)
    assert "\n" not in text
    read: dict[str, Any] = json.loads(text)
    return read


def test_event_and_its_values_become_fields() -> None:
    assert line("withdrawn checks='etcd: no answer' tries=3 node=a.b:1") == {
        "ts": 1767182400123.4,
        "caller": "programs/lifecycle.py:88",
        "msg": "withdrawn",
        "v": 0,
        "checks": "etcd: no answer",
        "tries": 3,
        "node": "a.b:1",
    }


def test_levels_are_those_of_klog() -> None:
    assert line("seen", logging.DEBUG)["v"] == 4
    assert line("seen", logging.WARNING)["severity"] == "warning"
    assert "v" not in line("seen", logging.ERROR)


def test_error_has_its_exception() -> None:
    try:
        raise ValueError("two\nlines")
    except ValueError:
        found = sys.exc_info()

    assert line("failed", logging.ERROR, exc_info=found)["err"] == "ValueError: two\nlines"
    assert "Traceback" in line("failed", logging.ERROR, exc_info=found, tracebacks=True)["stacktrace"]
    assert "stacktrace" not in line("failed", logging.ERROR, exc_info=found)


def test_line_of_the_sdk_names_its_attempt_and_its_logger() -> None:
    about = {"workflow_id": "c/pod/ns/p/u", "activity_type": "bind", "attempt": 3, "task_queue": "c/common"}
    found = line("Completing activity as failed", name="temporalio.activity", temporal_activity=about)

    assert found["msg"] == "Completing activity as failed"
    assert (found["logger"], found["workflow_id"], found["attempt"]) == ("temporalio.activity", "c/pod/ns/p/u", 3)


def test_field_of_a_value_never_replaces_one_of_the_line() -> None:
    assert {"msg": "seen", "msg_": "x", "ts_": 1}.items() <= line("seen msg=x ts=1").items()


@pytest.mark.parametrize(
    ("message", "text", "values"),
    [
        ("started", "started", {}),
        ("started url=http://127.0.0.1:1/x?a=b", "started url=http://127.0.0.1:1/x?a=b", {}),
        ("started url='http://h/x?a=b'", "started", {"url": "http://h/x?a=b"}),
        ('failed error="it\'s \\"gone\\""', "failed", {"error": 'it\'s "gone"'}),
        ("seen uid=007 name= revision=12", "seen", {"uid": "007", "name": "", "revision": 12}),
        ("a sentence with x=1 in it", "a sentence with x=1 in it", {}),
        ("seen pods=a, b", "seen pods=a, b", {}),
    ],
)
def test_only_whole_lines_of_pairs_are_taken_apart(message: str, text: str, values: dict[str, Any]) -> None:
    assert parsed(message) == (text, values)


WRITES = """
import logging
from wharfinger.process.logs import set_level, write_lines

write_lines("info", "json")
logging.getLogger("wharfinger.x").debug("unseen")
set_level("debug")
logging.getLogger("wharfinger.x").debug("seen tries=%d", 3)
"""


def test_process_writes_json_also_after_its_level_was_changed() -> None:
    said = subprocess.run([sys.executable, "-c", WRITES], stderr=subprocess.PIPE, check=True).stderr
    (only,) = said.decode().splitlines()

    assert {"msg": "seen", "tries": 3, "v": 4}.items() <= json.loads(only).items()
