"""Putting a pod of rk8s on a node, and making one anew after its node was lost: all that changes in its documents.

Only the bytes change whose meaning does (`spec.node_name`; for a new pod in the place of the old one also the uid, the
time of creation and the status), because what a reader drops or orders anew is lost to whoever wrote it. The result is
read again before it is given back: what would say anything else is refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

import yaml

from wharfinger.errors import InvalidObject
from wharfinger.objects.rk8s.fields import check_head, mapping, metadata
from wharfinger.objects.rk8s.tree import decoded, parse

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
    root = composed(text)
    spec = field_of(root, "spec")[1]
    named = field_of(spec, NODE_NAME)
    if named is not None:
        return _instead(text, named[1], in_flow=bool(spec.flow_style))
    if spec.flow_style:
        at = spec.start_mark.index + 1
        quote = '"' if text.lstrip()[:1] == "{" else ""
        return _Place(at, at, f"{quote}{NODE_NAME}{quote}: ", ", " if spec.value else "", quoted=True)
    at = spec.value[0][0].start_mark.index
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


def composed(text: str) -> Any:
    """The nodes of the document that `tree.parse` has read of a text."""
    return next(yaml.compose_all(text, Loader=_Loader))


def field_of(node: Any, name: str) -> Any:
    """Key and value of a field of a composed mapping, two nodes; None without it, and for what is no mapping."""
    entries = node.value if isinstance(node, yaml.MappingNode) else ()
    return next((entry for entry in entries if entry[0].value == name), None)


def replaced(text: str, changes: Iterable[tuple[int, int, str]]) -> str:
    """The text with other parts: where each begins and ends, and what is written there. Those of one place in order."""
    for start, end, written in sorted(changes, key=itemgetter(0))[::-1]:
        text = f"{text[:start]}{written}{text[end:]}"
    return text


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
        start, end = found
        changes.append((start, end, f" {written}" + ("\n" if text[start:end].endswith("\n") else "")))
        if len(path) == 1:
            expected[path[0]] = value
        else:
            expected[path[0]] = {**expected[path[0]], path[1]: value}
    anew = replaced(text, changes)
    if parse(anew) != expected:
        raise InvalidObject("it is written in a way that cannot be made anew")
    return anew.encode()


def _place(text: str, path: tuple[str, ...]) -> tuple[int, int] | None:
    """Where the value of a field begins, behind the colon of its key, and where it ends; None without the field."""
    node, start = composed(text), 0
    for name in path:
        found = field_of(node, name)
        if found is None:
            return None
        key, node = found
        start = text.index(":", key.end_mark.index) + 1
    return start, max(start, node.end_mark.index)
