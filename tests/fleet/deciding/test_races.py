"""The races of the original, R1 to R40 (its manager's faults as they were read), each told and shown not to be here.

Tests run the planner on a picture of etcd, or planner and actors in the simulated world. What cannot be stated in this
design has no test, and why:

====  ===========================================================================================================
R14   concurrent iteration and write of a map: a plan is a pure function of frozen values (held by R18's test)
R15   nested locks: there is no lock in the room (held by R14's test, which reads its imports)
R17   kill-except walks a live map: nothing live is shared (as R14)
R28   secrets in arguments, logs and stores: `tests/integration/test_no_secrets.py`, on real processes
R31   the ring's key outlives its process: the member is the slot, owned by its highest ready incarnation, see
      `tests/scheduling/loops/test_shards.py`
R33   events lost behind a compaction: `tests/fleet/agent/test_fleet_watch.py`,
      `tests/scheduling/state/informer/test_informer.py`; and no event is needed to converge (R16)
R34   contexts and timers that are never cancelled: there are none; what an actor keeps is in `Memory`, bounded
R37   an absent manager hangs its caller: no caller waits for a fleet; one with nothing to look after ends (below)
====  ===========================================================================================================
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import FrozenInstanceError, replace
from pathlib import Path

import pytest
from temporalio.exceptions import ActivityError, ApplicationError

import wharfinger.fleet
from tests.fleet.deciding.builders import Picture, brief, keep, later, roll, rolling, standing
from tests.properties.fleet_world.process import Behaviour
from tests.properties.fleet_world.run import unrest
from tests.properties.fleet_world.scenes import SPEC, fewest_ready, rules, settle, world_of
from wharfinger.errors import ConfigurationError
from wharfinger.etcd import keys
from wharfinger.fleet.contracts.fleets import FleetFailure
from wharfinger.fleet.deciding.actor import ActorState, StepResult
from wharfinger.fleet.deciding.planner import Asked, plan
from wharfinger.fleet.model.fleet import RolloutRequest
from wharfinger.fleet.model.rollout import Busy, Memory, Up
from wharfinger.fleet.spec.fleet import read_fleet, read_template
from wharfinger.fleet.state.fleets import FleetView
from wharfinger.framework.plugins.builtin import catalog
from wharfinger.objects.model.quantities import IntOrPercent
from wharfinger.process.records import InstanceRecord
from wharfinger.testing.memory_store import MemoryStore
from wharfinger.workflows.fleet_steps import REFUSED, host_failed, is_fenced

ROOT = Path(__file__).parents[3]


def object_of(name: str = "blue", **spec: object) -> dict[str, object]:
    return {"apiVersion": "wharfinger.dev/v1", "kind": "SchedulerFleet", "metadata": {"name": name}, "spec": spec}


@pytest.mark.parametrize("seed", range(5))
def test_r01_one_change_reaches_all_of_twenty_tenants(seed: int) -> None:
    """All managers compared with one global configuration: the first to run replaced it, the others saw no change."""
    world = world_of(1, seed=seed)
    names = [f"tenant-{number}" for number in range(20)]
    for name in names:
        world.put_settled(name, replace(SPEC, replicas=1), "t1")
    world.timeline.run(world.timeline.now + 30.0)
    for name in world.rng.sample(names, len(names)):
        world.apply(name, replace(SPEC, replicas=1), "t2")
    world.timeline.run(world.timeline.now + 60.0)
    assert [unrest(world, name) for name in names] == [""] * 20
    assert all(world.judge.of(name).grants == 1 for name in names)
    assert rules(world) == set()


def test_r02_end_of_an_incarnation_leaves_the_next_ones_creation_alone() -> None:
    """The old version's delete event, during the create of the same id, called a typed nil: the controller died."""
    picture = rolling(1).life(0, 2, revision=2, state="starting", assign=False).died(0, 1)
    decided = roll(picture, picture.memory(), Busy("up", 0, 2, 2, "a"))
    assert [(clear.slot, clear.incarnation) for clear in decided.writes.clears] == [(0, 1)]
    assert (decided.steps, decided.give_up) == ((), ())


