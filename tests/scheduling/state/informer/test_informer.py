"""Lists and watches: nothing is lost, nothing stops, and a revision is never seen by halves."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator

import pytest

from tests.patience import patient
from tests.scheduling.stage import Stage, node_bytes, pod_bytes
from wharfinger.errors import RevisionWentBack, Unavailable
from wharfinger.etcd import keys
from wharfinger.etcd.store import Delete, Page, Put
from wharfinger.objects.model.pod import PodKey
from wharfinger.scheduling.state.informer.changes import Changes
from wharfinger.scheduling.state.queue.entry import Part


def invalid(stage: Stage, kind: str) -> float:
    return stage.metrics.invalid_objects.labels(kind)._value.get()  # type: ignore[no-any-return]


async def test_what_is_listed_and_what_is_watched_is_in_the_cache() -> None:
    stage = Stage()
    await stage.put_node("before")
    async with stage:
        await stage.put_node("after")
        await stage.bind("p", "after")
        await stage.caught_up()

        assert set(stage.cache.nodes) == {"before", "after"}
        assert stage.cache.pods[PodKey("default", "p")].node_name == "after"
        assert stage.cache.bindings["after"] == stage.cache.progress.revision


async def test_a_subscriber_to_a_kind_that_no_change_has_is_refused() -> None:
    class Misspelt:
        follows = ("pod",)

        def apply(self, changes: Changes) -> None:
            """Never called."""

    async with Stage() as stage:
        with pytest.raises(ValueError, match="Misspelt follows"):
            stage.loops.scheduling.subscribe([Misspelt()], [])


async def test_the_events_of_one_revision_arrive_together() -> None:
    seen: list[Changes] = []

    class Witness:
        follows = None

        def apply(self, changes: Changes) -> None:
            assert stage.cache.progress.revision < changes.revision
            seen.append(changes)

    async with Stage() as stage:
        stage.loops.scheduling.informer._subscribers.append(Witness())  # type: ignore[attr-defined]
        await stage.store.txn(
            [],
            [
                Put(keys.pod("default", "p"), pod_bytes("p", node="n")),
                Put(keys.binding("n"), b"{}"),
                Put(keys.node("n"), node_bytes("n")),
            ],
        )
        await stage.caught_up()

        assert [(len(one.pods), len(one.nodes)) for one in seen if one.pods or one.nodes] == [(1, 1)]


async def test_an_invalid_object_is_reported_once_and_stops_nothing(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    stage = Stage()
    await stage.store.put(keys.pod("default", "bad"), b"no json at all")
    await stage.store.put(keys.pod("default", "other-name"), pod_bytes("p"))
    await stage.store.put(keys.PODS + "no-namespace", b"{}")
    await stage.store.put(keys.node("list"), b"[1, 2]")
    async with stage:
        await stage.store.put(keys.pod("default", "bad"), b"no json at all")
        await stage.put_pod("good")
        await stage.until(lambda: stage.attempts.names == ["good"])

        assert invalid(stage, "pod") == 3
        assert invalid(stage, "node") == 1
        assert len([r for r in caplog.records if "default/bad" in r.getMessage()]) == 1

        await stage.put_pod("bad")
        await stage.caught_up()

        assert invalid(stage, "pod") == 2
        assert PodKey("default", "bad") in stage.queue


async def test_a_bound_pod_that_turns_unreadable_still_counts_on_its_node() -> None:
    async with Stage() as stage:
        await stage.bind("p", "n")
        await stage.store.put(keys.pod("default", "p"), b"{")
        await stage.caught_up()

        assert stage.cache.pods[PodKey("default", "p")].node_name == "n"

        await stage.store.delete(keys.pod("default", "p"))
        await stage.caught_up()

        assert PodKey("default", "p") not in stage.cache.pods
        assert invalid(stage, "pod") == 0


async def test_a_bound_pod_that_never_was_readable_counts_with_what_can_be_read() -> None:
    stage = Stage()
    manifest = json.loads(pod_bytes("p"))
    manifest["spec"] |= {"nodeName": "n", "tolerations": 3}
    await stage.store.put(keys.pod("default", "p"), json.dumps(manifest).encode())
    async with stage:
        await stage.caught_up()

        assert invalid(stage, "pod") == 1
        assert stage.cache.pods[PodKey("default", "p")].node_name == "n"
        assert stage.part("p") is None


async def test_a_pending_pod_that_turns_unreadable_is_absent() -> None:
    async with Stage() as stage:
        await stage.put_pod("p")
        await stage.until(lambda: stage.part("p"))
        await stage.store.put(keys.pod("default", "p"), b"{")
        await stage.caught_up()

        assert stage.part("p") is None
        assert PodKey("default", "p") not in stage.cache.pods


async def test_after_a_compaction_the_difference_becomes_ordinary_events() -> None:
    async with Stage() as stage:
        await stage.put_node("stays")
        await stage.put_node("goes")
        await stage.waiting("deleted")
        await stage.put_pod("recreated")
        await stage.caught_up()
        old = stage.cache.pods[PodKey("default", "recreated")].create_revision
        stage.loops.scheduling.informer._store.pause_watches()  # type: ignore[attr-defined]
        await stage.store.delete(keys.node("goes"))
        await stage.store.delete(keys.pod("default", "deleted"))
        await stage.store.delete(keys.pod("default", "recreated"))
        await stage.put_pod("recreated")
        await stage.put_pod("new")
        stage.store.compact(stage.store.revision)
        stage.loops.scheduling.informer._store.resume_watches()  # type: ignore[attr-defined]
        await stage.caught_up()

        assert set(stage.cache.nodes) == {"stays"}
        assert set(stage.queue) == {PodKey("default", "recreated"), PodKey("default", "new")}
        assert stage.cache.pods[PodKey("default", "recreated")].create_revision > old
        assert stage.attempts.woken_names == ["deleted"]
        assert stage.metrics.relists.labels("compacted")._value.get() == 1


async def test_listed_nodes_stand_in_the_order_in_which_they_appeared() -> None:
    stage = Stage()
    for name in ("z", "a", "m"):
        await stage.put_node(name)
    async with stage:
        await stage.put_node("b")
        await stage.caught_up()

        assert list(stage.cache.nodes) == ["z", "a", "m", "b"]


async def test_pods_of_the_first_list_start_in_their_order_of_creation() -> None:
    stage = Stage()
    await stage.put_node("n")
    for name in ("z", "a", "m"):
        await stage.put_pod(name)
    async with stage:
        await stage.caught_up()

        assert [cohort.names for cohort in stage.attempts.cohorts] == [["z", "a", "m"]]


async def test_interrupted_first_list_loses_nothing_and_applies_at_once() -> None:
    """Pages are taken in as they come; what they showed is told when the list is complete, after however many tries."""
    stage = Stage()
    for name in ("changes", "gone", "stays", "still"):
        await stage.put_pod(name)
    await stage.put_node("n")
    informer = stage.loops.scheduling.informer
    informer._page_size = 2
    store, told = informer._store, list[Changes]()
    plain = store.list

    async def breaking(prefix: str, *, page_size: int) -> AsyncIterator[Page]:
        store.list = plain  # type: ignore[method-assign]
        pages = 0
        async for page in plain(prefix, page_size=page_size):
            yield page
            pages += 1
            if pages == 2:
                assert PodKey("default", "gone") in stage.cache.pods
                assert not told
                await stage.store.delete(keys.pod("default", "gone"))
                await stage.bind("changes", "n")
                await stage.put_pod("new")
                raise Unavailable("the connection broke")

    class Witness:
        follows = None

        def apply(self, changes: Changes) -> None:
            told.append(changes)

    store.list = breaking  # type: ignore[method-assign]
    informer._subscribers.append(Witness())  # type: ignore[attr-defined]
    async with stage:
        await stage.caught_up()

        assert told[0].listed
        assert [change.name for change in told[0].nodes] == ["n"]
        assert set(stage.cache.pods) == {PodKey("default", name) for name in ("changes", "stays", "still", "new")}
        assert stage.cache.pods[PodKey("default", "changes")].node_name == "n"
        assert [cohort.names for cohort in stage.attempts.cohorts] == [["stays", "still", "new"]]


async def test_a_store_restored_from_a_backup_ends_the_loops() -> None:
    """What we know never was, as the store has it now: no worker may go on with it."""
    stage = Stage()
    await stage.put_node("a")
    running = asyncio.create_task(stage.loops.run(asyncio.Event()))
    for number in range(5):
        await stage.put_node(f"n{number}")
    await stage.until(lambda: len(stage.cache.nodes) == 6)
    stage.store.restore(2)

    with pytest.raises(RevisionWentBack):
        await asyncio.wait_for(running, patient(20))


@pytest.mark.parametrize("lost", ["a key", "a version known from our own transaction"])
async def test_restored_store_ends_the_loops_if_something_known_was_lost(lost: str) -> None:
    """Revisions go on, so nothing else would tell: binds would compare what never was, for ever."""
    stage = Stage()
    await stage.put_node("a")
    saved = await stage.store.put(keys.binding("a"), b"{}")
    running = asyncio.create_task(stage.loops.run(asyncio.Event()))
    await stage.until(lambda: stage.cache.bindings["a"] == saved)
    if lost == "a key":
        await stage.put_node("a", cpu="8")
        await stage.until(lambda: stage.cache.nodes["a"].allocatable["cpu"] == 8000)
    else:
        stage.cache.bindings.set("a", saved + 1)
    stage.store.restore(saved, bump=1000)

    with pytest.raises(RevisionWentBack, match="nodes/a" if lost == "a key" else "bindings/a"):
        await asyncio.wait_for(running, patient(20))


async def test_restored_store_is_followed_if_only_new_keys_were_lost() -> None:
    async with Stage() as stage:
        await stage.put_node("a")
        await stage.waiting("p")
        saved = stage.store.revision
        await stage.put_node("lost")
        await stage.store.delete(keys.pod("default", "p"))
        await stage.until(lambda: stage.part("p") is None)
        stage.store.restore(saved, bump=1000)
        await stage.caught_up()

        assert set(stage.cache.nodes) == {"a"}
        assert stage.part("p") is Part.WAITING


async def test_records_and_bindings_without_an_object_are_removed_when_listed() -> None:
    stage = Stage()
    await stage.put_node("n")
    await stage.store.put(keys.binding("n"), b"{}")
    await stage.store.put(keys.binding("gone"), b"{}")
    await stage.put_pod("p")
    await stage.refuse("p")
    await stage.put_pod("gone")
    await stage.refuse("gone")
    await stage.store.delete(keys.pod("default", "gone"))
    async with stage:
        await stage.until(lambda: keys_of(stage) == {keys.binding("n"), keys.attempt("default", "p")})

        assert "gone" in stage.attempts.woken_names


async def test_versions_of_a_namespace_are_removed_with_its_last_pod() -> None:
    stage = Stage()
    await stage.put_pod("p")
    for name in ("default", "gone"):
        await stage.store.put(keys.bound(name), b"{}")
        await stage.store.put(keys.terms(name), b"{}")
    await stage.store.put(keys.terms("*"), b"{}")
    async with stage:
        await stage.until(lambda: set(stage.loops.scheduling.view.versions[keys.TERMS]) == {"default", "*"})
        await stage.until(lambda: set(stage.loops.scheduling.view.versions[keys.BOUND]) == {"default"})

        assert stage.cache.terms["gone"] == stage.cache.bound["gone"] == 0


def keys_of(stage: Stage) -> set[str]:
    found = [keys.attempt(*key) for key in stage.loops.scheduling.view.records]
    return {*found, *(keys.binding(name) for name in stage.loops.scheduling.view.versions[keys.BINDINGS])}


async def test_delete_and_put_of_keys_in_one_revision_are_one_change() -> None:
    async with Stage() as stage:
        await stage.put_node("a")
        await stage.store.txn([], [Delete(keys.node("a")), Put(keys.node("b"), node_bytes("b"))])
        await stage.caught_up()

        assert set(stage.cache.nodes) == {"b"}
