"""Staged update strategies and runs as running them reads them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from wharfinger.errors import InvalidObject
from wharfinger.objects.model.quantities import IntOrPercent
from wharfinger.objects.model.selectors import LabelSelector, Operator, Requirement
from wharfinger.placement.model.placement import PlacementRef
from wharfinger.placement.model.update_runs import (
    OnFailure,
    RunState,
    Stage,
    StagedStrategy,
    StageTask,
    TaskKind,
    Unmatched,
    UpdateRun,
)
from wharfinger.placement.spec.placement_update_fields import stored_run, stored_strategy


def strategy(*stages: Any, **spec: Any) -> dict[str, Any]:
    return {"kind": "ClusterStagedUpdateStrategy", "spec": {"stages": list(stages), **spec}}


def run(kind: str = "ClusterStagedUpdateRun", **spec: Any) -> dict[str, Any]:
    given = {"placementName": "web", "stagedRolloutStrategyName": "careful", **spec}
    return {"kind": kind, "metadata": {"name": "r", "namespace": "shop"}, "spec": given}


def test_a_strategy_is_read_with_all_its_fields() -> None:
    written = {
        "name": "prod",
        "labelSelector": {"matchLabels": {"env": "prod"}},
        "sortingLabelKey": "order",
        "maxConcurrency": "50%",
        "beforeStageTasks": [{"type": "Approval"}],
        "afterStageTasks": [{"type": "TimedWait", "waitTime": "15m"}, {"type": "Approval"}],
        "deadlineSeconds": 300,
        "failureThreshold": "10%",
        "onFailure": "Rollback",
    }
    expected = Stage(
        "prod",
        LabelSelector((Requirement("env", Operator.IN, ("prod",)),)),
        "order",
        IntOrPercent(50, percent=True),
        (StageTask(TaskKind.APPROVAL),),
        (StageTask(TaskKind.TIMED_WAIT, 900.0), StageTask(TaskKind.APPROVAL)),
        300.0,
        IntOrPercent(10, percent=True),
        OnFailure.ROLLBACK,
    )
    assert stored_strategy(strategy(written, unmatched="Last")) == StagedStrategy((expected,), Unmatched.LAST)


def test_defaults_are_kubefleets() -> None:
    found = stored_strategy({**strategy({"name": "a"}), "kind": "StagedUpdateStrategy"})
    assert found == StagedStrategy(
        (Stage("a", None, "", IntOrPercent(1), (), (), None, IntOrPercent(0), OnFailure.PAUSE),)
    )
    assert stored_strategy(strategy({"name": "a", "labelSelector": {}})).stages[0].labels == LabelSelector()


@pytest.mark.parametrize(
    ("written", "seconds"),
    [("15m", 900), ("1h30m", 5400), ("90s", 90), ("1.5h", 5400), ("0.5s", 0.5), ("1h0m10s", 3610), ("0s", 0)],
)
def test_a_wait_is_a_duration_of_hours_minutes_seconds(written: str, seconds: float) -> None:
    task = {"type": "TimedWait", "waitTime": written}
    (stage,) = stored_strategy(strategy({"name": "a", "afterStageTasks": [task]})).stages
    assert stage.after == (StageTask(TaskKind.TIMED_WAIT, seconds),)


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"name": ""}, "name: is missing"),
        ({"maxConcurrency": "50"}, "maxConcurrency: must be a number of clusters from 1 on, or a percentage"),
        ({"maxConcurrency": 0}, "maxConcurrency: must be a number of clusters from 1 on, or a percentage"),
        ({"maxConcurrency": "0%"}, "maxConcurrency: must be a number of clusters from 1 on, or a percentage"),
        ({"failureThreshold": "1.5%"}, "failureThreshold: must be a number of clusters, or a percentage"),
        ({"failureThreshold": True}, "failureThreshold: must be a number of clusters, or a percentage"),
        ({"deadlineSeconds": 0}, "deadlineSeconds: Input should be greater than or equal to 1, not 0"),
        ({"onFailure": "Hope"}, "onFailure: Input should be 'Pause', 'Abort' or 'Rollback', not \"Hope\""),
        ({"labelSelector": []}, "labelSelector: Input should be a mapping"),
        ({"beforeStageTasks": [{}]}, "beforeStageTasks[0].type: is missing"),
        (
            {"beforeStageTasks": [{"type": "Approval", "waitTime": "1s"}]},
            "beforeStageTasks[0].waitTime: must be absent",
        ),
        ({"afterStageTasks": [{"type": "TimedWait"}]}, "afterStageTasks[0].waitTime: is missing"),
        (
            {"afterStageTasks": [{"type": "Sleep"}]},
            "afterStageTasks[0].type: Input should be 'TimedWait'",
        ),
        *[
            ({"afterStageTasks": [{"type": "TimedWait", "waitTime": wait}]}, "afterStageTasks[0].waitTime: must be ")
            for wait in ("0abc", "1", "1d", "01h", "-1s", "1s " * 50)
        ],
    ],
)
def test_a_malformed_stage_is_refused_with_its_field(fields: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidObject) as refused:
        stored_strategy(strategy({"name": "a", **fields}))
    assert str(refused.value).startswith(f"spec.stages[0].{said}")


@pytest.mark.parametrize(
    ("fields", "found"),
    [
        ({"afterStageTasks": [{"type": "Approval", "waitTime": ""}]}, {"after": (StageTask(TaskKind.APPROVAL),)}),
        (
            {"beforeStageTasks": [{"type": "TimedWait", "waitTime": "1s"}]},
            {"before": (StageTask(TaskKind.TIMED_WAIT, 1.0),)},
        ),
        ({"onFailure": ""}, {"on_failure": OnFailure.PAUSE}),
        ({"failureThreshold": "101%"}, {"failure_threshold": IntOrPercent(101, percent=True)}),
        (
            {"labelSelector": {"matchLabels": {"env": None}}},
            {"labels": LabelSelector((Requirement("env", Operator.IN, ("",)),))},
        ),
        ({"sortingLabelKey": "no key!"}, {"sorting_key": "no key!"}),
        ({"name": "Not_A_Name"}, {"name": "Not_A_Name"}),
    ],
)
def test_what_apply_refuses_and_means_something_is_read(fields: dict[str, Any], found: dict[str, Any]) -> None:
    assert stored_strategy(strategy({"name": "a", **fields})).stages == (replace(Stage("a"), **found),)


def test_stages_of_one_name_are_read_and_an_empty_word_is_the_default() -> None:
    stages = stored_strategy(strategy({"name": "a"}, {"name": "a"}, unmatched="")).stages
    assert [stage.name for stage in stages] == ["a", "a"]
    assert stored_run(run(state=""), "").state is RunState.INITIALIZE


def test_parts_of_an_object_that_are_not_read_may_be_anything() -> None:
    unread = {"metadata": 1, "status": "ready", "apiVersion": [], "kind": {}}
    assert stored_strategy({**strategy({"name": "a"}), **unread}) == StagedStrategy((Stage("a"),))
    assert stored_run({**run(), **unread}, "").strategy == "careful"


def test_a_run_is_read_with_all_its_fields() -> None:
    assert stored_run(run(), "") == UpdateRun(PlacementRef("", "web"), None, "careful", RunState.INITIALIZE)
    full = run("StagedUpdateRun", resourceSnapshotIndex="3", state="Stop")
    assert stored_run(full, "shop") == UpdateRun(PlacementRef("shop", "web"), 3, "careful", RunState.STOP)


@pytest.mark.parametrize(
    ("obj", "said"),
    [
        (run(placementName=""), "spec.placementName: is missing"),
        (run(stagedRolloutStrategyName=None), "spec.stagedRolloutStrategyName: is missing"),
        (run(resourceSnapshotIndex="x"), "spec.resourceSnapshotIndex: must be the number of a snapshot"),
        (run(resourceSnapshotIndex="-1"), "spec.resourceSnapshotIndex: must be the number of a snapshot"),
        (run(state="Pause"), "spec.state: Input should be 'Initialize', 'Run' or 'Stop'"),
    ],
)
def test_a_malformed_run_is_refused_with_its_field(obj: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidObject) as refused:
        stored_run(obj, "")
    assert str(refused.value).startswith(said)


def test_a_strategy_has_at_most_31_stages() -> None:
    with pytest.raises(InvalidObject, match="at most 31"):
        stored_strategy(strategy(*[{"name": f"s{number}"} for number in range(32)]))
    assert stored_strategy({"kind": "StagedUpdateStrategy"}) == StagedStrategy(())


def test_fields_of_a_later_release_are_passed_over() -> None:
    written = strategy({"name": "a", "later": 1}, later={})
    assert stored_strategy({**written, "later": []}) == StagedStrategy((Stage("a"),))
