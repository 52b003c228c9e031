"""Promises that nobody keeps are sent by the owner of their pod, after a while."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest

from tests.kubernetes.api_and_store import POD, Between
from tests.virtual_time import VirtualTime
from wharfinger.apiserver.client import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, PODS, ApiCall
from wharfinger.errors import UpstreamError
from wharfinger.etcd import keys
from wharfinger.kubernetes.effects.adopting import present
from wharfinger.kubernetes.effects.states import ObjectState
from wharfinger.kubernetes.loops.sweeps import SAY_EVERY, PromiseSweep
from wharfinger.objects.documents.storage import BIND_COMPLETED
from wharfinger.objects.model.pod import Pod, PodKey
from wharfinger.objects.model.storage import ClaimKey, PersistentVolumeClaim
from wharfinger.scheduling.contracts import promise_records
from wharfinger.scheduling.model.promises import KubernetesSide, VolumeStep
from wharfinger.scheduling.state.cache.cache import Cache
from wharfinger.scheduling.state.informer.changes import Changes

AFTER = 15.0


class OwnShards:
    """Which pods are this worker's."""

    def __init__(self) -> None:
        self.pods = {"a", "b", "c"}
        self.keys: set[str] = set()

    def mine(self, pod: Pod) -> bool:
        return pod.name in self.pods

    def owns_key(self, key: PodKey) -> bool:
        return key.name in self.keys


