"""What an open run has done now: a call of a plugin that fails again and again is told before it ends."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from temporalio.api.enums.v1 import EventType, PendingActivityState
from temporalio.api.workflow.v1 import PendingActivityInfo

from tests.scheduling.reading.test_explanation import POD, explained
from tests.scheduling.reading.test_history import events_of
from wharfinger.scheduling.reading.attempts import is_doing, with_pending
from wharfinger.scheduling.reading.explanation import called_now, to_plain
from wharfinger.scheduling.reading.history import Attempt, read_attempt

SCHEDULED = PendingActivityState.PENDING_ACTIVITY_STATE_SCHEDULED
STARTED = PendingActivityState.PENDING_ACTIVITY_STATE_STARTED


def until_call(number: int) -> Attempt:
    """The run up to that call, as its history is while the call goes on."""
    events = events_of("called_and_bound")
    calls = [
        place
        for place, one in enumerate(events)
        if one.activity_task_scheduled_event_attributes.activity_type.name == "call_plugin"
    ]
    found = read_attempt("workflow", "run", events[: calls[number] + 1])
    assert found is not None
    return found


def pending(tries: int, failure: str = "", state: Any = SCHEDULED, name: str = "call_plugin") -> PendingActivityInfo:
    info = PendingActivityInfo(activity_id="1", attempt=tries, state=state)
    info.activity_type.name = name
    info.scheduled_time.FromDatetime(datetime(2026, 3, 1, 12, 0, 8, tzinfo=UTC))
    if failure:
        info.last_failure.message = failure
    return info


def test_an_open_call_names_its_plugin() -> None:
    found = until_call(0)
    [call] = [step for step in found.steps if step.name == "call_plugin"]

    assert is_doing(found)
    assert (call.seconds, call.detail) == (None, "PreBind of Licences")
    assert called_now([found]) == "PreBind of Licences"
    assert called_now([replace(found, ended=found.started)]) == ""
    assert called_now([found, replace(found, ended=found.started)]) == "PreBind of Licences"  # of a pod before it


def test_a_call_that_failed_has_its_failure_and_its_next_try() -> None:
    found = with_pending(until_call(0), [pending(4, "OSError: HTTP Error 500\nfrom afar")])

    told = "PreBind of Licences: try 3 failed (OSError: HTTP Error 500 from afar), and try 4 is due at 12:00:08Z"
    assert (found.steps[-1].tries, called_now([found])) == (4, told)
    again = with_pending(until_call(0), [pending(4, "no answer within 30 s", STARTED)])
    assert called_now([again]).endswith("try 3 failed (no answer within 30 s), and try 4 is being made")


def test_a_call_without_a_failure_says_nothing_of_tries() -> None:
    assert called_now([with_pending(until_call(0), [pending(1, state=STARTED)])]) == "PreBind of Licences"
    other = with_pending(until_call(0), [pending(2, "no", name="bind")])
    assert called_now([other]) == "PreBind of Licences"


def test_a_pause_after_wait_is_told_as_the_call_that_follows() -> None:
    events = events_of("called_and_bound")
    called = len(until_call(0).steps)
    found = next(
        one
        for place in range(len(events))
        if (one := read_attempt("workflow", "run", events[: place + 1])) is not None
        and len(one.steps) > called
        and one.outcome == "waiting"
    )

    assert called_now([found]) == "PreBind of Licences: wait (the licence is being made), so it is called again"
    assert not is_doing(found)


def test_the_explanation_has_the_call_for_people_and_programs() -> None:
    found = explained(attempts=[with_pending(until_call(0), [pending(2, "OSError: HTTP Error 500")])])

    assert found.calling.startswith("PreBind of Licences: try 1 failed (OSError: HTTP Error 500)")
    assert json.loads(json.dumps(to_plain(found)))["calling"] == found.calling
    assert explained(pod=None, attempts=[until_call(0)]).calling == ""
    assert explained(pod=replace(POD, phase="Succeeded"), attempts=[until_call(0)]).calling == ""


def test_calls_that_did_not_agree_in_time_are_a_step_with_the_last_failure() -> None:
    """Temporal writes no completion for these, but a time-out whose cause is the last failure."""
    events = list(events_of("called_and_bound"))
    place = next(
        place
        for place, one in enumerate(events)
        if one.activity_task_scheduled_event_attributes.activity_type.name == "call_plugin"
    )
    ended = type(events[place])(event_id=99, event_type=EventType.EVENT_TYPE_ACTIVITY_TASK_TIMED_OUT)
    ended.event_time.CopyFrom(events[place].event_time)
    timed_out = ended.activity_task_timed_out_event_attributes
    timed_out.scheduled_event_id = events[place].event_id
    timed_out.failure.message = "activity ScheduleToClose timeout"
    timed_out.failure.cause.message = "OSError: HTTP Error 500"
    found = read_attempt("workflow", "run", [*events[: place + 1], ended])
    assert found is not None

    last = found.steps[-1]
    assert (last.name, last.seconds) == ("call_plugin", 0)
    assert last.detail == "failed in its time (PreBind of Licences): OSError: HTTP Error 500"
    assert not is_doing(found)
