"""Log lines: one line each, whatever was said."""

from __future__ import annotations

import logging
import sys

from wharfinger.observe.logs import OneLine


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


def test_a_line_of_the_sdk_says_which_attempt_it_is_about() -> None:
    about = {"workflow_id": "c/pod/ns/p/u", "activity_type": "bind", "attempt": 3, "task_queue": "c/common"}

    line = OneLine().format(record("Completing activity as failed", temporal_activity=about))

    assert line.endswith("as failed workflow_id=c/pod/ns/p/u activity_type=bind attempt=3")


def test_tracebacks_are_shown_when_asked_for() -> None:
    try:
        raise ValueError("no")
    except ValueError:
        text = OneLine(tracebacks=True).format(record("failed", exc_info=sys.exc_info()))

    assert "Traceback" in text
