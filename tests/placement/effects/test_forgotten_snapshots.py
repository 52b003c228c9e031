"""Snapshots that are forgotten, mended, too large or in trouble, and what others must have seen of them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest

from tests.placement.delivery_scene import ROLES, DeliveryScene, role, rolled_out, selecting
from tests.placement.effects.test_snapshots import changed
from tests.placement.effects.test_works import ALL_AT_ONCE, another_wave, rolled
from tests.placement.objects import pick
from tests.placement.scene import P
from wharfinger.errors import RequestTooLarge, Unavailable
from wharfinger.etcd.store import Condition, Delete, Operation
from wharfinger.placement.contracts import placement_keys
from wharfinger.placement.contracts.delivery_records import SnapshotRecord, WorkRecord
from wharfinger.placement.contracts.placement_rollouts import ForgetContentsInput
from wharfinger.placement.contracts.placements import StreamRevisions
from wharfinger.placement.effects.snapshots import forget, read
from wharfinger.placement.reading.placement_deliveries import PlacementDeliveries


@pytest.fixture
async def scene() -> DeliveryScene:
    return await selecting()


async def emptied() -> DeliveryScene:
    """A placement whose decision is emptied, and which is gone from all members."""
    scene = await rolled("ab", 2)
    await scene.put(rolled_out(pick(2), generation=2, deleting=True))
    await scene.attempt()
    await scene.settle()
    return scene


async def test_heads_go_before_parts_so_none_stays_without_them() -> None:
    scene = await emptied()
    plan, turns = await scene.seen_plan(), 0

    async def made_again(*_: Any) -> None:
        nonlocal turns
        turns += 1
        if turns == 2:
            await scene.put(rolled_out(pick(2), generation=3))
            await scene.see()
            await scene.attempt()

    scene.store.before_txn = made_again
    request = ForgetContentsInput(placement=P, decision=plan.decision)
    forgotten = await forget(scene.store, request)
    scene.store.before_txn = None
    assert (forgotten.outcome, await scene.snapshots()) == ("contended", {})
    await scene.see()
    assert scene.plan().snapshot_is_due
    await scene.settle()
    assert await scene.works() == dict.fromkeys("ab", ("present", 1))
    assert await read(scene.store, P, (await scene.snapshots())[1])


async def test_missing_parts_of_the_newest_snapshot_are_put_back(scene: DeliveryScene) -> None:
    await scene.take()
    for part in await scene.parts():
        await scene.store.delete(placement_keys.contents(P, part))
    await scene.store.put(f"{ROLES}role", json.dumps({**role(), "status": {"x": 1}}).encode())
    await scene.see()
    scene.plan()
    scene.clock.advance(61)
    taken = await scene.take()
    assert (taken.outcome, taken.number) == ("same", 1)
    assert await read(scene.store, P, (await scene.snapshots())[1]) == [role()]


async def test_other_parts_of_the_newest_snapshot_make_another(scene: DeliveryScene) -> None:
    await scene.take()
    head = (await scene.snapshots())[1]
    await scene.store.put(placement_keys.snapshot(P, 1), head.model_copy(update={"parts": ("0" * 64,)}).to_bytes())
    await scene.store.put(f"{ROLES}role", json.dumps({**role(), "status": {"x": 1}}).encode())
    await scene.see()
    scene.plan()
    scene.clock.advance(61)
    taken = await scene.take()
    assert (taken.outcome, taken.number) == ("taken", 2)
    assert await read(scene.store, P, (await scene.snapshots())[2]) == [role()]


async def test_a_pin_that_comes_meanwhile_keeps_its_snapshot() -> None:
    scene = await rolled("a", 1, history=2, **ALL_AT_ONCE)
    await scene.edit("2")
    await scene.settle()
    await changed(scene, "3")
    plan = await scene.seen_plan()
    said = ""

    async def pins(_: Sequence[Condition], operations: Sequence[Operation]) -> None:
        nonlocal said
        if any(one == Delete(placement_keys.snapshot(P, 1)) for one in operations):
            scene.store.before_txn = None
            said = (await PlacementDeliveries(scene.store.client()).rollback("web", 1)).sentence

    scene.store.before_txn = pins
    assert (await scene.take(plan)).outcome == "taken"
    assert "pinned to snapshot 1" in said
    assert 1 in await scene.snapshots()
    plan = await scene.seen_plan()
    assert (plan.snapshot, plan.pinned) == (1, True)


async def test_a_pin_to_what_is_not_kept_is_told(scene: DeliveryScene) -> None:
    await scene.take()
    await scene.pin(7)
    plan = await scene.seen_plan()
    assert (plan.snapshot, plan.pinned) == (1, False)
    assert "pinned to snapshot 7, which is not kept" in plan.trouble


async def test_a_placement_that_goes_leaves_no_parts(scene: DeliveryScene) -> None:
    """One that was never delivered: a crash left parts without a head, and another try of it is slow."""
    plan = await scene.seen_plan()
    scene.store.before_txn = lambda _, operations: scene.store.fail_next(applied=False) if len(operations) > 1 else None
    with pytest.raises(Unavailable):
        await scene.take(plan)
    scene.store.before_txn = None
    assert len(await scene.parts()) == 1
    await scene.put(rolled_out(pick(1), deleting=True))
    await scene.see()
    await scene.attempt()
    await scene.put(role(mark="other"))
    assert (await scene.take(plan)).outcome == "contended"
    assert len(await scene.parts()) == 1
    await scene.see()
    await scene.attempt()
    assert (await scene.store.get(placement_keys.placement(P))).kv is None
    assert await scene.parts() == set()


async def test_what_etcd_does_not_take_is_trouble(scene: DeliveryScene) -> None:
    for limited in (placement_keys.snapshot(P, 1), placement_keys.contents.prefix):
        plan = await scene.seen_plan()
        assert plan.snapshot_is_due

        async def refuse(_: Sequence[Condition], operations: Sequence[Operation], limited: str = limited) -> None:
            if any(one.key.startswith(limited) for one in operations):
                raise RequestTooLarge("etcdserver: request is too large")

        scene.store.before_txn = refuse
        taken = await scene.take(plan)
        assert (taken.outcome, taken.number) == ("trouble", 0)
        assert taken.why == "an object is too large to be kept in etcd: etcdserver: request is too large"
        plan = await scene.seen_plan()
        assert (plan.snapshot_in, plan.trouble) == (None, taken.why)
        scene.store.before_txn = None
        await changed(scene, limited)


async def test_large_heads_and_works_are_deflated() -> None:
    ids = tuple(("", "v1", "ConfigMap", f"namespace-{n % 50}", f"a-config-map-{n:05d}") for n in range(10_000))
    head = SnapshotRecord(digest="x" * 64, objects=ids)
    work = WorkRecord(counter=3, resolved=tuple({"objects": list(one)} for one in ids))
    for record in (head, work):
        value = record.to_bytes()
        assert len(value) < 200_000
        assert type(record).model_validate_json(value).to_bytes() == value
    assert SnapshotRecord(digest="x").to_bytes().startswith(b"{")
    for bad in (b"\x78\x9c", head.to_bytes()[:-9]):
        with pytest.raises(ValueError, match=r"deflated|cut off"):
            SnapshotRecord.model_validate_json(bad)


async def test_known_trouble_is_not_written_again(scene: DeliveryScene) -> None:
    await scene.store.put(f"{ROLES}role", b'{"kind": "Pod"')
    plan = await scene.seen_plan()
    first = await scene.take(plan)
    revision = scene.store.revision
    again = await scene.take(plan.model_copy(update={"rollout": first.seen.hub}), run="another")
    assert (again.outcome, again.why, again.seen) == ("trouble", first.why, first.seen)
    assert scene.store.revision == revision


async def test_nobody_waits_for_revisions_of_other_keys(scene: DeliveryScene) -> None:
    await scene.take()
    await changed(scene)
    plan = await scene.seen_plan()
    await another_wave(scene)
    mine = (await scene.store.get(placement_keys.rollout(P))).kv
    await scene.store.put("/registry/others", b"")
    assert mine is not None
    assert (await scene.take(plan)).seen.hub == mine.mod_revision
    assert (await scene.take(plan.model_copy(update={"rollout": mine.mod_revision, "decision": 1}))).seen.hub == max(
        mine.mod_revision, plan.decision
    )
    stale = await forget(scene.store, ForgetContentsInput(placement=P, decision=1))
    assert stale.seen.hub <= max(mine.mod_revision, plan.decision)
    await scene.store.delete(placement_keys.placement(P))
    assert (await scene.take(plan)).seen == StreamRevisions()
