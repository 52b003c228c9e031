"""Staged update runs, each with what it waits for now: status and plan of `wharfinger update-run`, put together.

Everything is computed by `reading.observe_update_runs`, as the commands' answers are. What is added here is who did
what, and what a viewer can do about a run; `run_waits` adds what keeps it waiting, and since when.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any
from urllib.parse import quote

from wharfinger.errors import DoesNotApply, NotFound, UsageError
from wharfinger.etcd.store import Store
from wharfinger.objects.model.texts import counted
from wharfinger.page.follow.plain import bounded, text
from wharfinger.placement.contracts import placement_keys
from wharfinger.placement.contracts.delivery_records import RETRIES, RunRetryRecord
from wharfinger.placement.page.hubs import HubReading
from wharfinger.placement.page.run_waits import MOST_WAITS, TO_COME, UNDER_WAY, planned_stage, waits_of, why_silent
from wharfinger.placement.reading.observe_update_runs import check_name, plan_mapping, plan_of, run_of, status_of
from wharfinger.placement.reading.update_runs import state_changes
from wharfinger.placement.state.hub_view import HubView
from wharfinger.placement.state.update_runs_view import RunRecords, SeenRun
from wharfinger.process.committing import readable
from wharfinger.process.names import update_run_id

MOST_RUNS = 200
"""Runs of the list; those that are under way come first."""
APPROVE, STOP, RESUME, RETRY = "approve", "stop", "resume", "retry"
NAMED = 5
"""Clusters that a sentence names; the others are counted."""
_AGAIN = ("failed", "skipped", "rolled back", "rollback failed")
"""States of members that a retry updates again."""
_STATES = {"Stop": "it was stopped", "Run": "it was resumed"}
"""What a change of the object's state is called."""


class UpdateRunPageReader:
    """Answers about update runs."""

    def __init__(
        self,
        store: Store,
        reading: HubReading,
        *,
        utc_now: Callable[[], datetime],
        cluster: str,
        ui: str,
        namespace: str,
    ) -> None:
        """`ui`: base URL of Temporal's own UI, empty for none; `namespace`: Temporal's."""
        self._store = store
        self._reading = reading
        self._utc_now = utc_now
        self._cluster = cluster
        self._ui = ui
        self._namespace = namespace

    async def one(self, name: str, namespace: str = "") -> dict[str, Any]:
        """One run. Raises `NotFound`, `StoreError`, and `UsageError` for what names no run."""
        check_name(name, namespace)
        view = (await self._reading.view()).view
        run = run_of(view, name, namespace)
        records = view.update_runs.of(run.reference, run.name, run.identity)
        status = status_of(view, run)
        plan, note = self._plan(view, run, records)
        ended = status["outcome"] is not None
        recorded = records.progress.time if records.progress is not None else ""
        changes = await self._state_changes(run)
        waits = (
            []
            if ended
            else list(waits_of(view, status, plan, recorded=recorded, now=self._utc_now(), newest=changes[:1]))
        )
        rows = {row["cluster"]: row for stage in (plan or {}).get("stages", ()) for row in stage["members"]}
        told: dict[str, Any] = bounded(status)
        return told | {
            "namespace": text(namespace) or None,
            "stages": [_stage(view, one, plan, rows) for one in status["stages"]] or _planned(plan),
            "waits": waits[:MOST_WAITS],
            "moreWaits": max(0, len(waits) - MOST_WAITS),
            "frozen": bool(plan and plan["frozen"]),
            "note": note,
            "actions": run_actions(status, plan),
            "progressTime": recorded or None,
            "supersedes": run.supersedes,
            "delivers": view.delivery.rollouts[run.reference].run == run.holder
            if run.reference in view.delivery.rollouts
            else False,
            "history": await self._history(run, records, changes, ended=ended),
            "link": self._link(run),
        }

    def rows(self, view: HubView) -> list[dict[str, Any]]:
        """Every run in short, of a view that was read already: those under way first, then by name."""
        found = sorted(view.update_runs.runs.items())
        records = {key: view.update_runs.of(run.reference, run.name, run.identity) for key, run in found}
        found.sort(key=lambda one: records[one[0]].over)
        return [self._row(view, run) for _, run in found[:MOST_RUNS]]

    def _row(self, view: HubView, run: SeenRun) -> dict[str, Any]:
        status = status_of(view, run)
        members = [member["state"] for stage in status["stages"] for member in stage["members"]]
        return {
            "placement": text(run.reference),
            "run": text(run.name),
            "namespace": text(run.run.placement.namespace) or None,
            "state": status["state"],
            "phase": text(status["phase"]),
            "outcome": status["outcome"],
            "why": text(status["why"]),
            "waitsFor": [text(key) for key in status["waitsFor"]],
            "stages": len(status["stages"]),
            "stagesEnded": sum(stage["state"] in ("ended", "rolled back") for stage in status["stages"]),
            "members": len(members),
            "membersDone": sum(state not in (*UNDER_WAY, *TO_COME) for state in members),
        }

    # --- inside -------------------------------------------------------------------------------

    def _plan(self, view: HubView, run: SeenRun, records: RunRecords) -> tuple[dict[str, Any] | None, str | None]:
        """The plan, as `update-run plan` has it; or why there is none."""
        try:
            return plan_mapping(run, plan_of(view, run), frozen=records.plan is not None), None
        except (NotFound, UsageError) as error:
            return None, text(str(error))

    async def _history(
        self, run: SeenRun, records: RunRecords, changes: Sequence[Mapping[str, str]], *, ended: bool
    ) -> list[dict[str, Any]]:
        """What is recorded of a run, with who did it, the newest first."""
        found: list[dict[str, Any]] = []

        def add(time: str, what: str, who: str = "", why: str = "") -> None:
            found.append({"time": time or None, "what": what, "who": text(who) or None, "why": text(why) or None})

        if records.plan is not None:
            add(records.plan.time, "the plan was frozen")
        for key, approval in records.approvals.items():
            add(approval.time, f"{text(key)} was approved", approval.who, approval.why)
        if records.retries:
            key = placement_keys.run_record(run.reference, run.name, run.identity, RETRIES)
            kv = (await self._store.get(key)).kv
            retry = RunRetryRecord.model_validate_json(kv.value) if kv is not None else RunRetryRecord()
            add(retry.time, f"retry {retry.count}", retry.who, retry.why)
        for one in changes:
            add(one["time"], _STATES.get(one["state"], text(one["state"])), one["who"], one["why"])
        if records.progress is not None and not ended:
            add(records.progress.time, "its progress was recorded last")
        if records.end is not None:
            add(records.end.time, f"it ended: {records.end.outcome}", "", records.end.why)
        return sorted(found, key=lambda one: one["time"] or "", reverse=True)

    async def _state_changes(self, run: SeenRun) -> list[dict[str, str]]:
        """Who stopped and resumed it, by its object; empty when that is of another life by now."""
        kv = (await self._store.get(placement_keys.update_run(run.run.placement.namespace, run.name))).kv
        if kv is None or kv.create_revision != run.identity:
            return []
        return state_changes(readable(kv.value) or {})

    def _link(self, run: SeenRun) -> str | None:
        if not self._ui:
            return None
        workflow = quote(update_run_id(self._cluster, run.reference, run.name, run.identity), safe="")
        return f"{self._ui}/namespaces/{quote(self._namespace, safe='')}/workflows/{workflow}"