def test_r03_going_back_after_a_bad_template_ends_nothing_that_serves() -> None:
    """Fix-forward and rollback both killed everything: running was not wanted, so a full update."""
    world = world_of(3)
    world.templates["bad"] = Behaviour("crashes")
    world.apply("common", SPEC, "bad")
    world.timeline.run(world.timeline.now + 40.0)
    drains = world.judge.of("common").drains
    world.apply("common", SPEC, "t1")
    assert fewest_ready(world, 60.0) == 3
    assert world.judge.of("common").drains == drains == 0
    settle(world)


def test_r04_former_instance_that_stays_is_never_taken_for_its_successor() -> None:
    """Create of an id that existed was success: the update was done while the old version ran."""
    world = world_of(2, max_surge=IntOrPercent(0), max_unavailable=IntOrPercent(1))
    former = world.process("common", (1, 1))
    assert former is not None
    former.behaviour = Behaviour(drain=1_000.0)
    world.apply("common", replace(SPEC, replicas=2, max_surge=IntOrPercent(0), max_unavailable=IntOrPercent(1)), "t2")
    settle(world)
    assert not former.alive
    assert {grant.revision for grant in world.etcd.shelf("common").grants.values()} == {2}


def test_r05_late_report_of_one_incarnation_does_not_concern_the_next() -> None:
    """A late delete of k removed k+1; a late put of k brought a ghost that filled the count."""
    picture = standing(1).life(0, 2)
    picture.grants.pop((0, 1))  # its record is still there
    counted = keep(picture)
    assert counted.steps == ()
    assert counted.writes.status is not None
    assert counted.writes.status.ready == 1
    ghost_only = standing(1)
    ghost_only.grants.pop((0, 1))
    assert keep(ghost_only).writes.status is not None
    assert keep(ghost_only).writes.status.ready == 0  # type: ignore[union-attr]


def test_r06_stopped_rollout_is_not_reported_done_and_resumes_on_request() -> None:
    """The configuration counted as applied before it was rolled out; sent again it was `no change`, that is success."""
    world = world_of(2, progress_deadline=40.0)
    world.templates["t2"] = Behaviour("never-ready")
    spec = replace(SPEC, replicas=2, progress_deadline=40.0)
    world.apply("common", spec, "t2")
    world.timeline.run(world.timeline.now + 120.0)
    rollout = world.tenant("common").rollout
    assert rollout is not None
    assert world.etcd.shelf("common").outcomes.get(2) is None
    world.templates["t2"] = Behaviour()  # what was missing is there now
    world.apply("common", replace(spec, request=RolloutRequest(rollout.generation, "resume")), "t2")
    settle(world)
    assert world.etcd.shelf("common").outcomes[2] == "completed"


def test_r07_slot_being_filled_is_waited_for_and_does_not_count_yet() -> None:
    """Create of a busy id returned success at once, and the loop went on to the next instance."""
    picture = rolling(2, max_surge=IntOrPercent(0), max_unavailable=IntOrPercent(1)).without(1)
    picture.life(1, 2, revision=2, state=None, assign=False)
    assert brief(roll(picture, picture.memory(), Busy("up", 1, 2, 2, "a"))) == []


def test_r08_scaling_is_no_update() -> None:
    """A change of the number alone killed all, and recreated all twice."""
    world = world_of(2)
    world.apply("common", replace(SPEC, replicas=3))
    assert fewest_ready(world, 30.0) == 2
    world.apply("common", replace(SPEC, replicas=2))
    assert fewest_ready(world, 30.0) == 2
    record = world.judge.of("common")
    assert (record.grants, record.drains, record.fences, record.revisions) == (1, 1, 0, 0)


def test_r09_after_a_restart_a_tenant_counts_its_own() -> None:
    """Start-up pushed every tenant's ids into one's own recovery set: another's instance was counted as one's own."""
    world = world_of(2)
    world.put_settled("blue", replace(SPEC, replicas=1), "t1")
    world.timeline.run(world.timeline.now + 30.0)
    for name in ("common", "blue"):
        fleet = world.tenant(name).fleet
        assert fleet is not None
        fleet.stop()
        world.tenant(name).fleet = None
        world.signal_reconcile(name)
    world.timeline.run(world.timeline.now + 60.0)
    assert (unrest(world, "common"), unrest(world, "blue")) == ("", "")
    assert world.judge.acts("common") + world.judge.acts("blue") == 0


def test_r10_create_of_an_unwanted_revision_is_given_up() -> None:
    """Recreations had a context of their own: they tried an old, bad configuration for ever."""
    picture = rolling(1).life(0, 2, revision=2, state="starting", assign=False)
    picture.revision(3, "t3").want("t3")
    decided = roll(picture, picture.memory(), Busy("up", 0, 2, 2, "a"))
    assert decided.give_up == (0,)


