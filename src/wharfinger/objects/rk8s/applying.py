"""Documents of rk8s as users give them, and what `apply` writes of one.

A document is written as it was given where there is none, else laid over the stored one.
Labels, annotations and spec are the manifest's. What others wrote stays: uid, times, owners and finalizers, the node
and the status of a pod; a node's status changes only where its manifest has allocatable. Two documents are the same
when rk8s reads the same from them: null, an empty list and a default mean what an absent field means.

Texts are written with quotes. What has none in a document (numbers, truth values) has none in the result. A result is
read again before it is given back.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any

import yaml

from wharfinger.errors import InvalidObject
from wharfinger.objects.documents import decode
from wharfinger.objects.rk8s import nodes, pods
from wharfinger.objects.rk8s.edit import NODE_NAME, composed, field_of, replaced
from wharfinger.objects.rk8s.fields import METADATA, NAMESPACE, mapping, needed_text, text
from wharfinger.objects.rk8s.tree import NULL, Plain, Tagged, decoded, events, parse

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


_KEPT = ("uid", "creationTimestamp", "deletionTimestamp", "generation")
_KEPT_UNLESS_GIVEN = ("ownerReferences", "finalizers")
_MAPS = frozenset(("labels", "annotations", "matchLabels"))
"""Mappings whose keys are users': there, an empty text is a value."""
_DEFAULTS = {
    "protocol": "TCP",
    "hostPort": "0",
    "tty": "false",
    "restart_policy": "Never",
    "phase": "Pending",
    "namespace": "default",
    "generation": "0",
    "same_value": "false",
}
_EQUAL = "Equal"
"""The operator of a toleration that names none; expressions have no such operator."""


def written_over(stored: bytes | None, given: GivenDocument, *, uid: str, now: str) -> bytes | None:
    """The value to store over this one (None = there is none); None when it stays as it is.

    `uid` and `now` (RFC 3339, UTC) are given to a new document that has none. Raises `InvalidObject` for a document
    that workers could not read, and for one that would move a bound pod.
    """
    check(given.tree)
    before = _readable(stored)
    if before is None:  # nothing there, or what is no document: nothing to keep
        metadata = {"uid": uid, "creationTimestamp": now}
        return with_metadata(given.text or to_text(given.tree), metadata).encode()
    after = laid_over(before, given.tree)
    if same(before, after):
        return None
    check(after)
    return to_text(after).encode()


def check(tree: object) -> None:
    """Raise `InvalidObject` for a document that workers could not read."""
    found = kubernetes_object(tree)
    if found["kind"] == "Node":
        decode.node_from_mapping(found)
    else:
        decode.pod_from_mapping(found)


def is_same(stored: bytes, given: GivenDocument) -> bool:
    """Whether writing the document over the stored one would change nothing."""
    before = _readable(stored)
    try:
        return before is not None and same(before, laid_over(before, given.tree))
    except InvalidObject:
        return False


