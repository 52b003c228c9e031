"""What is said about a pod as a whole, and what can no longer be said."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

from tests.scheduling.reading.test_history import read
from wharfinger.objects.model.pod import Pod
from wharfinger.process.records import AttemptRecord
from wharfinger.scheduling.reading.explanation import Explanation, explain, to_plain
from wharfinger.scheduling.reading.history import Attempt

POD = Pod("default", "web-1", "uid-1")
RECORD = AttemptRecord(
    attempt=1,
    plugins=("NodeResourcesFit",),
    message="0/3 nodes are available.",
    run_id="run",
    time="2026-03-01T12:00:00Z",
)


def attempt(number: int, run_id: str = "run") -> Attempt:
    return Attempt(number, "workflow", run_id, datetime(2026, 3, 1, 12, 0, number, tzinfo=UTC), "started")


def explained(
    pod: Pod | None = POD,
    *,
    bound_by: str = "",
    record: AttemptRecord | None = None,
    attempts: list[Attempt],
    limit: int | None = None,
) -> Explanation:
    return explain("default/web-1", pod, bound_by, record, attempts, limit=limit)


def test_attempts_are_explained_in_order() -> None:
    found = explained(attempts=[attempt(3), attempt(1), attempt(2)])

    assert [one.attempt for one in found.attempts] == [1, 2, 3]
    assert found.missing == ()


def test_attempts_that_retention_took_are_named() -> None:
    assert explained(attempts=[attempt(2)]).missing == ("attempt 1 is no longer kept by Temporal (retention)",)
    assert explained(attempts=[attempt(5)]).missing == ("attempts 1 to 4 are no longer kept by Temporal (retention)",)


def test_attempts_outside_the_request_are_not_reported_as_lost() -> None:
    [missing] = explained(attempts=[attempt(4), attempt(5)], limit=2).missing

    assert missing == "attempts 1 to 3 are older than the 2 asked for"
    assert explained(attempts=[attempt(1), attempt(2)], limit=2).missing == ()
    assert "retention" in explained(attempts=[attempt(5)], limit=2).missing[0]


def test_a_record_of_an_earlier_life_of_the_name_counts_for_nothing() -> None:
    old = RECORD.model_copy(update={"create_revision": 7})

    for pod in (None, replace(POD, create_revision=9)):
        found = explained(pod, record=old, attempts=[])
        assert (found.record, found.missing) == (None, ())
    assert explained(replace(POD, create_revision=7), record=old, attempts=[]).record == old


def test_a_binding_attempt_that_retention_took_is_named() -> None:
    [missing] = explained(POD.on("node-1"), bound_by="workflow@other", attempts=[attempt(1)]).missing

    assert missing == "the attempt that bound the pod (workflow@other) is no longer kept by Temporal (retention)"


def test_a_record_whose_attempt_retention_took_is_named() -> None:
    [missing] = explained(record=RECORD, attempts=[]).missing

    assert missing == "attempt 1, which the pod waits with, is no longer kept by Temporal (retention)"


def test_pod_bound_by_another_writer_is_reported() -> None:
    assert explained(POD.on("node-1"), attempts=[]).missing == ("the pod was not bound by wharfinger",)


def test_states_of_a_pod_are_one_word() -> None:
    pods = [None, POD, POD.on("n"), replace(POD, phase="Succeeded"), replace(POD, deletion_timestamp="now")]

    assert [explained(pod, attempts=[]).state for pod in pods] == [
        "deleted",
        "pending",
        "bound",
        "finished",
        "terminating",
    ]


def test_plain_values_hold_everything_for_programs() -> None:
    plain = to_plain(explained(record=RECORD, attempts=[read("parked_and_woken")]))

    assert plain["record"]["plugins"] == ["NodeResourcesFit"]
    [one] = plain["attempts"]
    assert one["refusals"] == {"NodeResourcesFit": {"Insufficient cpu": 3}}
    assert one["nodes"] == 3
    assert one["steps"][0]["started"].endswith("Z")
