"""Stored documents of rk8s, read and bound quickly: most pods differ from others in their metadata alone.

A document as rk8s' writer lays it out is cut where its outermost keys begin, and the parts that pods of one template
share, `spec` and `status`, are read once for each text. Each part is read as a document of its own; where one cannot
be, or the cut is not certain, the whole is read at once. So the cut never decides what a document says.

What comes before `spec` is read without libyaml where every line has one key, and its value ends with the line: no
text, list or mapping is left open where the part ends. Any other line makes the answer None; then the part has to be
read as YAML. Pods of one template differ in three lines here: the others are read once for each text.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from functools import _lru_cache_wrapper, lru_cache
from typing import Any, NamedTuple, TypeVar

from wharfinger.errors import InvalidObject
from wharfinger.objects.rk8s import edit, nodes, pods
from wharfinger.objects.rk8s.edit import NODE_NAME, is_word
from wharfinger.objects.rk8s.fields import NAMESPACE, check_head, mapping, metadata
from wharfinger.objects.rk8s.pods import with_annotated
from wharfinger.objects.rk8s.tree import NULL, Plain, decoded, parse

TEMPLATES = 4096
"""Texts of specifications that are remembered, and as many of statuses."""
_LINE = re.compile(r"\n(?:([A-Za-z]+):|[^ \n])", re.ASCII)
"""A line that begins at the margin, but the first one; the key that it begins with, if it does."""
_KEYS = ["apiVersion", "kind", "metadata", "spec", "status"]
_NAME = re.compile(r"^(  node_name: )([A-Za-z0-9][A-Za-z0-9.-]*|'')$", re.MULTILINE | re.ASCII)
"""The name in rk8s' own layout; a pod that was bound shares its text with the others but for this line."""
_UNBOUND = frozenset(("''", *NULL))
_MARK = "mark"
"""A name that is read instead of null, to see whether the line with it is the pod's node."""


def parse_pod(value: bytes, name: str = "") -> dict[str, Any]:
    """The `v1.Pod` that a stored pod stands for; `name`: its key's, if asked. Raises `InvalidObject`."""
    text = decoded(value)
    parts = _cut(text)
    if parts is not None:
        with suppress(InvalidObject):  # whose line would be counted from the part's beginning
            return _from_parts(*parts, name)
    return pods.pod(parse(text), name)


def bind_pod(value: bytes, node_name: str) -> bytes:
    """The document with the pod on this node. Raises `InvalidObject`; see `edit.bind_pod`.

    Where the parts are certain, so is the line with the name, and the result need not be read again.
    """
    parts = _cut(decoded(value)) if is_word(node_name) else None
    if parts is not None:
        with suppress(InvalidObject):
            return _bound_in_line(*parts, node_name)
    return edit.bind_pod(value, node_name)


def parse_node(value: bytes, name: str = "") -> dict[str, Any]:
    """The `v1.Node` that a stored node stands for; `name`: its key's, if asked. Raises `InvalidObject`."""
    return nodes.node(parse(decoded(value)), name)


def _cut(text: str) -> tuple[str, str, str] | None:
    """The texts of what comes before `spec`, of `spec` and of `status`; None where it has another layout."""
    lines = list(_LINE.finditer(text))
    if [line[1] for line in lines] != _KEYS[1:] or not text.startswith("apiVersion:"):
        return None
    spec_at, status_at = lines[2].start() + 1, lines[3].start() + 1
    return text[:spec_at], text[spec_at:status_at], text[status_at:]


def _from_parts(head: str, spec: str, status: str, name: str) -> dict[str, Any]:
    named, shared = _of_spec(spec)
    node_name = named[2] if named is not None and named[2] not in _UNBOUND else ""
    given = check_head({**_head(head), "spec": shared.spec}, "Pod", name)
    found = metadata(mapping(given, "metadata"), NAMESPACE)
    own = {**shared.spec, "nodeName": node_name} if node_name else shared.spec
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": found,
        "spec": with_annotated(own, found["annotations"]),
        "status": remembered(_status, status),
    }


def _bound_in_line(head: str, spec: str, status: str, node_name: str) -> bytes:
    named, _ = _of_spec(spec)
    if named is None or named[2] not in _UNBOUND:
        raise InvalidObject("has no line that says it is unbound")
    _head(head)
    remembered(_status, status)
    return f"{head}{spec[: named.start(2)]}{node_name}{spec[named.end(2) :]}{status}".encode()


class _Spec(NamedTuple):
    """What pods of one template share."""

    spec: Mapping[str, Any]
    is_named: bool
    """Whether the first line that looks like it has the node's name."""


def _of_spec(text: str) -> tuple[re.Match[str] | None, _Spec]:
    """The line with the node's name, and the specification without that."""
    named = _NAME.search(text)
    if named is not None and _NAME.search(text, named.end()):
        raise InvalidObject("several lines look like the one with the node's name")
    shared = remembered(_spec, text if named is None else f"{text[: named.start(2)]}null{text[named.end(2) :]}")
    if named is not None and not shared.is_named:
        raise InvalidObject("the line with the node's name is part of a text")
    return named, shared


