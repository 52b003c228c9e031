"""The simulated world's judge bites: each rule is broken on purpose, in the world or in a plan, and it says so.

And single promises, each on its own: scaling, writing the same again, an upgrade, a neighbour in trouble.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest

from tests.properties.fleet_world.control import Write
from tests.properties.fleet_world.process import Behaviour
from tests.properties.fleet_world.run import play, unrest
from tests.properties.fleet_world.scenes import SPEC, fewest_ready, rules, settle, world_of
from tests.properties.fleet_world.temporal import Fenced
from tests.properties.fleet_world.world import World
from wharfinger.fleet.planner import Asked
from wharfinger.model.fleet import RolloutRequest, Share
from wharfinger.model.rollout import LATE, Counted, Drop, Memory, Plan, Retire, Up, Writes

# --- the judge bites ------------------------------------------------------------------------------


@contextmanager
def misplanned(world: World, change: Callable[[Plan], Plan]) -> Iterator[None]:
    """The next plan is changed before it is followed. Lets the world live with that for a while."""
    original = world.control.plan

    def plan(asked: object, memory: object, done: Callable[[object], None]) -> None:
        world.control.plan = original  # type: ignore[method-assign]
        original(asked, memory, lambda looked: done(replace(looked, plan=change(looked.plan))))  # type: ignore[arg-type, type-var]

    world.control.plan = plan  # type: ignore[method-assign]
    yield
    world.poke("common")
    world.timeline.run(world.timeline.now + 40.0)


def test_a_drain_that_leaves_too_few() -> None:
    world = world_of(2)
    grant = world.etcd.shelf("common").grants[0, 1]
    with misplanned(world, lambda plan: replace(plan, steps=(Retire(0, 1, grant.host, grant.mod_revision),))):
        pass
    assert {"floor", "matching"} <= rules(world)


def test_one_that_is_fenced_off_though_it_serves() -> None:
    world = world_of(2)
    host = world.etcd.shelf("common").grants[0, 1].host
    with misplanned(world, lambda plan: replace(plan, steps=(Drop(0, 1, host),))):
        pass
    assert {"floor", "unknown"} <= rules(world)


def test_more_than_the_ceiling_and_twins() -> None:
    world = world_of(2)
    ups = tuple(Up(slot, 1, "host-0") for slot in (0, 1))
    with misplanned(world, lambda plan: replace(plan, steps=ups)):
        pass
    assert {"ceiling", "replaced"} <= rules(world)


def test_a_grant_on_a_cordoned_host_or_beyond_the_replicas() -> None:
    world = world_of(1)
    with misplanned(world, lambda plan: replace(plan, steps=(Up(7, 1, "host-0"),))):
        pass
    assert "beyond" in rules(world)


@pytest.mark.parametrize("broken", ["", "host-back"])
def test_a_host_that_is_taken_for_lost_and_is_there(broken: str) -> None:
    world = world_of(2, broken=broken)
    host = world.etcd.shelf("common").grants[1, 1].host
    with misplanned(world, lambda plan: replace(plan, steps=(Drop(1, 1, host, kill=False),))):
        pass
    assert ("host-lost" in rules(world)) == bool(broken)


def test_one_that_is_fenced_off_for_its_agents_sake() -> None:
    world = world_of(2)
    host = world.etcd.shelf("common").grants[1, 1].host
    world.machines[host].stop_agent()
    world.timeline.run(world.timeline.now + 130.0)
    assert rules(world) == set()
    with misplanned(world, lambda plan: replace(plan, steps=(Drop(1, 1, host, kill=False),))):
        pass
    assert {"agent", "floor"} <= rules(world)


def test_two_that_are_given_up_at_once_though_most_hosts_went() -> None:
    world = world_of(6, hosts=3)
    world.controlled_elsewhere = True
    for number in (1, 2):
        world.machines[f"host-{number}"].cut_off()
    world.timeline.run(world.timeline.now + 80.0)
    drops = tuple(Drop(slot, 1, f"host-{slot}", kill=False) for slot in (1, 2))
    with misplanned(world, lambda plan: replace(plan, steps=drops)):
        world.poke("common")
        world.timeline.run(world.timeline.now + 10.0)
    assert rules(world) == {"at-once"}


def test_a_number_that_is_given_again() -> None:
    found = {rule for seed in range(40) for rule in play(seed, broken=frozenset(["reuse"])).violations}
    assert any(violation.startswith("reused") for violation in found)


@pytest.mark.parametrize("broken", ["", "late-grant"])
def test_a_grant_that_comes_again_after_it_has_come_and_gone(broken: str) -> None:
    world = world_of(1, broken=broken, max_surge=Share(1))
    shelf = world.etcd.shelf("common")
    basis = world.control.basis(world.control.observe("common"), Plan(memory=Memory(spec=replace(SPEC, replicas=1))))
    epoch = shelf.actor.epoch if shelf.actor is not None else 0
    token, step, answers = object(), Up(0, 2, "host-0", after=1), []
    world.control.grant("common", epoch, step, basis, token, answers.append)
    world.control.grant("common", epoch, step, basis, token, answers.append)
    assert answers == [2, 2]
    world.etcd.remove_grant("common", (0, 2))
    world.control.grant("common", epoch, replace(step, slot=0), basis, object(), answers.append)
    assert answers[2] == ("moved" if not broken else 3)


@pytest.mark.parametrize("broken", ["", "counted"])
def test_a_drain_that_does_not_compare_what_it_counts_on(broken: str) -> None:
    world = world_of(2, broken=broken, max_unavailable=Share(1))
    shelf = world.etcd.shelf("common")
    grant, counted = shelf.grants[1, 1], shelf.instances[0, 1]
    basis = world.control.basis(world.control.observe("common"), Plan(memory=Memory(spec=SPEC, clock=1.0)))
    step = Retire(1, 1, grant.host, grant.mod_revision, (Counted(0, 1, counted.mod_revision),))
    process = world.process("common", (0, 1))
    assert process is not None
    process.withdraw()
    answers: list[object] = []
    epoch = shelf.actor.epoch if shelf.actor is not None else 0
    world.control.drain("common", epoch, step, basis, 10.0, answers.append)
    assert (answers, rules(world)) == ((["moved"], set()) if not broken else ([], {"floor", "matching"}))


@pytest.mark.parametrize("broken", ["", "late-drain"])
def test_a_drain_that_comes_when_its_rollout_is_aborted(broken: str) -> None:
    world = world_of(2, broken=broken, max_unavailable=Share(1))
    world.apply("common", replace(SPEC, replicas=2), "t2")
    shelf = world.etcd.shelf("common")
    while (0, 2) not in shelf.grants and (1, 2) not in shelf.grants:
        world.timeline.run(world.timeline.now + 0.1)
    rollout = world.tenant("common").rollout
    assert rollout is not None
    slot = next(life[0] for life in shelf.grants if life[1] == 2)
    grant, decided = shelf.grants[slot, 1], shelf.actor.decisions if shelf.actor is not None else None
    assert decided is not None
    memory = Memory(spec=SPEC, clock=1.0, decisions=decided.number)
    basis = world.control.basis(world.control.observe("common"), Plan(memory=memory))
    request = RolloutRequest(rollout.generation, "abort")
    world.apply("common", replace(SPEC, replicas=2, request=request))
    while shelf.outcomes.get(2) != "aborted":
        world.timeline.run(world.timeline.now + 0.1)
    answers: list[object] = []
    epoch = shelf.actor.epoch if shelf.actor is not None else 0
    late = Retire(slot, 1, grant.host, grant.mod_revision, assign=2)
    world.control.drain("common", epoch, late, basis, 10.0, answers.append)
    assert (answers, "matching" in rules(world)) == ((["moved"], False) if not broken else ([], True))


@pytest.mark.parametrize("broken", ["", "registered"])
def test_a_fence_that_comes_when_it_serves_again(broken: str) -> None:
    world = world_of(2, broken=broken)
    shelf = world.etcd.shelf("common")
    basis = world.control.basis(world.control.observe("common"), Plan(memory=Memory(spec=SPEC, clock=1.0)))
    answers: list[object] = []
    epoch = shelf.actor.epoch if shelf.actor is not None else 0
    late = Drop(1, 1, shelf.grants[1, 1].host, registered=0)  # its record was missing then
    world.control.revoke("common", epoch, late, basis, answers.append)
    assert (answers, "floor" in rules(world)) == ((["moved"], False) if not broken else ([None], True))


@pytest.mark.parametrize("broken", ["", "epoch"])
def test_an_actor_that_wakes_late(broken: str) -> None:
    world = world_of(2, broken=broken)
    world.apply("common", replace(SPEC, replicas=2), "t2")
    settle(world)
    shelf = world.etcd.shelf("common")
    basis = world.control.basis(world.control.observe("common"), Plan(memory=Memory(spec=SPEC)))
    late = Drop(0, 2, shelf.grants[0, 2].host)
    if broken:
        world.control.revoke("common", 1, late, basis, lambda _: None)
        assert "stale" in rules(world)
    else:
        with pytest.raises(Fenced):
            world.control.revoke("common", 1, late, basis, lambda _: None)
        assert rules(world) == set()


@pytest.mark.parametrize("relieved", [False, True])
def test_one_that_acts_though_its_view_was_broken_and_not_somebody_elses(relieved: bool) -> None:
    world = world_of(2, max_unavailable=Share(1))
    world.timeline.run(200.0)
    shelf, original = world.etcd.shelf("common"), world.control.plan

    def slowly(asked: Asked, memory: Memory, done: Callable[[object], None]) -> None:
        world.control.plan = original  # type: ignore[method-assign]
        original(asked, memory, lambda looked: world.timeline.after(2 * LATE, done, looked))

    world.control.plan = slowly  # type: ignore[method-assign]
    world.poke("common")
    world.timeline.run(world.timeline.now + LATE)
    basis = world.control.basis(world.control.observe("common"), Plan(memory=Memory(spec=SPEC, clock=1.0)))
    assert shelf.actor is not None
    epoch = shelf.actor.epoch
    if relieved:
        epochs: list[object] = []
        world.control.record("common", Write(Writes(), basis, epoch, True, "another"), epochs.append)
        epoch += 1
        assert epochs == [epoch]
    world.control.record = lambda *_: None  # type: ignore[method-assign]  # what it writes then is on its way
    world.timeline.run(world.timeline.now + LATE + 1.0)  # the answer is there now
    basis = world.control.basis(world.control.observe("common"), Plan(memory=Memory(spec=SPEC, clock=1.0)))
    grant, counted = shelf.grants[1, 1], shelf.instances[0, 1]
    step = Retire(1, 1, grant.host, grant.mod_revision, (Counted(0, 1, counted.mod_revision),))
    world.control.drain("common", epoch, step, basis, 10.0, lambda _: None)
    assert ("sight" in rules(world)) == (not relieved)


def lost(world: World, *, restored: bool) -> None:
    """Temporal forgot the fleet's workflows, or has them as they were before the rollout."""
    world.lose_workflows("common", world.tenant("common").backup if restored else None, rollout=True)
    world.poke("common")
    world.timeline.run(world.timeline.now + 60.0)
    assert world.tenant("common").rollout is not None


