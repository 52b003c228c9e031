"""When the pods of a stream are due, and that a latency counts from then."""

from __future__ import annotations

import asyncio
import itertools
import time

import pytest

from benchmarks.streams import AT_ONCE, send, times, unfitting


def test_even_arrivals_are_the_same_time_apart() -> None:
    assert times(4, 1.5) == [0.0, 0.25, 0.5, 0.75, 1.0, 1.25]


def test_poisson_arrivals_have_the_rate_and_the_gaps_of_a_poisson_process() -> None:
    due = times(50, 200.0, "poisson")

    assert len(due) == 10_000
    assert due == sorted(due)
    gaps = [after - before for before, after in itertools.pairwise(due)]
    assert sum(gap > 0.02 for gap in gaps) / len(gaps) == pytest.approx(0.368, abs=0.02)  # e ** -1 beyond the mean


@pytest.mark.parametrize(("count", "share", "expected"), [(20, 0.1, 2), (1000, 0.1, 100), (7, 0.0, 0), (3, 1.0, 3)])
def test_share_that_fits_nowhere_is_spread_evenly(count: int, share: float, expected: int) -> None:
    found = unfitting(count, share)

    assert sum(found) == expected
    assert abs(sum(found[: count // 2]) - expected / 2) <= 1


async def test_slow_request_delays_no_arrival_and_gets_its_due_time() -> None:
    release = asyncio.Event()
    seen: dict[int, float] = {}

    async def one(number: int, due: float) -> None:
        seen[number] = due
        if len(seen) == 3:
            release.set()
        await release.wait()

    before = time.perf_counter()
    began = await send([0.0, 0.001, 0.002], one)

    assert began >= before
    assert [round(seen[number] - began, 6) for number in range(3)] == [0.0, 0.001, 0.002]


async def test_requests_on_the_way_are_limited() -> None:
    full, now, most = asyncio.Event(), 0, 0

    async def one(number: int, due: float) -> None:
        nonlocal now, most
        now, most = now + 1, max(most, now + 1)
        if now == AT_ONCE:
            full.set()
        await full.wait()
        await asyncio.sleep(0.001)
        now -= 1

    await send([0.0] * (AT_ONCE + 50), one)

    assert most == AT_ONCE


async def test_first_failure_ends_the_stream() -> None:
    async def one(number: int, due: float) -> None:
        if number == 1:
            raise ConnectionError("refused")
        await asyncio.Event().wait()

    with pytest.raises(ConnectionError):
        await send([0.0] * 3, one)
