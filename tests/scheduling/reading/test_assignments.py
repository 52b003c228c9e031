"""The stream of assignments: exact from a revision, through lost connections, compaction and slow consumers."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any

import pytest

from tests.etcd.conftest import StartEtcd, start_etcd
from tests.patience import patient
from wharfinger.client import Assignment
from wharfinger.errors import AccessDenied, Compacted, RevisionFuture, RevisionWentBack
from wharfinger.etcd import keys
from wharfinger.etcd.etcd import EtcdStore
from wharfinger.etcd.store import Page, Put, Store
from wharfinger.scheduling.reading.assignments import watch_assignments
from wharfinger.settings import EtcdSettings
from wharfinger.testing.memory_store import MemoryStore

__all__ = ["start_etcd"]


def pod(name: str, node: str = "", uid: str = "", **more: Any) -> bytes:
    """A stored pod, bound by a run of ours where it has a node."""
    metadata = {"namespace": "default", "name": name, "uid": uid or f"uid-{name}"}
    if node:
        metadata["annotations"] = {"wharfinger.dev/attempt": f"wharfinger/pod/default/{name}/uid-{name}@run-{name}"}
    return json.dumps({"metadata": metadata, "spec": {"nodeName": node} if node else {}, **more}).encode()


async def put(store: Store, name: str, node: str = "", **more: Any) -> int:
    return await store.put(keys.pod("default", name), pod(name, node, **more))


async def bind(store: Store, name: str, node: str = "node-1", **more: Any) -> int:
    """Create the pod, then bind it; the revision of the bind."""
    await put(store, name, **more)
    return await put(store, name, node, **more)


async def take(stream: Any, count: int) -> list[Assignment]:
    """The next ones."""
    async with asyncio.timeout(patient(10)):
        return [await anext(stream) for _ in range(count)]


def names(found: list[Assignment]) -> list[str]:
    return [one.name for one in found]


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


async def test_an_assignment_names_the_pod_the_node_the_attempt_and_the_revision(store: MemoryStore) -> None:
    revision = await bind(store, "web")

    async with aclosing(watch_assignments(store, 1)) as stream:
        assert await take(stream, 1) == [
            Assignment(
                namespace="default",
                name="web",
                uid="uid-web",
                node="node-1",
                workflow_id="wharfinger/pod/default/web/uid-web",
                run_id="run-web",
                revision=revision,
                complete=True,
            )
        ]


async def test_a_pod_that_another_scheduler_bound_names_no_attempt(store: MemoryStore) -> None:
    await store.put(keys.pod("default", "web"), b'{"metadata": {"name": "web"}, "spec": {"nodeName": "node-1"}}')

    async with aclosing(watch_assignments(store, 0)) as stream:
        [found] = await take(stream, 1)

    assert (found.uid, found.workflow_id, found.run_id) == ("rev-2", "", "")


async def test_a_stream_from_now_on_leaves_out_what_is_bound_already(store: MemoryStore) -> None:
    await bind(store, "old")
    opened = asyncio.Event()

    class Announcing(MemoryStore):
        def watch(self, *arguments: Any, **more: Any) -> Any:
            opened.set()
            return store.watch(*arguments, **more)

        def list(self, *arguments: Any, **more: Any) -> Any:
            return store.list(*arguments, **more)

    stream = watch_assignments(Announcing())
    first = asyncio.create_task(take(stream, 1))
    await opened.wait()
    await put(store, "old", "node-1", status={"phase": "Running"})
    await bind(store, "new")

    assert names(await first) == ["new"]
    await stream.aclose()


async def test_a_stream_from_zero_reports_what_is_bound_and_goes_on(store: MemoryStore) -> None:
    await bind(store, "a")
    await bind(store, "b")
    await put(store, "pending")
    async with aclosing(watch_assignments(store, 0)) as stream:
        listed = await take(stream, 2)
        await put(store, "pending", "node-2")
        after = await take(stream, 1)

    assert (names(listed), names(after)) == (["a", "b"], ["pending"])
    assert [one.complete for one in listed] == [False, True]
    assert {one.revision for one in listed} == {after[0].revision - 1}


async def test_stream_from_a_revision_reports_each_later_binding_once(store: MemoryStore) -> None:
    await bind(store, "before")
    revision = await bind(store, "at")
    await put(store, "before", "node-1", status={"phase": "Running"})
    await put(store, "at", "node-1", status={"phase": "Running"})
    await bind(store, "after")

    async with aclosing(watch_assignments(store, revision)) as stream:
        assert names(await take(stream, 2)) == ["at", "after"]


async def test_the_next_life_of_a_name_is_another_assignment(store: MemoryStore) -> None:
    await bind(store, "web")
    await store.delete(keys.pod("default", "web"))
    await bind(store, "web", "node-2", uid="second")

    async with aclosing(watch_assignments(store, 1)) as stream:
        assert [(one.node, one.uid) for one in await take(stream, 2)] == [("node-1", "uid-web"), ("node-2", "second")]


async def test_pods_of_one_transaction_share_a_revision_and_the_last_is_marked(store: MemoryStore) -> None:
    puts = [Put(keys.pod("default", name), pod(name, "node-1")) for name in ("a", "b", "c")]
    revision = (await store.txn([], puts)).revision

    async with aclosing(watch_assignments(store, 1)) as stream:
        found = await take(stream, 3)
    assert [(one.name, one.revision, one.complete) for one in found] == [
        ("a", revision, False),
        ("b", revision, False),
        ("c", revision, True),
    ]


async def test_what_is_no_pod_is_passed_over(store: MemoryStore) -> None:
    await store.put(keys.pod("default", "a"), b"[1, 2")
    await store.put(keys.pod("default", "b"), b'{"spec": []}')
    await store.put(keys.pod("default", "c"), b'{"spec": {"nodeName": 7}}')
    await bind(store, "web")

    async with aclosing(watch_assignments(store, 1)) as stream:
        assert names(await take(stream, 1)) == ["web"]


async def test_after_compaction_each_life_still_comes_once(store: MemoryStore) -> None:
    """Steps: the stream has reported `kept` and `seen`; while its watch stands still, etcd changes and forgets."""
    await put(store, "pending")
    client = store.client()
    stream = watch_assignments(client, 0)
    await bind(store, "kept")
    await bind(store, "seen")
    assert names(await take(stream, 2)) == ["kept", "seen"]
    waiting = asyncio.create_task(take(stream, 3))
    await asyncio.sleep(0)
    client.pause_watches()
    await put(store, "kept", "node-1", status={"phase": "Running"})
    await put(store, "seen", "node-1", status={"phase": "Running"})
    await put(store, "pending", "node-2")
    await bind(store, "fresh")
    await bind(store, "gone")
    await store.delete(keys.pod("default", "gone"))
    await store.delete(keys.pod("default", "seen"))
    await bind(store, "seen", "node-3", uid="second")
    store.compact(store.revision)
    client.resume_watches()

    found = await waiting

    assert sorted((one.name, one.node) for one in found) == [
        ("fresh", "node-1"),
        ("pending", "node-2"),
        ("seen", "node-3"),
    ]
    await bind(store, "later")
    assert names(await take(stream, 1)) == ["later"]
    await stream.aclose()


async def test_start_behind_a_compaction_is_an_error_with_the_remedy(store: MemoryStore) -> None:
    revision = await bind(store, "web")
    await bind(store, "other")
    store.compact(store.revision)

    with pytest.raises(Compacted, match="which of the bound pods are new cannot be known: start with from_revision=0"):
        await take(watch_assignments(store, revision), 1)


async def test_stream_from_the_first_revision_needs_no_compacted_revisions(store: MemoryStore) -> None:
    await bind(store, "web")
    await bind(store, "other")
    store.compact(store.revision)

    async with aclosing(watch_assignments(store, 1)) as stream:
        assert names(await take(stream, 2)) == ["other", "web"]


@pytest.mark.parametrize("times", [2, 100])
async def test_a_list_that_etcd_compacts_while_it_is_read_is_begun_again(times: int) -> None:
    class Compacting(MemoryStore):
        async def list(self, prefix: str, **more: Any) -> AsyncIterator[Page]:
            nonlocal times
            async for page in super().list(prefix, **{**more, "page_size": 1}):
                yield page
                times -= 1
                if times >= 0:
                    raise Compacted("compacted in the middle")

    store = Compacting()
    await bind(store, "a")
    await bind(store, "b")
    if times == 2:
        async with aclosing(watch_assignments(store, 0)) as stream:
            assert names(await take(stream, 2)) == ["a", "b"]
    else:
        with pytest.raises(Compacted):
            await take(watch_assignments(store, 0), 1)


async def test_a_list_that_fails_after_compaction_is_tried_again(store: MemoryStore) -> None:
    client = store.client()
    stream = watch_assignments(client, 0, rng=random.Random(1))
    await bind(store, "a")
    assert names(await take(stream, 1)) == ["a"]
    waiting = asyncio.create_task(take(stream, 1))
    await asyncio.sleep(0)
    client.pause_watches()
    await bind(store, "b")
    store.compact(store.revision)
    client.fail_reads(2)
    client.resume_watches()

    assert names(await waiting) == ["b"]
    await stream.aclose()


async def test_a_restored_backup_ends_the_stream_with_its_own_error(store: MemoryStore) -> None:
    client = store.client()
    revision = await bind(store, "a")
    await bind(store, "b")
    stream = watch_assignments(client, 1)
    await take(stream, 2)
    store.restore(revision - 1)

    with pytest.raises(RevisionWentBack):
        await take(stream, 1)


async def test_a_revision_that_does_not_exist_yet_is_refused(store: MemoryStore) -> None:
    with pytest.raises(RevisionFuture):
        await take(watch_assignments(store, 50), 1)


async def test_a_refused_watch_ends_the_stream(store: MemoryStore) -> None:
    class Refusing(MemoryStore):
        def watch(self, *_: Any, **__: Any) -> Any:
            raise AccessDenied("permission denied")

    with pytest.raises(AccessDenied):
        await take(watch_assignments(Refusing(), 0), 1)


async def test_closing_the_stream_closes_its_watch(store: MemoryStore) -> None:
    stream = watch_assignments(store, 0)
    await bind(store, "a")
    await take(stream, 1)
    await stream.aclose()
    await bind(store, "b")

    with pytest.raises(StopAsyncIteration):
        await anext(stream)


async def test_a_closed_store_ends_the_stream(store: MemoryStore) -> None:
    client = store.client()
    stream = watch_assignments(client, 0)
    await bind(store, "a")
    await take(stream, 1)
    await client.close()

    with pytest.raises(StopAsyncIteration):
        await anext(stream)


async def test_random_lives_with_compactions_are_reported_once_each(store: MemoryStore) -> None:
    """Whatever is alive and bound at the end was reported once; nothing was reported twice."""
    rng = random.Random(20261123)
    client = store.client()
    reported: list[tuple[str, str]] = []

    async def consume() -> None:
        async for one in watch_assignments(client, 0, rng=rng):
            life = (one.name, one.uid)
            reported.append(life)

    task = asyncio.create_task(consume())
    lives: dict[str, str] = {}
    compacted = 0
    for turn in range(400):
        name = f"p{rng.randrange(12)}"
        match rng.randrange(6):
            case 0 if name in lives:
                await store.delete(keys.pod("default", name))
                del lives[name]
            case 1 | 2 if name not in lives:
                lives[name] = f"uid-{turn}"
                await put(store, name, uid=lives[name])
            case 3 | 4 if name in lives:
                await put(store, name, "node-1", uid=lives[name], status={"turn": turn})
            case 5 if turn % 3 == 0:
                client.pause_watches()
            case _:
                if rng.random() < 0.3 and store.revision > compacted:
                    compacted = store.revision
                    store.compact(compacted)
                client.resume_watches()
    client.resume_watches()
    for name, uid in lives.items():
        await put(store, name, "node-1", uid=uid)
    async with asyncio.timeout(patient(10)):
        while not set(lives.items()) <= set(reported):
            await asyncio.sleep(0)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)

    assert len(reported) == len(set(reported))
    assert set(lives.items()) <= set(reported)


async def test_a_real_etcd_that_dies_and_forgets_loses_no_assignment(start_etcd: StartEtcd) -> None:
    """Steps: etcd is killed and comes back while the stream waits; later it compacts while the stream is stopped."""
    etcd = start_etcd()
    writer = await EtcdStore.connect(etcd.settings)
    reader = await EtcdStore.connect(EtcdSettings(endpoints=(etcd.url,), watch_idle=2.0))
    try:
        stream = watch_assignments(reader, 0)
        await bind(writer, "first")
        assert names(await take(stream, 1)) == ["first"]
        waiting = asyncio.create_task(take(stream, 1))
        etcd.kill()
        await asyncio.to_thread(etcd.start)
        await bind(writer, "second")
        assert names(await waiting) == ["second"]
        waiting = asyncio.create_task(take(stream, 2))
        etcd.kill()
        await asyncio.to_thread(etcd.start)
        await put(writer, "first", "node-1", status={"phase": "Running"})
        await bind(writer, "third")
        last = await bind(writer, "fourth")
        await asyncio.to_thread(etcd.compact, last)
        assert sorted(names(await waiting)) == ["fourth", "third"]
        await stream.aclose()
    finally:
        await reader.close()
        await writer.close()
