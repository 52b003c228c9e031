"""Pods that no plugin refused: what would help them is what holds them back, and nothing is decided for them."""

from __future__ import annotations

from typing import Any

import aiohttp
import pytest

from tests.page.cluster import Page, in_step
from wharfinger.etcd import keys
from wharfinger.objects.documents.pods import GROUP_LABEL, MIN_AVAILABLE_LABEL
from wharfinger.objects.model.conditions import SCHEDULING_GATED
from wharfinger.process.records import HoldRecord
from wharfinger.scheduling.page.pending import held_by
from wharfinger.scheduling.page.reasons import ReasonKey
from wharfinger.scheduling.page.view import SchedulingView


@pytest.fixture
async def waiting(page: Page) -> Page:
    """One pod for each reason; each of them would fit."""
    labels = {GROUP_LABEL: "ring", MIN_AVAILABLE_LABEL: "3"}
    await page.cluster.pod("ring-0", "1", labels=labels)
    await page.cluster.pod("ring-1", "1", labels=labels)
    await page.cluster.pod("fresh", "1")
    await page.cluster.pod("called", "1")
    kv = (await page.cluster.store.get(keys.pod("default", "called"))).kv
    assert kv is not None
    record = HoldRecord(node="n1", create_revision=kv.create_revision, attempt="w@r", calls=("PreBind/Licences",))
    await page.cluster.put(keys.hold("default", "called"), record.to_bytes())
    await in_step(page.parts, page.cluster.store.revision)
    return page


@pytest.mark.parametrize(
    ("slug", "held", "event"),
    [
        ("SchedulingGated", "its scheduling gates have to go: example.com/quota", "its scheduling gates go"),
        ("GangIncomplete", "gang ring: 2 of 3 members exist", "more members of its gang are created"),
        (
            "NotServed~nobody",
            "no live worker of pool common serves its scheduler name nobody",
            "a worker that serves its scheduler name is ready",
        ),
        ("CallingPlugins~Licences", "its room is held for PreBind of Licences on n1", ""),
        ("NotTried", "no attempt for it has ended yet, so no plugin has refused it", ""),
    ],
)
async def test_what_would_help_is_what_holds_them(
    waiting: Page, client: aiohttp.ClientSession, slug: str, held: str, event: str
) -> None:
    async with client.get(f"/api/v1/pending/{slug}/help") as answer:
        assert answer.status == 200, await answer.text()
        told = await answer.json()

    assert (told["held"], told["fitsNow"], told["oneMoreNode"], told["nearest"]) == (held, None, [], [])
    assert [one["event"] for one in told["events"]] == ([event] if event else [])


async def test_pods_that_plugins_refused_are_decided(waiting: Page, client: aiohttp.ClientSession) -> None:
    async with client.get("/api/v1/pending/Unschedulable~NodeResourcesFit/help") as answer:
        told = await answer.json()
    assert (told["held"], told["pod"], len(told["nearest"])) == (None, "default/big", 3)


async def test_a_node_does_not_say_that_held_pods_fit(waiting: Page, client: aiohttp.ClientSession) -> None:
    async with client.get("/api/v1/nodes/n3/refusals") as answer:
        found = {one["pod"]: one for one in (await answer.json())["reasons"]}

    assert found["default/held"]["held"].startswith("its scheduling gates")
    assert found["default/strange"]["held"].startswith("no live worker")
    for name in ("held", "strange", "ring-0", "fresh", "called"):
        assert (found[f"default/{name}"]["fits"], found[f"default/{name}"]["refusedBy"]) == (False, {})
    big = found["default/big"]
    assert (big["held"], list(big["refusedBy"])) == (None, ["NodeResourcesFit"])


async def test_pods_that_were_bound_meanwhile_are_left_out(waiting: Page, client: aiohttp.ClientSession) -> None:
    """The groups are of a moment ago: they are kept for a while."""
    pending, parts = waiting.parts.view(SchedulingView).pending, waiting.parts
    kept: Any = pending.groups()
    waiting.parts.view(SchedulingView).pending.groups = lambda namespace="": kept  # type: ignore[method-assign]
    await waiting.cluster.pod("big", "16", nodeName="n1")
    await in_step(parts, waiting.cluster.store.revision)

    async with client.get("/api/v1/nodes/n3/refusals") as answer:
        assert "default/big" not in {one["pod"] for one in (await answer.json())["reasons"]}
    async with client.get("/api/v1/pending/Unschedulable~NodeResourcesFit/help") as answer:
        assert answer.status == 404


def test_a_missing_class_is_named(page: Page) -> None:
    pod = next(iter(page.parts.following.cache.pods.values()))
    assert held_by(page.parts.following, ReasonKey(SCHEDULING_GATED), pod) == "it was held back a moment ago"
