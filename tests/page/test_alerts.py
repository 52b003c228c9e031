"""Alerts on the metrics of hubs and of etcd, and on what etcd says of both."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest

from tests.clock import Clock
from tests.conftest import EtcdServer
from tests.page.cluster import Page
from tests.page.metrics_process import MetricsProcess
from tests.placement.scene import HubScene
from wharfinger.page.alerts.etcd_health import EtcdAlerts, EtcdHealth
from wharfinger.page.alerts.evaluation import FIRING, LEFT, QUIET, UNKNOWN, UNUSED, Alert, Alerts
from wharfinger.page.alerts.rules import counted
from wharfinger.page.follow.exposition import read
from wharfinger.page.follow.scraping import ScrapedProcess, Scraper
from wharfinger.page.options import ScrapeOptions
from wharfinger.placement.contracts import placement_keys
from wharfinger.placement.contracts.placement_records import HubRecord
from wharfinger.placement.page.hub_alerts import HUB_METRICS, HubAlerts
from wharfinger.placement.page.hubs import HubPresence
from wharfinger.settings import EtcdSettings
from wharfinger.testing import MemoryStore

HUB = """
wharfinger_ready 1
wharfinger_placements{state="fulfilled"} 7
wharfinger_placements{state="unfulfilled"} 0
wharfinger_placements_unsettled 0
wharfinger_works{want="present"} 21
wharfinger_results{state="failed"} 0
wharfinger_member_clusters{online="true"} 3
"""
SICK = """
wharfinger_ready 0
wharfinger_placements{state="unfulfilled"} 2
wharfinger_placements_unsettled 1
wharfinger_works{want="present"} 20
wharfinger_works{want="absent"} 1
wharfinger_results{state="failed"} 3
wharfinger_member_clusters{online="false"} 1
"""
ETCD = """
etcd_mvcc_db_total_size_in_use_in_bytes 1.5e9
etcd_server_quota_backend_bytes 2e9
etcd_server_has_leader 1
"""


class Watch:
    """The alerts of a page, with hubs and etcd of a test's."""

    def __init__(self, page: Page, store: MemoryStore, etcd: EtcdHealth | None = None) -> None:
        self.clock = Clock(1000.0)
        self.page = page
        self.hubs = HubPresence(store)
        self.scraper = Scraper(ScrapeOptions(), self.hubs.addresses, self.clock, names=HUB_METRICS)
        self.etcd = etcd or EtcdHealth(None, (), self.clock)
        page.parts.following.clock = self.clock
        self.alerts = Alerts(self.clock, [HubAlerts(self.hubs, self.scraper), EtcdAlerts(self.etcd)])

    def states(self) -> dict[str, str]:
        return {one.name: one.state for one in self.alerts.all()}

    def alert(self, name: str) -> Alert:
        return next(one for one in self.alerts.all() if one.name == name)

    async def read(self, session: aiohttp.ClientSession, after: float = 0.0) -> None:
        self.clock.now += after
        await self.hubs.look()
        await self.scraper.read_all(session)


@pytest.fixture
async def session() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as found:
        yield found


async def registered(store: MemoryStore, url: str, name: str = "hub-1") -> None:
    await store.put(placement_keys.hub(name), HubRecord(health=url, host="h").to_bytes())


