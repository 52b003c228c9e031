"""Promises that another client has put: nothing is sent to the Kubernetes API for them, and they are said once."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from tests.kubernetes.api_and_store import ATTEMPT, POD, Between, node_object
from wharfinger.apiserver.client import NODES, PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, PODS
from wharfinger.errors import UpstreamUnavailable
from wharfinger.etcd import keys
from wharfinger.kubernetes.effects.adopting import present
from wharfinger.objects.documents.copies import copy_of, copy_of_promised, state_of
from wharfinger.scheduling.contracts import promise_records
from wharfinger.scheduling.effects.binding.writers import KeptKind, RehearsalKind
from wharfinger.scheduling.model.promises import Promise, VolumeStep

STAYS_AWAY = "the promise of pod default/a and the copy of the pod were not written by one transaction"


@pytest.fixture
async def between() -> AsyncIterator[Between]:
    found = Between()
    await found.begin()
    found.api.put(NODES, node_object("n1"))
    found.api.put(PERSISTENT_VOLUME_CLAIMS, {"metadata": {"name": "data"}, "spec": {"storageClassName": "late"}})
    found.api.put(PERSISTENT_VOLUMES, {"metadata": {"name": "pv-1"}, "spec": {"storageClassName": "late"}})
    yield found
    writes = [one for one in found.api.requests if one.verb not in ("get", "list", "watch")]
    assert writes == []


async def forged(between: Between, node: str = "n1", **changes: object) -> Promise:
    """What names the pod in the API as it is, with every field as a promise of ours has it."""
    pod = between.api.find(PODS, "a")
    assert pod is not None
    uid, revision, _ = state_of(copy_of(pod, "pods"))
    promise = Promise(uid, revision, node, ATTEMPT, "2026-03-01T12:00:00Z")
    return replace(promise, **changes)  # type: ignore[arg-type]


def value_of(promise: Promise) -> bytes:
    return promise_records.stored(promise)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"withdrawn": "a plugin refuses"},
        {"ready": False, "volumes": (VolumeStep("data", "pv-1"),)},
        {"ready": False, "volumes": (VolumeStep("data"),)},
        {"ready": False, "calls": ("PreBind/Licences",)},
    ],
    ids=["ready", "withdrawn", "chosen-volume", "made-volume", "plugins"],
)
async def test_a_promise_that_was_put_alone_is_not_sent(
    between: Between, caplog: pytest.LogCaptureFixture, changes: dict[str, object]
) -> None:
    await between.add()
    await between.store.put(keys.promise(*POD), value_of(await forged(between, **changes)))
    for _ in range(2):
        assert (await between.promises.keep(POD)).kind is KeptKind.CHANGED
        assert (await between.promises.rehearse(POD, ATTEMPT)).kind is RehearsalKind.REFUSED
        await between.promises.give_up(POD, "it is not wanted")
    assert len([line for line in caplog.messages if "promise_unproven" in line]) == 1


@pytest.mark.parametrize("value", [b"", b"{}", b"not JSON", b"\xff\x00"])
async def test_a_promise_that_cannot_be_read_is_not_fenced_off(between: Between, value: bytes) -> None:
    await between.add()
    await between.store.put(keys.promise(*POD), value)
    assert (await between.promises.keep(POD)).kind is KeptKind.CHANGED


async def test_promise_and_copy_of_two_transactions_are_not_sent(between: Between) -> None:
    stored = await between.add()
    bound = copy_of_promised(stored, node="n1", attempt=ATTEMPT, now="2026-03-01T12:00:00Z")
    await between.store.put(keys.promise(*POD), value_of(await forged(between)))
    await between.store.put(keys.pod(*POD), bound)
    with pytest.raises(UpstreamUnavailable, match=STAYS_AWAY):
        await between.promises.keep(POD)


@pytest.mark.parametrize("node", ["n1", "n2"])
async def test_a_promise_that_was_written_over_is_not_sent(between: Between, node: str) -> None:
    """The bind itself was ours, so the copy stays on its node until the API was looked at."""
    await between.promised()
    await between.store.put(keys.promise(*POD), value_of(await forged(between, node)))
    with pytest.raises(UpstreamUnavailable, match=STAYS_AWAY):
        await between.promises.keep(POD)
    await between.promises.withdrawals.clear_unproven(POD)
    copy = await between.copy_of(keys.pod(*POD))
    assert copy is not None
    assert "nodeName" not in copy["spec"]
    assert await between.promise() is None
    assert (await between.store.get(keys.promise(*POD))).kv is None


async def test_an_edit_does_not_promise_again_what_was_put_alone(between: Between) -> None:
    """Else a newer state of the pod would make the forged promise one of ours."""
    await between.add()
    await between.store.put(keys.promise(*POD), value_of(await forged(between)))
    pod = between.api.find(PODS, "a") or {}
    edited = between.api.put(PODS, {**pod, "metadata": {**pod["metadata"], "annotations": {"note": "x"}}})
    await between.adopter.adopt(present("pods", edited), epoch=between.epoch)
    assert (await between.store.get(keys.promise(*POD))).kv is None
    assert (await between.promises.keep(POD)).kind is KeptKind.CHANGED


async def test_a_copy_that_was_changed_ends_the_promise_by_the_state_of_the_api(between: Between) -> None:
    """Also where the copy claims a state that the API does not have yet."""
    await between.promised()
    pod = between.api.find(PODS, "a") or {}
    later = {**pod, "metadata": {**pod["metadata"], "resourceVersion": "999999999"}, "spec": {"nodeName": "n1"}}
    await between.store.put(keys.pod(*POD), copy_of(later, "pods"))
    with pytest.raises(UpstreamUnavailable, match=STAYS_AWAY):
        await between.promises.keep(POD)
    await between.promises.withdrawals.clear_unproven(POD)
    kv = (await between.store.get(keys.pod(*POD))).kv
    assert kv is not None
    assert kv.value == copy_of(pod, "pods")


async def test_a_promise_of_no_pod_is_removed(between: Between) -> None:
    await between.add("b")
    await between.store.put(keys.promise(*POD), value_of(Promise("uid-1", 5, "n1", ATTEMPT, "2026-03-01T12:00:00Z")))
    assert (await between.promises.keep(POD)).kind is KeptKind.GONE
    await between.promises.withdrawals.clear_unproven(POD)
    assert (await between.store.get(keys.promise(*POD))).kv is None
