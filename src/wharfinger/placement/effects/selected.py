"""Reads from the hub's etcd all objects that a placement selects, at one revision.

`deciding.selecting` has the rules, and what members get of an object.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import orjson

from wharfinger.errors import InvalidObject
from wharfinger.etcd import keys
from wharfinger.etcd.store import KeyValue, Store
from wharfinger.objects.documents import documents
from wharfinger.objects.documents.fields import mapping, text, text_map
from wharfinger.objects.documents.kinds import NAMESPACE, Kind, of_object
from wharfinger.placement.contracts import placement_keys
from wharfinger.placement.deciding.selecting import (
    MOST_OBJECTS,
    brings,
    is_reserved,
    may_be_placed,
    may_kind_be_placed,
    narrowed_to,
    place_of,
    sanitised,
    selects,
)
from wharfinger.placement.model.delivery import ObjectId, ResourceSelector
from wharfinger.placement.model.placement import PlacementRef
from wharfinger.placement.spec.placement_fields import stored_selectors
from wharfinger.placement.state.contents_view import CONTENT, kind_of, taken_apart

MOST_BYTES = 32 * 1024 * 1024
"""Bytes of all objects of one placement, as they are stored."""
_LISTED_APART = 16
"""Namespaces whose objects are listed one namespace at a time; of more, whole kinds are listed."""


@dataclass(frozen=True, slots=True)
class Selected:
    """What a placement selects."""

    objects: tuple[dict[str, Any], ...] = ()
    """As members get them, in order. Envelopes are closed."""
    ids: tuple[ObjectId, ...] = ()
    """Of the objects, in the same order."""
    written: tuple[bytes, ...] = ()
    """Each object as it is kept, in the same order: equal objects are equal bytes."""
    digest: str = ""
    """64 hexadecimal digits, of the objects. Empty with trouble."""
    revision: int = 0
    """At which everything was read."""
    trouble: str = ""
    """One sentence: why nothing of it can be placed. Empty when it can."""


async def read_selected(store: Store, placement: Mapping[str, Any], reference: str, revision: int = 0) -> Selected:
    """All objects that a placement selects, read at one revision; 0 = now.

    `placement` is its object. What is wrong with it or with a selected object is `Selected.trouble`. Raises what the
    store raises: `Compacted`, `Unavailable`.
    """
    revision = revision or (await store.get(placement_keys.placement(reference))).revision
    reading = _Reading(store, PlacementRef.parse(reference), revision)
    trouble = ""
    try:
        await reading.read(stored_selectors(mapping(placement, "spec")))
    except InvalidObject as error:
        trouble = str(error)
    if trouble:
        return Selected(revision=revision, trouble=trouble)
    found = sorted(reading.found, key=lambda one: place_of(one.about))
    return Selected(
        objects=tuple(one.obj for one in found),
        ids=tuple(one.about for one in found),
        written=tuple(one.canonical for one in found),
        digest=hashlib.sha256(b"[" + b",".join(one.canonical for one in found) + b"]").hexdigest(),
        revision=revision,
    )


@dataclass(frozen=True, slots=True)
class _Found:
    """One selected object."""

    about: ObjectId
    obj: dict[str, Any]
    canonical: bytes


@dataclass(slots=True)
class _Reading:
    """Reads what one placement selects. Every method raises `InvalidObject` for what makes it impossible to place."""

    store: Store
    ref: PlacementRef
    revision: int
    found: list[_Found] = field(default_factory=list)
    _names: set[ObjectId] = field(default_factory=set)
    _size: int = 0

    async def read(self, selectors: Sequence[ResourceSelector]) -> None:
        """Take all that they select."""
        if self.ref.namespace and is_reserved(self.ref.namespace):
            raise InvalidObject(f"nothing of the namespace {self.ref.namespace} is placed, which is reserved")
        narrowed = narrowed_to(selectors)
        for index, selector in enumerate(selectors):
            where = f"spec.resourceSelectors[{index}]"
            if not may_kind_be_placed(selector.group, selector.kind):
                continue
            try:
                kind = kind_of(selector)
            except InvalidObject as error:
                raise InvalidObject(f"{where}: {error}") from None
            if kind is NAMESPACE and not self.ref.namespace:
                await self._namespaces(selector)
            elif kind.namespaced and not (self.ref.namespace or narrowed):
                raise InvalidObject(
                    f"{where}: a ClusterResourcePlacement selects objects of the namespaced kind {kind.name} only in a "
                    "namespace that it selects with selectionScope NamespaceWithResourceSelectors"
                )
            elif not kind.namespaced and self.ref.namespace:
                raise InvalidObject(f"{where}: a ResourcePlacement cannot select the cluster-scoped kind {kind.name}")
            else:
                place = (self.ref.namespace or narrowed) if kind.namespaced else ""
                async for kv, about, obj in self._selected(kind, place, selector):
                    self._take(kv, about, obj)

    async def _namespaces(self, selector: ResourceSelector) -> None:
        """Take namespaces, and what comes with them."""
        names = []
        if selector.name and is_reserved(selector.name):
            raise InvalidObject(f"the namespace {selector.name} cannot be placed, because it is reserved")
        async for kv, about, obj in self._selected(NAMESPACE, "", selector):
            if brings(selector) and is_reserved(about.name):
                raise InvalidObject(f"the namespace {about.name} cannot be placed, because it is reserved")
            if self._take(kv, about, obj):
                names.append(about.name)
        if brings(selector):
            await self._contents(names)
        elif not names and narrowed_to((selector,)):
            raise InvalidObject(f"the namespace {selector.name[:80]} that it selects is not there")

    async def _contents(self, names: Collection[str]) -> None:
        """Take everything in these namespaces."""
        wanted = set(names)
        for kind in CONTENT if wanted else ():
            for name in sorted(wanted) if len(wanted) <= _LISTED_APART else ("",):
                async for kv, namespace in self._listed(kind, name):
                    if namespace in wanted:
                        self._take(kv, *_read(kv, kind, namespace))

    async def _selected(
        self, kind: Kind, namespace: str, selector: ResourceSelector
    ) -> AsyncIterator[tuple[KeyValue, ObjectId, dict[str, Any]]]:
        """What a selector selects itself."""
        async for kv, _ in self._listed(kind, namespace, selector.name):
            about, obj = _read(kv, kind, namespace)
            if selects(selector, about, text_map(mapping(obj, "metadata"), "labels", f"{about}: metadata.")):
                yield kv, about, obj

    async def _listed(self, kind: Kind, namespace: str, name: str = "") -> AsyncIterator[tuple[KeyValue, str]]:
        """The object of this name, or all of a kind; of one namespace, or of all. Each with its namespace."""
        if name:
            kv = (await self.store.get(keys.stored(kind.folder, namespace, name), revision=self.revision)).kv
            if kv is not None:
                yield kv, namespace
            return
        async for kv in self.store.each(keys.stored_prefix(kind.folder, namespace), revision=self.revision):
            parts = taken_apart(kv.key)
            if parts is not None and parts[0] is kind:
                yield kv, parts[1]

    def _take(self, kv: KeyValue, about: ObjectId, obj: Mapping[str, Any]) -> bool:
        """Add an object; False where it may not be placed."""
        if not may_be_placed(about, obj):
            return False
        identity = about._replace(version="")
        if identity in self._names:
            raise InvalidObject(f"{about} is selected twice")
        self._names.add(identity)
        self._size += len(kv.value)
        if len(self._names) > MOST_OBJECTS:
            raise InvalidObject(f"it selects more than {MOST_OBJECTS} objects")
        if self._size > MOST_BYTES:
            raise InvalidObject(f"it selects objects of more than {MOST_BYTES // 1024 // 1024} MiB")
        try:
            placed = sanitised(obj)
            self.found.append(_Found(about, placed, _canonical(placed)))
        except InvalidObject as error:
            raise InvalidObject(f"{about} cannot be read: {error}") from None
        return True


def _read(kv: KeyValue, kind: Kind, namespace: str) -> tuple[ObjectId, dict[str, Any]]:
    """The stored object, with the namespace of its key. Raises `InvalidObject`, naming the object."""
    name = kv.key.rpartition("/")[2]
    place = f"{namespace}/{name}" if namespace else name
    try:
        obj = documents.parse(kv.value)
        if not isinstance(obj, Mapping):
            raise InvalidObject("it is no object")
        if of_object(obj) is not kind:
            raise InvalidObject(f"it is a {text(obj, 'kind')[:40]}")
        metadata = dict(mapping(obj, "metadata"))
        written = text(metadata, "name", "metadata."), text(metadata, "namespace", "metadata.") or namespace
        if written[0] != name or (kind.namespaced and written[1] != namespace):
            raise InvalidObject(f"it is called {'/'.join(written)[:80]!r}")
    except InvalidObject as error:
        raise InvalidObject(f"the {kind.name} {place[:120]} cannot be read: {error}") from None
    if kind.namespaced:
        metadata["namespace"] = namespace
    else:
        metadata.pop("namespace", None)
    whole = {**obj, "metadata": metadata}
    return ObjectId.of(whole), whole


def _canonical(obj: Mapping[str, Any]) -> bytes:
    """The same bytes for equal objects. Raises `InvalidObject` for what cannot be read back from them as it was."""
    with suppress(orjson.JSONEncodeError):  # deeper than 254, beyond 64 bits, or half a surrogate pair
        return orjson.dumps(obj, option=orjson.OPT_SORT_KEYS)
    try:
        written = _slowly(obj)
    except (RecursionError, ValueError):
        raise InvalidObject("it is nested too deeply, or holds what JSON cannot write") from None
    try:
        same = _slowly(orjson.loads(written)) == written
    except (RecursionError, ValueError):
        same = False
    if not same:
        raise InvalidObject("it holds a number or a text that members could not read back")
    return written


def _slowly(obj: Any) -> bytes:
    return json.dumps(obj, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()
