"""How rollouts end, and who acts meanwhile: real server, real control activities and planner, hosts that pretend."""

from __future__ import annotations

import pytest
from temporalio.client import WorkflowExecutionStatus, WorkflowFailureError
from temporalio.exceptions import ApplicationError

from tests.replay import fleet_scenes as scenes
from tests.workflows.fleet_world import TENANT, FleetWorld
from wharfinger.etcd import keys
from wharfinger.fleet.contracts.actors import ActorStatus, RollingUpdateInput, RolloutReport
from wharfinger.fleet.contracts.fleet_records import OutcomeRecord, stored
from wharfinger.fleet.model.fleet import Actor
from wharfinger.process.names import ROLLING_UPDATE, control_queue


async def result(world: FleetWorld, workflow_id: str) -> RolloutReport:
    """How a rollout ended, by its result."""
    handle = world.client.get_workflow_handle(workflow_id, result_type=RolloutReport)
    found = await handle.result()
    assert isinstance(found, RolloutReport)
    return found


async def test_a_rollout_replaces_slot_by_slot_and_one_actor_writes_at_a_time(world: FleetWorld) -> None:
    """It continues as new between two slots. Each actor takes the epoch over from the one before, and from no other."""
    workflow_id, _ = await scenes.rollout_completed(world)
    actor = await world.actor()

    assert (await result(world, workflow_id)).outcome == "completed"
    assert await world.outcomes() == {1: "completed", 2: "completed"}
    assert await world.ready() == {0: 2, 1: 2}
    assert len(await world.runs(workflow_id)) >= 2
    assert actor.epoch >= 4
    assert actor.target == 2


async def test_what_does_not_leave_is_killed(world: FleetWorld) -> None:
    await scenes.rollout_without_surge(world)

    assert await world.ready() == {0: 2, 1: 2}
    assert {type(one).__name__ for one in world.hosts.asked} == {"CreateInput", "KillInput"}


async def test_a_rollout_that_makes_no_progress_is_rolled_back(world: FleetWorld) -> None:
    workflow_id, _ = await scenes.rollout_failed_and_reverted(world)

    report = await result(world, workflow_id)
    assert report.outcome == "failed"
    assert await world.ready() == {0: 1, 1: 1}
    assert (await world.actor()).target == 1


async def test_a_newer_target_gives_the_unready_newcomer_up(world: FleetWorld) -> None:
    workflow_id, _ = await scenes.rollout_with_a_newer_target(world)

    assert await world.outcomes() == {1: "completed", 2: "superseded", 3: "completed"}
    assert (await result(world, workflow_id)).outcome == "completed"
    assert await world.ready() == {0: 3, 1: 3}


async def test_an_abort_that_is_asked_for_drops_the_newcomer(world: FleetWorld) -> None:
    workflow_id, _ = await scenes.rollout_aborted(world)

    assert (await result(world, workflow_id)).outcome == "aborted"
    assert await scenes.lives(world, 2) == []
    assert await world.ready() == {0: 1, 1: 1}


async def test_a_cancelled_rollout_is_undone_and_not_started_again(world: FleetWorld) -> None:
    workflow_id, _ = await scenes.rollout_cancelled(world)

    description = await world.handle(workflow_id).describe()
    assert description.status == WorkflowExecutionStatus.CANCELED
    assert await world.outcomes() == {1: "completed", 2: "aborted"}
    assert await scenes.lives(world, 2) == []
    assert await world.ready() == {0: 1, 1: 1}

    await world.apply(3, "v2")  # gives Fleet something to do
    await world.until(lambda: scenes.ready_on(world, {0: 1, 1: 1, 2: 1}))

    assert (await world.handle(workflow_id).describe()).status == WorkflowExecutionStatus.CANCELED
    assert (await world.actor()).workflow_id == world.fleet_id
    assert (await world.outcomes())[2] == "aborted"


async def test_a_paused_rollout_waits_until_it_is_resumed(world: FleetWorld) -> None:
    await scenes.rollout_paused_and_resumed(world)

    assert await world.ready() == {0: 2, 1: 2}


async def test_a_canary_waits_until_it_is_promoted(world: FleetWorld) -> None:
    workflow_id, _ = await scenes.rollout_of_a_canary_promoted(world)

    assert (await result(world, workflow_id)).outcome == "completed"
    assert await world.ready() == {0: 2, 1: 2}


async def test_what_no_host_starts_fails(world: FleetWorld) -> None:
    await scenes.rollout_that_no_host_starts(world)

    assert await world.outcomes() == {1: "completed", 2: "failed"}


async def test_fenced_rollout_ends_without_an_outcome_record(world: FleetWorld) -> None:
    await scenes.first(world)
    world.hosts.dead_on_arrival = {2}
    generation = await world.apply(2, "v2")
    await world.until(lambda: scenes.granted(world, 2))
    before = await world.actor()
    other = Actor(epoch=before.epoch + 7, workflow_id="somebody", run_id="else", target=before.target)
    await world.store.put(keys.actor(TENANT), stored(other))
    await world.handle(world.rollout_id(generation)).signal("poke")

    report = await result(world, world.rollout_id(generation))

    assert report.outcome == "aborted"
    assert "another actor" in report.why
    told = (await world.store.get(keys.outcome(TENANT, 2))).kv
    # Fleet, which acts from then on, may have told it already.
    assert told is None or OutcomeRecord.model_validate_json(told.value).why == "its workflow ended without a report"


async def test_its_state_can_be_asked_for(world: FleetWorld) -> None:
    await scenes.first(world)
    world.hosts.dead_on_arrival = {2}
    generation = await world.apply(2, "v2")
    await world.until(lambda: scenes.granted(world, 2))

    status = await world.handle(world.rollout_id(generation)).query("status", result_type=ActorStatus)

    assert isinstance(status, ActorStatus)
    assert (status.role, status.generation) == ("rollout", generation)
    assert status.epoch
    assert [busy.kind for busy in status.busy] == ["up"]


async def test_under_another_id_it_does_not_run(world: FleetWorld) -> None:
    handle = await world.client.start_workflow(
        ROLLING_UPDATE,
        RollingUpdateInput(tenant=TENANT, generation=3),
        id=f"{world.cluster}/rollout/{TENANT}/4",
        task_queue=control_queue(world.cluster),
    )

    with pytest.raises(WorkflowFailureError) as caught:
        await handle.result()
    assert isinstance(caught.value.cause, ApplicationError)
    assert caught.value.cause.type == "WrongWorkflowId"
