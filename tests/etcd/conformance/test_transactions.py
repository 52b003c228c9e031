from __future__ import annotations

import random

import pytest

from tests.etcd.conformance.conftest import World
from tests.etcd.conftest import Spoken
from tests.etcd.etcd_process import EtcdProcess
from wharfinger.errors import LeaseLost, RequestTooLarge, UsageError
from wharfinger.etcd.etcd import EtcdStore
from wharfinger.etcd.store import Compare, Delete, Get, KeyValue, Operation, Put, Store, TxnResult, Unmoved
from wharfinger.testing.memory_store import MemoryStore


async def test_a_transaction_writes_all_its_keys_at_one_revision(world: World) -> None:
    result = await world.store.txn((), [Put(world.key("a"), b"1"), Put(world.key("b"), b"2")])

    listed = await world.list_all()
    assert result.succeeded
    assert [kv.mod_revision for kv in listed] == [result.revision, result.revision]


@pytest.mark.parametrize("target", ["mod", "create"])
async def test_a_compare_holds_only_for_the_exact_revision(world: World, target: str) -> None:
    key = world.key("a")
    created = await world.store.put(key, b"1")
    changed = await world.store.put(key, b"2")
    exact = changed if target == "mod" else created

    wrong = await world.store.txn([Compare(key, target, exact + 7)], [Put(key, b"no")])
    right = await world.store.txn([Compare(key, target, exact)], [Put(key, b"yes")])

    read = await world.store.get(key)
    assert (wrong.succeeded, right.succeeded) == (False, True)
    assert read.kv is not None
    assert read.kv.value == b"yes"


@pytest.mark.parametrize("target", ["mod", "create"])
async def test_revision_zero_means_that_the_key_must_not_exist(world: World, target: str) -> None:
    key = world.key("a")
    first = await world.store.txn([Compare(key, target, 0)], [Put(key, b"1")])
    second = await world.store.txn([Compare(key, target, 0)], [Put(key, b"2")])
    await world.store.delete(key)
    third = await world.store.txn([Compare(key, target, 0)], [Put(key, b"3")])

    assert [first.succeeded, second.succeeded, third.succeeded] == [True, False, True]


async def test_a_prefix_is_unmoved_while_none_of_its_keys_was_written_later(world: World) -> None:
    """Keys beside the prefix do not count, nor do deletes; an empty prefix has not moved."""

    async def unmoved(revision: int) -> bool:
        return (await world.store.txn([Unmoved(world.key("bound/"), revision)], [])).succeeded

    assert await unmoved(1)
    await world.store.put(world.key("bound/a"), b"")
    newest = await world.store.put(world.key("bound/b"), b"")
    await world.store.put(world.key("boundary"), b"")

    assert not await unmoved(newest - 1)
    assert await unmoved(newest)
    await world.store.delete(world.key("bound/b"))
    assert await unmoved(newest - 1)


async def test_one_compare_that_fails_fails_them_all_and_the_other_branch_runs(world: World) -> None:
    revision = await world.store.put(world.key("a"), b"1")

    result = await world.store.txn(
        [Compare(world.key("a"), "mod", revision), Compare(world.key("b"), "mod", revision)],
        [Put(world.key("a"), b"success")],
        [Get(world.key("a")), Get(world.key("b")), Put(world.key("c"), b"failure")],
    )

    assert not result.succeeded
    assert result.revision == revision + 1
    assert [kv.value if kv else None for kv in result.reads] == [b"1", None]
    assert [kv.value for kv in await world.list_all()] == [b"1", b"failure"]


async def test_reads_keep_their_order_and_see_the_writes_before_them(world: World) -> None:
    key = world.key("a")
    result = await world.store.txn(
        (), [Get(key), Put(key, b"1"), Get(key), Delete(world.key("b")), Get(world.key("b"))]
    )

    written = KeyValue(key, b"1", result.revision, result.revision)
    assert result.reads == (None, written, None)


async def test_a_transaction_that_changes_nothing_makes_no_revision(world: World) -> None:
    revision = await world.store.put(world.key("a"), b"1")

    read = await world.store.txn((), [Get(world.key("a"))])
    deleted = await world.store.txn((), [Delete(world.key("missing"))])

    assert (read.revision, deleted.revision) == (revision, revision)


