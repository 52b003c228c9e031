"""What follows for what a placement has on its members, from what a hub has seen."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from tests.placement.delivery_scene import DeliveryScene, role, rolled_out
from tests.placement.effects.test_works import ALL_AT_ONCE, LEAVING, ONE, rolled
from tests.placement.objects import agent_record, pick, status_record
from tests.placement.scene import P
from wharfinger.placement.contracts import placement_keys
from wharfinger.placement.effects import rolling_out
from wharfinger.placement.effects.rolling_out import MOST_STEPS, Rollout, concerned, rollout_of
from wharfinger.placement.model.delivery import StepKind

NONE = {"maxUnavailable": 0, "maxSurge": 0}
SICK = [
    {
        "type": "MemberAgent",
        "conditions": [{"type": "Joined", "status": "True"}, {"type": "Healthy", "status": "False"}],
    }
]


async def now(scene: DeliveryScene) -> Rollout:
    await scene.see()
    return rollout_of(scene.view, P)


def told(found: Rollout) -> list[tuple[str, str, str]]:
    return [(step.member, step.kind.value, step.want) for step in found.steps.steps]


def override(*terms: dict[str, str], value: str = "x", selects: dict[str, Any] | None = None) -> dict[str, Any]:
    """Changes the role on members with one of these labels, or on all."""
    rule: dict[str, Any] = {
        "clusterSelector": {"clusterSelectorTerms": [{"labelSelector": {"matchLabels": one}} for one in terms]},
        "jsonPatchOverrides": [{"op": "add", "path": "/metadata/labels/on", "value": value}],
    }
    return {
        "apiVersion": "placement.kubernetes-fleet.io/v1",
        "kind": "ClusterResourceOverride",
        "metadata": {"name": "o"},
        "spec": {
            "clusterResourceSelectors": [selects or rolled_out()["spec"]["resourceSelectors"][0]],
            "policy": {"overrideRules": [rule]},
        },
    }


async def test_nothing_is_known_of_a_placement_that_is_not_there() -> None:
    scene = DeliveryScene()
    found = await now(scene)
    assert (found.gone, found.forgets, found.selects, told(found)) == (True, False, False, [])


async def test_without_a_snapshot_nothing_is_added() -> None:
    scene = DeliveryScene()
    await scene.member("a")
    await scene.put(rolled_out(pick(1)))
    await scene.attempt()
    found = await now(scene)
    assert (found.snapshot, found.selects, told(found), found.steps.timer) == (0, True, [], None)


@pytest.mark.parametrize(
    ("policy", "target"),
    [
        (pick(2), 2),
        (pick(5), 5),
        ({"placementType": "PickAll"}, 3),
        ({"placementType": "PickFixed", "clusterNames": ["a", "b", "zz", "a"]}, 3),
    ],
)
async def test_the_target_is_what_is_wanted_not_what_was_found(policy: dict[str, Any], target: int) -> None:
    scene = await rolled()
    await scene.put(rolled_out(policy, generation=2, **NONE))
    await scene.attempt()
    steps = (await now(scene)).steps
    assert (steps.target, steps.floor, steps.ceiling) == (target, target, target)


async def test_a_leaving_member_gets_nothing_new_and_is_released() -> None:
    scene = await rolled("ab", 2, **ALL_AT_ONCE)
    await scene.edit("2")
    await scene.change_member("a", **LEAVING)
    assert told(await now(scene)) == [("b", "update", "present")]
    await scene.attempt()
    assert ("a", "remove", "release") in told(await now(scene))


async def test_a_member_that_leaves_before_its_removal_ended_gets_nothing_new() -> None:
    """It was unchosen, chosen again, and the decision does not know yet that it leaves."""
    scene = await rolled("ab", 2, **ALL_AT_ONCE)
    await scene.put(rolled_out(pick(1), generation=2, **ALL_AT_ONCE))
    await scene.attempt()
    await scene.write(await scene.seen_plan())
    await scene.put(rolled_out(pick(2), generation=3, **ALL_AT_ONCE))
    await scene.attempt()
    assert told(await now(scene)) == [("a", "add", "present")]
    await scene.change_member("a", **LEAVING)
    assert told(await now(scene)) == []


async def test_a_member_that_joined_anew_gets_a_work_for_its_new_identity() -> None:
    scene = await rolled("ab", 2, **ALL_AT_ONCE)
    await scene.store.delete(placement_keys.member_cluster("a"))
    await scene.see()
    assert told(await now(scene)) == [("a", "drop", "present")]
    identity = await scene.member("a")
    await scene.attempt()
    plan = await scene.seen_plan()
    assert [(one.member, one.kind.value, one.identity, one.counter) for one in plan.steps] == [
        ("a", "add", identity, 2)
    ]
    await scene.settle()
    work = await scene.work_of("a")
    assert work is not None
    assert work.identity == identity


async def test_a_result_of_another_life_or_contents_counts_for_nothing() -> None:
    scene = await rolled("a", 1)
    await scene.answer("a", identity=1)
    assert not (await now(scene)).members[0].available
    await scene.answer("a", counter=0)
    assert not (await now(scene)).members[0].available
    await scene.answer("a")
    assert (await now(scene)).members[0].available


async def test_what_cannot_be_tracked_waits_for_its_time_with_new_contents() -> None:
    scene = await rolled("ab", 2, unavailablePeriodSeconds=60, **ONE)
    await scene.answer("a", untrackable=True)
    await scene.see()
    for _ in range(40):
        scene.view.delivery.tick(2.0)
    assert (await now(scene)).steps.ready == 2
    await scene.edit("2")
    plan = await scene.seen_plan()
    assert [one.member for one in plan.steps] == ["a"]
    await scene.write(plan)
    await scene.answer("a", untrackable=True)
    found = await now(scene)
    assert (found.steps.ready, told(found), found.steps.held, found.steps.timer) == (1, [], ("b",), 60.0)
    for _ in range(30):
        scene.view.delivery.tick(2.0)
    assert told(await now(scene)) == [("b", "update", "present")]


async def test_an_apply_strategy_leaves_the_waited_time_as_it_was() -> None:
    scene = await rolled("a", 1, unavailablePeriodSeconds=60)
    await scene.answer("a", untrackable=True)
    await scene.see()
    scene.view.delivery.seen_seconds += 60
    placement = rolled_out(pick(1), generation=2, unavailablePeriodSeconds=60, strategy={"whenToApply": "IfNotDrifted"})
    await scene.put(placement)
    await scene.attempt()
    await scene.write(await scene.seen_plan())
    await scene.answer("a", untrackable=True)
    assert (await now(scene)).steps.ready == 1


async def test_the_newest_snapshot_is_wanted_unless_one_is_pinned() -> None:
    scene = await rolled("a", 1, **ALL_AT_ONCE)
    await scene.edit("2")
    assert ((await now(scene)).snapshot, (await now(scene)).pinned) == (2, False)
    await scene.settle()
    await scene.pin(1)
    found = await now(scene)
    assert (found.snapshot, found.pinned, told(found)) == (1, True, [("a", "update", "present")])
    await scene.pin(9)
    assert ((await now(scene)).snapshot, (await now(scene)).pinned) == (2, False)


async def test_overrides_choose_members_by_their_labels() -> None:
    scene = await rolled("ab", 2, **ALL_AT_ONCE)
    await scene.put(override({"region": "x"}))
    assert told(await now(scene)) == []
    await scene.change_member("a", labels={"region": "x"})
    assert told(await now(scene)) == [("a", "update", "present")]
    await scene.settle()
    await scene.put(override({"region": "x"}, value="y"))
    assert told(await now(scene)) == [("a", "update", "present")]
    await scene.settle()
    await scene.change_member("a", labels={})
    await scene.settle()
    work = await scene.work_of("a")
    assert work is not None
    assert (work.overrides, work.resolved) == ("", ())


async def test_an_override_that_cannot_be_resolved_stops_its_member_only() -> None:
    scene = await rolled("abc", 3, **ALL_AT_ONCE)
    for name in "ab":
        await scene.change_member(name, labels={"region": "x"})
    await scene.put(override(value="${MEMBER-CLUSTER-LABEL-KEY-region}"))
    found = await now(scene)
    assert told(found) == [("a", "update", "present"), ("b", "update", "present")]
    assert "member c" in found.trouble
    await scene.settle()
    assert (await scene.works())["c"] == ("present", 1)


async def test_an_override_that_is_too_large_stops_its_member_only(monkeypatch: pytest.MonkeyPatch) -> None:
    scene = await rolled("abc", 3, **ALL_AT_ONCE)
    await scene.change_member("c", labels={"region": "x"})
    values = random.Random(1).randbytes(200 * 1024).hex()
    monkeypatch.setattr(rolling_out, "LARGEST", 100 * 1024)
    await scene.put(override({"region": "x"}, value=values))
    found = await now(scene)
    assert told(found) == []
    assert found.trouble == "member c: what overrides change there is too large to be kept (400 KiB)"
    await scene.put(override({"region": "x"}, value="x" * 400 * 1024))  # deflated it is small
    assert told(await now(scene)) == [("c", "update", "present")]
    await scene.settle()
    work = await scene.work_of("c")
    assert work is not None
    assert len(work.to_bytes()) < 64 * 1024
    monkeypatch.setattr(rolling_out, "MOST", 300 * 1024)
    await scene.put(override({"region": "x"}, value="y" * 400 * 1024))
    assert "member c" in (await now(scene)).trouble


async def test_an_override_concerns_what_it_may_change() -> None:
    scene = await rolled("a", 1)
    for name, mine in (("role", True), ("other", False)):
        await scene.put(override(selects={**rolled_out()["spec"]["resourceSelectors"][0], "name": name}))
        [change] = [one for one in await scene.see() if one.overrides]
        assert concerned(scene.view, change.overrides[-1:]) == ({P} if mine else set())
    assert concerned(scene.view, change.overrides) == {P}  # as it was, it did


async def test_time_while_an_agent_is_away_counts_for_nothing() -> None:
    scene = await rolled("a", 1)
    scene.view.delivery.tick(2.0)
    assert scene.view.delivery.unchanged(P, "a") > 0
    identity = scene.view.members["a"].member.identity
    await scene.store.delete(placement_keys.member("a"))
    await scene.see()
    for _ in range(40):
        scene.view.delivery.tick(2.0)
    await scene.store.put(placement_keys.member("a"), agent_record(identity))
    await scene.see()
    assert scene.view.delivery.unchanged(P, "a") == 0.0
    scene.view.delivery.tick(2.0)
    await scene.store.put(placement_keys.member_status("a"), status_record(identity, agentStatus=SICK))
    await scene.see()
    assert scene.view.members["a"].unhealthy is not None
    assert scene.view.delivery.unchanged(P, "a") == 2.0
    await scene.store.put(placement_keys.member_status("a"), status_record(identity))
    await scene.see()
    assert scene.view.delivery.unchanged(P, "a") == 0.0


async def test_what_goes_does_not_wait_for_a_snapshot() -> None:
    scene = await rolled("abc", 3, **ALL_AT_ONCE)
    await scene.put(role(mark="2"))
    await scene.see()
    scene.plan()
    scene.clock.advance(61)
    assert scene.plan().snapshot_is_due
    await scene.put(rolled_out(pick(2), generation=2, **ALL_AT_ONCE))
    await scene.see()
    await scene.attempt()
    plan = await scene.seen_plan()
    assert [(one.member, one.kind) for one in plan.steps] == [("a", StepKind.REMOVE)]
    assert plan.snapshot_in
    await scene.write(plan)
    plan = await scene.seen_plan()
    assert (plan.steps, plan.snapshot_in) == ((), 0.0)
    await scene.answer("a")
    plan = await scene.seen_plan()
    assert [one.kind for one in plan.steps] == [StepKind.DROP]


async def test_overrides_reach_into_envelopes() -> None:
    scene = DeliveryScene()
    await scene.member("a")
    version = {"group": "placement.kubernetes-fleet.io", "version": "v1beta1"}
    await scene.put(
        {
            "apiVersion": "placement.kubernetes-fleet.io/v1beta1",
            "kind": "ClusterResourceEnvelope",
            "metadata": {"name": "e"},
            "data": {"role": role("inside")},
        }
    )
    await scene.put(rolled_out(pick(1), selectors=[{**version, "kind": "ClusterResourceEnvelope", "name": "e"}]))
    await scene.put(override(selects={**rolled_out()["spec"]["resourceSelectors"][0], "name": "inside"}))
    await scene.attempt()
    await scene.settle()
    work = await scene.work_of("a")
    assert work is not None
    assert [one["objects"] for one in work.resolved] == [
        [[role()["apiVersion"][:-3], "v1", "ClusterRole", "", "inside"]]
    ]


async def test_external_rollouts_only_remove() -> None:
    scene = await rolled("abc", 3, unavailablePeriodSeconds=60, **NONE)
    await scene.edit("2")
    obj = rolled_out(pick(2), generation=2, **ALL_AT_ONCE)
    obj["spec"]["strategy"]["type"] = "External"
    await scene.put(obj)
    await scene.attempt()
    await scene.answer("b", untrackable=True)
    found = await now(scene)
    assert (told(found), found.selects) == ([("a", "remove", "absent")], False)
    assert (found.steps.held, found.steps.timer) == ((), None)


@pytest.mark.parametrize(("policy", "want"), [("Delete", "absent"), ("Abandon", "release")])
async def test_a_deleted_placement_leaves_by_its_strategy(policy: str, want: str) -> None:
    scene = await rolled("ab", 2)
    obj = rolled_out(pick(2), generation=2, deleting=True, **NONE)
    obj["spec"]["strategy"]["deleteStrategy"] = {"propagationPolicy": policy}
    await scene.put(obj)
    assert (await now(scene)).trouble == "its decision is not emptied yet"
    await scene.attempt()
    assert told(await now(scene)) == [("a", "remove", want), ("b", "remove", want)]
    await scene.settle()
    found = await now(scene)
    assert (found.gone, found.forgets) == (True, True)


async def test_an_unreachable_member_keeps_its_tombstone_until_it_leaves() -> None:
    scene = await rolled("ab", 2)
    await scene.store.delete(placement_keys.member("a"))
    await scene.put(rolled_out(pick(2), generation=2, deleting=True))
    await scene.attempt()
    await scene.write(await scene.seen_plan())
    await scene.answer("b")
    await scene.write(await scene.seen_plan())
    found = await now(scene)
    assert (told(found), found.steps.away, found.gone) == ([], ("a",), False)
    await scene.store.delete(placement_keys.member_cluster("a"))
    assert told(await now(scene)) == [("a", "drop", "present")]


async def test_what_cannot_be_read_is_delivered_as_it_was() -> None:
    scene = await rolled("ab", 2, **ALL_AT_ONCE)
    await scene.store.put(placement_keys.placement(P), b"{")
    found = await now(scene)
    assert (told(found), found.selects, found.deleting) == ([], False, False)


async def test_a_plan_is_of_limited_size() -> None:
    scene = DeliveryScene()
    for number in range(MOST_STEPS + 5):
        await scene.member(f"m{number:04}")
    await scene.put(role())
    await scene.put(rolled_out({"placementType": "PickAll"}))
    await scene.attempt()
    await scene.take()
    plan = await scene.seen_plan()
    assert (len(plan.steps), plan.target) == (MOST_STEPS, MOST_STEPS + 5)
    assert len(json.dumps(plan.model_dump(mode="json"))) < 200_000


async def test_a_result_that_comes_wakes_who_waits_for_it() -> None:
    scene = await rolled("a", 1)
    await scene.see()
    waiter = scene.view.delivery.waiter(P)
    await scene.see()
    assert not waiter.is_set()
    await scene.answer("a", available=False)
    await scene.see()
    assert waiter.is_set()
