"""How an object on a member cluster differs from the hub's: drift of what was applied, or a diff before a takeover.

Which fields do not count, and that a Secret's values are hidden, are KubeFleet's rules.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice, zip_longest
from typing import Any

from wharfinger.placement.applying.merge import CLUSTERS_METADATA, mapping, merged_for_comparison, plain, pointer, same

MOST = 100
"""Differences that are reported of one object."""
LONGEST = 200
"""Characters of a value that are reported."""
REDACTED = "(redacted for security reasons)"

_IGNORED_METADATA = (*CLUSTERS_METADATA, "name", "namespace", "generateName", "finalizers", "ownerReferences")
_RESERVED = ("kubernetes.io/", "k8s.io/", "kubernetes-fleet.io/", "wharfinger.dev/")
"""A label or annotation whose key contains one of these belongs to a system, not to a user."""
_TEMPLATES = (("spec", "template"), ("spec", "jobTemplate", "spec", "template"))
"""Where workloads have metadata of pods, in which old clusters write a creationTimestamp."""
_SECRET_FIELDS = ("data", "stringData")


@dataclass(frozen=True, slots=True)
class Difference:
    """One field that differs. A value is JSON text of at most 200 characters, empty where the field is missing."""

    path: str
    """JSON pointer."""
    in_hub: str
    in_member: str


def differences(
    hub: Mapping[str, Any],
    member: Mapping[str, Any],
    *,
    group: str,
    full: bool,
    last: Mapping[str, Any] | None = None,
) -> tuple[Difference, ...]:
    """The first 100 fields that differ, in the order of their names. A null counts as a missing field.

    Elements of lists are compared by their places.

    Args:
        hub: the object as it is to be applied.
        member: the object as the member has it.
        group: the API group of the object, empty for the core one.
        full: compare all fields. Otherwise only those that applying the object would change.
        last: what was applied before; only for a partial comparison, in which removals count too.

    Raises:
        ValueError: an object is nested more than 100 levels deep.
    """
    there = _relevant(member)
    wanted = _relevant(hub if full else merged_for_comparison(last, hub, member, group))
    secret = group == "" and "Secret" in (hub.get("kind"), member.get("kind"))
    return tuple(_difference(*one, secret=secret) for one in islice(_walk(wanted, there, ""), MOST))


def _relevant(obj: Mapping[str, Any]) -> dict[str, Any]:
    """A copy without the fields that do not count, and without nulls."""
    copy: dict[str, Any] = _without_nulls(plain(obj))
    copy.pop("status", None)
    metadata = copy["metadata"] = mapping(copy.get("metadata"))
    for name in _IGNORED_METADATA:
        metadata.pop(name, None)
    for name in ("labels", "annotations"):
        if isinstance(entries := metadata.get(name), dict):
            kept = {key: value for key, value in entries.items() if not any(part in str(key) for part in _RESERVED)}
            metadata[name] = kept or None
    for path in _TEMPLATES:
        template = copy
        for name in path:
            template = mapping(template.get(name))
        mapping(template.get("metadata")).pop("creationTimestamp", None)
    return copy


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nulls(one) for key, one in value.items() if one is not None}
    return [_without_nulls(one) for one in value] if isinstance(value, list) else value


def _walk(hub: object, member: object, path: str) -> Iterator[tuple[str, object, object]]:
    """Paths and values that differ; a value is None where the field is missing."""
    if isinstance(hub, dict) and isinstance(member, dict):
        for key in sorted(hub.keys() | member.keys(), key=str):
            yield from _walk(hub.get(key), member.get(key), pointer(path, key))
    elif isinstance(hub, list) and isinstance(member, list):
        for index, (ours, theirs) in enumerate(zip_longest(hub, member)):
            yield from _walk(ours, theirs, pointer(path, index))
    elif not same(hub, member):
        yield path, hub, member


def _difference(path: str, hub: object, member: object, *, secret: bool) -> Difference:
    hidden = secret and path.split("/")[1] in _SECRET_FIELDS
    return Difference(path, _text(hub, hidden=hidden), _text(member, hidden=hidden))


def _text(value: object, *, hidden: bool) -> str:
    if value is None:
        return ""
    return REDACTED if hidden else json.dumps(value, ensure_ascii=False, default=str)[:LONGEST]
