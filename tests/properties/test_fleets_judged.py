"""The simulated world's judge bites: each rule is broken on purpose, in the world or in a plan, and it says so."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest

from tests.properties.fleet_world.control import Write
from tests.properties.fleet_world.process import Behaviour
from tests.properties.fleet_world.run import play
from tests.properties.fleet_world.scenes import SPEC, rules, settle, world_of
from tests.properties.fleet_world.temporal import Fenced
from tests.properties.fleet_world.world import World
from wharfinger.fleet.deciding.planner import Asked
from wharfinger.fleet.model.fleet import RolloutRequest
from wharfinger.fleet.model.rollout import LATE, Counted, Drop, Memory, Plan, Retire, Up, Writes
from wharfinger.objects.model.quantities import IntOrPercent


@contextmanager
def misplanned(world: World, change: Callable[[Plan], Plan]) -> Iterator[None]:
    """The next plan is changed before it is followed. Lets the world live with that for a while."""
    original = world.control.plan

    def plan(asked: object, memory: object, done: Callable[[object], None]) -> None:
        world.control.plan = original  # type: ignore[method-assign]
        original(asked, memory, lambda looked: done(replace(looked, plan=change(looked.plan))))  # type: ignore[arg-type, type-var]

    world.control.plan = plan  # type: ignore[method-assign]
    yield
    world.signal_reconcile("common")
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
        world.signal_reconcile("common")
        world.timeline.run(world.timeline.now + 10.0)
    assert rules(world) == {"at-once"}


def test_a_number_that_is_given_again() -> None:
    found = (violation for seed in range(40) for violation in play(seed, broken=frozenset(["reuse"])).violations)
    assert any(violation.startswith("reused") for violation in found)


@pytest.mark.parametrize("broken", ["", "late-grant"])
def test_a_grant_that_comes_again_after_it_has_come_and_gone(broken: str) -> None:
    world = world_of(1, broken=broken, max_surge=IntOrPercent(1))
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
    world = world_of(2, broken=broken, max_unavailable=IntOrPercent(1))
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
    world = world_of(2, broken=broken, max_unavailable=IntOrPercent(1))
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
def test_actor_that_acts_after_its_own_view_was_broken(relieved: bool) -> None:
    world = world_of(2, max_unavailable=IntOrPercent(1))
    world.timeline.run(200.0)
    shelf, original = world.etcd.shelf("common"), world.control.plan

    def slowly(asked: Asked, memory: Memory, done: Callable[[object], None]) -> None:
        world.control.plan = original  # type: ignore[method-assign]
        original(asked, memory, lambda looked: world.timeline.after(2 * LATE, done, looked))

    world.control.plan = slowly  # type: ignore[method-assign]
    world.signal_reconcile("common")
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
    world.signal_reconcile("common")
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
