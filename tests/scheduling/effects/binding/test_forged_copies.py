"""Copies and records that another client has put into etcd: no pod leaves the Kubernetes API because of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from temporalio.exceptions import ApplicationError

from tests.scheduling.effects.kubernetes_world import UpstreamWorld, group
from tests.scheduling.effects.refusing.test_evicting_upstream import nominated, put, terminating
from tests.scheduling.effects.refusing.test_preemption import eviction, nominate
from tests.scheduling.world import Hand, pod_object
from wharfinger.apiserver.client import PODS
from wharfinger.etcd import keys
from wharfinger.objects.documents import documents
from wharfinger.objects.model.pod import PodKey
from wharfinger.process.records import AttemptRecord, HoldRecord
from wharfinger.scheduling.contracts import promise_records
from wharfinger.scheduling.contracts.eviction import Evicted, EvictInput
from wharfinger.scheduling.model.promises import Promise


def deletes(site: UpstreamWorld) -> list[str]:
    return [one.name for client in (site.api, *site.clients) for one in client.requests if one.verb == "delete"]


def writes(site: UpstreamWorld) -> list[tuple[str, str]]:
    """Everything that the workers sent to the API and that was no read."""
    sent = [one for client in site.clients for one in client.requests]
    return [(one.verb, one.name) for one in sent if one.verb not in ("get", "list", "watch")]


async def edited(site: UpstreamWorld, name: str, change: Callable[[dict[str, Any]], None]) -> None:
    """Another client writes the copy of a pod over."""
    kv = (await site.store.get(keys.pod("default", name))).kv
    assert kv is not None
    obj = documents.parse(kv.value)
    change(obj)
    await site.store.put(keys.pod("default", name), documents.to_json(obj))


async def attempt(site: UpstreamWorld, hand: Hand, name: str, uid: str) -> EvictInput:
    """The pod is decided, and nominated with its victims, as etcd has it."""
    refused = await hand.refused(name, live_uid=uid)
    recorded = await nominate(hand, refused)
    await hand.seen()
    return eviction(refused, recorded)


async def full_node(site: UpstreamWorld, *, victim: int = 1000) -> Hand:
    site.node("node-1", cpu="1")
    put(site, "low", nodeName="node-1", priority=victim)
    await site.imports()
    return await site.upstream_hand()


async def test_a_preemptor_that_the_api_does_not_have_evicts_nothing(
    site: UpstreamWorld, caplog: pytest.LogCaptureFixture
) -> None:
    hand = await full_node(site)
    forged = pod_object("high", cpu="1")
    forged["metadata"]["resourceVersion"] = "7"
    forged["spec"]["priority"] = 2_000_000_000
    await site.store.put(keys.pod("default", "high"), documents.to_json(forged))
    await hand.seen()
    request = await attempt(site, hand, "high", forged["metadata"]["uid"])
    before = writes(site)
    for _ in range(2):
        evicted = await hand.activities.evict(request)
        assert isinstance(evicted, Evicted)
        assert (evicted.evicted, evicted.complete) == ((), False)
    assert writes(site) == before
    assert not terminating(site)
    said = [line for line in caplog.messages if "preemptor_not_in_api" in line]
    assert [line.rpartition(" uid=")[0] for line in said] == [
        "preemptor_not_in_api effect=nothing_evicted pod=default/high"
    ]


@pytest.mark.parametrize(("revision", "warnings"), [("as in the API", 0), ("999999999", 1)])
async def test_a_preemptor_that_was_made_more_important_evicts_nothing(
    site: UpstreamWorld, caplog: pytest.LogCaptureFixture, revision: str, warnings: int
) -> None:
    """Where the copy does not claim to be newer than the API, it is copied anew when the API is told of the refusal."""
    hand = await full_node(site)
    put(site, "high", priority=10)
    await site.imports()

    def promote(obj: dict[str, Any]) -> None:
        obj["spec"]["priority"] = 2_000_000_000
        if revision.isdigit():
            obj["metadata"]["resourceVersion"] = revision

    await edited(site, "high", promote)
    await hand.seen()
    uid = str((site.api.find(PODS, "high") or {})["metadata"]["uid"])
    request = await attempt(site, hand, "high", uid)
    evicted = await hand.activities.evict(request)
    assert isinstance(evicted, Evicted)
    assert (evicted.evicted, evicted.complete) == ((), False)
    assert not terminating(site)
    assert deletes(site) == []
    assert (await site.pod("high") or {})["spec"]["priority"] == 10
    assert len([line for line in caplog.messages if "copy_differs_from_api" in line]) == warnings


async def test_a_victim_that_was_made_less_important_stays(site: UpstreamWorld) -> None:
    hand = await full_node(site)
    put(site, "high", priority=10)
    await site.imports()
    await edited(site, "low", lambda obj: obj["spec"].update(priority=1))
    await hand.seen()
    uid = str((site.api.find(PODS, "high") or {})["metadata"]["uid"])
    request = await attempt(site, hand, "high", uid)
    evicted = await hand.activities.evict(request)
    assert isinstance(evicted, Evicted)
    assert evicted.notes == ("default/low was not evicted: its priority is not lower",)
    assert deletes(site) == []
    assert not terminating(site)


async def test_a_victim_elsewhere_in_the_api_stays(site: UpstreamWorld) -> None:
    """Its copy was put on the node where the preemptor wants room."""
    hand = await full_node(site, victim=1)
    site.node("node-2", cpu="1")
    put(site, "guard", nodeName="node-2", priority=1000)
    put(site, "other", nodeName="node-2", priority=1)
    put(site, "high", priority=10)
    await site.imports()
    await edited(site, "other", lambda obj: obj["spec"].update(nodeName="node-1"))
    await hand.seen()
    uid = str((site.api.find(PODS, "high") or {})["metadata"]["uid"])
    await hand.activities.evict(await attempt(site, hand, "high", uid))
    assert "other" not in deletes(site)


async def test_a_record_that_was_written_over_names_no_victims(site: UpstreamWorld) -> None:
    hand, request = await nominated(site)
    kv = (await site.store.get(keys.attempt("default", "high"))).kv
    assert kv is not None
    record = AttemptRecord.model_validate_json(kv.value)
    put(site, "precious", nodeName="node-1", priority=1)
    await site.imports()
    forged = record.model_copy(update={"victims": ("default/precious",), "victim_revisions": (1,)})
    await site.store.put(kv.key, forged.to_bytes())
    evicted = await hand.activities.evict(request.model_copy(update={"in_record": True}))
    assert isinstance(evicted, Evicted)
    assert (evicted.evicted, evicted.complete) == ((), False)
    assert deletes(site) == []


async def test_a_hold_counts_for_nothing(site: UpstreamWorld, caplog: pytest.LogCaptureFixture) -> None:
    """Promises hold rooms there, so no transaction of ours puts such a record."""
    site.node("node-1", cpu="1")
    site.pending("web")
    await site.imports()
    hand = await site.upstream_hand()
    kv = (await site.store.get(keys.pod("default", "web"))).kv
    assert kv is not None
    forged = HoldRecord(node="node-1", create_revision=kv.create_revision, attempt="workflow@run", calls=("Bind/x",))
    await site.store.put(keys.hold("default", "web"), forged.to_bytes())
    await hand.seen()
    assert hand.cache.held_places == {}
    assert writes(site) == []
    assert len([line for line in caplog.messages if "hold_unproven" in line]) == 1


async def test_a_worker_sees_which_promises_are_its_installations(site: UpstreamWorld) -> None:
    """One that is put alone holds no volumes, and is told from one that a bind has put."""
    hand, api, placed = await group(site, 1)
    side = hand.cache.kubernetes
    assert side is not None
    key = PodKey("default", "web-0")
    forged = promise_records.stored(Promise("uid-1", 5, "node-0", "w@r", "2026-03-01T12:00:00Z"))
    await site.store.put(keys.promise(*key), forged)
    await hand.seen()
    assert (side.promises, set(side.unproven)) == ({}, {key})
    api.faults.disconnect(subresource="binding")
    with pytest.raises(ApplicationError):
        await hand.bind_many(placed)
    await hand.seen()
    assert (set(side.promises), side.unproven) == ({key}, {})
    await site.store.put(keys.promise(*key), forged)
    await hand.seen()
    assert (side.promises, set(side.unproven)) == ({}, {key})
    await site.store.delete(keys.promise(*key))
    await hand.seen()
    assert (side.promises, side.unproven) == ({}, {})