def _stage(
    view: HubView, stage: Mapping[str, Any], plan: Mapping[str, Any] | None, before: Mapping[str, Mapping[str, Any]]
) -> dict[str, Any]:
    """A stage with what was planned of it."""
    planned = planned_stage(plan, stage)
    told: dict[str, Any] = bounded(stage)
    told["members"] = [
        bounded(row)
        | {
            "online": row["cluster"] in view.members and view.members[row["cluster"]].there,
            "had": before.get(row["cluster"], {}).get("snapshot"),
            "problem": text(why_silent(view, row["cluster"])) or None,
        }
        for row in stage["members"]
    ]
    return told | _tasks(planned)


def _planned(plan: Mapping[str, Any] | None) -> list[dict[str, Any]]:
    """The stages of a run that has not begun."""
    told = []
    for stage in (plan or {}).get("stages", ()):
        members = [
            {"cluster": text(one["cluster"]), "state": "waiting", "why": "", "online": None, "problem": None}
            | {"had": one["snapshot"]}
            for one in stage["members"]
        ]
        told.append(
            {"stage": text(stage["stage"]), "state": "not started", "waitsFor": [], "awaitedApprovals": []}
            | {"remainingSeconds": None, "approvals": [], "members": members}
            | _tasks(stage)
        )
    return told


def _tasks(planned: Mapping[str, Any] | None) -> dict[str, Any]:
    if planned is None:
        return {"before": [], "after": [], "maxConcurrency": None}
    names = ("before", "after", "maxConcurrency", "failures", "onFailure", "deadlineSeconds")
    return {name: planned[name] for name in names}


# --- what a viewer can do, as the commands of `wharfinger update-run` refuse --------------------


def run_actions(status: Mapping[str, Any], plan: Mapping[str, Any] | None) -> list[dict[str, Any]]:
    """The actions that mean something now: [{`verb`, `effect`}], approvals with `stage`, `when` and `key`, too.

    Args:
        status: the fields of `update-run status -o json`.
        plan: the fields of `update-run plan -o json`; None = there can be no plan.
    """
    found: list[dict[str, Any]] = []
    if status["outcome"] is None:
        found += _approvals(status, plan)
        if status["state"] == "Run":
            found.append({"verb": STOP, "effect": _stopped(status)})
        else:
            found.append({"verb": RESUME, "effect": _resumed(status, plan)})
    if why_no_retry(status) is None:
        found.append({"verb": RETRY, "effect": _retried(status)})
    return [one | {"effect": text(one["effect"])} for one in found]


