"""Preemption where pods are a Kubernetes API's: victims are evicted there, and copies follow."""

from __future__ import annotations

import pytest
from temporalio.exceptions import ApplicationError

from tests.scheduling.effects.kubernetes_world import UpstreamWorld
from tests.scheduling.effects.refusing.test_preemption import eviction, nominate
from tests.scheduling.world import Hand, pod_object
from wharfinger.apiserver.client import PODS, ApiCall
from wharfinger.etcd import keys
from wharfinger.scheduling.contracts.eviction import Evicted, EvictInput


def put(site: UpstreamWorld, name: str, **spec: object) -> None:
    obj = pod_object(name, cpu="1")
    del obj["metadata"]["uid"]
    site.api.put(PODS, {**obj, "spec": {**obj["spec"], **spec}})


async def nominated(site: UpstreamWorld, eviction_mode: str = "graceful") -> tuple[Hand, EvictInput]:
    """A full node, and a pod that is nominated to it."""
    site.node("node-1", cpu="1")
    put(site, "low", nodeName="node-1", priority=1)
    put(site, "high", priority=10)
    await site.imports()
    hand = await site.upstream_hand(eviction=eviction_mode)
    uid = str((site.api.find(PODS, "high") or {})["metadata"]["uid"])
    refused = await hand.refused("high", live_uid=uid)
    recorded = await nominate(hand, refused)
    await hand.seen()
    return hand, eviction(refused, recorded)


def terminating(site: UpstreamWorld) -> bool:
    return bool((site.api.find(PODS, "low") or {"metadata": {}})["metadata"].get("deletionTimestamp"))


@pytest.mark.parametrize("mode", ["graceful", "immediate"])
async def test_the_copy_of_a_victim_stays_until_the_api_has_let_it_go(site: UpstreamWorld, mode: str) -> None:
    """It runs until its kubelet has ended it, so its room is not free before."""
    hand, request = await nominated(site, mode)
    evicted = await hand.activities.evict(request)
    assert isinstance(evicted, Evicted)
    assert evicted.evicted == ("default/low",)
    assert terminating(site)
    assert (await site.store.get(keys.pod("default", "low"))).kv is not None
    site.api.remove(PODS, "low")
    await site.imports()
    assert (await site.store.get(keys.pod("default", "low"))).kv is None


async def test_a_victim_that_changes_before_its_deletion_is_looked_at_again(site: UpstreamWorld) -> None:
    """Its kubelet writes a status of which the copy has nothing."""
    hand, request = await nominated(site)
    edits = iter(range(1))

    def edit(call: ApiCall) -> None:
        if call.verb == "delete" and next(edits, None) is not None:
            pod = site.api.find(PODS, "low")
            assert pod is not None
            site.api.put(PODS, {**pod, "status": {**pod.get("status", {}), "podIP": "10.0.0.9"}})

    site.clients[-1].before_request = edit
    evicted = await hand.activities.evict(request)
    assert isinstance(evicted, Evicted)
    assert (evicted.evicted, evicted.complete) == (("default/low",), True)
    assert terminating(site)


# --- nominations of less important pods ------------------------------------------------------


async def with_lower_nomination(site: UpstreamWorld) -> tuple[Hand, EvictInput]:
    """As `nominated`, and a less important pod was nominated to the node before, in the API as well."""
    put(site, "middle", priority=5)
    middle = site.api.find(PODS, "middle") or {}
    site.api.put(PODS, {**middle, "status": {**middle.get("status", {}), "nominatedNodeName": "node-1"}})
    return await nominated(site)


def nomination_of(site: UpstreamWorld, name: str) -> str:
    return str(((site.api.find(PODS, name) or {}).get("status") or {}).get("nominatedNodeName") or "")


async def copied_nomination_of(site: UpstreamWorld, name: str) -> str:
    return str(((await site.pod(name) or {}).get("status") or {}).get("nominatedNodeName") or "")


async def test_a_less_important_pod_loses_its_nomination_in_the_api(site: UpstreamWorld) -> None:
    hand, request = await with_lower_nomination(site)
    assert await copied_nomination_of(site, "middle") == "node-1"
    evicted = await hand.activities.evict(request)
    assert isinstance(evicted, Evicted)
    assert terminating(site)
    assert nomination_of(site, "middle") == ""
    await site.imports()
    assert await copied_nomination_of(site, "middle") == ""


async def test_nothing_is_evicted_before_the_nomination_is_cleared(site: UpstreamWorld) -> None:
    """The activity is tried again, and finds the nomination in the copy as before."""
    hand, request = await with_lower_nomination(site)
    api = site.clients[-1]
    api.faults.disconnect(verb="patch", name="middle")
    with pytest.raises(ApplicationError, match="cannot connect"):
        await hand.activities.evict(request)
    assert not terminating(site)
    assert await copied_nomination_of(site, "middle") == "node-1"
    await hand.activities.evict(request)
    assert terminating(site)
    assert nomination_of(site, "middle") == ""


async def test_a_nomination_to_another_node_is_not_cleared(site: UpstreamWorld) -> None:
    """Its own attempt nominates it elsewhere at that moment: the API compares the revision."""
    hand, request = await with_lower_nomination(site)
    moved = iter(range(1))

    async def elsewhere(call: ApiCall) -> None:
        if (call.verb, call.name) == ("patch", "middle") and next(moved, None) is not None:
            middle = site.api.find(PODS, "middle") or {}
            site.api.put(PODS, {**middle, "status": {**middle["status"], "nominatedNodeName": "node-2"}})
            await site.imports()

    site.clients[-1].before_request = elsewhere
    evicted = await hand.activities.evict(request)
    assert isinstance(evicted, Evicted)
    assert nomination_of(site, "middle") == "node-2"
    assert terminating(site)


async def test_a_nomination_that_the_api_was_not_told_is_cleared(site: UpstreamWorld) -> None:
    """Its record is in etcd, and the status was not written: the API answers with the state that the copy has."""
    put(site, "middle", priority=5)
    hand, request = await nominated(site)
    await site.change_pod("middle", lambda pod: pod.setdefault("status", {}).update(nominatedNodeName="node-1"))
    await hand.seen()
    evicted = await hand.activities.evict(request)
    assert isinstance(evicted, Evicted)
    assert (await copied_nomination_of(site, "middle"), evicted.notes) == ("", ())
    assert terminating(site)


async def test_a_nomination_that_the_api_keeps_is_cleared_in_the_copy(site: UpstreamWorld) -> None:
    """A webhook refuses the patch: the more important pod is not kept from its room by that."""
    hand, request = await with_lower_nomination(site)
    site.clients[-1].faults.refuse(422, "denied by a webhook", verb="patch", name="middle")
    evicted = await hand.activities.evict(request)
    assert isinstance(evicted, Evicted)
    assert "the nomination of default/middle was not cleared in the API: 422: denied by a webhook" in evicted.notes
    assert await copied_nomination_of(site, "middle") == ""
    assert terminating(site)
