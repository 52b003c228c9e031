"""How many requests a second `HttpUpstream` sends."""

from __future__ import annotations

import asyncio
import random
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.clock import Clock
from tests.upstream.scripted_server import bind, ok, scripted_server
from wharfinger.errors import UpstreamUnavailable
from wharfinger.upstream.client import LEASES
from wharfinger.upstream.event_bodies import EventReporter, pod_reference
from wharfinger.upstream.event_lane import EventLane
from wharfinger.upstream.pacing import TokenBucket
from wharfinger.upstream.transport import HttpUpstream


async def test_request_that_would_wait_too_long_is_not_sent(tmp_path: Path) -> None:
    """Leases are not counted."""
    async with scripted_server(tmp_path, ok) as server:
        upstream = HttpUpstream(server.access(), qps=0.01, burst=2)
        await bind(upstream)
        await bind(upstream)
        with pytest.raises(UpstreamUnavailable, match=r"our own limit \(qps, burst\)") as waiting:
            await bind(upstream)
        for _ in range(5):
            await upstream.get(LEASES, "l", namespace="ns")
        await upstream.close()

    assert not waiting.value.maybe_applied
    assert [one.method for one in server.heard] == ["POST"] * 2 + ["GET"] * 5


async def test_10000_events_delay_no_bind(tmp_path: Path) -> None:
    """Time stands still: the burst is all that may be sent, and events wait for ever to be tried again."""
    async with scripted_server(tmp_path, ok) as server:
        upstream = HttpUpstream(server.access(), qps=0.01, burst=50, clock=Clock())
        never = asyncio.Event()
        lane = EventLane(upstream, clock=Clock(), rng=random.Random(0), sleep=lambda _seconds: never.wait())
        lane.start()
        for number in range(10_000):
            pod = pod_reference("ns", f"p-{number}", "u")
            lane.say(EventReporter("s", "w").scheduled(pod, "n", run="r", now=datetime(2026, 3, 1, tzinfo=UTC)))
        while len(server.heard) < 50:
            await asyncio.sleep(0)

        binds = await asyncio.gather(*(bind(upstream) for _ in range(50)))

        waiting = lane.waiting
        await lane.stop(0.0)
        await upstream.close()

    assert [answer.done for answer in binds] == [True] * 50
    assert (waiting > 900, len(server.heard)) == (True, 100)


async def test_requests_wait_for_their_turn(tmp_path: Path) -> None:
    async with scripted_server(tmp_path, ok) as server:
        clock = asyncio.get_running_loop().time
        upstream = HttpUpstream(server.access(), qps=100, burst=1, clock=clock)
        began = clock()
        answers = await asyncio.gather(*(bind(upstream) for _ in range(6)))
        took = clock() - began
        await upstream.close()

    assert [answer.done for answer in answers] == [True] * 6
    assert took >= 0.05


def test_bucket_has_its_burst_and_then_its_rate() -> None:
    clock = Clock()
    bucket = TokenBucket(10, 3, clock)
    waits = [bucket.take(1.0) for _ in range(6)]
    clock.advance(1.0)
    later = [bucket.take(1.0) for _ in range(2)]
    clock.advance(100.0)
    full = [bucket.take(0.0) for _ in range(4)]

    assert waits == [0.0, 0.0, 0.0, pytest.approx(0.1), pytest.approx(0.2), pytest.approx(0.3)]
    assert later == [0.0, 0.0]
    assert full == [0.0, 0.0, 0.0, None]


def test_bucket_takes_tokens_back_and_may_have_no_limit() -> None:
    clock = Clock()
    bucket = TokenBucket(1, 1, clock)
    given_up = [bucket.take(5.0), bucket.take(5.0)]
    bucket.give_back()
    free = TokenBucket(-1, 1, clock)

    assert given_up == [0.0, 1.0]
    assert bucket.take(5.0) == 1.0
    assert [free.take(0.0) for _ in range(1000)] == [0.0] * 1000