@pytest.mark.parametrize("broken", ["", "decisions"])
def test_a_canary_whose_rollout_is_forgotten(broken: str) -> None:
    spec = replace(SPEC, canary=1)
    world = world_of(2, broken=broken, canary=1)
    world.apply("common", replace(spec, replicas=2), "t2")
    world.timeline.run(world.timeline.now + 60.0)
    world.apply("common", spec)  # the slot that comes has what was completed last
    world.timeline.run(world.timeline.now + 60.0)
    lost(world, restored=False)
    grants = world.etcd.shelf("common").grants
    assert rules(world) == ({"canary"} if broken else set())
    assert {slot for (slot, _), grant in grants.items() if grant.revision == 2} == ({1, 2} if broken else {1})


@pytest.mark.parametrize("restored", [False, True])
@pytest.mark.parametrize("broken", ["", "decisions"])
def test_a_rollout_that_stands_still_and_is_forgotten(broken: str, restored: bool) -> None:
    world = world_of(2, broken=broken)
    world.templates["t2"] = Behaviour("never-ready")
    world.apply("common", replace(SPEC, replicas=2), "t2")
    world.timeline.run(world.timeline.now + 300.0)
    assert world.judge.of("common").halted
    lost(world, restored=restored)
    assert rules(world) == ({"halted"} if broken else set())


# --- single promises ------------------------------------------------------------------------------


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
    world.timeline.run(world.timeline.now + world.chance.uniform(2.0, 25.0))
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
    world.timeline.run(world.timeline.now + world.chance.uniform(0.5, 2.0))
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
        world.poke("common")
        settle(world)
    assert (record.grants, record.drains, record.revisions) == (0, 0, 0)
    world.apply("common", SPEC, "t2")
    world.timeline.run(world.timeline.now + world.chance.uniform(1.0, 20.0))
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
def test_agents_that_are_away_end_nothing_and_a_slot_that_ends_meanwhile_is_repaired(away: int) -> None:
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
    spec = replace(SPEC, max_surge=Share(surge), max_unavailable=Share(1 - surge))
    world = world_of(3, hosts=3, max_surge=Share(surge), max_unavailable=Share(1 - surge))
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
    world = world_of(3, max_surge=Share(0), max_unavailable=Share(1))
    world.apply("common", replace(SPEC, max_surge=Share(0), max_unavailable=Share(1)), "t2")
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