def laid_over(before: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """The stored document with what the manifest has. Raises `InvalidObject` when a bound pod would move."""
    after = {**before, **given}
    stored, metadata = mapping(before, "metadata"), dict(mapping(given, "metadata"))
    for name in (*_KEPT, *_KEPT_UNLESS_GIVEN):
        if name in _KEPT:
            metadata.pop(name, None)
        if metadata.get(name) is None and name in stored:
            metadata[name] = stored[name]
    after["metadata"] = metadata
    after.pop("status", None)
    status = mapping(before, "status")
    if before.get("kind") == "Pod":
        after["spec"] = _pod_spec(mapping(before, "spec"), mapping(given, "spec"))
    elif mapping(given, "status").get("allocatable") is not None:
        status = {**status, **mapping(given, "status")}
    if "status" in before or status:
        after["status"] = dict(status) if status else before.get("status")
    return after


def _pod_spec(stored: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    spec = dict(given)
    bound, asked = text(stored, NODE_NAME), text(given, NODE_NAME)
    if bound and asked not in (None, "", bound):
        raise InvalidObject(f"spec.{NODE_NAME}: the pod is bound to {bound!r} and cannot move")
    if NODE_NAME in stored:
        spec[NODE_NAME] = stored[NODE_NAME]
    else:
        spec.pop(NODE_NAME, None)
    return spec


def same(one: Any, other: Any) -> bool:
    """Whether two documents mean the same to rk8s."""
    return bool(_meaning(one) == _meaning(other))


def _meaning(value: Any, key: str = "") -> Any:
    if isinstance(value, Tagged):
        return value.variant, _meaning(value.value)
    if isinstance(value, dict):
        if key in _MAPS:
            return dict(value)
        found = {name: _meaning(entry, name) for name, entry in value.items()}
        return {name: entry for name, entry in found.items() if not _is_default(name, entry)}
    if isinstance(value, list):
        return [_meaning(entry) for entry in value]
    return value


def _is_default(name: str, value: Any) -> bool:
    if value is None or value in ({}, [], ""):
        return True
    return value == _DEFAULTS.get(name) or (name == "operator" and value == _EQUAL)


def _readable(stored: bytes | None) -> dict[str, Any] | None:
    """The document that is stored; None for what is none."""
    if stored is None:
        return None
    try:
        found = parse(decoded(stored))
    except InvalidObject:
        return None
    parts = ("metadata", "spec", "status")
    if not isinstance(found, dict) or not all(isinstance(found.get(part), dict | None) for part in parts):
        return None
    return found


_KEY = re.compile(r"[A-Za-z][A-Za-z0-9_./-]*", re.ASCII)
_NO_TEXT = frozenset(("true", "false", "null", "yes", "no", "on", "off", "inf", "nan", "y", "n"))
_Dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
_WIDTH = 1_000_000
"""Characters of a line, so that no text is folded."""


def to_text(tree: Any) -> str:
    """The document in YAML. Raises `InvalidObject` when it would be read back as another one."""
    events = [
        yaml.StreamStartEvent(),
        yaml.DocumentStartEvent(explicit=False),
        *_events(tree),
        yaml.DocumentEndEvent(explicit=False),
        yaml.StreamEndEvent(),
    ]
    try:
        text = str(yaml.emit(events, Dumper=_Dumper, width=_WIDTH, allow_unicode=True))
    except yaml.YAMLError as error:
        raise InvalidObject(f"cannot be written: {' '.join(str(error).split())[:200]}") from None
    # libyaml decides how texts are broken and escaped; what would be read back differently must not be stored.
    if parse(text) != tree:
        raise InvalidObject("cannot be written as it was read")
    return text


def _events(value: Any, tag: str | None = None) -> Iterator[Any]:
    if isinstance(value, Tagged):
        yield from _events(value.value, f"!{value.variant}")
    elif isinstance(value, dict):
        yield yaml.MappingStartEvent(None, tag, tag is None, flow_style=not value)
        for key, entry in value.items():
            word = _KEY.fullmatch(key) and key.lower() not in _NO_TEXT
            yield _scalar(key, None, quoted=not word)
            yield from _events(entry)
        yield yaml.MappingEndEvent()
    elif isinstance(value, list):
        yield yaml.SequenceStartEvent(None, tag, tag is None, flow_style=not value)
        for entry in value:
            yield from _events(entry)
        yield yaml.SequenceEndEvent()
    elif value is None:
        yield _scalar("null", tag)
    else:
        yield _scalar(str(value), tag, quoted=not isinstance(value, Plain))


def _scalar(text: str, tag: str | None, *, quoted: bool = False) -> Any:
    implicit = (tag is None and not quoted, tag is None and quoted)
    return yaml.ScalarEvent(None, tag, implicit, text, style='"' if quoted else None)


def with_metadata(text: str, fields: Mapping[str, str]) -> str:
    """The document with these fields of `metadata` where it has none; no other byte changes.

    Raises `InvalidObject` for a document without metadata.
    """
    tree = parse(text)
    metadata = tree.get("metadata") if isinstance(tree, dict) else None
    if not isinstance(metadata, dict):
        raise InvalidObject("metadata is missing")
    missing = {name: value for name, value in fields.items() if not metadata.get(name)}
    if not missing:
        return text
    wanted = {**tree, "metadata": {**metadata, **missing}}
    changed = _inserted(text, missing)
    return changed if changed is not None and _read(changed) == wanted else to_text(wanted)


def _inserted(text: str, fields: Mapping[str, str]) -> str | None:
    """The fields written into the text of `metadata`; None where that is empty."""
    node = field_of(composed(text), "metadata")[1]
    if not node.value:
        return None
    at = node.value[0][0].start_mark.index
    changes = []
    for name, value in fields.items():
        there = field_of(node, name)
        if there is not None:
            start = text.index(":", there[0].end_mark.index) + 1
            old = there[1]
            end = old.end_mark.index if old.value in NULL and old.start_mark.index > start else start
            changes.append((start, max(start, end), f' "{value}"'))
        elif node.flow_style:
            changes.append((at, at, f'"{name}": "{value}", '))
        else:
            line = text.rfind("\n", 0, at) + 1
            changes.append((at, at, f'{name}: "{value}"\n{" " * (at - line)}'))
    return replaced(text, changes)


def _read(text: str) -> Any:
    try:
        return parse(text)
    except InvalidObject:
        return None
