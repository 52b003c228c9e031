"""A pod's part in the run of a cohort or a gang, read as an attempt of that pod.

The attempt is told as that of a lone pod: what was decided for it, what became of it, why it was among the pods, and
only the steps that were about it. Pure: who fetches histories is `reading.attempts`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from pydantic import ValidationError
from temporalio.api.history.v1 import HistoryEvent

from wharfinger.objects.model.pod import PodKey
from wharfinger.scheduling.contracts.cohort_scheduling import (
    BoundMany,
    CohortInput,
    CohortPod,
    PlacedMany,
    Skipped,
)
from wharfinger.scheduling.contracts.group_payloads import placed_alone, refused_alone
from wharfinger.scheduling.reading.causes import started_for, started_with, wake_told
from wharfinger.scheduling.reading.history import Attempt, read_attempt, results

CONTENDED, REFUSED, BOUND, GONE, SKIPPED = "contended", "refused", "bound", "gone", "skipped"
OTHERS_BOUND = "others bound"
"""The step in which the pods of a group are bound, for a pod that waits for its record meanwhile."""
SEEN = "seen"
"""Why a pod is started that is new; it is written for all pods together."""
FEW = 10
"""Other pods of a group that are named, at most."""


def read_member(workflow_id: str, run_id: str, events: Sequence[HistoryEvent], key: PodKey) -> Attempt | None:
    """The attempt that this run was for the pod; None when the run contains nothing about it."""
    attempt = read_attempt(workflow_id, run_id, events)
    if attempt is None:
        return None
    try:
        asked = CohortInput.model_validate(started_with(events[0]))
        placed = PlacedMany.model_validate(attempt.placement)
        commits = [BoundMany.model_validate(answer) for answer in results(events, "bind_many")]
    except ValidationError:
        return None
    member = next((one for one in asked.pods if (one.namespace, one.name) == key), None)
    if member is not None:
        attempt = replace(attempt, attempt=member.attempt, cause=_cause(attempt, member, asked.woken_by))
    for index, seat in enumerate(placed.seats):
        if (seat.namespace, seat.name) == key:
            return _seated(attempt, placed, index, commits)
    for away in placed.turned_away:
        if (away.namespace, away.name) == key:
            refused = refused_alone(placed, away)
            return replace(
                attempt,
                placement=refused.model_dump(mode="json"),
                many=placed,
                message=refused.message,
                node=None,
                outcome=REFUSED if attempt.ended is not None else attempt.outcome,
                steps=[replace(one, name=OTHERS_BOUND) if one.name == "bind_many" else one for one in attempt.steps],
                notes=_company(placed, key),
            )
    for skipped in placed.skipped:
        if (skipped.namespace, skipped.name) == key:
            return _skipped(attempt, skipped)
    # Nothing was decided yet, or deciding failed for all: what the run says is about each of its pods.
    return attempt if member is not None and not attempt.placement else None


def _cause(attempt: Attempt, member: CohortPod, of_all: str) -> str:
    """Why this pod was among the pods of its cohort; `of_all`: the reasons of all of them."""
    if attempt.attempt > 1:  # the run itself was tried again
        return attempt.cause
    if member.wake is not None and (woken := wake_told(member.wake.model_dump())):
        return f"woken by {woken}"
    if member.woken_by:
        return started_for(member.woken_by)
    return started_for(SEEN) if SEEN in of_all.split(", ") else attempt.cause


def _company(placed: PlacedMany, key: PodKey) -> tuple[str, ...]:
    """With which other pods the pod was decided."""
    pods = [(one.namespace, one.name) for one in placed.decided]
    others = [f"{namespace}/{name}" for namespace, name in pods if (namespace, name) != key]
    if len(others) > FEW:
        return (f"decided together with {len(others)} other pods",)
    return (f"decided together with {_enumerated(others)}",) if others else ()


def _enumerated(names: Iterable[str]) -> str:
    *most, last = names
    return f"{', '.join(most)} and {last}" if most else last


def _seated(run: Attempt, placed: PlacedMany, index: int, commits: Sequence[BoundMany]) -> Attempt:
    """The attempt of the pod of that seat, with its outcome; `run`: with all steps of the run."""
    seat, domain = placed.seats[index], (f"all of them in {placed.domain}",) if placed.domain else ()
    told = replace(
        run,
        placement=placed_alone(placed, index).model_dump(mode="json"),
        many=placed,
        message="",
        steps=[step for step in run.steps if step.name != "record_many"] if commits else run.steps,
        notes=_company(placed, PodKey(seat.namespace, seat.name)) + domain,
    )
    if not commits:
        return replace(told, node=seat.node)
    commit = commits[-1]
    for bound in commit.bound:
        if (bound.namespace, bound.name) == (seat.namespace, seat.name):
            return replace(told, node=bound.node, outcome=BOUND, notes=(*told.notes, *bound.notes))
    for lost in commit.unbound:
        if (lost.namespace, lost.name) == (seat.namespace, seat.name):
            outcome = REFUSED if lost.kind == "rejected" else lost.kind
            return replace(told, node=None, outcome=outcome, message=lost.message, steps=run.steps)
    return replace(told, node=None, outcome=CONTENDED if told.ended else told.outcome, steps=run.steps)


def _skipped(attempt: Attempt, skipped: Skipped) -> Attempt:
    """The attempt of a pod for which nothing was decided."""
    if not skipped.gone:
        return replace(attempt, placement={}, node=None, outcome=SKIPPED, message=f"not decided: {skipped.reason}")
    gone = {"kind": GONE, "reason": skipped.reason, "cause": skipped.gone}
    return replace(attempt, placement=gone, node=None, outcome=GONE, message="", steps=attempt.steps[:1])
