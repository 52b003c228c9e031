"""What the page is wired from, and its loops: composition only."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection
from typing import Any

from temporalio.client import Client

from wharfinger.page.alerts.etcd_alerts import EtcdAlerts
from wharfinger.page.alerts.etcd_health import EtcdHealth
from wharfinger.page.alerts.evaluation import Alerts
from wharfinger.page.alerts.hub_alerts import HUB_METRICS, HubAlerts
from wharfinger.page.alerts.hub_presence import HubPresence
from wharfinger.page.alerts.upstream_alerts import UpstreamAlerts
from wharfinger.page.alerts.worker_alerts import WorkerAlerts
from wharfinger.page.follow.followed_hosts import FollowedHosts
from wharfinger.page.follow.following import Following
from wharfinger.page.follow.hub_changes import HubChanges
from wharfinger.page.follow.reaching import TemporalReach
from wharfinger.page.follow.rings import SLOT_SECONDS
from wharfinger.page.follow.scraping import Scraper
from wharfinger.page.options import PageOptions
from wharfinger.page.trying.deciding import Deciders
from wharfinger.page.views.attempts import PodAttempts
from wharfinger.page.views.fleets import FleetLooks
from wharfinger.page.views.hub_reading import HubReading
from wharfinger.page.views.leaving import PodDepartures
from wharfinger.page.views.looking import Looking
from wharfinger.page.views.node_map import NodeMap
from wharfinger.page.views.overview import Overview
from wharfinger.page.views.pending import PendingPods
from wharfinger.page.views.placements import PlacementLooks
from wharfinger.page.views.replays import ReplayLooks
from wharfinger.page.views.update_runs import UpdateRunLooks
from wharfinger.page.views.upstream import is_copied
from wharfinger.page.web.actions import Actions
from wharfinger.page.web.stream import MOMENTS, TICK, ViewerStream
from wharfinger.process.side_by_side import first_to_end
from wharfinger.settings import EtcdSettings

log = logging.getLogger(__name__)

Connect = Callable[[], Awaitable[Client]]
WHAT_IF_SLOTS = 2
LOOK_SLOTS = 1


class PageParts:
    """Everything behind the addresses."""

    def __init__(
        self,
        following: Following,
        options: PageOptions,
        connect: Connect,
        *,
        cluster: str,
        namespace: str,
        etcd: EtcdSettings | None = None,
    ) -> None:
        """`connect`: the client of Temporal; `namespace`: of Temporal, for links; `etcd`: how it is reached, None for
        a store without a server. Raises `UsageError`.
        """
        self.following = following
        self.cluster = cluster
        self.options = options
        follow = FollowedHosts(options.scrape.hosts).follow
        self.scraper = Scraper(options.scrape, self._health_urls, following.clock, follows=follow)
        self.pending = PendingPods(following)
        self.overview = Overview(following, self.pending, self.scraper)
        self.hubs = HubPresence(following.patient)
        self.hub_scraper = Scraper(
            options.scrape, self.hubs.addresses, following.clock, names=HUB_METRICS, follows=follow
        )
        self.etcd = EtcdHealth(etcd, options.scrape.etcd_urls, following.clock)
        self.alerts = Alerts(
            following.clock,
            [
                WorkerAlerts(following, self.pending, self.scraper),
                UpstreamAlerts(following, self.scraper),
                HubAlerts(self.hubs, self.hub_scraper),
                EtcdAlerts(self.etcd),
            ],
        )
        self.map = NodeMap(following)
        self.what_if = Deciders(following, slots=WHAT_IF_SLOTS)
        looking = Deciders(following, slots=LOOK_SLOTS)
        self.questions = looking
        self.looking = Looking(following, self.pending, looking)
        self.fleets = FleetLooks(following.store, self.scraper, clock=following.clock, utc_now=following.utc_now)
        self.actions = Actions(following.store)
        self.replays = ReplayLooks(options.replays_dir, following.clock)
        self.temporal = TemporalReach(connect, following.clock)
        self.hub_reading = HubReading(following.store, following.clock)
        self.update_runs = UpdateRunLooks(
            following.store,
            self.hub_reading,
            utc_now=following.utc_now,
            cluster=cluster,
            ui=options.temporal_ui,
            namespace=namespace,
        )
        self.placements = PlacementLooks(
            following.store, self.hub_reading, self.update_runs, self.temporal.client, cluster
        )
        self.attempts = PodAttempts(
            following.store, self.temporal.client, cluster=cluster, ui=options.temporal_ui, namespace=namespace
        )
        self.departures = PodDepartures(following, lambda: self.attempts, self._client, cluster=cluster)
        self.stream = ViewerStream(self._payload, following=self._followed)
        self._hub_changes = HubChanges(
            following.store,
            lambda: "placements" in following.model.watched,
            lambda: following.model.touch("placements"),
        )
        self._touched: set[str] = set()
        self._noted = 0.0
        self._trends: dict[str, tuple[int, dict[str, Any]]] = {}
        self._everywhere: dict[str, Any] | None = None
        """What overviews of all namespaces have in common, made once a tick."""

    async def run(self) -> None:
        """Follow, scrape and tell, until cancelled."""
        try:
            await first_to_end(
                self.following.run(),
                self.scraper.run(),
                self.hubs.run(),
                self.hub_scraper.run(),
                self.etcd.run(),
                self.placements.run(),
                self._hub_changes.run(),
                self.temporal.run(lambda: len(self.stream) > 0),
                self._tell(),
            )
        finally:
            self.stream.close()
            self.what_if.close()
            self.questions.close()

    def status(self, namespace: str = "") -> dict[str, Any]:
        """Whether what is shown is current, who answers, and how many pods wait; `namespace`: of one."""
        following = self.following
        return {
            "inStep": following.in_step.is_set(),
            "revision": following.cache.progress.revision,
            "etcd": {"answers": not following.silent_seconds, "silentSeconds": round(following.silent_seconds)},
            "temporal": self.temporal.told(),
            "pending": self.pending.number(namespace) if following.in_step.is_set() else None,
            "restarts": following.restarts,
            "cluster": self.cluster,
            "kubernetes": is_copied(following),
            "placements": self.placements.there,
            "replays": self.replays.there,
        }

    # --- the stream ---------------------------------------------------------------------------

    async def _tell(self) -> None:
        while True:
            await self.tick()
            await asyncio.sleep(TICK)

    async def tick(self) -> None:
        """Look at what changed, and tell it."""
        self._everywhere = None
        clock = self.following.clock()
        if not self.following.in_step.is_set():
            await self.stream.tick()
            return
        if clock - self._noted >= SLOT_SECONDS / 2:
            self._noted = clock
            self.pending.note({_namespace(topic) for topic in self.stream.topics} - {""})
        if any(topic.startswith("nodes") for topic in self.stream.topics):
            self.map.tick()
        self._touched = self.following.model.take_touched()
        if "fleets" in self._touched:
            self.fleets.expire()
        if "placements" in self._touched:
            self.hub_reading.expire()
        await self.stream.tick()

    def _followed(self, topics: Collection[str]) -> None:
        self.following.watch_for({topic for topic in topics if topic.partition("?")[0].partition(":")[0] in MOMENTS})

    def _payload(self, topic: str) -> object | None:
        name, namespace = topic.partition("?")[0], _namespace(topic)
        if name == "status":
            return self.status(namespace)
        if not self.following.in_step.is_set():
            return None
        match name:
            case "overview":
                if self._everywhere is None:
                    self._everywhere = self.overview.everywhere() | {"alerts": self.alerts.told()}
                return self.overview.now(namespace, self._everywhere)
            case "trends":
                return self._trends_of(namespace)
            case "pending":
                return {"reasons": self.pending.reasons(namespace)}
            case "nodes":
                return self.map.changed(namespace)
        if topic in self._touched:
            return {"revision": self.following.cache.progress.revision}
        return None

    def _trends_of(self, namespace: str) -> dict[str, Any]:
        """Made anew when a slot is over."""
        slot = int(self.following.clock() / SLOT_SECONDS)
        known = self._trends.get(namespace)
        if known is None or known[0] != slot:
            if len(self._trends) > 100:
                self._trends.clear()
            known = self._trends[namespace] = slot, self.overview.trends(namespace)
        return known[1]

    async def _client(self) -> Client:
        """Of Temporal."""
        return await self.temporal.client()

    def _health_urls(self) -> list[str]:
        return [record.health for record in self.following.model.instances.values()]


def _namespace(topic: str) -> str:
    return topic.partition("?namespace=")[2]
