"""Log lines of a process: one line a message, with key=value pairs, and no traceback unless asked for.

``2026-01-31T12:00:00.123 WARNING wharfinger.programs.lifecycle withdrawn checks=...``

With the form `json` each line is an object of the form that Kubernetes' components write with `--logging-format json`:

``{"ts":1767182400123.4,"caller":"programs/lifecycle.py:88","msg":"withdrawn","v":0,"checks":"etcd: no answer"}``

`ts` is in milliseconds since 1970. An error has no `v`, as there. The key=value pairs of our lines become fields where
the whole line consists of them; other lines are one `msg`. Warnings have a `severity`, which Kubernetes does not have.
"""

from __future__ import annotations

import ast
import json
import logging
import os
import re
import sys
from types import TracebackType
from typing import Any

VERBOSITY = {logging.DEBUG: 4}
"""klog's verbosity of a level; 0 for the others."""
RESERVED = frozenset({"ts", "logger", "caller", "msg", "v", "err", "stacktrace", "severity"})

_QUOTED = r"'(?:[^'\\]|\\.)*'" + r'|"(?:[^"\\]|\\.)*"'
_PAIR = re.compile(rf" ([A-Za-z_][A-Za-z0-9_.]*)=({_QUOTED}|[^\s'\"=]*)(?= |$)")
_LINE = re.compile(rf"([a-z][a-z0-9_]*)((?:{_PAIR.pattern})*)")
_NUMBER = re.compile(r"0|-?[1-9][0-9]{0,14}")


class JsonLine(logging.Formatter):
    """Formats each record as one JSON object; an exception with its stack where `tracebacks` are wanted."""

    def __init__(self, *, tracebacks: bool = False) -> None:
        super().__init__()
        self._tracebacks = tracebacks

    def format(self, record: logging.LogRecord) -> str:
        """The record's line."""
        text, pairs = parsed(record.getMessage())
        line: dict[str, Any] = {"ts": round(record.created * 1000, 3)}
        if not record.name.startswith("wharfinger"):
            line["logger"] = record.name
        line |= {"caller": f"{'/'.join(record.pathname.split('/')[-2:])}:{record.lineno}", "msg": text}
        if record.levelno < logging.ERROR:
            line["v"] = VERBOSITY.get(record.levelno, 0)
        if record.levelno == logging.WARNING:
            line["severity"] = "warning"
        for name, value in (*pairs.items(), *_attempt_of_line(record).items()):
            line[f"{name}_" if name in RESERVED else name] = value
        return json.dumps(line | self._error(record), ensure_ascii=False, separators=(",", ":"), default=str)

    def _error(self, record: logging.LogRecord) -> dict[str, str]:
        if not record.exc_info or record.exc_info[0] is None:
            return {}
        kind, error, _ = record.exc_info
        said = {"err": f"{kind.__name__}: {error}"}
        return said | {"stacktrace": self.formatException(record.exc_info)} if self._tracebacks else said


def parsed(message: str) -> tuple[str, dict[str, str | int]]:
    """The name of an event and its values; the whole message and nothing where it is no such line."""
    whole = _LINE.fullmatch(message)
    if whole is None:
        return message, {}
    return whole[1], {name: _value(text) for name, text in _PAIR.findall(whole[2])}


def _value(text: str) -> str | int:
    if text[:1] in ("'", '"'):
        try:
            return str(ast.literal_eval(text))
        except (ValueError, SyntaxError):
            return text
    return int(text) if _NUMBER.fullmatch(text) else text


def _attempt_of_line(record: logging.LogRecord) -> dict[str, Any]:
    """Which attempt a line of the Temporal SDK is about."""
    about: dict[str, Any] = getattr(record, "temporal_activity", None) or {}
    return {name: about[name] for name in ("workflow_id", "activity_type", "attempt") if name in about}


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
        about = "".join(f" {name}={value}" for name, value in _attempt_of_line(record).items())
        return " ".join(part.strip() for part in (super().format(record) + about).splitlines())

    def formatException(self, ei: _ExceptionInfo) -> str:  # noqa: N802 - logging's name
        """The exception in short."""
        if self._tracebacks:
            return super().formatException(ei)
        kind, error, _ = ei
        return "" if kind is None else f"error={f'{kind.__name__}: {error}'!r}"


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