@pytest.mark.parametrize("twice", ["put put", "put delete", "delete put"])
async def test_a_key_is_written_once_in_a_transaction(world: World, twice: str) -> None:
    operations: dict[str, Operation] = {"put": Put(world.key("a"), b""), "delete": Delete(world.key("a"))}

    with pytest.raises(UsageError):
        await world.store.txn((), [operations[name] for name in twice.split()])
    assert await world.list_all() == []


async def test_the_two_branches_may_write_the_same_key(world: World) -> None:
    result = await world.store.txn((), [Put(world.key("a"), b"1")], [Put(world.key("a"), b"2")])

    assert result.succeeded


async def test_more_operations_than_allowed_are_too_large(world: World) -> None:
    operations = [Put(world.key(f"{number}"), b"") for number in range(129)]

    with pytest.raises(RequestTooLarge):
        await world.store.txn((), operations)
    assert (await world.store.txn((), operations[:128])).succeeded


async def test_a_value_beyond_the_limit_is_too_large(world: World) -> None:
    with pytest.raises(RequestTooLarge):
        await world.store.put(world.key("a"), b"x" * 1_572_864)
    with pytest.raises(RequestTooLarge):
        await world.store.txn((), [Put(world.key(f"{number}"), b"x" * 900_000) for number in range(3)])
    assert await world.list_all() == []


async def test_a_lease_that_is_not_there_cannot_be_used(world: World) -> None:
    with pytest.raises(LeaseLost):
        await world.store.put(world.key("a"), b"", lease=4711)
    assert await world.list_all() == []


async def test_a_compare_of_something_else_is_refused(world: World) -> None:
    with pytest.raises(UsageError):
        await world.store.txn([Compare(world.key("a"), "version", 1)], [])


def _some_transaction(
    rng: random.Random, base: int, known: int
) -> tuple[list[Compare], list[Operation], list[Operation]]:
    keys = [f"/alike/{name}" for name in "abcd"]

    def operations() -> list[Operation]:
        made: list[Operation] = []
        for key in rng.sample(keys, rng.randint(0, 4)):
            kind = rng.random()
            made.append(Put(key, rng.randbytes(3)) if kind < 0.5 else Delete(key) if kind < 0.75 else Get(key))
        return made

    compares = [
        Compare(key, rng.choice(["mod", "create"]), rng.choice([0, base + rng.randint(1, max(1, known))]))
        for key in rng.sample(keys, rng.choice([0, 0, 1, 2]))
    ]
    return compares, operations(), operations()


def _relative(kv: KeyValue | None, base: int) -> tuple[object, ...] | None:
    if kv is None:
        return None
    created = kv.create_revision - base if kv.create_revision else 0  # a deleted key has none
    return kv.key, kv.value, created, kv.mod_revision - base


async def test_stores_answer_the_same_to_two_hundred_transactions(steady_etcd: EtcdProcess, spoken: Spoken) -> None:
    """The fake is worth as much as it agrees with etcd: answers, old states and events are compared."""
    etcd = EtcdStore(spoken.of(steady_etcd))
    for name in "abcd":
        await etcd.delete(f"/alike/{name}")
    memory = MemoryStore()
    for _ in range(7):
        await memory.put("/so-that-revisions-differ", b"")
    stores: tuple[Store, Store] = (etcd, memory)
    bases = [(await store.get("/alike/")).revision for store in stores]

    async def answers(store: Store, base: int) -> list[object]:
        rng = random.Random(4)
        seen: list[object] = []
        known = 0
        for _ in range(200):
            result: TxnResult = await store.txn(*_some_transaction(rng, base, known))
            known = result.revision - base
            seen.append((result.succeeded, known, [_relative(kv, base) for kv in result.reads]))
        for revision in range(1, known + 1, 7):
            pages = store.list("/alike/", revision=base + revision, page_size=3)
            seen += [[_relative(kv, base) for kv in page.items] async for page in pages]
        async with store.watch("/alike/", base + 1, previous=True) as batches:
            async for batch in batches:
                seen += [(_relative(e.kv, base), e.deleted, _relative(e.previous, base)) for e in batch.events]
                if batch.revision >= base + known:
                    break
        return seen

    by_etcd, by_memory = [await answers(store, base) for store, base in zip(stores, bases, strict=True)]
    await etcd.close()

    assert by_etcd == by_memory
