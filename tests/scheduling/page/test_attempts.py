"""What is recorded of pods: those that never were, and decisions that several viewers open at once."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime
from typing import Any

import aiohttp
import pytest
from temporalio.client import Client

from tests.event_loop import watched_loop
from tests.page.cluster import Page, RecordedAttempts, attempt_of
from tests.patience import patient
from wharfinger.errors import ServerError
from wharfinger.framework.profiles import load_profiles
from wharfinger.objects.model.pod import PodKey
from wharfinger.page.follow.reaching import TemporalReach
from wharfinger.scheduling.page.attempts import PodAttempts
from wharfinger.scheduling.page.view import SchedulingView

BIG = PodKey("default", "big")
PATH = f"/api/v1/pods/{BIG.namespace}/{BIG.name}"


async def recorded(page: Page) -> RecordedAttempts:
    """Have two attempts recorded of a pod."""
    found = page.parts.view(SchedulingView).attempts
    assert isinstance(found, RecordedAttempts)
    digest = await page.cluster.profile()
    cache = page.parts.following.cache
    pod = cache.pods[BIG]
    evaluation = load_profiles()["default-scheduler"].evaluate(pod, cache.snapshot())
    found.record(BIG, pod, [attempt_of(evaluation, pod, number, datetime.now(UTC), digest=digest) for number in (1, 2)])
    return found


class CountedDecisions:
    """Lets each decision begin, and end when a test says so."""

    def __init__(self, attempts: RecordedAttempts, monkeypatch: pytest.MonkeyPatch) -> None:
        self.begun = 0
        self.under_way = 0
        self.most = 0
        self.go = asyncio.Event()
        again = attempts._again

        async def counted(*parts: Any) -> Any:
            self.begun += 1
            self.under_way += 1
            self.most = max(self.most, self.under_way)
            try:
                await self.go.wait()
                return await again(*parts)
            finally:
                self.under_way -= 1

        monkeypatch.setattr(attempts, "_again", counted)

    async def until(self, begun: int) -> None:
        while self.begun < begun:
            await asyncio.sleep(0.005)


async def test_a_pod_that_never_was_is_not_found(client: aiohttp.ClientSession) -> None:
    async with client.get("/api/v1/pods/default/nothere/attempts") as answer:
        assert answer.status == 404
        told = await answer.json()
    assert told["message"] == "there is no pod default/nothere, and Temporal keeps no attempt of one"


async def test_a_pod_that_was_has_its_attempts(page: Page, client: aiohttp.ClientSession) -> None:
    attempts = await recorded(page)
    attempts._recorded[PodKey("default", "was")] = (None, attempts._recorded[BIG][1])
    async with client.get("/api/v1/pods/default/was/attempts") as answer:
        told = await answer.json()
    assert (answer.status, told["state"], len(told["attempts"])) == (200, "deleted", 2)


async def test_one_decision_is_made_once_for_all_viewers(
    page: Page, client: aiohttp.ClientSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted = CountedDecisions(await recorded(page), monkeypatch)

    async def ask() -> Any:
        async with client.get(f"{PATH}/decision", params={"attempt": "1"}) as answer:
            assert answer.status == 200, await answer.text()
            return await answer.json()

    asking = [asyncio.create_task(ask()) for _ in range(5)]
    await counted.until(1)
    asking[0].cancel()
    counted.go.set()
    found = await asyncio.gather(*asking[1:])

    assert counted.begun == 1
    assert all(one == found[0] for one in found)
    assert await ask() == found[0]
    assert counted.begun == 1, "it is kept"


async def test_both_sides_of_a_difference_are_decided_together(
    page: Page, client: aiohttp.ClientSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted = CountedDecisions(await recorded(page), monkeypatch)

    async def ask() -> Any:
        async with client.get(f"{PATH}/difference", params={"first": "1", "second": "2"}) as answer:
            assert answer.status == 200, await answer.text()
            return await answer.json()

    asking = asyncio.create_task(ask())
    await asyncio.wait_for(counted.until(2), patient(20))
    counted.go.set()
    assert (await asking)["nodes"]["counts"]["same"] == 3
    assert counted.most == 2


async def test_decisions_that_are_made_and_kept_are_bounded(page: Page, client: aiohttp.ClientSession) -> None:
    attempts = await recorded(page)
    attempts.decisions.most = 1
    for number in (1, 2):
        async with client.get(f"{PATH}/decision", params={"attempt": str(number)}) as answer:
            assert answer.status == 200
    assert len(attempts.decisions) == 1
    attempts.decisions.most_waiting = 0
    async with client.get(f"{PATH}/decision", params={"attempt": "1"}) as answer:
        assert answer.status == 503
        assert "other decisions are made again" in (await answer.json())["message"]


async def test_a_decision_that_fails_is_tried_again(
    page: Page, client: aiohttp.ClientSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    attempts = await recorded(page)

    async def fails(*_: Any) -> Any:
        raise ServerError("not now")

    with monkeypatch.context() as patch:
        patch.setattr(attempts, "_again", fails)
        async with client.get(f"{PATH}/decision", params={"attempt": "1"}) as answer:
            assert answer.status == 503
    async with client.get(f"{PATH}/decision", params={"attempt": "1"}) as answer:
        assert answer.status == 200


async def never() -> Any:
    await asyncio.Event().wait()


async def test_temporal_that_is_known_to_be_silent_fails_at_once() -> None:
    now = [100.0]

    async def refuses() -> Any:
        raise ServerError("cannot reach Temporal")

    reach = TemporalReach(refuses, lambda: now[0])
    await reach._ask()
    with pytest.raises(ServerError, match="cannot reach"):
        await reach.client()  # it may have been late
    now[0] = 102.0
    await reach._ask()
    with pytest.raises(ServerError, match="has not answered for 2 s"):
        await reach.client()
    now[0] = 200.0
    with pytest.raises(ServerError, match="cannot reach"):
        await reach.client()  # nobody has asked lately, so it is tried

    asking = asyncio.create_task(reach.soon(never()))
    await asyncio.sleep(0)
    now[0] = 201.0
    began = watched_loop().waited
    await reach._ask()
    with pytest.raises(ServerError, match="has not answered"):
        await asking
    assert watched_loop().waited - began < 1


async def test_a_temporal_that_cannot_be_reached_is_told_as_such(page: Page, client: aiohttp.ClientSession) -> None:
    """A client that connects at its first call fails there, with no error of RPC."""

    async def lazy() -> Client:
        return await Client.connect("127.0.0.1:1", lazy=True)

    reach = TemporalReach(lazy, time.monotonic)
    page.parts.view(SchedulingView).attempts = PodAttempts(
        page.parts.following.store, reach.client, cluster="wharfinger", ui="", namespace="default"
    )
    for path in ("attempts", "decision"):
        async with client.get(f"{PATH}/{path}") as answer:
            told = await answer.json()
            assert (answer.status, told["error"]) == (503, "TemporalUnavailable")
            assert told["message"] == "Temporal cannot be reached"
