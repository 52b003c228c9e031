"""Patches and field selectors, as an API server in memory understands them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from wharfinger.apiserver.client import Object, PatchType
from wharfinger.placement.applying.merge import PLAIN, Field, Fields, merge_keys
from wharfinger.testing.memory_objects import Json

_DIRECTIVE = "$patch"
_STATUS: Fields = {
    "conditions": Field(strategy="merge", key="type"),
    "podIPs": Field(strategy="merge", key="ip"),
    "addresses": Field(strategy="merge", key="type"),
}
"""Lists of statuses that are merged; the table of `placement.applying` has none, because nothing applies a status."""


def patched(obj: Json, patch: Object, type_: PatchType, group: str, kind: str) -> Json:
    """The object with a patch merged into it; neither is changed."""
    if type_ is PatchType.MERGE:
        return _merged(obj, patch, {})
    status = patch.get("status")
    rest = {name: value for name, value in patch.items() if name != "status" or not isinstance(status, Mapping)}
    result = _merged(obj, rest, merge_keys().of_kind(group, kind))
    if isinstance(status, Mapping):
        result["status"] = _merged(result.get("status") or {}, status, _STATUS)
    return result


def _merged(there: Mapping[str, Any], patch: Mapping[str, Any], fields: Fields) -> Json:
    result = dict(there)
    for name, value in patch.items():
        if name == _DIRECTIVE or name.startswith("$"):
            continue
        field = fields.get(name, PLAIN)
        if value is None:
            result.pop(name, None)
        elif isinstance(value, Mapping):
            before = result.get(name)
            below = merge_keys().below(field)
            result[name] = _merged(before if isinstance(before, Mapping) else {}, value, below)
        elif isinstance(value, list) and field.merges:
            result[name] = _merged_list(result.get(name) or [], value, field)
        else:
            result[name] = value
    return result


def _merged_list(there: list[Any], patch: list[Any], field: Field) -> list[Any]:
    """A list whose elements have a key: those of the patch are merged into those that are there, or follow them."""
    if not field.key:
        return [*there, *(one for one in patch if one not in there)]
    below = merge_keys().below(field)
    result = list(there)
    for one in patch:
        places = [at for at, other in enumerate(result) if other.get(field.key) == one.get(field.key)]
        if one.get(_DIRECTIVE) == "delete":
            result = [other for at, other in enumerate(result) if at not in places]
        elif places:
            result[places[0]] = _merged(result[places[0]], one, below)
        else:
            result.append(_merged({}, one, below))
    return result


_EVERYWHERE = frozenset({"metadata.name", "metadata.namespace"})
_OF_PODS = _EVERYWHERE | {
    "spec.nodeName",
    "spec.restartPolicy",
    "spec.schedulerName",
    "spec.serviceAccountName",
    "spec.hostNetwork",
    "status.phase",
    "status.podIP",
    "status.nominatedNodeName",
}


def selection(selector: str, kind: str) -> Callable[[Object], bool]:
    """Which objects a field selector means. Raises `ValueError`, with the server's words, for another field."""
    known = _OF_PODS if kind == "Pod" else _EVERYWHERE
    wanted: list[tuple[tuple[str, ...], str, bool]] = []
    for requirement in filter(None, selector.split(",")):
        path, _, value = requirement.partition("=")
        equal = not path.endswith("!")
        path, value = path.removesuffix("!"), value.removeprefix("=")
        if path not in known:
            raise ValueError(f"field label not supported: {path}")
        wanted.append((tuple(path.split(".")), value, equal))
    return lambda obj: all((_field(obj, path) == value) is equal for path, value, equal in wanted)


def _field(obj: Any, path: tuple[str, ...]) -> str:
    for name in path:
        obj = obj.get(name) if isinstance(obj, Mapping) else None
    return "" if obj is None else str(obj)
