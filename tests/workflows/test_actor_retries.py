"""Runs of Fleet and RollingUpdate that fail, time out or are terminated go on; an abort or a cancel ends a rollout.

Real server, real control activities and planner, hosts that pretend. A run fails by an answer that it cannot read.
"""

from __future__ import annotations

from datetime import timedelta

import pytest
from temporalio.client import WorkflowExecutionStatus
from temporalio.common import RetryPolicy

from tests.replay import fleet_scenes as scenes
from tests.workflows.fleet_world import TENANT, FleetWorld
from wharfinger.etcd import keys
from wharfinger.fleet.contracts.actors import ACTOR_RETRY, FleetInput, RollingUpdateInput
from wharfinger.fleet.contracts.fleet_records import OutcomeRecord
from wharfinger.fleet.contracts.fleets import FleetFailure, PlanInput
from wharfinger.process.names import FLEET, ROLLING_UPDATE, FailureType, control_queue


async def status(world: FleetWorld, workflow_id: str) -> WorkflowExecutionStatus | None:
    return (await world.handle(workflow_id).describe()).status


async def why(world: FleetWorld, revision: int) -> str:
    kv = (await world.store.get(keys.outcome(TENANT, revision))).kv
    assert kv is not None
    return OutcomeRecord.model_validate_json(kv.value).why


def test_policy_retries_for_ever_within_ten_seconds_except_final_failures() -> None:
    assert ACTOR_RETRY.maximum_attempts == 0
    assert ACTOR_RETRY.maximum_interval == timedelta(seconds=10)
    final = {FailureType.WRONG_ID, FailureType.INVALID_INPUT, FleetFailure.FENCED}
    assert {*(ACTOR_RETRY.non_retryable_error_types or ())} == final


async def test_a_rollout_whose_run_fails_is_retried_and_completes(world: FleetWorld) -> None:
    workflow_id, _ = await scenes.rollout_retried_after_a_failure(world)

    assert await status(world, workflow_id) is WorkflowExecutionStatus.COMPLETED
    assert await world.outcomes() == {1: "completed", 2: "completed"}
    assert await world.ready() == {0: 2, 1: 2}


async def test_a_retried_rollout_takes_the_epoch_over(world: FleetWorld) -> None:
    """Activities of the run that failed may still be on their way: they must find another epoch."""
    generation = await scenes.rollout_stuck(world)
    before = await world.actor()
    failing = [True]
    world.unreadable = lambda request: request.role == "rollout" and bool(failing)
    await world.handle(world.rollout_id(generation)).signal("poke")
    await scenes.until_attempt(world, world.rollout_id(generation), 2)

    failing.clear()

    await world.until(lambda: scenes.opened_again(world, generation))
    assert (await world.actor()).epoch > before.epoch
    assert await world.outcomes() == {1: "completed"}


async def test_a_fleet_whose_run_fails_is_retried_and_repairs(world: FleetWorld) -> None:
    await scenes.first(world)
    await world.until_settled("completed")
    failing = [True]
    world.unreadable = lambda request: request.role == "fleet" and bool(failing)
    (life,) = [life for life in await scenes.lives(world) if life[0] == 1]
    await world.hosts.end(TENANT, *life, how="code", detail="exit code 1")
    await scenes.until_attempt(world, world.fleet_id, 2)

    failing.clear()

    await world.until(lambda: scenes.ready_on(world, {0: 1, 1: 1}))


async def test_a_fleet_that_fails_beside_a_rollout_finds_it_again(world: FleetWorld) -> None:
    await scenes.rollout_stuck(world)
    run_id = (await world.handle(world.fleet_id).describe()).run_id
    run = world.client.get_workflow_handle(world.fleet_id, run_id=run_id)
    await run.cancel()

    async def has_ended() -> bool:
        return (await run.describe()).status is WorkflowExecutionStatus.CANCELED

    await world.until(has_ended)  # a signal that came earlier would end with the cancelled run
    failing = [True]  # not before: a plan that fails would end the run otherwise
    world.unreadable = lambda request: request.role == "fleet" and bool(failing)
    # The signal of this change starts it without what it remembered.
    await world.store.put(keys.cordon("c"), b'{"action": "cordon"}')
    await scenes.until_attempt(world, world.fleet_id, 2)
    before = await world.actor()

    failing.clear()
    await world.apply(2, "v3")

    await world.until_outcome(3, "completed")
    assert await world.outcomes() == {1: "completed", 2: "superseded", 3: "completed"}
    assert before.workflow_id.split("/")[1] == "rollout"


