"""What may come between: other hubs, late commits, two evictions, a restored etcd, and crowds."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator

import pytest

from tests.conftest import EtcdServer
from tests.placement.objects import (
    agent_record,
    eviction_object,
    in_region,
    member_object,
    pick,
    placement_object,
    status_record,
)
from tests.placement.scene import EAST, TIME, HubScene, P, three_members
from wharfinger.etcd.etcd import EtcdStore
from wharfinger.objects.documents import documents
from wharfinger.placement.contracts import placement_keys
from wharfinger.placement.contracts.placement_records import DecisionRecord, EvictionRecord
from wharfinger.placement.contracts.placements import CommitDecisionInput, DecideInput
from wharfinger.placement.effects.committing import commit, draft
from wharfinger.placement.effects.questions import needs_attempt
from wharfinger.placement.reading.observe_placements import read_all
from wharfinger.settings import EtcdSettings

OWN = (placement_keys.HUB, placement_keys.member_cluster.prefix, placement_keys.PLACEMENT_OBJECTS)


@pytest.fixture
async def scene() -> HubScene:
    return await three_members()


@pytest.fixture
async def store(etcd_server: EtcdServer) -> AsyncIterator[EtcdStore]:
    store = await EtcdStore.connect(EtcdSettings(endpoints=(etcd_server.url,)))
    yield store
    for prefix in OWN:
        for key in [kv.key async for page in store.list(prefix) for kv in page.items]:
            await store.delete(key)
    await store.close()


async def test_of_eight_hubs_on_a_real_etcd_one_commits(store: EtcdStore) -> None:
    for name in "abc":
        await store.put(placement_keys.member_cluster(name), documents.to_json(member_object(name)))
        kv = (await store.get(placement_keys.member_cluster(name))).kv
        assert kv is not None
        await store.put(placement_keys.member(name), agent_record(kv.create_revision))
        await store.put(placement_keys.member_status(name), status_record(kv.create_revision))
    await store.put(placement_keys.placement(P), documents.to_json(placement_object(**pick(2))))
    views = [await read_all(store) for _ in range(8)]
    commits = []
    for number, view in enumerate(views):
        request = DecideInput(placement=P, workflow_id="w", run_id=f"r{number}")
        decided = draft(view, request, clock=time.monotonic(), time=TIME, token=f"t{number}")
        commits.append(CommitDecisionInput(placement=P, decided=decided, workflow_id="w", run_id=f"r{number}"))
    random.Random(3).shuffle(commits)
    ended = await asyncio.gather(*(commit(store, request, TIME) for request in commits))
    assert sorted(one.outcome for one in ended) == ["committed"] + ["contended"] * 7
    kv = (await store.get(placement_keys.decision(P))).kv
    assert kv is not None
    record = DecisionRecord.from_bytes(kv.value)
    assert [
        one.outcome for one, request in zip(ended, commits, strict=True) if request.decided.token == record.token
    ] == ["committed"]


async def test_a_commit_that_comes_late_changes_nothing(scene: HubScene) -> None:
    await scene.put(placement_object(**pick(1)))
    await scene.attempt()
    await scene.put(placement_object(generation=2, **pick(2)))
    await scene.see()
    late = scene.decide()
    await scene.put(placement_object(generation=3, **pick(3)))
    await scene.attempt()
    assert (await scene.commit(late)).outcome == "contended"
    assert await scene.chosen() == ["a", "b", "c"]


async def test_a_commit_that_is_sent_again_after_a_newer_one_is_contended(scene: HubScene) -> None:
    await scene.put(placement_object(**pick(1)))
    await scene.see()
    first = scene.decide()
    await scene.commit(first)
    await scene.put(placement_object(generation=2, **pick(2)))
    await scene.attempt()
    assert (await scene.commit(first)).outcome == "contended"


async def test_of_two_evictions_the_budget_admits_one(scene: HubScene) -> None:
    await scene.works_on_three()
    await scene.put(eviction_object("e1", "web", "a"))
    await scene.put(eviction_object("e2", "web", "b"))
    decided = await scene.attempt()
    assert [(one.name, one.executed) for one in decided.evictions] == [("e1", True), ("e2", False)]
    assert await scene.chosen() == ["b", "c"]


async def test_an_eviction_that_is_withdrawn_meanwhile_evicts_nobody(scene: HubScene) -> None:
    await scene.put(placement_object(**pick(3)))
    await scene.attempt()
    await scene.work("a")
    await scene.put(eviction_object("e", "web", "a"))
    await scene.see()
    decided = scene.decide()
    await scene.store.delete(placement_keys.PLACEMENT_EVICTIONS + "e")
    assert (await scene.commit(decided)).outcome == "contended"
    assert (await scene.attempt()).action == "nothing"
    assert await scene.chosen() == ["a", "b", "c"]


async def test_an_eviction_of_that_name_put_again_is_judged_for_itself(scene: HubScene) -> None:
    await scene.put(placement_object(**pick(3)))
    await scene.attempt()
    await scene.work("a")
    await scene.put(eviction_object("e", "web", "nobody"))
    assert len((await scene.attempt()).evictions) == 1
    await scene.store.delete(placement_keys.PLACEMENT_EVICTIONS + "e")
    await scene.put(eviction_object("e", "web", "a"))
    assert [(one.cluster, one.executed) for one in (await scene.attempt()).evictions] == [("a", True)]
    assert (await scene.attempt()).action == "nothing"


async def test_an_ended_eviction_of_that_name_is_written_over_only_once(scene: HubScene) -> None:
    await scene.put(placement_object(**pick(3)))
    await scene.attempt()
    await scene.put(eviction_object("e", "web", "nobody"))
    await scene.attempt()
    await scene.store.delete(placement_keys.PLACEMENT_EVICTIONS + "e")
    await scene.put(eviction_object("e", "web", "a"))
    await scene.see()
    one, other = scene.decide(), scene.decide()
    assert (await scene.commit(one, run="one")).outcome == "committed"
    assert (await scene.commit(other, run="other")).outcome == "contended"
    assert (await scene.commit(one, run="one")).outcome == "committed"  # its answer was lost


async def test_an_earlier_releases_record_ends_an_eviction_of_any_life(scene: HubScene) -> None:
    await scene.put(placement_object(**pick(3)))
    await scene.attempt()
    await scene.store.put(
        placement_keys.evicted("e"), EvictionRecord(valid=True, executed=False, message="").to_bytes()
    )
    await scene.put(eviction_object("e", "web", "a"))
    assert (await scene.attempt()).action == "nothing"


async def test_an_etcd_that_was_restored_is_decided_on_as_it_is(scene: HubScene) -> None:
    await scene.put(placement_object(**pick(1)))
    await scene.attempt()
    before = (await scene.store.get(P)).revision
    await scene.put(placement_object(generation=2, **pick(3)))
    await scene.attempt()
    assert await scene.chosen() == ["a", "b", "c"]
    scene.store.restore(before)
    scene.store = scene.store.client()  # a hub that saw more ends, and its successor has another connection
    await scene.see()
    assert [one.name for one in scene.view.decisions[P].chosen] == ["c"]
    assert not needs_attempt(scene.view, P, scene.clock())
    await scene.put(placement_object(generation=2, **pick(2)))
    await scene.attempt()
    assert await scene.chosen() == ["b", "c"]


async def test_a_name_in_both_scopes_is_two_placements(scene: HubScene) -> None:
    await scene.put(placement_object(**pick(1)))
    await scene.put(placement_object(namespace="default", **pick(2)))
    await scene.attempt()
    await scene.attempt("ns/default/web")
    assert (await scene.chosen(), await scene.chosen("ns/default/web")) == (["c"], ["b", "c"])
    await scene.store.delete(placement_keys.placement("ns/default/web"))
    await scene.attempt("ns/default/web")
    await scene.attempt("ns/default/web")
    assert "ns/default/web" not in scene.view.decisions
    assert await scene.chosen() == ["c"]


async def test_what_a_members_clock_says_means_nothing(scene: HubScene) -> None:
    for stamp in ("1970-01-01T00:00:00Z", "2999-01-01T00:00:00Z"):
        agent = {
            "type": "MemberAgent",
            "lastReceivedHeartbeat": stamp,
            "conditions": [
                {"type": "Joined", "status": "True", "lastTransitionTime": stamp},
                {"type": "Healthy", "status": "True", "lastTransitionTime": stamp},
            ],
        }
        await scene.member("a", labels=EAST, status={"agentStatus": [agent]})
        await scene.put(placement_object(stamp[:4], **pick(2, **in_region("east"))))
        await scene.attempt(f"cluster/{stamp[:4]}")
        assert await scene.chosen(f"cluster/{stamp[:4]}") == ["a", "b"]


async def test_a_placement_made_again_while_a_work_lingers_is_decided(scene: HubScene) -> None:
    await scene.put(placement_object(**pick(3)))
    await scene.attempt()
    await scene.work("a")
    await scene.store.delete(placement_keys.member("a"))
    await scene.store.delete(placement_keys.placement(P))
    await scene.attempt()
    assert (await scene.attempt()).action == "nothing"
    await scene.put(placement_object(**pick(3)))
    await scene.attempt()
    record = await scene.record()
    assert (list(record.decision.names), record.deleting) == (["a", "b", "c"], False)
