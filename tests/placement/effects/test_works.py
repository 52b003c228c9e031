"""Waves of works: what each transaction compares, and what that keeps from happening."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest

from tests.placement.delivery_scene import DeliveryScene, careless, role, rolled_out
from tests.placement.objects import agent_record, pick, status_record
from tests.placement.scene import TIME, P
from wharfinger.errors import Unavailable
from wharfinger.etcd.store import Condition, Operation
from wharfinger.placement.contracts import placement_keys
from wharfinger.placement.contracts.placement_rollouts import PlannedRollout
from wharfinger.placement.effects.works import begin_wave, write
from wharfinger.placement.model.delivery import StepKind

LEAVING = {"deletionTimestamp": "2026-01-01T00:00:00Z"}
ALL_AT_ONCE = {"maxUnavailable": "100%", "maxSurge": "100%"}
ONE = {"maxUnavailable": 1, "maxSurge": 1}


async def rolled(members: str = "abc", number: int = 3, **rolling: Any) -> DeliveryScene:
    """A placement that is everywhere it was chosen for."""
    scene = DeliveryScene()
    for name in members:
        await scene.member(name)
    await scene.put(role())
    await scene.put(rolled_out(pick(number), **(rolling or ALL_AT_ONCE)))
    await scene.attempt()
    await scene.settle()
    return scene


async def unchosen(scene: DeliveryScene, number: int) -> PlannedRollout:
    """Fewer are chosen; what follows."""
    await scene.put(rolled_out(pick(number), generation=2, **ONE))
    await scene.attempt()
    return await scene.seen_plan()


async def test_what_was_chosen_gets_the_snapshot() -> None:
    scene = await rolled()
    assert await scene.works() == dict.fromkeys("abc", ("present", 1))
    record = await scene.rollout()
    assert (record.epoch, record.role, record.snapshot, record.run_id) == (1, "rollout", 1, "r")
    await scene.see()
    plan = scene.plan()
    assert (plan.steps, plan.snapshot_in, plan.ready, plan.target) == ((), None, 3, 3)


async def test_a_work_names_all_that_an_agent_needs() -> None:
    scene = await rolled(strategy={"whenToTakeOver": "Never"}, **ALL_AT_ONCE)
    work = await scene.work_of("a")
    assert work is not None
    assert (work.counter, work.since, work.snapshot, work.resolved) == (1, 1, 1, ())
    assert work.identity == scene.view.members["a"].member.identity
    assert work.placement == scene.view.placements[P].placement.identity
    assert work.strategy["whenToTakeOver"] == "Never"


# --- what is compared: the interleaving happens after the wave has begun, before its works --------

Interleaving = tuple[
    str, Callable[[DeliveryScene], Awaitable[PlannedRollout]], Callable[[DeliveryScene], Awaitable[Any]]
]


async def to_add(scene: DeliveryScene) -> PlannedRollout:
    await scene.put(rolled_out(pick(3), generation=2, **ALL_AT_ONCE))
    await scene.attempt()
    return await scene.seen_plan()


async def to_remove(scene: DeliveryScene) -> PlannedRollout:
    return await unchosen(scene, 2)


async def to_remove_for_free(scene: DeliveryScene) -> PlannedRollout:
    await scene.answer("a", applied=False, available=False, failed=True)
    plan = await unchosen(scene, 2)
    assert [(one.member, one.free) for one in plan.steps] == [("a", True)]
    return plan


async def to_remove_from_away(scene: DeliveryScene) -> PlannedRollout:
    await scene.store.delete(placement_keys.member("a"))
    plan = await unchosen(scene, 2)
    assert [(one.member, one.free) for one in plan.steps] == [("a", True)]
    return plan


async def to_remove_from_sick(scene: DeliveryScene) -> PlannedRollout:
    await health(scene, "a", healthy=False)
    plan = await unchosen(scene, 2)
    assert [(one.member, one.free) for one in plan.steps] == [("a", True)]
    return plan


async def to_drop(scene: DeliveryScene) -> PlannedRollout:
    plan = await unchosen(scene, 2)
    await scene.write(plan)
    await scene.answer("a")
    return await scene.seen_plan()


async def health(scene: DeliveryScene, name: str, *, healthy: bool) -> None:
    conditions = [{"type": "Joined", "status": "True"}, {"type": "Healthy", "status": str(healthy)}]
    agent = {"type": "MemberAgent", "conditions": conditions}
    identity = scene.view.members[name].member.identity
    await scene.store.put(placement_keys.member_status(name), status_record(identity, agentStatus=[agent]))


async def another_decision(scene: DeliveryScene) -> None:
    kv = (await scene.store.get(placement_keys.decision(P))).kv
    assert kv is not None
    await scene.store.put(placement_keys.decision(P), kv.value)


async def another_wave(scene: DeliveryScene) -> None:
    kv = (await scene.store.get(placement_keys.rollout(P))).kv
    assert kv is not None
    await scene.store.put(placement_keys.rollout(P), kv.value)


async def the_agent_returns(scene: DeliveryScene) -> None:
    await scene.store.put(placement_keys.member("a"), agent_record(scene.view.members["a"].member.identity))


INTERLEAVINGS: dict[str, Interleaving] = {
    "the decision moved": (placement_keys.decision.prefix, to_add, another_decision),
    "a late wave of an earlier run": (placement_keys.rollout.prefix, to_add, another_wave),
    "the member begins to leave": (
        placement_keys.member_cluster.prefix,
        to_add,
        lambda scene: scene.change_member("a", **LEAVING),
    ),
    "another ceases to be ready": (
        placement_keys.losses.prefix,
        to_remove,
        lambda scene: scene.answer("b", available=False),
    ),
    "what had failed is ready": (placement_keys.result.prefix, to_remove_for_free, lambda scene: scene.answer("a")),
    "an agent returns": (placement_keys.member.prefix, to_remove_from_away, the_agent_returns),
    "a member is well again": (
        placement_keys.member_status.prefix,
        to_remove_from_sick,
        lambda one: health(one, "a", healthy=True),
    ),
    "what was gone is told anew": (placement_keys.result.prefix, to_drop, lambda scene: scene.answer("a", gone=False)),
}


async def interleaved(name: str, *, compares: bool) -> tuple[Sequence[str], Sequence[str], bool]:
    """Members written, what had moved, and whether the works are as they were."""
    prefix, prepare, meanwhile = INTERLEAVINGS[name]
    scene = await rolled("abc", 2 if prepare is to_add else 3)
    plan = await prepare(scene)
    assert len(plan.steps) == 1
    before = await scene.works()
    store = scene.store.client() if compares else careless(scene.store, prefix)
    began = False

    async def come_between(_: Sequence[Condition], operations: Sequence[Operation]) -> None:
        nonlocal began
        if began and not any(one.key == placement_keys.rollout(P) for one in operations):
            store.before_txn = None
            await meanwhile(scene)
        began = True

    store.before_txn = come_between
    written = await write(store, scene.view, scene.wave(plan), TIME)
    assert written.outcome == "written"
    return written.written, written.moved, await scene.works() == before


@pytest.mark.parametrize("name", INTERLEAVINGS)
async def test_a_work_is_not_written_if_what_it_relies_on_moved(name: str) -> None:
    prefix, *_ = INTERLEAVINGS[name]
    written, moved, unchanged = await interleaved(name, compares=True)
    assert (written, len(moved), unchanged) == ((), 1, True)
    assert moved[0].partition(": ")[2].startswith(prefix)


@pytest.mark.parametrize("name", INTERLEAVINGS)
async def test_nothing_but_that_compare_keeps_it_from_being_written(name: str) -> None:
    written, moved, unchanged = await interleaved(name, compares=False)
    assert (len(written), moved, unchanged) == (1, (), False)


@pytest.mark.parametrize("moves", [another_decision, another_wave])
async def test_a_wave_does_not_begin_if_others_were_first(moves: Callable[[DeliveryScene], Awaitable[None]]) -> None:
    scene = await rolled(number=2)
    plan = await to_add(scene)
    await moves(scene)
    before = scene.store.revision
    written = await scene.write(plan)
    assert (written.outcome, written.seen.hub, scene.store.revision) == ("contended", before, before)


async def test_a_late_wave_changes_nothing_after_a_later_one() -> None:
    scene = await rolled()
    await scene.edit("2")
    plan = await scene.seen_plan()
    late = scene.wave(plan, run="old")
    assert (await begin_wave(scene.store, late, TIME)).revision
    await scene.edit("3")
    await scene.settle()
    before = scene.store.revision
    written = await write(scene.store, scene.view, late, TIME)
    assert (written.outcome, scene.store.revision) == ("contended", before)
    assert await scene.works() == dict.fromkeys("abc", ("present", 3))


async def test_a_ready_member_is_updated_only_while_no_other_is_lost() -> None:
    scene = await rolled(**ONE)
    await scene.edit("2")
    plan = await scene.seen_plan()
    assert [(one.member, one.ready) for one in plan.steps] == [("a", True)]
    await scene.answer("b", available=False)
    written = await scene.write(plan)
    assert written.moved == (f"a: {placement_keys.losses(P)}",)
    assert await scene.works() == dict.fromkeys("abc", ("present", 1))


# --- lost answers, failures -----------------------------------------------------------------------


async def versions(scene: DeliveryScene, since: int) -> dict[str, int]:
    """How often each key was written from a revision on."""
    until = await scene.store.put(f"{placement_keys.HUB}zz", b"")
    found: dict[str, int] = {}
    async with scene.store.watch(placement_keys.HUB, since + 1) as batches:
        async for batch in batches:
            if batch.revision == until:
                return found
            for event in batch.events:
                found[event.kv.key] = found.get(event.kv.key, 0) + 1
    raise AssertionError


@pytest.mark.parametrize("applied", [True, False])
@pytest.mark.parametrize("prepare", [to_add, to_remove, to_drop])
@pytest.mark.parametrize("lost", [0, 1])
async def test_a_wave_whose_answer_was_lost_is_written_once(prepare: Any, lost: int, *, applied: bool) -> None:
    scene = await rolled(number=2 if prepare is to_add else 3)
    plan = await prepare(scene)
    before, number = scene.store.revision, 0

    def lose(*_: Any) -> None:
        nonlocal number
        if number == lost:
            scene.store.fail_next(applied=applied)
        number += 1

    scene.store.before_txn = lose
    with pytest.raises(Unavailable):
        await scene.write(plan, wave="r/9")
    scene.store.before_txn = None
    again = await scene.write(plan, wave="r/9")
    assert (again.outcome, again.written, again.moved) == ("written", (plan.steps[0].member,), ())
    counts = await versions(scene, before)
    assert set(counts.values()) == {1}
    assert placement_keys.work(P, plan.steps[0].member) in counts


async def test_two_tries_of_a_wave_at_once_write_each_work_once() -> None:
    scene = await rolled(**ALL_AT_ONCE)
    await scene.edit("2")
    plan = await scene.seen_plan()
    before = scene.store.revision
    found = await asyncio.gather(*(scene.write(plan, wave="r/9") for _ in range(3)))
    assert [one.outcome for one in found] == ["written"] * 3
    assert {one.rollout for one in found} == {found[0].rollout}
    counts = await versions(scene, before)
    assert counts == dict.fromkeys([placement_keys.rollout(P), *(placement_keys.work(P, name) for name in "abc")], 1)


async def test_without_comparing_the_work_two_tries_write_twice() -> None:
    scene = await rolled(**ALL_AT_ONCE)
    await scene.edit("2")
    plan = await scene.seen_plan()
    before, first = scene.store.revision, careless(scene.store, placement_keys.work.prefix)

    async def second(_: Sequence[Condition], operations: Sequence[Operation]) -> None:
        if operations[0].key != placement_keys.rollout(P):
            first.before_txn = None
            await scene.write(plan, wave="r/9")

    first.before_txn = second
    await write(first, scene.view, scene.wave(plan, wave="r/9"), TIME)
    assert 2 in (await versions(scene, before)).values()


async def test_one_that_fails_cancels_no_other() -> None:
    scene = await rolled(**ALL_AT_ONCE)
    await scene.edit("2")
    plan = await scene.seen_plan()

    def fail(_: Sequence[Condition], operations: Sequence[Operation]) -> None:
        if operations[0].key == placement_keys.work(P, "a"):
            raise Unavailable("no answer")

    scene.store.before_txn = fail
    with pytest.raises(Unavailable):
        await scene.write(plan, wave="r/9")
    assert await scene.works() == {"a": ("present", 1), "b": ("present", 2), "c": ("present", 2)}
    scene.store.before_txn = None
    assert (await scene.write(plan, wave="r/9")).written == ("a", "b", "c")


async def test_one_that_moved_cancels_no_other() -> None:
    scene = await rolled(**ALL_AT_ONCE)
    await scene.edit("2")
    plan = await scene.seen_plan()
    await scene.change_member("b", labels={"new": "1"})
    written = await scene.write(plan)
    assert (written.written, written.moved) == (("a", "c"), (f"b: {placement_keys.member_cluster('b')}",))


# --- contents of works ----------------------------------------------------------------------------


async def test_an_apply_strategy_changes_no_contents() -> None:
    scene = await rolled(**ONE)
    await scene.put(rolled_out(pick(3), generation=2, strategy={"whenToApply": "IfNotDrifted"}, **ONE))
    await scene.attempt()
    plan = await scene.seen_plan()
    assert [one.kind for one in plan.steps] == [StepKind.STRATEGY] * 3
    await scene.write(plan)
    work = await scene.work_of("a")
    assert work is not None
    assert (work.counter, work.since, work.strategy["whenToApply"]) == (2, 1, "IfNotDrifted")


async def test_overrides_are_those_of_the_plan_or_nothing_is_written() -> None:
    scene = await rolled(**ALL_AT_ONCE)
    override = {
        "apiVersion": "placement.kubernetes-fleet.io/v1",
        "kind": "ClusterResourceOverride",
        "metadata": {"name": "o"},
        "spec": {
            "clusterResourceSelectors": [{**rolled_out()["spec"]["resourceSelectors"][0]}],
            "policy": {
                "overrideRules": [
                    {
                        "clusterSelector": {"clusterSelectorTerms": []},
                        "jsonPatchOverrides": [
                            {"op": "add", "path": "/metadata/annotations/on", "value": "${MEMBER-CLUSTER-NAME}"}
                        ],
                    }
                ]
            },
        },
    }
    await scene.put(override)
    plan = await scene.seen_plan()
    assert [one.kind for one in plan.steps] == [StepKind.UPDATE] * 3
    edited = json.loads(json.dumps(override).replace("annotations/on", "annotations/at"))
    await scene.put(edited)
    await scene.see()
    assert (await scene.write(plan)).moved == ("a: overrides", "b: overrides", "c: overrides")
    await scene.settle()
    work = await scene.work_of("b")
    assert work is not None
    assert work.resolved[0]["patches"] == [["add", "/metadata/annotations/at", "b"]]


async def test_no_wave_waits_for_a_revision_of_another_stream() -> None:
    scene = await rolled("a", 1, **ALL_AT_ONCE)
    await scene.edit("2")
    plan = await scene.seen_plan()

    async def leave(_: Sequence[Condition], operations: Sequence[Operation]) -> None:
        if operations[0].key != placement_keys.rollout(P):
            scene.store.before_txn = None
            await scene.change_member("a", **LEAVING)

    scene.store.before_txn = leave
    written = await scene.write(plan)
    assert written.moved == (f"a: {placement_keys.member_cluster('a')}",)
    assert written.seen.hub == written.rollout


async def test_a_restored_hub_goes_above_what_a_member_has_seen() -> None:
    scene = await rolled()
    await scene.answer("b", counter=7, applied=False, available=False)
    plan = await scene.seen_plan()
    assert [(one.member, one.kind, one.counter, one.free) for one in plan.steps] == [("b", StepKind.UPDATE, 8, True)]
    await scene.write(plan)
    work = await scene.work_of("b")
    assert work is not None
    assert (work.counter, work.since) == (8, 8)
