"""Looking at a fleet: under whose epoch, on what view, and what of the plan is news."""

from __future__ import annotations

from typing import Any, cast

import pytest
from temporalio.exceptions import ApplicationError

from tests.fleet.effects.fleet_stage import CATALOG, EPOCH, FleetStage, asker
from wharfinger.errors import InvalidObject
from wharfinger.etcd import keys
from wharfinger.fleet.contracts.fleet_records import HostRecord
from wharfinger.fleet.contracts.fleets import FleetFailure, PlanInput
from wharfinger.fleet.effects.planning import Planning
from wharfinger.fleet.model.rollout import Memory
from wharfinger.fleet.state.fleets import FleetView


@pytest.fixture
async def stage(quick: FleetStage) -> FleetStage:
    await quick.store.put(keys.host("a"), HostRecord(boot_id="b", pid=1).to_bytes())
    return quick


def planning(stage: FleetStage, **more: Any) -> Planning:
    """No rollout is asked about, so Temporal is not needed."""
    return Planning(
        FleetView(stage.store, CATALOG),
        cast("Any", None),
        cluster="test",
        lease_ttl=-10.0,
        metrics=stage.metrics,
        clock=lambda: 0.0,
        **more,
    )


def request(stage: FleetStage, **fields: Any) -> PlanInput:
    return PlanInput(**{"tenant": stage.tenant, "role": "fleet", "epoch": EPOCH, "memory": Memory()} | fields)


async def test_plan_has_what_its_steps_need(stage: FleetStage) -> None:
    planned = await planning(stage).plan(request(stage), attempt=3)

    assert planned.plan.rollout == stage.generation
    assert planned.plan.writes.new_revision
    assert (planned.actor_epoch, planned.desired, planned.identity) == (EPOCH, stage.generation, stage.identity)
    assert (planned.attempt, planned.min_ready, planned.drain_timeout) == (3, 10.0, 60.0)
    assert "starts rollout" in planned.summary


@pytest.mark.parametrize(("host_lost", "silent"), [(5.0, 5.0), (20.0, 10.0), (60.0, 30.0), (3600.0, 30.0)])
async def test_a_queue_may_be_silent_half_as_long_as_a_host(stage: FleetStage, host_lost: float, silent: float) -> None:
    planned = await planning(stage, host_lost=host_lost).plan(request(stage))

    assert planned.host_silent == silent


async def test_former_actor_is_fenced_before_anything_is_decided(stage: FleetStage) -> None:
    await stage.act(EPOCH + 1)

    with pytest.raises(ApplicationError) as caught:
        await planning(stage).plan(request(stage))

    assert caught.value.type == FleetFailure.FENCED


async def test_a_view_with_a_hole_where_it_matters_decides_nothing(stage: FleetStage) -> None:
    await stage.store.put(keys.grant(stage.tenant, 0, 1), b"?")

    with pytest.raises(InvalidObject, match="grants"):
        await planning(stage).plan(request(stage))


async def test_other_unreadable_records_are_counted_and_stop_no_plan(stage: FleetStage) -> None:
    await stage.store.put(keys.exited(stage.tenant, 0, 1), b"?")

    assert (await planning(stage).plan(request(stage))).plan.rollout
    labels = {"tenant": stage.tenant}
    assert stage.metrics.registry.get_sample_value("wharfinger_fleet_unreadable_records", labels) == 1


async def test_what_stops_a_fleet_is_counted_too(stage: FleetStage) -> None:
    await stage.store.put(keys.grant(stage.tenant, 0, 1), b"?")

    with pytest.raises(InvalidObject):
        await planning(stage).plan(request(stage))

    labels = {"tenant": stage.tenant}
    assert stage.metrics.registry.get_sample_value("wharfinger_fleet_unreadable_records", labels) == 1


async def test_metrics_of_a_fleet_that_ended_elsewhere_are_removed(stage: FleetStage) -> None:
    own = planning(stage)
    await own.plan(request(stage))

    own.gauges.only({stage.tenant})
    assert told_of(stage) >= 2
    own.gauges.only({"another"})
    assert told_of(stage) == 0


def told_of(stage: FleetStage) -> int:
    families = stage.metrics.registry.collect()
    return sum(sample.labels.get("tenant") == stage.tenant for family in families for sample in family.samples)


async def test_a_status_that_is_written_already_is_no_news(stage: FleetStage) -> None:
    first = await planning(stage).plan(request(stage, role="rollout", generation=stage.generation))
    assert first.plan.writes.status is not None
    await stage.recording().record(stage.record_input(first.plan.writes), asker())

    asked = request(stage, role="rollout", generation=stage.generation, memory=first.plan.memory)
    second = await planning(stage).plan(asked)
    await stage.recording().record(stage.record_input(second.plan.writes), asker())
    third = await planning(stage).plan(asked)

    assert third.plan.writes.status is None
    assert stage.metrics.registry.get_sample_value("wharfinger_fleet_wanted_instances", {"tenant": stage.tenant}) == 2
