"""Changes objects for one member: which overrides apply there, and what they make of an object.

Rules are KubeFleet's; operations are those of RFC 6902. `resolved` is recorded with what a member shall have, so that
a later edit of an override changes nothing by itself. `selecting` decides which objects there are.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from wharfinger.placement.model.delivery import ObjectId, Override, OverridePatch
from wharfinger.placement.model.placement import PlacementRef

_NAME = "${MEMBER-CLUSTER-NAME}"
_LABEL = "${MEMBER-CLUSTER-LABEL-KEY-"
_NAMESPACE = ("", "v1", "Namespace")
"""What a cluster override selects to change everything in a namespace, too."""
_INDEX = re.compile(r"0|[1-9][0-9]{0,8}", re.ASCII)
_SHOWN = 120
"""Characters of a path or label that a message contains."""


class OverrideError(ValueError):
    """An override cannot be applied; the text is one sentence that names it."""


@dataclass(frozen=True, slots=True)
class ResolvedOverride:
    """What one override does to one object on one member."""

    object: ObjectId
    delete: bool
    """Whether the object is left out, after the patches."""
    patches: tuple[OverridePatch, ...]
    """In order, with variables replaced."""
    source: str
    """Of the override: `name`, or `namespace/name`."""


def resolved(
    overrides: Iterable[Override],
    placement: PlacementRef,
    member: str,
    labels: Mapping[str, str],
    objects: Collection[ObjectId],
) -> tuple[ResolvedOverride, ...]:
    """What overrides do to a placement's objects on a member with these labels, in the order of application.

    Cluster overrides come first, by name; then namespaced ones, by namespace and name. Raises `OverrideError`.
    """
    there = frozenset(objects)
    inside: dict[str, list[ObjectId]] | None = None
    found: list[ResolvedOverride] = []
    for override in sorted(overrides, key=lambda one: (one.namespace, one.name)):
        if override.placement not in (None, placement):
            continue
        targets = {selector for selector in override.selectors if selector in there}
        namespaces = () if override.namespace else [one.name for one in override.selectors if one[:3] == _NAMESPACE]
        if namespaces:
            inside = _by_namespace(there) if inside is None else inside
            targets.update(*(inside.get(name, ()) for name in namespaces))
        if targets:
            delete, patches = _effect(override, member, labels)
            if delete or patches:
                found += [ResolvedOverride(about, delete, patches, override.source) for about in sorted(targets)]
    return tuple(found)


def by_object(overrides: Iterable[ResolvedOverride]) -> dict[ObjectId, tuple[ResolvedOverride, ...]]:
    """The overrides of each object, in their order: so that each object looks at its own only."""
    found: dict[ObjectId, list[ResolvedOverride]] = defaultdict(list)
    for one in overrides:
        found[one.object].append(one)
    return {about: tuple(those) for about, those in found.items()}


def overridden(obj: Mapping[str, Any], about: ObjectId, overrides: Sequence[ResolvedOverride]) -> dict[str, Any] | None:
    """The object with all overrides that concern it; None when it is left out on this member.

    The input is not changed; the result shares with it what stays the same. Raises `OverrideError`.
    """
    result: dict[str, Any] = dict(obj)
    for override in overrides:
        if override.object != about:
            continue
        for patch in override.patches:
            try:
                result = _patched(result, patch)
            except OverrideError as error:
                where = f"{patch.op} {patch.path[:_SHOWN]}"
                raise OverrideError(f"override {override.source} cannot change {about}: {where}: {error}") from None
        if override.delete:
            return None
        if override.patches and ObjectId.of(result) != about:
            raise OverrideError(f"override {override.source} cannot change {about}: it would be another object")
    return result


def digest(overrides: Sequence[ResolvedOverride]) -> str:
    """16 hexadecimal digits that are equal for equal overrides; empty for none. Raises `OverrideError`."""
    return digest_and_size(overrides)[0]


def digest_and_size(overrides: Sequence[ResolvedOverride]) -> tuple[str, int]:
    """The digest, and how many bytes they are as JSON. Raises `OverrideError`."""
    if not overrides:
        return "", 0
    try:
        written = json.dumps(to_json(overrides), sort_keys=True, separators=(",", ":"))
    except (RecursionError, TypeError, ValueError):
        raise OverrideError("an override has a value that cannot be written as JSON") from None
    return hashlib.sha256(written.encode()).hexdigest()[:16], len(written)


def to_json(overrides: Iterable[ResolvedOverride]) -> list[Any]:
    """Overrides as JSON values, for a record. The objects that one override changes alike stand together."""
    return [
        {
            "source": source,
            "delete": delete,
            "patches": [[patch.op, patch.path, patch.value] for patch in patches],
            "objects": [list(one.object) for one in those],
        }
        for (source, delete, patches), those in groupby(
            overrides, key=lambda one: (one.source, one.delete, one.patches)
        )
    ]


def from_json(written: Any) -> tuple[ResolvedOverride, ...]:
    """Overrides that `to_json` wrote. Raises `ValueError` for anything else."""
    found: list[ResolvedOverride] = []
    try:
        for one in written:
            source, delete = _text(one["source"]), one["delete"] is True
            patches = tuple(OverridePatch(_text(op), _text(path), value) for op, path, value in one["patches"])
            for group, version, kind, namespace, name in one["objects"]:
                about = ObjectId(*map(_text, (group, version, kind, namespace, name)))
                found.append(ResolvedOverride(about, delete, patches, source))
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"these are no resolved overrides: {error!r}") from None
    return tuple(found)


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError("no text")
    return value


def _by_namespace(objects: Iterable[ObjectId]) -> dict[str, list[ObjectId]]:
    found: dict[str, list[ObjectId]] = defaultdict(list)
    for about in objects:
        if about.namespace:
            found[about.namespace].append(about)
    return found


def _effect(override: Override, member: str, labels: Mapping[str, str]) -> tuple[bool, tuple[OverridePatch, ...]]:
    """Whether it leaves out its objects on the member, and all patches before that."""
    patches: list[OverridePatch] = []
    for rule in override.rules:
        if not rule.matches(labels):
            continue
        if rule.delete:
            return True, tuple(patches)
        for patch in rule.patches:
            try:
                value = _replaced(patch.value, lambda text: _text_for(text, member, labels))
            except OverrideError as error:
                raise OverrideError(f"override {override.source} cannot be used on member {member}: {error}") from None
            except RecursionError:
                raise OverrideError(
                    f"override {override.source}: the value for {patch.path[:_SHOWN]} is nested too deeply"
                ) from None
            patches.append(OverridePatch(patch.op, patch.path, value))
    return False, tuple(patches)


def _replaced(value: Any, change: Callable[[str], str]) -> Any:
    """A JSON value with every text in it changed, names of fields too."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, Mapping):
        return {_replaced(key, change): _replaced(below, change) for key, below in value.items()}
    if isinstance(value, list):
        return [_replaced(below, change) for below in value]
    return value


