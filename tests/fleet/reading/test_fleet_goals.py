"""When a fleet is what a script waits for, without servers."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from tests.fleet.fleet_records import OBJECT_REVISION, Records, ago, status
from wharfinger.fleet.model.rollout import Condition
from wharfinger.fleet.reading.fleet_goals import Goal, judge
from wharfinger.fleet.reading.fleet_summary import outdated, updated
from wharfinger.fleet.state.fleet_reading import estate_of
from wharfinger.process.waiting import Verdict

V1, V2 = {"version": "v1"}, {"version": "v2"}


def name(template: Mapping[str, Any]) -> str:
    """Templates are equal but for the order of their fields."""
    return json.dumps(template, sort_keys=True)


def verdict(records: Records, goal: Goal) -> Verdict:
    return judge(estate_of(records.stored(), 100).fleet(records.tenant), goal, name)


def rolled_out(**fields: Any) -> Records:
    """Two slots on revision 2, which is completed and wanted."""
    records = Records().fleet(replicas=2, template=V2).actor(2).revision(1, "completed", V1)
    records.revision(2, "completed", V2).serving(0).serving(1)
    return records.status(status(**{"replicas": 2, "ready": 2, "updated": 2, "rollout": "completed", **fields}))


def test_a_rollout_is_complete_when_its_revision_serves_everywhere() -> None:
    assert verdict(rolled_out(), Goal.COMPLETE) == Verdict("reached", "2 of 2 instances are ready on revision 2")


@pytest.mark.parametrize(
    "records",
    [
        rolled_out(observed_generation=OBJECT_REVISION - 1),
        rolled_out(updated=1),
        rolled_out().grant(1, 2),
        rolled_out().instance(1, state="withdrawn"),
        rolled_out().fleet(replicas=3, template=V2),
        rolled_out().grant(0, 1, 1),
        rolled_out().fleet(replicas=2, template={"version": "v3"}),
        rolled_out().fleet(replicas=2, template=V1),
    ],
    ids=["not seen", "not counted", "two lives", "withdrawn", "scaled", "outdated", "another template", "going back"],
)
def test_a_rollout_is_waited_for_while_anything_is_missing(records: Records) -> None:
    assert verdict(records, Goal.COMPLETE).kind == "waiting"


def test_rollout_is_complete_under_a_former_number_of_its_template() -> None:
    same = {"cpu": 1, **V2}
    records = rolled_out().fleet(replicas=2, template=same).actor(4).serving(0, 4)
    records.revision(2, "superseded", {**V2, "cpu": 1}).revision(3, "superseded", V1).revision(4, "completed", same)
    assert verdict(records, Goal.COMPLETE) == Verdict("reached", "2 of 2 instances are ready on revision 4")


def test_slot_on_a_former_number_of_the_wanted_template_is_updated() -> None:
    records = rolled_out().actor(4).revision(2, "superseded", V2).revision(4, "", V2).serving(0, 1)
    picture = estate_of(records.stored(), 100).fleet(records.tenant)
    assert (updated(picture), outdated(picture)) == (1, 1)


def test_a_partition_is_complete_when_all_that_it_allows_is_updated() -> None:
    condition = Condition("PartitionComplete", True, "PartitionComplete", "slots 1 and up run revision 2")
    records = rolled_out(updated=1, rollout="running", conditions=(condition,)).grant(0, 1, 1)

    assert verdict(records, Goal.COMPLETE).kind == "reached"


@pytest.mark.parametrize("outcome", ["failed", "aborted"])
def test_rolled_back_rollout_is_not_complete_though_all_slots_match(outcome: str) -> None:
    records = rolled_out(target=1, completed=1).actor(1).revision(2, outcome, V2)
    for slot in (0, 1):
        records.serving(slot, revision=1)

    answer = verdict(records, Goal.COMPLETE)

    assert answer.kind == "failed"
    assert answer.why.startswith("the rollout of revision 2 ")
    assert answer.why.endswith(": since-2")


@pytest.mark.parametrize(
    ("condition", "why"),
    [
        (Condition("SpecInvalid", True, "Invalid", "spec.replicas: is negative"), "its spec is invalid: spec.replicas"),
        (Condition("Paused", True, "FailureThresholdExceeded", "slot 2 ..."), "the rollout stands still: slot 2 ..."),
        (Condition("Paused", True, "ProgressDeadlineExceeded", "600 s"), "the rollout stands still: 600 s"),
    ],
)
def test_what_stands_still_is_not_waited_for(condition: Condition, why: str) -> None:
    records = rolled_out(updated=1, rollout="paused", conditions=(condition,))

    answer = verdict(records, Goal.COMPLETE)

    assert answer.kind == "failed"
    assert answer.why.startswith(why)


def test_ready_is_counted_from_instances_not_from_the_status() -> None:
    records = Records().fleet(replicas=2, template=V2).serving(0).serving(1, revision=1)
    assert verdict(records, Goal.READY) == Verdict("reached", "2 of 2 instances are ready")
    records.instance(1, state="starting")
    assert verdict(records, Goal.READY) == Verdict("waiting", "1 of 2 instances are ready")


def test_paused_is_by_the_spec_by_a_deadline_or_by_the_canary() -> None:
    for kind in ("Paused", "CanaryWaiting"):
        held = Condition(kind, True, "Because", "for a while")  # type: ignore[arg-type]
        assert verdict(rolled_out(rollout="running", conditions=(held,)), Goal.PAUSED).kind == "reached"
    assert verdict(rolled_out(rollout="paused"), Goal.PAUSED).kind == "reached"
    assert verdict(rolled_out(rollout="running"), Goal.PAUSED).kind == "waiting"
    over = verdict(rolled_out(), Goal.PAUSED)
    assert over == Verdict("failed", "the rollout of revision 2 is over: completed")


def test_a_fleet_is_deleted_when_nothing_of_it_is_left() -> None:
    assert verdict(Records(), Goal.DELETED).kind == "reached"
    assert verdict(rolled_out(), Goal.DELETED).kind == "waiting"
    leaving = rolled_out().fleet(deletionTimestamp=ago(1))
    assert verdict(leaving, Goal.DELETED) == Verdict("waiting", "2 instances are left")
    for goal in (Goal.COMPLETE, Goal.READY, Goal.PAUSED):
        assert verdict(leaving, goal).kind == "failed"
        assert verdict(Records(), goal) == Verdict("failed", "it was deleted")