@lru_cache(TEMPLATES)
def _spec(text: str) -> _Spec:
    given = _part(text, "spec")["spec"]
    if not isinstance(given, dict):
        raise InvalidObject("spec is no mapping")
    named = _NAME.search(text)
    marked = "" if named is None else f"{text[: named.start(2)]}{_MARK}{text[named.end(2) :]}"
    return _Spec(pods.spec(given), bool(marked) and _part(marked, "spec")["spec"].get(NODE_NAME) == _MARK)


@lru_cache(TEMPLATES)
def _status(text: str) -> Mapping[str, Any]:
    return pods.status(_part(text, "status"))


def _head(text: str) -> Mapping[str, Any]:
    return head_of(text) or _part(text, *_KEYS[:3])


def _part(text: str, *keys: str) -> Mapping[str, Any]:
    """A part of a document, which has these keys and no other."""
    given = parse(text)
    if not isinstance(given, dict) or tuple(given) != keys:
        raise InvalidObject(f"is cut where no key begins: {', '.join(keys)}")
    return given


LONGEST_KEPT = 8192
"""Characters of a text that is remembered."""
Part = TypeVar("Part")

_TOP = re.compile(r"apiVersion: ([A-Za-z0-9]+(?:/[A-Za-z0-9]+)?)\nkind: ([A-Za-z0-9]+)\nmetadata:\n", re.ASCII)
_PLAIN = r"[A-Za-z0-9](?:[A-Za-z0-9._/+-]|:(?=[A-Za-z0-9]))*"
"""A scalar without quotes, and with nothing that means more in YAML."""
_HEAD_LINE = re.compile(
    r"(  (?:  |- )?)"  # of `metadata`; of one of its fields, or of an entry of a list there; which an entry begins with
    r"([A-Za-z][A-Za-z0-9._/-]{0,200}):"
    rf"(?: ({_PLAIN}"
    r"|'[ -&(-~]*'"
    r'|"[ !#-\[\]-~]*"'
    r"|\{\}"
    r"|\[\]"
    r"))?\n",
    re.ASCII,
)
_NAMED = re.compile(
    rf"(apiVersion: v1\nkind: [A-Za-z]+\nmetadata:\n  name: )({_PLAIN})"
    rf"(\n  namespace: {_PLAIN}\n  uid: )({_PLAIN})(?=\n)",
    re.ASCII,
)
_CREATED = re.compile(rf"\n  creationTimestamp: ({_PLAIN})(?=\n)", re.ASCII)


def head_of(text: str) -> dict[str, Any] | None:
    """`apiVersion`, `kind` and `metadata`, as `tree.parse` reads them; None where that has to."""
    named = _NAMED.match(text)
    created = _CREATED.search(text, named.end()) if named is not None else None
    if named is None or created is None:
        return _read_head(text)
    before, name, between, uid = named.groups()
    shared = remembered(_shared, f"{before}x{between}x{text[named.end() : created.start(1)]}x{text[created.end() :]}")
    if shared is None:
        return None
    own = {"name": _read(name), "uid": _read(uid), "creationTimestamp": _read(created[1])}
    return {**shared, "metadata": {**shared["metadata"], **own}}


def remembered(reader: _lru_cache_wrapper[Part], text: str) -> Part:
    """What a reader with a cache makes of a text. A large one is not kept, because thousands would fill the memory."""
    return reader(text) if len(text) <= LONGEST_KEPT else reader.__wrapped__(text)


@lru_cache(4096)
def _shared(text: str) -> Mapping[str, Any] | None:
    """What pods of one template have before `spec`, with another name, uid and time."""
    return _read_head(text)


def _read_head(text: str) -> dict[str, Any] | None:
    top = _TOP.match(text)
    if top is None:
        return None
    metadata: dict[str, Any] = {}
    field = ""
    """Of `metadata`, whose value may follow in lines of its own; empty where it stands in its line."""
    at, end, match = top.end(), len(text), _HEAD_LINE.match
    while at < end:
        line = match(text, at)
        if line is None:
            return None
        at = line.end()
        indent, key, value = line.groups()
        if indent == "  ":
            into: dict[str, Any] | None = metadata
            field = "" if value else key
        else:
            into = _within(metadata, field, indent)
        if into is None or key in into:
            return None
        into[key] = _read(value) if value else None
    if not metadata:
        return None
    version, kind = (None if text in NULL else Plain(text) for text in top.groups())
    return {"apiVersion": version, "kind": kind, "metadata": metadata}


def _within(metadata: dict[str, Any], field: str, indent: str) -> dict[str, Any] | None:
    """The mapping that a deeper line belongs to; None where it has no place."""
    if not field:
        return None
    value = metadata[field]
    if indent == "    ":
        if value is None:
            value = metadata[field] = {}
        return value if isinstance(value, dict) else value[-1]
    if value is None:
        value = metadata[field] = []
    if isinstance(value, dict):
        return None
    entry: dict[str, Any] = {}
    value.append(entry)
    return entry


def _read(value: str) -> Any:
    match value[0]:
        case "'" | '"':
            return value[1:-1]
        case "{":
            return {}
        case "[":
            return []
    return None if value in NULL else Plain(value)
