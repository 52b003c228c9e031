"""YAML to plain values, built from libyaml's events without recursion and with limits.

The dialect is YAML 1.2's core schema as Kubernetes manifests use it: dates stay text, so do `yes`, `no`,
`on` and `off`; a leading zero means octal (`0644`), as in kubectl. Mapping keys are text. Anchors,
aliases and merge keys (`<<`) work, but what they expand to is counted and limited.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import Any

import yaml

from wharfinger.errors import InvalidObject
from wharfinger.objects.documents.duplicates import Doubled

DEPTH_LIMIT = 100
NODE_LIMIT = 2_000_000
"""Values of one document, aliases counted as often as they are used; a List may hold many objects."""
ALIAS_LIMIT = 10_000
"""Values that aliases may add to one document."""

_Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_FLOATS_FROM = 1e21
"""Whole numbers from which on Go writes JSON with an exponent."""
_Value = dict[str, Any] | list[Any] | str | int | float | bool | None

INTEGER = re.compile(r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+", re.ASCII)
FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?", re.ASCII)
_CONSTANTS: dict[str, bool | None] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_DIGIT_LIMIT = 100
_TAG = "tag:yaml.org,2002:"
_MERGE = "<<"


def documents(text: str, *, duplicates: bool = False) -> Iterator[Any]:
    """Every document of a YAML stream. Raises `InvalidObject`, with the line where it can be told.

    `duplicates`: a mapping in which a key stands twice comes as `Doubled`, where it is refused otherwise.
    """
    loader = None
    try:
        loader = _Loader(text)
        builder = _Builder(duplicates)
        while (event := loader.get_event()) is not None:
            if isinstance(event, yaml.DocumentEndEvent):
                yield builder.finished()
                builder = _Builder(duplicates)
            else:
                builder.take(event)
    except yaml.YAMLError as error:
        raise InvalidObject(f"is no YAML: {_reason(error)}") from None
    finally:
        if loader is not None:
            loader.dispose()


class _Builder:
    """Assembles one document from its events."""

    def __init__(self, duplicates: bool) -> None:
        self._duplicates = duplicates
        self._open: list[_Frame] = []
        self._root: _Value = None
        self._anchors: dict[str, tuple[_Value, int] | None] = {}
        self._count = 0
        self._aliased = 0

    def take(self, event: Any) -> None:
        """Take the next event of the document."""
        if isinstance(event, yaml.ScalarEvent):
            self._take_scalar(event)
        elif isinstance(event, yaml.MappingStartEvent | yaml.SequenceStartEvent):
            self._begin(event)
        elif isinstance(event, yaml.MappingEndEvent | yaml.SequenceEndEvent):
            self._end(event)
        elif isinstance(event, yaml.AliasEvent):
            self._take_alias(event)

    def finished(self) -> _Value:
        """The document's value."""
        return self._root

    def _take_scalar(self, event: Any) -> None:
        frame = self._open[-1] if self._open else None
        if frame is not None and frame.awaits_key:
            frame.set_key(event)
            value: _Value = event.value
        else:
            value = _scalar(event)
            self._place(value, event)
        self._counted(1, event)
        if event.anchor:
            self._anchors[event.anchor] = (value, 1)

    def _begin(self, event: Any) -> None:
        is_mapping = isinstance(event, yaml.MappingStartEvent)
        if event.tag not in (None, "!", f"{_TAG}map" if is_mapping else f"{_TAG}seq"):
            raise InvalidObject(f"is no plain YAML: tag {event.tag[:40]!r} at {_line(event)}")
        if self._open and self._open[-1].awaits_key:
            raise InvalidObject(f"is no plain YAML: a key that is no text at {_line(event)}")
        if len(self._open) >= DEPTH_LIMIT:
            raise InvalidObject(f"is nested deeper than {DEPTH_LIMIT} levels")
        if event.anchor:
            self._anchors[event.anchor] = None  # open: an alias to it would be a loop
        self._counted(1, event)
        self._open.append(_Frame({} if is_mapping else [], event.anchor, self._count, self._duplicates))

    def _end(self, event: Any) -> None:
        frame = self._open.pop()
        if frame.anchor:
            self._anchors[frame.anchor] = (frame.value, self._count - frame.began + 1)
        self._place(frame.value, event)

    def _take_alias(self, event: Any) -> None:
        anchored = self._anchors.get(event.anchor)
        if anchored is None:
            raise InvalidObject(f"is no YAML: alias *{event.anchor[:40]} has no finished anchor at {_line(event)}")
        value, size = anchored
        if self._open and self._open[-1].awaits_key:
            raise InvalidObject(f"is no plain YAML: an alias as a key at {_line(event)}")
        self._aliased += size
        if self._aliased > ALIAS_LIMIT:
            raise InvalidObject("is no plain YAML: its aliases expand too far")
        self._counted(size, event)
        self._place(value, event)

    def _counted(self, size: int, event: Any) -> None:
        self._count += size
        if self._count > NODE_LIMIT:
            raise InvalidObject(f"has more than {NODE_LIMIT} values at {_line(event)}")

    def _place(self, value: _Value, event: Any) -> None:
        if self._open:
            self._open[-1].add(value, event)
        else:
            self._root = value


