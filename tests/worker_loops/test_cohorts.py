"""Cohorts: formed of what has gathered, tracked by what etcd tells, and nothing is lost with one."""

from __future__ import annotations

import tracemalloc
from typing import Any

import pytest
from temporalio.service import RPCError, RPCStatusCode

from tests.worker_loops.stage import Stage
from wharfinger.contracts.attempts import Wake
from wharfinger.contracts.cohorts import CohortPod
from wharfinger.model.pod import Pod
from wharfinger.queue.entry import Entry, Part
from wharfinger.settings import DispatchSettings
from wharfinger.worker_loops.cohorts import CLEARED, FEW, MOST_ALONE, PATIENCE, STUCK, Backlog, Forming, InputBudget
from wharfinger.worker_loops.dispatcher import CHAINS
from wharfinger.worker_loops.starts import LATER

SETTINGS = DispatchSettings(hold=0.0, cohort_from=4, cohort_most=6, cohorts_in_flight=2, parked_chains=3)


def load(**what: int) -> Backlog:
    return Backlog(**{"ready": 0, "ruled": 0, "together": 0, "alone": 0, "cohorts": 0, "chains": 0, **what})


def forming(**settings: Any) -> Forming:
    return Forming(DispatchSettings(**settings))


async def flood(stage: Stage, *names: str, **fields: Any) -> None:
    """Pods that are all there before any of them is started."""
    stage.loops.dispatcher.serve(False)
    for name in names:
        await stage.put_pod(name, **fields)
    await stage.until(lambda: all(stage.part(name) is Part.ACTIVE for name in names))
    stage.loops.dispatcher.serve(True)


async def turn_away(stage: Stage, name: str, **record: Any) -> None:
    """As `record_many` does it: a record that names the cohort, and no chain."""
    await stage.refuse(name, **{"workflow_id": "wharfinger/cohort/c", "parked": False, **record})


# --- how many -------------------------------------------------------------------------------------


def test_cohorts_larger_than_temporal_can_list_are_capped_with_a_log(caplog: pytest.LogCaptureFixture) -> None:
    """The command refuses such a limit; one that was stored before goes on working."""
    former = forming(cohort_from=2, cohort_most=400, cohorts_in_flight=4)

    assert former.size(load(ready=100_000), 0.0) == 204
    assert [record.getMessage() for record in caplog.records] == ["cohorts_capped cohort_most=400 effect=204"]


@pytest.mark.parametrize(
    ("what", "size"),
    [
        (load(ready=1), 0),
        (load(ready=23), 0),
        (load(ready=24), 24),
        (load(ready=240), 60),
        (load(ready=100_000), 200),
        (load(ready=100_000, cohorts=4), 0),
        (load(ready=1, together=1), 24),
        (load(ready=1, cohorts=1), 0),
        (load(ready=2, cohorts=1, alone=FEW), 0),
        (load(ready=1, chains=1000), 24),
    ],
)
def test_cohorts_are_sized_by_the_backlog_and_a_lone_pod_is_in_none(what: Backlog, size: int) -> None:
    assert forming().size(what, 0.0) == size
    assert forming(cohorts=False).size(what, 0.0) == (size if what.together else 0)


def test_memory_of_a_flood_that_never_ends_is_bounded() -> None:
    policy, deep = forming(), load(ready=100_000)
    tracemalloc.start()
    try:
        for second in range(20_000):
            assert policy.size(deep, float(second)) == 200
        used, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert used < 100_000


def test_disabled_cohorts_still_place_pods_that_only_cohorts_place() -> None:
    policy = forming()
    policy.configure(DispatchSettings(cohorts=False))

    assert policy.size(load(ready=3, together=3), 0.0) > 0
    assert policy.size(load(ready=100), 0.0) == 0
    assert policy.one_by_one(load(ready=100), 0.0)


