"""Rates are kept of so many namespaces; one that is gone gives its place to another."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.page.cluster import MemoryCluster, Page, in_step, served
from wharfinger.etcd import keys
from wharfinger.page.follow.rings import SLOT_SECONDS, SLOTS
from wharfinger.scheduling.page.view import SchedulingView


class Clock:
    """Seconds that a test lets pass."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
async def timed() -> AsyncIterator[tuple[Page, Clock]]:
    """A page whose model has a clock of its own, and places for two namespaces."""
    clock = Clock()
    async with served(MemoryCluster()) as page:
        page.parts.following.model.rates.most = 2
        page.parts.following.model._clock = clock
        page.parts.following.clock = clock
        yield page, clock


async def appears(page: Page, namespace: str, name: str = "p") -> None:
    await page.cluster.pod(name, "1", namespace)
    await in_step(page.parts, page.cluster.store.revision)


async def test_a_namespace_that_is_gone_gives_its_place_back(timed: tuple[Page, Clock]) -> None:
    page, clock = timed
    model = page.parts.following.model
    await appears(page, "ci-1")
    await appears(page, "ci-2")
    await appears(page, "ci-3")
    assert sorted(model.rates.by_namespace) == ["ci-1", "ci-2"]
    assert model.rates.note("ci-3") == "rates are kept of 2 namespaces, and there are more"

    await page.cluster.store.delete(keys.pod("ci-1", "p"))
    clock.now += 60
    await appears(page, "ci-3", "q")
    assert sorted(model.rates.by_namespace) == ["ci-1", "ci-2"], "what was counted there is still shown"
    clock.now += SLOTS * SLOT_SECONDS
    await appears(page, "ci-3", "r")
    assert sorted(model.rates.by_namespace) == ["ci-2", "ci-3"], "one that has pods keeps its place"
    told = page.parts.view(SchedulingView).overview.now("ci-3")
    assert told["ratesNote"] is None
    assert page.parts.view(SchedulingView).overview.now("ci-1")["ratesNote"] is not None


async def test_a_namespace_with_room_has_no_note(timed: tuple[Page, Clock]) -> None:
    page, _ = timed
    assert page.parts.view(SchedulingView).overview.now("quiet")["ratesNote"] is None
    assert page.parts.view(SchedulingView).overview.now()["ratesNote"] is None
