"""What a viewer can do about a staged update run as it stands: approve, stop, resume, retry, and what each would do.

Everything follows from the status and the plan of `reading.observe_update_runs`, as the commands of `wharfinger
update-run` refuse. `web.actions` carries actions out, and `page.update_runs` shows them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from wharfinger.errors import DoesNotApply
from wharfinger.page.follow.plain import text
from wharfinger.placement.page.run_waits import UNDER_WAY

APPROVE, STOP, RESUME, RETRY = "approve", "stop", "resume", "retry"
NAMED = 5
"""Clusters that a sentence names; the others are counted."""
_AGAIN = ("failed", "skipped", "rolled back", "rollback failed")
"""States of members that a retry updates again."""


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


# --- what each would do ---------------------------------------------------------------------------


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
    planned = next((one for one in (plan or {}).get("stages", ()) if one["stage"] == stage["stage"]), None)
    pace = f", {planned['maxConcurrency']} at a time" if planned is not None and len(names) > 1 else ""
    return f"Stage {stage['stage']} starts and updates {_named(names)}{pace}."


def _ended(stage: Mapping[str, Any], later: Sequence[Mapping[str, Any]], status: Mapping[str, Any]) -> str:
    """A stage ends."""
    waits = stage["remainingSeconds"] is not None
    then = f"stage {later[0]['stage']} is next" if later else "no stage is left"
    if not later and status["removed"]:
        then += f", and the placement is removed from {_named([row['cluster'] for row in status['removed']])}"
    return f"Stage {stage['stage']} ends{', once its wait is over' if waits else ''}. After it, {then}."


def _stopped(status: Mapping[str, Any]) -> str:
    started = [row["cluster"] for row in _members(status) if row["state"] in UNDER_WAY]
    waits = [stage["stage"] for stage in status["stages"] if stage["remainingSeconds"] is not None]
    said = ["Nothing new is started until the run is resumed."]
    said += [f"What was started finishes: {_named(started)}."] if started else []
    said += [f"The wait after stage {name} keeps what is left of it." for name in waits]
    return " ".join(said)


def _resumed(status: Mapping[str, Any], plan: Mapping[str, Any] | None) -> str:
    if status["state"] != "Initialize":
        to_come = [row["cluster"] for row in _members(status) if row["state"] == "waiting"]
        return f"The run goes on where it was stopped.{f' Still to come: {_named(to_come)}.' if to_come else ''}"
    first = next(iter((plan or {}).get("stages", ())), None)
    if first is None:
        return "The run starts as soon as it has a plan."
    asked = ", after its approval" if "Approval" in first["before"] else ""
    names = [one["cluster"] for one in first["members"]]
    return f"The run starts by its plan. Stage {first['stage']} is first{asked}: {_named(names) or 'no cluster'}."


def _retried(status: Mapping[str, Any]) -> str:
    again = _to_try_again(status)
    said = [f"By the same plan, these are updated again: {_named(again)}." if again else "The run is tried again."]
    said += [f"The run, which ended as {status['outcome']}, is opened again."] if status["outcome"] else []
    said += ["It stays stopped until it is resumed, too."] if status["state"] == "Stop" else []
    return " ".join(said)


# --- inside ---------------------------------------------------------------------------------------


def _members(status: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [*(row for stage in status["stages"] for row in stage["members"]), *status["removed"]]


def _to_try_again(status: Mapping[str, Any]) -> list[str]:
    return [row["cluster"] for row in _members(status) if row["state"] in _AGAIN]


def _named(names: Sequence[str]) -> str:
    """The first names, and how many others there are."""
    told = ", ".join(names[:NAMED])
    others = len(names) - NAMED
    return f"{told} and {others} more" if others > 0 else told
