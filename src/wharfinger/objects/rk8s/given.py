"""Documents of rk8s as users give them: the YAML documents of a file, each with its own text, or plain values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any

import yaml

from wharfinger.errors import InvalidObject
from wharfinger.objects.rk8s import nodes, pods
from wharfinger.objects.rk8s.fields import mapping, needed_text, text
from wharfinger.objects.rk8s.metadata import METADATA, NAMESPACE
from wharfinger.objects.rk8s.tree import Plain, Tagged, decoded, events, parse

KINDS = ("Pod", "Node")
"""The kinds of rk8s that wharfinger reads."""
OWN_GROUP = "wharfinger.dev"
"""API group of wharfinger's own kinds, which every cluster may have."""


@dataclass(frozen=True, slots=True)
class GivenDocument:
    """One document."""

    tree: Any
    """As `tree.parse` returns it."""
    text: str = ""
    """As it stands in its file; empty where it was given as plain values."""


def documents(content: str) -> Iterator[GivenDocument]:
    """Every document of a file that is not empty; of a `List`, each of its items. Raises `InvalidObject`."""
    for part in _parts(content):
        tree = parse(part)
        if isinstance(tree, dict) and tree.get("kind") == "List" and isinstance(tree.get("items"), list):
            yield from (GivenDocument(item) for item in tree["items"])
        elif tree is not None:
            yield GivenDocument(tree, part)


def _parts(content: str) -> Iterator[str]:
    """The texts of the documents, without the comments around them: a file's are not about one document."""
    stream = events(content)
    start = 0
    for event in stream:
        kind = event.__class__
        if kind is yaml.DocumentStartEvent:
            start = next(stream).start_mark.index
        elif kind is yaml.DocumentEndEvent:
            lines = content[start : event.start_mark.index].splitlines(keepends=True)
            while lines and (not lines[-1].strip() or lines[-1].startswith("#")):
                lines.pop()
            yield "".join(lines).rstrip("\r\n") + "\n"


def kind_of(tree: object) -> str:
    """The kind of a document: a pod's, a node's, or that of an object of wharfinger itself.

    Raises `InvalidObject` for another one.
    """
    if not isinstance(tree, dict):
        raise InvalidObject("one of its documents is no mapping")
    kind = needed_text(tree, "kind")
    if kind not in KINDS and not (text(tree, "apiVersion") or "").startswith(f"{OWN_GROUP}/"):
        raise InvalidObject(f"kind {kind[:40]!r}: of a cluster of the format rk8s, only pods and nodes are read here")
    return kind


def names_of(tree: Mapping[str, Any]) -> tuple[str, str]:
    """Namespace (empty for a node) and name of a pod or node. Raises `InvalidObject` for a name that no key can have.

    The namespace of every pod is `default`, whatever the document has: rk8s' keys have none.
    """
    name = text(mapping(tree, "metadata"), "name", METADATA) or ""
    if not name or "/" in name:
        raise InvalidObject(f"metadata.name {name[:80]!r} is no name")
    return (NAMESPACE if kind_of(tree) == "Pod" else ""), name


def as_tree(given: object) -> Any:
    """What `tree.parse` would return for a document: given as plain values, or as its text.

    Raises `InvalidObject` for a value that no document has.
    """
    if isinstance(given, bytes):
        return parse(decoded(given))
    return _tree(given, "")


def _tree(given: object, where: str) -> Any:
    if given is None or isinstance(given, str):
        return given
    if isinstance(given, Tagged):
        return Tagged(given.variant, _tree(given.value, where))
    if isinstance(given, Mapping):
        return {str(key): _tree(value, f"{where}{key}.") for key, value in given.items()}
    if isinstance(given, list | tuple):
        return [_tree(value, f"{where[:-1]}[{index}].") for index, value in enumerate(given)]
    if isinstance(given, bool):
        return Plain(str(given).lower())
    if isinstance(given, int | float):
        return Plain(given)
    if isinstance(given, datetime | date):  # what YAML loaders make of a time without quotes
        return Plain(given.isoformat().replace("+00:00", "Z"))
    raise InvalidObject(f"{where[:-1] or 'the document'} is a {type(given).__name__}, which no document holds")


def kubernetes_object(given: object) -> dict[str, Any]:
    """The `v1.Pod` or `v1.Node` that a document stands for; `given` as in `as_tree`. Raises `InvalidObject`."""
    tree = as_tree(given)
    if not isinstance(tree, dict):
        raise InvalidObject("is no mapping")
    return nodes.node(tree) if text(tree, "kind") == "Node" else pods.pod(tree)
