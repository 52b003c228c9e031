"""Fleet from beginning to end: real server, real control activities and planner, hosts that pretend."""

from __future__ import annotations

import pytest
from temporalio.client import WorkflowExecutionStatus, WorkflowFailureError

from tests.replay import fleet_scenes as scenes
from tests.workflows.fleet_world import TENANT, FleetWorld
from wharfinger.etcd import keys
from wharfinger.fleet.contracts.actors import ActorStatus
from wharfinger.process.names import FLEET, SEARCH_TENANT, control_queue


async def test_a_fleet_comes_up_is_updated_and_goes(world: FleetWorld) -> None:
    await scenes.rollout_completed(world)
    assert await world.ready() == {0: 2, 1: 2}
    assert (await world.store.get(keys.tenant(TENANT))).kv is not None

    await world.delete()
    await world.until(lambda: scenes.nothing_left(world))

    async def ended() -> bool:
        return (await world.handle(world.fleet_id).describe()).status != WorkflowExecutionStatus.RUNNING

    await world.until(ended)


async def test_the_first_rollout_is_a_rollout_too(world: FleetWorld) -> None:
    workflow_id, _ = await scenes.rollout_of_a_new_fleet(world)

    assert workflow_id == world.rollout_id(await generation_of_first(world))
    assert await world.ready() == {0: 1, 1: 1}


async def generation_of_first(world: FleetWorld) -> int:
    kv = (await world.store.get(keys.fleet(TENANT))).kv
    assert kv is not None
    return kv.mod_revision


async def test_a_crashed_instance_returns_on_its_revision(world: FleetWorld) -> None:
    await scenes.fleet_that_repairs(world)

    assert await world.ready() == {0: 1, 1: 1}
    assert await scenes.lives(world) == [(0, 1), (1, 2)]
    assert (await world.actor()).workflow_id == world.fleet_id


async def test_scaling_is_no_rollout(world: FleetWorld) -> None:
    await scenes.first(world)

    await world.apply(3, "v1")
    await world.until(lambda: scenes.ready_on(world, {0: 1, 1: 1, 2: 1}))
    await world.apply(1, "v1")
    await world.until(lambda: scenes.ready_on(world, {0: 1}))

    assert await world.outcomes() == {1: "completed"}
    assert (await world.actor()).workflow_id == world.fleet_id


async def test_fleet_that_was_never_written_ends_at_once_without_a_write(world: FleetWorld) -> None:
    handle = await world.client.start_workflow(
        FLEET, {"tenant": TENANT}, id=world.fleet_id, task_queue=control_queue(world.cluster)
    )
    await handle.result()

    assert await world.left() == []


async def test_a_fleet_that_was_started_anew_joins_the_open_rollout(world: FleetWorld) -> None:
    await scenes.first(world)
    world.hosts.dead_on_arrival = {2}
    generation = await world.apply(2, "v2")
    await world.until(lambda: scenes.granted(world, 2))
    before = await world.actor()
    await world.handle(world.fleet_id).terminate()
    await world.store.put(keys.cordon("c"), b'{"action": "cordon"}')  # anything: the watch pokes

    async def joined() -> bool:
        try:
            status = await world.handle(world.fleet_id).query("status", result_type=ActorStatus)
        except Exception:
            return False
        return isinstance(status, ActorStatus) and status.generation == generation

    await world.until(joined)
    assert await world.actor() == before
    world.hosts.dead_on_arrival = set()
    await world.apply(2, "v3")
    await world.until_outcome(3, "completed")
    await scenes.closed(world, generation)
    assert await world.ready() == {0: 3, 1: 3}


async def test_it_can_be_found_by_its_tenant(world: FleetWorld) -> None:
    await scenes.first(world)
    attributes = (await world.handle(world.fleet_id).describe()).typed_search_attributes

    assert [pair.value for pair in attributes if pair.key.name == SEARCH_TENANT] == [TENANT]


@pytest.mark.parametrize("request_", [None, {}, {"tenant": ""}, {"tenant": 3}])
async def test_an_input_without_a_tenant_fails_for_good(world: FleetWorld, request_: object) -> None:
    handle = await world.client.start_workflow(
        FLEET, request_, id=f"{world.cluster}/fleet/nobody", task_queue=control_queue(world.cluster)
    )

    with pytest.raises(WorkflowFailureError):
        await handle.result()


async def test_metrics_describe_the_fleet(world: FleetWorld) -> None:
    await scenes.rollout_completed(world)
    await world.until_settled("completed")

    def sample(name: str, **labels: str) -> float | None:
        return world.metrics.registry.get_sample_value(name, labels)

    async def counted() -> bool:
        """What is written is counted a moment later."""
        return sample("wharfinger_fleet_rollouts_total", outcome="completed") == 2

    await world.until(counted)
    assert sample("wharfinger_fleet_ready_instances", tenant=TENANT) == 2
    assert sample("wharfinger_fleet_wanted_instances", tenant=TENANT) == 2
    assert sample("wharfinger_fleet_outdated_instances", tenant=TENANT) == 0
    assert sample("wharfinger_fleet_rollout", tenant=TENANT, state="running") == 0
    assert (sample("wharfinger_fleet_seconds_since_reconcile", tenant=TENANT) or 0) < 60
