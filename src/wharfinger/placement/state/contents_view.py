"""What a hub has seen of the objects that placements select: keys, mod revisions and labels, no contents.

From it follows whether a placement's selected objects may be others than when they were looked at last: a stamp over
the selectors and over each object that they may select. It may say so too often (an object that may not be placed), and
never too seldom. The functions below say where in etcd these objects lie. `hub.following` follows etcd;
`effects.selected` reads what is really selected.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple

from wharfinger.errors import InvalidObject
from wharfinger.etcd import keys
from wharfinger.etcd.store import Event, KeyValue
from wharfinger.objects.documents import documents
from wharfinger.objects.documents.fields import mapping, text_map
from wharfinger.objects.documents.kinds import KINDS, Kind, of_object
from wharfinger.placement.deciding.frozen_texts import selection_text
from wharfinger.placement.deciding.selecting import brings, may_kind_be_placed, narrowed_to, selects
from wharfinger.placement.model.delivery import ObjectId, ResourceSelector
from wharfinger.placement.model.placement import PlacementRef


class _Seen(NamedTuple):
    revision: int
    labels: Mapping[str, str] | None
    """None = they cannot be read."""


@dataclass(slots=True)
class _Reader:
    """What one placement reads."""

    selectors: tuple[ResourceSelector, ...]
    keys: frozenset[str]
    """Of objects that are selected by name."""
    prefixes: tuple[str, ...]
    """Under which anything may be selected."""
    folders: frozenset[str]
    stamp: str | None = None
    changed: float | None = None
    """Clock seconds of the first change since it was looked at."""


class ContentsView:
    """What was seen of selected objects."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._seen: dict[str, dict[str, _Seen]] = {}
        """Folder -> key -> what is there; a folder is there once it was listed."""
        self._readers: dict[str, _Reader] = {}
        self._by_key: defaultdict[str, set[str]] = defaultdict(set)
        self._by_prefix: defaultdict[str, set[str]] = defaultdict(set)

    @property
    def wanted(self) -> frozenset[str]:
        """Prefixes of kinds that have to be followed."""
        return frozenset().union(*(one.folders for one in self._readers.values()))

    def read(self, reference: str, selectors: Sequence[ResourceSelector]) -> None:
        """A placement selects so; nothing = it is gone."""
        before = self._readers.get(reference)
        if before is not None and before.selectors == tuple(selectors):
            return
        if before is not None:
            del self._readers[reference]
            for readers, names in ((self._by_key, before.keys), (self._by_prefix, before.prefixes)):
                for name in names:
                    readers[name].discard(reference)
                    if not readers[name]:
                        del readers[name]
        if not selectors:
            return
        made = _Reader(
            tuple(selectors),
            named_keys(selectors, reference),
            # under which an object may be selected without being named
            () if all(one.name and not brings(one) for one in selectors) else prefixes(selectors, reference),
            folders(selectors, reference),
            changed=self._clock() if before is not None else None,
        )
        self._readers[reference] = made
        for key in made.keys:
            self._by_key[key].add(reference)
        for prefix in made.prefixes:
            self._by_prefix[prefix].add(reference)

    def listed(self, folder: str, found: Iterable[KeyValue]) -> set[str]:
        """A new list of a folder; answers the placements that it may concern."""
        before, now = self._seen.get(folder), {kv.key: _seen(kv) for kv in found}
        self._seen[folder] = now
        if before is None:
            concerned = {name for name, one in self._readers.items() if folder in one.folders}
            for name in concerned:
                self._readers[name].stamp = None
            return concerned
        concerned = set()
        for key in before.keys() | now.keys():
            if before.get(key) != now.get(key):
                concerned |= self._touched(key, before.get(key), now.get(key))
        return concerned

    def changed(self, folder: str, event: Event) -> set[str]:
        """One change; answers the placements that it concerns."""
        in_it = self._seen.setdefault(folder, {})
        before = in_it.pop(event.kv.key, None)
        after = None if event.deleted else _seen(event.kv)
        if after is not None:
            in_it[event.kv.key] = after
        return self._touched(event.kv.key, before, after)

    def forget(self, folder: str) -> None:
        """The folder is followed no longer."""
        self._seen.pop(folder, None)

    def stamp(self, reference: str) -> str | None:
        """Of what a placement may select now; None = that is not known yet."""
        reader = self._readers.get(reference)
        if reader is None or not self._seen.keys() >= reader.folders:
            return None
        if reader.stamp is None:
            reader.stamp = self._stamp(reference, reader)
        return reader.stamp

    def since(self, reference: str) -> float:
        """Clock seconds of the first change since it was looked at; now, when none was seen."""
        reader = self._readers.get(reference)
        if reader is None:
            return self._clock()
        if reader.changed is None:
            reader.changed = self._clock()
        return reader.changed

    def looked_at(self, reference: str) -> None:
        """The selected objects were looked at as they are."""
        if reference in self._readers:
            self._readers[reference].changed = None

    def _touched(self, key: str, before: _Seen | None, after: _Seen | None) -> set[str]:
        concerned = set(self._by_key.get(key, ()))
        for prefix, readers in self._by_prefix.items():
            if key.startswith(prefix):
                concerned |= {
                    name
                    for name in readers
                    if any(
                        one is not None and catches(self._readers[name].selectors, name, key, one.labels)
                        for one in (before, after)
                    )
                }
        for name in concerned:
            self._readers[name].stamp = None
            self.since(name)
        return concerned

    def _stamp(self, reference: str, reader: _Reader) -> str:
        found: list[tuple[str, int]] = []
        for folder in reader.folders:
            in_it = self._seen[folder]
            found += [(key, in_it[key].revision) for key in reader.keys if key in in_it]
            wanted = [prefix for prefix in reader.prefixes if prefix.startswith(folder) or folder.startswith(prefix)]
            if wanted:
                found += [
                    (key, one.revision)
                    for key, one in in_it.items()
                    if any(key.startswith(prefix) for prefix in wanted)
                    and catches(reader.selectors, reference, key, one.labels)
                ]
        marks = selection_text(reader.selectors, sorted(set(found)))
        return hashlib.sha256(marks.encode(errors="surrogatepass")).hexdigest()[:16]


