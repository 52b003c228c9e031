"""YAML as rk8s' writer means it: scalars keep their text until a declared type reads it, and tags are kept.

The writer leaves `yes`, `1_000`, `1:30` and dates without quotes, and writes enums that carry data as tags
(`state: !Running`); the reader takes `cpu: 1` where a text is declared. So nothing is resolved here but null. JSON is
read, too: it is valid YAML. No anchors: the writer makes none.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import yaml

from wharfinger.errors import InvalidObject
from wharfinger.objects.documents.yaml_events import DEPTH_LIMIT

VALUE_LIMIT = 2 * 1024 * 1024
"""Characters of a document; etcd itself takes 1.5 MiB by default."""

EVENT_LIMIT = 100_000
"""Keys and values of a document, and where each collection begins and ends. Reading that many takes 0.2 s, in which a
worker does nothing else; a pod has some hundreds.
"""

_Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
NULL = frozenset(("", "~", "null", "Null", "NULL"))
_OWN_TAG = "!"


class Plain(str):
    """A scalar without quotes: a number or a truth value where one of these is declared, else a text."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Tagged:
    """A value with a tag: an enum's variant with the data it carries."""

    variant: str
    value: Any


def parse(text: str) -> Any:
    """The one document in a text: mappings, lists, `str`, `Plain`, None and `Tagged`. Raises `InvalidObject`."""
    if len(text) > VALUE_LIMIT:
        raise InvalidObject(f"is larger than {VALUE_LIMIT} characters")
    documents = _documents(text)
    document = next(documents, None)
    if next(documents, None) is not None:
        raise InvalidObject("is more than one YAML document")
    return document


def decoded(value: bytes) -> str:
    """The text of a stored value. Raises `InvalidObject`."""
    try:
        return value.decode()
    except UnicodeDecodeError as error:
        raise InvalidObject(f"is no UTF-8 text (byte {error.start})") from None


def events(text: str) -> Iterator[Any]:
    """Libyaml's events of a text. Raises `InvalidObject`, with the line where it can be told."""
    loader = None
    try:
        loader = _Loader(text)
        left = EVENT_LIMIT
        while (event := loader.get_event()) is not None:
            if event.__class__ is yaml.DocumentStartEvent:  # the limit is a document's: a file may have thousands
                left = EVENT_LIMIT
            left -= 1
            if left < 0:
                raise InvalidObject(f"has more than {EVENT_LIMIT} keys and values")
            yield event
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f" at line {mark.line + 1}" if mark is not None else ""
        problem = getattr(error, "problem", None) or getattr(error, "reason", None) or "it cannot be read"
        raise InvalidObject(f"is no YAML: {' '.join(str(problem).split())[:200]}{where}") from None
    finally:
        if loader is not None:
            loader.dispose()


def _documents(text: str) -> Iterator[Any]:
    stream = events(text)
    for event in stream:
        if isinstance(event, yaml.DocumentStartEvent):
            yield _value(next(stream), stream, DEPTH_LIMIT)


def _value(event: Any, stream: Iterator[Any], depth: int) -> Any:
    kind = event.__class__
    if kind is yaml.AliasEvent or event.anchor:
        raise InvalidObject(f"has an anchor or an alias{line_of(event)}, which rk8s does not write")
    if not depth:
        raise InvalidObject(f"is nested deeper than {DEPTH_LIMIT} levels")
    if kind is yaml.ScalarEvent:
        value: Any = _scalar(event)
    elif kind is yaml.MappingStartEvent:
        value = _mapping(stream, depth - 1)
    else:
        value = []
        while (entry := next(stream)).__class__ is not yaml.SequenceEndEvent:
            value.append(_value(entry, stream, depth - 1))
    tag = event.tag
    if not tag or tag == _OWN_TAG:
        return value
    if not tag.startswith(_OWN_TAG):
        raise InvalidObject(f"is no plain YAML: tag {tag[:40]!r}{line_of(event)}")
    return Tagged(tag[1:], value)


def _mapping(stream: Iterator[Any], depth: int) -> dict[str, Any]:
    found: dict[str, Any] = {}
    while (key := next(stream)).__class__ is not yaml.MappingEndEvent:
        if key.__class__ is not yaml.ScalarEvent or key.anchor:
            raise InvalidObject(f"is no plain YAML: a key that is no text{line_of(key)}")
        if key.value in found:
            raise InvalidObject(f"is no YAML: key {key.value[:40]!r} stands twice, again{line_of(key)}")
        found[key.value] = _value(next(stream), stream, depth)
    return found


def _scalar(event: Any) -> str | None:
    if not event.implicit[0]:
        return str(event.value)
    return None if event.value in NULL else Plain(event.value)


def line_of(event: Any) -> str:
    """Where an event begins, for messages."""
    return f" at line {event.start_mark.line + 1}"


_TRUTH = {"true": True, "false": False}
_INTEGER = re.compile(r"-?(0|[1-9][0-9]{0,17})", re.ASCII)
_FRACTION = re.compile(r"-?(0|[1-9][0-9]{0,14})\.[0-9]{1,15}", re.ASCII)


def plain_values(value: Any) -> Any:
    """What `tree.parse` returns, for JSON: `!Running {...}` becomes `{"!Running": {...}}`.

    A number that JSON would write in another way stays a text.
    """
    if isinstance(value, Tagged):
        return {f"!{value.variant}": plain_values(value.value)}
    if isinstance(value, dict):
        return {key: plain_values(entry) for key, entry in value.items()}
    if isinstance(value, list):
        return [plain_values(entry) for entry in value]
    return _plain_scalar(value) if isinstance(value, Plain) else value


def _plain_scalar(text: Plain) -> Any:
    if text in _TRUTH:
        return _TRUTH[text]
    if _INTEGER.fullmatch(text):
        return int(text)
    if _FRACTION.fullmatch(text) and str(float(text)) == text:
        return float(text)
    return str(text)
