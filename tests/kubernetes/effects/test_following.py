"""Following one kind: the first list, the watch behind it, and up to where the copies are."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress

import pytest

from tests.kubernetes.api_and_store import Between, node_object, pod_object
from tests.virtual_time import VirtualTime
from wharfinger.apiserver.client import NODES, PODS, ReadRefused, revision_of
from wharfinger.errors import HistoryGone, RequestTooLarge, UpstreamUnavailable
from wharfinger.etcd import keys
from wharfinger.kubernetes.effects.adopting import NotTheImporter
from wharfinger.kubernetes.effects.copying import ApiWentBack
from wharfinger.kubernetes.effects.following import FollowedKind, KindProgress
from wharfinger.process.transactions import Limits
from wharfinger.telemetry import Metrics


class Followed(Between):
    """A kind that is followed in the background."""

    def begin_to_follow(self, *, revision: int | None = None, floor: int = 0, **copying: object) -> None:
        self.time = VirtualTime()
        self.progress = KindProgress(PODS, revision)
        self.metrics = Metrics()
        self.kind = FollowedKind(self.progress, self.api, self.copying(**copying), self.metrics, floor=floor)
        self.task = asyncio.create_task(self.kind.follow())

    async def end(self) -> None:
        self.task.cancel()
        with suppress(asyncio.CancelledError, Exception):
            await self.task

    async def names(self) -> list[str]:
        found = [kv.key async for page in self.store.list(keys.PODS) for kv in page.items]
        return [key.rpartition("/")[2] for key in found]

    def effects(self, effect: str) -> float:
        return self.metrics.kubernetes_copies.labels(kind="pods", effect=effect)._value.get()


@pytest.fixture
async def followed() -> AsyncIterator[Followed]:
    made = Followed()
    await made.begin()
    yield made
    await made.end()


async def test_a_list_copies_what_is_there_and_removes_the_rest(followed: Followed) -> None:
    await followed.add("gone")
    followed.api.remove(PODS, "gone")
    followed.api.put(PODS, pod_object("b"))
    followed.begin_to_follow()
    await followed.time.settle()
    assert await followed.names() == ["b"]
    assert followed.progress.live
    assert followed.progress.revision == followed.api.revision


async def test_a_list_writes_only_what_differs(followed: Followed) -> None:
    for name in ("a", "b"):
        await followed.add(name)
    pod = followed.api.find(PODS, "b")
    followed.api.put(PODS, {**pod, "metadata": {**pod["metadata"], "labels": {"app": "x"}}})
    before = (await followed.store.get(keys.pod("default", "a"))).kv
    followed.begin_to_follow()
    await followed.time.settle()
    assert (await followed.store.get(keys.pod("default", "a"))).kv == before
    assert (followed.effects("copied"), followed.effects("removed")) == (1, 0)


async def test_a_promise_of_a_pod_that_a_list_does_not_name_goes(followed: Followed) -> None:
    await followed.promised()
    followed.api.remove(PODS, "a")
    followed.begin_to_follow()
    await followed.time.settle()
    assert await followed.names() == []
    assert await followed.promise() is None


async def test_changes_are_taken_in_and_the_revision_follows(followed: Followed) -> None:
    followed.begin_to_follow()
    await followed.time.settle()
    pod = followed.api.put(PODS, pod_object("b"))
    await followed.time.settle()
    assert await followed.names() == ["b"]
    assert followed.progress.revision == revision_of(pod)


async def test_bookmarks_move_the_revision(followed: Followed) -> None:
    followed.begin_to_follow()
    await followed.time.settle()
    followed.api.put(NODES, node_object("n1"))
    await followed.time.settle()
    assert followed.progress.revision == followed.api.revision - 1
    followed.api.bookmark()
    await followed.time.settle()
    assert followed.progress.revision == followed.api.revision


async def test_the_revision_waits_for_what_is_not_in_etcd_yet(followed: Followed) -> None:
    followed.begin_to_follow()
    await followed.time.settle()
    before = followed.progress.revision
    written = asyncio.Event()

    async def slow(*_: object) -> None:
        await written.wait()

    followed.store.before_txn = slow
    followed.api.put(PODS, pod_object("b"))
    await followed.time.settle()
    assert followed.progress.revision == before
    written.set()
    await followed.time.settle()
    assert followed.progress.revision == followed.api.revision


async def test_a_resumed_watch_is_live_though_nothing_changed(followed: Followed) -> None:
    followed.begin_to_follow(revision=followed.api.revision)
    await followed.time.settle()
    assert followed.progress.live
    assert not followed.kind.shown


async def test_a_watch_is_not_live_before_the_api_has_answered_it(followed: Followed) -> None:
    answer = followed.api.faults.hold(verb="watch", before=True)
    followed.begin_to_follow(revision=followed.api.revision)
    await followed.time.advance(2)
    assert not followed.progress.live
    answer.open()
    await followed.time.settle()
    await followed.time.advance(0.2)
    assert followed.progress.live


async def test_states_that_have_passed_meanwhile_are_not_copied(followed: Followed) -> None:
    revision = followed.api.revision
    for name in ("bound", "deleted"):
        followed.api.put(PODS, pod_object(name))
    followed.api.put(PODS, pod_object("bound", nodeName="n1"))
    followed.api.remove(PODS, "deleted")
    before = (await followed.store.get(keys.IMPORTER)).revision
    followed.begin_to_follow(revision=revision)
    await followed.time.settle()
    assert await followed.names() == ["bound"]
    assert (await followed.store.get(keys.IMPORTER)).revision == before + 1
    assert followed.progress.revision == followed.api.revision


async def test_a_resumed_watch_that_shows_something_is_live_at_once(followed: Followed) -> None:
    revision = followed.api.revision
    followed.api.put(PODS, pod_object("b"))
    followed.begin_to_follow(revision=revision)
    await followed.time.settle()
    assert followed.progress.live
    assert followed.kind.shown


async def test_an_api_that_does_not_answer_is_never_live(followed: Followed) -> None:
    followed.api.faults.disconnect(verb="watch")
    followed.begin_to_follow(revision=followed.api.revision)
    await followed.time.advance(2)
    assert not followed.progress.live
    with pytest.raises(UpstreamUnavailable):
        await followed.task


async def test_expired_history_is_raised_and_then_listed(followed: Followed) -> None:
    revision = followed.api.revision
    followed.api.put(PODS, pod_object("b"))
    followed.api.forget_before(followed.api.revision + 1)
    followed.begin_to_follow(revision=revision)
    with pytest.raises(HistoryGone):
        await followed.task
    assert not followed.progress.live
    followed.progress.revision = None
    followed.task = asyncio.create_task(followed.kind.follow())
    await followed.time.settle()
    assert await followed.names() == ["b"]


async def test_a_list_that_breaks_off_is_begun_anew(followed: Followed) -> None:
    await followed.add("gone")
    followed.api.remove(PODS, "gone")
    followed.api.put(PODS, pod_object("b"))
    followed.store.fail_next(applied=False)
    followed.begin_to_follow()
    with suppress(Exception):
        await followed.task
    assert followed.progress.revision is None
    followed.task = asyncio.create_task(followed.kind.follow())
    await followed.time.settle()
    assert await followed.names() == ["b"]


@pytest.mark.parametrize("resumed", [False, True])
async def test_a_list_of_the_past_is_a_restored_api(followed: Followed, resumed: bool) -> None:
    ahead = followed.api.revision + 1
    followed.begin_to_follow(floor=ahead, revision=ahead if resumed else None)
    with pytest.raises(ApiWentBack):
        await followed.task
    assert followed.progress.revision == (ahead if resumed else None)


async def test_a_kind_that_may_not_be_watched_is_raised(followed: Followed) -> None:
    followed.api.faults.forbid("watch", PODS)
    followed.begin_to_follow()
    with pytest.raises(ReadRefused, match="pods"):
        await followed.task
    assert not followed.progress.live


async def test_an_importer_that_was_replaced_ends(followed: Followed) -> None:
    followed.begin_to_follow()
    await followed.time.settle()
    await followed.store.put(keys.IMPORTER, b"{}")
    followed.api.put(PODS, pod_object("b"))
    with pytest.raises(NotTheImporter):
        await followed.task
    assert await followed.names() == []


async def test_objects_that_cannot_be_copied_are_named_until_they_can(followed: Followed) -> None:
    followed.begin_to_follow(limits=Limits(size=2000))
    await followed.time.settle()
    followed.store.before_txn = lambda _, writes: (
        followed.store.fail_next(applied=False, error=RequestTooLarge("too large"))
        if any(len(getattr(one, "value", b"")) > 2000 for one in writes)
        else None
    )
    followed.api.put(PODS, {**pod_object("b"), "metadata": {"name": "b", "labels": {"x": "y" * 3000}}})
    await followed.time.settle()
    assert followed.progress.unreadable == {"/registry/pods/default/b": "too large"}
    assert await followed.names() == []
    followed.api.put(PODS, pod_object("b"))
    await followed.time.settle()
    assert followed.progress.unreadable == {}
    assert await followed.names() == ["b"]
