"""How kube-scheduler's flags spell their values: Go's booleans, numbers and durations, and its words for wrong ones."""

from __future__ import annotations

import csv
import ipaddress
import json
import re
from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any

from wharfinger.objects.model.durations import parse_duration, written_duration

TRUE = frozenset({"1", "t", "T", "true", "TRUE", "True"})
FALSE = frozenset({"0", "f", "F", "false", "FALSE", "False"})
_INTEGER = re.compile(r"[-+]?(0[xX][0-9a-fA-F]+|0[oO]?[0-7]+|0[bB][01]+|[1-9][0-9]*|0)", re.ASCII)
_FLOAT = re.compile(r"[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?", re.ASCII)
_NUMBER_ALONE = re.compile(r"[-+]?[0-9.]+", re.ASCII)
_NANOSECONDS = 1e9


class GoType(Enum):
    """The type of a flag."""

    STRING = "string"
    BOOL = "bool"
    INT = "int"
    INT32 = "int32"
    LEVEL = "Level"
    FLOAT = "float32"
    DURATION = "duration"
    IP = "ip"
    STRINGS = "strings"

    def read(self, text: str) -> Any:
        """The value: durations in seconds, lists as tuples. Raises `ValueError` in Go's words."""
        return _READERS[self](text)

    def show(self, value: Any) -> str:
        """The value as `/flagz` shows it."""
        if self is GoType.DURATION:
            return written_duration(round(value * _NANOSECONDS))
        if self is GoType.BOOL:
            return str(value).lower()
        if self is GoType.FLOAT:
            return f"{value:g}"
        return f"[{','.join(map(str, value))}]" if isinstance(value, list | tuple) else str(value)


def boolean(text: str) -> bool:
    """As `strconv.ParseBool`."""
    if text in TRUE:
        return True
    if text in FALSE:
        return False
    raise _wrong("ParseBool", text)


def _wrong(function: str, text: str, why: str = "invalid syntax") -> ValueError:
    return ValueError(f"strconv.{function}: parsing {json.dumps(text)}: {why}")


def _integer(bits: int) -> Callable[[str], int]:
    def read(text: str) -> int:
        matched = _INTEGER.fullmatch(text)
        if matched is None:
            raise _wrong("ParseInt", text)
        digits = matched[1]
        octal = len(digits) > 1 and digits.isdigit() and digits.startswith("0")
        value = int(digits, 8 if octal else 0) * (-1 if text.startswith("-") else 1)
        if not -(2 ** (bits - 1)) <= value < 2 ** (bits - 1):
            raise _wrong("ParseInt", text, "value out of range")
        return value

    return read


def _level(text: str) -> int:
    if not (text.isascii() and text.isdigit()):
        raise _wrong("ParseUint", text)
    if int(text) >= 2**32:
        raise _wrong("ParseUint", text, "value out of range")
    return int(text)


def _float(text: str) -> float:
    if _FLOAT.fullmatch(text) is None:
        raise _wrong("ParseFloat", text)
    return float(text)


def _duration(text: str) -> float:
    try:
        return parse_duration(text) / _NANOSECONDS
    except ValueError:
        what = "missing unit in duration" if _NUMBER_ALONE.fullmatch(text) else "invalid duration"
        raise ValueError(f"time: {what} {json.dumps(text)}") from None


def _ip(text: str) -> str:
    try:
        return str(ipaddress.ip_address(text.strip())) if text else ""
    except ValueError:
        raise ValueError(f"failed to parse IP: {json.dumps(text)}") from None


def _strings(text: str) -> tuple[str, ...]:
    """One line of CSV."""
    try:
        return tuple(part.strip() for part in next(csv.reader([text], strict=True), []) if part.strip())
    except csv.Error as error:
        raise ValueError(f"no list with commas between: {error}") from None


_READERS: Mapping[GoType, Callable[[str], Any]] = {
    GoType.STRING: str,
    GoType.BOOL: boolean,
    GoType.INT: _integer(64),
    GoType.INT32: _integer(32),
    GoType.LEVEL: _level,
    GoType.FLOAT: _float,
    GoType.DURATION: _duration,
    GoType.IP: _ip,
    GoType.STRINGS: _strings,
}
