"""Binds on the way and binds that were carried out are not sent again; others are."""

from __future__ import annotations

import asyncio

import pytest

from wharfinger.apiserver.client import ApiAnswer
from wharfinger.errors import UpstreamUnavailable
from wharfinger.kubernetes.effects.promising import REMEMBERED, SentOnce
from wharfinger.scheduling.model.promises import Promise


def promise(revision: int = 7, node: str = "n1") -> Promise:
    return Promise("uid", revision, node, "workflow@run", "2026-03-01T12:00:00Z")


class Api:
    """Answers when it is told to, and counts."""

    def __init__(self, *answers: ApiAnswer | Exception) -> None:
        self.answers = list(answers)
        self.asked = 0
        self.go = asyncio.Event()

    async def __call__(self) -> ApiAnswer:
        self.asked += 1
        await self.go.wait()
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


async def test_a_bind_on_the_way_is_waited_for() -> None:
    sent, api = SentOnce(), Api(ApiAnswer(201))
    tries = [asyncio.create_task(sent.answer(promise(), api)) for _ in range(3)]
    await asyncio.sleep(0)
    api.go.set()

    assert [answer.done for answer in await asyncio.gather(*tries)] == [True] * 3
    assert api.asked == 1


async def test_a_bind_that_was_carried_out_is_not_sent_again() -> None:
    sent, api = SentOnce(), Api(ApiAnswer(201), ApiAnswer(409), ApiAnswer(409))
    api.go.set()
    answers = [(await sent.answer(one, api)).code for one in (promise(), promise(), promise(8), promise(node="n2"))]

    assert answers == [201, 201, 409, 409]


@pytest.mark.parametrize("first", [ApiAnswer(409), UpstreamUnavailable("away")], ids=["refused", "no answer"])
async def test_a_try_that_came_to_nothing_is_followed_by_one(first: ApiAnswer | Exception) -> None:
    sent, api = SentOnce(), Api(first, ApiAnswer(201))
    tries = [asyncio.create_task(sent.answer(promise(), api)) for _ in range(3)]
    await asyncio.sleep(0)
    api.go.set()
    found = await asyncio.gather(*tries, return_exceptions=True)

    assert [isinstance(one, ApiAnswer) and one.done for one in found] == [False, True, True]
    assert api.asked == 2


async def test_a_try_that_is_given_up_leaves_the_bind_to_another() -> None:
    sent, api = SentOnce(), Api(ApiAnswer(201))
    first, second = (asyncio.create_task(sent.answer(promise(), api)) for _ in range(2))
    await asyncio.sleep(0)
    first.cancel()
    api.go.set()

    assert (await second).done
    assert first.cancelled()
    assert api.asked == 2


async def test_no_more_than_some_binds_are_remembered() -> None:
    sent, api = SentOnce(), Api(*[ApiAnswer(201)] * (REMEMBERED + 2))
    api.go.set()
    for revision in range(REMEMBERED + 1):
        await sent.answer(promise(revision), api)
    await sent.answer(promise(REMEMBERED), api)
    await sent.answer(promise(0), api)

    assert api.asked == REMEMBERED + 2
