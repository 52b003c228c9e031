"""Sending promises: what the API may say, and what becomes of the promise."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from tests.kubernetes.api_and_store import ATTEMPT, POD, Between
from wharfinger.apiserver.client import PODS, ApiCall
from wharfinger.errors import UpstreamDenied, UpstreamUnavailable
from wharfinger.etcd import keys
from wharfinger.etcd.store import TxnResult
from wharfinger.kubernetes.effects import promising
from wharfinger.kubernetes.effects.copying import forget_copies
from wharfinger.objects.documents.copies import copy_of
from wharfinger.objects.model.pod import PodKey
from wharfinger.scheduling.contracts import promise_records
from wharfinger.scheduling.effects.binding.writers import KeptKind, KeptPromise
from wharfinger.scheduling.model.promises import MayBind


@pytest.fixture
async def between() -> Between:
    found = Between()
    await found.begin()
    return found


def bound_in_api(between: Between, name: str = "a") -> str:
    return str((between.api.find(PODS, name) or {}).get("spec", {}).get("nodeName") or "")


def posts(between: Between) -> int:
    return sum(one.subresource == "binding" for one in between.api.requests)


async def test_a_promise_is_sent_with_uid_revision_and_attempt(between: Between) -> None:
    await between.promised()
    assert await between.promises.keep(POD) == KeptPromise(KeptKind.KEPT, "n1", bound_by=ATTEMPT)
    pod = between.api.find(PODS, "a")
    assert pod is not None
    assert pod["metadata"]["annotations"]["wharfinger.dev/attempt"] == ATTEMPT
    assert bound_in_api(between) == "n1"


async def test_a_bind_is_not_sent_where_looking_at_its_promise_took_long(between: Between) -> None:
    """The promise is older than `active`, so it is read once more; meanwhile another scheduler may take the Lease."""
    await between.promised()
    promise = await between.promise()
    await between.store.put(keys.ACTIVE, promise_records.stored(MayBind("here")))
    txn, reads = between.store.txn, iter(range(1))

    async def slowly(*parts: Any) -> TxnResult:
        answer = await txn(*parts)
        if next(reads, None) is not None:
            between.seconds += 5.0
            await between.store.delete(keys.ACTIVE)
        return answer

    between.store.txn = slowly  # type: ignore[method-assign]
    with pytest.raises(UpstreamUnavailable, match="does not hold the Lease"):
        await between.promises.keep(POD, "pod-default-a@", promise)
    assert next(reads, None) is None
    assert posts(between) == 0


async def test_a_bind_of_before_a_restore_of_the_api_is_not_sent(between: Between) -> None:
    """It waited for its turn; the pod is there as it was, so the API would accept its revision."""
    await between.promised()
    promise = await between.promise()
    await forget_copies(between.store, ["pods"], epoch=between.epoch, generation=1)
    await between.store.put(keys.ACTIVE, promise_records.stored(MayBind("here")))
    await between.store.put(keys.pod(*POD), copy_of(between.api.find(PODS, "a") or {}, "pods"))
    kept = await between.promises.keep(POD, "pod-default-a@", promise)
    assert kept.kind is KeptKind.CHANGED
    assert posts(between) == 0
    assert not bound_in_api(between)


async def test_a_promise_of_before_another_holder_is_sent(between: Between) -> None:
    await between.promised()
    promise = await between.promise()
    await between.store.put(keys.ACTIVE, promise_records.stored(MayBind("another")))
    assert (await between.promises.keep(POD, "pod-default-a@", promise)).kind is KeptKind.KEPT


async def test_a_promise_that_was_given_up_meanwhile_is_not_sent(between: Between) -> None:
    """What its attempt knows is older than the right to bind, so it is read again."""
    await between.promised()
    promise = await between.promise()
    await between.store.put(keys.ACTIVE, promise_records.stored(MayBind("another")))
    between.api.faults.disconnect(verb="patch")
    with pytest.raises(UpstreamUnavailable):
        await between.promises.give_up(POD, "a plugin refuses")
    between.api.faults.clear()
    assert (await between.promises.keep(POD, "pod-default-a@", promise)).kind is KeptKind.CHANGED
    assert posts(between) == 0


async def test_a_lost_answer_is_found_by_a_look(between: Between) -> None:
    await between.promised()
    between.api.faults.lose_answers(subresource="binding")
    with pytest.raises(UpstreamUnavailable):
        await between.promises.keep(POD)
    assert await between.promise() is not None
    between.api.faults.clear()
    assert (await between.promises.keep(POD)).kind is KeptKind.KEPT
    assert await between.promise() is None
    assert (await between.promises.keep(POD, "pod-default-a@")).kind is KeptKind.KEPT


async def test_a_pod_that_another_scheduler_bound_is_gone(between: Between) -> None:
    await between.promised()
    pod = between.api.find(PODS, "a")
    between.api.put(PODS, {**pod, "spec": {**pod["spec"], "nodeName": "n9"}})
    kept = await between.promises.keep(POD, "pod-default-a@")
    assert (kept.kind, kept.node) == (KeptKind.GONE, "n9")
    assert await between.promise() is None


async def test_a_note_on_the_pod_is_promised_again_and_sent(between: Between) -> None:
    await between.promised()
    pod = between.api.find(PODS, "a")
    between.api.put(PODS, {**pod, "metadata": {**pod["metadata"], "annotations": {"note": "x"}}})
    assert (await between.promises.keep(POD)).kind is KeptKind.KEPT
    assert posts(between) == 2


async def test_a_changed_label_ends_the_promise_unbound(between: Between) -> None:
    await between.promised()
    pod = between.api.find(PODS, "a")
    between.api.put(PODS, {**pod, "metadata": {**pod["metadata"], "labels": {"app": "other"}}})
    assert (await between.promises.keep(POD)).kind is KeptKind.CHANGED
    assert await between.promise() is None
    assert not bound_in_api(between)
    copy = await between.copy_of(keys.pod("default", "a"))
    assert copy is not None
    assert not copy["spec"].get("nodeName")


async def test_a_pod_created_again_is_never_bound_by_the_old_promise(between: Between) -> None:
    await between.promised()
    between.api.remove(PODS, "a")
    assert (await between.promises.keep(POD)).kind is KeptKind.GONE
    await between.add("b")
    between.api.put(PODS, {"metadata": {"name": "a"}, "spec": {"containers": []}})
    assert (await between.promises.keep(POD)).kind is KeptKind.GONE
    assert not bound_in_api(between)


async def test_a_refusal_gives_the_promise_up_and_is_told(between: Between) -> None:
    await between.promised()
    between.api.faults.refuse(422, "no such zone", subresource="binding")
    kept = await between.promises.keep(POD)
    assert kept.kind is KeptKind.REFUSED
    assert "no such zone" in kept.message
    assert await between.promise() is None
    between.api.faults.clear()
    pod = between.api.find(PODS, "a")
    assert pod["metadata"]["annotations"]["wharfinger.dev/fence"]
    assert not bound_in_api(between)


async def test_forbidden_by_a_webhook_is_a_refusal(between: Between) -> None:
    await between.promised()
    between.api.faults.refuse(403, 'admission webhook "x" denied the request', subresource="binding")
    assert (await between.promises.keep(POD)).kind is KeptKind.REFUSED


async def test_a_worker_that_may_not_bind_refuses_nothing(between: Between) -> None:
    await between.promised()
    between.api.faults.forbid("create", PODS, "binding")
    with pytest.raises(UpstreamDenied, match="pods/binding in default"):
        await between.promises.keep(POD)
    assert await between.promise() is not None


async def test_without_the_right_to_bind_nothing_is_sent(between: Between) -> None:
    await between.promised()
    await between.store.delete(keys.ACTIVE)
    with pytest.raises(UpstreamUnavailable, match="does not hold the Lease"):
        await between.promises.keep(POD)
    assert posts(between) == 0


async def test_the_right_to_bind_is_read_anew_after_half_a_second(between: Between) -> None:
    await between.promised("a")
    await between.promises.keep(POD)
    await between.promised("b")
    await between.store.delete(keys.ACTIVE)
    between.seconds += 0.6
    with pytest.raises(UpstreamUnavailable):
        await between.promises.keep(POD._replace(name="b"))


async def test_a_webhook_that_fails_for_ten_minutes_ends_it(between: Between) -> None:
    promise = await between.promised()
    between.api.faults.refuse(500, 'failed calling webhook "x"', times=2, subresource="binding")
    with pytest.raises(UpstreamUnavailable):
        await between.promises.keep(POD)
    await between.mark(replace(promise, since="2026-03-01T11:49:00Z"))
    assert (await between.promises.keep(POD)).kind is KeptKind.REFUSED


async def test_a_fence_that_fails_keeps_the_room_until_it_works(between: Between) -> None:
    await between.promised()
    between.api.faults.disconnect(subresource="status")
    with pytest.raises(UpstreamUnavailable):
        await between.promises.give_up(POD, "a plugin refuses")
    promise = await between.promise()
    assert promise is not None
    assert promise.withdrawn == "a plugin refuses"
    copy = await between.copy_of(keys.pod("default", "a"))
    assert copy is not None
    assert copy["spec"]["nodeName"] == "n1"
    between.api.faults.clear()
    assert (await between.promises.keep(POD)).kind is KeptKind.CHANGED
    assert posts(between) == 0


async def test_a_bind_that_came_before_the_fence_is_kept(between: Between) -> None:
    await between.promised()
    await between.promises.keep(POD)
    known = await between.promises.give_up(POD, "too late")
    assert known.promise is None
    assert (await between.promises.keep(POD, "pod-default-a@")).kind is KeptKind.KEPT


async def test_a_bind_whose_turn_comes_late_confirms_the_right_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """It waited for others to be answered; meanwhile another scheduler may have got the Lease."""
    monkeypatch.setattr(promising, "AT_ONCE", 1)
    between = Between()
    await between.begin()
    for name in ("a", "b"):
        await between.promised(name)
    gate = between.api.faults.hold(subresource="binding", name="a")
    first = asyncio.create_task(between.promises.keep(POD))
    await gate.reached()
    second = asyncio.create_task(between.promises.keep(PodKey("default", "b")))
    for _ in range(20):
        await asyncio.sleep(0)
    await between.store.delete(keys.ACTIVE)
    between.seconds += 60.0
    gate.open()
    assert (await first).kind is KeptKind.KEPT
    with pytest.raises(UpstreamUnavailable, match="does not hold the Lease"):
        await second
    assert bound_in_api(between, "b") == ""


async def test_a_pod_that_changes_all_the_time_is_given_up(between: Between) -> None:
    """Its chain places it anew, so the promise must not stay."""
    await between.promised()

    def edit(request: ApiCall) -> None:
        if request.subresource == "binding":
            pod = between.api.find(PODS, "a")
            assert pod is not None
            annotations = {"beat": str(len(between.api.requests))}
            between.api.put(PODS, {**pod, "metadata": {**pod["metadata"], "annotations": annotations}})

    between.api.before_request = edit
    kept = await between.promises.keep(POD)
    assert (kept.kind, kept.message) == (KeptKind.CHANGED, "the pod changed 5 times while it was being bound")
    assert posts(between) == 5
    assert await between.promise() is None
    assert "nodeName" not in (await between.copy_of(keys.pod(*POD)) or {})["spec"]
