"""What histories record, as replay reads it."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from temporalio.client import Client, WorkflowHistory
from temporalio.converter import DataConverter
from temporalio.service import RPCError, RPCStatusCode

from wharfinger.replay.archive.spool import READ, Spool
from wharfinger.replay.cli.replay_output import tell
from wharfinger.replay.histories import RunName, UnreadRun, goes_on, read_runs, recorded_run
from wharfinger.replay.recorded import DecidedRun, Unit, decisions_of, units
from wharfinger.replay.report.report import Report
from wharfinger.scheduling.contracts.cohort_scheduling import PlacedMany, Seat, Stretch, TurnedAway
from wharfinger.scheduling.contracts.computation import Computation
from wharfinger.scheduling.contracts.scheduling import Placed, Refused

HISTORIES = Path(__file__).parent / "histories"


def recorded(name: str) -> DecidedRun | None:
    history = WorkflowHistory.from_json("workflow", (HISTORIES / f"{name}.json").read_text())
    found = recorded_run(RunName("workflow", "run"), history.events)
    return found if isinstance(found, DecidedRun) else None


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
    found = [run for name in ("bound", "cohort_bound") if (run := recorded(name)) is not None]
    spool, runs = Spool(), [run.model_copy(update={"run_id": run.kind}) for run in found]
    numbers = [spool.add(run) for run in runs]

    assert [spool.get(number) for number in reversed(numbers)] == runs[::-1]
    assert spool.get(0) is spool.get(0)
    assert spool.add(runs[1].model_copy(update={"tenant": "other"})) == 1, "a run is kept once, as it was first"
    assert spool.get(1) == runs[1]
    assert (len(spool), 0 < spool.size < 20_000) == (2, True)
    spool.close()


def test_few_runs_are_kept_as_they_were_read() -> None:
    run = recorded("bound")
    assert run is not None
    spool = Spool()
    for number in range(40):
        spool.add(run.model_copy(update={"run_id": str(number), "tenant": "x" * (READ // 10)}))
    read = [spool.get(number) for number in range(40)]

    again = [spool.get(number) is one for number, one in enumerate(read)]
    assert [spool.get(number).run_id for number in (0, 39)] == ["0", "39"]
    assert again == [False] * 40, "the first were dropped for the last, and so on"
    assert spool.get(39) is spool.get(39)
    spool.close()


def test_units_in_a_file_are_a_sequence_in_order() -> None:
    computations = [Computation(revision=9 - at % 4, worker=f"w{at % 3}", number=20 - at) for at in range(20)]
    spool, wanted = Spool(), list[Unit]()
    for at, computation in enumerate(computations):
        lone = Placed(uid="u", create_revision=1, pod_revision=1, node="a", node_revision=1, computation=computation)
        run = DecidedRun(kind="lone", workflow_id="w", run_id=str(at), started=float(at), lone=lone)
        wanted += units(run, spool.add(run))
    wanted.sort()

    found = spool.units()

    assert list(found) == wanted
    assert (len(found), found[3], found[-1]) == (20, wanted[3], wanted[-1])
    assert list(found[5:9]) == wanted[5:9]
    assert (list(found[9:5]), found[8:][2], len(found[:4])) == ([], wanted[10], 4)
    with pytest.raises(IndexError):
        found[20]
    spool.close()


@pytest.mark.parametrize("name", ["bound", "cohort_failed"])
def test_a_run_that_ended_does_not_go_on(name: str) -> None:
    events = WorkflowHistory.from_json("workflow", (HISTORIES / f"{name}.json").read_text()).events

    assert not goes_on(events)
    assert goes_on(events[:-1])


def history_with(change: Callable[[dict[str, Any]], object]) -> WorkflowHistory:
    """The history `bound` with another decision in it."""
    told = json.loads((HISTORIES / "bound.json").read_text())
    for event in told["events"]:
        details = event.get("markerRecordedEventAttributes", {}).get("details", {})
        for payload in details.get("result", {}).get("payloads", ()):
            plain = json.loads(base64.b64decode(payload["data"]))
            if plain.get("kind") == "placed":
                payload["data"] = base64.b64encode(json.dumps(change(plain)).encode()).decode()
    return WorkflowHistory.from_json("workflow", json.dumps(told))


class Listed:
    """Temporal with these histories; one that is None was taken by retention."""

    data_converter = DataConverter.default

    def __init__(self, **histories: WorkflowHistory | None) -> None:
        self.histories = histories

    async def list_workflows(self, _query: str, *, page_size: int) -> AsyncIterator[Any]:
        assert page_size
        for name in self.histories:
            yield SimpleNamespace(id=f"id-{name}", run_id=name, raw_info=SimpleNamespace(history_size_bytes=1))

    def get_workflow_handle(self, _id: str, *, run_id: str) -> Any:
        return SimpleNamespace(fetch_history=lambda: self.fetch(run_id))

    async def fetch(self, run_id: str) -> WorkflowHistory:
        found = self.histories[run_id]
        if found is None:
            raise RPCError("gone", RPCStatusCode.NOT_FOUND, b"")
        return found


async def test_runs_whose_record_cannot_be_read_are_told_and_not_left_out() -> None:
    whole = history_with(dict)
    newer = history_with(lambda plain: plain | {"node": ["n"]})
    damaged = history_with(lambda _plain: None)
    begun = WorkflowHistory("workflow", whole.events[:1])
    skipped = WorkflowHistory.from_json("workflow", (HISTORIES / "cohort_gone.json").read_text())
    client = Listed(whole=whole, newer=newer, damaged=damaged, taken=None, begun=begun, skipped=skipped)

    found = [run async for run in read_runs(cast("Client", client), "")]
    unread = {run.name.run_id: run for run in found if isinstance(run, UnreadRun)}

    assert [run.run_id for run in found if isinstance(run, DecidedRun)] == ["whole"]
    assert {run_id: run.lack for run_id, run in unread.items()} == {
        "taken": "gone", "begun": "undecided", "newer": "unreadable", "damaged": "unreadable",
    }  # fmt: skip
    assert "node: Input should be a valid string" in unread["newer"].why
    assert unread["damaged"].why == "its decision is no JSON object"


def test_an_unread_run_counts_as_one_that_cannot_be_made_again() -> None:
    report = Report()
    report.unread("cluster/pods/web@run", "node: Input should be a valid string")
    plain = report.to_plain()

    assert (plain["decisions"], plain["summary"]["unreplayable"], plain["sameShare"]) == (1, 1, None)
    [lack] = plain["unreplayable"]
    assert (lack["lack"], lack["examples"][0]["pod"]) == ("record", "cluster/pods/web@run")
    told = tell(plain | {"runs": 0, "seconds": 1.0, "gaps": [], "undecided": 2})
    assert "what their run recorded cannot be read" in told
    assert "2 runs of the span have not decided yet" in told
