"""What scripts wait for: pure verdicts on the state of a fleet, and the wait for one.

Only the fleet's actor knows `complete` and `paused`, so a status counts only if it has observed the object's present
generation. `ready` and `deleted` come from the records themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Any

from wharfinger.etcd.store import Store
from wharfinger.fleet.model.rollout import RolloutStatus
from wharfinger.fleet.reading.fleet_summary import ready_count, updated
from wharfinger.fleet.state.fleet_pictures import Picture
from wharfinger.fleet.state.fleet_reading import changes, existing, read
from wharfinger.process.waiting import Opening, Verdict, wait_until


class Goal(StrEnum):
    """What is waited for."""

    COMPLETE = "complete"
    READY = "ready"
    PAUSED = "paused"
    DELETED = "deleted"


Namer = Callable[[Mapping[str, Any]], str]
"""From a template as written to a name that equal ones share."""


def judge(picture: Picture, goal: Goal, name: Namer) -> Verdict:
    """Whether the goal is reached, cannot be reached any more, or is to be waited for."""
    if goal is Goal.DELETED:
        return _deleted(picture)
    if picture.deleting:
        return Verdict("failed", "it is being deleted" if picture.exists else "it was deleted")
    if goal is Goal.READY:
        return _ready(picture)
    if picture.status is None or not picture.observed:
        return Verdict("waiting", "the fleet's workflow has not looked at the present object yet")
    status = picture.status.status
    if invalid := _holds(status, "SpecInvalid"):
        return Verdict("failed", f"its spec is invalid: {invalid}")
    return _paused(picture, status) if goal is Goal.PAUSED else _complete(picture, status, name)


def _deleted(picture: Picture) -> Verdict:
    if not picture.exists:
        return Verdict("reached", "there is no such fleet")
    if not picture.deleting:
        return Verdict("waiting", "its deletion was not requested")
    count = len(picture.grants)
    return Verdict("waiting", f"{count} instances are left" if count != 1 else "1 instance is left")


def _ready(picture: Picture) -> Verdict:
    ready = ready_count(picture)
    words = f"{ready} of {picture.replicas} instances are ready"
    return Verdict("reached" if ready == picture.replicas else "waiting", words)


def _paused(picture: Picture, status: RolloutStatus) -> Verdict:
    for condition in ("Paused", "CanaryWaiting"):
        if reason := _holds(status, condition):
            return Verdict("reached", status.phase or reason)
    if status.rollout == "paused":
        return Verdict("reached", status.phase or "the rollout is paused")
    ended = picture.outcomes.get(picture.target)
    if ended is not None and status.rollout != "running" and not picture.spec.get("paused"):
        return Verdict("failed", f"the rollout of revision {picture.target} is over: {ended.outcome}")
    return Verdict("waiting", _progress(picture, status))


def _complete(picture: Picture, status: RolloutStatus, name: Namer) -> Verdict:
    wanted = name(picture.template)
    same = [number for number, record in picture.revisions.items() if name(record.template) == wanted]
    if not same:
        return Verdict("waiting", "the template's revision is not written yet")
    revision = picture.target if picture.target in same else max(same)
    ended = picture.outcomes.get(revision)
    if ended is not None and ended.outcome in ("failed", "aborted"):
        why = f": {ended.why}" if ended.why else ""
        return Verdict("failed", f"the rollout of revision {revision} {_ENDS[ended.outcome]}{why}")
    if status.rollout in ("failed", "aborted"):
        return Verdict("failed", f"the rollout {_ENDS[status.rollout]}: {status.phase}".removesuffix(": "))
    stuck = next((one for one in status.conditions if one.status and one.reason in STOPPED), None)
    if stuck is not None:
        return Verdict("failed", f"the rollout stands still: {stuck.message or stuck.reason}")
    if revision == picture.target:
        if message := _holds(status, "PartitionComplete"):
            return Verdict("reached", f"revision {revision} runs as far as the partition allows: {message}")
        counts = {picture.replicas, len(picture.grants), updated(picture, same), status.ready, status.updated}
        if ended is not None and status.rollout == ended.outcome == "completed" and len(counts) == 1:
            return Verdict(
                "reached", f"{status.ready} of {picture.replicas} instances are ready on revision {revision}"
            )
    return Verdict("waiting", _progress(picture, status))


STOPPED = ("ProgressDeadlineExceeded", "FailureThresholdExceeded")
"""Reasons of `Paused` for a rollout that stopped by itself."""
_ENDS = {"failed": "failed", "aborted": "was aborted"}


def _holds(status: RolloutStatus, kind: str) -> str:
    """Why a condition holds; empty when it does not."""
    for condition in status.conditions:
        if condition.type == kind and condition.status:
            return condition.message or condition.reason or kind
    return ""


def _progress(picture: Picture, status: RolloutStatus) -> str:
    return status.phase or f"{ready_count(picture)} of {picture.replicas} ready, {updated(picture)} updated"


async def wait(
    opening: Opening, tenant: str, goal: Goal, timeout: float, *, name: Namer, say: Callable[[str], None]
) -> Verdict:
    """Wait until the goal is reached, cannot be reached any more, or the time (seconds) is over, as `wait_until` does.

    Raises `NotFound` when there is no such fleet, except for the goal `deleted`.
    """
    found = goal is Goal.DELETED

    async def look(store: Store) -> Verdict:
        nonlocal found
        estate = await read(store, tenant)
        picture = estate.fleet(tenant) if found else existing(estate, tenant)
        found = True
        return judge(picture, goal, name)

    return await wait_until(opening, lambda store: changes(store, tenant), look, timeout, say=say)
