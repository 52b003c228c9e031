"""In Chromium: a run that is steered from its view, a pod that is gone, a gang's domains, and the alerts."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from tests.page import browser
from tests.page.cluster import BEGAN, MemoryCluster, RecordedAttempts, served
from tests.page.test_browser import PHONE, WIDE, Tab, chromium, let_in, serious
from tests.placement.run_scene import APPROVAL, RUN, RunScene, run_object, stage
from tests.scheduling.page.test_gang_verdicts import TOPOLOGY
from tests.scheduling.page.test_leaving import HIGH, LOW, WHEN, attempt
from wharfinger.etcd import keys
from wharfinger.objects.documents.edit import evict_pod
from wharfinger.objects.documents.pods import GROUP_LABEL, MIN_AVAILABLE_LABEL
from wharfinger.objects.model.pod import PodKey
from wharfinger.page.options import PageOptions
from wharfinger.scheduling.effects.refusing.eviction import PREEMPTED
from wharfinger.scheduling.page.view import SchedulingView

__all__ = ["chromium"]

pytestmark = [
    pytest.mark.skipif(not browser.there(), reason=browser.MISSING),
    pytest.mark.long,
    pytest.mark.timeout(300),
]
VIEWS = {
    f"/runs/{RUN}": "text=Waits for",
    "/placements": "text=Update runs",
    "/placements/cluster%2Fweb": "text=What would happen next",
    "/alerts": "text=evaluated by Prometheus",
    "/gangs/default/mpi": "text=room for",
    f"/pods/{LOW}": "text=It left for",
    f"/pods/{HIGH}": "text=Who left for it",
    "/pods/default/mpi-0?tab=what-if": "text=Weights",
}


async def hub() -> tuple[RunScene, int]:
    """A run that waits for an approval, a gang that fits nowhere, and a pod that was evicted; its last revision."""
    scene = RunScene()
    await scene.arrange(stage("canary", {"name": "b"}, beforeStageTasks=[APPROVAL]), unmatched="Last")
    await scene.put(run_object())
    await scene.settle()
    cluster = MemoryCluster(store=scene.store)
    await cluster.profile()
    for name, zone in (("n1", "a"), ("n2", "b")):
        await cluster.node(name, "4", labels={"zone": zone})
    labels = {GROUP_LABEL: "mpi", MIN_AVAILABLE_LABEL: "2"}
    for number in range(2):
        await cluster.pod(f"mpi-{number}", "3", labels=labels, metadata={"annotations": {TOPOLOGY: "zone"}})
        await cluster.refusal("default", f"mpi-{number}", ("NodeResourcesFit",), "gang needs 2 members, 1 fit.")
    await cluster.pod("low", "1", nodeName="n2")
    await cluster.pod("high", "1", nodeName="n2", priority=1000)
    kv = (await scene.store.get(keys.pod(*LOW))).kv
    assert kv is not None
    message = PREEMPTED.format(scheduler="default-scheduler", pod=HIGH)
    await scene.store.put(keys.pod(*LOW), evict_pod(kv.value, message=message, now=WHEN))
    await scene.store.delete(keys.pod(*LOW))
    return scene, kv.mod_revision


def record(attempts: Any, revision: int) -> None:
    """What Temporal has of the victim and of its preemptor."""
    assert isinstance(attempts, RecordedAttempts)
    ended = BEGAN + timedelta(seconds=2)
    bound = attempt(LOW, 1, outcome="bound", node="n2", ended=ended, placement={"pod_revision": revision})
    victims = [{"pod": str(LOW), "create_revision": 1, "uid": ""}]
    chose = attempt(
        HIGH, 1, outcome="refused", ended=ended, placement={"nominated_node": "n2", "victims": victims}
    )  # fmt: skip
    attempts.record(LOW, None, [bound])  # type: ignore[arg-type]
    attempts.record(HIGH, None, [chose, attempt(HIGH, 2, outcome="bound", node="n2", ended=ended)])  # type: ignore[arg-type]


async def test_views_are_quiet_and_accessible_light_and_dark(chromium: Any) -> None:
    scene, revision = await hub()
    async with served(MemoryCluster(store=scene.store)) as page:
        record(page.parts.view(SchedulingView).attempts, revision)
        member = page.parts.following.cache.pods[PodKey("default", "mpi-0")]
        page.parts.view(SchedulingView).attempts.record(member.key, member, [])  # type: ignore[attr-defined]
        found: list[str] = []
        for size, scheme in ((WIDE, "light"), (WIDE, "dark"), (PHONE, "light"), (PHONE, "dark")):
            async with let_in(page, chromium, size, scheme) as tab:
                for address, until in VIEWS.items():
                    await tab.open(address, until)
                    found += [f"{address} {scheme}: {one}" for one in await serious(tab)]
                    width = await tab.tab.evaluate("document.documentElement.scrollWidth")
                    found += [f"{address} is {width} wide"] if width > size["width"] else []
                found += tab.wrong
        assert found == []


async def test_a_stage_is_approved_from_the_view_of_its_run(chromium: Any) -> None:
    scene, _ = await hub()
    options = PageOptions(0, allow_actions=True)
    async with served(MemoryCluster(store=scene.store), options) as page, let_in(page, chromium) as tab:
        await tab.open("/placements/cluster%2Fweb", "text=0 of 3 delivered")
        await tab.open("/placements", "text=Update runs")
        await tab.tab.click(f"a:has-text('{RUN}')")
        await tab.tab.click("button:has-text('Approve canary.before')")
        assert await tab.text("dialog .effect") == "Stage canary starts and updates b."
        await confirmed(tab, "all is well")
        await tab.tab.wait_for_selector("text=stage canary of release is approved (before)")
        await scene.settle()
        await tab.tab.wait_for_selector("text=canary.before was approved by one-time link")
        await tab.tab.wait_for_selector("text=cluster b, which is not available yet")
        assert tab.tab.url.endswith(f"/runs/{RUN}")
        assert tab.wrong == []


async def confirmed(tab: Tab, reason: str) -> None:
    """Fill in the dialog that is open, and send it."""
    await tab.tab.fill("dialog label:has-text('Reason') input", reason)
    await tab.tab.fill(f"dialog label:has-text('Write {RUN}') input", RUN)
    await tab.tab.click("dialog button.primary")


async def test_a_run_is_stopped_resumed_and_retried_from_its_view(chromium: Any) -> None:
    scene = RunScene()
    await scene.arrange(stage("prod", maxConcurrency=2), unmatched="Last")
    await scene.put(run_object())
    await scene.settle()
    options = PageOptions(0, allow_actions=True)
    async with served(MemoryCluster(store=scene.store), options) as page:
        for size, scheme in ((PHONE, "dark"), (WIDE, "light")):
            async with let_in(page, chromium, size, scheme) as tab:
                await tab.open(f"/runs/{RUN}", "button:has-text('Stop the run')")
                await tab.tab.click("button:has-text('Stop the run')")
                assert "What was started finishes: a, b." in await tab.text("dialog .effect")
                assert await serious(tab) == []
                assert await tab.tab.evaluate("document.documentElement.scrollWidth") <= size["width"]
                here = await tab.tab.locator("nav a[aria-current=page]").bounding_box()
                assert 0 <= here["x"] <= size["width"] - here["width"], "the bar of views shows where one is"
                await tab.tab.fill(f"dialog label:has-text('Write {RUN}') input", "another name")
                await tab.tab.fill("dialog label:has-text('Reason') input", "look first")
                await tab.tab.click("dialog button.primary")
                await tab.tab.wait_for_selector("dialog >> text=repeat the name")
                await confirmed(tab, "look first")
                await tab.tab.wait_for_selector(f"text=update run {RUN} is stopped")
                await tab.tab.wait_for_selector("text=one-time link · look first")
                await tab.tab.click("button:has-text('Resume the run')")
                await confirmed(tab, "seen")
                await tab.tab.wait_for_selector(f"text=update run {RUN} goes on")
                await tab.tab.wait_for_selector("button:has-text('Stop the run')")
                assert await serious(tab) == []
                assert [one for one in tab.wrong if "400" not in one] == [], "all but the wrong name"
        await scene.answer(available=False, failed=True, reason="no such kind")
        await scene.settle()
        async with let_in(page, chromium) as tab:
            await tab.open(f"/runs/{RUN}", "button:has-text('Retry the run')")
            await tab.tab.click("button:has-text('Retry the run')")
            assert await tab.text("dialog .effect") == "By the same plan, these are updated again: a, b."
            await confirmed(tab, "it is fixed")
            await tab.tab.wait_for_selector(f"text=update run {RUN} tries again (retry 1)")
            await tab.tab.wait_for_selector("button:has-text('Retry the run')", state="detached")
            assert tab.wrong == []


async def test_a_page_without_actions_offers_no_button_of_a_run(chromium: Any) -> None:
    scene, _ = await hub()
    async with served(MemoryCluster(store=scene.store)) as page, let_in(page, chromium) as tab:
        await tab.open(f"/runs/{RUN}", "text=Waits for")
        await tab.tab.wait_for_load_state("networkidle")
        assert await tab.tab.locator("#view button").count() == 0
        assert tab.wrong == []


async def test_victims_and_preemptors_link_to_each_other(chromium: Any) -> None:
    scene, revision = await hub()
    async with served(MemoryCluster(store=scene.store)) as page, let_in(page, chromium) as tab:
        record(page.parts.view(SchedulingView).attempts, revision)
        await tab.open(f"/pods/{LOW}", "text=It left for")
        assert "by attempt 1" in await tab.text()
        await tab.tab.click(f"section:has-text('It was evicted') a:has-text('{HIGH}')")
        await tab.tab.wait_for_selector("text=Who left for it")
        await tab.tab.click(f"section:has-text('Who left for it') a:has-text('{LOW}')")
        await tab.tab.wait_for_selector("text=It left for")
        assert tab.wrong == []
