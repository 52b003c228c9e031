"""Records of staged update runs survive their way through etcd, and stay small."""

from __future__ import annotations

from dataclasses import replace

import pytest

from wharfinger.placement.contracts.delivery_records import RunPlanRecord, RunProgressRecord
from wharfinger.placement.deciding.stages import begin
from wharfinger.placement.model.update_runs import (
    MemberOutcome,
    MemberProgress,
    OnFailure,
    PlannedMember,
    PlannedStage,
    RunPhase,
    RunPlan,
    StageProgress,
    StageTask,
    TaskKind,
)


def plan(members: int = 3) -> RunPlan:
    listed = tuple(
        PlannedMember(f"member-{number:04d}", 1000 + number, "0a" * 8, 3, "1b" * 8) for number in range(members)
    )
    stage = PlannedStage(
        "prod",
        listed,
        concurrency=2,
        failures=1,
        deadline=90.0,
        on_failure=OnFailure.ROLLBACK,
        before=(StageTask(TaskKind.APPROVAL),),
        after=(StageTask(TaskKind.TIMED_WAIT, 60.0),),
    )
    return RunPlan((stage,), (PlannedMember("old", 7),), 4, {"type": "ServerSideApply", "force": None}, ("x",))


def test_a_plan_survives_its_round_trip() -> None:
    record = RunPlanRecord(plan=plan(), placement=12, overrides={"0a" * 8: ({"source": "tier"},)}, time="t")
    assert RunPlanRecord.model_validate_json(record.to_bytes()) == record


def test_progress_survives_its_round_trip() -> None:
    progress = replace(
        begin(plan()),
        stages=(StageProgress(True, 12.5, ("prod.before",)),),
        members=(MemberProgress("a", 3, 1.5, MemberOutcome.FAILED, "why", 2), MemberProgress("b")),
        phase=RunPhase.ROLLING_BACK,
        rollback="stage prod",
        undone=(MemberProgress("a"),),
        clock=99.5,
    )
    record = RunProgressRecord(progress=progress, retries=2, token="w")
    read = RunProgressRecord.model_validate_json(record.to_bytes())
    assert read == record
    assert isinstance(read.progress.phase, RunPhase)
    assert isinstance(read.progress.members[0].outcome, MemberOutcome)


def test_5000_members_fit_into_one_value_of_etcd() -> None:
    large = plan(5000)
    assert len(RunPlanRecord(plan=large, placement=1).to_bytes()) < 200 * 1024
    assert len(RunProgressRecord(progress=begin(large)).to_bytes()) < 64 * 1024


@pytest.mark.parametrize("value", [b"", b"{}", b"x\x9c", RunProgressRecord(progress=begin(plan())).to_bytes()])
def test_what_is_no_plan_is_a_value_error(value: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        RunPlanRecord.model_validate_json(value)
