"""Where in the hub's etcd the objects lie that a placement may select, for hubs that follow changes.

All of these may name too much, and never too little: `selected` reads what is really selected.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress

from wharfinger.errors import InvalidObject
from wharfinger.etcd import keys
from wharfinger.objects.documents.kinds import KINDS, Kind, of_object
from wharfinger.placement.deciding.selecting import brings, may_kind_be_placed, narrowed_to, selects
from wharfinger.placement.model.contents import ObjectId, ResourceSelector
from wharfinger.placement.model.placement import PlacementRef

CONTENT = tuple(kind for kind in KINDS if kind.namespaced and may_kind_be_placed(kind.group, kind.name))
"""Kinds of which a namespace has objects."""
_BY_FOLDER = {kind.folder: kind for kind in KINDS}


def prefixes(selectors: Sequence[ResourceSelector], reference: str) -> tuple[str, ...]:
    """The prefixes of etcd under which a change can concern these selectors of a placement, sorted."""
    ref = PlacementRef.parse(reference)
    place = ref.namespace or narrowed_to(selectors)
    found: set[str] = set()
    for selector, kind in _known(selectors):
        if kind.namespaced:
            if place:
                found.add(keys.stored_prefix(kind.folder, place))
            continue
        if ref.namespace:
            continue
        found.add(keys.stored_prefix(kind.folder))
        if brings(selector):
            found.update(keys.stored_prefix(content.folder, selector.name) for content in CONTENT)
    return tuple(sorted(one for one in found if not any(one != other and one.startswith(other) for other in found)))


def named_keys(selectors: Sequence[ResourceSelector], reference: str) -> frozenset[str]:
    """Keys of the objects that are selected by name, namespaces included."""
    ref = PlacementRef.parse(reference)
    place = ref.namespace or narrowed_to(selectors)
    return frozenset(
        keys.stored(kind.folder, place if kind.namespaced else "", selector.name)
        for selector, kind in _known(selectors)
        if selector.name and (place if kind.namespaced else not ref.namespace)
    )


def folders(selectors: Sequence[ResourceSelector], reference: str) -> frozenset[str]:
    """The prefixes of the kinds among which these selectors select."""
    ref = PlacementRef.parse(reference)
    place = ref.namespace or narrowed_to(selectors)
    found: set[str] = set()
    for selector, kind in _known(selectors):
        if place if kind.namespaced else not ref.namespace:
            found.add(keys.stored_prefix(kind.folder))
        if brings(selector) and not ref.namespace:
            found.update(keys.stored_prefix(content.folder) for content in CONTENT)
    return frozenset(found)


def catches(selectors: Sequence[ResourceSelector], reference: str, key: str, labels: Mapping[str, str] | None) -> bool:
    """Whether the object at a key, with these labels, may be selected; None = its labels are not known.

    Of what is in namespaces that are selected by labels, every object may be.
    """
    parts = taken_apart(key)
    if parts is None:
        return False
    found, namespace, name = parts
    ref = PlacementRef.parse(reference)
    place = ref.namespace or narrowed_to(selectors)
    for selector, kind in _known(selectors):
        if kind is found and (namespace == place if kind.namespaced else not ref.namespace):
            if labels is None and not selector.name:
                return True
            about = ObjectId(selector.group, selector.version, selector.kind, namespace, name)
            if selects(selector, about, labels or {}):
                return True
        if not ref.namespace and brings(selector) and found in CONTENT and selector.name in ("", namespace):
            return True
    return False


def kind_of(selector: ResourceSelector) -> Kind:
    """The kind that a selector means. Its version is not looked at: objects are placed as they are stored."""
    version = f"{selector.group}/v1" if selector.group else "v1"
    return of_object({"kind": selector.kind, "apiVersion": version})


def _known(selectors: Sequence[ResourceSelector]) -> Iterator[tuple[ResourceSelector, Kind]]:
    """The selectors of kinds that can be placed."""
    for selector in selectors:
        with suppress(InvalidObject):
            if may_kind_be_placed(selector.group, selector.kind):
                yield selector, kind_of(selector)


def taken_apart(key: str) -> tuple[Kind, str, str] | None:
    """The kind, namespace and name of the object at a key."""
    if not key.startswith(keys.ROOT):
        return None
    parts = key[len(keys.ROOT) :].split("/")
    for size in (1, 2):
        kind = _BY_FOLDER.get("/".join(parts[:size]))
        if kind is not None:
            *namespaces, name = parts[size:] or [""]
            if len(namespaces) == kind.namespaced:
                return kind, namespaces[0] if namespaces else "", name
    return None
