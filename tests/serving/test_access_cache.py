"""Answers that are kept for some seconds."""

from __future__ import annotations

import asyncio

import pytest

from tests.serving.serving import Hand
from wharfinger.errors import UpstreamUnavailable
from wharfinger.serving.access import MOST_REQUESTS, MOST_WAITING, KeyedHash, review_cache


class Asked:
    """An API server that answers when the test lets it."""

    def __init__(self) -> None:
        self.times = 0
        self.at_once = 0
        self.most_at_once = 0
        self.may_answer = asyncio.Event()

    async def __call__(self) -> tuple[int, float]:
        self.times += 1
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        await self.may_answer.wait()
        self.at_once -= 1
        return self.times, 10.0


async def test_callers_at_once_share_one_request() -> None:
    cache, asked = review_cache(Hand()), Asked()
    callers = [asyncio.create_task(cache.get(b"key", asked)) for _ in range(5)]
    await asyncio.sleep(0)
    asked.may_answer.set()

    assert await asyncio.gather(*callers) == [1] * 5


async def test_caller_that_goes_away_leaves_the_request_to_others() -> None:
    cache, asked = review_cache(Hand()), Asked()
    first, second = (asyncio.create_task(cache.get(b"key", asked)) for _ in range(2))
    await asyncio.sleep(0)
    first.cancel()
    asked.may_answer.set()

    assert await second == 1
    assert first.cancelled()


async def test_failure_is_raised_and_not_kept() -> None:
    cache, asked = review_cache(Hand()), Asked()
    asked.may_answer.set()

    async def fails() -> tuple[int, float]:
        raise UpstreamUnavailable("gone")

    with pytest.raises(UpstreamUnavailable):
        await cache.get(b"key", fails)
    assert await cache.get(b"key", asked) == 1


async def test_requests_under_way_are_bounded() -> None:
    cache, asked = review_cache(Hand()), Asked()
    callers = [asyncio.create_task(cache.get(bytes([number]), asked)) for number in range(50)]
    for _ in range(5):
        await asyncio.sleep(0)
    asked.may_answer.set()
    await asyncio.gather(*callers)

    assert asked.most_at_once == MOST_REQUESTS
    assert asked.times == 50


async def test_requests_of_callers_that_left_are_bounded() -> None:
    cache, asked = review_cache(Hand()), Asked()
    for number in range(MOST_WAITING):
        caller = asyncio.create_task(cache.get(bytes([number]), asked))
        await asyncio.sleep(0)
        caller.cancel()

    refused = asyncio.create_task(cache.get(b"one more", asked))
    await asyncio.sleep(0)
    assert refused.done()
    with pytest.raises(UpstreamUnavailable, match="wait"):
        await refused
    known = asyncio.create_task(cache.get(bytes([0]), asked))  # who asks the same as others waits with them
    asked.may_answer.set()
    assert await known
    await cache.get(bytes([MOST_WAITING - 1]), asked)
    assert await cache.get(b"one more", asked) == MOST_WAITING + 1


async def test_oldest_answer_gives_way() -> None:
    cache, asked = review_cache(Hand(), most=3), Asked()
    asked.may_answer.set()
    for key in (b"a", b"b", b"c", b"a", b"d"):
        await cache.get(key, asked)

    assert len(cache) == 3
    assert await cache.get(b"a", asked) == 1
    assert await cache.get(b"b", asked) == 5


def test_hashes_are_of_this_process_and_of_whole_parts() -> None:
    hash_ = KeyedHash()

    assert hash_("a", "b") == hash_("a", "b")
    assert hash_("a", "b") != hash_("ab")
    assert hash_("a") != KeyedHash()("a")
