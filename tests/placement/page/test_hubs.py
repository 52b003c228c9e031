"""How often the page reads all that a hub sees."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from wharfinger.errors import Unavailable
from wharfinger.placement.page import hubs
from wharfinger.placement.page.hubs import HubReading
from wharfinger.placement.state.hub_view import HubView


class Hub:
    """Reads that take as long as the test says, and what time it is."""

    def __init__(self) -> None:
        self.now = 100.0
        self.takes = 0.0
        self.reads = 0
        self.away = False

    async def read_all(self, _store: Any) -> HubView:
        self.reads += 1
        await asyncio.sleep(0)
        self.now += self.takes
        if self.away:
            raise Unavailable("etcd has not answered for 3 s")
        return cast("HubView", object())


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Hub:
    hub = Hub()
    monkeypatch.setattr(hubs, "read_all", hub.read_all)
    return hub


@pytest.fixture
def reading(hub: Hub) -> HubReading:
    return HubReading(cast("Any", None), lambda: hub.now)


async def test_all_who_ask_at_once_get_one_reading(hub: Hub, reading: HubReading) -> None:
    found = await asyncio.gather(*(reading.view() for _ in range(100)))

    assert hub.reads == 1
    assert all(one is found[0] for one in found)


async def test_a_view_is_given_again_for_two_seconds_unless_something_changes(hub: Hub, reading: HubReading) -> None:
    first = await reading.view()
    hub.now += 1.9
    assert await reading.view() is first

    reading.expire()
    second = await reading.view()
    hub.now += 2.0
    third = await reading.view()

    assert len({id(one.view) for one in (first, second, third)}) == 3


async def test_a_hub_that_takes_long_to_read_is_read_less_often(hub: Hub, reading: HubReading) -> None:
    hub.takes = 3.0
    first = await reading.view()
    reading.expire()

    hub.now += 11.9
    assert await reading.view() is first
    hub.now += 0.2
    assert await reading.view() is not first


async def test_all_who_wait_for_a_reading_that_fails_get_its_error(hub: Hub, reading: HubReading) -> None:
    """One after the other they would each wait for etcd, and the last of many for minutes."""
    first = await reading.view()
    reading.expire()
    hub.away = True

    found = await asyncio.gather(*(reading.view() for _ in range(100)), return_exceptions=True)

    assert hub.reads == 2
    assert {type(one) for one in found} == {Unavailable}
    assert reading.last is first
    hub.now += 7.0
    assert reading.age(first) == 7

    hub.away = False
    assert await reading.view() is not first


async def test_who_gives_up_ends_the_reading_for_nobody_else(hub: Hub, reading: HubReading) -> None:
    impatient, patient = asyncio.create_task(reading.view()), asyncio.create_task(reading.view())
    await asyncio.sleep(0)
    impatient.cancel()

    assert await patient is reading.last
    assert hub.reads == 1
