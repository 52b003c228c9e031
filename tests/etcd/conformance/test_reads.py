from __future__ import annotations

import pytest

from tests.etcd.conformance.conftest import World
from wharfinger.errors import Compacted, RevisionFuture, UsageError
from wharfinger.etcd.store import Put


async def test_missing_key_reads_as_none_with_the_revision(world: World) -> None:
    revision = await world.store.put(world.key("other"), b"")

    read = await world.store.get(world.key("missing"))

    assert read.kv is None
    assert read.revision == revision


async def test_a_key_keeps_its_create_revision_until_it_is_deleted(world: World) -> None:
    key = world.key("a")
    created = await world.store.put(key, b"1")
    changed = await world.store.put(key, b"2")
    before = (await world.store.get(key)).kv
    await world.store.delete(key)
    again = await world.store.put(key, b"3")
    after = (await world.store.get(key)).kv

    assert before is not None
    assert after is not None
    assert (before.value, before.create_revision, before.mod_revision) == (b"2", created, changed)
    assert (after.create_revision, after.mod_revision) == (again, again)


async def test_delete_returns_whether_the_key_existed(world: World) -> None:
    await world.store.put(world.key("a"), b"1")

    assert await world.store.delete(world.key("a"))
    assert not await world.store.delete(world.key("a"))


@pytest.mark.parametrize("value", [b"", b"\x00\xff", b"x" * 1_500_000], ids=["empty", "binary", "1.5 MB"])
async def test_values_come_back_as_they_were(world: World, value: bytes) -> None:
    await world.store.put(world.key("a"), value)

    read = await world.store.get(world.key("a"))

    assert read.kv is not None
    assert read.kv.value == value


async def test_keys_that_are_no_utf8_can_be_written_listed_and_deleted(world: World) -> None:
    odd = world.key("") + b"\xff\xfe/\xc3".decode("utf-8", "surrogateescape")
    await world.store.put(odd, b"odd")

    listed = await world.list_all()

    assert [kv.key for kv in listed] == [odd]
    assert await world.store.delete(odd)


async def test_an_empty_key_is_refused(world: World) -> None:
    with pytest.raises(UsageError):
        await world.store.get("")
    with pytest.raises(UsageError):
        await world.store.put("", b"1")


async def test_a_read_at_an_old_revision_shows_the_old_state(world: World) -> None:
    key = world.key("a")
    first = await world.store.put(key, b"1")
    await world.store.delete(key)
    last = await world.store.put(key, b"2")

    old = await world.store.get(key, revision=first)
    between = await world.store.get(key, revision=first + 1)

    assert old.kv is not None
    assert old.kv.value == b"1"
    assert old.revision == last
    assert between.kv is None


async def test_a_revision_that_does_not_exist_yet_is_refused(world: World) -> None:
    revision = await world.store.put(world.key("a"), b"1")

    with pytest.raises(RevisionFuture):
        await world.store.get(world.key("a"), revision=revision + 1)


async def test_what_was_compacted_is_refused_and_the_rest_stays(world: World) -> None:
    key = world.key("a")
    first = await world.store.put(key, b"1")
    second = await world.store.put(key, b"2")
    await world.store.put(key, b"3")
    world.compact(second)

    kept = await world.store.get(key, revision=second)

    assert kept.kv is not None
    assert kept.kv.value == b"2"
    with pytest.raises(Compacted):
        await world.store.get(key, revision=first)
    with pytest.raises(Compacted):
        await world.list_all(revision=first)


async def test_a_list_of_nothing_is_one_empty_page(world: World) -> None:
    revision = await world.store.put("/elsewhere", b"")

    pages = [page async for page in world.store.list(world.prefix)]

    assert [page.items for page in pages] == [()]
    assert pages[0].revision == revision


async def test_a_list_is_in_the_order_of_bytes_and_stops_at_its_prefix(world: World) -> None:
    odd = b"\x80".decode("utf-8", "surrogateescape")
    names = ["a", "a/b", "b", "\u00e9", "\uffee", "\U0001f600", odd]
    for name in reversed(names):
        await world.store.put(world.key("in/" + name), b"")
    await world.store.put(world.key("in0"), b"behind")
    await world.store.put(world.key("in."), b"before")

    listed = await world.list_all(world.key("in/"), page_size=2)

    expected = sorted(names, key=lambda name: name.encode("utf-8", "surrogateescape"))
    assert [kv.key.removeprefix(world.key("in/")) for kv in listed] == expected


async def test_a_prefix_may_end_in_the_highest_byte(world: World) -> None:
    high = b"\xff".decode("utf-8", "surrogateescape")
    await world.store.put(world.key("a") + high + "x", b"in")
    await world.store.put(world.key("b"), b"out")

    listed = await world.list_all(world.key("a") + high)

    assert [kv.value for kv in listed] == [b"in"]


@pytest.mark.parametrize("page_size", [1, 3, 9, 10, 11])
async def test_all_pages_of_a_list_show_one_revision_while_keys_change(world: World, page_size: int) -> None:
    await world.store.txn((), [Put(world.key(f"{number}"), b"old") for number in range(10)])
    writer = world.client()

    seen: list[tuple[str, bytes]] = []
    revisions = set()
    async for page in world.store.list(world.prefix, page_size=page_size):
        revisions.add(page.revision)
        seen += [(kv.key, kv.value) for kv in page.items]
        for number in range(10):
            await writer.put(world.key(f"{number}"), b"new")
        await writer.delete(world.key("9"))
        await writer.put(world.key("99"), b"new")

    assert seen == [(world.key(f"{number}"), b"old") for number in range(10)]
    assert len(revisions) == 1


async def test_a_list_at_an_old_revision_shows_the_old_state(world: World) -> None:
    await world.store.put(world.key("a"), b"1")
    old = await world.store.put(world.key("b"), b"1")
    await world.store.delete(world.key("a"))
    await world.store.put(world.key("c"), b"1")

    listed = await world.list_all(revision=old, page_size=1)

    assert [kv.key for kv in listed] == [world.key("a"), world.key("b")]


async def test_a_compaction_in_the_middle_of_a_list_ends_it(world: World) -> None:
    for number in range(4):
        await world.store.put(world.key(f"{number}"), b"")

    async def read_and_compact() -> None:
        async for _ in world.store.list(world.prefix, page_size=2):
            world.compact(await world.store.put(world.key("x"), b""))

    with pytest.raises(Compacted):
        await read_and_compact()
