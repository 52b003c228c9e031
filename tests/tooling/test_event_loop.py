"""The loop that tests run on: when it is idle, and what counts as waiting."""

from __future__ import annotations

import asyncio
import time

from tests.event_loop import watched_loop


async def test_loop_is_idle_when_the_last_of_a_chain_of_tasks_has_run() -> None:
    ran = 0

    async def link(left: int) -> None:
        nonlocal ran
        ran += 1
        await asyncio.sleep(0)
        if left:
            await asyncio.create_task(link(left - 1))

    chain = asyncio.create_task(link(99))
    await watched_loop().until_idle()

    assert (ran, chain.done()) == (100, True)


async def test_timer_keeps_no_loop_from_being_idle() -> None:
    sleeping = asyncio.create_task(asyncio.sleep(3600))
    await watched_loop().until_idle()

    assert not sleeping.done()
    sleeping.cancel()


async def test_task_that_is_always_ready_is_waited_for_a_bounded_number_of_turns() -> None:
    turns = 0

    async def spin() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    spinning = asyncio.create_task(spin())
    await watched_loop().until_idle(turns=50)
    spinning.cancel()

    assert 45 <= turns <= 51


async def test_several_may_wait_for_the_idle_loop() -> None:
    await asyncio.gather(*(watched_loop().until_idle() for _ in range(3)))


async def test_seconds_of_timers_count_as_waited() -> None:
    began = watched_loop().waited
    while watched_loop().waited == began:  # where the process stood still, the timer was over before it was waited for
        await asyncio.sleep(0.05)

    assert watched_loop().waited - began < 0.06


async def test_time_in_which_the_process_stood_still_does_not_count() -> None:
    began = watched_loop().waited
    waiting = asyncio.create_task(asyncio.sleep(0.02))
    await asyncio.sleep(0)
    time.sleep(0.1)
    await waiting

    assert watched_loop().waited - began <= 0.02