@pytest.mark.parametrize("seed", range(10))
def test_r11_event_of_an_old_instance_does_not_end_it_during_a_change(seed: int) -> None:
    """Any event of an old instance, between the new configuration and the bookkeeping, killed it."""
    world = world_of(3, seed=seed)
    world.odds.doubled = 0.5
    world.apply("common", SPEC, "t2")
    for _ in range(8):
        process = world.process("common", (world.rng.randrange(3), 1))
        if process is not None:
            process.write_again()  # an event of its own
        assert fewest_ready(world, 1.0) == 3
    settle(world)


@pytest.mark.parametrize("seed", range(3))
def test_r12_controller_that_restarts_during_a_rollout_keeps_the_floor(seed: int) -> None:
    """After a restart every old instance that the first list showed was killed at once."""
    world = world_of(3, seed=seed)
    world.apply("common", SPEC, "t2")
    for _ in range(100):
        machine = world.rng.choice(list(world.machines.values()))
        machine.stop_agent()
        world.timeline.after(world.rng.uniform(0.1, 2.0), machine.start_agent)
        assert fewest_ready(world, 1.0) == 3
    settle(world)


def test_r13_second_change_soon_after_the_first_replaces_only_newcomers() -> None:
    """Instances that had just been created were not running and of the wrong signature: a full update."""
    world = world_of(3)
    world.apply("common", SPEC, "t2")
    world.timeline.run(world.timeline.now + 2.0)
    world.apply("common", SPEC, "t3")
    assert fewest_ready(world, 60.0) == 3
    settle(world)


def test_r14_r15_r17_the_room_has_no_lock_no_clock_and_no_task() -> None:
    """Maps were iterated while others wrote them, and a nested read lock stopped the whole controller."""
    known = set()
    for path in Path(wharfinger.fleet.__file__).parent.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                known |= {name.name.split(".")[0] for name in node.names}
            elif isinstance(node, ast.ImportFrom):
                known.add((node.module or "").split(".")[0])
    assert not known & {"threading", "asyncio", "time", "random", "datetime", "os", "temporalio"}


def test_r16_every_event_may_be_lost() -> None:
    """Nothing compared wanted and actual but at events, and several events ended in `do nothing`."""
    world = world_of(2)
    world.odds.dropped = 1.0
    world.apply("common", replace(SPEC, replicas=3), "t2")
    process = world.process("common", (0, 1))
    assert process is not None
    process.die("crashed", "signal")
    settle(world, 3_000.0)


def test_r18_what_is_known_cannot_be_changed_from_elsewhere() -> None:
    """The cache handed its live map out, and the watch overwrote records that others were reading."""
    picture = rolling(2)
    observed, memory = picture.observed(), picture.memory()
    with pytest.raises(FrozenInstanceError):
        observed.grants[0].want = "drain"  # type: ignore[misc]
    before = repr((observed, memory))
    first, second = roll(picture, memory), roll(picture, memory)
    assert first == second
    assert repr((observed, memory)) == before


def test_r19_a_create_that_was_cancelled_is_no_success() -> None:
    """The answer `cancelled` was not the empty string, so it counted as an id."""
    actor = ActorState("rollout", Memory(clock=9.0))
    key = actor.begun(Up(0, 2, "a"))
    actor.granted(key, 2)
    actor.ended(key, StepResult("cancelled", incarnation=2))
    assert actor.memory.ready == ()
    assert [(waiting.slot, waiting.incarnation) for waiting in actor.memory.waiting] == [(0, 2)]


def test_r20_an_update_is_not_done_while_anything_of_it_is_under_way() -> None:
    """The wait counter was raised inside the goroutines: the wait returned before they had begun."""
    picture = rolling(2).life(0, 2, revision=2, assign=True).life(1, 2, revision=2, assign=True)
    picture.without(0).without(1)
    busy = Busy("retire", 1, 1, 0, "a")
    assert roll(picture, picture.memory(), busy).done is None
    picture.slots = {number: replace(slot, revision=2) for number, slot in picture.slots.items()}
    assert roll(picture).done == "completed"