async def test_a_rollout_that_times_out_is_retried_and_completes(world: FleetWorld) -> None:
    """Another program started it, with a time-out and without a retry policy; Fleet joins it."""
    await scenes.first(world)
    await world.until_settled("completed")
    world.hosts.dead_on_arrival = {2}
    world.unreadable = lambda request: request.role == "fleet"  # Fleet comes later
    generation = await world.apply(2, "v2")
    await world.client.start_workflow(
        ROLLING_UPDATE,
        RollingUpdateInput(tenant=TENANT, generation=generation),
        id=world.rollout_id(generation),
        task_queue=control_queue(world.cluster),
        run_timeout=timedelta(seconds=4),
    )
    await scenes.until_attempt(world, world.rollout_id(generation), 2)

    world.unreadable = lambda request: False
    world.hosts.dead_on_arrival = set()
    await world.apply(2, "v3")

    await world.until_outcome(3, "completed", 60)
    assert (await world.outcomes())[2] == "superseded"


async def test_a_fleet_that_times_out_is_retried_and_repairs(world: FleetWorld) -> None:
    await scenes.first(world)
    await world.until_settled("completed")
    await world.handle(world.fleet_id).terminate()
    await world.client.start_workflow(
        FLEET,
        FleetInput(tenant=TENANT),
        id=world.fleet_id,
        task_queue=control_queue(world.cluster),
        run_timeout=timedelta(seconds=3),
    )
    await scenes.until_attempt(world, world.fleet_id, 2)

    (life,) = [life for life in await scenes.lives(world) if life[0] == 1]
    await world.hosts.end(TENANT, *life, how="code", detail="exit code 1")

    await world.until(lambda: scenes.ready_on(world, {0: 1, 1: 1}))


async def test_a_terminated_rollout_is_started_again_under_its_generation(world: FleetWorld) -> None:
    workflow_id, _ = await scenes.rollout_started_again_after_a_termination(world)

    assert await status(world, workflow_id) is WorkflowExecutionStatus.COMPLETED
    assert await world.outcomes() == {1: "completed", 2: "superseded", 3: "completed"}
    assert await world.ready() == {0: 3, 1: 3}


async def test_a_rollout_cancelled_between_two_runs_is_aborted_by_fleet(world: FleetWorld) -> None:
    await scenes.fleet_that_aborts_a_rollout_cancelled_between_two_runs(world)

    assert await why(world, 2) == "its workflow was cancelled"
    world.unreadable = lambda request: False
    await world.until(lambda: scenes.ready_on(world, {0: 1, 1: 1}))
    assert (await world.actor()).workflow_id == world.fleet_id


async def test_an_aborted_rollout_is_not_started_again_when_it_is_terminated(world: FleetWorld) -> None:
    """Its outcome stands in etcd, whatever becomes of its workflow."""
    generation = await scenes.rollout_stuck(world)
    world.hosts.stubborn = True
    await world.apply(2, "v2", rollout={"generation": generation, "action": "abort"})
    await world.until_outcome(2, "aborted")
    await world.handle(world.rollout_id(generation)).terminate()
    await scenes.closed(world, generation)

    assert await status(world, world.rollout_id(generation)) is not WorkflowExecutionStatus.RUNNING
    assert (await world.actor()).workflow_id == world.fleet_id


@pytest.mark.parametrize("policy", [None, RetryPolicy(maximum_attempts=1)], ids=["none", "another"])
async def test_a_run_without_the_policy_continues_with_it(world: FleetWorld, policy: RetryPolicy | None) -> None:
    world.unreadable = lambda request: True
    handle = await world.client.start_workflow(
        FLEET,
        FleetInput(tenant=TENANT),
        id=world.fleet_id,
        task_queue=control_queue(world.cluster),
        retry_policy=policy,
    )

    await scenes.until_attempt(world, world.fleet_id, 2)

    world.unreadable = lambda request: False
    await handle.result()


async def test_reconcile_signal_with_the_start_of_an_unretried_run_is_not_lost(world: FleetWorld) -> None:
    looks: list[PlanInput] = []
    world.unreadable = lambda request: bool(looks.append(request))  # type: ignore[func-returns-value]
    await world.client.start_workflow(
        FLEET,
        FleetInput(tenant=TENANT, rollout=5),
        id=world.fleet_id,
        task_queue=control_queue(world.cluster),
        start_signal="poke",
    )

    async def looked() -> bool:
        return bool(looks)

    await world.until(looked)  # without the poke it looks after five minutes
    assert looks[0].generation == 5
