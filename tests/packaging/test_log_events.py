"""Log lines are events: a fixed name, then key=value pairs, so that an operator can search for them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
METHODS = {"debug", "info", "warning", "error", "exception", "critical"}
LOGGERS = {"log", "logger", "_log", "_logger", "logging"}
LOGGED = re.compile(rf"\b({'|'.join(LOGGERS)})\s*\.\s*({'|'.join(METHODS)})\b")
EVENT = re.compile(r"[a-z][a-z0-9_]*( [a-z_]+=\S+)*")
UNQUOTED = re.compile(r" error=(?!%r)")
"""The text of an exception has blanks, so its value needs quotes."""


def events(folder: str) -> Iterator[tuple[str, str]]:
    """Where each line is logged, and its format."""
    for path in sorted((ROOT / folder).rglob("*.py")):
        source = path.read_text()
        if not LOGGED.search(source):  # most files: to parse them all would take two seconds
            continue
        for node in ast.walk(ast.parse(source)):
            match node:
                case ast.Call(func=ast.Attribute(value=ast.Name(id=name) | ast.Attribute(attr=name), attr=method)) if (
                    name in LOGGERS and method in METHODS
                ):
                    where = f"{path.relative_to(ROOT)}:{node.lineno}"
                    yield from ((where, message) for message in messages(folder, node.args[0]))


def messages(folder: str, argument: ast.expr) -> list[str]:
    """What may be logged there: a constant, or what classes assign to the attribute; an empty text for all else."""
    match argument:
        case ast.Constant(value=str(message)):
            return [message]
        case ast.Attribute(value=ast.Name(id="self"), attr=name):
            assigned = re.compile(rf'^    {name}(?:: [^=]+)? = "(.*)"$', re.MULTILINE)
            return [one for path in (ROOT / folder).rglob("*.py") for one in assigned.findall(path.read_text())] or [""]
    return [""]


@pytest.mark.parametrize("folder", ["src/wharfinger", "activities", "workflows"])
def test_each_log_line_is_an_event_with_pairs(folder: str) -> None:
    found = list(events(folder))
    assert found
    assert [
        f"{where}: {message!r}" for where, message in found if not EVENT.fullmatch(message) or UNQUOTED.search(message)
    ] == []