def why_no_retry(status: Mapping[str, Any]) -> str | None:
    """Why a run cannot be retried; None when it can be: it failed, or has failed or skipped members."""
    run, outcome = status["run"], status["outcome"]
    if outcome in ("gone", "superseded"):
        return f"run {run} has ended ({outcome}): start another one"
    if status["state"] == "Initialize" and outcome is None:
        return f"run {run} is not started: resume it"
    if status["rollback"] and outcome is None:
        return f"run {run} is rolling back: {status['why']}"
    if outcome in ("failed", "aborted") or _to_try_again(status):
        return None
    return f"run {run} has no failed or skipped member: there is nothing to try again"


def check_retry(status: Mapping[str, Any]) -> None:
    """Raises `DoesNotApply` for a run with nothing to retry."""
    why = why_no_retry(status)
    if why is not None:
        raise DoesNotApply(text(why))


def _approvals(status: Mapping[str, Any], plan: Mapping[str, Any] | None) -> Iterable[dict[str, Any]]:
    stages = status["stages"]
    for place, stage in enumerate(stages):
        for key in stage["awaitedApprovals"]:
            when = "after" if key.endswith(".after") else "before"
            effect = _begun(stage, plan) if when == "before" else _ended(stage, stages[place + 1 :], status)
            if status["state"] == "Stop":
                effect += " The run is stopped: the approval counts when it is resumed."
            names = {"stage": text(stage["stage"]), "when": when, "key": text(key)}
            yield {"verb": APPROVE, "effect": effect} | names


def _begun(stage: Mapping[str, Any], plan: Mapping[str, Any] | None) -> str:
    """A stage starts."""
    names = [row["cluster"] for row in stage["members"]]
    if not names:
        return f"Stage {stage['stage']} starts. It has no cluster."
    planned = planned_stage(plan, stage)
    pace = f", {planned['maxConcurrency']} at a time" if planned is not None and len(names) > 1 else ""
    return f"Stage {stage['stage']} starts and updates {counted(names, NAMED)}{pace}."


def _ended(stage: Mapping[str, Any], later: Sequence[Mapping[str, Any]], status: Mapping[str, Any]) -> str:
    """A stage ends."""
    waits = stage["remainingSeconds"] is not None
    then = f"stage {later[0]['stage']} is next" if later else "no stage is left"
    if not later and status["removed"]:
        then += f", and the placement is removed from {counted([row['cluster'] for row in status['removed']], NAMED)}"
    return f"Stage {stage['stage']} ends{', once its wait is over' if waits else ''}. After it, {then}."


def _stopped(status: Mapping[str, Any]) -> str:
    started = [row["cluster"] for row in _members(status) if row["state"] in UNDER_WAY]
    waits = [stage["stage"] for stage in status["stages"] if stage["remainingSeconds"] is not None]
    said = ["Nothing new is started until the run is resumed."]
    said += [f"What was started finishes: {counted(started, NAMED)}."] if started else []
    said += [f"The wait after stage {name} keeps what is left of it." for name in waits]
    return " ".join(said)


def _resumed(status: Mapping[str, Any], plan: Mapping[str, Any] | None) -> str:
    if status["state"] != "Initialize":
        to_come = [row["cluster"] for row in _members(status) if row["state"] == "waiting"]
        left = f" Still to come: {counted(to_come, NAMED)}." if to_come else ""
        return f"The run goes on where it was stopped.{left}"
    first = next(iter((plan or {}).get("stages", ())), None)
    if first is None:
        return "The run starts as soon as it has a plan."
    asked = ", after its approval" if "Approval" in first["before"] else ""
    names = counted([one["cluster"] for one in first["members"]], NAMED) or "no cluster"
    return f"The run starts by its plan. Stage {first['stage']} is first{asked}: {names}."


def _retried(status: Mapping[str, Any]) -> str:
    again = counted(_to_try_again(status), NAMED)
    said = [f"By the same plan, these are updated again: {again}." if again else "The run is tried again."]
    said += [f"The run, which ended as {status['outcome']}, is opened again."] if status["outcome"] else []
    said += ["It stays stopped until it is resumed, too."] if status["state"] == "Stop" else []
    return " ".join(said)


def _members(status: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [*(row for stage in status["stages"] for row in stage["members"]), *status["removed"]]


def _to_try_again(status: Mapping[str, Any]) -> list[str]:
    return [row["cluster"] for row in _members(status) if row["state"] in _AGAIN]
