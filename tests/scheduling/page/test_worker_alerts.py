"""Alerts that the page evaluates by what it sees in etcd itself."""

from __future__ import annotations

import pytest

from tests.page.looking import Looking
from wharfinger.etcd import keys
from wharfinger.page.alerts.evaluation import FIRING, QUIET, Alert, Alerts
from wharfinger.page.follow.scraping import ScrapeOptions, Scraper
from wharfinger.scheduling.page.pending import PendingPods
from wharfinger.scheduling.page.worker_alerts import WorkerAlerts


class Watching(Looking):
    """A following, and the alerts of its page: no process can be scraped."""

    def __init__(self) -> None:
        super().__init__()
        scraper = Scraper(ScrapeOptions(), dict, lambda: self.now)
        self._alerts = Alerts(lambda: self.now, [WorkerAlerts(self.following, PendingPods(self.following), scraper)])

    def alert(self, name: str) -> Alert:
        return next(one for one in self._alerts.all() if one.name == name)


@pytest.fixture
async def watching() -> Watching:
    found = Watching()
    await found.listed()
    return found


async def test_workers_that_are_not_there_or_not_ready_are_told(watching: Watching) -> None:
    assert watching.alert("NoWorkers").state == FIRING
    await watching.cluster.worker(0)
    await watching.cluster.worker(1, "starting", waiting_for="etcd")
    await watching.step()
    assert (watching.alert("NoWorkers").state, watching.alert("WorkersNotReady").state) == (QUIET, QUIET)
    watching.now += 15

    alert = watching.alert("WorkersNotReady")

    assert (alert.state, alert.value) == (FIRING, "common/1")


async def test_pods_on_nodes_that_do_not_exist_are_told_after_a_while(watching: Watching) -> None:
    await watching.cluster.pod("a", nodeName="nowhere")
    await watching.step()
    assert watching.alert("LostPods").state == QUIET
    watching.now += 600

    alert = watching.alert("LostPods")

    assert (alert.state, alert.value) == (FIRING, "1 pod")


async def test_objects_that_cannot_be_read_are_told(watching: Watching) -> None:
    await watching.cluster.put(keys.pod("default", "broken"), b"{")
    await watching.step()

    assert (watching.alert("InvalidObjects").state, watching.alert("InvalidObjects").value) == (FIRING, "1 object")
