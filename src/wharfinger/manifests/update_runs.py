"""Staged update strategies and runs of KubeFleet (`placement.kubernetes-fleet.io`), read for running them.

What is read here may be wrong in ways that only `config` finds: it lists all mistakes when a user applies an object.
`placement.stages` checks again what a plan needs.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import StrEnum
from typing import Any, TypeVar

from wharfinger.errors import InvalidObject
from wharfinger.manifests.fields import integer, mapping, mappings, text
from wharfinger.manifests.selectors import label_selector
from wharfinger.model.fleet import Share
from wharfinger.model.placement import PlacementRef
from wharfinger.model.placement_kinds import CLUSTER_UPDATE_RUN, UPDATE_RUNS, UPDATE_STRATEGIES
from wharfinger.model.selectors import parse_integer
from wharfinger.model.update_runs import (
    MOST_STAGES,
    OnFailure,
    RunState,
    Stage,
    StagedStrategy,
    StageTask,
    TaskKind,
    Unmatched,
    UpdateRun,
)

_INT32 = 2**31 - 1
_LONGEST = 100
"""Characters of a duration."""
_DURATION = re.compile(r"((0|[1-9][0-9]*)(\.[0-9]+)?[smh])+", re.ASCII)
_PART = re.compile(r"([0-9.]+)([smh])", re.ASCII)
_UNITS = {"s": 1, "m": 60, "h": 3600}
_PERCENT = re.compile(r"(100|[0-9]{1,2})%", re.ASCII)

Word = TypeVar("Word", bound=StrEnum)


def strategy_from_mapping(obj: Mapping[str, Any]) -> StagedStrategy:
    """A strategy of either kind. Raises InvalidObject, naming the field."""
    _kind(obj, UPDATE_STRATEGIES)
    spec = mapping(obj, "spec")
    stages = mappings(spec, "stages", "spec.")
    if len(stages) > MOST_STAGES:
        raise InvalidObject(f"spec.stages has more than {MOST_STAGES} entries")
    return StagedStrategy(
        tuple(_stage(entry, f"spec.stages[{index}].") for index, entry in enumerate(stages)),
        _word(spec, "unmatched", "spec.", Unmatched, Unmatched.FAIL),
    )


def run_from_mapping(obj: Mapping[str, Any]) -> UpdateRun:
    """A run of either kind; a namespaced one is about a placement of its namespace. Raises InvalidObject."""
    kind = _kind(obj, UPDATE_RUNS)
    metadata, spec = mapping(obj, "metadata"), mapping(obj, "spec")
    namespace = "" if kind == CLUSTER_UPDATE_RUN else text(metadata, "namespace", "metadata.") or "default"
    index = text(spec, "resourceSnapshotIndex", "spec.")
    snapshot = parse_integer(index)
    if index and (snapshot is None or snapshot < 0):
        raise InvalidObject(f"spec.resourceSnapshotIndex {index[:40]!r} is no number of a snapshot")
    return UpdateRun(
        PlacementRef(namespace, _needed(spec, "placementName", "spec.")),
        snapshot,
        _needed(spec, "stagedRolloutStrategyName", "spec."),
        _word(spec, "state", "spec.", RunState, RunState.INITIALIZE),
    )


def _kind(obj: Mapping[str, Any], kinds: tuple[str, ...]) -> str:
    kind = text(obj, "kind")
    if kind not in kinds:
        raise InvalidObject(f"kind {kind[:40]!r} is none of {', '.join(kinds)}")
    return kind


def _stage(entry: Mapping[str, Any], where: str) -> Stage:
    deadline = integer(entry, "deadlineSeconds", where, low=1, high=_INT32)
    return Stage(
        name=_needed(entry, "name", where),
        labels=label_selector(entry, "labelSelector", where),
        sorting_key=text(entry, "sortingLabelKey", where),
        max_concurrency=_share(entry, "maxConcurrency", where, 1),
        before=_tasks(entry, "beforeStageTasks", where),
        after=_tasks(entry, "afterStageTasks", where),
        deadline=None if deadline is None else float(deadline),
        failure_threshold=_share(entry, "failureThreshold", where, 0),
        on_failure=_word(entry, "onFailure", where, OnFailure, OnFailure.PAUSE),
    )


def _tasks(stage: Mapping[str, Any], key: str, where: str) -> tuple[StageTask, ...]:
    tasks = []
    for index, entry in enumerate(mappings(stage, key, where)):
        path = f"{where}{key}[{index}]."
        kind = _word(entry, "type", path, TaskKind, None)
        written = text(entry, "waitTime", path)
        if kind is TaskKind.APPROVAL and written:
            raise InvalidObject(f"{path}waitTime goes with {TaskKind.TIMED_WAIT} only")
        if kind is TaskKind.TIMED_WAIT and not written:
            raise InvalidObject(f"{path}waitTime is missing")
        tasks.append(StageTask(kind, _seconds(written, f"{path}waitTime") if written else 0.0))
    return tuple(tasks)


def _seconds(written: str, path: str) -> float:
    if len(written) > _LONGEST or not _DURATION.fullmatch(written):
        raise InvalidObject(f"{path} {written[:40]!r} is no duration such as 15m or 1h30m")
    return sum(float(number) * _UNITS[unit] for number, unit in _PART.findall(written))


def _share(entry: Mapping[str, Any], key: str, where: str, low: int) -> Share:
    """A number or a percentage, at least `low`, which is also the default."""
    written = entry.get(key)
    if written is None:
        return Share(low)
    if isinstance(written, int) and not isinstance(written, bool) and low <= written <= _INT32:
        return Share(written)
    if isinstance(written, str) and _PERCENT.fullmatch(written) and int(written[:-1]) >= low:
        return Share(int(written[:-1]), percent=True)
    raise InvalidObject(f"{where}{key} is neither a number nor a percentage from {low} on")


def _needed(obj: Mapping[str, Any], key: str, where: str) -> str:
    found = text(obj, key, where)
    if not found:
        raise InvalidObject(f"{where}{key} is missing")
    return found


def _word(obj: Mapping[str, Any], key: str, where: str, words: type[Word], default: Word | None) -> Word:
    written = text(obj, key, where)
    if not written and default is not None:
        return default
    if not written:
        raise InvalidObject(f"{where}{key} is missing")
    for word in words:
        if word.value == written:
            return word
    raise InvalidObject(f"{where}{key} {written[:40]!r} is none of {', '.join(words)}")
