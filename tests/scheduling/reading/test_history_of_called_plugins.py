"""The calls of asynchronous plugins in a recorded run, as `explain` shows them."""

from __future__ import annotations

from pathlib import Path

from temporalio.client import WorkflowHistory

from wharfinger.scheduling.reading.history import Attempt, read_attempt

HISTORIES = Path(__file__).parents[2] / "replay" / "histories"


def attempt(ending: str) -> Attempt:
    history = WorkflowHistory.from_json(ending, (HISTORIES / f"{ending}.json").read_text())
    found = read_attempt("workflow", "run", history.events)
    assert found is not None
    return found


def test_each_call_is_a_step_with_its_answer() -> None:
    found = attempt("called_and_bound")
    calls = [(one.detail, one.tries) for one in found.steps if one.name == "call_plugin"]
    assert calls == [
        ("PreBind of Licences: wait (the licence is being made)", 1),
        ("PreBind of Licences: success", 2),
        ("Bind of Crane: success", 1),
    ]
    assert found.notes == (
        "its room on node-1 is held for PreBind of Licences, Bind of Crane",
        "PreBind of Licences: wait (the licence is being made)",
        "PreBind of Licences: success",
        "Bind of Crane: success",
    )
    assert (found.outcome, found.node) == ("bound", "node-1")


def test_a_refusal_and_a_cancelled_call_are_there() -> None:
    assert "PreBind of Licences: refused (no licence is free)" in attempt("called_and_refused").notes
    cancelled = attempt("cancelled_while_calling")
    assert cancelled.outcome == "cancelled"
    assert [one.name for one in cancelled.steps].count("bind") == 2


def test_a_pause_after_wait_is_a_step_between_the_calls() -> None:
    names = [one.name for one in attempt("called_and_bound").steps]
    first = names.index("call_plugin")
    assert names[first : first + 4] == ["call_plugin", "waited", "call_plugin", "call_plugin"]


def test_an_attempt_that_goes_on_after_a_pause_is_running_again() -> None:
    history = WorkflowHistory.from_json("cut", (HISTORIES / "called_and_bound.json").read_text())
    second = [
        number
        for number, one in enumerate(history.events)
        if one.activity_task_scheduled_event_attributes.activity_type.name == "call_plugin"
    ][1]
    paused = read_attempt("workflow", "run", history.events[:second])
    calling = read_attempt("workflow", "run", history.events[: second + 1])
    assert paused is not None
    assert calling is not None
    assert (paused.outcome, calling.outcome) == ("waiting", "running")
