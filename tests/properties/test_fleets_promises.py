"""Single promises of fleets in the simulated world: scaling, the same again, an upgrade, a neighbour in trouble."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.properties.fleet_world.process import Behaviour
from tests.properties.fleet_world.run import unrest
from tests.properties.fleet_world.scenes import SPEC, fewest_ready, rules, settle, world_of
from tests.properties.fleet_world.world import World
from wharfinger.objects.model.quantities import IntOrPercent


@pytest.mark.parametrize("replicas", [1, 2, 3, 5])
def test_one_replica_more_ends_none_and_one_less_ends_exactly_one(replicas: int) -> None:
    world = world_of(replicas)
    record = world.judge.of("common")
    world.apply("common", replace(SPEC, replicas=replicas + 1))
    settle(world)
    assert (record.grants, record.drains, record.fences, record.revisions) == (1, 0, 0, 0)
    world.apply("common", replace(SPEC, replicas=replicas))
    settle(world)
    assert (record.grants, record.drains, record.fences, record.revisions) == (1, 1, 0, 0)


@pytest.mark.parametrize("times", [1, 2, 7])
def test_the_same_spec_written_many_times_is_applied_once(times: int) -> None:
    world = world_of(3)
    record = world.judge.of("common")
    for _ in range(times):
        world.apply("common", SPEC, "t2")
        world.timeline.run(world.timeline.now + 0.7)
    settle(world)
    assert (record.grants, record.drains, record.revisions) == (3, 3, 1)
    for _ in range(times):
        world.apply("common", SPEC, "t2")
        settle(world)
    assert (record.grants, record.drains, record.revisions) == (3, 3, 1)


@pytest.mark.parametrize("seed", range(20))
def test_a_rollback_keeps_what_matches_and_replaces_only_what_was_rolled(seed: int) -> None:
    world = world_of(3, seed=seed)
    world.apply("common", SPEC, "t2")
    world.timeline.run(world.timeline.now + world.rng.uniform(2.0, 25.0))
    shelf = world.etcd.shelf("common")
    rolled = {life[0] for life, grant in shelf.grants.items() if grant.revision == 2}
    kept = {life for life, grant in shelf.grants.items() if grant.revision == 1 and grant.want == "run"}
    grants = world.judge.of("common").grants
    world.apply("common", SPEC, "t1")
    settle(world)
    assert {grant.revision for grant in shelf.grants.values()} == {1}
    replaced = rolled - {slot for slot, _ in kept}
    in_flight = 1  # a grant that was on its way
    assert world.judge.of("common").grants - grants <= len(replaced) + in_flight
    assert len(kept - set(shelf.grants)) <= in_flight


@pytest.mark.parametrize("seed", range(20))
def test_a_template_that_is_wanted_again_keeps_what_runs_it_already(seed: int) -> None:
    world = world_of(3, seed=seed)
    shelf = world.etcd.shelf("common")
    world.apply("common", SPEC, "t2")
    kept: set[tuple[int, int]] = set()
    while not kept:
        world.timeline.run(world.timeline.now + 1.0)
        kept = {life for life, grant in shelf.grants.items() if grant.revision == 2 == shelf.slots[life[0]].revision}
    world.apply("common", SPEC, "t3")
    world.timeline.run(world.timeline.now + world.rng.uniform(0.5, 2.0))
    world.apply("common", SPEC, "t2")
    settle(world)
    assert kept <= set(shelf.grants)
    assert {shelf.revisions[grant.revision] for grant in shelf.grants.values()} == {"t2"}


@pytest.mark.parametrize("seed", range(20))
def test_an_upgrade_rolls_nothing(seed: int) -> None:
    world = world_of(3, seed=seed)
    record = world.judge.of("common")
    for _ in range(3):
        world.release += 1
        world.signal_reconcile("common")
        settle(world)
    assert (record.grants, record.drains, record.revisions) == (0, 0, 0)
    world.apply("common", SPEC, "t2")
    world.timeline.run(world.timeline.now + world.rng.uniform(1.0, 20.0))
    world.release += 1
    settle(world)
    assert (record.grants, record.drains, record.revisions) == (3, 3, 1)


@pytest.mark.parametrize("seed", range(10))
def test_a_tenant_in_trouble_delays_no_other(seed: int) -> None:
    """Blue's rollout takes as long beside a common pool that crashes, hangs and gets a bad template as beside none."""
    spans = []
    for trouble in (False, True):
        world = World(seed)
        for number in range(2):
            world.add_machine(f"host-{number}")
        world.templates["bad"] = Behaviour("crashes")
        world.put_settled("common", SPEC, "c1")
        world.put_settled("blue", SPEC, "t1")
        world.timeline.run(30.0)
        if trouble:
            world.apply("common", SPEC, "bad")
            for machine in world.machines.values():
                for (tenant, _), process in list(machine.running.items()):
                    if tenant == "common":
                        process.hang()
        began = world.timeline.now
        world.apply("blue", SPEC, "t2")
        world.timeline.run(began + 3.0)
        while unrest(world, "blue") and world.timeline.now < began + 400.0:
            world.timeline.run(world.timeline.now + 0.5)
        assert unrest(world, "blue") == ""
        spans.append(world.timeline.now - began)
        record = world.judge.of("blue")
        assert (record.grants, record.drains, record.revisions) == (3, 3, 1)
    assert abs(spans[1] - spans[0]) < 0.35 * spans[0]


