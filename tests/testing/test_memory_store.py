"""What `MemoryStore` offers beyond the protocol: faults, time and older states on demand."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from wharfinger.errors import AccessDenied, LeaseLost, RevisionWentBack, Unavailable
from wharfinger.etcd.store import Compare, Get, Operation, Put
from wharfinger.testing.memory_store import MemoryStore


@pytest.mark.parametrize("applied", [True, False], ids=["it happened", "it did not happen"])
async def test_write_with_a_lost_answer_is_resolved_only_by_a_read(applied: bool) -> None:
    store = MemoryStore()
    store.fail_next(applied=applied)

    with pytest.raises(Unavailable) as lost:
        await store.put("/a", b"1")

    assert lost.value.maybe_applied
    assert ((await store.get("/a")).kv is not None) == applied
    assert await store.put("/a", b"2")


async def test_only_writes_of_one_client_fail_and_as_often_as_requested() -> None:
    store = MemoryStore()
    other = store.client()
    store.fail_next(applied=False, error=AccessDenied("not you"), times=2)

    await other.put("/a", b"1")
    assert (await store.txn((), [Get("/a")])).reads[0] is not None
    for _ in range(2):
        with pytest.raises(AccessDenied):
            await store.put("/a", b"2")

    assert await store.put("/a", b"3")


async def test_reads_fail_as_often_as_requested() -> None:
    store = MemoryStore()
    store.fail_reads(2)

    with pytest.raises(Unavailable):
        await store.get("/a")
    with pytest.raises(Unavailable):
        _ = [page async for page in store.list("/")]

    assert (await store.get("/a")).kv is None


async def test_a_hook_before_a_transaction_can_be_faster() -> None:
    """Two writers compare the same revision; the hook lets the other one win."""
    store = MemoryStore()
    other = store.client()
    revision = await store.put("/a", b"1")

    async def overtake(compares: Sequence[Compare], success: Sequence[Operation]) -> None:
        store.before_txn = None
        await other.put("/a", b"other")

    store.before_txn = overtake
    result = await store.txn([Compare("/a", "mod", revision)], [Put("/a", b"mine")])

    assert not result.succeeded


async def test_hook_after_a_transaction_runs_before_its_caller_continues() -> None:
    store = MemoryStore()
    seen: list[int] = []
    store.after_txn = lambda compares, success: seen.append(store.revision)

    revision = await store.put("/a", b"1")

    assert seen == [revision]


async def test_paused_watch_delivers_all_events_after_it_resumes() -> None:
    store = MemoryStore()
    writer = store.client()
    async with store.watch("/", 2) as batches, writer.watch("/", 2) as others:
        store.pause_watches()
        waiting = asyncio.ensure_future(anext(batches))
        first = await writer.put("/a", b"1")
        second = await writer.put("/a", b"2")
        unpaused = [(await anext(others)).revision, (await anext(others)).revision]
        held_back = not waiting.done()
        store.resume_watches()
        delivered = [(await waiting).revision, (await anext(batches)).revision]

    assert held_back
    assert unpaused == delivered == [first, second]


async def test_going_back_is_noticed_by_clients_and_watches_that_saw_more() -> None:
    store = MemoryStore()
    stranger = store.client()
    old = await store.put("/a", b"1")
    await store.put("/a", b"2")
    async with store.watch("/", old) as batches:
        await anext(batches)
        await anext(batches)
        store.restore(old)
        with pytest.raises(RevisionWentBack):
            await anext(batches)
    with pytest.raises(RevisionWentBack):
        await store.get("/a")

    read = await stranger.get("/a")
    assert read.revision == old
    assert read.kv is not None
    assert read.kv.value == b"1"


async def test_time_passes_only_by_advance_and_expires_leases_in_order() -> None:
    store = MemoryStore()
    short = await store.grant_lease(5, alive=lambda: False)
    long = await store.grant_lease(10, alive=lambda: False)
    kept = await store.grant_lease(5)
    for name, lease in {"short": short, "long": long, "kept": kept}.items():
        await store.put(f"/{name}", b"", lease=lease.id)
    start = store.revision + 1

    store.advance(60)

    async with store.watch("/", start) as batches:
        gone = [(await anext(batches)).events[0].kv.key for _ in range(2)]
    assert gone == ["/short", "/long"]
    assert [short.lost, long.lost, kept.lost] == [True, True, False]


async def test_a_given_clock_decides_when_leases_expire() -> None:
    now = 100.0
    store = MemoryStore(clock=lambda: now)
    lease = await store.grant_lease(5, alive=lambda: False)
    await store.put("/a", b"", lease=lease.id)

    now += 4.9
    before = (await store.get("/a")).kv
    now += 0.2
    after = (await store.get("/a")).kv

    assert before is not None
    assert after is None
    assert await lease.wait_lost() == "expired"


async def test_a_lease_can_be_dropped_behind_its_owners_back() -> None:
    store = MemoryStore()
    lease = await store.grant_lease(10)
    await store.put("/a", b"", lease=lease.id)

    store.drop_lease(lease.id)

    assert lease.lost
    assert (await store.get("/a")).kv is None
    with pytest.raises(LeaseLost):
        await store.put("/a", b"", lease=lease.id)


async def test_leases_of_a_closed_client_run_out() -> None:
    store = MemoryStore()
    client = store.client()
    lease = await client.grant_lease(10)
    await client.put("/a", b"", lease=lease.id)

    await client.close()
    there = (await store.get("/a")).kv
    store.advance(11)
    gone = (await store.get("/a")).kv

    assert there is not None
    assert gone is None
