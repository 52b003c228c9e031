"""Every way in which a rollout ends, and what happens to a Fleet, played in the small world of `tests.workflows`.

Each scene answers whose history is to be kept, and which run of it. The tests of the workflows play them too.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Any

from temporalio.client import WorkflowContinuedAsNewError, WorkflowExecutionStatus, WorkflowFailureError

from tests.patience import patient
from tests.workflows.fleet_world import IMPATIENT, TENANT, FleetWorld
from wharfinger.etcd import keys
from wharfinger.fleet.contracts.fleet_records import read_value
from wharfinger.fleet.contracts.fleets import PlanInput
from wharfinger.fleet.model.fleet import Grant
from wharfinger.process.names import FLEET, control_queue

FleetScene = Callable[[FleetWorld], Awaitable[tuple[str, int]]]


async def first(world: FleetWorld, replicas: int = 2, **spec: Any) -> int:
    """A fleet of version v1 that came up; the generation of its first rollout, which is over."""
    generation = await world.apply(replicas, "v1", **spec)
    await world.until_outcome(1, "completed")
    await closed(world, generation)  # as long as it is open, it would take up what is wanted next
    return generation


async def rollout_completed(world: FleetWorld) -> tuple[str, int]:
    await first(world)
    generation = await world.apply(2, "v2")
    await world.until_outcome(2, "completed")
    return world.rollout_id(generation), 0


async def rollout_of_a_new_fleet(world: FleetWorld) -> tuple[str, int]:
    generation = await first(world)
    return world.rollout_id(generation), 0


async def rollout_without_surge(world: FleetWorld) -> tuple[str, int]:
    """Old ones leave first, and do not want to: they are killed."""
    strategy = {"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}}
    tight: dict[str, Any] = {"strategy": strategy, "drainTimeoutSeconds": 2.0}
    await first(world, **tight)
    world.hosts.stubborn = True
    generation = await world.apply(2, "v2", **tight)
    await world.until_outcome(2, "completed")
    return world.rollout_id(generation), 1


async def rollout_failed_and_reverted(world: FleetWorld) -> tuple[str, int]:
    await first(world)
    world.hosts.dead_on_arrival = {2}
    generation = await world.apply(2, "v2", progressDeadlineAction="Revert", **IMPATIENT)
    await world.until_outcome(2, "failed")
    await world.until(lambda: ready_on(world, {0: 1, 1: 1}))
    await closed(world, generation)
    return world.rollout_id(generation), -1


async def rollout_with_a_newer_target(world: FleetWorld) -> tuple[str, int]:
    """The newcomer that is no longer wanted is given up in the middle of its start."""
    await first(world)
    world.hosts.dead_on_arrival = {2}
    generation = await world.apply(2, "v2")
    await world.until(lambda: granted(world, 2))
    await world.apply(2, "v3")
    await world.until_outcome(3, "completed")
    return world.rollout_id(generation), 0


async def rollout_aborted(world: FleetWorld) -> tuple[str, int]:
    await first(world)
    world.hosts.dead_on_arrival = {2}
    generation = await world.apply(2, "v2")
    await world.until(lambda: granted(world, 2))
    await world.apply(2, "v2", rollout={"generation": generation, "action": "abort"})
    await world.until_outcome(2, "aborted")
    await closed(world, generation)
    return world.rollout_id(generation), -1


async def rollout_cancelled(world: FleetWorld) -> tuple[str, int]:
    await first(world)
    world.hosts.dead_on_arrival = {2}
    generation = await world.apply(2, "v2")
    await world.until(lambda: granted(world, 2))
    await world.handle(world.rollout_id(generation)).cancel()
    await world.until_outcome(2, "aborted")
    await closed(world, generation)
    return world.rollout_id(generation), -1


async def rollout_paused_and_resumed(world: FleetWorld) -> tuple[str, int]:
    await first(world)
    generation = await world.apply(2, "v2", paused=True)
    await world.until_settled("paused")
    await world.apply(2, "v2")
    await world.until_outcome(2, "completed")
    return world.rollout_id(generation), 0


async def rollout_halted_and_resumed(world: FleetWorld) -> tuple[str, int]:
    """It stands still by itself at its deadline, and goes on when it is told to."""
    await first(world)
    world.hosts.dead_on_arrival = {2}
    generation = await world.apply(2, "v2", **IMPATIENT)
    await world.until_settled("paused")
    world.hosts.dead_on_arrival = set()
    # An instance that came just before is dead still, and given up in time; the rollout has all the time it needs.
    patient = {**IMPATIENT, "progressDeadlineSeconds": 600.0}
    await world.apply(2, "v2", rollout={"generation": generation, "action": "resume"}, **patient)
    await world.until_outcome(2, "completed")
    return world.rollout_id(generation), 0


async def rollout_of_a_canary_promoted(world: FleetWorld) -> tuple[str, int]:
    canary: dict[str, Any] = {"strategy": {"rollingUpdate": {"canary": 1}}}
    await first(world, **canary)
    generation = await world.apply(2, "v2", **canary)
    await world.until(lambda: ready_on(world, {0: 1, 1: 2}))
    await world.until(lambda: condition(world, "CanaryWaiting"))
    await world.apply(2, "v2", **canary, rollout={"generation": generation, "action": "promote"})
    await world.until_outcome(2, "completed")
    return world.rollout_id(generation), 0


async def rollout_of_a_partition(world: FleetWorld) -> tuple[str, int]:
    await first(world)
    generation = await world.apply(2, "v2", strategy={"rollingUpdate": {"partition": 1}})
    await world.until(lambda: condition(world, "PartitionComplete"))
    await world.apply(2, "v2")
    await world.until_outcome(2, "completed")
    return world.rollout_id(generation), -1


async def rollout_that_no_host_starts(world: FleetWorld) -> tuple[str, int]:
    await first(world)
    world.hosts.refused = {2}
    generation = await world.apply(2, "v2", progressDeadlineAction="Revert", **IMPATIENT)
    await world.until_outcome(2, "failed")
    await closed(world, generation)
    return world.rollout_id(generation), 0


async def fleet_with_a_rollout(world: FleetWorld) -> tuple[str, int]:
    """Starts it, passes pokes on, is told how it ended, and begins a fresh history."""
    await first(world)
    return world.fleet_id, 0


async def fleet_that_repairs(world: FleetWorld) -> tuple[str, int]:
    await first(world)
    await world.until_settled("completed")
    (life,) = [life for life in await lives(world) if life[0] == 1]
    await world.hosts.end(TENANT, *life, how="code", detail="exit code 1")
    await world.until(lambda: ready_on(world, {0: 1, 1: 1}))
    await world.until(lambda: more_runs(world, 3))
    return world.fleet_id, 1


async def fleet_deleted(world: FleetWorld) -> tuple[str, int]:
    await first(world)
    await world.until_settled("completed")
    await world.delete()
    await world.until(lambda: nothing_left(world))
    return world.fleet_id, -1


async def rollout_stuck(world: FleetWorld) -> int:
    """A rollout that is in the middle of bringing up an instance that is never ready; its generation."""
    await first(world)
    world.hosts.dead_on_arrival = {2}
    generation = await world.apply(2, "v2")
    await world.until(lambda: granted(world, 2))
    return generation


async def fleet_that_starts_a_terminated_rollout_again(world: FleetWorld) -> tuple[str, int]:
    generation = await rollout_stuck(world)
    await world.handle(world.rollout_id(generation)).terminate()
    await world.until(lambda: opened_again(world, generation))
    return world.fleet_id, -1


async def fleet_continued_with_policy(world: FleetWorld) -> tuple[str, int]:
    """Another program started it, without a retry policy."""
    handle = await world.client.start_workflow(
        FLEET, {"tenant": TENANT}, id=world.fleet_id, task_queue=control_queue(world.cluster)
    )
    await handle.result()
    return world.fleet_id, 0


async def rollout_started_again_after_a_termination(world: FleetWorld) -> tuple[str, int]:
    generation = await rollout_stuck(world)
    await world.handle(world.rollout_id(generation)).terminate()
    await world.until(lambda: opened_again(world, generation))
    await world.apply(2, "v3")
    await world.until_outcome(3, "completed")
    await closed(world, generation)
    return world.rollout_id(generation), 0


async def rollout_retried_after_a_failure(world: FleetWorld) -> tuple[str, int]:
    """The answer to its second look cannot be read: it fails in the middle, and its next run completes."""
    await first(world)
    looks: list[PlanInput] = []

    def second(request: PlanInput) -> bool:
        looks.extend([request] if request.role == "rollout" else [])
        return request.role == "rollout" and len(looks) == 2

    world.unreadable = second
    generation = await world.apply(2, "v2")
    await world.until_outcome(2, "completed")
    await closed(world, generation)
    assert len(looks) > 2
    return world.rollout_id(generation), 1


async def fleet_that_aborts_a_rollout_cancelled_between_two_runs(world: FleetWorld) -> tuple[str, int]:
    """Cancelled before its retry begins, it never acts again: Fleet records how it ended."""
    generation = await rollout_stuck(world)
    world.unreadable = lambda request: request.role == "rollout"
    await world.handle(world.rollout_id(generation)).signal("poke")
    await until_attempt(world, world.rollout_id(generation), 3)
    await world.handle(world.rollout_id(generation)).cancel()
    await world.until_outcome(2, "aborted")
    return world.fleet_id, -1


# --- what is waited for -----------------------------------------------------------------------


async def ready_on(world: FleetWorld, revisions: dict[int, int]) -> bool:
    return await world.ready() == revisions


async def nothing_left(world: FleetWorld) -> bool:
    return await world.left() == []


async def condition(world: FleetWorld, kind: str) -> bool:
    status = await world.status()
    return status is not None and any(one.type == kind and one.status for one in status.conditions)


async def lives(world: FleetWorld, revision: int = 0) -> list[tuple[int, int]]:
    """Slot and incarnation of all grants, or of those of a revision."""
    found = []
    async for page in world.store.list(keys.grant.below(TENANT)):
        for kv in page.items:
            if revision in (0, read_value(Grant, kv.value).revision):
                slot, incarnation = kv.key.split("/")[-2:]
                found.append((int(slot), int(incarnation)))
    return found


async def granted(world: FleetWorld, revision: int) -> bool:
    """Whether an instance of that revision was created."""
    lived = await lives(world, revision)
    return any((one.slot, one.incarnation) in lived for one in world.hosts.asked)


async def more_runs(world: FleetWorld, count: int) -> bool:
    return len(await world.runs(world.fleet_id)) >= count


async def until_attempt(world: FleetWorld, workflow_id: str, number: int) -> None:
    """Until Temporal has retried the workflow so often."""
    before = ""

    async def another_run() -> bool:
        return (await world.handle(workflow_id).describe()).run_id != before

    while True:
        await world.until(another_run)
        before = str((await world.handle(workflow_id).describe()).run_id)
        run = world.client.get_workflow_handle(workflow_id, run_id=before)
        started = await anext(run.fetch_history_events(page_size=1))
        if started.workflow_execution_started_event_attributes.attempt >= number:
            return
        # The client calls a failure that is retried a continuation.
        with contextlib.suppress(WorkflowContinuedAsNewError, WorkflowFailureError):
            await asyncio.wait_for(run.result(follow_runs=False), patient(30))


async def opened_again(world: FleetWorld, generation: int) -> bool:
    """Whether the rollout runs and acts."""
    description = await world.handle(world.rollout_id(generation)).describe()
    acts = (await world.actor()).run_id == description.run_id
    return description.status == WorkflowExecutionStatus.RUNNING and acts


async def closed(world: FleetWorld, generation: int) -> None:
    """Until the rollout is over, and says so."""

    async def over() -> bool:
        status = await world.status()
        if status is None or status.generation:
            return False
        description = await world.handle(world.rollout_id(generation)).describe()
        return description.status != WorkflowExecutionStatus.RUNNING

    await world.until(over)


FLEET_SCENES: dict[str, FleetScene] = {
    scene.__name__: scene
    for scene in (
        rollout_completed,
        rollout_of_a_new_fleet,
        rollout_without_surge,
        rollout_failed_and_reverted,
        rollout_with_a_newer_target,
        rollout_aborted,
        rollout_cancelled,
        rollout_paused_and_resumed,
        rollout_halted_and_resumed,
        rollout_of_a_canary_promoted,
        rollout_of_a_partition,
        rollout_that_no_host_starts,
        fleet_with_a_rollout,
        fleet_that_repairs,
        fleet_deleted,
        fleet_that_starts_a_terminated_rollout_again,
        fleet_continued_with_policy,
        rollout_started_again_after_a_termination,
        rollout_retried_after_a_failure,
        fleet_that_aborts_a_rollout_cancelled_between_two_runs,
    )
}

# Of runs that wait by `waiting.until`; those above are of runs from before it.
FLEET_SCENES |= {
    f"{scene.__name__}_with_same_turns": scene
    for scene in (rollout_completed, rollout_cancelled, rollout_halted_and_resumed, fleet_that_repairs)
}
