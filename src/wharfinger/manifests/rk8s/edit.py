"""Putting a pod of rk8s on a node: the one change wharfinger makes in its documents.

Only the bytes of `spec.node_name` change, because what a reader drops or orders anew is lost to whoever wrote it. The
result is read again before it is given back: what would say anything else than the pod on its node is refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import yaml

from wharfinger.errors import InvalidObject
from wharfinger.manifests.rk8s.tree import decoded, events, parse

NODE_NAME = "node_name"
_WORD = re.compile(r"[a-z][a-z0-9.-]*[a-z0-9]", re.ASCII)
"""Names that no reader of YAML takes for anything but a text, unless they are one of these:"""
_NO_TEXT = frozenset(("true", "false", "null", "yes", "no", "on", "off", "inf", "nan"))


@dataclass(frozen=True, slots=True)
class _Place:
    """Where the name goes: what is replaced, and what stands around the name."""

    start: int
    end: int
    before: str = ""
    after: str = ""
    quoted: bool = False


def bind_pod(raw: bytes, node_name: str) -> bytes:
    """The document with the pod on this node. Raises `InvalidObject` for one that names another, or has no spec."""
    text = decoded(raw)
    known = parse(text)
    spec = known.get("spec") if isinstance(known, dict) else None
    if not isinstance(spec, dict):
        raise InvalidObject("spec is no mapping")
    if spec.get(NODE_NAME):
        raise InvalidObject(f"it names node {str(spec[NODE_NAME])[:80]!r} already")
    place = _found(text)
    name = node_name if is_word(node_name) and not place.quoted else f'"{node_name}"'
    bound = f"{text[: place.start]}{place.before}{name}{place.after}{text[place.end :]}"
    if parse(bound) != {**known, "spec": {**spec, NODE_NAME: node_name}}:
        raise InvalidObject("spec.node_name is written in a way that cannot be changed alone")
    return bound.encode()


def is_word(name: str) -> bool:
    """Whether a name needs no quotes."""
    return _WORD.fullmatch(name) is not None and name not in _NO_TEXT


def _found(text: str) -> _Place:
    """The place of `spec.node_name`, there or not."""
    stream = _entries(events(text))
    for depth, key, value in stream:
        if (depth, key.value) == (1, "spec"):
            return _in_spec(text, value, stream)
    raise InvalidObject("spec is missing")


def _in_spec(text: str, spec: Any, stream: Iterator[tuple[int, Any, Any]]) -> _Place:
    first = None
    for depth, key, value in stream:
        if depth < 2:
            break
        if depth == 2:
            first = first or key
            if key.value == NODE_NAME:
                return _instead(text, value, in_flow=bool(spec.flow_style))
    if spec.flow_style:
        at = spec.start_mark.index + 1
        quote = '"' if text.lstrip()[:1] == "{" else ""
        return _Place(at, at, f"{quote}{NODE_NAME}{quote}: ", ", " if first is not None else "", quoted=True)
    if first is None:
        raise InvalidObject("spec is empty")
    at = first.start_mark.index
    line = text.rfind("\n", 0, at) + 1
    end = "\r\n" if text[:line].endswith("\r\n") else "\n"
    return _Place(at, at, f"{NODE_NAME}: ", end + text[line:at])


def _instead(text: str, value: Any, *, in_flow: bool) -> _Place:
    """In the place of a value that says no node: null, nothing at all, or an empty text."""
    start, end = value.start_mark.index, value.end_mark.index
    if start == end:
        start = end = text.rindex(":", 0, start + 1) + 1
        return _Place(start, end, " ", quoted=in_flow)
    return _Place(start, end, quoted=in_flow)


def _entries(stream: Iterator[Any]) -> Iterator[tuple[int, Any, Any]]:
    """Every entry of every mapping, in the order of the text: how deep its mapping lies, its key, its value's event."""
    open_mappings: list[Any] = []
    for event in stream:
        value = event
        if open_mappings and open_mappings[-1] is None and event.__class__ not in _ENDS:
            value = next(stream)
            yield len(open_mappings), event, value
        kind = value.__class__
        if kind is yaml.MappingStartEvent:
            open_mappings.append(None)
        elif kind is yaml.SequenceStartEvent:
            open_mappings.append(value)
        elif kind in _ENDS and open_mappings:
            open_mappings.pop()


_ENDS = (yaml.MappingEndEvent, yaml.SequenceEndEvent)
