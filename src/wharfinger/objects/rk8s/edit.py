"""Putting a pod of rk8s on a node, and making one anew after its node was lost: all that changes in its documents.

Only the bytes change whose meaning does (`spec.node_name`; for a new pod in the place of the old one also the uid, the
time of creation and the status), because what a reader drops or orders anew is lost to whoever wrote it. The result is
read again before it is given back: what would say anything else is refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import yaml

from wharfinger.errors import InvalidObject
from wharfinger.objects.rk8s.fields import check_head, mapping, metadata
from wharfinger.objects.rk8s.tree import decoded, events, parse

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


_STATUS: Mapping[str, Any] = {
    "podIP": None,
    "containerStatuses": [],
    "phase": "Pending",
    "conditions": None,
    "message": None,
    "reason": None,
    "start_time": None,
}
"""What rk8s gives a pod that was just created; all fields, because its reader may ask for each."""
_WRITTEN_STATUS = (
    '{"podIP": null, "containerStatuses": [], "phase": "Pending", "conditions": null, "message": null, '
    '"reason": null, "start_time": null}'
)

_Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def made_anew(raw: bytes, *, uid: str, now: str) -> bytes | None:
    """The document of a new pod: unbound, with this uid where the old one has one, and with an empty status.

    None where the pod must not be made anew: its controller makes another one, or its deletion was asked for already.
    Raises `InvalidObject`.
    """
    text = decoded(raw)
    known = parse(text)
    given = check_head(known, "Pod", "")
    head = metadata(mapping(given, "metadata"))
    if head.get("deletionTimestamp") or any(owner["controller"] for owner in head.get("ownerReferences", ())):
        return None
    wanted: dict[tuple[str, ...], tuple[str, Any]] = {
        ("spec", NODE_NAME): ("null", None),
        ("metadata", "uid"): (f'"{uid}"', uid),
        ("metadata", "creationTimestamp"): (f'"{now}"', now),
        ("status",): (_WRITTEN_STATUS, _STATUS),
    }
    changes: list[tuple[int, int, str]] = []
    expected: dict[str, Any] = {**given}
    for path, (written, value) in wanted.items():
        found = _place(text, path)
        if found is None:
            continue
        changes.append((*found, written))
        if len(path) == 1:
            expected[path[0]] = value
        else:
            expected[path[0]] = {**expected[path[0]], path[1]: value}
    for start, end, written in sorted(changes, reverse=True):
        line_end = "\n" if text[start:end].endswith("\n") else ""
        text = f"{text[:start]} {written}{line_end}{text[end:]}"
    if parse(text) != expected:
        raise InvalidObject("it is written in a way that cannot be made anew")
    return text.encode()


def _place(text: str, path: tuple[str, ...]) -> tuple[int, int] | None:
    """Where the value of a field begins, behind the colon of its key, and where it ends; None without the field."""
    node: Any = yaml.compose(text, Loader=_Loader)
    start = 0
    for name in path:
        entries = node.value if isinstance(node, yaml.MappingNode) else ()
        found = next(((key, value) for key, value in entries if key.value == name), None)
        if found is None:
            return None
        key, node = found
        start = text.index(":", key.end_mark.index) + 1
    return start, max(start, node.end_mark.index)
