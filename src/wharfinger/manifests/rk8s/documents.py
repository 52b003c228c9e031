"""Stored documents of rk8s, read quickly: most pods differ from others in their metadata alone.

A document as rk8s' writer lays it out is cut where its outermost keys begin, and the parts that pods of one template
share, `spec` and `status`, are read once for each text. Each part is read as a document of its own; where one cannot
be, or the cut is not certain, the whole is read at once. So the cut never decides what a document says.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from functools import lru_cache
from typing import Any, NamedTuple

from wharfinger.errors import InvalidObject
from wharfinger.manifests.rk8s import nodes, pods
from wharfinger.manifests.rk8s.annotations import with_annotated
from wharfinger.manifests.rk8s.edit import NODE_NAME
from wharfinger.manifests.rk8s.fields import mapping
from wharfinger.manifests.rk8s.metadata import NAMESPACE, check_head, metadata
from wharfinger.manifests.rk8s.tree import NULL, decoded, parse

TEMPLATES = 4096
"""Texts of specifications that are remembered, and as many of statuses."""
_LINE = re.compile(r"^(?:([A-Za-z]+):|[^ \n])", re.MULTILINE | re.ASCII)
"""A line that begins at the margin; the key that it begins with, if it does."""
_KEYS = ["apiVersion", "kind", "metadata", "spec", "status"]
_NAME = re.compile(r"^(  node_name: )([A-Za-z0-9][A-Za-z0-9.-]*|'')$", re.MULTILINE | re.ASCII)
"""The name in rk8s' own layout; a pod that was bound shares its text with the others but for this line."""
_UNBOUND = frozenset(("''", *NULL))


def parse_pod(value: bytes, name: str = "") -> dict[str, Any]:
    """The `v1.Pod` that a stored pod stands for; `name`: its key's, if asked. Raises `InvalidObject`."""
    text = decoded(value)
    parts = _cut(text)
    if parts is not None:
        with suppress(InvalidObject):  # whose line would be counted from the part's beginning
            return _from_parts(*parts, name)
    return pods.pod(parse(text), name)


def parse_node(value: bytes, name: str = "") -> dict[str, Any]:
    """The `v1.Node` that a stored node stands for; `name`: its key's, if asked. Raises `InvalidObject`."""
    return nodes.node(parse(decoded(value)), name)


def _cut(text: str) -> tuple[str, str, str] | None:
    """The texts of what comes before `spec`, of `spec` and of `status`; None where it has another layout."""
    lines = list(_LINE.finditer(text))
    if [line[1] for line in lines] != _KEYS:
        return None
    spec_at, status_at = lines[3].start(), lines[4].start()
    return text[:spec_at], text[spec_at:status_at], text[status_at:]


def _from_parts(head: str, spec: str, status: str, name: str) -> dict[str, Any]:
    named = _NAME.search(spec)
    node_name = named[2] if named is not None and named[2] not in _UNBOUND else ""
    shared = _spec(spec if named is None else f"{spec[: named.start()]}{named[1]}null{spec[named.end() :]}")
    if named is not None and not shared.is_unbound:
        raise InvalidObject("the line with the node's name is part of a text")
    given = check_head({**_part(head, *_KEYS[:3]), "spec": shared.spec}, "Pod", name)
    found = metadata(mapping(given, "metadata"), NAMESPACE)
    own = {**shared.spec, "nodeName": node_name} if node_name else shared.spec
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": found,
        "spec": with_annotated(own, found["annotations"]),
        "status": _status(status),
    }


class _Spec(NamedTuple):
    """What pods of one template share."""

    spec: Mapping[str, Any]
    is_unbound: bool
    """Whether `node_name` is there, and null."""


@lru_cache(TEMPLATES)
def _spec(text: str) -> _Spec:
    given = _part(text, "spec")["spec"]
    if not isinstance(given, dict):
        raise InvalidObject("spec is no mapping")
    return _Spec(pods.spec(given), NODE_NAME in given and given[NODE_NAME] is None)


@lru_cache(TEMPLATES)
def _status(text: str) -> Mapping[str, Any]:
    return pods.status(_part(text, "status"))


def _part(text: str, *keys: str) -> Mapping[str, Any]:
    """A part of a document, which has these keys and no other."""
    given = parse(text)
    if not isinstance(given, dict) or tuple(given) != keys:
        raise InvalidObject(f"is cut where no key begins: {', '.join(keys)}")
    return given