def test_pods_are_started_one_by_one_unless_many_are_ready() -> None:
    policy = forming()

    assert policy.one_by_one(load(ready=23), 0.0)
    assert policy.one_by_one(load(ready=1, cohorts=2), 0.0)
    assert not policy.one_by_one(load(ready=24), 0.0)
    assert policy.one_by_one(load(ready=FEW, cohorts=1, alone=1), 0.0)


# --- how deep a backlog is ------------------------------------------------------------------------


def measured(plain: float | None, ruled: float | None = None) -> Forming:
    """Single attempts a second, of either kind."""
    return Forming(DispatchSettings(), lambda rules: ruled if rules else plain)


@pytest.mark.parametrize(
    ("plain", "ruled", "what", "formed"),
    [
        (100.0, None, load(ready=199), False),
        (100.0, None, load(ready=200), True),
        (100.0, 20.0, load(ready=39, ruled=39), False),
        (100.0, 20.0, load(ready=40, ruled=40), True),
        (100.0, 20.0, load(ready=119, ruled=19), False),  # one second each, all but
        (100.0, 20.0, load(ready=120, ruled=20), True),
        (100.0, None, load(ready=23, ruled=23), False),  # not measured: as before
        (100.0, None, load(ready=24, ruled=24), True),
        (2.0, None, load(ready=23), False),  # never fewer than the setting says
        (2.0, None, load(ready=24), True),
        (1e6, None, load(ready=MOST_ALONE - 1), False),
        (1e6, None, load(ready=MOST_ALONE), True),
    ],
)
def test_no_cohort_of_what_single_attempts_clear_within_two_seconds(
    plain: float | None, ruled: float | None, what: Backlog, formed: bool
) -> None:
    policy = measured(plain, ruled)

    assert (policy.size(what, 0.0) > 0) is formed
    assert policy.one_by_one(what, 0.0) is not formed


def test_the_rest_of_a_flood_goes_by_cohorts_however_little_it_is() -> None:
    policy = measured(100.0)
    assert policy.size(load(ready=3000), 50.0) == 200
    rest = load(ready=FEW + 1, cohorts=3)

    assert policy.size(rest, 50.5) > 0
    assert not policy.one_by_one(rest, 50.5)
    assert policy.one_by_one(load(ready=FEW, cohorts=3), 50.5)  # a lone pod waits for no company


def test_a_flood_lasts_while_its_cohorts_are_open() -> None:
    policy = measured(100.0)
    assert policy.size(load(ready=800), 50.0) == 200

    assert policy.size(load(ready=20, cohorts=1), 50.0 + 10 * CLEARED) > 0


def test_pods_that_come_after_a_flood_have_attempts_of_their_own_again() -> None:
    policy = measured(100.0)
    assert policy.size(load(ready=800), 50.0) == 200
    assert policy.size(load(ready=20, cohorts=1), 50.0) > 0
    everyday = load(ready=30, cohorts=1)  # the small one is still open

    assert policy.size(everyday, 50.0 + CLEARED - 0.1) > 0
    assert policy.one_by_one(everyday, 50.0 + 2 * CLEARED)
    assert policy.size(everyday, 50.0 + 2 * CLEARED) == 0


def test_cohorts_that_do_not_end_keep_a_lone_pod_waiting_for_a_moment_only() -> None:
    policy = forming()
    assert policy.size(load(ready=100, cohorts=3), 50.0)
    few = load(ready=FEW + 1, cohorts=4)

    assert not policy.one_by_one(few, 50.0 + PATIENCE / 2)
    assert policy.one_by_one(few, 50.0 + PATIENCE)
    assert not policy.one_by_one(load(ready=24, cohorts=4), 50.0 + PATIENCE)


def test_cohorts_that_do_not_end_hold_up_a_deep_backlog_for_a_moment_only() -> None:
    policy = forming()
    assert policy.size(load(ready=1000, cohorts=3), 50.0)
    many = load(ready=1000, cohorts=4)

    assert policy.size(many, 50.0 + STUCK / 2) == 0
    assert policy.size(many, 50.0 + STUCK) == 200
    assert policy.size(many, 50.0 + STUCK + 1) == 0  # one more, not as many as there are


