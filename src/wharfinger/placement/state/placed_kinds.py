"""Kinds of the objects that placements, overrides and envelopes name, and whether any member can have such objects."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from wharfinger.errors import InvalidConfiguration, InvalidObject
from wharfinger.etcd.store import Store
from wharfinger.objects.documents.kinds import check_taken
from wharfinger.objects.model.formats import ClusterFormat
from wharfinger.objects.model.placement_kinds import CLUSTER_OVERRIDE, OVERRIDE, PLACEMENT_GROUP, PLACEMENTS
from wharfinger.placement.contracts import placement_keys
from wharfinger.placement.contracts.placement_records import MemberRecord
from wharfinger.placement.deciding.selecting import ENVELOPES, may_kind_be_placed
from wharfinger.placement.model.delivery import ObjectId
from wharfinger.placement.spec.placement import check_placement_object

_SELECTORS = {
    **dict.fromkeys(PLACEMENTS, "resourceSelectors"),
    CLUSTER_OVERRIDE: "clusterResourceSelectors",
    OVERRIDE: "resourceSelectors",
}
"""Kind of an object -> the field of its spec that names kinds."""


def names_kinds(obj: Mapping[str, Any]) -> bool:
    """Whether an object is one that names kinds of other objects."""
    kind, group = obj.get("kind"), str(obj.get("apiVersion")).rpartition("/")[0]
    return group == PLACEMENT_GROUP and (kind in _SELECTORS or kind in ENVELOPES)


def check_with_kinds(obj: Mapping[str, Any]) -> None:
    """Check an object of placement, with the kinds that it names.

    Raises InvalidConfiguration, which names all that is wrong.
    """
    problems: tuple[str, ...] = ()
    if obj.get("kind") not in ENVELOPES:
        try:
            check_placement_object(obj)
        except InvalidConfiguration as error:
            problems = error.problems
    problems += refused_kinds(obj) if names_kinds(obj) else ()
    if problems:
        raise InvalidConfiguration(problems)


def refused_kinds(obj: Mapping[str, Any]) -> tuple[str, ...]:
    """Kinds that no format of member takes, a line each with path and reason."""
    found = []
    for path, group, kind in _named(obj):
        if not may_kind_be_placed(group, kind):
            found.append(f"{path}: no member takes a {kind[:40]}: objects of this kind are never delivered")
        elif all(why := [_why_not(one, group, kind) for one in ClusterFormat]):
            found.append(f"{path}: no format of member takes a {kind[:40]}: {'; '.join(dict.fromkeys(why))}")
    return tuple(found)


async def untaken_kinds(store: Store, obj: Mapping[str, Any]) -> tuple[str, ...]:
    """Kinds that none of the members takes that are joined now, a line each; nothing while no member is."""
    joined = {_format(kv.value) async for kv in store.each(placement_keys.member.prefix)}
    return tuple(_untaken(obj, joined)) if joined else ()


def _untaken(obj: Mapping[str, Any], joined: Iterable[ClusterFormat]) -> Iterator[str]:
    for path, group, kind in _named(obj):
        if all(why := [_why_not(one, group, kind) for one in sorted(joined)]):
            yield f"{path}: no joined member takes a {kind[:40]}: {'; '.join(why)}"


def _named(obj: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Path, group and kind of each; others report what is malformed."""
    if obj.get("kind") in ENVELOPES:
        data = obj.get("data")
        for key, content in data.items() if isinstance(data, Mapping) else ():
            about = ObjectId.of(content) if isinstance(content, Mapping) else ObjectId("", "", "", "", "")
            if about.kind and about.version:
                yield f"data[{str(key)[:80]}].kind", about.group, about.kind
        return
    spec, field = obj.get("spec"), _SELECTORS[str(obj.get("kind"))]
    selectors = spec.get(field) if isinstance(spec, Mapping) else None
    for index, one in enumerate(selectors if isinstance(selectors, list) else ()):
        group, kind = (one.get("group") or "", one.get("kind")) if isinstance(one, Mapping) else ("", "")
        if kind and isinstance(kind, str) and isinstance(group, str):
            yield f"spec.{field}[{index}].kind", group, kind


def _why_not(format_: ClusterFormat, group: str, kind: str) -> str:
    try:
        check_taken(format_, group, kind)
    except InvalidObject as error:
        return str(error)
    return ""


def _format(record: bytes) -> ClusterFormat:
    """Of a member whose agent is there; agents of earlier releases do not say it."""
    try:
        return ClusterFormat(MemberRecord.model_validate_json(record).format or ClusterFormat.KUBERNETES)
    except ValueError:
        return ClusterFormat.KUBERNETES
