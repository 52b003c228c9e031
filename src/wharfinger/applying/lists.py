"""Lists whose elements a field identifies, such as containers by name: which elements belong together, in which order.

Kubernetes' merge keys are not always unique: a Service may have port 53 for TCP and for UDP. Elements that share a key
are matched by their protocol first, then in their order, so that none is lost.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

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
