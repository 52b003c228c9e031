"""The cluster's state, revision by revision, as etcd's history shows it; and views that follow it, as workers do.

Everything is decoded once, however many views follow. A view that joins late is given what there is, nodes in the
order in which they appeared. Synchronous and pure: who reads etcd is `reading`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from wharfinger.etcd import keys
from wharfinger.etcd.store import Event, KeyValue
from wharfinger.objects.documents.formats import ObjectFormat
from wharfinger.replay.memberships import Memberships
from wharfinger.scheduling.model.promises import UpstreamSide
from wharfinger.scheduling.state.cache.cache import Cache
from wharfinger.scheduling.state.informer.changes import Changes
from wharfinger.scheduling.state.informer.decoding import ObservedKey, observe
from wharfinger.scheduling.state.informer.view import View
from wharfinger.telemetry import Metrics

OFTEN = 512
"""Objects that are taken in between two checks."""
_WITH_VALUE = (keys.CONFIG, keys.BOUND_BY)
"""Kinds whose raw value a view reads, beside what was decoded."""


class Facts:
    """All that decisions read of etcd, at one revision."""

    def __init__(
        self,
        format_: ObjectFormat,
        *,
        copies: bool = False,
        followed: bool = True,
        check: Callable[[], None] = lambda: None,
    ) -> None:
        """`copies`: whether the objects are copies of a Kubernetes API's; `followed`: whether views will `follow`,
        for which what was decoded is kept; `check`: called while the state grows.
        """
        self.revision = 0
        self.check = check
        self.memberships = Memberships()
        self._format = format_
        self._copies = copies
        self._followed = followed
        self._metrics = Metrics()
        self._known: dict[str, ObservedKey] = {}
        self._count = 0
        self._first: list[ObservedKey] = []
        self._views: list[View] = []
        self._own = self._made()
        """Follows always: it knows the priority classes by which pods are decoded."""

    @property
    def cache(self) -> Cache:
        """The state, for whoever only looks."""
        return self._own.cache

    def begin(self, items: Iterable[KeyValue], revision: int) -> None:
        """The whole first state."""
        self.read(items)
        self.begun(revision)

    def read(self, items: Iterable[KeyValue]) -> None:
        """A part of the first state: it is decoded, and waits for the rest."""
        for kv in items:
            observed = self._observe(Event(kv))
            if observed is not None:
                self._first.append(_slim(observed))
                self._grown()

    @property
    def waiting(self) -> int:
        """Objects of the first state that were read."""
        return len(self._first)

    def begun(self, revision: int) -> None:
        """The first state was read."""
        found, self._first = self._first, []
        nodes = sorted((one for one in found if one.prefix == keys.NODES), key=_appearance)
        self._take([*(one for one in found if one.prefix != keys.NODES), *nodes], revision)

    def take(self, events: Iterable[Event], revision: int) -> None:
        """All changes of one revision."""
        self._take([observed for event in events if (observed := self._observe(event)) is not None], revision)

    def follow(self) -> View:
        """A view of the state as it is now, which goes along until it is left."""
        view = self._made()
        found = self._known.values()
        nodes = sorted((one for one in found if one.prefix == keys.NODES), key=_appearance)
        others = (one for one in found if one.prefix != keys.NODES)
        self._show(view, [*others, *nodes])
        self._views.append(view)
        return view

    def leave(self, view: View) -> None:
        """The view goes along no more."""
        self._views.remove(view)

    def _grown(self) -> None:
        self._count += 1
        if not self._count % OFTEN:
            self.check()

    def _made(self) -> View:
        cache = Cache(clock=lambda: 0.0)
        cache.upstream = UpstreamSide() if self._copies else None
        return View(cache, self._metrics, format_=self._format)

    def _observe(self, event: Event) -> ObservedKey | None:
        return observe(event, classes=self.cache.surroundings.priority_classes, format_=self._format)

    def _take(self, observed: list[ObservedKey], revision: int) -> None:
        self.revision = revision
        for one in observed if self._followed else ():
            if one.deleted:
                self._known.pop(one.kv.key, None)
            else:
                self._known[one.kv.key] = _slim(one)
        self.memberships.apply(self._show(self._own, observed))
        for view in self._views:
            self._show(view, observed)

    def _show(self, view: View, observed: Iterable[ObservedKey]) -> Changes:
        changes = Changes(self.revision)
        for one in observed:
            view.take(one, changes)
            self._grown()
        view.reclassify(changes)
        view.cache.progress.advance(self.revision)
        return changes


def _slim(observed: ObservedKey) -> ObservedKey:
    """Without the bytes, where nobody reads them: they are as large as what was decoded."""
    return observed if observed.prefix in _WITH_VALUE else observed._replace(kv=observed.kv._replace(value=b""))


def _appearance(observed: ObservedKey) -> int:
    return observed.kv.create_revision
