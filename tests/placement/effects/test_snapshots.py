"""Snapshots: parts before the head, what is compared, and which are kept."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest

from tests.placement.delivery_scene import ROLES, DeliveryScene, careless, role, rolled_out, selecting
from tests.placement.effects.test_works import ALL_AT_ONCE, another_decision, another_wave, rolled
from tests.placement.objects import pick
from tests.placement.scene import TIME, P
from wharfinger.errors import InvalidObject, Unavailable
from wharfinger.etcd.store import Condition, Operation, Put
from wharfinger.placement.contracts import placement_keys
from wharfinger.placement.contracts.placement_rollouts import ForgetContentsInput
from wharfinger.placement.effects import snapshots
from wharfinger.placement.effects.snapshots import forget, read, take

EVERY_ROLE = [{"group": "rbac.authorization.k8s.io", "version": "v1", "kind": "ClusterRole"}]


@pytest.fixture
async def scene() -> DeliveryScene:
    return await selecting()


async def changed(scene: DeliveryScene, mark: str = "2") -> None:
    """The selected object is another one, long enough ago."""
    await scene.put(role(mark=mark))
    await scene.see()
    scene.plan()
    scene.clock.advance(61)


async def test_a_snapshot_is_what_members_get(scene: DeliveryScene) -> None:
    taken = await scene.take()
    assert (taken.outcome, taken.number, taken.objects) == ("taken", 1, 1)
    found = (await scene.snapshots())[1]
    assert found.objects == (("rbac.authorization.k8s.io", "v1", "ClusterRole", "", "role"),)
    assert set(found.parts) == await scene.parts()
    assert await read(scene.store, P, found) == [role()]
    record = await scene.rollout()
    assert (record.snapshot, record.trouble, record.epoch, record.wave) == (1, "", 1, 1)
    assert record.selected == scene.contents.stamp(P)


async def test_parts_are_written_before_their_head(scene: DeliveryScene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshots, "PART", 300)
    for number in range(5):
        await scene.put(role(f"r{number}", "x" * 200))
    await scene.put(rolled_out(pick(1), selectors=EVERY_ROLE, generation=2))
    await scene.attempt()
    written: list[str] = []
    scene.store.before_txn = lambda _, operations: written.extend(one.key for one in operations if isinstance(one, Put))
    await scene.take()
    head = (await scene.snapshots())[1]
    assert len(head.parts) > 2
    assert written == [
        *(placement_keys.contents(P, one) for one in head.parts),
        placement_keys.rollout(P),
        placement_keys.snapshot(P, 1),
    ]
    assert [one["metadata"]["name"] for one in await read(scene.store, P, head)] == [
        "r0",
        "r1",
        "r2",
        "r3",
        "r4",
        "role",
    ]


async def test_equal_contents_are_no_new_snapshot(scene: DeliveryScene) -> None:
    await scene.take()
    await scene.store.put(f"{ROLES}role", json.dumps({**role(), "status": {"x": 1}}).encode())
    await scene.see()
    assert scene.plan().snapshot_in == 30.0
    scene.clock.advance(31)
    taken = await scene.take()
    assert (taken.outcome, taken.number) == ("same", 1)
    assert (await scene.seen_plan()).snapshot_in is None
    assert len(await scene.snapshots()) == 1


async def test_a_change_waits_until_it_settles_and_apart_from_the_last(scene: DeliveryScene) -> None:
    await scene.take()
    assert (await scene.seen_plan()).snapshot_in is None
    await scene.put(role(mark="2"))
    found = []
    for _ in range(4):
        found.append((await scene.seen_plan()).snapshot_in)
        scene.clock.advance(10)
        await scene.put(role(mark=str(scene.clock())))
    assert found == [30.0, 20.0, 10.0, 0.0]
    await scene.take()
    assert (await scene.seen_plan()).snapshot_in is None
    scene.clock.advance(100)
    await scene.put(role(mark="last"))
    assert (await scene.seen_plan()).snapshot_in == 15.0


@pytest.mark.parametrize("moves", [another_decision, another_wave])
async def test_a_snapshot_compares_who_delivers(
    scene: DeliveryScene, moves: Callable[[DeliveryScene], Awaitable[None]]
) -> None:
    await scene.take()
    await changed(scene)
    request = scene.snapshot_input(await scene.seen_plan())
    moved = placement_keys.decision.prefix if moves is another_decision else placement_keys.rollout.prefix
    for store in (scene.store.client(), careless(scene.store, moved)):
        at_head = False

        async def come_between(_: Sequence[Condition], operations: Sequence[Operation]) -> None:
            nonlocal at_head
            if not at_head and any(one.key == placement_keys.rollout(P) for one in operations):
                at_head = True
                await moves(scene)

        store.before_txn = come_between
        taken = await take(store, scene.view, request, TIME)
        assert at_head
        if moves is another_wave:
            kv = (await scene.store.get(placement_keys.rollout(P))).kv
            assert kv is not None
            request = request.model_copy(update={"rollout": kv.mod_revision})
        else:
            kv = (await scene.store.get(placement_keys.decision(P))).kv
            assert kv is not None
            request = request.model_copy(update={"decision": kv.mod_revision})
    assert taken.outcome == "taken"


async def test_a_part_that_others_forget_meanwhile_is_no_part(scene: DeliveryScene) -> None:
    await scene.take()
    await changed(scene)
    request = scene.snapshot_input(await scene.seen_plan())
    outcomes = []
    for store in (scene.store.client(), careless(scene.store, placement_keys.contents.prefix)):

        async def forgets(_: Sequence[Condition], operations: Sequence[Operation]) -> None:
            if any(one.key == placement_keys.rollout(P) for one in operations):
                for part in await scene.parts():
                    await scene.store.delete(placement_keys.contents(P, part))

        store.before_txn = forgets
        outcomes.append((await take(store, scene.view, request, TIME)).outcome)
    assert outcomes == ["contended", "taken"]  # the second one has no parts: the compare is what it takes


@pytest.mark.parametrize("applied", [True, False])
@pytest.mark.parametrize("lost", [0, 1])
async def test_a_snapshot_whose_answer_was_lost_is_taken_once(
    scene: DeliveryScene, lost: int, *, applied: bool
) -> None:
    plan, writes = await scene.seen_plan(), 0

    def lose(*_: Any) -> None:
        nonlocal writes
        if writes == lost:
            scene.store.fail_next(applied=applied)
        writes += 1

    scene.store.before_txn = lose
    with pytest.raises(Unavailable):
        await scene.take(plan)
    scene.store.before_txn = None
    assert (await scene.snapshots()).keys() == ({1} if (lost, applied) == (1, True) else set())
    taken = await scene.take(plan)
    assert (taken.outcome, taken.number) == ("same" if (lost, applied) == (1, True) else "taken", 1)
    assert len(await scene.snapshots()) == len(await scene.parts()) == 1


async def test_parts_without_a_head_are_forgotten_with_the_next_snapshot(scene: DeliveryScene) -> None:
    scene.store.before_txn = lambda _, operations: scene.store.fail_next(applied=False) if len(operations) > 1 else None
    with pytest.raises(Unavailable):
        await scene.take()
    scene.store.before_txn = None
    left = await scene.parts()
    assert len(left) == 1
    await changed(scene)
    assert (await scene.take()).outcome == "taken"
    assert not left & await scene.parts()


async def test_what_works_and_pins_name_is_kept() -> None:
    scene = await rolled("abc", 3, history=1, **ALL_AT_ONCE)
    for mark in ("2", "3", "4"):
        await scene.edit(mark)
        if mark == "2":
            await scene.settle()
        if mark == "3":
            await scene.pin(3)
    assert (await scene.snapshots()).keys() == {2, 3, 4}
    plan = await scene.seen_plan()
    assert (plan.snapshot, plan.pinned) == (3, True)
    await scene.settle()
    await scene.store.delete(placement_keys.pin(P))
    await scene.settle()
    await scene.edit("5")
    assert (await scene.snapshots()).keys() == {4, 5}
    assert len(await scene.parts()) == 2


async def test_a_work_that_the_hub_has_not_seen_keeps_its_snapshot() -> None:
    """The wave that wrote it was begun before the snapshot, which ends it."""
    scene = await rolled("abc", 3, history=1, **ALL_AT_ONCE)
    await scene.edit("2")
    plan = await scene.seen_plan()
    request = scene.wave(plan)
    wave = await scene.write(plan)
    work = await scene.work_of("a")
    assert work is not None
    await changed(scene, "3")
    await scene.store.put(placement_keys.work(P, "c"), work.model_copy(update={"snapshot": 1}).to_bytes())
    assert wave.rollout != request.rollout
    assert (await scene.take(scene.plan())).outcome == "taken"
    assert (await scene.snapshots()).keys() == {1, 2, 3}


async def test_a_limit_keeps_so_many_snapshots() -> None:
    scene = await rolled("a", 1, history=3, **ALL_AT_ONCE)
    for mark in "23456":
        await scene.edit(mark)
        await scene.settle()
    assert (await scene.snapshots()).keys() == {4, 5, 6}


async def test_trouble_is_recorded_and_looked_at_again_after_a_change(scene: DeliveryScene) -> None:
    await scene.take()
    await scene.store.put(f"{ROLES}role", b'{"kind": "Pod"')
    await scene.see()
    scene.plan()
    scene.clock.advance(61)
    taken = await scene.take()
    assert (taken.outcome, taken.number) == ("trouble", 1)
    plan = await scene.seen_plan()
    assert (plan.snapshot_in, plan.snapshot) == (None, 1)
    assert "ClusterRole role" in plan.trouble
    await changed(scene, "3")
    assert (await scene.take()).outcome == "taken"
    assert (await scene.seen_plan()).trouble == ""


async def test_a_placement_that_is_gone_gets_no_snapshot(scene: DeliveryScene) -> None:
    plan = await scene.seen_plan()
    await scene.store.delete(placement_keys.placement(P))
    assert (await scene.take(plan)).outcome == "gone"
    await scene.store.put(placement_keys.placement(P), b"{")
    assert (await scene.take(plan)).outcome == "gone"
    assert await scene.parts() == set()


async def test_envelopes_name_what_is_in_them(scene: DeliveryScene) -> None:
    envelope = {
        "apiVersion": "placement.kubernetes-fleet.io/v1beta1",
        "kind": "ClusterResourceEnvelope",
        "metadata": {"name": "e"},
        "data": {"role": role("inside")},
    }
    await scene.put(envelope)
    kind = {"group": "placement.kubernetes-fleet.io", "version": "v1beta1", "kind": envelope["kind"], "name": "e"}
    await scene.put(rolled_out(pick(1), selectors=[kind], generation=2))
    await scene.attempt()
    await scene.take()
    found = (await scene.snapshots())[1]
    assert [one[4] for one in found.objects] == ["e"]
    assert [one[4] for one in found.enveloped] == ["inside"]


async def test_what_was_not_kept_cannot_be_read(scene: DeliveryScene) -> None:
    await scene.take()
    head = (await scene.snapshots())[1]
    key = placement_keys.contents(P, head.parts[0])
    other = snapshots.zlib.compress(b"[]")
    for value in (b"x", other):
        await scene.store.put(key, value)
        with pytest.raises(InvalidObject):
            await read(scene.store, P, head)
    await scene.store.delete(key)
    with pytest.raises(InvalidObject, match="is not there"):
        await read(scene.store, P, head)


async def test_a_placement_that_went_leaves_no_snapshots() -> None:
    scene = await rolled("ab", 2)
    for name in ("web2", "we"):
        await scene.store.put(placement_keys.pin(f"cluster/{name}"), b'{"snapshot": 1}')
        await scene.store.put(placement_keys.contents(f"cluster/{name}", "x"), b"")
    await scene.pin(1)
    await scene.put(rolled_out(pick(2), generation=2, deleting=True))
    await scene.attempt()
    await scene.settle()
    plan = await scene.seen_plan()
    assert (plan.forgets, plan.gone, plan.steps) == (True, True, ())
    request = ForgetContentsInput(placement=P, decision=plan.decision)
    stale = await forget(scene.store, request.model_copy(update={"decision": 1}))
    assert (stale.outcome, len(await scene.parts())) == ("contended", 1)
    removed: list[str] = []
    scene.store.before_txn = lambda _, operations: removed.extend(one.key for one in operations)
    forgotten = await forget(scene.store, request)
    assert (forgotten.outcome, forgotten.keys) == ("forgotten", 3)
    assert [one for one in removed if one != placement_keys.rollout(P)][:2] == [
        placement_keys.pin(P),
        placement_keys.snapshot(P, 1),
    ]
    assert not (await scene.seen_plan()).forgets
    for name in ("web2", "we"):
        assert (await scene.store.get(placement_keys.pin(f"cluster/{name}"))).kv is not None
        assert (await scene.store.get(placement_keys.contents(f"cluster/{name}", "x"))).kv is not None


async def test_a_placement_made_again_before_it_went_gets_a_snapshot() -> None:
    scene = await rolled("ab", 2)
    await scene.put(rolled_out(pick(2), generation=2, deleting=True))
    await scene.attempt()
    await scene.settle()
    plan = await scene.seen_plan()
    await forget(scene.store, ForgetContentsInput(placement=P, decision=plan.decision))
    await scene.put(rolled_out(pick(2), generation=3))
    await scene.attempt()
    await scene.settle()
    assert await scene.works() == dict.fromkeys("ab", ("present", 1))