def test_r21_each_slot_keeps_its_own_trouble() -> None:
    """One error variable was written and tested by all goroutines."""
    picture = Picture(replace(SPEC, replicas=2), target=1).revision(1, "t1")
    picture.life(0, 1, state=None).life(1, 1, state=None)
    actor = ActorState("rollout", picture.memory())
    for slot, why in ((0, "no secret tls/3"), (1, "the executable cannot be run")):
        actor.ended(actor.begun(Up(slot, 1, "a", incarnation=1)), StepResult("refused", incarnation=1, why=why))
    decided = roll(picture, actor.memory)
    crashed = {crash.slot: crash.why for crash in decided.memory.crashed}
    assert crashed == {0: "no secret tls/3", 1: "the executable cannot be run"}


def test_r22_each_tenant_has_an_outcome_of_its_own() -> None:
    """One error field for all: a later success overwrote an earlier failure."""
    world = world_of(1, on_deadline="revert", progress_deadline=40.0)
    world.put_settled("blue", replace(SPEC, replicas=1), "t1")
    world.timeline.run(world.timeline.now + 30.0)
    world.templates["bad"] = Behaviour("never-ready")
    world.apply("common", replace(SPEC, replicas=1, on_deadline="revert", progress_deadline=40.0), "bad")
    world.timeline.run(world.timeline.now + 20.0)
    world.apply("blue", replace(SPEC, replicas=1), "good")
    world.timeline.run(world.timeline.now + 200.0)
    outcomes = [world.etcd.shelf(name).outcomes[2] for name in ("common", "blue")]
    assert outcomes == ["failed", "completed"]


def test_r23_a_kill_that_failed_keeps_its_slot() -> None:
    """The id was in no map any more when the kill failed: an orphan kept running."""
    picture = rolling(2).life(1, 2, revision=2, assign=False)
    picture.life(1, 1, want="drain", state="draining")
    assert brief(roll(picture)) == ["retire 1.1"]  # no step follows its drain: it is followed again


@pytest.mark.parametrize("seed", range(10))
def test_r24_all_workflows_are_lost_in_the_middle_of_a_rollout(seed: int) -> None:
    """The recover handler read what was only loaded after it."""
    world = world_of(3, seed=seed)
    world.apply("common", SPEC, "t2")
    world.timeline.run(world.timeline.now + world.rng.uniform(1.0, 30.0))
    workflows = world.tenant("common")
    for run in (workflows.rollout, workflows.fleet):
        if run is not None:
            run.stop()
    workflows.rollout = workflows.fleet = None
    world.signal_reconcile("common")
    assert fewest_ready(world, 120.0) == 3
    settle(world)


def test_r25_incarnations_are_counted_in_etcd() -> None:
    """The queue of what was to be remembered dropped writes when it was full: lost ids, new ids, a reshuffled ring."""
    world = world_of(2)
    for _ in range(3):
        fleet = world.tenant("common").fleet
        assert fleet is not None
        fleet.stop()
        world.tenant("common").fleet = None
        process = next(iter(world.machines["host-0"].running.values()))
        process.die("crashed", "signal")
        world.signal_reconcile("common")
        world.timeline.run(world.timeline.now + 60.0)
    assert rules(world) == set()
    assert max(slot.incarnation for slot in world.etcd.shelf("common").slots.values()) == 4


def test_r26_times_leave_room_for_those_within_them() -> None:
    """Three unrelated limits: an instance that needed 150 to 890 s to start could never succeed."""
    with pytest.raises(ConfigurationError):
        read_fleet(object_of(minReadySeconds=600, instanceDeadlineSeconds=300), catalog(), name="blue")
    with pytest.raises(ConfigurationError):
        read_fleet(object_of(instanceDeadlineSeconds=900, progressDeadlineSeconds=600), catalog(), name="blue")


def test_r27_an_instance_that_cannot_be_ended_keeps_no_other_slot_waiting() -> None:
    """A newer configuration waited behind instances that could not be killed."""
    world = world_of(3, hosts=3, max_surge=IntOrPercent(2), max_unavailable=IntOrPercent(1))
    stuck = world.etcd.shelf("common").grants[2, 1].host
    world.machines[stuck].cut_off()
    spec = replace(SPEC, max_surge=IntOrPercent(2), max_unavailable=IntOrPercent(1))
    world.apply("common", spec, "t2")
    world.timeline.run(world.timeline.now + 10.0)
    world.apply("common", spec, "t3")
    world.timeline.run(world.timeline.now + 60.0)
    grants = world.etcd.shelf("common").grants
    assert {slot for (slot, _), grant in grants.items() if grant.revision == 3} >= {0, 1}
    assert rules(world) == set()


