"""The cluster's state as etcd's history, or an archive, shows it: how far back, revision by revision, and views of it.

Views follow the state as workers do. Everything is decoded once, however many views follow. A view that joins late is
given what there is, nodes in the order in which they appeared. But for two readers of a store, all is synchronous and
pure: `shadow` and `reruns` read etcd.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from wharfinger.errors import Compacted
from wharfinger.etcd import keys
from wharfinger.etcd.store import Event, KeyValue, Page, Read, WatchBatch
from wharfinger.framework.preferred_nodes import members_digest
from wharfinger.objects.documents.formats import ObjectFormat
from wharfinger.objects.model.formats import ClusterFormat
from wharfinger.scheduling.contracts.computation import OwnNodes
from wharfinger.scheduling.loops.shards import Roster
from wharfinger.scheduling.model.promises import KubernetesSide
from wharfinger.scheduling.state.cache.cache import Cache
from wharfinger.scheduling.state.informer.changes import Changes
from wharfinger.scheduling.state.informer.decoding import ObservedKey, observe
from wharfinger.scheduling.state.informer.view import View
from wharfinger.telemetry import Metrics

MOST_MEMBERSHIPS = 1000
"""Memberships that are kept: a rollout of all workers makes two for each of them."""
OFTEN = 512
"""Objects that are taken in between two checks."""
_WITH_VALUE = (keys.CONFIG, keys.BOUND_BY)
"""Kinds whose raw value a view reads, beside what was decoded."""


class KeptStates(Protocol):
    """The part of a `Store` that reads: states of the past, and the changes since then."""

    format: ClusterFormat

    async def get(self, key: str, *, revision: int = 0) -> Read:
        """See `Store.get`."""

    def list(self, prefix: str, *, revision: int = 0, page_size: int = 500) -> AsyncIterator[Page]:
        """See `Store.list`."""

    def watch(self, prefix: str, start_revision: int) -> AbstractAsyncContextManager[AsyncIterator[WatchBatch]]:
        """See `Store.watch`."""


async def oldest_kept(store: KeptStates, wanted: int) -> int:
    """The first revision from `wanted` on that the store still has. Raises `StoreError`."""
    try:
        async for _ in store.list(keys.INSTALLATION, revision=wanted, page_size=1):
            return wanted
    except Compacted as error:
        if error.compact_revision:
            return error.compact_revision
    try:
        async with store.watch(keys.ROOT, 1) as batches:
            async for _ in batches:
                break
    except Compacted as error:
        return max(wanted, error.compact_revision)
    return wanted


async def recorded_configurations(store: KeptStates) -> list[KeyValue]:
    """The recorded configurations of profiles. Raises the store's errors."""
    return [kv async for page in store.list(keys.PROFILES) for kv in page.items]


class Memberships:
    """Which workers shared the nodes, in all pools, by the digest that a decision without room for names has of them.

    The registrations in etcd make memberships. The last ones are kept.
    """

    def __init__(self) -> None:
        self._rosters: dict[str, Roster] = {}
        self._by_digest: dict[str, tuple[str, ...]] = {}
        """The latest one last."""

    def __len__(self) -> int:
        return len(self._by_digest)

    def apply(self, changes: Changes) -> None:
        """Follow the registrations."""
        moved: dict[str, Roster] = {}
        for one in changes.instances:
            roster = self._rosters.setdefault(one.tenant, Roster(one.tenant))
            roster.set(one.slot, one.incarnation, one.new)
            moved[one.tenant] = roster
        for roster in moved.values():
            members = tuple(sorted(roster.ready()))
            digest = members_digest(members)
            self._by_digest.pop(digest, None)
            self._by_digest[digest] = members
        while len(self._by_digest) > MOST_MEMBERSHIPS:
            del self._by_digest[next(iter(self._by_digest))]

    def of(self, own: OwnNodes) -> tuple[str, ...]:
        """Who shared the nodes; empty when nobody knows any more."""
        return own.members or self._by_digest.get(own.digest, ())


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
        cache.kubernetes = KubernetesSide() if self._copies else None
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
