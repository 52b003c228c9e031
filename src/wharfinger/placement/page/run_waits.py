"""What keeps a staged update run from going on: approvals, waits, clusters, the budget, its turn, a pause, its state.

Computed from the status and the plan of `reading.observe_update_runs`; `page.update_runs` shows it. What a person can
do first comes first: `page.update_runs` has how.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from wharfinger.objects.documents.times import seconds_since
from wharfinger.page.follow.plain import text
from wharfinger.placement.reading.observe_placements import why_unwell
from wharfinger.placement.state.hub_view import HubView

MOST_WAITS = 100

APPROVAL, TIMED, CLUSTER, BUDGET, TURN, PAUSE, STATE = "approval", "time", "cluster", "budget", "turn", "pause", "state"
"""What a run may wait for: an approval, the end of a wait, a cluster, room within `maxConcurrency`, its turn or a plan,
a retry, or that its state is Run again.
"""
UNDER_WAY = ("updating", "rolling back", "removing")
"""States of members whose work is written, and whose result is awaited."""
TO_COME = ("waiting", "waits for the rollback")


def waits_of(
    view: HubView,
    status: Mapping[str, Any],
    plan: Mapping[str, Any] | None,
    *,
    recorded: str,
    now: datetime,
    newest: Sequence[Mapping[str, str]] = (),
) -> Iterator[dict[str, Any]]:
    """What keeps a run that has not ended from going on: [{`kind`, `sentence`, ...}], what a person can do first.

    `status` and `plan` have the fields of `update-run status` and `plan`. `recorded`: when its progress was recorded
    last, RFC 3339 or empty; it waits at least since then. `newest`: the last noted change of its state, or none.
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
        yield _of_state(status["state"], newest) | since
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
        if row["state"] in UNDER_WAY:
            yield _of_member(view, "removal", row, since, None)


def planned_stage(plan: Mapping[str, Any] | None, stage: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """What was planned of a stage of a run's status, where there is a plan."""
    return next((one for one in (plan or {}).get("stages", ()) if one["stage"] == stage["stage"]), None)


def _of_state(state: str, newest: Sequence[Mapping[str, str]]) -> dict[str, Any]:
    """The wait of a run that is stopped or planned only, and who last gave it that state, where that is noted."""
    what = "it is stopped" if state == "Stop" else "it is planned only"
    for one in newest:
        if one["state"] == state and one["who"]:
            what += f"; last noted is {one['state']} by {one['who']} at {one['time']}"  # `apply` notes nothing
            what += f": {one['why']}" if one["why"] else ""
    return {"kind": STATE, "sentence": text(f"its state to be Run again: {what}")}


def _of_members(
    view: HubView, stage: Mapping[str, Any], plan: Mapping[str, Any] | None, since: dict[str, Any]
) -> Iterator[dict[str, Any]]:
    """Members of a stage whose result is awaited, and what waits behind them."""
    planned = planned_stage(plan, stage)
    under_way = [row for row in stage["members"] if row["state"] in UNDER_WAY]
    for row in under_way:
        yield _of_member(view, stage["stage"], row, since, planned["deadlineSeconds"] if planned else None)
    to_come = [row["cluster"] for row in stage["members"] if row["state"] in TO_COME]
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
    why = ": ".join(filter(None, (row["why"], why_silent(view, row["cluster"]))))
    said = f"cluster {row['cluster']}, which is not available yet{f': {why}' if why else ''}"
    return {
        "kind": CLUSTER,
        "stage": text(stage),
        "cluster": text(row["cluster"]),
        "why": text(why) or None,
        "deadlineSeconds": deadline,
        "sentence": text(said),
    } | since


def why_silent(view: HubView, name: str) -> str:
    """Why a member says nothing; empty when it answers."""
    seen = view.members.get(name)
    if seen is None:
        return "there is no such member cluster"
    return "" if seen.reachable else why_unwell(seen) or "its agent is away"
