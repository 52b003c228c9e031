"""What the log says of pages: nothing of clients that leave, and each trouble with the client authority once."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Sequence

import aiohttp
import pytest

from tests.patience import patient
from tests.serving.serving import Reviews, content, serving
from wharfinger.programs.kube_pages import client_authorities
from wharfinger.serving.content import PodAmounts
from wharfinger.serving.options import ServingOptions


async def test_reason_without_authorities_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    cluster, logged = Reviews(), set[str]()
    for away in (False, False, True, True, False):
        cluster.away = away
        assert await client_authorities(cluster.apiserver, logged=logged) == ""
    assert caplog.text.count("client_authorities_unknown") == 3

    cluster.published = {"client-ca-file": "PEM"}
    assert await client_authorities(cluster.apiserver, logged=logged) == "PEM"
    cluster.published = None
    await client_authorities(cluster.apiserver, logged=logged)
    assert caplog.text.count("client_authorities_unknown") == 4


async def test_client_that_leaves_is_logged_at_debug_alone(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, logger="wharfinger")
    left = asyncio.Event()

    async def pods() -> AsyncGenerator[Sequence[PodAmounts], None]:
        amounts = PodAmounts("default", "p", "n", "s", 0, {"cpu": 1000}, {"cpu": 1000})
        yield [amounts]
        await left.wait()
        while True:
            yield [amounts] * 100
            await asyncio.sleep(0)

    async with (
        serving(ServingOptions(open=True), content(pods=pods)) as server,
        aiohttp.ClientSession() as session,
    ):
        answer = await session.get(f"{server.url}/metrics/resources")
        await answer.content.readline()
        answer.close()
        left.set()
        async with asyncio.timeout(patient(20)):
            while "client_left" not in caplog.text:
                await asyncio.sleep(0.01)

    assert [record.message for record in caplog.records if record.levelno > logging.INFO] == []
    assert "client_left path='/metrics/resources'" in caplog.messages
