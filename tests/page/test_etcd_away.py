"""While etcd is silent, views answer at once: with what was seen last, or with an error that says so."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.event_loop import watched_loop
from tests.page.cluster import MemoryCluster, Page, served
from tests.page.small_cluster import TOKEN
from tests.patience import patient
from wharfinger.errors import Unavailable
from wharfinger.fleet.page.view import FleetsView
from wharfinger.page.options import PageOptions
from wharfinger.placement.page.view import PlacementView
from wharfinger.scheduling.page.following import PromptStore
from wharfinger.scheduling.page.view import SchedulingView
from wharfinger.testing import MemoryStore

BIG = "/api/v1/pods/default/big"


@contextmanager
def silent(page: Page, *, known: bool = True) -> Iterator[None]:
    """etcd answers nothing more. `known`: the page has noticed."""
    store: Any = page.parts.following.patient
    arrive = store._arrive

    async def for_ever(**_: Any) -> None:
        await asyncio.Event().wait()

    store._arrive = for_ever
    if known:
        page.parts.following._answered = page.parts.following.clock() - 10
    try:
        yield
    finally:
        store._arrive = arrive


@pytest.fixture
async def fleet_page(token_file: Path) -> AsyncIterator[Page]:
    cluster = MemoryCluster()
    await cluster.fleet()
    await cluster.node("n1")
    await cluster.pod("big", "16")
    await cluster.profile()
    options = PageOptions(0, static_token_file=token_file, allow_actions=True)
    async with served(cluster, options) as page:
        yield page


async def asked(page: Page, path: str, body: dict[str, str] | None = None) -> tuple[int, Any, float]:
    """Status, JSON, and the seconds that the page waited, however busy the machine is."""
    headers = {"Authorization": f"Bearer {TOKEN}"}
    began = watched_loop().waited
    async with aiohttp.ClientSession(page.server.url, headers=headers) as client:
        sent = client.get(path) if body is None else client.post(path, json=body)
        async with sent as answer:
            found = await answer.json()
            return answer.status, found, watched_loop().waited - began


async def test_fleets_are_told_as_they_were_seen_last(fleet_page: Page) -> None:
    _, before, _ = await asked(fleet_page, "/api/v1/fleets")
    fleet_page.parts.view(FleetsView).fleets.expire()
    with silent(fleet_page):
        status, found, took = await asked(fleet_page, "/api/v1/fleets")
        _, current, _ = await asked(fleet_page, "/api/v1/status")

    assert (status, before["current"], found["current"]) == (200, True, False)
    assert took < 1
    assert found["asOf"] == before["asOf"]
    assert found["fleets"] == before["fleets"]
    assert current["etcd"]["answers"] is False


@pytest.mark.parametrize(
    "path", ["/api/v1/fleets", "/api/v1/fleets/common/plan", "/api/v1/update-runs/r", f"{BIG}/weights"]
)
async def test_what_was_never_seen_fails_within_a_second(fleet_page: Page, path: str) -> None:
    with silent(fleet_page):
        status, found, took = await asked(fleet_page, path)

    assert (status, found["error"], found["code"]) == (503, "EtcdUnavailable", 503)
    assert "etcd has not answered for 1" in found["message"]
    assert took < 1


async def test_an_action_fails_at_once(fleet_page: Page) -> None:
    with silent(fleet_page):
        path = "/api/v1/fleets/common/actions/pause"
        status, found, took = await asked(fleet_page, path, {"reason": "r", "confirm": "common"})

    assert (status, found["error"]) == (503, "EtcdUnavailable")
    assert took < 1


async def test_a_question_under_way_is_given_up(fleet_page: Page) -> None:
    with silent(fleet_page, known=False):
        asking = asyncio.create_task(asked(fleet_page, "/api/v1/fleets"))
        done, _ = await asyncio.wait({asking}, timeout=0.3)
        assert not done, "nobody knows yet that etcd is silent"
        fleet_page.parts.following._answered = fleet_page.parts.following.clock() - 10
        began = watched_loop().waited
        status, _, _ = await asyncio.wait_for(asking, patient(20))

    assert status == 503
    assert watched_loop().waited - began < 1


async def test_it_recovers_by_itself(fleet_page: Page) -> None:
    with silent(fleet_page):
        assert (await asked(fleet_page, "/api/v1/fleets"))[0] == 503
    fleet_page.parts.following._answered = fleet_page.parts.following.clock()

    assert (await asked(fleet_page, "/api/v1/fleets"))[0] == 200


async def test_the_profiles_known_before_are_kept(fleet_page: Page) -> None:
    """Never the built-in ones in silence: workers may decide by others."""
    questions = fleet_page.parts.view(SchedulingView).questions
    _, before, _ = await asked(fleet_page, f"{BIG}/weights")
    with silent(fleet_page):
        assert questions._stored is not None
        questions._stored = float("-inf"), questions._stored[1]
        status, found, took = await asked(fleet_page, f"{BIG}/weights")

    assert status == 200
    assert took < 1
    assert found == before
    assert found["digest"] is not None


async def test_a_prompt_store_hands_everything_on() -> None:
    unanswered = [0.0]
    store = PromptStore(MemoryStore(), lambda: unanswered[0])
    revision = await store.put("/a", b"1")
    assert (await store.get("/a", revision=revision)).kv is not None
    assert [kv.key async for page in store.list("/") for kv in page.items] == ["/a"]
    assert await store.delete("/a")

    unanswered[0] = 5.0
    for call in (store.get("/a"), store.put("/a", b""), store.delete("/a"), store.txn([], [])):
        with pytest.raises(Unavailable, match="for 5 s") as raised:
            await call
        assert not raised.value.maybe_applied
    with pytest.raises(Unavailable):
        [page async for page in store.list("/")]


async def test_an_event_loop_that_was_held_up_is_no_silence() -> None:
    """etcd's answer is there, and was not looked at yet."""
    unanswered = [5.0]
    store = PromptStore(MemoryStore(), lambda: unanswered[0])
    asking = asyncio.create_task(store.put("/a", b"1"))
    await asyncio.sleep(0)
    unanswered[0] = 0.0
    assert await asking > 0


async def test_placements_are_told_as_they_were_seen_last(fleet_page: Page) -> None:
    _, before, _ = await asked(fleet_page, "/api/v1/placements")
    fleet_page.parts.view(PlacementView).hub_reading.expire()
    fleet_page.parts.view(PlacementView).hub_reading.took = 0.0
    with silent(fleet_page):
        status, found, took = await asked(fleet_page, "/api/v1/placements")

    assert (status, before["current"], found["current"]) == (200, True, False)
    assert took < 1
    assert found["members"] == before["members"]
