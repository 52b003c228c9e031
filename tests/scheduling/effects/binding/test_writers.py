"""Dry runs of promises: whether the API would bind a pod, before a gang is sent."""

from __future__ import annotations

import pytest

from tests.kubernetes.api_and_store import POD, Between
from wharfinger.apiserver.client import PODS
from wharfinger.errors import UpstreamDenied, UpstreamUnavailable
from wharfinger.etcd import keys
from wharfinger.scheduling.effects.binding.writers import Rehearsal, RehearsalKind


@pytest.fixture
async def between() -> Between:
    found = Between()
    await found.begin()
    await found.promised()
    return found


async def rehearsed(between: Between) -> Rehearsal:
    return await between.promises.rehearse(POD, "pod-default-a@")


async def test_a_rehearsal_binds_nothing(between: Between) -> None:
    assert (await rehearsed(between)).kind is RehearsalKind.AGREED
    pod = between.api.find(PODS, "a")
    assert pod is not None
    assert "nodeName" not in pod["spec"]
    assert await between.promise() is not None


async def test_a_rehearsal_of_what_was_sent_already(between: Between) -> None:
    """Also where neither its answer nor the watch has shown it."""
    between.api.faults.lose_answers(subresource="binding")
    with pytest.raises(UpstreamUnavailable):
        await between.promises.keep(POD)
    between.api.faults.clear()
    assert (await rehearsed(between)).kind is RehearsalKind.SENT
    assert await between.promise() is None
    assert (await rehearsed(between)).kind is RehearsalKind.SENT


async def test_a_rehearsal_of_a_pod_that_is_elsewhere(between: Between) -> None:
    pod = between.api.find(PODS, "a")
    assert pod is not None
    between.api.put(PODS, {**pod, "spec": {**pod["spec"], "nodeName": "n9"}})
    assert await rehearsed(between) == Rehearsal(RehearsalKind.REFUSED, "the pod is bound to n9")


async def test_a_rehearsal_of_a_pod_that_is_gone(between: Between) -> None:
    between.api.remove(PODS, "a")
    assert (await rehearsed(between)).kind is RehearsalKind.REFUSED
    await between.store.delete(keys.pod("default", "a"))
    assert (await rehearsed(between)).kind is RehearsalKind.REFUSED


async def test_a_rehearsal_after_an_annotation_is_of_the_new_revision(between: Between) -> None:
    pod = between.api.find(PODS, "a")
    assert pod is not None
    stored = between.api.put(PODS, {**pod, "metadata": {**pod["metadata"], "annotations": {"note": "x"}}})
    assert (await rehearsed(between)).kind is RehearsalKind.AGREED
    promise = await between.promise()
    assert promise is not None
    assert str(promise.revision) == stored["metadata"]["resourceVersion"]


async def test_a_rehearsal_of_a_promise_that_is_given_up(between: Between) -> None:
    between.api.faults.disconnect(verb="patch")
    with pytest.raises(UpstreamUnavailable):
        await between.promises.give_up(POD, "torn")
    assert await rehearsed(between) == Rehearsal(RehearsalKind.REFUSED, "torn")
    assert not any(one.subresource == "binding" for one in between.api.requests)


async def test_a_rehearsal_that_a_webhook_refuses(between: Between) -> None:
    between.api.faults.refuse(403, "denied", subresource="binding")
    assert await rehearsed(between) == Rehearsal(RehearsalKind.REFUSED, "denied")


async def test_a_rehearsal_that_a_webhook_does_not_support(between: Between) -> None:
    between.api.faults.refuse(400, "no dry run", subresource="binding")
    assert await rehearsed(between) == Rehearsal(RehearsalKind.NOT_OFFERED, "no dry run")


async def test_a_rehearsal_by_a_worker_that_may_not_bind_is_raised(between: Between) -> None:
    between.api.faults.forbid("create", PODS, "binding")
    with pytest.raises(UpstreamDenied):
        await rehearsed(between)


async def test_a_rehearsal_without_the_right_to_bind_is_raised(between: Between) -> None:
    await between.store.delete(keys.ACTIVE)
    with pytest.raises(UpstreamUnavailable):
        await rehearsed(between)
    assert between.api.requests == []
