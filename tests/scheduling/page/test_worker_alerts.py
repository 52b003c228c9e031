"""Alerts that the page evaluates by what it sees in etcd itself."""

from __future__ import annotations

from typing import Any

import pytest

from tests.page.looking import Looking
from wharfinger.etcd import keys
from wharfinger.objects.documents.pods import GROUP_LABEL, MIN_AVAILABLE_LABEL
from wharfinger.page.alerts.evaluation import FIRING, QUIET, Alert, Alerts
from wharfinger.page.follow.scraping import ScrapeOptions, Scraper
from wharfinger.process.records import HoldRecord
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


async def test_a_pod_that_waits_for_the_scheduler_alone_counts_as_slow(watching: Watching) -> None:
    assert watching.alert("SlowPlacement").state == QUIET
    await watching.cluster.pod("a")
    await watching.step()
    watching.now += 20
    await watching.cluster.pod("a", nodeName="n")
    await watching.step()

    alert = watching.alert("SlowPlacement")

    assert alert.state == FIRING
    assert alert.value.startswith("p99 ")


BEFORE: dict[str, dict[str, Any]] = {
    "refused": {},
    "gated": {"schedulingGates": [{"name": "quota"}]},
    "of a class": {"priorityClassName": "urgent"},
    "in a gang": {"labels": {GROUP_LABEL: "training", MIN_AVAILABLE_LABEL: "2"}},
    "called": {},
}
"""Why a pod waits -> what its manifest has."""


@pytest.mark.parametrize("why", BEFORE)
async def test_a_pod_that_had_to_wait_is_no_slow_placement(watching: Watching, why: str) -> None:
    cluster, after = watching.cluster, {} if why == "gated" else BEFORE[why]
    await cluster.pod("a", **BEFORE[why])
    if why == "refused":
        await cluster.refusal("default", "a", ("NodeResourcesFit",), "no")
    if why == "called":
        revision = (await cluster.store.get(keys.pod("default", "a"))).kv.create_revision
        held = HoldRecord(node="n", create_revision=revision, attempt="w@r", calls=("PreBind/Licences",))
        await cluster.put(keys.hold("default", "a"), held.to_bytes())
    await watching.step()
    watching.now += 3600
    if why == "gated":
        await cluster.pod("a")
        await watching.step()
    if why == "of a class":
        name = {"metadata": {"name": "urgent"}, "value": 5}
        await cluster.put(keys.PRIORITY_CLASSES + "urgent", {"kind": "PriorityClass"} | name)
        await watching.step()
    await cluster.pod("a", nodeName="n", **after)
    await cluster.store.delete(keys.attempt("default", "a"))
    await cluster.store.delete(keys.hold("default", "a"))
    await watching.step()

    assert watching.alert("SlowPlacement").state == QUIET
    assert sum(filter(None, watching.model.rates.whole.bound.series(watching.now))) == 1


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