def test_r27_long_drain_delays_no_repair_though_a_rollout_waits_for_it() -> None:
    """The same, of the manager's own loop: while it waited for one end, it filled nothing."""
    world = world_of(3, drain_timeout=1_000.0)
    leaving, crashing = world.process("common", (2, 1)), world.process("common", (0, 1))
    assert leaving is not None
    assert crashing is not None
    leaving.behaviour = Behaviour(drain=200.0)
    spec = replace(SPEC, replicas=2, drain_timeout=1_000.0)
    world.apply("common", spec, "t1")
    world.timeline.run(world.timeline.now + 20.0)
    world.apply("common", spec, "t2")
    crashing.die("9", "signal")
    world.timeline.run(world.timeline.now + 60.0)
    assert leaving.alive
    assert world.tenant("common").rollout is None
    instances = world.etcd.shelf("common").instances
    assert {slot for (slot, _), record in instances.items() if record.state == "ready"} == {0, 1}
    settle(world)
    assert {grant.revision for grant in world.etcd.shelf("common").grants.values()} == {2}


def test_r29_what_cannot_be_read_is_never_ended() -> None:
    """An instance whose arguments were empty or newer was not expected, and was killed."""
    world = world_of(2)
    shelf = world.etcd.shelf("common")
    observed = world.control.observe("common")
    fleet = world.tenant("common").fleet
    assert fleet is not None
    unread = replace(
        observed,
        grants=tuple(grant for grant in observed.grants if grant.slot == 0),
        unreadable=("grants/common/1/1: not JSON",),
        blind=True,
    )
    decided = plan(unread, fleet.actor.memory, Asked("fleet", "common", 0, (), world.lease_ttl))
    assert decided.steps == ()
    assert decided.writes.clears == ()
    assert len(shelf.grants) == 2


def test_r30_a_template_is_what_it_means_and_a_secret_is_its_version() -> None:
    """A signature of 32 bits over whatever the encoder wrote, passwords included."""
    one, first = read_template({"environment": {"A": "1", "B": "2"}}, catalog())
    other, second = read_template({"environment": {"B": "2", "A": "1"}}, catalog())
    assert (one.environment, first) == (other.environment, second)
    _, third = read_template({"secrets": [{"name": "tls", "version": "1"}]}, catalog())
    _, fourth = read_template({"secrets": [{"name": "tls", "version": "2"}]}, catalog())
    assert len({first, third, fourth}) == 3
    assert all(len(name) >= 64 for name in (first, third))


def test_r32_every_key_comes_from_one_place() -> None:
    """Some calls skipped the prefix that the wrapper added: the first list found nothing, and all was created twice."""
    roots = (keys.ROOT.rstrip("/"), keys.ASIDE.rstrip("/"))
    prefixes = [value for name, value in vars(keys).items() if name.isupper() and isinstance(value, str)]
    kinds = [one.removeprefix(keys.OURS) for one in prefixes if one.startswith(keys.OURS) and one.endswith("/")]
    kinds.remove("")
    assert {"grants/", "schedulerfleets/"} <= {*kinds}

    def is_key(text: str) -> bool:
        return text.startswith(roots) or any(text.lstrip("/").startswith(kind) for kind in kinds)

    literals = {
        (file.name, text)
        for room in ("src", "activities", "workflows")
        for file in sorted((ROOT / room).rglob("*.py"))
        for source in [file.read_text()]
        if any(part in source for part in (*roots, *kinds))  # few: parsing takes long
        for text in literals_of(ast.parse(source))
        if is_key(text)
    }
    shown = {("changes.py", "config/")}  # how the CLI names a value
    assert {file for file, _ in literals - shown} == {"keys.py"}, literals
    listed = {
        keys.FLEETS: keys.fleet("t"),
        keys.SLOTS: keys.slot("t", 1),
        keys.GRANTS: keys.grant("t", 1, 2),
        keys.EXITS: keys.exited("t", 1, 2),
        keys.HOSTS: keys.host("h"),
        keys.CORDONS: keys.cordon("h"),
        keys.ACTORS: keys.actor("t"),
        keys.REVISIONS: keys.revision("t", 1),
        keys.OUTCOMES: keys.outcome("t", 1),
        keys.INSTANCES: keys.instance("t", "1", 2),
        keys.TENANTS: keys.tenant("t"),
        keys.FLEET_STATUS: keys.fleet_status("t"),
    }
    found = {prefix: [one for one in listed.values() if one.startswith(prefix)] for prefix in listed}
    assert found == {prefix: [key] for prefix, key in listed.items()}  # a list finds its own kind, and nothing else


