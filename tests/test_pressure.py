"""Fewer calls when a server is slow or away, more again when it answers quickly; no caller is left waiting."""

from __future__ import annotations

import asyncio

import pytest

from tests.clock import Clock
from wharfinger.pressure import ConcurrencyLimiter, Slots


def busy(window: ConcurrencyLimiter, rounds: int, *, seconds: float, now: float = 0.0) -> float:
    """So many rounds in which every call takes that long, all at a time; when they end."""
    for _ in range(rounds):
        began, now = now, now + seconds
        for used in range(window.size, 0, -1):
            window.answered(began, now, used=max(used, window.size))
    return now


def test_limit_begins_at_the_minimum_and_doubles_with_quick_rounds() -> None:
    window = ConcurrencyLimiter(32, least=2, slow=1.0)
    sizes = [window.size]
    now = 0.0
    for _ in range(5):
        now = busy(window, 1, seconds=0.01, now=now)
        sizes.append(window.size)

    assert sizes == [2, 4, 8, 16, 32, 32]


def test_late_answers_narrow_it_once_a_round_and_never_below_the_least() -> None:
    window = ConcurrencyLimiter(32, least=2, slow=1.0)
    now = busy(window, 5, seconds=0.01)
    now = busy(window, 1, seconds=2.0, now=now)
    assert window.size == 22

    busy(window, 30, seconds=2.0, now=now)
    assert window.size == 2


def test_where_it_was_too_wide_it_grows_slowly_afterwards() -> None:
    window = ConcurrencyLimiter(32, least=2, slow=1.0)
    now = busy(window, 5, seconds=0.01)
    now = busy(window, 1, seconds=2.0, now=now)
    now = busy(window, 1, seconds=0.01, now=now)
    assert window.size in (22, 23)

    now = busy(window, 3, seconds=0.01, now=now)
    assert 24 <= window.size <= 26


def test_after_an_outage_the_herd_does_not_come_back_at_once() -> None:
    window = ConcurrencyLimiter(32, least=2, slow=1.0)
    now = busy(window, 5, seconds=0.01)
    for _ in range(32):
        window.failed(now, now + 5)
    assert window.size == 2

    now = busy(window, 2, seconds=0.01, now=now + 5)
    assert window.size == 8
    now = busy(window, 1, seconds=0.01, now=now)
    assert window.size == 16
    busy(window, 1, seconds=0.01, now=now)
    assert window.size in (16, 17)


def test_what_is_not_used_does_not_grow() -> None:
    window = ConcurrencyLimiter(32, least=8, slow=1.0)
    for _ in range(100):
        window.answered(0.0, 0.01, used=1)

    assert window.size == 8


async def test_no_more_than_the_window_are_let_through_and_the_first_come_first() -> None:
    slots = Slots(ConcurrencyLimiter(2, least=2, slow=1.0), Clock())
    running: list[int] = []
    gates = [asyncio.Event() for _ in range(4)]

    async def call(number: int) -> None:
        async with slots.slot():
            running.append(number)
            await gates[number].wait()

    tasks = [asyncio.create_task(call(number)) for number in range(4)]
    await asyncio.sleep(0)
    assert running == [0, 1]

    gates[1].set()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert running == [0, 1, 2]
    for gate in gates:
        gate.set()
    await asyncio.gather(*tasks)
    assert slots.used == 0


async def test_one_that_gives_up_waiting_takes_no_slot_with_it() -> None:
    slots = Slots(ConcurrencyLimiter(1, least=1, slow=1.0), Clock())
    gate = asyncio.Event()

    async def call() -> None:
        async with slots.slot():
            await gate.wait()

    first, cancelled, last = (asyncio.create_task(call()) for _ in range(3))
    await asyncio.sleep(0)
    with pytest.raises(TimeoutError):
        async with slots.slot(within=0.001):
            pytest.fail("there was no slot")
    gate.set()  # the first ends, and the second is let in at the very moment in which it is cancelled
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    cancelled.cancel()
    await asyncio.gather(first, cancelled, last, return_exceptions=True)

    assert slots.used == 0
    async with slots.slot(within=0.001):
        assert slots.used == 1


async def test_one_that_gives_up_as_a_slot_comes_free_ends_as_asked() -> None:
    """It is cancelled, and before it runs again the slot's owner has passed over it."""
    slots = Slots(ConcurrencyLimiter(1, least=1, slow=1.0), Clock())
    gate = asyncio.Event()

    async def call() -> None:
        async with slots.slot():
            await gate.wait()

    first, cancelled, last = (asyncio.create_task(call()) for _ in range(3))
    await asyncio.sleep(0)
    gate.set()  # `first` is to run next, and `cancelled` after it
    cancelled.cancel()

    ends = await asyncio.gather(first, cancelled, last, return_exceptions=True)

    assert ends[0] is None
    assert isinstance(ends[1], asyncio.CancelledError)
    assert ends[2] is None
    assert slots.used == 0


async def test_failures_narrow_it_but_not_those_the_server_is_not_to_blame_for() -> None:
    clock = Clock()
    slots = Slots(ConcurrencyLimiter(4, least=1, slow=1.0), clock)

    async def fail(*, blameless: bool) -> None:
        async with slots.slot() as call:
            call.blameless = blameless
            raise OSError("an answer, or none")

    for _ in range(3):
        async with slots.slot():
            clock.now += 0.01
    before = slots.size
    with pytest.raises(OSError, match="answer"):
        await fail(blameless=True)
    assert slots.size == before > 1

    with pytest.raises(OSError, match="answer"):
        await fail(blameless=False)
    assert (slots.size, slots.used) == (1, 0)
