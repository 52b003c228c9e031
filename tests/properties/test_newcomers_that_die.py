"""In the simulated world: templates whose instances become ready and die some seconds or minutes later."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.properties.fleet_world.process import Behaviour
from tests.properties.fleet_world.scenes import SPEC, rules, settle, world_of
from tests.properties.fleet_world.world import World
from wharfinger.fleet.model.fleet import RolloutRequest
from wharfinger.fleet.model.rollout import Memory, Plan, Retire

SOAKING = replace(SPEC, soak=30.0)


def rolled(replicas: int, flap: float, seconds: float, **spec: object) -> World:
    """A fleet to which a template is applied whose instances die so long after they became ready."""
    world = world_of(replicas, soak=30.0, **spec)
    world.templates["dying"] = Behaviour("flaps", flap=flap)
    world.apply("common", replace(SOAKING, replicas=replicas, **spec), "dying")  # type: ignore[arg-type]
    world.timeline.run(world.timeline.now + seconds)
    return world


def former(world: World) -> int:
    """Instances of the former template that live."""
    return sum(grant.revision == 1 for grant in world.etcd.shelf("common").grants.values())


@pytest.mark.parametrize("replicas", [3, 12])
@pytest.mark.parametrize("flap", [1.0, 5.0, 15.0, 29.0])
def test_template_that_dies_within_the_soak_costs_one_slot(flap: float, replicas: int) -> None:
    world = rolled(replicas, flap, 900.0)
    shelf = world.etcd.shelf("common")
    assert world.judge.violations == []
    assert former(world) >= replicas - 1
    assert 2 not in shelf.outcomes
    assert shelf.status is not None
    assert "ended unasked 2 times" in shelf.status.phase


@pytest.mark.parametrize("flap", [45.0, 100.0, 240.0, 600.0])
def test_template_that_dies_after_soak_stops_or_was_observed_everywhere(flap: float) -> None:
    world = rolled(12, flap, 1500.0)
    shelf = world.etcd.shelf("common")
    assert world.judge.violations == []
    if shelf.outcomes.get(2) != "completed":  # all slots counted for the soak time together
        assert shelf.status is not None
        assert "ended unasked 2 times" in shelf.status.phase
        assert former(world) > 0 or flap > 200


def test_a_revert_brings_back_every_slot() -> None:
    world = rolled(4, 8.0, 600.0, on_deadline="revert")
    shelf = world.etcd.shelf("common")
    assert (rules(world), shelf.outcomes[2]) == (set(), "failed")
    assert {grant.revision for grant in shelf.grants.values()} == {1}


def test_stopped_rollout_continues_after_a_resume_once_its_cause_is_fixed() -> None:
    world = rolled(3, 8.0, 300.0)
    rollout = world.tenant("common").rollout
    assert rollout is not None
    world.templates["dying"] = Behaviour()
    request = RolloutRequest(rollout.generation, "resume")
    world.apply("common", replace(SOAKING, request=request))
    settle(world, 900.0)
    assert world.etcd.shelf("common").outcomes[2] == "completed"


@pytest.mark.parametrize(
    ("flap", "seconds", "rule"), [(600.0, 20.0, "unproven"), (3.0, 24.0, "held"), (3.0, 300.0, "failing")]
)
def test_the_judge_objects_when_a_former_instance_is_drained_too_early(flap: float, seconds: float, rule: str) -> None:
    world = rolled(3, flap, seconds)
    assert rules(world) == set()
    shelf, rollout = world.etcd.shelf("common"), world.tenant("common").rollout
    assert rollout is not None
    basis = world.control.basis(
        world.control.observe("common"), Plan(memory=Memory(spec=replace(SOAKING, replicas=3), decisions=1_000))
    )
    grant = shelf.grants[0, 1]
    step = Retire(0, 1, grant.host, grant.mod_revision)
    world.control.drain("common", rollout.epoch, step, basis, 10.0, lambda _: None)
    assert rule in rules(world)
