"""Log lines as JSON, in the form of Kubernetes' components."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
from typing import Any

import pytest

from wharfinger.process.logs import JsonLine, parsed


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