def _text_for(text: str, member: str, labels: Mapping[str, str]) -> str:
    """A text with the variables replaced by the member's name and labels. Raises `OverrideError`."""
    if "${" not in text:
        return text
    first, *rest = text.replace(_NAME, member).split(_LABEL)
    parts = [first]
    for part in rest:
        key, closed, after = part.partition("}")
        if not closed:
            raise OverrideError(f"the variable {_LABEL}{key[:_SHOWN]} has no closing brace")
        if key not in labels:
            raise OverrideError(f"the member has no label {key[:_SHOWN]!r}")
        parts += (labels[key], after)
    return "".join(parts)


def _patched(obj: dict[str, Any], patch: OverridePatch) -> dict[str, Any]:
    """The object after one operation. Only containers on the path are copied. Raises `OverrideError`."""
    if not patch.path.startswith("/"):
        raise OverrideError("the path must begin with a slash")
    *parents, last = [token.replace("~1", "/").replace("~0", "~") for token in patch.path.split("/")[1:]]
    result = dict(obj)
    container: dict[str, Any] | list[Any] = result
    for token in parents:
        container = _copied_child(container, token)
    if isinstance(container, dict):
        _change_mapping(container, last, patch)
    else:
        _change_list(container, last, patch)
    return result


def _copied_child(container: dict[str, Any] | list[Any], token: str) -> dict[str, Any] | list[Any]:
    """The container below, replaced by a copy that may be changed."""
    below: Any
    if isinstance(container, dict):
        if token not in container:
            raise OverrideError(f"there is no {token[:_SHOWN]!r}")
        below = container[token]
    else:
        below = container[_index(token, len(container))]
    copy: dict[str, Any] | list[Any]
    if isinstance(below, Mapping):
        copy = dict(below)
    elif isinstance(below, list):
        copy = list(below)
    else:
        raise OverrideError(f"{token[:_SHOWN]!r} is neither a mapping nor a list")
    if isinstance(container, dict):
        container[token] = copy
    else:
        container[int(token)] = copy
    return copy


def _change_mapping(container: dict[str, Any], key: str, patch: OverridePatch) -> None:
    if patch.op != "add" and key not in container:
        raise OverrideError(f"there is no {key[:_SHOWN]!r}")
    if patch.op == "remove":
        del container[key]
    else:
        container[key] = patch.value


def _change_list(container: list[Any], place: str, patch: OverridePatch) -> None:
    if patch.op == "add":
        at = len(container) if place == "-" else _index(place, len(container) + 1)
        container.insert(at, patch.value)
        return
    at = _index(place, len(container))
    if patch.op == "remove":
        del container[at]
    else:
        container[at] = patch.value


def _index(token: str, length: int) -> int:
    """A place of a list with so many entries."""
    if not _INDEX.fullmatch(token):
        raise OverrideError(f"{token[:_SHOWN]!r} is no index of a list")
    if int(token) >= length:
        raise OverrideError(f"the list has no index {token}")
    return int(token)