def literals_of(tree: ast.Module) -> Iterator[str]:
    """The texts of a module, parts of f-strings included; docstrings are left out."""
    for node in ast.walk(tree):
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.Constant) and isinstance(child.value, str) and not isinstance(node, ast.Expr):
                yield child.value


@pytest.mark.parametrize("spec", [{"replica": 3}, {"template": {"image": "x"}}, {"strategy": {"maxSurge": 1}}])
def test_r35_field_that_is_never_read_is_refused(spec: dict[str, object]) -> None:
    """Two options under one key, one node selector of several, two sources of one switch."""
    with pytest.raises(ConfigurationError):
        read_fleet(object_of(**spec), catalog(), name="blue")


@pytest.mark.parametrize("name", ['a"b', "a/b", "..", "A", "default", ""])
def test_r36_a_tenant_is_a_label(name: str) -> None:
    """JSON was made by string formatting from the tenant's id."""
    with pytest.raises(ConfigurationError):
        read_fleet(object_of(name), catalog(), name=name)


def test_r37_a_fleet_without_anything_ends() -> None:
    """An entry without a manager raised the wait counter all the same: the handler hung for ever."""
    picture = Picture(there=False)
    assert keep(picture, Memory()).ended


async def test_r38_unknown_state_is_no_state() -> None:
    """States 8, 12 and 13 of the kernel were unknown, and treated as healthy."""
    store, ready = MemoryStore(), InstanceRecord(state="ready", host="a", pid=1, revision="1").to_bytes()
    key = keys.instance("blue", "0", 1)
    await store.put(key, ready)
    assert [one.state for one in (await FleetView(store, catalog()).observe("blue")).instances] == ["ready"]

    await store.put(key, ready.replace(b'"ready"', b'"paused"'))

    observed = await FleetView(store, catalog()).observe("blue")
    assert observed.instances == ()
    assert [line.partition(":")[0] for line in observed.unreadable] == [key]
    picture = standing(1)
    picture.instances.pop((0, 1))  # as it was read
    status = keep(picture, Memory(clock=1_000.0)).writes.status
    assert status is not None
    assert status.ready == 0


@pytest.mark.parametrize("wording", ["UnknownVersion", "Fenced", "instance not found", ""])
def test_r39_outcomes_have_types(wording: str) -> None:
    """`instance not found` was recognised by its wording."""

    def failed(kind: str) -> ActivityError:
        error = ActivityError(
            wording,
            scheduled_event_id=1,
            started_event_id=2,
            identity="",
            activity_type="",
            activity_id="",
            retry_state=None,
        )
        error.__cause__ = ApplicationError(wording, type=kind)
        return error

    assert [host_failed(failed(kind), 3).kind for kind in REFUSED] == ["refused"] * 3
    assert is_fenced(failed(FleetFailure.FENCED))
    for kind in set(FleetFailure) - {*REFUSED, FleetFailure.FENCED}:
        assert not is_fenced(failed(kind))
        with pytest.raises(ActivityError):
            host_failed(failed(kind), 3)


def test_r40_tenants_come_and_go_while_everything_runs() -> None:
    """The list of tenants was read once."""
    world = world_of(1)
    world.apply("green", replace(SPEC, replicas=2), "t1")
    world.timeline.run(world.timeline.now + 30.0)
    assert unrest(world, "green") == ""
    assert world.etcd.shelf("green").present
    world.apply("green", replace(SPEC, replicas=2), deleting=True)
    world.timeline.run(world.timeline.now + 60.0)
    assert world.etcd.shelf("green").empty
    assert rules(world) == set()


def test_a_newcomer_that_waits_is_looked_at_again() -> None:
    """R7 and R16 together: what waits for readiness has a deadline of its own."""
    picture = rolling(1).life(0, 2, revision=2, state="starting", assign=False)
    decided = roll(picture, picture.memory(), Busy("up", 0, 2, 2, "a"))
    late = roll(picture, later(decided, 10_000.0), Busy("up", 0, 2, 2, "a"))
    assert late.give_up == (0,)
