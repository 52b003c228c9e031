"""What histories record, as replay reads it."""

from __future__ import annotations

from pathlib import Path

import pytest
from temporalio.client import WorkflowHistory

from wharfinger.contracts.cohort_scheduling import PlacedMany, Seat, Stretch, TurnedAway
from wharfinger.contracts.computation import Computation
from wharfinger.contracts.scheduling import Placed, Refused
from wharfinger.replaying.histories import recorded_run
from wharfinger.replaying.recorded import DecidedRun, decisions_of, units
from wharfinger.replaying.spool import Spool

HISTORIES = Path(__file__).parent.parent / "replay" / "histories"


def recorded(name: str) -> DecidedRun | None:
    history = WorkflowHistory.from_json("workflow", (HISTORIES / f"{name}.json").read_text())
    return recorded_run("workflow", "run", history.events)


@pytest.mark.parametrize(
    ("name", "kind"), [("bound", Placed), ("asked_and_bound", Placed), ("asked_and_preempted", Refused)]
)
def test_an_attempt_has_its_pod_and_its_last_decision(name: str, kind: type) -> None:
    run = recorded(name)

    assert run is not None
    assert (run.kind, run.decisions, bool(run.name)) == ("lone", 1, True)
    assert isinstance(run.lone, kind)
    assert bool(run.answers.nodes or run.answers.victims) == name.startswith("asked")
    assert run.started > 1_600_000_000


def test_a_cohort_has_its_pods_and_all_decisions() -> None:
    run = recorded("cohort_bound")

    assert run is not None
    assert run.kind == "cohort"
    assert run.many is not None
    assert run.decisions == len(run.many.seats) + len(run.many.turned_away) > 0
    assert len(run.pods) >= run.decisions


@pytest.mark.parametrize("name", ["behind", "cohort_gone", "cohort_failed"])
def test_runs_that_decided_nothing_are_left_out(name: str) -> None:
    assert recorded(name) is None


def test_every_history_is_read_without_a_failure() -> None:
    for file in HISTORIES.glob("*.json"):
        recorded(file.stem)


def seat(name: str, stretch: int) -> Seat:
    return Seat(namespace="n", name=name, uid="u", create_revision=1, pod_revision=1, node="a", stretch=stretch)


def away(name: str, stretch: int, after: int) -> TurnedAway:
    return TurnedAway(
        namespace="n",
        name=name,
        uid="u",
        create_revision=1,
        pod_revision=1,
        reasons=0,
        after_seat=after,
        stretch=stretch,
    )


def test_decisions_of_a_stretch_stand_in_the_order_they_were_made() -> None:
    many = PlacedMany(
        seats=(seat("s0", 0), seat("s1", 0), seat("s2", 1)),
        turned_away=(away("a0", 0, 0), away("a1", 0, 1), away("a2", 0, 2), away("a3", 1, 2), away("a4", 1, 3)),
        stretches=tuple(
            Stretch(first_seat=0, computation=Computation(revision=5 - at, worker="w", number=at)) for at in (0, 1)
        ),
    )
    run = DecidedRun(kind="cohort", workflow_id="w", run_id="r", many=many)

    assert [one.name for one in decisions_of(many, 0)] == ["a0", "s0", "a1", "s1", "a2"]
    assert [one.name for one in decisions_of(many, 1)] == ["a3", "s2", "a4"]
    assert [(one.revision, one.place, one.decisions) for one in sorted(units(run, 3))] == [(4, 1, 3), (5, 0, 5)]


def test_runs_come_back_from_the_spool_as_they_were_kept() -> None:
    spool, runs = Spool(), [run for name in ("bound", "cohort_bound") if (run := recorded(name)) is not None]
    numbers = [spool.add(run) for run in runs]

    assert [spool.get(number) for number in reversed(numbers)] == runs[::-1]
    assert spool.get(0) is spool.get(0)
    assert (len(spool), 0 < spool.size < 20_000) == (2, True)
    spool.close()