class _Frame:
    """A mapping or list that is still being read."""

    def __init__(self, value: dict[str, Any] | list[Any], anchor: str | None, began: int, duplicates: bool) -> None:
        self.value = value
        self.anchor = anchor
        self.began = began
        self._duplicates = duplicates
        self._key: str | None = None
        self._merge = False
        self._merged: dict[str, Any] = {}

    @property
    def awaits_key(self) -> bool:
        return isinstance(self.value, dict) and self._key is None

    def set_key(self, event: Any) -> None:
        self._key = event.value
        self._merge = event.value == _MERGE and event.implicit[0]

    def add(self, value: _Value, event: Any) -> None:
        if isinstance(self.value, list):
            self.value.append(value)
            return
        key, self._key = self._key, None
        assert key is not None
        if self._merge:
            self._take_merge(value, event)
        elif key in self.value and key not in self._merged:
            if not self._duplicates:
                raise InvalidObject(f"is no YAML: key {key[:40]!r} stands twice, again at {_line(event)}")
            if not isinstance(self.value, Doubled):
                self.value = Doubled(self.value, {})
            self.value.again[key] = _line(event)
            self.value[key] = value
        else:
            self._merged.pop(key, None)
            self.value[key] = value

    def _take_merge(self, value: _Value, event: Any) -> None:
        """`<<`: keys of other mappings, behind our own."""
        assert isinstance(self.value, dict)
        sources = value if isinstance(value, list) else [value]
        for source in sources:
            if not isinstance(source, dict):
                raise InvalidObject(f"is no YAML: << takes mappings, at {_line(event)}")
            for key, entry in source.items():
                if key not in self.value:
                    self.value[key] = self._merged[key] = entry


def _scalar(event: Any) -> _Value:
    """A scalar's value: by its tag when it has one, else by its looks when it is plain."""
    tag: str | None = event.tag
    text: str = event.value
    if tag is None:
        return _plain(text) if event.implicit[0] else text
    if tag in ("!", f"{_TAG}str"):
        return text
    if tag in (f"{_TAG}int", f"{_TAG}float", f"{_TAG}bool", f"{_TAG}null"):
        value = _plain(text)
        if isinstance(value, str):
            raise InvalidObject(f"is no YAML: {text[:40]!r} does not suit its tag at {_line(event)}")
        return value
    raise InvalidObject(f"is no plain YAML: tag {tag[:40]!r} at {_line(event)}")


def _plain(text: str) -> _Value:
    if text in _CONSTANTS:
        return _CONSTANTS[text]
    if text[0] not in "-+.0123456789" or len(text) > _DIGIT_LIMIT:
        return text
    if INTEGER.fullmatch(text):
        return _integer(text)
    if FLOAT.fullmatch(text):
        number = float(text)
        if not math.isfinite(number):
            return text
        # kubectl makes JSON of YAML, and JSON has 1e+06, which Helm writes for a million, as an integer
        return int(number) if number.is_integer() and abs(number) < _FLOATS_FROM else number
    return text


def _integer(text: str) -> int:
    if text[:2] in ("0x", "0o"):
        return int(text, 0)
    digits = text.lstrip("+-")
    if len(digits) > 1 and digits[0] == "0" and not set(digits) & {"8", "9"}:
        return int(text, 8)
    return int(text)


def _line(event: Any) -> str:
    return f"line {event.start_mark.line + 1}"


def _reason(error: yaml.YAMLError) -> str:
    problem = getattr(error, "problem", None) or str(error)
    mark = getattr(error, "problem_mark", None)
    where = f" at line {mark.line + 1}" if mark is not None else ""
    tab = " (indent by spaces: YAML takes no tabs)" if "cannot start any token" in problem else ""
    return " ".join(problem.split())[:200] + where + tab