@pytest.mark.parametrize("away", [1, 2, 3])
def test_absent_agents_end_no_instance_and_a_slot_that_ends_is_repaired(away: int) -> None:
    world = world_of(3, hosts=3)
    world.controlled_elsewhere = True
    world.add_machine("spare")
    record = world.judge.of("common")
    for number in range(away):
        world.machines[f"host-{number}"].stop_agent()
    assert fewest_ready(world, 600.0) == 3
    assert (record.grants, record.drains, record.fences) == (0, 0, 0)
    process = world.process("common", (0, 1))
    assert process is not None
    process.die("crashed", "signal")
    world.timeline.run(world.timeline.now + 120.0)
    grants = world.etcd.shelf("common").grants
    assert {life: grant.host for life, grant in grants.items() if life[0] == 0} == {(0, 2): "spare"}
    for machine in world.machines.values():
        machine.start_agent()
    settle(world)
    assert (record.grants, record.drains, record.fences) == (1, 0, 1)


@pytest.mark.parametrize("surge", [1, 0])
def test_a_rollout_ends_though_the_agents_of_what_it_replaces_are_away(surge: int) -> None:
    spec = replace(SPEC, max_surge=IntOrPercent(surge), max_unavailable=IntOrPercent(1 - surge))
    world = world_of(3, hosts=3, max_surge=IntOrPercent(surge), max_unavailable=IntOrPercent(1 - surge))
    world.add_machine("spare")
    for number in range(3):
        world.machines[f"host-{number}"].stop_agent()
    world.timeline.run(world.timeline.now + 120.0)
    world.apply("common", spec, "t2")
    assert fewest_ready(world, 400.0) == (3 if surge else 2)
    settle(world)
    assert {grant.host for grant in world.etcd.shelf("common").grants.values()} == {"spare"}


@pytest.mark.parametrize("confirmed", [False, True])
def test_most_hosts_that_are_lost_at_once_are_given_up_one_slot_at_a_time(confirmed: bool) -> None:
    world = world_of(6, hosts=3)
    world.controlled_elsewhere = True
    for number in (1, 2):
        world.machines[f"host-{number}"].cut_off()
    shelf, began = world.etcd.shelf("common"), world.timeline.now
    if confirmed:
        world.etcd.lost |= {"host-1", "host-2"}
    coming: list[int] = []
    while len({life for life, grant in shelf.grants.items() if grant.host == "host-0"}) < 6:
        world.timeline.run(world.timeline.now + 0.1)
        counted = world.judge.available(shelf)
        elsewhere = {life[0] for life, grant in shelf.grants.items() if grant.host != "host-0"}
        coming.append(6 - len(counted | elsewhere))
        assert world.timeline.now < began + 400.0
    assert max(coming) == (4 if confirmed else 1)
    assert rules(world) == set()


def test_what_was_behind_a_cut_and_was_not_given_up_yet_serves_again() -> None:
    world = world_of(6, hosts=3)
    for number in (1, 2):
        world.machines[f"host-{number}"].cut_off()
    shelf = world.etcd.shelf("common")
    while not any(incarnation > 1 for _, incarnation in shelf.grants):
        world.timeline.run(world.timeline.now + 0.1)
    for number in (1, 2):
        world.machines[f"host-{number}"].rejoin()
    settle(world)
    assert len([life for life in shelf.grants if life[1] == 1]) >= 4


def test_without_surge_one_goes_before_the_next_comes() -> None:
    world = world_of(3, max_surge=IntOrPercent(0), max_unavailable=IntOrPercent(1))
    world.apply("common", replace(SPEC, max_surge=IntOrPercent(0), max_unavailable=IntOrPercent(1)), "t2")
    settle(world)
    assert world.judge.of("common").grants == 3


def test_a_fleet_that_is_deleted_leaves_no_key_and_may_come_back() -> None:
    world = world_of(3)
    world.apply("common", SPEC, deleting=True)
    settle(world)
    assert world.etcd.shelf("common").empty
    world.apply("common", SPEC, "t1")
    settle(world)
    assert len(world.etcd.shelf("common").grants) == 3
