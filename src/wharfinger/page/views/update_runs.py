"""Staged update runs, each with what it waits for now: status and plan of `wharfinger update-run`, put together.

Everything is computed by `observe.update_runs`, as the commands' answers are. What is added here is which members keep
a run waiting and why, since when, and who did what.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from typing import Any
from urllib.parse import quote

from wharfinger.contracts.names import update_run_id
from wharfinger.contracts.update_run_records import RETRIES, RunRetryRecord
from wharfinger.engine.placements.hub_view import HubView
from wharfinger.engine.placements.update_runs_view import RunRecords, SeenRun
from wharfinger.errors import NotFound, UsageError
from wharfinger.manifests.times import seconds_since
from wharfinger.observe.placements import why_unwell
from wharfinger.observe.update_runs import check_name, plan_mapping, plan_of, run_of, status_of
from wharfinger.page.follow.plain import bounded, text
from wharfinger.page.views.hub_reading import HubReading
from wharfinger.registry import placement_keys
from wharfinger.registry.store import Store

MOST_RUNS = 200
"""Runs of the list; those that are under way come first."""
MOST_WAITS = 100

APPROVAL, TIMED, CLUSTER, BUDGET, TURN, PAUSE, STATE = "approval", "time", "cluster", "budget", "turn", "pause", "state"
"""What a run may wait for: an approval, the end of a wait, a cluster, room within `maxConcurrency`, its turn or a plan,
a retry, or that its state is Run again.
"""
_UNDER_WAY = ("updating", "rolling back", "removing")
"""States of members whose work is written, and whose result is awaited."""
_TO_COME = ("waiting", "waits for the rollback")


class UpdateRunLooks:
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
        waits = [] if ended else list(waits_of(view, status, plan, recorded, self._utc_now()))
        rows = {row["cluster"]: row for stage in (plan or {}).get("stages", ()) for row in stage["members"]}
        told: dict[str, Any] = bounded(status)
        return told | {
            "namespace": text(namespace) or None,
            "stages": [_stage(view, one, plan, rows) for one in status["stages"]] or _planned(plan),
            "waits": waits[:MOST_WAITS],
            "moreWaits": max(0, len(waits) - MOST_WAITS),
            "frozen": bool(plan and plan["frozen"]),
            "note": note,
            "progressTime": recorded or None,
            "supersedes": run.supersedes,
            "delivers": view.delivery.rollouts[run.reference].run == run.holder
            if run.reference in view.delivery.rollouts
            else False,
            "history": await self._history(run, records, ended=ended),
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
            "membersDone": sum(state not in (*_UNDER_WAY, *_TO_COME) for state in members),
        }

    # --- inside -------------------------------------------------------------------------------

    def _plan(self, view: HubView, run: SeenRun, records: RunRecords) -> tuple[dict[str, Any] | None, str | None]:
        """The plan, as `update-run plan` has it; or why there is none."""
        try:
            return plan_mapping(run, plan_of(view, run), frozen=records.plan is not None), None
        except (NotFound, UsageError) as error:
            return None, text(str(error))

    async def _history(self, run: SeenRun, records: RunRecords, *, ended: bool) -> list[dict[str, Any]]:
        """What is recorded of a run, with who did it, the newest first."""
        found: list[dict[str, Any]] = []

        def add(time: str, what: str, who: str = "", why: str = "") -> None:
            found.append({"time": time or None, "what": what, "who": text(who) or None, "why": text(why) or None})

        if records.plan is not None:
            add(records.plan.time, "the plan was frozen")
        for key, one in records.approvals.items():
            add(one.time, f"{text(key)} was approved", one.who, one.why)
        if records.retries:
            key = f"{placement_keys.run_records(run.reference, run.name, run.identity)}{RETRIES}"
            kv = (await self._store.get(key)).kv
            retry = RunRetryRecord.model_validate_json(kv.value) if kv is not None else RunRetryRecord()
            add(retry.time, f"retry {retry.count}", retry.who, retry.why)
        if records.progress is not None and not ended:
            add(records.progress.time, "its progress was recorded last")
        if records.end is not None:
            add(records.end.time, f"it ended: {records.end.outcome}", "", records.end.why)
        return sorted(found, key=lambda one: one["time"] or "", reverse=True)

    def _link(self, run: SeenRun) -> str | None:
        if not self._ui:
            return None
        workflow = quote(update_run_id(self._cluster, run.reference, run.name, run.identity), safe="")
        return f"{self._ui}/namespaces/{quote(self._namespace, safe='')}/workflows/{workflow}"


def waits_of(
    view: HubView, status: Mapping[str, Any], plan: Mapping[str, Any] | None, recorded: str, now: datetime
) -> Iterator[dict[str, Any]]:
    """What keeps a run that has not ended from going on: [{`kind`, `sentence`, ...}], what a person can do first.

    `recorded`: when its progress was recorded last, RFC 3339 or empty: it waits at least since then.
    """
    since: dict[str, Any] = {"since": recorded or None}
    phase = status["phase"]
    for stage in status["stages"]:
        for key in stage["awaitedApprovals"]:
            when = "after" if key.endswith(".after") else "before"
            verb = "ends" if when == "after" else "starts"
            yield {
                "kind": APPROVAL,
                "stage": text(stage["stage"]),
                "when": when,
                "key": text(key),
                "sentence": text(f"an approval before stage {stage['stage']} {verb}"),
            } | since
    if phase == "paused":
        yield {"kind": PAUSE, "sentence": text(f"a retry: {status['why']}")} | since
    elif status["state"] != "Run" and phase != "queued":
        what = "it is stopped" if status["state"] == "Stop" else "it is planned only"
        yield {"kind": STATE, "sentence": f"its state to be Run again: {what}"} | since
    elif not status["stages"] or phase in ("queued", "planning"):
        yield {"kind": TURN, "sentence": text(status["why"] or "its plan to be made")} | since
    for stage in status["stages"]:
        left = stage["remainingSeconds"]
        if left is not None:
            passed = seconds_since(recorded, now) if status["state"] == "Run" else 0.0
            yield {
                "kind": TIMED,
                "stage": text(stage["stage"]),
                "remainingSeconds": left,
                "leftSeconds": round(max(0.0, left - max(0.0, passed or 0.0)), 1),
                "sentence": text(f"the wait after stage {stage['stage']}"),
            } | since
        yield from _of_members(view, stage, plan, since)
    for row in status["removed"]:
        if row["state"] in _UNDER_WAY:
            yield _of_member(view, "removal", row, since, None)


def _of_members(
    view: HubView, stage: Mapping[str, Any], plan: Mapping[str, Any] | None, since: dict[str, Any]
) -> Iterator[dict[str, Any]]:
    """Members of a stage whose result is awaited, and what waits behind them."""
    planned = next((one for one in (plan or {}).get("stages", ()) if one["stage"] == stage["stage"]), None)
    under_way = [row for row in stage["members"] if row["state"] in _UNDER_WAY]
    for row in under_way:
        yield _of_member(view, stage["stage"], row, since, planned["deadlineSeconds"] if planned else None)
    to_come = [row["cluster"] for row in stage["members"] if row["state"] in _TO_COME]
    most = planned["maxConcurrency"] if planned else 0
    if under_way and to_come and len(under_way) >= most:
        yield {
            "kind": BUDGET,
            "stage": text(stage["stage"]),
            "maxConcurrency": most,
            "unfinished": len(under_way),
            "behind": len(to_come),
            "clusters": [text(name) for name in to_come[:MOST_WAITS]],
            "sentence": text(f"room in stage {stage['stage']}: {most} at a time, {len(to_come)} are still to come"),
        } | since


def _of_member(
    view: HubView, stage: str, row: Mapping[str, Any], since: dict[str, Any], deadline: float | None
) -> dict[str, Any]:
    why = ": ".join(filter(None, (row["why"], _why_unwell(view, row["cluster"]))))
    said = f"cluster {row['cluster']}, which is not available yet{f': {why}' if why else ''}"
    return {
        "kind": CLUSTER,
        "stage": text(stage),
        "cluster": text(row["cluster"]),
        "why": text(why) or None,
        "deadlineSeconds": deadline,
        "sentence": text(said),
    } | since


def _why_unwell(view: HubView, name: str) -> str:
    """Why a member says nothing; empty when it answers."""
    seen = view.members.get(name)
    if seen is None:
        return "there is no such member cluster"
    return "" if seen.reachable else why_unwell(seen) or "its agent is away"


def _stage(
    view: HubView, stage: Mapping[str, Any], plan: Mapping[str, Any] | None, before: Mapping[str, Mapping[str, Any]]
) -> dict[str, Any]:
    """A stage with what was planned of it."""
    planned = next((one for one in (plan or {}).get("stages", ()) if one["stage"] == stage["stage"]), None)
    told: dict[str, Any] = bounded(stage)
    told["members"] = [
        bounded(row)
        | {
            "online": row["cluster"] in view.members and view.members[row["cluster"]].there,
            "had": before.get(row["cluster"], {}).get("snapshot"),
            "problem": text(_why_unwell(view, row["cluster"])) or None,
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
