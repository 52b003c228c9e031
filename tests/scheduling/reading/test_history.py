"""Recorded runs read as attempts: from the very histories that the replay tests keep."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from temporalio.client import WorkflowHistory

from tests.replay.record import HISTORIES
from wharfinger.scheduling.contracts.extenders import ExtenderAnswers
from wharfinger.scheduling.reading.causes import cause_of
from wharfinger.scheduling.reading.history import Attempt, is_only_continued, read_attempt


def events_of(ending: str) -> Any:
    return WorkflowHistory.from_json("workflow", (HISTORIES / f"{ending}.json").read_text()).events


def read(ending: str) -> Attempt:
    attempt = read_attempt("workflow", "run", events_of(ending))
    assert attempt is not None
    return attempt


@pytest.mark.parametrize(
    ("ending", "outcome", "node"),
    [
        ("bound", "bound", "node-1"),
        ("parked_and_woken", "refused", None),
        ("rejected", "refused", None),
        ("held_and_permitted", "bound", "node-1"),
        ("contended", "contended", None),
        ("gone_before_placing", "gone", "node-9"),
        ("gone_while_binding", "gone", None),
        ("cancelled_while_parked", "cancelled", None),
        ("error_recorded", "error", None),
        ("wrong_id", "error", None),
        ("asked_and_bound", "bound", "node-1"),
        ("asked_and_preempted", "refused", None),
        ("extender_failed", "error", None),
        ("gone_while_asking", "gone", None),
    ],
)
def test_the_outcome_is_what_the_run_published(ending: str, outcome: str, node: str | None) -> None:
    attempt = read(ending)

    assert (attempt.outcome, attempt.node) == (outcome, node)
    assert attempt.ended is not None


def test_bound_attempt_has_its_ranking_and_steps() -> None:
    attempt = read("bound")

    assert attempt.attempt == 1
    assert attempt.cause == "started"
    assert [one["node"] for one in attempt.ranking] == ["node-1", "node-2"]
    assert [step.name for step in attempt.steps] == ["place", "bind"]
    assert all(step.seconds is not None and step.seconds >= 0 for step in attempt.steps)
    assert attempt.computation["nodes"] == 3


def test_an_attempt_that_asked_has_its_last_decision_and_the_answers() -> None:
    attempt = read("asked_and_bound")

    assert [step.name for step in attempt.steps] == ["place", "ask_extenders"] * 2 + ["place", "bind"]
    assert attempt.placement["kind"] == "placed"
    assert attempt.answers == ExtenderAnswers(nodes="all", rounds=2)
    assert read("asked_and_preempted").answers == ExtenderAnswers(nodes="all", victims="all", rounds=1)


def test_an_extender_that_failed_is_named_in_its_step() -> None:
    attempt = read("extender_failed")

    assert [step.detail for step in attempt.steps[:2]] == ["ask", "failed: no answer within 5 s"]
    assert (attempt.placement, attempt.message) == ({}, "no answer within 5 s")


def test_refused_attempt_has_its_rejectors_and_what_woke_it() -> None:
    attempt = read("parked_and_woken")

    assert attempt.message == "0/3 nodes are available: 3 Insufficient cpu."
    assert attempt.refusals == {"NodeResourcesFit": {"Insufficient cpu": 3}}
    assert [step.name for step in attempt.steps] == ["place", "record_refusal", "waited"]
    assert attempt.steps[-1].detail == "NodeAdd node-1 (NodeResourcesFit says it may help)"


def test_next_attempt_names_what_woke_it() -> None:
    attempt = read("bound_after_waiting")

    assert attempt.attempt == 2
    assert attempt.cause == "woken by NodeAdd node-1 (NodeResourcesFit says it may help)"


@pytest.mark.parametrize(
    ("event", "cause"),
    [
        ("OwnAttempt", "woken by a cohort that could not place it"),
        ("VictimsOverdue", "woken by evicted pods that did not leave in time"),
        ("OnlyAssumed", "tried again, as only pods whose binds were not confirmed were in the way"),
        ("NodeAdd", "woken by NodeAdd"),
    ],
)
def test_wakes_that_are_no_event_of_the_cluster_are_put_in_words(event: str, cause: str) -> None:
    started = copy.deepcopy(events_of("bound_after_waiting")[0])
    failure = started.workflow_execution_started_event_attributes.continued_failure
    failure.application_failure_info.details.payloads[0].data = json.dumps({"event": event}).encode()

    assert cause_of(started) == cause


def test_safety_timer_and_empty_signals_are_distinguished() -> None:
    assert read("safety_timer").steps[-1].detail == "the safety timer"
    assert read("rejected").steps[-1].detail == "a signal without an event"


@pytest.mark.parametrize(
    ("ending", "message"),
    [
        ("error_recorded", "plugin Fussy failed in Filter: boom"),
        ("contended", "node-1 was taken"),
        ("behind", "this worker is behind"),
        ("invalid_input", "the input must be a mapping with namespace and name of a pod (name: Field required)"),
    ],
)
def test_failure_is_shown_with_its_message(ending: str, message: str) -> None:
    assert read(ending).message == message


def test_a_run_that_still_waits_is_open() -> None:
    events = events_of("parked_and_woken")[:13]
    attempt = read_attempt("workflow", "run", events)

    assert attempt is not None
    assert (attempt.outcome, attempt.ended) == ("waiting", None)
    assert (attempt.steps[-1].name, attempt.steps[-1].seconds) == ("waited", None)


@pytest.mark.parametrize("length", range(14))
def test_a_history_that_is_cut_anywhere_can_be_read(length: int) -> None:
    read_attempt("workflow", "run", events_of("bound")[:length])


def test_a_run_that_only_brought_the_retry_policy_is_no_attempt() -> None:
    assert is_only_continued(events_of("continued_with_policy"))
    assert not is_only_continued(events_of("bound"))
