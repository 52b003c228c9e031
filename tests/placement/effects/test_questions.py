"""Attempts of placements on a store in memory: what is stored, and what two that decide at once come to."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.placement.objects import budget_object, eviction_object, in_region, pick, placement_object
from tests.placement.policies import POLICIES
from tests.placement.scene import EAST, HubScene, P, three_members
from wharfinger.errors import Unavailable
from wharfinger.placement.contracts import placement_keys
from wharfinger.placement.contracts.placement_records import EvictionRecord, PolicyRecord
from wharfinger.placement.effects.questions import needs_attempt


@pytest.fixture
async def scene() -> HubScene:
    return await three_members()


async def test_a_decision_says_who_was_chosen_and_why_the_others_were_not(scene: HubScene) -> None:
    await scene.put(placement_object(**pick(1, **in_region("east"))))
    decided = await scene.attempt()
    assert (decided.fulfilled, decided.added) == (True, ("b",))
    record = await scene.record()
    assert [(one.name, one.plugin) for one in record.decision.verdicts] == [("a", ""), ("c", "ClusterAffinity")]
    assert record.seen == decided.seen
    assert record.ages == {"a": (0.0, None), "b": (0.0, None), "c": (0.0, None)}


async def test_an_attempt_that_has_nothing_new_to_say_writes_nothing(scene: HubScene) -> None:
    await scene.put(placement_object(**pick(2)))
    await scene.attempt()
    assert not needs_attempt(scene.view, P, scene.clock())
    assert (await scene.attempt()).action == "nothing"


async def test_a_decision_of_another_release_is_by_the_same_policy(scene: HubScene) -> None:
    """Hubs of both releases compute the digest that this one has had in all of them: neither writes a new policy."""
    await scene.put(placement_object(**(POLICIES["full"] or {})))
    await scene.attempt()
    record = await scene.record()
    assert record.digest == "002d13435f8ffd4ceda3f5ac3a9e4093"
    other = replace(record, token="other")  # as a hub of the other release writes it
    await scene.store.put(placement_keys.decision(P), other.to_bytes())
    await scene.see()
    assert not needs_attempt(scene.view, P, scene.clock())
    assert scene.view.policies[P] == {1}


async def test_of_two_that_decide_at_once_one_is_contended(scene: HubScene) -> None:
    await scene.put(placement_object(**pick(2)))
    await scene.see()
    one, other = scene.decide(), scene.decide()
    assert (await scene.commit(one)).outcome == "committed"
    contended = await scene.commit(other)
    assert (contended.outcome, contended.moved) == (
        "contended",
        f"{placement_keys.decision(P)}, {placement_keys.policy(P, 1)}",
    )
    kv = (await scene.store.get(placement_keys.decision(P))).kv
    assert kv is not None
    assert contended.seen.hub == kv.mod_revision


async def test_a_placement_that_moves_after_it_was_decided_is_decided_again(scene: HubScene) -> None:
    await scene.put(placement_object(**pick(2)))
    await scene.see()
    decided = scene.decide()
    moved = await scene.put(placement_object(generation=2, **pick(1)))
    contended = await scene.commit(decided)
    assert (contended.moved, contended.seen.objects) == (placement_keys.placement(P), moved)
    assert (await scene.store.get(placement_keys.decision(P))).kv is None


async def test_a_commit_whose_answer_was_lost_is_found_by_its_token(scene: HubScene) -> None:
    await scene.put(placement_object(**pick(2)))
    await scene.see()
    decided = scene.decide()
    scene.store.fail_next(applied=True)
    with pytest.raises(Unavailable):
        await scene.commit(decided)
    assert (await scene.commit(decided)).outcome == "committed"


async def test_a_policy_gets_a_number_of_its_own_and_ten_are_kept(scene: HubScene) -> None:
    for generation in range(1, 14):
        region = "east" if generation % 2 else "west"
        await scene.put(placement_object(generation=generation, **pick(1, **in_region(region))))
        await scene.attempt()
    numbers = sorted(scene.view.policies[P])
    assert numbers == list(range(4, 14))
    kv = (await scene.store.get(placement_keys.policy(P, 13))).kv
    assert kv is not None
    assert PolicyRecord.model_validate_json(kv.value).policy["placementType"] == "PickN"


async def test_another_number_of_members_is_no_other_policy(scene: HubScene) -> None:
    await scene.put(placement_object(**pick(1)))
    await scene.attempt()
    await scene.put(placement_object(generation=2, **pick(3)))
    await scene.attempt()
    assert scene.view.policies[P] == {1}
    assert await scene.chosen() == ["a", "b", "c"]


async def test_a_member_that_left_and_came_back_is_newly_chosen(scene: HubScene) -> None:
    await scene.put(placement_object(**pick(3)))
    await scene.attempt()
    await scene.store.delete(placement_keys.member_cluster("b"))
    identity = await scene.member("b", labels=EAST)
    decided = await scene.attempt()
    assert (decided.added, decided.removed) == (("b",), ("b",))
    chosen = {one.name: one.identity for one in (await scene.record()).decision.chosen}
    assert chosen["b"] == identity


async def test_an_eviction_ends_with_the_decision_that_follows_from_it(scene: HubScene) -> None:
    await scene.put(placement_object(**pick(1)))
    await scene.attempt()
    (name,) = await scene.chosen()
    await scene.work(name)
    await scene.put(eviction_object("e", "web", name))
    decided = await scene.attempt()
    assert (decided.removed, [one.executed for one in decided.evictions]) == ((name,), [True])
    record = await scene.record()
    assert name not in record.decision.names
    assert record.evicted == {name}
    kv = (await scene.store.get(placement_keys.evicted("e"))).kv
    assert kv is not None
    assert EvictionRecord.model_validate_json(kv.value).cluster == name


async def test_who_was_evicted_may_return_once_its_work_is_gone(scene: HubScene) -> None:
    await scene.put(placement_object(**pick(3)))
    await scene.attempt()
    await scene.work("b")
    await scene.put(eviction_object("e", "web", "b"))
    await scene.attempt()
    assert await scene.chosen() == ["a", "c"]
    assert [one.plugin for one in (await scene.record()).decision.verdicts] == ["Eviction"]
    await scene.remove_work("b")
    assert P in {change.placement for change in await scene.see()}
    await scene.attempt()
    assert await scene.chosen() == ["a", "b", "c"]


async def test_an_eviction_that_the_budget_forbids_ends_without_a_new_decision(scene: HubScene) -> None:
    await scene.put(placement_object(**pick(3)))
    await scene.put(budget_object("web", minAvailable=3))
    await scene.attempt()
    for name in "abc":
        await scene.work(name)
    before = await scene.record()
    await scene.put(eviction_object("e", "web", "b"))
    decided = await scene.attempt()
    assert [(one.valid, one.executed) for one in decided.evictions] == [(True, False)]
    assert await scene.record() == before
    assert (await scene.attempt()).action == "nothing"


async def test_an_eviction_loses_against_a_result_that_is_lost(scene: HubScene) -> None:
    await scene.works_on_three()
    await scene.put(eviction_object("e", "web", "b"))
    await scene.see()
    decided = scene.decide()
    await scene.store.put(placement_keys.losses(P), b"1")
    assert (await scene.commit(decided)).moved == placement_keys.losses(P)


async def test_a_failed_result_is_evicted_for_free_only_while_it_stands(scene: HubScene) -> None:
    await scene.put(placement_object(**pick(3)))
    await scene.put(budget_object("web", minAvailable=3))
    await scene.attempt()
    await scene.work("b", result={"failed": True, "available": False})
    await scene.put(eviction_object("e", "web", "b"))
    await scene.see()
    decided = scene.decide()
    assert decided.free == ("b",)
    await scene.work("b")
    assert (await scene.commit(decided)).moved == placement_keys.result(P, "b")


async def test_an_eviction_of_no_placement_ends_too(scene: HubScene) -> None:
    await scene.put(eviction_object("e", "nothing", "b"))
    decided = await scene.attempt("cluster/nothing")
    assert [one.valid for one in decided.evictions] == [False]
    assert (await scene.attempt("cluster/nothing")).action == "nothing"


async def test_a_deleted_placement_is_emptied_and_goes_when_no_work_is_left(scene: HubScene) -> None:
    await scene.put(placement_object(**pick(3)))
    await scene.attempt()
    await scene.work("b")
    await scene.put(placement_object(deleting=True, **pick(3)))
    decided = await scene.attempt()
    assert (decided.action, decided.removed) == ("store", ("a", "b", "c"))
    assert (await scene.attempt()).action == "nothing"
    await scene.remove_work("b")
    assert P in {change.placement for change in await scene.see()}
    assert (await scene.attempt()).action == "remove"
    left = [kv.key async for page in scene.store.list("/") for kv in page.items if "web" in kv.key]
    assert left == []


async def test_an_object_that_vanished_is_deleted_by_the_recorded_strategy(scene: HubScene) -> None:
    obj = placement_object(**pick(3))
    obj["spec"]["strategy"] = {"deleteStrategy": {"propagationPolicy": "Abandon"}}
    await scene.put(obj)
    await scene.attempt()
    await scene.store.delete(placement_keys.placement(P))
    await scene.attempt()
    record = await scene.record()
    assert (record.abandons, record.deleting, record.decision.chosen) == (True, True, ())
    assert (await scene.attempt()).action == "remove"


async def test_a_placement_made_again_is_new_and_keeps_what_is_delivered(scene: HubScene) -> None:
    await scene.put(placement_object(**pick(1)))
    await scene.attempt()
    await scene.put(placement_object(generation=2, **pick(1, **in_region("east"))))
    await scene.attempt()
    assert await scene.chosen() == ["b"]
    await scene.work("b")
    await scene.store.delete(placement_keys.placement(P))
    await scene.put(placement_object(**pick(1, **in_region("east"))))
    await scene.attempt()
    record = await scene.record()
    assert (list(record.decision.names), record.decision.policy) == (["b"], 3)


async def test_what_cannot_be_read_stays_as_it_was(scene: HubScene) -> None:
    await scene.put(placement_object(**pick(1)))
    await scene.attempt()
    await scene.store.put(placement_keys.placement(P), b'{"kind": "ClusterResourcePlacement", "spec": 1}')
    await scene.store.put(placement_keys.member_cluster("c"), b"{")
    assert (await scene.attempt()).action == "nothing"
    assert await scene.chosen() == ["c"]
    assert set(scene.view.unreadable) == {placement_keys.placement(P), placement_keys.member_cluster("c")}


async def test_a_member_that_cannot_be_read_takes_nothing_new(scene: HubScene) -> None:
    await scene.attempt()
    await scene.store.put(placement_keys.member_cluster("c"), b"{")
    await scene.put(placement_object(**pick(3)))
    await scene.attempt()
    assert await scene.chosen() == ["a", "b"]
    (verdict,) = (await scene.record()).decision.verdicts
    assert verdict.plugin == "MemberObject"


async def test_a_drained_member_is_exchanged_and_a_cordoned_one_stays(scene: HubScene) -> None:
    await scene.put(placement_object(**pick(1)))
    await scene.attempt()
    assert await scene.chosen() == ["c"]
    await scene.drain("c", "cordon")
    await scene.attempt()
    assert await scene.chosen() == ["c"]
    await scene.drain("c")
    await scene.attempt()
    assert await scene.chosen() == ["b"]


async def test_an_agents_absence_is_this_hubs_own_time(scene: HubScene) -> None:
    await scene.put(placement_object(**pick(1, **in_region("west"))))
    await scene.see()
    await scene.store.delete(placement_keys.member("c"))
    scene.clock.advance(10)
    await scene.see()
    scene.clock.advance(290)
    assert scene.view.members["c"].ages(scene.clock()).heartbeat == 290.0
    await scene.attempt()
    assert await scene.chosen() == ["c"]
    scene.clock.advance(20)
    await scene.put(placement_object("other", **pick(1, **in_region("west"))))
    await scene.attempt("cluster/other")
    assert await scene.chosen("cluster/other") == []


async def test_a_member_that_this_hub_never_heard_is_not_online(scene: HubScene) -> None:
    await scene.member("d", online=False, labels=EAST)
    await scene.put(placement_object(**pick(4)))
    await scene.attempt()
    (verdict,) = (await scene.record()).decision.verdicts
    assert verdict.reason.endswith("member agent not online yet")


async def test_a_finalizer_of_others_keeps_a_deleted_placement(scene: HubScene) -> None:
    obj = placement_object(deleting=True, **pick(3))
    obj["metadata"]["finalizers"] = ["example.com/mine", "kubernetes-fleet.io/crp-cleanup"]
    await scene.put(obj)
    assert (await scene.attempt()).action == "nothing"
    obj["metadata"]["finalizers"] = ["kubernetes-fleet.io/crp-cleanup"]
    await scene.put(obj)
    assert (await scene.attempt()).action == "remove"


async def test_many_evictions_end_a_few_at_a_time(scene: HubScene) -> None:
    await scene.put(placement_object(**pick(3)))
    await scene.attempt()
    for number in range(50):
        await scene.put(eviction_object(f"e{number}", "web", "nobody"))
    assert len((await scene.attempt()).evictions) == 20
    await scene.attempt()
    assert len((await scene.attempt()).evictions) == 10
    assert (await scene.attempt()).action == "nothing"


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (
            placement_keys.placement("cluster/web"),
            b'{"kind": "ClusterResourcePlacement", "metadata": {"name": "other"}}',
        ),
        (placement_keys.placement("cluster/a/b"), b'{"kind": "ClusterResourcePlacement", "metadata": {"name": "b"}}'),
        (placement_keys.placement("cluster/.."), b'{"kind": "ClusterResourcePlacement", "metadata": {"name": ".."}}'),
        (
            placement_keys.placement("cluster/big"),
            b'{"kind": "ClusterResourcePlacement", "x": "' + b"x" * 600_000 + b'"}',
        ),
        (placement_keys.placement("cluster/list"), b"[]"),
        (placement_keys.member_cluster("m"), b'{"metadata": 1}'),
        (placement_keys.member_cluster("m"), b'{"metadata": {"labels": {"a": {}}}}'),
        (placement_keys.PLACEMENT_EVICTIONS + "e", b'{"spec": {"placementName": 1}}'),
        (placement_keys.PLACEMENT_BUDGETS + "web", b'{"spec": {"maxUnavailable": "many"}}'),
        (placement_keys.decision("cluster/web"), b"\x00\x01"),
        (placement_keys.policy.prefix + "cluster/web/x", b"{}"),
        (placement_keys.work("cluster/web", "m"), b'{"want": "maybe"}'),
        (placement_keys.member("m"), b"{"),
        (placement_keys.member_status("m"), b'{"identity": "x"}'),
        (placement_keys.drain("m"), b'{"want": 1}'),
        (placement_keys.HUB, b""),
        (placement_keys.HUB + "unknown/x", b""),
    ],
)
async def test_what_is_stored_amiss_disturbs_nothing_else(scene: HubScene, key: str, value: bytes) -> None:
    await scene.store.put(key, value)
    await scene.put(placement_object("good", **pick(3)))
    await scene.attempt("cluster/good")
    assert len(await scene.chosen("cluster/good")) == 3
    assert all(len(why) <= 200 and "\n" not in why for why in scene.view.unreadable.values())
    await scene.store.delete(key)
    await scene.see()
    assert scene.view.unreadable == {}


async def test_a_placement_of_a_namespace_goes_where_that_is() -> None:
    scene = HubScene()
    collected = {"conditions": [{"type": "NamespaceCollectionSucceeded", "status": "True"}]}
    await scene.member("has", status={**collected, "namespaces": {"team": ""}})
    await scene.member("has-not", status={**collected, "namespaces": {"other": ""}})
    await scene.put(placement_object(namespace="team"))
    await scene.attempt("ns/team/web")
    assert await scene.chosen("ns/team/web") == ["has"]
    await scene.store.delete(placement_keys.placement("ns/team/web"))
    await scene.attempt("ns/team/web")
    assert (await scene.attempt("ns/team/web")).action == "remove"


async def test_an_unreadable_work_keeps_a_deleted_placement_until_it_goes(scene: HubScene) -> None:
    await scene.put(placement_object(deleting=True, **pick(3)))
    await scene.store.put(placement_keys.work(P, "a"), b"{")
    assert (await scene.attempt()).action == "nothing"
    await scene.store.delete(placement_keys.work(P, "a"))
    assert P in {change.placement for change in await scene.see()}
    assert (await scene.attempt()).action == "remove"
