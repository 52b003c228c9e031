"""Log lines as JSON objects of the form that Kubernetes' components write with `--logging-format json`.

``{"ts":1767182400123.4,"caller":"programs/lifecycle.py:88","msg":"withdrawn","v":0,"checks":"etcd: no answer"}``

`ts` is in milliseconds since 1970. An error has no `v`, as there. The key=value pairs of our lines become fields where
the whole line is made of them; other lines are one `msg`. Warnings have a `severity`, which Kubernetes does not have.
"""

from __future__ import annotations

import ast
import json
import logging
import re
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
        line |= {"caller": _caller(record), "msg": text}
        if record.levelno < logging.ERROR:
            line["v"] = VERBOSITY.get(record.levelno, 0)
        if record.levelno == logging.WARNING:
            line["severity"] = "warning"
        for name, value in (*pairs.items(), *_attempt(record).items()):
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


def _caller(record: logging.LogRecord) -> str:
    """Folder, file and line."""
    return f"{'/'.join(record.pathname.split('/')[-2:])}:{record.lineno}"


def _attempt(record: logging.LogRecord) -> dict[str, Any]:
    """Which attempt a line of the Temporal SDK is about."""
    about: dict[str, Any] = getattr(record, "temporal_activity", None) or {}
    return {name: about[name] for name in ("workflow_id", "activity_type", "attempt") if name in about}