async def test_hubs_are_found_in_etcd_and_their_alerts_evaluated(page: Page, session: aiohttp.ClientSession) -> None:
    store = MemoryStore()
    watch = Watch(page, store)
    hub_alerts = [rule.name for rule in HubAlerts.rules]
    assert {watch.states()[name] for name in hub_alerts} == {UNKNOWN}
    await watch.hubs.look()
    assert {watch.states()[name] for name in hub_alerts} == {UNUSED}

    async with MetricsProcess(HUB).serving() as hub:
        await registered(store, hub.url)
        await watch.read(session)
        await watch.read(session, after=5.0)
        states = watch.states()
        assert states["HubNotReady"] == states["PlacementsUnfulfilled"] == states["MembersAway"] == QUIET
        assert states["RolloutStarts"] == states["SlowDecisions"] == LEFT

        hub.body = SICK
        await watch.read(session, after=5.0)
        states = watch.states()
        assert states["HubNotReady"] == states["PlacementsUnfulfilled"] == states["ResultsFailed"] == QUIET, (
            "not for long enough"
        )
        await watch.read(session, after=310.0)
        assert watch.states()["HubNotReady"] == FIRING
        assert watch.states()["ResultsFailed"] == watch.states()["MembersAway"] == FIRING
        assert watch.states()["PlacementsUnfulfilled"] == QUIET
        await watch.read(session, after=310.0)
        assert watch.states()["PlacementsUnfulfilled"] == watch.states()["PlacementsUnsettled"] == FIRING
        assert watch.states()["RemovalsStuck"] == QUIET
        assert watch.alert("PlacementsUnfulfilled").value == "2 placements"
        await watch.read(session, after=3000.0)
        assert watch.alert("RemovalsStuck").state == FIRING


async def test_a_hub_that_cannot_be_read_is_unknown_and_says_why(page: Page, session: aiohttp.ClientSession) -> None:
    store = MemoryStore()
    watch = Watch(page, store)
    async with MetricsProcess(HUB, status=401).serving() as hub:
        await registered(store, hub.url)
        await registered(store, "", "hub-2")
        await watch.read(session)

        alert = watch.alert("PlacementsUnfulfilled")
        assert alert.state == UNKNOWN
        assert alert.value.startswith(f"{hub.url} needs a credential (status 401)")
        assert watch.alerts.sources()["hubs"]["known"] == 1
        assert watch.alerts.sources()["hubs"]["problems"][0]["address"] == hub.url
        await store.delete(placement_keys.hub("hub-1"))
        await watch.read(session)
        assert watch.alert("HubNotReady").value == "no hub is registered with an address of its metrics"


async def test_what_etcd_says_of_hubs_and_members_counts_without_metrics(page: Page) -> None:
    scene = HubScene()
    await scene.member("a")
    await scene.member("b", online=False)
    watch = Watch(page, scene.store)
    await watch.hubs.look()
    assert watch.alert("MembersAway").value == "1 member, by their leases in etcd"
    assert watch.alert("MembersAway").state == QUIET
    watch.clock.now += 301.0
    assert watch.alert("MembersAway").state == FIRING
    assert "NoHub" in watch.states()

    await scene.store.put(placement_keys.CLUSTER_PLACEMENTS + "web", b"{}")
    await watch.hubs.look()
    watch.states()
    watch.clock.now += 16.0
    assert watch.alert("NoHub").state == FIRING, "placements, and no hub"
    await registered(scene.store, "")
    await watch.hubs.look()
    assert watch.alert("NoHub").state == QUIET


async def test_etcd_is_read_for_its_size_leader_disk_and_alarms(page: Page, session: aiohttp.ClientSession) -> None:
    clock = Clock(1000.0)
    async with MetricsProcess(ETCD).serving() as etcd:
        health = EtcdHealth(EtcdSettings(endpoints=(etcd.url,)), (), clock)
        watch = Watch(page, MemoryStore(), health)
        assert watch.alert("EtcdFull").state == watch.alert("EtcdUnhealthy").state == UNKNOWN
        await health.read_all(session)
        assert watch.alert("EtcdFull").state == FIRING
        assert watch.alert("EtcdFull").value == "0.75 of the quota"
        assert watch.alert("EtcdWithoutLeader").state == watch.alert("EtcdUnhealthy").state == QUIET

        clock.now += 5.0
        without = ETCD.replace("leader 1", "leader 0").replace("1.5e9", "1e9")
        etcd.body, etcd.health = without, '{"health":"false","reason":"ALARM NOSPACE"}'
        await health.read_all(session)
        assert watch.alert("EtcdFull").state == QUIET
        assert watch.alert("EtcdWithoutLeader").value == "1 server without a leader"
        alarm = watch.alert("EtcdUnhealthy")
        assert (alarm.state, alarm.value) == (FIRING, f"{etcd.url}: ALARM NOSPACE")
        assert health.told()["unhealthy"] == [{"address": etcd.url, "says": "ALARM NOSPACE"}]
        assert etcd.credentials == [None, None], "the page's credential is not etcd's"

        etcd.status, etcd.health = 404, "not etcd"
        await health.read_all(session)
        assert watch.alert("EtcdFull").value == f"{etcd.url} answered with status 404"
        assert watch.alert("EtcdUnhealthy").state == UNKNOWN


