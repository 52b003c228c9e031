"""A pod's part in a recorded run of a cohort, read as an attempt of that pod: as full as that of a lone pod."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta
from typing import Any

from tests.scheduling.reading.test_history import events_of
from wharfinger.objects.model.pod import Pod, PodKey
from wharfinger.process.records import AttemptRecord
from wharfinger.scheduling.contracts.cohort_scheduling import PlacedMany, SeatRanking, Skipped
from wharfinger.scheduling.contracts.computation import ScoredNode
from wharfinger.scheduling.reading.explanation import explain
from wharfinger.scheduling.reading.group_members import read_member
from wharfinger.scheduling.reading.history import Attempt

RUN = ("c/cohort/1", "run")
WAKE = {"revision": 15, "event": "NodeAdd", "object": "node-9", "plugin": "NodeResourcesFit"}


def member(ending: str, name: str, *, pod: dict[str, Any] | None = None, **placed: Any) -> Attempt | None:
    """The pod's part; `pod`: what the start says of it beside its name, `placed`: other parts of the decision."""
    events = events_of(ending)
    for event in events:
        started, marker = event.workflow_execution_started_event_attributes, event.marker_recorded_event_attributes
        if pod is not None and started.input.payloads:
            request = json.loads(started.input.payloads[0].data)
            mine = [one | pod if one["name"] == name else one for one in request["pods"]]
            started.input.payloads[0].data = json.dumps(request | {"pods": mine}).encode()
        if placed and marker.marker_name:
            payload = marker.details["result"].payloads[0]
            decided = PlacedMany.model_validate_json(payload.data).model_copy(update=placed)
            payload.data = decided.model_dump_json().encode()
    return read_member(*RUN, events, PodKey("default", name))


def read(ending: str, name: str, **more: Any) -> Attempt:
    attempt = member(ending, name, **more)
    assert attempt is not None
    return attempt


def steps(attempt: Attempt) -> list[str]:
    return [step.name for step in attempt.steps]


def test_a_bound_pod_has_the_steps_that_were_about_it_and_its_company() -> None:
    attempt = read("cohort_refused_and_contended", "a")

    assert (attempt.outcome, attempt.node) == ("bound", "node-1")
    assert steps(attempt) == ["place", "bind_many"]
    assert attempt.notes == ("decided together with default/b, default/c and default/d",)


def test_a_pod_without_a_node_has_its_reasons_and_waits_for_others() -> None:
    attempt = read("cohort_refused_and_contended", "d")

    assert (attempt.outcome, attempt.node) == ("refused", None)
    assert attempt.message == "no room"
    assert steps(attempt)[:2] == ["place", "others bound"]
    assert "record_many" in steps(attempt)


def test_a_pod_that_lost_its_room_or_was_rejected_has_the_reason() -> None:
    lost, rejected = read("cohort_refused_and_contended", "b"), read("cohort_refused_and_contended", "c")

    assert (lost.outcome, lost.message) == ("contended", "taken")
    assert (rejected.outcome, rejected.message) == ("refused", "too large")
    assert [one.placement["kind"] for one in (lost, rejected)] == ["placed", "placed"]


def test_a_pod_that_was_gone_has_an_attempt_that_found_it_gone() -> None:
    skipped = (
        Skipped(namespace="default", name="x", reason="deleted", gone="replaced"),
        Skipped(namespace="default", name="y", reason="the decisions of its cohort took too long"),
    )
    gone, late = (read("cohort_bound", name, skipped=skipped) for name in "xy")

    assert (gone.outcome, gone.placement) == ("gone", {"kind": "gone", "reason": "deleted", "cause": "replaced"})
    assert steps(gone) == ["place"]
    assert (late.outcome, late.message) == ("skipped", "not decided: the decisions of its cohort took too long")


def test_the_failure_of_a_group_is_told_of_each_of_its_pods() -> None:
    attempt = read("cohort_failed", "a")

    assert (attempt.outcome, attempt.message) == ("error", "boom")
    assert member("cohort_failed", "stranger") is None


def test_runners_up_of_a_small_group_have_the_score_of_each_plugin() -> None:
    nodes = (
        ScoredNode(node="node-1", total=100, plugins={"Fit": 100}),
        ScoredNode(node="node-7", total=100, plugins={"Fit": 100}),
    )
    told = SeatRanking(nodes=nodes, passed_over=ScoredNode(node="node-7", total=100))
    attempt = read("cohort_bound", "a", rankings=(told, told))

    assert [(one["node"], one["plugins"]) for one in attempt.ranking] == [
        ("node-1", {"Fit": 100}),
        ("node-7", {"Fit": 100}),
    ]
    assert attempt.passed_over["node"] == "node-7"


def test_number_and_cause_are_those_of_the_pod() -> None:
    woken = read("cohort_bound", "a", pod={"attempt": 3, "wake": WAKE})
    moved = read("cohort_bound", "a", pod={"woken_by": "take-over"})

    assert (woken.attempt, woken.cause) == (3, "woken by NodeAdd node-9 (NodeResourcesFit says it may help)")
    assert moved.cause == "started by a worker that took the pod over"


def test_a_pod_that_waits_between_two_groups_has_that_wait() -> None:
    first = read("cohort_refused_and_contended", "d")
    assert first.ended is not None
    second = read("cohort_bound", "a", pod={"attempt": 2, "wake": WAKE})
    second = replace(second, started=first.ended + timedelta(seconds=60))
    found = explain("default/d", Pod("default", "d", "uid"), "", None, [first, second])

    [wait] = [step for step in found.attempts[0].steps if step.name == "waited"]
    assert (wait.started, wait.seconds, wait.detail) == (
        first.ended,
        60,
        "NodeAdd node-9 (NodeResourcesFit says it may help)",
    )
    assert found.attempts[0].outcome == "refused"


def test_a_pod_did_not_wait_for_the_group_of_the_next_pod_of_its_name() -> None:
    first = read("cohort_refused_and_contended", "d")
    assert first.ended is not None
    second = read("cohort_bound", "a")
    second = replace(
        second, started=first.ended + timedelta(days=1), placement=second.placement | {"create_revision": 99}
    )
    found = explain("default/d", Pod("default", "d", "uid"), "", None, [first, second])

    assert steps(found.attempts[0]) == steps(first)


def test_a_pod_that_waits_for_its_next_group_is_shown_as_waiting() -> None:
    record = AttemptRecord(attempt=1, plugins=("NodeResourcesFit",), message="none", run_id="run", parked=False)
    found = explain("default/d", Pod("default", "d", "uid"), "", record, [read("cohort_refused_and_contended", "d")])

    [attempt] = found.attempts
    assert (attempt.outcome, attempt.steps[-1].name, attempt.steps[-1].seconds) == ("waiting", "waited", None)
    assert found.missing == ()