class Swept(Between):
    """An API and an etcd, and the sweep of one worker that sees what is in etcd."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.time = VirtualTime()
        self.side = KubernetesSide()
        self.shards = OwnShards()
        self.cache = Cache(clock=self.time)
        self.sweep = PromiseSweep(
            self.promises,
            self.side,
            self.cache,
            self.shards,  # type: ignore[arg-type]
            after=AFTER,
            clock=self.time,
            every=0.0,
        )

    async def see(self, name: str = "a", *, copied: bool = True, group: str = "") -> None:
        """The watch shows what etcd has of the promise."""
        key = PodKey("default", name)
        promise = await self.promise(key)
        if copied:
            self.cache.set_pod(Pod("default", name, f"uid-{name}", create_revision=1, group=group))
        known = await self.adopter.read(ObjectState("pods", *key, 0))
        self.side.promises.pop(key, None)
        self.side.unproven.pop(key, None)
        if promise is not None:
            self.side.promises[key] = promise
        elif known.unproven:
            self.side.unproven[key] = known.unproven
        self.sweep.apply(Changes(1, promises=[key]))

    async def wait(self, seconds: float) -> None:
        """Let time pass, and look."""
        self.seconds += seconds
        self.time.now += seconds
        await self.sweep.look()

    def bound(self, name: str = "a") -> str:
        pod: Any = self.api.find(PODS, name)
        return str(pod["spec"].get("nodeName") or "")


@pytest.fixture
async def swept() -> Swept:
    made = Swept()
    await made.begin()
    return made


async def test_a_promise_is_left_to_its_attempt_at_first(swept: Swept) -> None:
    await swept.promised()
    await swept.see()
    await swept.wait(AFTER - 1)
    assert swept.bound() == ""
    await swept.wait(2)
    assert swept.bound() == "n1"


async def test_a_promise_that_changes_is_left_alone_again(swept: Swept) -> None:
    await swept.promised()
    await swept.see()
    await swept.wait(AFTER - 1)
    promise = await swept.promise()
    assert promise is not None
    await swept.mark(replace(promise, asked=True))
    await swept.see()
    await swept.wait(AFTER - 1)
    assert swept.bound() == ""


async def test_edits_of_the_pod_do_not_put_its_promise_off(swept: Swept) -> None:
    """Something writes an annotation every ten seconds, and nobody else sends it."""
    await swept.promised()
    await swept.see()
    for beat in range(2):
        await swept.wait(AFTER - 5)
        pod: Any = swept.api.find(PODS, "a")
        swept.api.put(PODS, {**pod, "metadata": {**pod["metadata"], "annotations": {"beat": str(beat)}}})
        await swept.adopter.adopt(present("pods", swept.api.find(PODS, "a") or {}))
        await swept.see()
    await swept.wait(0)
    assert swept.bound() == "n1"


async def test_only_the_owner_of_the_pod_sends(swept: Swept) -> None:
    await swept.promised()
    await swept.see()
    swept.shards.pods.clear()
    await swept.wait(AFTER)
    assert swept.api.requests == []


async def test_the_owner_of_its_key_sends_for_a_pod_without_copy(swept: Swept) -> None:
    await swept.promised()
    await swept.see(copied=False)
    await swept.wait(AFTER)
    assert swept.bound() == ""
    swept.shards.keys.add("a")
    await swept.wait(0)
    assert swept.bound() == "n1"


async def test_a_promise_that_is_kept_is_not_sent_again(swept: Swept) -> None:
    await swept.promised()
    await swept.see()
    await swept.store.delete(keys.promise(*POD))
    await swept.see()
    await swept.wait(AFTER)
    assert swept.api.requests == []
    assert swept.sweep.oldest == 0


async def test_a_withdrawn_promise_is_fenced(swept: Swept) -> None:
    """Who gave it up ended before its fence."""
    await swept.promised()
    swept.api.faults.disconnect(verb="patch")
    with suppress(Exception):
        await swept.promises.give_up(POD, "a gang was torn")
    await swept.see()
    await swept.wait(AFTER)
    assert await swept.promise() is None
    assert swept.bound() == ""
    assert "nodeName" not in (await swept.copy_of(keys.pod("default", "a")) or {})["spec"]


async def looks_within(swept: Swept, seconds: float) -> list[float]:
    """After how many seconds the API was asked, while the sweep looks every two."""
    found = []
    for passed in range(2, int(seconds) + 1, 2):
        before = len(swept.api.requests)
        await swept.wait(2)
        found += [float(passed)] * (len(swept.api.requests) > before)
    return found


async def test_a_promise_that_waits_for_volumes_is_tried_ever_more_rarely(swept: Swept) -> None:
    swept.api.put(PERSISTENT_VOLUME_CLAIMS, {"metadata": {"name": "data"}, "spec": {"storageClassName": "late"}})
    made = await swept.promised()
    waits = replace(made, ready=False, volumes=(VolumeStep("data"),))
    await swept.mark(waits)
    await swept.see()
    await swept.wait(AFTER)
    await swept.see()  # the API was asked for the volume, so the promise is another one
    assert await looks_within(swept, 120) == [16, 20, 28, 44, 74, 104]

    claim = swept.api.find(PERSISTENT_VOLUME_CLAIMS, "data") or {}
    metadata = {**claim["metadata"], "annotations": {**claim["metadata"]["annotations"], BIND_COMPLETED: "yes"}}
    swept.api.put(PERSISTENT_VOLUME_CLAIMS, {**claim, "metadata": metadata, "spec": {"volumeName": "pv-1"}})
    await looks_within(swept, 30)
    assert swept.bound() == "n1"


async def test_a_promise_whose_volumes_are_seen_is_tried_at_once(swept: Swept) -> None:
    swept.api.put(PERSISTENT_VOLUME_CLAIMS, {"metadata": {"name": "data"}, "spec": {"storageClassName": "late"}})
    made = await swept.promised()
    waits = replace(made, ready=False, asked=True, volumes=(VolumeStep("data", "pv-1"),))
    await swept.mark(waits)
    swept.api.put(PERSISTENT_VOLUMES, {"metadata": {"name": "pv-1"}, "spec": {}})
    await swept.see()
    await looks_within(swept, 45)
    claim = swept.api.find(PERSISTENT_VOLUME_CLAIMS, "data") or {}
    metadata = {**claim["metadata"], "annotations": {BIND_COMPLETED: "yes"}}
    swept.api.put(PERSISTENT_VOLUME_CLAIMS, {**claim, "metadata": metadata, "spec": {"volumeName": "pv-1"}})
    swept.cache.set_surrounding(PersistentVolumeClaim(ClaimKey("default", "data"), volume_name="pv-1", bound=True))
    await swept.wait(2)
    assert swept.bound() == "n1"


async def test_a_fence_that_fails_is_tried_ever_more_rarely(swept: Swept) -> None:
    await swept.promised()
    swept.api.faults.disconnect(None, verb="patch")
    with suppress(UpstreamError):
        await swept.promises.give_up(POD, "a gang was torn")
    await swept.see()
    assert await looks_within(swept, 60) == [16, 20, 28, 44]
    swept.api.faults.clear()
    await looks_within(swept, 30)
    assert await swept.promise() is None


async def test_one_that_fails_does_not_stop_the_others(swept: Swept, caplog: pytest.LogCaptureFixture) -> None:
    for name in ("a", "b", "c"):
        await swept.promised(name)
        await swept.see(name)
    swept.api.faults.disconnect(None, name="b")
    await swept.wait(AFTER)
    assert [swept.bound(name) for name in ("a", "b", "c")] == ["n1", "", "n1"]
    assert caplog.text.count("promise_not_kept effect=retried pod=default/b") == 1


async def test_a_promise_that_fails_is_logged_once_a_minute(swept: Swept, caplog: pytest.LogCaptureFixture) -> None:
    await swept.promised()
    await swept.see()
    swept.api.faults.disconnect(None)
    for _ in range(5):
        await swept.wait(AFTER)
    assert caplog.text.count("promise_not_kept") == 1 + int(4 * AFTER // SAY_EVERY)
    swept.api.faults.clear()
    await swept.wait(2)
    assert swept.bound() == "n1"


async def test_nothing_is_sent_without_the_right_to_bind(swept: Swept) -> None:
    await swept.promised()
    await swept.see()
    await swept.store.delete(keys.ACTIVE)
    await swept.wait(AFTER)
    assert swept.bound() == ""
    assert await swept.promise() is not None


async def test_the_oldest_promise_is_known(swept: Swept) -> None:
    assert swept.sweep.oldest == 0
    await swept.promised("a")
    await swept.see("a")
    swept.time.now += 4
    await swept.promised("b")
    await swept.see("b")
    swept.time.now += 3
    assert swept.sweep.oldest == 7


async def test_the_sweep_looks_again_after_an_error(swept: Swept, monkeypatch: pytest.MonkeyPatch) -> None:
    """An error that nobody expected, say of a record by another release."""
    await swept.promised()
    await swept.see()
    swept.time.now += AFTER
    keep, failures = swept.promises.keep, [RuntimeError("unexpected")]

    async def once(pod: PodKey, attempt: str = "") -> Any:
        if failures:
            raise failures.pop()
        return await keep(pod, attempt)

    monkeypatch.setattr(swept.promises, "keep", once)
    task = asyncio.create_task(swept.sweep.run())
    await swept.time.settle()
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
    assert swept.bound() == "n1"


def binds(swept: Swept, *, dry: bool) -> list[str]:
    return sorted(one.name for one in swept.api.requests if one.subresource == "binding" and one.dry_run is dry)


async def test_a_gang_is_rehearsed_once_and_then_completed(swept: Swept) -> None:
    """Also where one of its binds fails: the others are there, so it must not be given up for a refused dry run."""
    for name in ("a", "b", "c"):
        await swept.promised(name)
        await swept.see(name, group="web")

    def cut(request: ApiCall) -> None:
        if request.subresource == "binding" and not request.dry_run:
            swept.api.faults.disconnect(None, subresource="binding", name="b")

    swept.api.before_request = cut
    await swept.wait(AFTER)
    assert binds(swept, dry=True) == ["a", "b", "c"]
    assert [swept.bound(name) for name in ("a", "b", "c")] == ["n1", "", "n1"]
    swept.api.before_request = None
    swept.api.faults.clear()
    for name in ("a", "b", "c"):
        await swept.adopter.adopt(present("pods", swept.api.find(PODS, name) or {}))
        await swept.see(name, group="web")
    await swept.wait(2)
    assert binds(swept, dry=True) == ["a", "b", "c"]
    assert swept.bound("b") == "n1"


async def test_a_refused_member_gives_up_its_own_group_alone(swept: Swept) -> None:
    """One attempt may have bound pods of several groups, and of none."""
    for name, group in (("a", "web"), ("b", "web"), ("c", "")):
        await swept.promised(name)
        await swept.see(name, group=group)
    swept.api.faults.refuse(403, "denied", subresource="binding", name="b", times=None)
    await swept.wait(AFTER)
    assert [swept.bound(name) for name in ("a", "b", "c")] == ["", "", "n1"]
    assert [await swept.promise(PodKey("default", name)) for name in ("a", "b")] == [None, None]


async def test_a_gang_that_lost_a_member_before_any_was_sent_is_given_up(swept: Swept) -> None:
    """Its attempt is lost, too: nobody but the promises says how many there were."""
    for name in ("a", "b"):
        await swept.promised(name)
        await swept.see(name, group="web")
        key = PodKey("default", name)
        swept.side.promises[key] = replace(swept.side.promises[key], together=3)
    await swept.wait(AFTER)
    assert [swept.bound(name) for name in ("a", "b")] == ["", ""]
    assert [await swept.promise(PodKey("default", name)) for name in ("a", "b")] == [None, None]


async def test_a_gang_of_which_some_are_bound_is_completed(swept: Swept) -> None:
    await swept.promised("a")
    await swept.see("a", group="web")
    key = PodKey("default", "a")
    swept.side.promises[key] = replace(swept.side.promises[key], together=2)
    swept.cache.set_pod(Pod("default", "b", "uid-b", create_revision=1, group="web", node_name="n1"))
    await swept.wait(AFTER)
    assert swept.bound("a") == "n1"


async def test_an_unproven_promise_ends_by_what_the_api_has(swept: Swept) -> None:
    """Another client has written over it. A bind of before may be on its way, so the room is held for a while."""
    made = await swept.promised()
    await swept.store.put(keys.promise(*POD), promise_records.stored(replace(made, node="n2")))
    await swept.see()
    await swept.wait(AFTER - 1)
    assert (await swept.copy_of(keys.pod(*POD)) or {})["spec"]["nodeName"] == "n1"
    await swept.wait(2)
    assert "nodeName" not in (await swept.copy_of(keys.pod(*POD)) or {})["spec"]
    assert (await swept.store.get(keys.promise(*POD))).kv is None
    assert [one.verb for one in swept.api.requests] == ["get"]
