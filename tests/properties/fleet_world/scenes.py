"""Worlds to begin with, for tests of one promise: a fleet that has been running for a while."""

from __future__ import annotations

from dataclasses import replace

from tests.properties.fleet_world.run import unrest
from tests.properties.fleet_world.world import World
from wharfinger.fleet.model.fleet import FleetSpec

SPEC = FleetSpec(
    replicas=3,
    min_ready=2.0,
    instance_deadline=30.0,
    progress_deadline=90.0,
    drain_timeout=10.0,
    kill_timeout=2.0,
    soak=0.0,
)


def world_of(replicas: int = 3, *, seed: int = 1, hosts: int = 2, broken: str = "", **spec: object) -> World:
    """A fleet that has been running for a while, and whose Fleet is awake."""
    world = World(seed, broken=frozenset(filter(None, [broken])))
    for number in range(hosts):
        world.add_machine(f"host-{number}")
    world.put_settled("common", replace(SPEC, replicas=replicas, **spec), "t1")
    world.timeline.run(30.0)
    return world


def settle(world: World, seconds: float = 400.0) -> None:
    """Let it come to rest."""
    until = world.timeline.now + seconds
    world.timeline.run(world.timeline.now + 3.0)
    while unrest(world, "common") and world.timeline.now < until:
        world.timeline.run(world.timeline.now + 1.0)
    assert unrest(world, "common") == ""
    assert world.judge.violations == []


def rules(world: World) -> set[str]:
    """Which rules were broken."""
    return {violation.split(":")[0] for violation in world.judge.violations}


def fewest_ready(world: World, seconds: float, tenant: str = "common") -> int:
    """The fewest slots that any moment of some seconds found with a ready instance."""
    shelf = world.etcd.shelf(tenant)
    until, fewest = world.timeline.now + seconds, 1_000
    while world.timeline.now < until:
        world.timeline.run(world.timeline.now + 0.2)
        ready = {life[0] for life, record in shelf.instances.items() if record.state == "ready"}
        fewest = min(fewest, len(ready))
    return fewest
