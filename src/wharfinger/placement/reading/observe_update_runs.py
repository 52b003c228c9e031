"""Staged update runs as etcd shows them: what a run would do, how far it is, and what it waits for.

All of it is computed from what hubs know, as the hub's own steps are, and nothing of it is stored.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from wharfinger.errors import NotFound, UsageError
from wharfinger.objects.model.names import is_dns_label, is_dns_subdomain
from wharfinger.placement.contracts import placement_keys
from wharfinger.placement.deciding.stages import begin
from wharfinger.placement.effects.update_plans import make_plan, why_not_yet
from wharfinger.placement.effects.update_steps import RunLook, look
from wharfinger.placement.model.update_runs import (
    AwaitedTask,
    MemberOutcome,
    MemberProgress,
    MemberSeen,
    PlannedStage,
    RunPhase,
    RunPlan,
    RunProgress,
    StageProgress,
    StageTask,
    TaskKind,
)
from wharfinger.placement.state.hub_view import HubView
from wharfinger.placement.state.update_runs_view import RunRecords, SeenRun


def check_name(name: str, namespace: str = "") -> None:
    """Whether a run can be called so. Raises `UsageError`."""
    if not is_dns_subdomain(name) or (namespace and not is_dns_label(namespace)):
        raise UsageError(f"{f'{namespace}/{name}'.lstrip('/')[:80]!r} names no update run")


def run_of(view: HubView, name: str, namespace: str = "") -> SeenRun:
    """The run of that name. Raises `NotFound`."""
    key = placement_keys.update_run(namespace, name)
    found = view.update_runs.runs.get(key)
    if found is None:
        why = f"cannot be read: {view.unreadable[key]}" if key in view.unreadable else "does not exist"
        raise NotFound(f"update run {f'{namespace}/{name}'.lstrip('/')[:80]} {why}")
    return found


def plan_of(view: HubView, run: SeenRun) -> RunPlan:
    """The plan of a run: the frozen one, or what it would be now. Raises `UsageError` when there can be none."""
    stored = view.update_runs.of(run.reference, run.name, run.identity).plan
    if stored is not None:
        return stored.plan
    if run.reference not in view.placements:
        raise NotFound(f"there is no placement {run.reference}")
    waits = why_not_yet(view, run.reference)
    if waits:
        raise UsageError(f"there is no plan yet: {waits}")
    made = make_plan(view, run.reference, run, run.run.snapshot or 0)
    if made.plan is None:
        raise UsageError(f"there can be no plan: {made.problem}")
    return made.plan


def plan_mapping(run: SeenRun, plan: RunPlan, *, frozen: bool) -> dict[str, Any]:
    """A plan, as printed for programs."""
    return {
        "run": run.name,
        "placement": run.reference,
        "frozen": frozen,
        "snapshot": plan.snapshot or None,
        "stages": [
            {
                "stage": stage.name,
                "maxConcurrency": stage.concurrency,
                "failures": stage.failures,
                "onFailure": stage.on_failure.value,
                "deadlineSeconds": stage.deadline,
                "before": [_task(task) for task in stage.before],
                "after": [_task(task) for task in stage.after],
                "members": [{"cluster": one.name, "snapshot": one.previous or None} for one in stage.members],
            }
            for stage in plan.stages
        ],
        "removed": [one.name for one in plan.leaving],
        "unmatched": list(plan.unmatched),
    }


def _task(task: StageTask) -> str:
    return f"{task.kind} {task.wait:g}s" if task.kind is TaskKind.TIMED_WAIT else task.kind.value


def status_of(view: HubView, run: SeenRun) -> dict[str, Any]:
    """How far a run is, as printed for programs."""
    records = view.update_runs.of(run.reference, run.name, run.identity)
    found = look(view, run.reference, run.name, run.identity)
    plan = records.plan.plan if records.plan is not None else None
    progress = found.step.progress if found.step is not None else None
    if progress is None and records.progress is not None:
        progress = records.progress.progress
    if progress is None and plan is not None:
        progress = begin(plan)
    stages = _stages(plan, progress, found, records) if plan is not None and progress is not None else []
    return {
        "run": run.name,
        "placement": run.reference,
        "strategy": run.run.strategy,
        "state": run.run.state.value,
        "phase": _phase(found, progress),
        "outcome": records.end.outcome if records.over and records.end is not None else None,
        "why": _why(found, progress, records),
        "snapshot": plan.snapshot if plan is not None else run.run.snapshot,
        "rollback": progress.rollback if progress is not None else "",
        "retries": records.retries,
        "waitsFor": list(found.approvals),
        "stages": stages,
        "removed": _removed(plan, progress, found) if plan is not None and progress is not None else [],
        "unmatched": list(plan.unmatched) if plan is not None else [],
    }


def _phase(found: RunLook, progress: RunProgress | None) -> str:
    if found.action == "step" and progress is not None:
        return progress.phase.value
    if found.action in ("over", "end"):
        return found.ends or "over"
    return "queued" if found.action == "queue" else "planning"


def _why(found: RunLook, progress: RunProgress | None, records: RunRecords) -> str:
    """What a run waits for, or how it ended.

    Progress is recorded only now and then, so no more is known of a wait than what was left of it at that time.
    """
    if found.step is None or progress is None or progress.phase is not RunPhase.WAITING:
        return found.why
    time = records.progress.time if records.progress is not None else ""
    return "; ".join(_awaited(one, time) for one in found.step.awaits)


def _awaited(one: AwaitedTask, time: str) -> str:
    if one.kind is TaskKind.APPROVAL:
        return f"waits for approval {one.key}"
    after = one.key.removesuffix(".after")
    return f"at most {one.remaining:.0f} s are left of the wait after stage {after}{f' (at {time})' if time else ''}"


def _stages(plan: RunPlan, progress: RunProgress, found: RunLook, records: RunRecords) -> list[dict[str, Any]]:
    awaits = found.step.awaits if found.step is not None else ()
    told = []
    for stage, state in zip(plan.stages, progress.stages, strict=True):
        waits = [one for one in awaits if one.key.rpartition(".")[0] == stage.name]
        remaining = [one.remaining for one in waits if one.kind is TaskKind.TIMED_WAIT]
        approvals = {key: one for key, one in records.approvals.items() if key.rpartition(".")[0] == stage.name}
        told.append(
            {
                "stage": stage.name,
                "state": _stage_state(stage, state, progress),
                "waitsFor": list(dict.fromkeys(one.key for one in waits)),
                "awaitedApprovals": [one.key for one in waits if one.kind is TaskKind.APPROVAL],
                "remainingSeconds": round(min(remaining), 1) if remaining else None,
                "approvals": [
                    {"approval": key, "who": one.who, "why": one.why, "time": one.time}
                    for key, one in sorted(approvals.items())
                ],
                "members": _members(stage, progress, found.seen),
            }
        )
    return told


def _stage_state(stage: PlannedStage, state: StageProgress, progress: RunProgress) -> str:
    names = {one.name for one in stage.members}
    undone = [one for one in progress.undone if one.name in names]
    if undone:
        return "rolling back" if any(one.outcome is None for one in undone) else "rolled back"
    return "ended" if state.ended else "started" if state.started else "not started"


def _members(stage: PlannedStage, progress: RunProgress, seen: Mapping[str, MemberSeen]) -> list[dict[str, Any]]:
    table, undone = {one.name: one for one in progress.members}, {one.name: one for one in progress.undone}
    return [
        _undone(undone[one.name], table[one.name], seen.get(one.name))
        if one.name in undone
        else _member(table[one.name], seen.get(one.name))
        for one in stage.members
    ]


_ROLLED_BACK = {
    "waiting": "waits for the rollback",
    "updating": "rolling back",
    "updated": "rolled back",
    "failed": "rollback failed",
}


def _undone(one: MemberProgress, before: MemberProgress, seen: MemberSeen | None) -> dict[str, Any]:
    """The rollback of a member. `before`: how its update went."""
    row = _member(one, seen)
    failed = f"its update failed: {before.why}" if before.outcome is MemberOutcome.FAILED and before.why else ""
    return {**row, "state": _ROLLED_BACK.get(row["state"], row["state"]), "why": row["why"] or failed}


def _member(one: MemberProgress, seen: MemberSeen | None) -> dict[str, Any]:
    state = one.outcome.value if one.outcome is not None else "updating" if one.counter else "waiting"
    why = one.why or (seen.why if seen is not None and one.counter and one.outcome is None else "")
    return {"cluster": one.name, "state": state, "why": why}


def _removed(plan: RunPlan, progress: RunProgress, found: RunLook) -> list[dict[str, Any]]:
    table = {one.name: one for one in progress.members}
    words = {"updated": "removed", "updating": "removing"}
    rows = [_member(table[one.name], found.seen.get(one.name)) for one in plan.leaving]
    return [{**row, "state": words.get(row["state"], row["state"])} for row in rows]