def test_input_of_a_cohort_stays_within_its_bytes() -> None:
    def entry(name: str) -> Entry:
        return Entry(Pod(namespace="ns", name=name, uid="u" * 36), 0.0, 0.0, Part.ACTIVE, "seen")

    budget = InputBudget(1000)
    taken = [name for name in ("a" * 200, "é" * 200, "b" * 200, "c" * 200) if budget.fits(entry(name))]

    assert [name[0] for name in taken] == ["a", "b", "c"]


# --- forming and following ------------------------------------------------------------------------


async def test_a_backlog_is_placed_by_cohorts_in_order_and_in_turns() -> None:
    async with Stage(dispatching=SETTINGS) as stage:
        stage.loops.dispatcher.serve(False)
        for number in range(6):
            await stage.put_pod(f"low{number}")
        for number in range(3):
            await stage.put_pod(f"high{number}", priority=5)
        await stage.caught_up()
        stage.loops.dispatcher.serve(True)
        await stage.until(lambda: len(stage.attempts.cohorts) == 2)

        assert stage.attempts.cohorts[0].names == ["high0", "high1", "high2", "low0", "low1"]
        assert stage.attempts.cohorts[1].names == ["low2", "low3", "low4", "low5"]
        first, second = stage.attempts.cohorts
        assert first.turn.dispatcher == second.turn.dispatcher
        assert (first.turn.number, second.turn.number) == (1, 2)
        assert first.name != second.name
        assert first.cause == "seen"
        assert stage.attempts.started == []


async def test_backlog_that_single_attempts_clear_in_two_seconds_is_theirs() -> None:
    """Fifty single attempts a second: 99 pods at once are everyday life, 100 are a flood."""
    async with Stage(dispatching=DispatchSettings(hold=0.0, in_flight=200)) as stage:
        for number in range(60):
            await stage.put_pod(f"lone{number}")
            await stage.until(lambda name=f"lone{number}": name in stage.attempts.names)
            await stage.applied()
            stage.clock.advance(0.02)
            await stage.bind(f"lone{number}", "n")
            await stage.applied()
        everyday = [f"everyday{number:02}" for number in range(99)]
        await flood(stage, *everyday)
        await stage.until(lambda: len(stage.attempts.started) == 60 + 99)
        assert stage.attempts.cohorts == []

        for name in everyday:
            stage.clock.advance(0.02)
            await stage.bind(name, "n")
            await stage.applied()
        await flood(stage, *[f"flood{number:03}" for number in range(250)])
        await stage.until(lambda: sum(len(cohort.pods) for cohort in stage.attempts.cohorts) > 100)


async def test_cohort_is_open_until_etcd_shows_the_outcome_of_all_its_pods() -> None:
    async with Stage(dispatching=SETTINGS) as stage:
        await flood(stage, *[f"p{number}" for number in range(14)])
        await stage.until(lambda: len(stage.attempts.cohorts) == 2)
        first = stage.attempts.cohorts[0].names
        await stage.caught_up()
        assert len(stage.attempts.cohorts) == 2

        await turn_away(stage, first[0])
        await stage.store.delete(f"/registry/pods/default/{first[1]}")
        for name in first[2:-1]:
            await stage.bind(name, "n")
        await stage.caught_up()
        assert len(stage.attempts.cohorts) == 2

        await stage.bind(first[-1], "n")
        await stage.until(lambda: len(stage.attempts.cohorts) == 3)


async def test_with_cohorts_off_every_pod_has_its_own_attempt() -> None:
    async with Stage(dispatching=DispatchSettings(hold=0.0, cohorts=False, cohort_from=4)) as stage:
        await flood(stage, *[f"p{number}" for number in range(20)])
        await stage.until(lambda: len(stage.attempts.started) == 20)

        assert stage.attempts.cohorts == []


