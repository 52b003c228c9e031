"""What comes before `spec` in a document, read without libyaml where it is laid out as rk8s' writer does.

Every line has one key, and its value ends with the line: no text, list or mapping is left open where the part ends.
Any other line makes the answer None; then the part has to be read as YAML. Pods of one template differ in three lines
here: the others are read once for each text.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import _lru_cache_wrapper, lru_cache
from typing import Any, TypeVar

from wharfinger.manifests.rk8s.tree import NULL, Plain

LONGEST_KEPT = 8192
"""Characters of a text that is remembered."""
Part = TypeVar("Part")

_TOP = re.compile(r"apiVersion: ([A-Za-z0-9]+(?:/[A-Za-z0-9]+)?)\nkind: ([A-Za-z0-9]+)\nmetadata:\n", re.ASCII)
_PLAIN = r"[A-Za-z0-9](?:[A-Za-z0-9._/+-]|:(?=[A-Za-z0-9]))*"
"""A scalar without quotes, and with nothing that means more in YAML."""
_LINE = re.compile(
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
    at, end, match = top.end(), len(text), _LINE.match
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