def _seen(kv: KeyValue) -> _Seen:
    try:
        obj = documents.parse(kv.value)
        labels = text_map(mapping(obj, "metadata"), "labels") if isinstance(obj, Mapping) else None
    except InvalidObject:
        labels = None
    return _Seen(kv.mod_revision, labels)


CONTENT = tuple(kind for kind in KINDS if kind.namespaced and may_kind_be_placed(kind.group, kind.name))
"""Kinds of which a namespace has objects."""
_BY_FOLDER = {kind.folder: kind for kind in KINDS}


def prefixes(selectors: Sequence[ResourceSelector], reference: str) -> tuple[str, ...]:
    """The prefixes of etcd under which a change can concern these selectors of a placement, sorted."""
    found: set[str] = set()
    for selector, kind, place in _selecting(selectors, reference):
        found.add(keys.stored_prefix(kind.folder, place))
        if brings(selector):
            found.update(keys.stored_prefix(content.folder, selector.name) for content in CONTENT)
    return tuple(sorted(one for one in found if not any(one != other and one.startswith(other) for other in found)))


def named_keys(selectors: Sequence[ResourceSelector], reference: str) -> frozenset[str]:
    """Keys of the objects that are selected by name, namespaces included."""
    return frozenset(
        keys.stored(kind.folder, place, selector.name)
        for selector, kind, place in _selecting(selectors, reference)
        if selector.name
    )


def folders(selectors: Sequence[ResourceSelector], reference: str) -> frozenset[str]:
    """The prefixes of the kinds among which these selectors select."""
    found: set[str] = set()
    for selector, kind, _ in _selecting(selectors, reference):
        found.add(keys.stored_prefix(kind.folder))
        if brings(selector):
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
    for selector, kind, place in _selecting(selectors, reference):
        if kind is found and namespace == place:
            if labels is None and not selector.name:
                return True
            about = ObjectId(selector.group, selector.version, selector.kind, namespace, name)
            if selects(selector, about, labels or {}):
                return True
        if brings(selector) and found in CONTENT and selector.name in ("", namespace):
            return True
    return False


def kind_of(selector: ResourceSelector) -> Kind:
    """The kind that a selector means. Its version is not looked at: objects are placed as they are stored."""
    version = f"{selector.group}/v1" if selector.group else "v1"
    return of_object({"kind": selector.kind, "apiVersion": version})


def _selecting(selectors: Sequence[ResourceSelector], reference: str) -> Iterator[tuple[ResourceSelector, Kind, str]]:
    """The selectors that can select something for the placement, each with its kind and its objects' namespace."""
    namespace = PlacementRef.parse(reference).namespace
    place = namespace or narrowed_to(selectors)
    for selector in selectors:
        with suppress(InvalidObject):
            if may_kind_be_placed(selector.group, selector.kind):
                kind = kind_of(selector)
                if place if kind.namespaced else not namespace:
                    yield selector, kind, place if kind.namespaced else ""


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