async def test_cohort_without_outcomes_in_etcd_is_formed_again() -> None:
    async with Stage(dispatching=SETTINGS) as stage:
        await flood(stage, "a", "b", "c", "d")
        await stage.until(lambda: len(stage.attempts.cohorts) == 1)
        stage.later(29)
        await stage.caught_up()
        assert len(stage.attempts.cohorts) == 1

        stage.later(2)
        await stage.until(lambda: len(stage.attempts.cohorts) == 2)

        assert stage.attempts.cohorts[1].names == ["a", "b", "c", "d"]
        assert stage.attempts.cohorts[1].cause == "unconfirmed"
        assert stage.attempts.cohorts[1].name != stage.attempts.cohorts[0].name


async def test_start_that_succeeded_but_lost_its_answer_counts_as_accepted() -> None:
    async with Stage(dispatching=SETTINGS) as stage:
        stage.attempts.losing = 1
        await flood(stage, "a", "b", "c", "d")
        await stage.until(lambda: len(stage.attempts.cohorts) == 2)
        await stage.caught_up()

        assert stage.attempts.cohorts[0] == stage.attempts.cohorts[1]
        assert all(entry is not None and entry.started_at for entry in map(stage.entry, "abcd"))


async def test_pods_of_a_cohort_that_cannot_be_started_go_back_to_the_queue() -> None:
    async with Stage(dispatching=SETTINGS) as stage:
        stage.attempts.failing.add("*")
        await flood(stage, "a", "b", "c", "d")
        await stage.until(lambda: stage.attempts.tries and stage.part("a") is Part.ACTIVE)
        assert stage.queue.in_flight.cohorts == 0
        held = {entry.not_before for entry in map(stage.entry, "abcd") if entry is not None}
        assert len(held) == 4

        stage.attempts.failing.clear()
        stage.later(LATER)
        await stage.until(lambda: stage.attempts.cohorts or len(stage.attempts.started) == 4)


async def test_pod_that_no_cohort_start_accepts_costs_the_others_one_start() -> None:
    async with Stage(dispatching=SETTINGS) as stage:
        stage.attempts.error = RPCError("no such name", RPCStatusCode.INVALID_ARGUMENT, b"")
        stage.attempts.failing.add("poison")
        await flood(stage, "a", "b", "poison", "d")
        await stage.until(lambda: stage.attempts.tries and stage.part("a") is Part.ACTIVE)
        stage.later(LATER)
        await stage.until(lambda: sorted(stage.attempts.names) == ["a", "b", "d"])

        assert stage.attempts.cohorts == []
        assert stage.part("poison") is not None


# --- who is turned away ---------------------------------------------------------------------------


async def test_pods_refused_by_a_cohort_get_a_chain_each_within_the_limit() -> None:
    async with Stage(dispatching=SETTINGS) as stage:
        names = ["a", "b", "c", "d"]
        await flood(stage, *names)
        await stage.until(lambda: stage.queue.in_flight.cohorts)
        for name in names:
            await turn_away(stage, name)
        await stage.until(lambda: len(stage.attempts.started) == 3)
        await stage.caught_up()
        assert all(cause.startswith("cohort wharfinger/cohort/c@") for _, cause, _ in stage.attempts.started)
        assert [stage.part(name) for name in names] == [Part.WAITING] * 4
        assert (stage.queue.waiting.chains, len(stage.queue.waiting.chainless)) == (3, 4)

        for name in stage.attempts.names:
            await stage.refuse(name)  # its own attempt, which parks
        await stage.caught_up()
        assert len(stage.attempts.started) == 3
        assert (stage.queue.waiting.chains, len(stage.queue.waiting.chainless)) == (3, 1)

        await stage.bind(stage.attempts.names[0], "n")
        await stage.until(lambda: len(stage.attempts.started) == 4)


async def test_a_pod_that_its_own_attempt_may_help_is_started_at_once() -> None:
    async with Stage(dispatching=DispatchSettings(hold=0.0, cohort_from=4, parked_chains=0)) as stage:
        await flood(stage, "a", "b", "c", "d")
        await stage.until(lambda: stage.attempts.cohorts)
        await turn_away(stage, "a")
        await turn_away(stage, "b", urgent=True, reason="Contended")
        await stage.until(lambda: stage.attempts.started)
        await stage.caught_up()

        [(name, cause, check_queue)] = stage.attempts.started
        assert (name, check_queue) == ("b", True)
        assert cause.startswith("cohort wharfinger/cohort/c@")


