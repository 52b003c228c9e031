"""Actions that mean nothing as things are, those that do, and what is told of them afterwards."""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.fleet.fleet_records import Records, status
from tests.page.cluster import MemoryCluster, Page, served
from tests.page.small_cluster import TOKEN
from wharfinger.etcd import keys
from wharfinger.fleet.page.view import FleetsView
from wharfinger.page.access.guard import BY_LINK
from wharfinger.page.options import PageOptions

FLEET = "/api/v1/fleets"


class Acting:
    """A page with a fleet that is as a test wants it."""

    def __init__(self, page: Page, client: aiohttp.ClientSession) -> None:
        self.page = page
        self._client = client

    async def write(self, records: Records) -> None:
        for key, value in records.values.items():
            await self.page.cluster.store.put(key, value)

    async def ask(self, verb: str, reason: str = "because") -> tuple[int, Any]:
        path = f"{FLEET}/gold/actions/{verb}"
        async with self._client.post(path, json={"reason": reason, "confirm": "gold"}) as answer:
            return answer.status, await answer.json()

    async def fleet(self) -> dict[str, Any]:
        self.page.parts.view(FleetsView).fleets.expire()
        async with self._client.get(FLEET) as answer:
            [found] = (await answer.json())["fleets"]
            told: dict[str, Any] = found
            return told


@pytest.fixture
async def acting(token_file: Path) -> AsyncIterator[Acting]:
    options = PageOptions(0, static_token_file=token_file, allow_actions=True)
    headers = {"Authorization": f"Bearer {TOKEN}"}
    async with (
        served(MemoryCluster(), options) as page,
        aiohttp.ClientSession(page.server.url, headers=headers) as client,
    ):
        yield Acting(page, client)


def resting() -> Records:
    """A fleet without an open rollout, and without another template to go back to."""
    return Records().fleet().status(status(observed_generation=10**9)).actor().revision(2, "completed")


def rolling(**template: Any) -> Records:
    """A fleet whose rollout to template 2 is open."""
    told = status(observed_generation=10**9, generation=50, rollout="running", updated=1)
    records = Records().fleet(template=template).status(told).actor()
    return records.revision(1, "completed", {"restartedAt": "2026-01-01T00:00:00Z"}).revision(2, template=template)


@pytest.mark.parametrize("verb", ["promote", "abort", "resume", "undo"])
async def test_what_means_nothing_now_is_a_conflict(acting: Acting, verb: str) -> None:
    await acting.write(resting())

    code, told = await acting.ask(verb)

    assert (code, told["error"], told["code"]) == (409, "Conflict", 409)
    assert "fleet gold has no" in told["message"]
    assert verb not in (await acting.fleet())["verbs"]


async def test_promoting_without_a_canary_is_a_conflict(acting: Acting) -> None:
    await acting.write(rolling())

    code, told = await acting.ask("promote")

    assert code == 409
    assert told["message"] == "the strategy of fleet gold has no canary: there is nothing to promote"


async def test_a_fleet_says_which_actions_mean_something(acting: Acting) -> None:
    await acting.write(resting())
    assert (await acting.fleet())["verbs"] == ["pause"]
    await acting.write(rolling())
    assert (await acting.fleet())["verbs"] == ["pause", "abort", "undo"]
    for verb in ("pause", "resume", "abort", "undo"):
        assert (await acting.ask(verb))[0] == 200, verb


async def test_who_paused_and_why_is_told(acting: Acting, caplog: pytest.LogCaptureFixture) -> None:
    await acting.write(resting())
    with caplog.at_level(logging.INFO, "wharfinger.page.web.forms"):
        assert (await acting.ask("pause", "the disk is full"))[0] == 200
    paused = await acting.fleet()
    assert (await acting.ask("resume", "it was mended"))[0] == 200
    resumed = await acting.fleet()

    assert (paused["paused"], paused["lastChange"]["who"], paused["lastChange"]["why"]) == (
        True, "alice", "the disk is full",
    )  # fmt: skip
    changes = [(one["what"], one["who"], one["why"]) for one in resumed["changes"]]
    assert changes[:2] == [("resumed", "alice", "it was mended"), ("paused", "alice", "the disk is full")]
    assert changes[2][0] == "written"
    assert resumed["paused"] is False
    assert "action=pause fleet=gold who='alice' why='the disk is full'" in caplog.text


async def test_changes_before_compaction_are_no_error(acting: Acting) -> None:
    await acting.write(resting())
    await acting.ask("pause")
    acting.page.cluster.store.compact(acting.page.cluster.store.revision)

    assert [one["what"] for one in (await acting.fleet())["changes"]] == ["written"]


async def test_nobody_is_taken_for_one_who_came_by_a_link(token_file: Path) -> None:
    token_file.write_text(f"{TOKEN},{BY_LINK},1\n")
    options = PageOptions(0, static_token_file=token_file)
    headers = {"Authorization": f"Bearer {TOKEN}"}
    async with (
        served(MemoryCluster(), options) as page,
        aiohttp.ClientSession(page.server.url, headers=headers) as client,
        client.get("/api/v1/session") as answer,
    ):
        assert (await answer.json())["viewer"] == f"token:{BY_LINK}"


async def test_the_object_has_the_reason(acting: Acting) -> None:
    await acting.write(resting())
    await acting.ask("pause", "look first")

    kv = (await acting.page.cluster.store.get(keys.fleet("gold"))).kv
    assert kv is not None
    assert "look first" in json.dumps(json.loads(kv.value)["metadata"]["annotations"])
