"""Preparing the volumes of a promised pod: what the API is asked for, and when the promise is sent or given up."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.kubernetes.api_and_store import POD, Between
from wharfinger.apiserver.client import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, PODS
from wharfinger.scheduling.effects.binding.writers import KeptKind, KeptPromise
from wharfinger.scheduling.model.promises import Promise, VolumeStep

SELECTED = "volume.kubernetes.io/selected-node"


@pytest.fixture
async def between() -> Between:
    found = Between()
    await found.begin()
    found.api.put(PERSISTENT_VOLUME_CLAIMS, {"metadata": {"name": "data"}, "spec": {"storageClassName": "late"}})
    found.api.put(PERSISTENT_VOLUMES, {"metadata": {"name": "pv-1"}, "spec": {"storageClassName": "late"}})
    return found


async def promised(between: Between, *steps: VolumeStep, **changes: object) -> Promise:
    promise = await between.promised()
    promise = replace(promise, ready=False, volumes=steps, **changes)  # type: ignore[arg-type]
    await between.mark(promise)
    return promise


async def keep(between: Between) -> KeptPromise:
    return await between.promises.keep(POD, "pod-default-a@")


def claim(between: Between) -> dict:
    found = between.api.find(PERSISTENT_VOLUME_CLAIMS, "data")
    assert found is not None
    return found


def bind_claim(between: Between, volume: str = "pv-1") -> None:
    """What the cluster's controller does."""
    obj = claim(between)
    annotations = {**obj["metadata"].get("annotations", {}), "pv.kubernetes.io/bind-completed": "yes"}
    metadata = {**obj["metadata"], "annotations": annotations}
    between.api.put(
        PERSISTENT_VOLUME_CLAIMS, {**obj, "metadata": metadata, "spec": {**obj["spec"], "volumeName": volume}}
    )


def nominated(between: Between) -> str:
    return str((between.api.find(PODS, "a") or {}).get("status", {}).get("nominatedNodeName") or "")


def sent(between: Between) -> bool:
    return bool((between.api.find(PODS, "a") or {}).get("spec", {}).get("nodeName"))


async def test_a_chosen_volume_is_given_to_the_claim_first(between: Between) -> None:
    await promised(between, VolumeStep("data", "pv-1"))
    kept = await keep(between)
    assert (kept.kind, kept.message) == (KeptKind.NOT_READY, "claim data is being bound to volume pv-1")
    volume = between.api.find(PERSISTENT_VOLUMES, "pv-1")
    assert volume is not None
    reference = volume["spec"]["claimRef"]
    assert (reference["namespace"], reference["name"], reference["uid"]) == (
        "default",
        "data",
        claim(between)["metadata"]["uid"],
    )
    assert not sent(between)
    bind_claim(between)
    assert (await keep(between)).kind is KeptKind.KEPT
    assert sent(between)


async def test_a_volume_is_asked_for_on_the_chosen_node(between: Between) -> None:
    await promised(between, VolumeStep("data"))
    assert (await keep(between)).message == "a volume is being made for claim data on node n1"
    assert claim(between)["metadata"]["annotations"][SELECTED] == "n1"
    writes = len([one for one in between.api.requests if one.writes])
    assert (await keep(between)).kind is KeptKind.NOT_READY
    assert len([one for one in between.api.requests if one.writes]) == writes
    bind_claim(between, "made")
    assert (await keep(between)).kind is KeptKind.KEPT


async def test_status_names_the_expected_node_until_the_pod_is_bound_or_given_up(between: Between) -> None:
    """As kube-scheduler does (KEP-5278): before the volumes are asked for, and cleared when the promise is given up."""
    await promised(between, VolumeStep("data"))
    order: list[str] = []
    between.api.before_request = lambda one: order.append(one.name) if one.verb == "patch" else None
    assert (await keep(between)).kind is KeptKind.NOT_READY
    assert (order, nominated(between)) == (["a", "data"], "n1")
    assert (await keep(between)).kind is KeptKind.NOT_READY
    assert order == ["a", "data"]

    between.api.remove(PERSISTENT_VOLUME_CLAIMS, "data")

    assert (await keep(between)).kind is KeptKind.CHANGED
    assert nominated(between) == ""


