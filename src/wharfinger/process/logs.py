"""Log lines of a process: one line a message, with key=value pairs, and no traceback unless asked for.

``2026-01-31T12:00:00.123 WARNING wharfinger.programs.lifecycle withdrawn checks=...``

With the form `json` each line is an object (`json_lines.py`).
"""

from __future__ import annotations

import logging
import os
import re
import sys
from types import TracebackType
from typing import Any

from wharfinger.process.json_lines import JsonLine

FORMAT = "%(asctime)s.%(msecs)03d %(levelname)-7s %(name)s %(message)s"
USUAL = "info"
"""How much a process says unless it was told otherwise."""
TIME = "%Y-%m-%dT%H:%M:%S"

_ExceptionInfo = tuple[type[BaseException], BaseException, TracebackType | None] | tuple[None, None, None]


class OneLine(logging.Formatter):
    """Formats each record as one line; an exception is named by type and text, with `tracebacks` in full."""

    def __init__(self, *, tracebacks: bool = False) -> None:
        super().__init__(FORMAT, TIME)
        self._tracebacks = tracebacks

    def format(self, record: logging.LogRecord) -> str:
        """The record's line."""
        if self._tracebacks:
            return super().format(record)
        return " ".join(part.strip() for part in (super().format(record) + _attempt(record)).splitlines())

    def formatException(self, ei: _ExceptionInfo) -> str:  # noqa: N802 - logging's name
        """The exception in short."""
        if self._tracebacks:
            return super().formatException(ei)
        kind, error, _ = ei
        return "" if kind is None else f"error={f'{kind.__name__}: {error}'!r}"


def _attempt(record: logging.LogRecord) -> str:
    """Which attempt a line of the Temporal SDK is about."""
    about: dict[str, Any] | None = getattr(record, "temporal_activity", None)
    if about is None:
        return ""
    names = ("workflow_id", "activity_type", "attempt")
    return "".join(f" {name}={about[name]}" for name in names if name in about)


def write_lines(level: str, form: str = "text") -> None:
    """Write the process's log to standard error from now on, as `text` or `json`; at `debug` with tracebacks."""
    if not sys.stderr.isatty():  # the SDK's own lines are coloured otherwise, in a file too
        os.environ.setdefault("NO_COLOR", "1")
    handler = logging.StreamHandler()
    handler.setFormatter((JsonLine if form == "json" else OneLine)(tracebacks=level.lower() == "debug"))
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    logging.captureWarnings(True)
    for chatty in ("asyncio", "aiohttp"):
        logging.getLogger(chatty).setLevel(logging.WARNING)


def level() -> str:
    """How much the process says: `debug`, `info`, `warning`, `error`."""
    return logging.getLevelName(logging.getLogger().getEffectiveLevel()).lower()


def set_level(level: str) -> None:
    """Say so much from now on; at `debug` with tracebacks."""
    root = logging.getLogger()
    root.setLevel(level.upper())
    for handler in root.handlers:
        if isinstance(handler.formatter, (OneLine, JsonLine)):
            handler.setFormatter(type(handler.formatter)(tracebacks=level.lower() == "debug"))


class CoreLines(logging.Filter):
    """Selects the lines of the Temporal SDK's core that a process logs, and gives a failed task the form of ours.

    The core logs the exceptions of workflow code as warnings too, which the SDK's worker has logged already.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether the line is logged: an error, or a workflow task that failed because code and history do not fit."""
        line = getattr(record, "temporal_log", None)
        if line is None or line.message != "Failing workflow task":
            return record.levelno >= logging.ERROR
        failure = str(line.fields.get("failure"))
        if "force_cause: NonDeterministicError" not in failure:
            return False
        message = re.search(r'message: "((?:[^"\\]|\\.)*)"', failure)
        record.msg = "workflow_task_failed effect=repeated_until_a_worker_has_code_that_fits run_id=%s error=%r"
        record.args = (line.fields.get("run_id"), message[1] if message else failure)
        return True


class RunLines(logging.Filter):
    """Takes the traceback from lines of the Temporal SDK about a run that failed as it should, such as a refused pod's.

    The SDK logs them at debug; the failure's text says all, and a traceback looks like a fault of ours.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        """True: the line stays."""
        from temporalio.exceptions import FailureError

        failure = record.exc_info[1] if record.exc_info else None
        if isinstance(failure, FailureError):
            record.msg, record.args, record.exc_info = "%s error=%r", (record.getMessage(), str(failure)), None
        return True


def core_logger() -> logging.Logger:
    """Where the SDK's core is to log."""
    core = logging.getLogger("temporalio.core")
    if not core.filters:
        core.addFilter(CoreLines())
    return core


def quiet_sdk() -> None:
    """Leave out of the SDK's messages what our lines say shorter."""
    from temporalio import activity, workflow

    activity.logger.activity_info_on_message = False
    workflow.logger.workflow_info_on_message = False
    runs = logging.getLogger("temporalio.worker._workflow_instance")
    if not runs.filters:
        runs.addFilter(RunLines())
