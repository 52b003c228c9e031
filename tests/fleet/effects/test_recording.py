"""Recording: under the epoch, each thing once, in transactions that the server takes, and again after a lost answer."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import pytest
from temporalio.exceptions import ApplicationError

from tests.fleet.effects.fleet_stage import EPOCH, FleetStage, asker, fleet_object
from wharfinger.errors import Unavailable
from wharfinger.etcd import keys
from wharfinger.fleet.contracts.fleet_records import FleetStatusRecord, OutcomeRecord, RevisionRecord
from wharfinger.fleet.contracts.fleets import RecordedFleet, RecordInput
from wharfinger.fleet.effects.writes import digest
from wharfinger.fleet.model.fleet import Actor, Decisions, Grant, Slot
from wharfinger.fleet.model.rollout import Assign, Clear, Condition, Outcome, RolloutStatus, Running, Writes
from wharfinger.process.transactions import Limits
from wharfinger.testing.memory_store import MemoryStore

STATUS = RolloutStatus(observed_generation=3, target=1, completed=0, replicas=2, ready=1, updated=1)


async def record(stage: FleetStage, request: RecordInput, **who: Any) -> RecordedFleet:
    return await stage.recording().record(request, asker(**who))


async def actor(stage: FleetStage) -> Actor:
    found = await stage.record(keys.actor(stage.tenant), Actor)
    assert isinstance(found, Actor)
    return found


# --- taking over ------------------------------------------------------------------------------


async def test_a_take_that_comes_after_the_end_of_the_fleet_leaves_no_key(stage: FleetStage) -> None:
    await stage.store.delete(keys.fleet(stage.tenant))
    await stage.store.delete(keys.actor(stage.tenant))
    with pytest.raises(ApplicationError, match="has ended"):
        await record(stage, stage.record_input(take=True, epoch=0, desired=7))
    assert await stage.read(keys.actor(stage.tenant)) is None


async def test_the_first_actor_takes_an_epoch_that_none_of_a_former_fleet_had(stage: FleetStage) -> None:
    """[A write of the former fleet comes late]: did epochs begin anew, it would pass, and clear away a living one."""
    await record(stage, stage.record_input(take=True), run="run-2")
    late = stage.record_input(epoch=EPOCH + 1, writes=Writes(clears=(Clear(0, 1, 0),)))
    await stage.store.delete(keys.actor(stage.tenant))

    request = stage.record_input(take=True, epoch=0)
    taken = await record(stage, request, run="run-3")
    assert await record(stage, request, run="run-3") == taken  # as after an answer that got lost
    for _ in range(EPOCH):
        taken = await record(stage, stage.record_input(take=True, epoch=taken.epoch), run="run-3")

    assert taken.epoch > EPOCH + 1
    assert (await actor(stage)).epoch == taken.epoch
    with pytest.raises(ApplicationError, match="epoch"):
        await record(stage, late, run="run-2")


async def test_a_new_actor_adds_one_and_keeps_the_target(stage: FleetStage) -> None:
    taken = await record(stage, stage.record_input(take=True), workflow="test/rollout/blue/7", run="run-9")

    assert taken == RecordedFleet(epoch=EPOCH + 1, target=1)
    assert (await actor(stage)).workflow_id == "test/rollout/blue/7"
    with pytest.raises(ApplicationError, match="another actor"):
        await record(stage, stage.record_input())


async def test_a_later_try_of_taking_over_adds_nothing(stage: FleetStage) -> None:
    request = stage.record_input(take=True)
    first = await record(stage, request, run="run-2")

    assert await record(stage, request, run="run-2") == first
    assert (await actor(stage)).epoch == EPOCH + 1


async def test_the_same_run_takes_over_from_itself_as_well(stage: FleetStage) -> None:
    """A rollout that never acted is fenced off too."""
    assert (await record(stage, stage.record_input(take=True))).epoch == EPOCH + 1


async def test_actor_takes_over_only_from_an_actor_that_it_saw(stage: FleetStage) -> None:
    """The last try of a run that was terminated long ago comes too late."""
    await stage.act(EPOCH + 2, run="run-7")

    with pytest.raises(ApplicationError, match="taken over"):
        await record(stage, stage.record_input(take=True), run="run-2")
    assert (await actor(stage)).epoch == EPOCH + 2


# --- targets ----------------------------------------------------------------------------------


async def test_a_new_revision_is_written_with_its_target() -> None:
    stage = FleetStage(MemoryStore())
    said = {"wharfinger.dev/changed-by": "ada", "wharfinger.dev/change-cause": "more memory"}
    await stage.set_up(template={"version": "v2"}, annotations=said)

    recorded = await record(stage, stage.record_input(Writes(target=2, new_revision=True)))

    assert recorded == RecordedFleet(epoch=EPOCH, target=2)
    revision = await stage.record(keys.revision(stage.tenant, 2), RevisionRecord)
    assert (revision.template, revision.generation) == ({"version": "v2"}, stage.generation)
    assert (revision.who, revision.why, revision.time) == ("ada", "more memory", "2026-03-01T12:00:00Z")
    assert len(revision.digest) == 64
    assert (await actor(stage)).target == 2


async def test_a_target_of_an_object_that_changed_meanwhile_is_not_taken(stage: FleetStage) -> None:
    writes = Writes(target=2, new_revision=True, outcomes=(Outcome(1, "superseded"),), status=STATUS)
    request = stage.record_input(writes)
    await stage.store.put(keys.fleet(stage.tenant), fleet_object(stage.tenant, template={"version": "v3"}))

    assert await record(stage, request) == RecordedFleet(epoch=EPOCH, target=1)
    assert await stage.read(keys.revision(stage.tenant, 2)) is None
    assert await stage.read(keys.outcome(stage.tenant, 1)) is None


async def test_what_was_decided_lies_beside_its_target_and_outlives_the_actor(stage: FleetStage) -> None:
    decided = Decisions(number=1, target=2, canary=(1,), halted="no progress")
    await stage.set_up(template={"version": "v2"})
    request = stage.record_input(Writes(target=2, new_revision=True, decisions=decided))

    assert (await record(stage, request)).target == 2
    written = await stage.read(keys.actor(stage.tenant))
    assert (await record(stage, request)).target == 2
    assert await stage.read(keys.actor(stage.tenant)) == written
    await record(stage, stage.record_input(take=True), run="run-2")
    assert (await actor(stage)).decisions == decided


async def test_a_late_try_does_not_bring_back_what_was_decided_before(stage: FleetStage) -> None:
    halted = stage.record_input(Writes(decisions=Decisions(number=1, target=1, halted="no progress")))
    resumed = stage.record_input(Writes(decisions=Decisions(number=2, target=1)))
    about_another = stage.record_input(Writes(decisions=Decisions(number=3, target=2)))

    for request in (halted, resumed, halted, about_another):
        await record(stage, request)
    assert (await actor(stage)).decisions == Decisions(number=2, target=1)


async def test_target_of_a_release_without_recorded_decisions_is_accepted(stage: FleetStage) -> None:
    await record(stage, stage.record_input(Writes(decisions=Decisions(number=1, target=1, canary=(0,)))))

    assert (await record(stage, stage.record_input(Writes(target=3)))).target == 3
    found = await actor(stage)
    assert found.decisions is not None
    assert found.decisions.target != found.target


async def test_a_number_that_is_taken_is_not_written_over(stage: FleetStage) -> None:
    await stage.store.put(keys.revision(stage.tenant, 2), b"mine")

    assert (await record(stage, stage.record_input(Writes(target=2, new_revision=True)))).target == 1
    kv = await stage.read(keys.revision(stage.tenant, 2))
    assert kv is not None
    assert kv.value == b"mine"


async def test_an_earlier_revision_is_wanted_again(stage: FleetStage) -> None:
    await stage.act(EPOCH, target=7)

    assert (await record(stage, stage.record_input(Writes(target=3)))).target == 3
    assert (await actor(stage)).target == 3


# --- the rest ---------------------------------------------------------------------------------


async def test_an_outcome_is_written_once(stage: FleetStage) -> None:
    await record(stage, stage.record_input(Writes(outcomes=(Outcome(1, "failed", "no progress"),)), generation=9))
    await record(stage, stage.record_input(Writes(outcomes=(Outcome(1, "completed"),))))

    found = await stage.record(keys.outcome(stage.tenant, 1), OutcomeRecord)
    assert (found.outcome, found.why, found.generation) == ("failed", "no progress", 9)
    assert stage.metrics.registry.get_sample_value("wharfinger_fleet_rollouts_total", {"outcome": "failed"}) == 1
    assert stage.metrics.registry.get_sample_value("wharfinger_fleet_rollouts_total", {"outcome": "completed"}) is None


async def test_what_an_ended_incarnation_left_goes_together(stage: FleetStage) -> None:
    await stage.slot(0, incarnation=3)
    await stage.grant(0, 2)
    await stage.grant(0, 3)
    await stage.exit(0, 2, how="code")

    await record(stage, stage.record_input(Writes(clears=(Clear(0, 2, 4),), assigns=(Assign(0, 5),))))

    assert await stage.read(keys.grant(stage.tenant, 0, 2)) is None
    assert await stage.read(keys.exited(stage.tenant, 0, 2)) is None
    assert await stage.read(keys.grant(stage.tenant, 0, 3)) is not None
    slot = await stage.record(keys.slot(stage.tenant, 0), Slot)
    assert (slot.incarnation, slot.revision, slot.crashes) == (3, 5, 4)


async def test_two_lives_of_a_slot_and_a_revoked_one_are_cleared_in_one_go(stage: FleetStage) -> None:
    """Etcd refuses a key that is written twice in a transaction."""
    await stage.slot(0, incarnation=3)
    for incarnation in (1, 2, 3):
        await stage.grant(0, incarnation)
        await stage.exit(0, incarnation)
    writes = Writes(clears=(Clear(0, 1, 1), Clear(0, 2, 2)))

    await record(stage, stage.record_input(writes, revoke=((0, 2), (0, 3))))

    assert await stage.names() == [f"{kind}/{stage.tenant}" for kind in ("actors",)] + [
        f"exits/{stage.tenant}/0/3",
        f"schedulerfleets/{stage.tenant}",
        f"slots/{stage.tenant}/0",
    ]
    assert (await stage.record(keys.slot(stage.tenant, 0), Slot)).crashes == 2


async def test_the_tenant_is_there_or_not(stage: FleetStage) -> None:
    key = keys.tenant(stage.tenant)
    await record(stage, stage.record_input(Writes(tenant="present")))
    first = await stage.read(key)
    await record(stage, stage.record_input(Writes(tenant="present")))
    assert first is not None
    assert await stage.read(key) == first  # binds compare its create revision
    await record(stage, stage.record_input(Writes(tenant="as-is")))
    assert await stage.read(key) == first
    await record(stage, stage.record_input(Writes(tenant="absent")))
    assert await stage.read(key) is None


async def test_the_common_pool_has_no_tenant_key() -> None:
    stage = FleetStage(MemoryStore(), tenant="common")
    await stage.set_up()
    await record(stage, stage.record_input(Writes(tenant="present")))

    assert await stage.read(keys.tenant("common")) is None


async def test_old_revisions_are_forgotten_with_their_outcomes(stage: FleetStage) -> None:
    for number in (1, 2):
        await stage.store.put(keys.revision(stage.tenant, number), b"{}")
        await stage.store.put(keys.outcome(stage.tenant, number), b"{}")

    await record(stage, stage.record_input(Writes(forget_revisions=(1,), forget_slots=(9,))))

    assert f"revisions/{stage.tenant}/1" not in await stage.names()
    assert f"outcomes/{stage.tenant}/1" not in await stage.names()
    assert f"revisions/{stage.tenant}/2" in await stage.names()


async def test_revoking_deletes_the_grant_alone(stage: FleetStage) -> None:
    await stage.grant(0)
    await stage.grant(0, 11)
    await stage.exit(0)

    await record(stage, stage.record_input(revoke=((0, 1),)))

    assert await stage.read(keys.grant(stage.tenant, 0, 1)) is None
    assert await stage.read(keys.grant(stage.tenant, 0, 11)) is not None
    assert await stage.read(keys.exited(stage.tenant, 0, 1)) is not None


@pytest.mark.parametrize("registered_before", [False, True])
async def test_what_may_serve_by_now_is_not_revoked(stage: FleetStage, registered_before: bool) -> None:
    await stage.grant(0)
    before = await stage.instance(0, state="starting") if registered_before else 0
    request = stage.record_input(revoke=((0, 1),), registered=before)
    await stage.instance(0, state="ready")

    moved = await record(stage, request)

    assert moved.moved
    assert await stage.read(keys.grant(stage.tenant, 0, 1)) is not None


async def test_what_was_on_a_lost_host_is_not_revoked_once_that_is_back(stage: FleetStage) -> None:
    await stage.grant(0)
    await stage.store.put(keys.host("host-a"), b"{}")
    request = stage.record_input(revoke=((0, 1),), registered=0, lost="host-a")

    assert (await record(stage, request)).moved
    assert await stage.read(keys.grant(stage.tenant, 0, 1)) is not None

    await stage.store.delete(keys.host("host-a"))
    assert not (await record(stage, request)).moved
    assert await stage.read(keys.grant(stage.tenant, 0, 1)) is None
    await stage.store.put(keys.host("host-a"), b"{}")
    assert not (await record(stage, request)).moved  # sent again, for the answer was lost


async def test_it_is_revoked_while_its_registration_is_as_it_was(stage: FleetStage) -> None:
    await stage.grant(0)
    before = await stage.instance(0, state="starting")
    request = stage.record_input(revoke=((0, 1),), registered=before)

    assert not (await record(stage, request)).moved
    await stage.instance(0, state="withdrawn")  # as it sees its grant gone
    assert not (await record(stage, request)).moved  # sent again, for the answer was lost

    assert await stage.read(keys.grant(stage.tenant, 0, 1)) is None


@pytest.mark.parametrize(
    "writes", [Writes(target=2), Writes(tenant="present"), Writes(status=STATUS), Writes(end=True)]
)
async def test_another_epoch_writes_nothing(quick: FleetStage, writes: Writes) -> None:
    await quick.act(EPOCH + 1)
    before = await quick.names()

    with pytest.raises(ApplicationError, match="another actor"):
        await record(quick, quick.record_input(writes))
    assert await quick.names() == before
    assert (await actor(quick)).target == 1


# --- status -----------------------------------------------------------------------------------


async def status(stage: FleetStage) -> FleetStatusRecord:
    found = await stage.record(keys.fleet_status(stage.tenant), FleetStatusRecord)
    assert isinstance(found, FleetStatusRecord)
    return found


def with_conditions(*conditions: tuple[str, bool]) -> RolloutStatus:
    made: Any = tuple(Condition(kind, value, "Because") for kind, value in conditions)  # type: ignore[arg-type]
    return RolloutStatus(3, 1, 0, 2, 1, 1, conditions=made)


async def test_status_has_the_time_since_which_conditions_hold(quick: FleetStage) -> None:
    times = iter(["2026-03-01T12:00:00Z", "2026-03-01T13:00:00Z"])
    recording = quick.recording()
    recording._now = lambda: next(times)  # type: ignore[method-assign]
    before, after = (
        with_conditions(("Available", True), ("Progressing", True)),
        with_conditions(("Available", True), ("Progressing", False), ("Paused", True)),
    )

    await recording.record(quick.record_input(Writes(status=before)), asker())
    await recording.record(quick.record_input(Writes(status=after)), asker())

    found = await status(quick)
    assert found.status == after
    assert found.digest == digest(after)
    assert found.time == "2026-03-01T13:00:00Z"
    assert found.condition_times == {
        "Available": "2026-03-01T12:00:00Z",
        "Progressing": "2026-03-01T13:00:00Z",
        "Paused": "2026-03-01T13:00:00Z",
    }


async def test_the_same_status_is_not_written_again(quick: FleetStage) -> None:
    await record(quick, quick.record_input(Writes(status=STATUS)))
    first = await quick.read(keys.fleet_status(quick.tenant))
    await record(quick, quick.record_input(Writes(status=STATUS)))

    assert await quick.read(keys.fleet_status(quick.tenant)) == first


async def test_unreadable_status_is_replaced(quick: FleetStage) -> None:
    await quick.store.put(keys.fleet_status(quick.tenant), b"?")
    await record(quick, quick.record_input(Writes(status=STATUS)))

    assert (await status(quick)).status == STATUS


def test_seconds_alone_make_no_new_status() -> None:
    def running(seen: float, sentence: str = "waits") -> RolloutStatus:
        return RolloutStatus(3, 1, 0, 2, 1, 1, running=(Running("up", 0, 1, sentence, seen=seen),))

    assert digest(running(1.0)) == digest(running(8.0))
    assert digest(running(1.0)) != digest(running(1.0, "waits for something else"))


# --- much at once, and lost answers -----------------------------------------------------------


def everything(stage: FleetStage, slots: int) -> Writes:
    return Writes(
        target=2,
        new_revision=True,
        outcomes=(Outcome(1, "superseded"),),
        clears=tuple(Clear(slot, 1, 1) for slot in range(slots)),
        tenant="present",
        status=STATUS,
    )


async def furnish(stage: FleetStage, slots: int) -> None:
    for slot in range(slots):
        await stage.slot(slot)
        await stage.grant(slot)
        await stage.exit(slot, how="code")


async def check_everything(stage: FleetStage, slots: int) -> None:
    assert await stage.names() == sorted(
        [
            f"actors/{stage.tenant}",
            f"fleetstatus/{stage.tenant}",
            f"outcomes/{stage.tenant}/1",
            f"revisions/{stage.tenant}/2",
            f"schedulerfleets/{stage.tenant}",
            *(f"slots/{stage.tenant}/{slot}" for slot in range(slots)),
            f"tenants/{stage.tenant}",
        ]
    )
    for slot in range(slots):
        assert (await stage.record(keys.slot(stage.tenant, slot), Slot)).crashes == 1


async def test_more_than_one_transaction_takes_is_cut(stage: FleetStage) -> None:
    await furnish(stage, 60)

    await record(stage, stage.record_input(everything(stage, 60)))

    await check_everything(stage, 60)


async def test_a_server_with_lower_limits_is_obeyed() -> None:
    stage = FleetStage(MemoryStore(max_txn_ops=8))
    await stage.set_up()
    await furnish(stage, 5)
    await stage.recording(Limits(8)).record(stage.record_input(everything(stage, 5)), asker())

    await check_everything(stage, 5)


@pytest.mark.parametrize("applied", [True, False])
@pytest.mark.parametrize("lost", [(0,), (1,), (2,), (0, 1, 2)])
async def test_whatever_answer_gets_lost_the_next_try_finds_the_rest(
    quick: FleetStage, lost: Sequence[int], applied: bool
) -> None:
    await furnish(quick, 60)
    assert isinstance(quick.store, MemoryStore)
    flaky = Flaky(quick.store, lost, applied)
    request = quick.record_input(everything(quick, 60))

    for _ in range(10):
        try:
            await quick.recording(store=flaky).record(request, asker())
            break
        except Unavailable:
            continue

    await check_everything(quick, 60)


class Flaky(MemoryStore):
    """A client of the same store that gets no answer to some of its writes, by number."""

    def __init__(self, store: MemoryStore, lost: Sequence[int], applied: bool) -> None:
        self._shared = store._shared
        self._reset()
        writes = itertools.count()

        def lose(compares: Sequence[Any], _: Sequence[Any]) -> None:
            if compares and next(writes) in lost:
                self.fail_next(applied=applied)

        self.before_txn = lose


# --- the end ----------------------------------------------------------------------------------


async def test_a_fleet_that_ended_leaves_nothing(stage: FleetStage) -> None:
    await stage.store.put(keys.fleet(stage.tenant), fleet_object(stage.tenant, deleting=True))
    await furnish(stage, 70)
    for slot in range(70):
        await stage.store.delete(keys.grant(stage.tenant, slot, 1))
    await record(stage, stage.record_input(Writes(status=STATUS, tenant="present")))
    await stage.store.put(keys.revision(stage.tenant, 1), b"{}")
    await stage.store.put(keys.outcome(stage.tenant, 1), b"{}")
    other = FleetStage(stage.store, tenant=stage.tenant + "0")
    await other.set_up()

    ended = await record(stage, stage.record_input(Writes(end=True)))

    assert ended.ended
    assert await stage.names() == []
    assert len(await other.names()) == 2
    assert (await record(stage, stage.record_input(Writes(end=True)))).ended  # a later try


async def test_a_fleet_without_an_object_ends_too(quick: FleetStage) -> None:
    await quick.store.delete(keys.fleet(quick.tenant))

    assert (await record(quick, quick.record_input(Writes(end=True)))).ended
    assert await quick.names() == []


async def test_while_something_may_live_nothing_ends(quick: FleetStage) -> None:
    await quick.store.put(keys.fleet(quick.tenant), fleet_object(quick.tenant, deleting=True))
    await quick.grant(0)

    assert not (await record(quick, quick.record_input(Writes(end=True)))).ended
    assert await quick.record(keys.grant(quick.tenant, 0, 1), Grant)


async def test_a_fleet_that_is_wanted_again_does_not_end(quick: FleetStage) -> None:
    await quick.slot(0)

    assert not (await record(quick, quick.record_input(Writes(end=True)))).ended
    assert f"slots/{quick.tenant}/0" in await quick.names()