async def test_pods_without_outcomes_of_two_cohorts_start_one_by_one() -> None:
    """One of them may be what the cohorts fail by: together they would fail for ever."""
    async with Stage(dispatching=SETTINGS) as stage:
        names = ["a", "b", "c", "d"]
        await flood(stage, *names)
        for cohorts in (1, 2):
            await stage.until(lambda cohorts=cohorts: len(stage.attempts.cohorts) == cohorts)
            await stage.until(lambda: all(stage.part(name) is Part.IN_FLIGHT for name in names))
            await stage.caught_up()
            assert stage.attempts.started == []
            stage.later(31)
        await stage.until(lambda: len(stage.attempts.started) == 4)

        assert len(stage.attempts.cohorts) == 2
        assert stage.attempts.names == names


async def test_chains_that_no_record_confirms_do_not_keep_others_from_theirs() -> None:
    async with Stage(dispatching=SETTINGS) as stage:
        stuck = [f"a{number:02}" for number in range(CHAINS)]
        names = [*stuck, "late"]
        await flood(stage, *stuck)
        stage.clock.advance(0.1)
        await stage.put_pod("late")
        await stage.until(lambda: stage.part("late") is not None)
        stage.loops.dispatcher.serve(False)
        for name in names:
            await turn_away(stage, name, urgent=True)
        await stage.until(lambda: all(stage.part(name) is Part.WAITING for name in names))
        stage.loops.dispatcher.serve(True)
        await stage.until(lambda: stage.queue.waiting.chainless.unconfirmed == CHAINS)
        await stage.caught_up()
        assert "late" not in stage.attempts.names
        stage.later(31)
        await stage.until(lambda: "late" in stage.attempts.names)


async def test_a_chain_no_record_confirms_is_started_again() -> None:
    async with Stage(dispatching=SETTINGS) as stage:
        await flood(stage, "a", "b", "c", "d")
        await stage.until(lambda: stage.attempts.cohorts)
        await turn_away(stage, "a", urgent=True)
        await stage.until(lambda: stage.attempts.names == ["a"])
        assert stage.attempts.woken == []
        stage.later(31)
        await stage.until(lambda: stage.attempts.names.count("a") == 2)

        # Its start may have joined a chain that is parked, though the record does not say so.
        await stage.until(lambda: ("a", Wake(event="Unconfirmed")) in stage.attempts.woken)


async def test_a_pod_without_a_chain_is_not_started_again_for_ever() -> None:
    async with Stage(dispatching=DispatchSettings(hold=0.0, cohort_from=4, parked_chains=0)) as stage:
        await flood(stage, "a", "b", "c", "d")
        await stage.until(lambda: stage.attempts.cohorts)
        await turn_away(stage, "a")
        await stage.until(lambda: stage.part("a") is Part.WAITING)
        stage.later(450)
        await stage.caught_up()

        assert "a" not in stage.attempts.names


async def test_pod_without_a_chain_that_fits_now_is_started_not_signalled() -> None:
    async with Stage(dispatching=DispatchSettings(hold=0.0, cohort_from=4, parked_chains=0)) as stage:
        await flood(stage, "a", "b", "c", "d", cpu="3")
        await stage.until(lambda: stage.attempts.cohorts)
        await turn_away(stage, "a")
        await stage.until(lambda: stage.part("a") is Part.WAITING)
        for name in "bcd":
            await stage.store.delete(f"/registry/pods/default/{name}")
        await stage.put_node("n", cpu="4")
        await stage.until(lambda: stage.part("a") is Part.IN_FLIGHT)

        assert stage.attempts.woken == []


# --- who was woken with others --------------------------------------------------------------------


