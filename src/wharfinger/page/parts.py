"""What the page is wired from, and its loops: composition only. What a wing shows is its `PageView`."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterable, Mapping, Set
from datetime import datetime
from pkgutil import resolve_name
from typing import Any, Protocol, TypeVar

from temporalio.client import Client

from wharfinger.etcd.store import Store
from wharfinger.page.alerts.etcd_health import EtcdAlerts, EtcdHealth
from wharfinger.page.alerts.evaluation import Alerts
from wharfinger.page.alerts.rules import AlertSource
from wharfinger.page.follow.reaching import TemporalReach
from wharfinger.page.follow.scraping import FollowedHosts
from wharfinger.page.options import PageOptions
from wharfinger.page.views import VIEWS, MenuEntry
from wharfinger.page.web.inputs import topic_pattern
from wharfinger.page.web.routes import Route
from wharfinger.page.web.stream import TICK, ViewerStream, name_of_topic
from wharfinger.process.running import first_to_end
from wharfinger.settings import EtcdSettings

Connect = Callable[[], Awaitable[Client]]
Topic = Callable[[str], object | None]
"""What followers of a topic are told now, given the namespace."""


class Followed(Protocol):
    """What follows etcd for all views."""

    in_step: asyncio.Event
    store: Store
    clock: Callable[[], float]
    utc_now: Callable[[], datetime]

    @property
    def revision(self) -> int:
        """The newest that was taken in."""

    def watch_for(self, marks: set[str]) -> None:
        """Which changes somebody wants to be told."""

    def take_touched(self) -> set[str]:
        """What changed since the last call, of what is watched."""

    async def run(self) -> None:
        """Follow until cancelled."""


class PageView:
    """What one wing shows: it is named in `page.views.VIEWS`, and has of these what it needs."""

    menu: Iterable[MenuEntry] = ()
    alerts: AlertSource | None = None
    topics: Mapping[str, Topic] = {}
    """Those that are made anew at every tick, while the page is in step."""
    deltas: Set[str] = frozenset()
    """Those of them whose messages are changes: one who comes later has asked for the whole."""
    moments: Mapping[str, int] = {}
    """Topics whose messages say only that something changed, so that viewers ask for what they show. How many names
    follow in one, `pod:NAMESPACE/NAME`; 0 = none, but perhaps a namespace, `pods?namespace=NAME`.
    """

    def __init__(self, page: PageParts) -> None:
        self.page = page

    def routes(self) -> Iterable[Route]:
        """Its addresses; those that `acts` are served where that is allowed."""
        return ()

    def loops(self) -> Iterable[Coroutine[Any, Any, None]]:
        """What goes on while the page is there."""
        return ()

    def status(self, namespace: str) -> dict[str, Any]:  # noqa: ARG002 - of some views
        """Its part of the page's status; `namespace`: of one."""
        return {}

    def tick(self, touched: Set[str]) -> None:
        """Look at what changed."""

    def close(self) -> None:
        """Let go of what `loops` did not end."""


V = TypeVar("V", bound=PageView)


class PageParts:
    """Everything behind the addresses."""

    def __init__(
        self,
        following: Followed,
        options: PageOptions,
        connect: Connect,
        *,
        cluster: str,
        namespace: str,
        etcd: EtcdSettings | None = None,
        views: Iterable[str] = VIEWS,
    ) -> None:
        """`connect`: the client of Temporal; `namespace`: of Temporal, for links; `etcd`: how it is reached, None for
        a store without a server; `views`: those of the server. Raises `UsageError`.
        """
        self.following = following
        self.cluster = cluster
        self.namespace = namespace
        self.options = options
        self.follows = FollowedHosts(options.scrape.hosts).follow
        """Whether metrics are read at a base URL."""
        self.etcd = EtcdHealth(etcd, options.scrape.etcd_urls, following.clock)
        self.temporal = TemporalReach(connect, following.clock)
        self._views: list[PageView] = []
        for name in views:
            self._views.append(resolve_name(name)(self))
        self._topics = {name: topic for view in self._views for name, topic in view.topics.items()}
        self._moments = {name: parts for view in self._views for name, parts in view.moments.items()}
        self.known_topics = topic_pattern({**dict.fromkeys(("status", *self._topics), 0), **self._moments})
        """Matches every topic that a viewer may follow."""
        deltas = {name for view in self._views for name in view.deltas}
        self.stream = ViewerStream(
            self._payload, following=self._followed, changes=frozenset(self._moments.keys() | deltas)
        )
        sources = [view.alerts for view in self._views if view.alerts is not None]
        self.alerts = Alerts(following.clock, [*sources, EtcdAlerts(self.etcd)])
        self._touched: set[str] = set()

    def view(self, kind: type[V]) -> V:
        """The view of a class."""
        return next(view for view in self._views if isinstance(view, kind))

    def routes(self) -> list[Route]:
        """The addresses of all views."""
        return [route for view in self._views for route in view.routes()]

    async def run(self) -> None:
        """Follow, scrape and tell, until cancelled."""
        try:
            await first_to_end(
                self.following.run(),
                self.etcd.run(),
                self.temporal.run(lambda: len(self.stream) > 0),
                *(loop for view in self._views for loop in view.loops()),
                self._tell(),
            )
        finally:
            self.stream.close()
            for view in self._views:
                view.close()

    def status(self, namespace: str = "") -> dict[str, Any]:
        """Whether what is shown is current, who answers, and how many pods wait; `namespace`: of one."""
        found: dict[str, Any] = {}
        for view in self._views:
            found |= view.status(namespace)
        return found

    # --- the stream ---------------------------------------------------------------------------

    async def _tell(self) -> None:
        while True:
            await self.tick()
            await asyncio.sleep(TICK)

    async def tick(self) -> None:
        """Look at what changed, and tell it."""
        if self.following.in_step.is_set():
            self._touched = self.following.take_touched()
            for view in self._views:
                view.tick(self._touched)
        await self.stream.tick()

    def _followed(self, topics: Collection[str]) -> None:
        self.following.watch_for({topic for topic in topics if name_of_topic(topic) in self._moments})

    def made(self, topics: Iterable[str]) -> set[str]:
        """Those of these topics that are made anew at every tick; the others say only that something changed."""
        return {topic for topic in topics if name_of_topic(topic) not in self._moments}

    def _payload(self, topic: str) -> object | None:
        name, namespace = topic.partition("?")[0], namespace_of(topic)
        if name == "status":
            return self.status(namespace)
        if not self.following.in_step.is_set():
            return None
        if name in self._topics:
            return self._topics[name](namespace)
        return {"revision": self.following.revision} if topic in self._touched else None


def namespace_of(topic: str) -> str:
    """Of which namespace a topic is; empty = of all."""
    return topic.partition("?namespace=")[2]