async def test_promise_without_work_before_the_bind_leaves_the_nomination_alone(between: Between) -> None:
    await between.promised()
    assert (await keep(between)).kind is KeptKind.KEPT
    assert [one.verb for one in between.api.requests if one.subresource == "status"] == []


async def test_expected_node_that_cannot_be_told_hinders_nothing(between: Between) -> None:
    await promised(between, VolumeStep("data"))
    between.api.faults.refuse(503, verb="patch", subresource="status", times=1)
    assert (await keep(between)).kind is KeptKind.NOT_READY
    assert (claim(between)["metadata"]["annotations"][SELECTED], nominated(between)) == ("n1", "")
    await keep(between)
    assert nominated(between) == "n1"


async def test_a_volume_that_another_claim_got_gives_it_up(between: Between) -> None:
    await promised(between, VolumeStep("data", "pv-1"))
    volume = between.api.find(PERSISTENT_VOLUMES, "pv-1")
    taken = {"namespace": "other", "name": "x", "uid": "y"}
    between.api.put(PERSISTENT_VOLUMES, {**volume, "spec": {**volume["spec"], "claimRef": taken}})
    assert (await keep(between)).kind is KeptKind.CHANGED
    assert await between.promise() is None
    assert not sent(between)


async def test_a_provisioner_that_gives_up_sends_the_pod_elsewhere(between: Between) -> None:
    await promised(between, VolumeStep("data"))
    await keep(between)
    obj = claim(between)
    between.api.put(PERSISTENT_VOLUME_CLAIMS, {**obj, "metadata": {**obj["metadata"], "annotations": {}}})
    assert (await keep(between)).kind is KeptKind.CHANGED
    assert await between.promise() is None


async def test_volumes_that_are_not_there_in_time_give_it_up(between: Between) -> None:
    await promised(between, VolumeStep("data"), since="2026-03-01T11:49:59Z", patience=600.0)
    assert (await keep(between)).kind is KeptKind.CHANGED
    assert not sent(between)


async def test_a_claim_that_is_gone_gives_it_up(between: Between) -> None:
    await promised(between, VolumeStep("data"))
    between.api.remove(PERSISTENT_VOLUME_CLAIMS, "data")
    assert (await keep(between)).kind is KeptKind.CHANGED


async def test_an_edit_of_the_pod_keeps_what_was_asked_for(between: Between) -> None:
    await promised(between, VolumeStep("data"))
    await keep(between)
    pod = between.api.find(PODS, "a")
    between.api.put(PODS, {**pod, "metadata": {**pod["metadata"], "annotations": {"note": "x"}}})
    bind_claim(between, "made")
    assert (await keep(between)).kind is KeptKind.KEPT
    assert sent(between)


async def test_a_claim_that_changed_meanwhile_is_asked_for_again(between: Between) -> None:
    """Nothing was asked for yet, so that nothing is there says nothing of the provisioner."""
    await promised(between, VolumeStep("data"))
    between.api.faults.refuse(409, "the object has been modified", verb="patch", name="data")
    assert (await keep(between)).kind is KeptKind.NOT_READY
    assert SELECTED not in claim(between)["metadata"].get("annotations", {})
    assert (await keep(between)).kind is KeptKind.NOT_READY
    assert claim(between)["metadata"]["annotations"][SELECTED] == "n1"


@pytest.mark.parametrize("step", [VolumeStep("data", "pv-1"), VolumeStep("data")], ids=["chosen", "made"])
async def test_a_claim_bound_by_another_pods_choice_gives_it_up(between: Between, step: VolumeStep) -> None:
    """A pod on another node shares the claim, and its bind came first: that volume may not be reached from here."""
    await promised(between, step)
    bind_claim(between, "pv-2")
    assert (await keep(between)).kind is KeptKind.CHANGED
    assert await between.promise() is None
    assert not sent(between)