async def test_woken_pod_goes_by_cohort_and_its_parked_chain_is_signalled_later() -> None:
    async with Stage(dispatching=SETTINGS) as stage:
        await stage.waiting("p")
        entry = stage.entry("p")
        assert entry is not None
        stage.queue.wake(entry, "NodeAdd")
        stage.loops.dispatcher.kick()
        await stage.until(lambda: stage.attempts.cohorts)
        [cohort] = stage.attempts.cohorts

        assert cohort.cause == "NodeAdd"
        [pod] = cohort.pods
        assert pod == CohortPod(
            namespace="default",
            name="p",
            uid=entry.pod.uid,
            revision=entry.pod.mod_revision,
            attempt=2,
            recorded=True,
            chained=True,
            record_revision=entry.record_revision,
        )
        assert stage.attempts.names == ["p"]  # before it was refused

        await stage.bind("p", "n")
        await stage.until(lambda: stage.attempts.woken)
        assert [(name, wake.event) for name, wake in stage.attempts.woken] == [("p", "PodBound")]
        assert len(stage.queue) == 0


async def test_a_woken_pod_that_is_refused_again_waits_with_its_chain() -> None:
    async with Stage(dispatching=SETTINGS) as stage:
        await stage.waiting("p")
        entry = stage.entry("p")
        assert entry is not None
        stage.queue.wake(entry, "NodeAdd")
        stage.loops.dispatcher.kick()
        await stage.until(lambda: stage.attempts.cohorts)
        await stage.refuse("p")
        await stage.until(lambda: stage.part("p") is Part.WAITING)

        assert not entry.together
        assert stage.queue.waiting.chains == 1


async def test_the_parked_chain_of_a_pod_whose_room_was_taken_is_woken_at_once() -> None:
    """No event would tell: the room that the cohort chose is gone, and its runners-up, but perhaps no other."""
    async with Stage(dispatching=SETTINGS) as stage:
        await stage.waiting("p")
        entry = stage.entry("p")
        assert entry is not None
        stage.queue.wake(entry, "NodeAdd")
        stage.loops.dispatcher.kick()
        await stage.until(lambda: stage.attempts.cohorts)
        await stage.refuse("p", reason="Contended", plugins=(), urgent=True)
        await stage.until(lambda: stage.attempts.woken)

        assert stage.attempts.woken == [("p", Wake(event="OwnAttempt"))]
        assert stage.part("p") is Part.WAITING


async def test_chain_started_beside_a_cohort_is_signalled_when_its_pod_is_bound() -> None:
    """Its start told nothing in time; by now its run may be parked, and no record need say so."""
    async with Stage(dispatching=SETTINGS) as stage:
        await stage.put_pod("p")
        await stage.until(lambda: stage.attempts.names == ["p"])
        await stage.caught_up()
        stage.loops.dispatcher.serve(False)
        stage.later(31)
        stage.queue.return_overdue()
        await flood(stage, "a", "b", "c")
        await stage.until(lambda: stage.attempts.cohorts)
        assert sorted(stage.attempts.cohorts[0].names) == ["a", "b", "c", "p"]
        for name in "abcp":
            await stage.bind(name, "n")
        await stage.until(lambda: stage.attempts.woken)
        await stage.caught_up()

        assert [(name, wake.event) for name, wake in stage.attempts.woken] == [("p", "PodBound")]


async def test_chains_of_bound_pods_are_not_signalled_during_a_backlog() -> None:
    async with Stage(dispatching=SETTINGS) as stage:
        for name in ("p", "q"):
            await stage.waiting(name)
        for name in ("p", "q"):
            entry = stage.entry(name)
            assert entry is not None
            stage.queue.wake(entry, "NodeAdd")
        stage.loops.dispatcher.kick()
        await stage.until(lambda: stage.attempts.cohorts)
        await stage.bind("p", "n")
        await stage.caught_up()
        assert stage.attempts.woken == []

        await stage.bind("q", "n")
        await stage.until(lambda: sorted(stage.attempts.woken_names) == ["p", "q"])
