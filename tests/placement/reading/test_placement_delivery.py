"""States and conditions of a delivered placement: what follows from works, results, snapshots and the decision."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from tests.placement.delivered import GOOD, DeliveredScene, unwell
from tests.placement.objects import pick, placement_object
from tests.placement.scene import P
from wharfinger.errors import NotFound
from wharfinger.placement.contracts import placement_keys
from wharfinger.placement.effects.rolling_out import rollout_of
from wharfinger.placement.reading.observe_placements import read_all, read_one
from wharfinger.placement.reading.placement_conditions import (
    SAID_STATES,
    DeliveryCondition,
    DeliveryState,
    results_by_state,
)
from wharfinger.placement.reading.placement_delivery import delivery_of, read
from wharfinger.process.parts import ProcessParts
from wharfinger.programs.hub import Hub
from wharfinger.programs.process_settings import HubSettings
from wharfinger.telemetry import Metrics

APPLIED = ["Scheduled", "RolloutStarted", "NoOverrideSpecified", "AllWorkSynced"]
REPORT = {"strategy": {"applyStrategy": {"type": "ReportDiff"}}}


@pytest.fixture
async def scene() -> DeliveredScene:
    return await DeliveredScene.begin()


def reasons(conditions: Sequence[DeliveryCondition]) -> list[str]:
    return [one.reason for one in conditions]


@pytest.mark.parametrize(
    ("result", "told", "ends"),
    [
        (None, "applying", ["ApplyInProgress"]),
        ({"reason": "tried again"}, "applying: tried again", ["ApplyInProgress"]),
        ({"failed": True, "reason": "no"}, "failed: no", ["NotAllWorkHaveBeenApplied"]),
        ({"applied": True, "reason": "no"}, "not available: no", ["AllWorkHaveBeenApplied", "NotAllWorkAreAvailable"]),
        (GOOD, "available", ["AllWorkHaveBeenApplied", "AllWorkAreAvailable"]),
        (
            {**GOOD, "untrackable": True},
            "available: not all of it can be tracked",
            ["AllWorkHaveBeenApplied", "NotAllWorkAreAvailabilityTrackable"],
        ),
        ({**GOOD, "counter": 4}, "applying", ["ApplyInProgress"]),
        ({**GOOD, "identity": 999}, "applying", ["ApplyInProgress"]),
    ],
)
async def test_a_state_follows_from_the_result(
    scene: DeliveredScene, result: Mapping[str, Any] | None, told: str, ends: list[str]
) -> None:
    await scene.snapshot(1)
    await scene.deliver("a", result=result)
    one = await scene.on("a")
    assert str(one) == f"a: {told}"
    assert reasons(one.conditions) == [*APPLIED, *ends]
    assert [each.true for each in one.conditions[:-1]] == [True] * (len(one.conditions) - 1)


async def test_a_result_counts_from_the_change_of_contents_on(scene: DeliveredScene) -> None:
    await scene.snapshot(1)
    await scene.deliver("a", counter=9, since=5, result={**GOOD, "counter": 6})
    assert (await scene.on("a")).state is DeliveryState.AVAILABLE


async def test_members_wait_for_the_budget_one_after_the_other(scene: DeliveredScene) -> None:
    await scene.ready()
    await scene.namespace(new="yes")
    await scene.snapshot(2)
    delivery = await scene.told()
    assert [one.state for one in delivery.members] == [DeliveryState.NEXT, DeliveryState.HELD, DeliveryState.HELD]
    assert reasons(delivery.members[0].conditions) == ["Scheduled", "RolloutStartedUnknown"]
    assert reasons(delivery.members[1].conditions) == ["Scheduled", "RolloutNotStartedYet"]
    steps = delivery.rollout.steps
    assert (delivery.rollout.snapshot, delivery.ready, steps.floor, steps.ceiling) == (2, 3, 2, 4)
    assert reasons(delivery.conditions) == ["SchedulingPolicyFulfilled", "RolloutStartedUnknown"]
    assert delivery.conditions[1].message == "0 of 3 member clusters got the wanted contents"
    assert not delivery.settled


async def test_a_stored_budget_of_nothing_has_a_condition_of_its_own() -> None:
    scene = await DeliveredScene.begin(strategy={"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 0}})
    await scene.ready()
    await scene.namespace(new="yes")
    await scene.snapshot(2)
    delivery = await scene.told()
    assert [one.state for one in delivery.members] == [DeliveryState.HELD] * 3
    told = {one.type: one.message for one in delivery.conditions}
    assert told["ClusterResourcePlacementRolloutBudgetIsZero"].startswith("maxUnavailable and maxSurge are both 0")


async def test_a_member_that_waits_shows_what_fails_there(scene: DeliveredScene) -> None:
    await scene.ready()
    await scene.snapshot(2)
    await scene.deliver("c", result={"failed": True, "reason": "no"})
    assert str(await scene.on("c")) == "c: waits for the hub: no"


async def test_all_is_available_with_upstreams_conditions(scene: DeliveredScene) -> None:
    delivery = await (await scene.ready()).told()
    assert [one.type for one in delivery.conditions] == [
        f"ClusterResourcePlacement{kind}"
        for kind in ("Scheduled", "RolloutStarted", "Overridden", "WorkSynchronized", "Applied", "Available")
    ]
    assert reasons(delivery.conditions) == [
        "SchedulingPolicyFulfilled",
        "RolloutStarted",
        "NoOverrideSpecified",
        "WorkSynchronized",
        "ApplySucceeded",
        "ResourceAvailable",
    ]
    assert delivery.settled
    assert all(one.done for one in delivery.members)


@pytest.mark.parametrize(
    ("result", "last"),
    [
        (None, ("False", "ApplyFailed", "2 of 3 member clusters have all objects applied")),
        ({"failed": True}, ("False", "ApplyFailed", "2 of 3 member clusters have all objects applied")),
        ({"applied": True}, ("False", "ResourceNotAvailableYet", "2 of 3 member clusters have all available")),
    ],
)
async def test_conditions_end_with_the_first_that_is_not_true(
    scene: DeliveredScene, result: Mapping[str, Any] | None, last: tuple[str, str, str]
) -> None:
    await scene.ready()
    await scene.deliver("b", counter=6, since=6, result=result)
    assert (await scene.told()).conditions[-1][1:] == last


async def test_a_namespaced_placement_has_its_own_types() -> None:
    scene = await DeliveredScene.begin(namespace="team")
    delivery = await scene.told()
    assert [one.type for one in delivery.conditions] == [
        "ResourcePlacementScheduled",
        "ResourcePlacementRolloutStarted",
    ]


async def test_differences_are_reported_instead_of_applied() -> None:
    scene = await DeliveredScene.begin(**REPORT)
    await scene.snapshot(1)
    await scene.deliver("a", "b", result={"reported": True, "reason": "2 objects with differences"})
    await scene.deliver("c", result=None)
    assert str(await scene.on("a")) == "a: differences reported: 2 objects with differences"
    assert reasons((await scene.on("a")).conditions)[-1] == "AllWorkHaveDiffReported"
    assert reasons((await scene.on("c")).conditions)[-1] == "DiffReportInProgress"
    await scene.deliver("c", result={"failed": True})
    assert reasons((await scene.on("c")).conditions)[-1] == "NotAllWorkHaveDiffReported"
    assert (await scene.told()).conditions[-1].reason == "DiffReportingIncompleteOrFailed"


async def test_nothing_is_delivered_before_the_first_snapshot(scene: DeliveredScene) -> None:
    assert [one.state for one in (await scene.told()).members] == [DeliveryState.NO_SNAPSHOT] * 3
    await scene.trouble("v1 Namespace web is selected twice")
    delivery = await scene.told()
    assert str(delivery.members[0]) == "a: waits for a snapshot: v1 Namespace web is selected twice"
    assert delivery.conditions[0].reason == "InvalidResourceSelectors"
    assert not delivery.settled


async def test_a_member_without_an_agent_is_told(scene: DeliveredScene) -> None:
    await scene.ready()
    await scene.away("b")
    delivery = await scene.told()
    assert (delivery.members[1].state, delivery.members[1].online) == (DeliveryState.NO_AGENT, False)
    assert delivery.ready == 2


async def test_a_member_whose_etcd_is_silent_does_not_answer(scene: DeliveredScene) -> None:
    await scene.ready()
    await unwell(scene, "b")
    delivery = await scene.told()
    assert (delivery.members[1].state, delivery.members[1].online) == (DeliveryState.NO_ANSWER, True)
    assert delivery.ready == 2
    await scene.put(placement_object(generation=2, **pick(2)))
    await scene.attempt()
    gone = next(iter({"a", "b", "c"} - set(await scene.chosen())))
    await scene.deliver(gone, want="absent", result=None)
    await unwell(scene, gone)
    assert str(await scene.on(gone)) == f"{gone}: does not answer: to be removed"


async def test_results_are_counted_by_what_agents_report(scene: DeliveredScene) -> None:
    await scene.snapshot(1)
    await scene.deliver("a")
    await scene.deliver("b", result={"applied": True})
    await scene.deliver("c", result={"failed": True})
    await scene.see()
    assert results_by_state(scene.view) == {"available": 1, "unavailable": 1, "failed": 1}
    await scene.deliver("a", want="absent")
    await scene.deliver("b", result={"available": True, "counter": 4})
    await scene.deliver("c", result={"reported": True})
    await scene.see()
    assert results_by_state(scene.view) == {}
    await scene.deliver("a", counter=7, since=5, result={"available": True, "counter": 6})
    await scene.deliver("b", result={"available": True, "identity": 1})
    await scene.see()
    assert results_by_state(scene.view) == {"available": 1}


async def test_a_hub_shows_results_by_state(scene: DeliveredScene) -> None:
    await scene.ready()
    await scene.deliver("c", result={"failed": True})
    silent: Any = SimpleNamespace(service_client=SimpleNamespace(check_health=None))
    hub = Hub(HubSettings(name="h"), ProcessParts(scene.store, Metrics(), rng=random.Random(1)), silent)
    hub.view = scene.view
    await scene.see()
    hub.refresh_metrics()
    sample = hub.metrics.registry.get_sample_value
    shown = {state: sample("wharfinger_results", {"state": state}) for state in SAID_STATES}
    assert shown == {"available": 2, "unavailable": 0, "failed": 1}


async def test_a_member_that_joined_anew_has_nothing(scene: DeliveredScene) -> None:
    await scene.ready()
    await scene.store.delete(placement_keys.member_cluster("b"))
    await scene.member("b")
    await scene.attempt()
    one = await scene.on("b")
    assert (one.chosen, one.state) == (True, DeliveryState.NEXT)
    assert reasons(one.conditions) == ["Scheduled", "RolloutStartedUnknown"]


@pytest.mark.parametrize(
    ("want", "online", "told"),
    [
        ("absent", True, "removing: v1 Pod web/x waits for its finalizers"),
        ("release", True, "releasing: v1 Pod web/x waits for its finalizers"),
        ("absent", False, "no agent: to be removed"),
    ],
)
async def test_what_is_not_chosen_any_more_is_removed(
    scene: DeliveredScene, want: Any, online: bool, told: str
) -> None:
    await scene.ready()
    await scene.put(placement_object(generation=2, **pick(2)))
    await scene.attempt()
    gone = next(iter({"a", "b", "c"} - set(await scene.chosen())))
    await scene.deliver(gone, want=want, result={"reason": "v1 Pod web/x waits for its finalizers"})
    if not online:
        await scene.away(gone)
    one = await scene.on(gone)
    assert str(one) == f"{gone}: {told}"
    assert [(each.type, each.status, each.reason) for each in one.conditions] == [
        ("Scheduled", "False", "ScheduleFailed")
    ]
    assert not (await scene.told()).settled


async def test_update_runs_deliver_an_external_placement() -> None:
    scene = await DeliveredScene.begin(strategy={"type": "External"})
    await scene.snapshot(1)
    delivery = await scene.told()
    assert [one.state for one in delivery.members] == [DeliveryState.UPDATE_RUN] * 3
    last = delivery.conditions[-1]
    assert (last.status, last.reason) == ("Unknown", "RolloutControlledByExternalController")
    await scene.deliver("a", "b", "c")
    await scene.snapshot(2)
    delivery = await scene.told()
    assert delivery.conditions[-1].reason == "ResourceAvailable"
    assert delivery.settled
    await scene.deliver("a", snapshot=2)
    assert (await scene.told()).conditions[-1].message.endswith("member clusters have different snapshots")


def override(value: object) -> dict[str, Any]:
    rule = {"jsonPatchOverrides": [{"op": "add", "path": "/metadata/labels/x", "value": value}], "clusterSelector": {}}
    return {
        "apiVersion": "placement.kubernetes-fleet.io/v1",
        "kind": "ClusterResourceOverride",
        "metadata": {"name": "o"},
        "spec": {
            "clusterResourceSelectors": [{"group": "", "version": "v1", "kind": "Namespace", "name": "web"}],
            "policy": {"overrideRules": [rule]},
        },
    }


async def test_overrides_show_in_the_conditions(scene: DeliveredScene) -> None:
    await scene.snapshot(1)
    await scene.put(override("${MEMBER-CLUSTER-LABEL-KEY-region}"))
    delivery = await scene.told()
    assert delivery.members[0].state is DeliveryState.OVERRIDE
    assert "region" in delivery.members[0].message
    await scene.put(override("yes"))
    digest = (await scene.told()).rollout.overrides["a"]
    await scene.deliver("a", "b", "c", overrides=digest)
    delivery = await scene.told()
    assert [one.conditions[2].reason for one in delivery.members] == ["OverriddenSucceeded"] * 3
    assert delivery.conditions[2].reason == "OverriddenSucceeded"
    assert delivery.settled


async def test_an_override_that_fails_is_a_condition_where_works_are(scene: DeliveredScene) -> None:
    await scene.ready()
    await scene.put(override("${MEMBER-CLUSTER-LABEL-KEY-region}"))
    delivery = await scene.told()
    assert reasons(delivery.members[0].conditions) == ["Scheduled", "RolloutStarted", "OverriddenFailed"]
    assert delivery.conditions[-1].reason == "OverriddenFailed"


async def test_a_changed_placement_is_behind(scene: DeliveredScene) -> None:
    await scene.ready()
    await scene.put(placement_object(generation=2, **pick(1)))
    delivery = await scene.told()
    assert delivery.behind
    assert (delivery.conditions[0].status, delivery.conditions[0].reason) == ("Unknown", "SchedulePending")


async def test_a_pin_says_what_is_wanted(scene: DeliveredScene) -> None:
    await scene.ready()
    await scene.snapshot(2)
    await scene.pin(1, by="me")
    delivery = await scene.told()
    assert (delivery.rollout.snapshot, delivery.newest, delivery.settled) == (1, 2, True)
    assert delivery.pin is not None


async def test_what_cannot_be_tracked_counts_as_ready(scene: DeliveredScene) -> None:
    await scene.snapshot(1)
    await scene.deliver("a", "b", "c", result={**GOOD, "untrackable": True})
    assert (await scene.told()).ready == 3


async def test_a_deleted_placement_is_left_on_members(scene: DeliveredScene) -> None:
    await scene.ready()
    await scene.put(placement_object(deleting=True, **pick(3)))
    assert str(await scene.on("a")) == "a: waits for the hub: its decision is not emptied yet"
    await scene.attempt()
    delivery = await scene.told()
    assert [one.state for one in delivery.members] == [DeliveryState.REMOVING] * 3
    assert reasons(delivery.conditions) == ["PlacementDeleting"]


async def test_reading_one_placement_rolls_out_as_reading_all(scene: DeliveredScene) -> None:
    await scene.ready()
    await scene.snapshot(2)
    await scene.pin(2)
    await scene.put(override("yes"))
    await scene.trouble("x")
    await scene.store.put(placement_keys.losses(P), b"1")
    one, every = await read_one(scene.store, P), await read_all(scene.store)
    assert rollout_of(one, P) == rollout_of(every, P)
    assert one.mod_revision(placement_keys.losses(P)) == every.mod_revision(placement_keys.losses(P)) != 0
    assert len(set(one.revisions.values())) == 1


async def test_what_is_told_of_objects_is_read_whole(scene: DeliveredScene) -> None:
    await scene.snapshot(1)
    told = [{"object": "o", "reason": "FoundDiff", "diffs": [["/a", "1", "2"]]}]
    await scene.deliver("a", result={"failed": True, "told": told}, resolved=({"x": 1},))
    reading = await read(scene.store, P)
    assert reading.results["a"].told[0].diffs == (("/a", "1", "2"),)
    assert reading.works["a"].resolved == ({"x": 1},)


async def test_what_cannot_be_read_hides_nothing_else(scene: DeliveredScene) -> None:
    await scene.ready()
    await scene.store.put(placement_keys.result(P, "a"), b"garbage")
    assert (await scene.on("a")).state is DeliveryState.APPLYING
    assert (await scene.on("b")).state is DeliveryState.AVAILABLE


async def test_a_placement_that_is_not_decided_is_told(scene: DeliveredScene) -> None:
    await scene.put(placement_object("other"))
    with pytest.raises(NotFound, match="not decided yet"):
        delivery_of(await read(scene.store, "cluster/other"))
    with pytest.raises(NotFound, match="there is no placement"):
        delivery_of(await read(scene.store, "cluster/nothing"))
    await scene.store.put(placement_keys.decision(P), b"\x00")
    with pytest.raises(NotFound, match="cannot be read"):
        await read(scene.store, P)