async def test_without_an_address_etcd_is_unknown(page: Page) -> None:
    alerts = {one.name: one for one in page.parts.alerts.all()}

    for name in ("EtcdFull", "EtcdWithoutLeader", "EtcdUnhealthy"):
        assert alerts[name].state == UNKNOWN
        assert "--etcd-metrics-url" in alerts[name].value


def test_addresses_of_etcd_may_be_named() -> None:
    settings = EtcdSettings(endpoints=("http://a:2379",))
    assert EtcdHealth(settings, (), Clock()).addresses == ("http://a:2379",)
    assert EtcdHealth(settings, ("http://a:2381",), Clock()).addresses == ("http://a:2381",)


async def test_alerts_have_their_sources_over_http(client: aiohttp.ClientSession) -> None:
    async with client.get("/api/v1/alerts") as answer:
        found: Any = await answer.json()

    assert found["sources"]["hubs"] == {"known": 0, "read": 0, "problems": []}
    assert found["sources"]["etcd"] == {"known": 0, "read": 0, "problems": [], "unhealthy": []}
    assert "register no address" in found["sources"]["agents"]
    by_name = {one["name"]: one for one in found["alerts"]}
    assert by_name["PlacementsUnfulfilled"]["state"] == UNUSED
    assert by_name["CopiesOld"]["value"] == "no Kubernetes API is the store here"
    assert by_name["Backlog"]["expression"] == 'scheduler_pending_pods{queue="active"} > 1000 for 5m'


def test_a_restart_begins_at_zero_and_a_minute_counts() -> None:
    process = ScrapedProcess()
    assert process.growth("c_total") is None
    for at, value in ((0, 1000), (100, 10), (105, 15), (110, 3), (115, 4)):
        process.add(read(f"c_total {value}\n", float(at), ("c_total",)))

    assert process.growth("c_total") == (9.0, 15.0)
    assert process.growth("d_total") is None


def test_labels_may_be_patterns_and_what_is_declared_is_zero() -> None:
    scrape = read('# TYPE c_total counter\ng{s="a",t="1"} 1\ng{s="ab"} 2\ng{s="b"} 4\n', 0.0, ("c_total", "g"))

    assert scrape.total("g", s=re.compile("a|b")) == 5
    assert scrape.total("g", s="ab") == 2
    assert (scrape.total("g", s="z"), scrape.total("c_total"), scrape.total("h")) == (0.0, 0.0, None)
    assert scrape.largest("g") == 4


@pytest.mark.servers
async def test_a_real_etcd_is_read(etcd_server: EtcdServer, session: aiohttp.ClientSession) -> None:
    clock = Clock(1000.0)
    health = EtcdHealth(EtcdSettings(endpoints=(etcd_server.url,)), (), clock)
    await health.read_all(session)
    clock.now += 5.0
    await health.read_all(session)

    assert health.told() == {"known": 1, "read": 1, "problems": [], "unhealthy": []}
    [process_] = health.scraper.workers.values()
    for rule in EtcdAlerts.rules:
        assert rule.value([process_]) is not None, rule.name


@pytest.mark.parametrize(
    ("value", "unit", "shown"),
    [
        (0, " members", "0 members"), (1, " members", "1 member"), (2, " members", "2 members"),
        (1, " servers without a leader", "1 server without a leader"), (1, " s", "1 s"), (1, " ms", "1 ms"),
        (1.1e-05, " of the quota", "less than 0.001 of the quota"), (0.75, " of the quota", "0.75 of the quota"),
        (0.0318, " s", "0.0318 s"), (999.7, " pods", "1,000 pods"), (12345, " pods", "12,345 pods"), (3, "", "3"),
    ],
)  # fmt: skip
def test_figures_are_written_as_people_read_them(value: float, unit: str, shown: str) -> None:
    assert counted(value, unit) == shown
