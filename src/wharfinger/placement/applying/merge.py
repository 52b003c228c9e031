"""What an object on a member cluster becomes when it is applied, and which fields conflict.

`merged` is a three-way merge, as kubectl apply does it on the client's side: Kubernetes' own kinds are merged by the
rules of the strategic merge patch, all others like plain JSON. `conflicts` stands for server-side apply on a store
that keeps no managed fields.

Kubernetes' merge keys are not always unique: a Service may have port 53 for TCP and for UDP. Elements that share a key
are matched by their protocol first, then in their order, so that none is lost.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from wharfinger.placement.applying.merge_keys import PLAIN, Field, Fields, merge_keys

CLUSTERS_METADATA = (
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "managedFields",
    "selfLink",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
)
"""Fields of the metadata that a cluster itself writes."""

Object = dict[str, Any]


def merged(last: Mapping[str, Any] | None, wanted: Mapping[str, Any], live: Mapping[str, Any], group: str) -> Object:
    """The object after it is applied.

    Fields of `last` that `wanted` no longer has are removed, the fields of `wanted` are set, and all other fields of
    `live` stay. A null in `wanted` removes a field. The status, and the metadata that a cluster writes, stay as they
    are in `live`.

    Args:
        last: what was applied before, if known.
        wanted: what is applied now.
        live: what the member has.
        group: the API group of the object, empty for the core one.

    Raises:
        ValueError: an object is nested more than 100 levels deep.
    """
    return _merged(last, wanted, live, group, retain=True)


def merged_for_comparison(
    last: Mapping[str, Any] | None, wanted: Mapping[str, Any], live: Mapping[str, Any], group: str
) -> Object:
    """As `merged`, but defaults that a cluster sets below a field with retainKeys are no change.

    kubectl drops such keys on each apply, and the cluster sets them again at once. They count as changes only when
    another key beside them changes.
    """
    return _merged(last, wanted, live, group, retain=False)


def conflicts(
    last: Mapping[str, Any] | None, wanted: Mapping[str, Any], live: Mapping[str, Any], group: str
) -> tuple[str, ...]:
    """Fields that another client set to another value than the wanted one, as JSON pointers into `wanted`.

    A field conflicts if `live` has neither the wanted value nor the one that was applied last. A field that `live` does
    not have has no owner, and does not conflict. Arguments and errors are those of `merged`.
    """
    before, after, there = _objects(last, wanted, live)
    for identity in ("apiVersion", "kind"):
        after.pop(identity, None)
    fields = merge_keys().of_kind(group, wanted.get("kind"))
    return tuple(_conflicts(before, after, there, fields, ""))


def _objects(
    last: Mapping[str, Any] | None, wanted: Mapping[str, Any], live: Mapping[str, Any]
) -> tuple[Object, Object, Object]:
    """Copies of the three, of which the first two have only what may be applied, and the first no identity."""
    before, after, there = plain(last or {}), plain(wanted), plain(live)
    for one in (before, after):
        one.pop("status", None)
        one["metadata"] = mapping(one.get("metadata"))
        for name in CLUSTERS_METADATA:
            one["metadata"].pop(name, None)
    for name in ("apiVersion", "kind"):
        before.pop(name, None)
    for name in ("name", "namespace"):
        before["metadata"].pop(name, None)
    return before, after, there


def _merged(
    last: Mapping[str, Any] | None, wanted: Mapping[str, Any], live: Mapping[str, Any], group: str, *, retain: bool
) -> Object:
    before, after, there = _objects(last, wanted, live)
    fields = merge_keys().of_kind(group, wanted.get("kind"))
    return _merged_mapping(before, after, there, fields, retain=retain)


def _merged_mapping(
    last: Object, wanted: Object, live: Object, fields: Fields, *, retain: bool, only_wanted: bool = False
) -> Object:
    """Merge mappings key by key.

    `only_wanted` drops the keys that only `live` has, unless nothing is wanted. With `retain` it always does so,
    otherwise only if another key changes.
    """
    result = {key: value for key, value in live.items() if key in wanted or key not in last}
    for key, value in wanted.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = _merged_value(last.get(key), value, live.get(key), fields.get(key, PLAIN), retain=retain)
    wants_some = any(value is not None for value in wanted.values())
    if only_wanted and wants_some and (retain or not same(result, live)):
        return {key: value for key, value in result.items() if key in wanted}
    return result


def _merged_value(last: object, wanted: object, live: object, field: Field, *, retain: bool) -> Any:
    if isinstance(wanted, dict):
        before, there = (mapping(last), mapping(live)) if not field.replaces else ({}, {})
        fields = merge_keys().below(field)
        return _merged_mapping(before, wanted, there, fields, retain=retain, only_wanted=field.retains)
    if isinstance(wanted, list) and field.merges:
        return _merged_list(_list(last), wanted, _list(live), field, retain=retain)
    return wanted


def _merged_list(last: list[Any], wanted: list[Any], live: list[Any], field: Field, *, retain: bool) -> list[Any]:
    if not field.key:
        return _merged_set(last, wanted, live)
    if not (is_keyed(wanted, field.key) and is_keyed(live, field.key)):
        return wanted
    if not is_keyed(last, field.key):
        last = []
    fields = merge_keys().below(field)
    places = pairs(wanted, live, field.key)
    elements = [
        _merged_mapping(before, one, there, fields, retain=retain, only_wanted=field.retains)
        for one, before, there in zip(wanted, _at(last, pairs(wanted, last, field.key)), _at(live, places), strict=True)
    ]
    used = set(places)
    goes = dropped(last, wanted, field.key)
    extra = [(index, one) for index, one in enumerate(live) if index not in used and not goes(one)]
    return interleave(elements, places, extra)


def _merged_set(last: list[Any], wanted: list[Any], live: list[Any]) -> list[Any]:
    if not _is_set((*wanted, *live)):
        return wanted
    elements = list(dict.fromkeys(wanted))
    places = {one: index for index, one in reversed(list(enumerate(live)))}
    goes = {*wanted, *(last if _is_set(last) else ())}
    extra = [(index, one) for one, index in sorted(places.items(), key=lambda item: item[1]) if one not in goes]
    if len(elements) + len(extra) == len(live) and all(one in places for one in elements):
        return live  # the order of a set means nothing
    return interleave(elements, [places.get(one) for one in elements], extra)


def _conflicts(last: Object, wanted: Object, live: Object, fields: Fields, path: str) -> Iterator[str]:
    for key, value in wanted.items():
        if key in live:
            there, field = live[key], fields.get(key, PLAIN)
            yield from _value_conflicts(last.get(key), value, there, field, pointer(path, key))


def _value_conflicts(last: object, wanted: object, live: object, field: Field, path: str) -> Iterator[str]:
    if isinstance(wanted, dict) and isinstance(live, dict) and not field.replaces:
        yield from _conflicts(mapping(last), wanted, live, merge_keys().below(field), path)
    elif isinstance(wanted, list) and isinstance(live, list) and field.merges and _is_merged(wanted, live, field):
        if field.key:
            yield from _element_conflicts(_list(last), wanted, live, field, path)
    elif live is not None and not same(wanted, live) and not same(last, live):
        yield path


def _element_conflicts(last: list[Any], wanted: list[Any], live: list[Any], field: Field, path: str) -> Iterator[str]:
    if not is_keyed(last, field.key):
        last = []
    fields = merge_keys().below(field)
    befores = _at(last, pairs(wanted, last, field.key))
    theres = _at(live, pairs(wanted, live, field.key))
    for index, (one, before, there) in enumerate(zip(wanted, befores, theres, strict=True)):
        yield from _conflicts(before, one, there, fields, pointer(path, index))


def _is_merged(wanted: list[Any], live: list[Any], field: Field) -> bool:
    if field.key:
        return is_keyed(wanted, field.key) and is_keyed(live, field.key)
    return _is_set((*wanted, *live))


def _is_set(elements: Sequence[object]) -> bool:
    return not any(isinstance(one, dict | list) for one in elements)


def _at(elements: Sequence[Element], places: Sequence[int | None]) -> list[Element]:
    return [{} if place is None else elements[place] for place in places]


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


Element = dict[str, Any]
T = TypeVar("T")


def is_keyed(elements: Sequence[object], key: str) -> bool:
    """Whether every element is a mapping whose key has a scalar value."""
    return all(isinstance(one, dict) and isinstance(one.get(key), str | int | float) for one in elements)


def pairs(wanted: Sequence[Element], others: Sequence[Element], key: str) -> list[int | None]:
    """For each wanted element, the index of the element of `others` that it belongs to; each is used once."""
    found: list[int | None] = [None] * len(wanted)
    _pair(wanted, others, found, lambda one: (one[key], _protocol(one)))
    if None in found:
        _pair(wanted, others, found, lambda one: one[key])
    return found


def dropped(last: Sequence[Element], wanted: Sequence[Element], key: str) -> Callable[[Element], bool]:
    """A test for an element of the live list that `wanted` has no counterpart of: it must go, because `last` had it."""
    kept = {index for index in pairs(wanted, last, key) if index is not None}
    gone = [one for index, one in enumerate(last) if index not in kept]
    exactly = {(one[key], _protocol(one)) for one in gone}
    by_key = {one[key] for one in gone} - {one[key] for one in wanted}
    return lambda one: one[key] in by_key or (one[key], _protocol(one)) in exactly


def interleave(wanted: Sequence[T], places: Sequence[int | None], extra: Sequence[tuple[int, T]]) -> list[T]:
    """Wanted elements in their order, and the live list's extra ones before the first wanted one that they preceded.

    `places` are the indices that the wanted elements had in the live list, and `extra` has those of the others.
    """
    rest = deque(extra)
    result = []
    for element, place in zip(wanted, places, strict=True):
        while place is not None and rest and rest[0][0] < place:
            result.append(rest.popleft()[1])
        result.append(element)
    return [*result, *(element for _, element in rest)]


def _pair(
    wanted: Sequence[Element], others: Sequence[Element], found: list[int | None], identity: Callable[[Element], object]
) -> None:
    used = set(found)
    free: dict[object, deque[int]] = {}
    for index, one in enumerate(others):
        if index not in used:
            free.setdefault(identity(one), deque()).append(index)
    for index, one in enumerate(wanted):
        if found[index] is None and (places := free.get(identity(one))):
            found[index] = places.popleft()


def _protocol(one: Element) -> str:
    value = one.get("protocol")
    return value if isinstance(value, str) else "TCP"


DEEPEST = 100
"""Levels of mappings and lists that an object may have."""


def plain(value: object, depth: int = 0) -> Any:
    """Copy a value into new dicts and lists. Raises `ValueError` beyond 100 levels."""
    if not isinstance(value, Mapping | list | tuple):
        return value
    if depth == DEEPEST:
        raise ValueError(f"the object is nested more than {DEEPEST} levels deep; such an object cannot be applied")
    if isinstance(value, Mapping):
        return {key: plain(one, depth + 1) for key, one in value.items()}
    return [plain(one, depth + 1) for one in value]


def mapping(value: object) -> dict[str, Any]:
    """A plain dict itself, or an empty one for anything else."""
    return value if isinstance(value, dict) else {}


def same(a: object, b: object) -> bool:
    """Whether two plain values are the same JSON. Unlike in Python, true is not 1."""
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(same(value, b[key]) for key, value in a.items())
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(same, a, b))
    return isinstance(a, bool) == isinstance(b, bool) and a == b


def pointer(path: str, token: object) -> str:
    """The JSON pointer (RFC 6901) to an entry below a path."""
    return f"{path}/{str(token).replace('~', '~0').replace('/', '~1')}"
