"""Staged update strategies and runs: every rule of KubeFleet's and our own, all mistakes at once."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from wharfinger.errors import InvalidConfiguration, InvalidObject
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
from wharfinger.placement.spec.placement import check_placement_change, check_placement_object
from wharfinger.placement.spec.placement_update_fields import forbidden_change, stored_run, stored_strategy

APPROVAL = {"type": "Approval"}
WAIT = {"type": "TimedWait", "waitTime": "1h30m"}


def strategy(*stages: Any, kind: str = "ClusterStagedUpdateStrategy", **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "placement.kubernetes-fleet.io/v1beta1",
        "kind": kind,
        "metadata": {"name": "careful"},
        "spec": {"stages": list(stages), **spec},
    }


def run(kind: str = "ClusterStagedUpdateRun", **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "placement.kubernetes-fleet.io/v1beta1",
        "kind": kind,
        "metadata": {"name": "release"},
        "spec": {"placementName": "web", "stagedRolloutStrategyName": "careful", **spec},
    }


def stage(**fields: Any) -> dict[str, Any]:
    return {"name": "prod", "labelSelector": {"matchLabels": {"env": "prod"}}, **fields}


def problems(obj: Any) -> list[str]:
    with pytest.raises(InvalidConfiguration) as refused:
        check_placement_object(obj)
    return [problem.partition(":")[0] for problem in refused.value.problems]


@pytest.mark.parametrize("kind", ["ClusterStagedUpdateStrategy", "StagedUpdateStrategy"])
@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"labelSelector": {}},
        {"labelSelector": None},
        {"sortingLabelKey": "example.com/order"},
        {"beforeStageTasks": [APPROVAL]},
        {"afterStageTasks": [WAIT, APPROVAL]},
        *[{"maxConcurrency": share} for share in (1, 70, 150, "1%", "50%", "100%")],
        {"deadlineSeconds": 600, "failureThreshold": "10%", "onFailure": "Rollback"},
        {"failureThreshold": 0, "onFailure": "Abort"},
        {"name": "s" * 63},
    ],
)
def test_a_valid_stage_is_taken(kind: str, fields: Any) -> None:
    assert check_placement_object(strategy(stage(**fields), kind=kind, unmatched="Ignore")) == ()


@pytest.mark.parametrize(
    ("fields", "wrong"),
    [
        ({"name": None}, ["name"]),
        ({"name": "s" * 64}, ["name"]),
        ({"name": "stage-1"}, ["name"]),
        ({"name": "Prod"}, ["name"]),
        *[({"maxConcurrency": share}, ["maxConcurrency"]) for share in (-1, 0, "0", "50", "0%", "101%", "05%", 1.5)],
        ({"afterStageTasks": [WAIT, APPROVAL, APPROVAL]}, ["afterStageTasks"]),
        ({"afterStageTasks": [APPROVAL, APPROVAL]}, ["afterStageTasks"]),
        ({"afterStageTasks": [WAIT, WAIT]}, ["afterStageTasks"]),
        ({"afterStageTasks": [{"type": "Approval", "waitTime": "1m"}]}, ["afterStageTasks[0].waitTime"]),
        ({"afterStageTasks": [{"type": "TimedWait"}]}, ["afterStageTasks[0].waitTime"]),
        ({"afterStageTasks": [{"waitTime": "1m"}]}, ["afterStageTasks[0].type"]),
        ({"beforeStageTasks": [WAIT]}, ["beforeStageTasks[0].type"]),
        ({"beforeStageTasks": [APPROVAL, APPROVAL]}, ["beforeStageTasks"]),
        ({"beforeStageTasks": [{"type": "Approval", "waitTime": "1m"}]}, ["beforeStageTasks[0].waitTime"]),
        *[
            ({"afterStageTasks": [{"type": "TimedWait", "waitTime": wait}]}, ["afterStageTasks[0].waitTime"])
            for wait in ("0s", "0abc", "1", "1d", "01h", "-5s", "9999999999h")
        ],
        ({"labelSelector": {"matchExpressions": [{"key": "a", "operator": "In"}]}}, ["labelSelector.matchExpressions"]),
        ({"sortingLabelKey": "no key"}, ["sortingLabelKey"]),
        ({"deadlineSeconds": 0}, ["deadlineSeconds"]),
        ({"failureThreshold": "101%"}, ["failureThreshold"]),
        ({"failureThreshold": -1}, ["failureThreshold"]),
        ({"onFailure": "Ignore"}, ["onFailure"]),
        ({"cooldown": 1}, ["cooldown"]),
    ],
)
def test_a_wrong_stage_is_refused_with_its_path(fields: Any, wrong: list[str]) -> None:
    found = problems(strategy(stage(**fields)))
    assert [one.removesuffix("[0].values") for one in found] == [f"spec.stages[0].{field}" for field in wrong]


def test_a_strategy_has_at_most_31_stages_with_own_names() -> None:
    assert check_placement_object(strategy(*[stage(name=f"s{number}") for number in range(31)])) == ()
    assert problems(strategy(*[stage(name=f"s{number}") for number in range(32)])) == ["spec.stages"]
    assert problems(strategy(stage(), stage())) == ["spec.stages"]
    assert problems(strategy(unmatched="Wait")) == ["spec.unmatched"]
    assert problems({**strategy(), "spec": {}}) == ["spec.stages"]


def test_all_mistakes_of_a_strategy_are_reported_at_once() -> None:
    obj = strategy(stage(maxConcurrency=0, beforeStageTasks=[WAIT]), stage(name="", afterStageTasks=[{}]))
    assert problems(obj) == [
        "spec.stages[0].maxConcurrency",
        "spec.stages[0].beforeStageTasks[0].type",
        "spec.stages[1].name",
        "spec.stages[1].afterStageTasks[0].type",
    ]


def test_names_of_runs_are_short_and_of_strategies_need_not_be() -> None:
    assert check_placement_object({**strategy(stage()), "metadata": {"name": "s" * 64}}) == ()
    assert check_placement_object({**run(), "metadata": {"name": "r" * 63}}) == ()
    assert problems({**run(), "metadata": {"name": "r" * 64}}) == ["metadata.name"]


@pytest.mark.parametrize("kind", ["ClusterStagedUpdateRun", "StagedUpdateRun"])
@pytest.mark.parametrize(
    "spec", [{}, {"state": "Initialize"}, {"state": "Run", "resourceSnapshotIndex": "0"}, {"resourceSnapshotIndex": ""}]
)
def test_a_valid_run_is_taken(kind: str, spec: Any) -> None:
    assert check_placement_object(run(kind, **spec)) == ()


@pytest.mark.parametrize(
    ("spec", "wrong"),
    [
        ({"placementName": ""}, ["placementName"]),
        ({"placementName": "p" * 256}, ["placementName"]),
        ({"stagedRolloutStrategyName": None}, ["stagedRolloutStrategyName"]),
        ({"state": "Paused"}, ["state"]),
        ({"resourceSnapshotIndex": "first"}, ["resourceSnapshotIndex"]),
        ({"resourceSnapshotIndex": "-1"}, ["resourceSnapshotIndex"]),
        ({"resourceSnapshotIndex": 3}, ["resourceSnapshotIndex"]),
        ({"placementName": "", "stagedRolloutStrategyName": ""}, ["placementName", "stagedRolloutStrategyName"]),
    ],
)
def test_a_wrong_run_is_refused_with_its_path(spec: Any, wrong: list[str]) -> None:
    assert problems(run(**spec)) == [f"spec.{field}" for field in wrong]


@pytest.mark.parametrize(
    ("before", "after", "allowed"),
    [
        ("Initialize", "Run", True),
        ("Run", "Stop", True),
        ("Stop", "Run", True),
        ("Run", "Run", True),
        (None, "Run", True),
        ("Initialize", "Stop", False),
        (None, "Stop", False),
        ("Run", "Initialize", False),
        ("Stop", "Initialize", False),
        ("Run", None, False),
    ],
)
def test_the_state_of_a_run_never_goes_back(before: str | None, after: str | None, *, allowed: bool) -> None:
    found = forbidden_change(run(state=before), run(state=after))
    assert [path for path, _ in found] == ([] if allowed else ["spec.state"])


@pytest.mark.parametrize("kind", ["ClusterStagedUpdateRun", "StagedUpdateRun"])
def test_placement_snapshot_and_strategy_of_a_run_never_change(kind: str) -> None:
    other = run(kind, placementName="db", resourceSnapshotIndex="2", stagedRolloutStrategyName="quick")
    with pytest.raises(InvalidConfiguration) as refused:
        check_placement_change(run(kind), other)
    assert list(refused.value.problems) == [
        "spec.placementName: may not change; it is web",
        "spec.resourceSnapshotIndex: may not change; it is empty",
        "spec.stagedRolloutStrategyName: may not change; it is careful",
    ]


def test_a_strategy_may_change() -> None:
    check_placement_change(strategy(stage()), strategy(stage(name="other"), unmatched="Last"))


# --- as they are stored ----------------------------------------------------------------------------


def kept_strategy(*stages: Any, **spec: Any) -> dict[str, Any]:
    return {"kind": "ClusterStagedUpdateStrategy", "spec": {"stages": list(stages), **spec}}


def kept_run(kind: str = "ClusterStagedUpdateRun", **spec: Any) -> dict[str, Any]:
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
    assert stored_strategy(kept_strategy(written, unmatched="Last")) == StagedStrategy((expected,), Unmatched.LAST)


def test_defaults_are_kubefleets() -> None:
    found = stored_strategy({**kept_strategy({"name": "a"}), "kind": "StagedUpdateStrategy"})
    assert found == StagedStrategy(
        (Stage("a", None, "", IntOrPercent(1), (), (), None, IntOrPercent(0), OnFailure.PAUSE),)
    )
    assert stored_strategy(kept_strategy({"name": "a", "labelSelector": {}})).stages[0].labels == LabelSelector()


@pytest.mark.parametrize(
    ("written", "seconds"),
    [("15m", 900), ("1h30m", 5400), ("90s", 90), ("1.5h", 5400), ("0.5s", 0.5), ("1h0m10s", 3610), ("0s", 0)],
)
def test_a_wait_is_a_duration_of_hours_minutes_seconds(written: str, seconds: float) -> None:
    task = {"type": "TimedWait", "waitTime": written}
    (stage,) = stored_strategy(kept_strategy({"name": "a", "afterStageTasks": [task]})).stages
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
        stored_strategy(kept_strategy({"name": "a", **fields}))
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
    assert stored_strategy(kept_strategy({"name": "a", **fields})).stages == (replace(Stage("a"), **found),)


def test_stages_of_one_name_are_read_and_an_empty_word_is_the_default() -> None:
    stages = stored_strategy(kept_strategy({"name": "a"}, {"name": "a"}, unmatched="")).stages
    assert [stage.name for stage in stages] == ["a", "a"]
    assert stored_run(kept_run(state=""), "").state is RunState.INITIALIZE


def test_parts_of_an_object_that_are_not_read_may_be_anything() -> None:
    unread = {"metadata": 1, "status": "ready", "apiVersion": [], "kind": {}}
    assert stored_strategy({**kept_strategy({"name": "a"}), **unread}) == StagedStrategy((Stage("a"),))
    assert stored_run({**kept_run(), **unread}, "").strategy == "careful"


def test_a_run_is_read_with_all_its_fields() -> None:
    assert stored_run(kept_run(), "") == UpdateRun(PlacementRef("", "web"), None, "careful", RunState.INITIALIZE)
    full = kept_run("StagedUpdateRun", resourceSnapshotIndex="3", state="Stop")
    assert stored_run(full, "shop") == UpdateRun(PlacementRef("shop", "web"), 3, "careful", RunState.STOP)


@pytest.mark.parametrize(
    ("obj", "said"),
    [
        (kept_run(placementName=""), "spec.placementName: is missing"),
        (kept_run(stagedRolloutStrategyName=None), "spec.stagedRolloutStrategyName: is missing"),
        (kept_run(resourceSnapshotIndex="x"), "spec.resourceSnapshotIndex: must be the number of a snapshot"),
        (kept_run(resourceSnapshotIndex="-1"), "spec.resourceSnapshotIndex: must be the number of a snapshot"),
        (kept_run(state="Pause"), "spec.state: Input should be 'Initialize', 'Run' or 'Stop'"),
    ],
)
def test_a_malformed_run_is_refused_with_its_field(obj: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidObject) as refused:
        stored_run(obj, "")
    assert str(refused.value).startswith(said)


def test_a_strategy_has_at_most_31_stages() -> None:
    with pytest.raises(InvalidObject, match="at most 31"):
        stored_strategy(kept_strategy(*[{"name": f"s{number}"} for number in range(32)]))
    assert stored_strategy({"kind": "StagedUpdateStrategy"}) == StagedStrategy(())


def test_fields_of_a_later_release_are_passed_over() -> None:
    written = kept_strategy({"name": "a", "later": 1}, later={})
    assert stored_strategy({**written, "later": []}) == StagedStrategy((Stage("a"),))
