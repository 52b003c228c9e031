"""Staged update strategies and runs: every rule of KubeFleet's and our own, all mistakes at once."""

from __future__ import annotations

from typing import Any

import pytest

from wharfinger.errors import InvalidConfiguration
from wharfinger.placement.spec.placement import check_placement_change, check_placement_object
from wharfinger.placement.spec.placement_update_fields import forbidden_change

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
