"""Reads that are asked for at the same time: few transactions, and each gets its own answer."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from wharfinger.errors import Unavailable
from wharfinger.etcd.store import Operation
from wharfinger.kubernetes.effects.adopting import READ_TOGETHER, ReadingTogether
from wharfinger.testing import MemoryStore


class Counted:
    """A store that notes how many keys each transaction reads."""

    def __init__(self) -> None:
        self.store = MemoryStore()
        self.store.before_txn = self.count
        self.sizes: list[int] = []
        self.reading = ReadingTogether(self.store)

    async def count(self, _: object, operations: Sequence[Operation], *__: object) -> None:
        self.sizes.append(len(operations))


@pytest.fixture
async def counted() -> Counted:
    made = Counted()
    for number in range(100):
        await made.store.put(f"/a/{number}", b"%d" % number)
    made.sizes.clear()
    return made


async def test_reads_at_one_time_share_transactions(counted: Counted) -> None:
    found = await asyncio.gather(*(counted.reading.read(f"/a/{number}", f"/b/{number}") for number in range(100)))

    assert [(copy and copy.value, other) for copy, other in found] == [(b"%d" % number, None) for number in range(100)]
    assert counted.sizes == [READ_TOGETHER, READ_TOGETHER, READ_TOGETHER, 8]


async def test_a_lone_read_is_not_kept_waiting_for_others(counted: Counted) -> None:
    for _ in range(2):
        (found,) = await counted.reading.read("/a/7")
        assert found is not None

    assert counted.sizes == [1, 1]


async def test_a_read_that_is_given_up_leaves_the_others(counted: Counted) -> None:
    first, second, third = (asyncio.create_task(counted.reading.read(f"/a/{number}")) for number in range(3))
    await asyncio.sleep(0)
    second.cancel()
    found = await asyncio.gather(first, second, third, return_exceptions=True)

    assert isinstance(found[1], asyncio.CancelledError)
    assert [one[0].value for one in (found[0], found[2])] == [b"0", b"2"]


async def test_all_readers_are_told_of_a_failure(counted: Counted) -> None:
    async def fail(*_: object) -> None:
        counted.store.before_txn = None
        raise Unavailable("away", maybe_applied=False)

    counted.store.before_txn = fail
    tasks = [counted.reading.read(f"/a/{number}") for number in range(3)]
    failed = await asyncio.gather(*tasks, return_exceptions=True)
    (found,) = await counted.reading.read("/a/1")

    assert [type(one) for one in failed] == [Unavailable] * 3
    assert found is not None
