"""Contracts and implementations agree: same registered names, same types."""

from __future__ import annotations

import inspect
from typing import Any, get_type_hints

import pytest
from pydantic import TypeAdapter, ValidationError
from temporalio import activity, workflow
from temporalio.api.common.v1 import Payload

from wharfinger.activities.scheduling import SchedulingActivities
from wharfinger.process.connecting import data_converter
from wharfinger.process.names import FailureType
from wharfinger.scheduling.contracts.attempts import AttemptInput, AttemptResult, AttemptTimings, chain_retry
from wharfinger.scheduling.contracts.cohort_scheduling import CohortScheduling
from wharfinger.scheduling.contracts.computation import Computation
from wharfinger.scheduling.contracts.extenders import NO_ANSWERS, AskExtenders, ExtendersAnswered, ExtendersFailed
from wharfinger.scheduling.contracts.scheduling import (
    AskOutcome,
    Bound,
    Contended,
    Gone,
    Placed,
    PlaceInput,
    PlaceOutcome,
    Recorded,
    RefusalInput,
    Refused,
    Rejected,
    Scheduling,
)
from wharfinger.workflows.bugs import BUGS
from wharfinger.workflows.schedule_attempt import ScheduleAttempt

ASK = AskExtenders(
    uid="u", create_revision=1, pod_revision=1, about="nodes", question="q", count=1, extenders=("http://e",)
)
METHODS = sorted(Scheduling.__abstractmethods__)


def registered_name(method: Any) -> str | None:
    definition = activity._Definition.from_callable(method)
    return definition.name if definition else None


@pytest.mark.parametrize("method", METHODS)
def test_every_activity_of_the_contract_has_its_name_and_types(method: str) -> None:
    promised, built = getattr(Scheduling, method), getattr(SchedulingActivities, method)

    assert registered_name(built) == registered_name(promised) == method
    assert get_type_hints(built) == get_type_hints(promised)
    assert list(inspect.signature(built).parameters) == list(inspect.signature(promised).parameters)


def test_nothing_else_is_registered() -> None:
    own = {name for name, member in vars(SchedulingActivities).items() if registered_name(member)}

    assert own == Scheduling.__abstractmethods__ | CohortScheduling.__abstractmethods__


def test_result_of_release_0_1_is_read_and_a_bound_one_keeps_its_form() -> None:
    old = {"outcome": "bound", "node": "node-1", "attempt": 2}

    assert AttemptResult.model_validate(old).model_dump() == old
    assert AttemptResult.model_validate({"outcome": "gone", "node": None, "attempt": 1}).reason == ""


def test_the_workflow_is_found_under_its_name() -> None:
    definition = workflow._Definition.from_class(ScheduleAttempt)

    assert definition is not None
    assert definition.name == "ScheduleAttempt"
    assert set(definition.signals) == {"wake", "permit"}
    assert definition.failure_exception_types == BUGS


@pytest.mark.parametrize(
    "outcome",
    [
        Placed(
            uid="u", create_revision=1, pod_revision=1, node="n", node_revision=1, computation=Computation(revision=1)
        ),
        Refused(uid="u", create_revision=1, pod_revision=1, message="no", computation=Computation(revision=1)),
        Gone(reason="deleted"),
        ASK,
    ],
    ids=["placed", "refused", "gone", "ask"],
)
def test_an_outcome_of_place_is_read_back_as_what_it_was(outcome: Any) -> None:
    assert TypeAdapter(PlaceOutcome).validate_json(outcome.model_dump_json()) == outcome


@pytest.mark.parametrize(
    "outcome",
    [ExtendersAnswered(answer="x"), ExtendersFailed(extender="e", verb="filter", message="no"), Gone(reason="deleted")],
    ids=["answered", "failed", "gone"],
)
def test_an_outcome_of_asking_is_read_back_as_what_it_was(outcome: Any) -> None:
    assert TypeAdapter(AskOutcome).validate_json(outcome.model_dump_json()) == outcome


def test_requests_of_a_release_without_extenders_have_no_answers() -> None:
    names = {"namespace": "a", "name": "b", "workflow_id": "w", "run_id": "r"}

    assert PlaceInput.model_validate(names).answers == NO_ANSWERS
    assert RefusalInput.model_validate({**names, "attempt": 1, "message": "no"}).answers == NO_ANSWERS


def test_kinds_of_outcomes_are_all_different() -> None:
    kinds = [
        model.model_fields["kind"].default
        for model in (
            Placed,
            Refused,
            Gone,
            AskExtenders,
            ExtendersAnswered,
            ExtendersFailed,
            Bound,
            Contended,
            Rejected,
            Recorded,
        )
    ]

    assert len(set(kinds)) == len(kinds)


def test_fields_of_a_newer_release_are_ignored() -> None:
    read = AttemptInput.model_validate({"namespace": "a", "name": "b", "colour": "red", "timings": {"nap": 3}})

    assert read == AttemptInput(namespace="a", name="b")


@pytest.mark.parametrize("bad", [{"park": 0}, {"park": -1}, {"backoff_initial": 0}, {"park_jitter": 2}], ids=str)
def test_timings_that_make_no_sense_are_refused(bad: dict[str, float]) -> None:
    with pytest.raises(ValidationError):
        AttemptTimings.model_validate(bad)


def test_the_chain_goes_on_for_ever_but_for_failures_that_never_change() -> None:
    policy = chain_retry(AttemptTimings())

    assert policy.maximum_attempts == 0
    assert policy.non_retryable_error_types == [FailureType.WRONG_ID, FailureType.INVALID_INPUT]
    assert (policy.initial_interval.total_seconds(), policy.maximum_interval.total_seconds()) == (1, 10)  # type: ignore[union-attr]


@pytest.mark.parametrize("encoding", [b"json/plain", b"binary/protobuf", b"json/protobuf", b"binary/odd"])
def test_payload_that_cannot_be_read_fails_the_run_and_not_its_task(encoding: bytes) -> None:
    payload = Payload(metadata={"encoding": encoding}, data=b"\x01")
    with pytest.raises(BUGS):
        data_converter.payload_converter.from_payloads([payload], [Any])
