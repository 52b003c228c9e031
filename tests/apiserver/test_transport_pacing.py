"""How many requests a second `HttpApiClient` sends."""

from __future__ import annotations

import asyncio
import random
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.apiserver.scripted_server import bind, ok, scripted_server
from tests.clock import Clock
from tests.virtual_time import VirtualTime
from wharfinger.apiserver.client import LEASES
from wharfinger.apiserver.credentials import ApiClocks
from wharfinger.apiserver.event_lane import EventLane
from wharfinger.apiserver.events import EventReporter, pod_reference
from wharfinger.apiserver.pacing import BIND, OTHER, TokenBucket
from wharfinger.apiserver.transport import ApiLimits, HttpApiClient
from wharfinger.errors import UpstreamUnavailable


async def test_request_that_would_wait_too_long_is_not_sent(tmp_path: Path) -> None:
    """Leases are not counted."""
    async with scripted_server(tmp_path, ok) as server:
        apiserver = HttpApiClient(server.access(), ApiLimits(qps=0.01, burst=2))
        await bind(apiserver)
        await bind(apiserver)
        with pytest.raises(UpstreamUnavailable, match=r"our own limit \(qps, burst\)") as waiting:
            await bind(apiserver)
        for _ in range(5):
            await apiserver.get(LEASES, "l", namespace="ns")
        await apiserver.close()

    assert not waiting.value.maybe_applied
    assert [one.method for one in server.heard] == ["POST"] * 2 + ["GET"] * 5


async def test_10000_events_delay_no_bind(tmp_path: Path) -> None:
    """Time stands still: the burst is all that may be sent, and events wait for ever to be tried again."""
    async with scripted_server(tmp_path, ok) as server:
        apiserver = HttpApiClient(server.access(), ApiLimits(qps=0.01, burst=50), clocks=ApiClocks(monotonic=Clock()))
        never = asyncio.Event()
        lane = EventLane(apiserver, clock=Clock(), rng=random.Random(0), sleep=lambda _seconds: never.wait())
        lane.start()
        for number in range(10_000):
            pod = pod_reference("ns", f"p-{number}", "u")
            lane.say(EventReporter("s", "w", "r", datetime(2026, 3, 1, tzinfo=UTC), pod).scheduled("n"))
        while len(server.heard) < 50:
            await asyncio.sleep(0)

        binds = await asyncio.gather(*(bind(apiserver) for _ in range(50)))

        waiting = lane.waiting
        await lane.stop(0.0)
        await apiserver.close()

    assert [answer.done for answer in binds] == [True] * 50
    assert (waiting > 900, len(server.heard)) == (True, 100)


async def test_requests_wait_for_their_turn(tmp_path: Path) -> None:
    async with scripted_server(tmp_path, ok) as server:
        clock = asyncio.get_running_loop().time
        apiserver = HttpApiClient(server.access(), ApiLimits(qps=100, burst=1), clocks=ApiClocks(monotonic=clock))
        began = clock()
        answers = await asyncio.gather(*(bind(apiserver) for _ in range(6)))
        took = clock() - began
        await apiserver.close()

    assert [answer.done for answer in answers] == [True] * 6
    assert took >= 0.05


class Line:
    """Requests that wait at a bucket, in virtual time."""

    def __init__(self, qps: float, burst: int) -> None:
        self.time = VirtualTime()
        self.bucket = TokenBucket(qps, burst, self.time, self.time.pause)
        self.began = self.time.now
        self.sent: list[tuple[str, float]] = []
        """Which was sent, and after how many seconds."""
        self.given_up: list[str] = []

    async def ask(self, name: str, cost: int = OTHER, patience: float = 100.0) -> asyncio.Task[None]:
        async def one() -> None:
            if await self.bucket.turn(patience, cost):
                self.sent.append((name, round(self.time.now - self.began, 3)))
            else:
                self.given_up.append(name)

        task = asyncio.create_task(one())
        await self.time.settle()
        return task


async def test_bucket_has_its_burst_and_then_its_rate() -> None:
    line = Line(10, 3)
    for number in range(6):
        await line.ask(str(number))
    await line.time.advance(1.0)
    for number in range(6, 8):
        await line.ask(str(number))
    await line.time.advance(100.0)
    for number in range(8, 12):
        await line.ask(str(number), patience=0.0)

    assert [after for _, after in line.sent[:6]] == [0.0, 0.0, 0.0, 0.1, 0.2, 0.3]
    assert [after for _, after in line.sent[6:8]] == [1.0, 1.0]
    assert ([name for name, _ in line.sent[8:]], line.given_up) == (["8", "9", "10"], ["11"])


async def test_token_of_a_request_that_was_given_up_is_for_the_next() -> None:
    line, free = Line(1, 1), TokenBucket(-1, 1, Clock())
    await line.ask("first")
    waiting = await line.ask("given up")
    waiting.cancel()
    await line.ask("next")
    await line.time.advance(1.0)

    assert line.sent == [("first", 0.0), ("next", 1.0)]
    assert [await free.turn(0.0) for _ in range(1000)] == [True] * 1000


async def test_binds_go_before_statuses_and_statuses_are_not_held_up_for_ever() -> None:
    line = Line(10, 1)
    for number in range(50):
        await line.ask(f"status {number}")
    for number in range(20):
        await line.ask(f"bind {number}", BIND)

    await line.time.advance(10.0)

    after = dict(line.sent)
    first_ten = [name.partition(" ")[0] for name, _ in line.sent[1:11]]
    assert (first_ten.count("bind"), first_ten.count("status")) == (8, 2)
    assert after["bind 19"] == pytest.approx(2.5, abs=0.1)
    assert [name for name, _ in line.sent if name.startswith("status")] == [f"status {number}" for number in range(50)]
    assert after["status 49"] == pytest.approx(6.9, abs=0.1)


async def test_status_that_binds_have_overtaken_is_given_up_in_time() -> None:
    line = Line(10, 1)
    await line.ask("sent")
    await line.ask("status", patience=0.35)
    for number in range(20):
        await line.ask(f"bind {number}", BIND)

    await line.time.advance(10.0)

    assert line.given_up == ["status"]


async def test_requests_that_were_given_up_do_not_hold_up_the_next_of_their_kind() -> None:
    line = Line(10, 1)
    await line.ask("sent")
    for number in range(50):
        await line.ask(f"bind {number}", BIND)
    for number in range(100):
        await line.ask(f"impatient {number}", patience=0.0)
    cancelled = [await line.ask(f"cancelled {number}") for number in range(20)]
    for task in cancelled:
        task.cancel()
    await line.time.settle()
    await line.ask("status")

    await line.time.advance(10.0)

    assert dict(line.sent)["status"] < 1.0
