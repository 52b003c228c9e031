"""Why a pod is where it is, or still waits: its recorded attempts and its record in etcd, together.

Pure values and how they become plain ones for `-o json|yaml`. Histories are read by `reading.history`
and fetched by `reading.attempts`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

from wharfinger.objects.model.pod import Pod
from wharfinger.process.records import AttemptRecord
from wharfinger.scheduling.reading.group_members import REFUSED
from wharfinger.scheduling.reading.history import CALL, WAITED, Attempt, Step
from wharfinger.scheduling.reading.promised_pods import PromiseStory

if TYPE_CHECKING:
    from wharfinger.scheduling.reading.preempted import Departure

PROMISED = "promised"
"""State of a pod whose bind the Kubernetes API has not shown yet."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """Everything that is known of a pod's scheduling."""

    pod: str
    """`namespace/name`."""
    state: str
    """`bound`, `pending`, `deleted`, ... as etcd says now."""
    node: str | None
    attempts: tuple[Attempt, ...]
    """Oldest first."""
    record: AttemptRecord | None
    """The refusal that the pod waits with."""
    missing: tuple[str, ...]
    """What can no longer be told, and why."""
    held: str = ""
    """Why nothing is tried: an unserved scheduler name, the pod's scheduling gates, or what its gang lacks."""
    doubts: tuple[str, ...] = ()
    """What an API server would refuse of a pod that waits: it is decided as it is stored."""
    calling: str = ""
    """Which plugin the pod's open attempt calls, and how that goes; empty while it calls none."""
    left: Departure | None = None
    """For which preemptor the pod left, or has to leave; None for none that is known."""
    left_unknown: str = ""
    """Why none is known of a pod that is gone; empty where there is nothing to say."""
    query: str = ""
    """Finds all of its runs in the Temporal UI."""
    kubernetes: PromiseStory | None = None
    """What the Kubernetes API shows of it; None where there is none."""


def explain(
    name: str,
    pod: Pod | None,
    bound_by: str,
    record: AttemptRecord | None,
    attempts: Iterable[Attempt],
    *,
    limit: int | None = None,
    query: str = "",
) -> Explanation:
    """Put together what was found.

    `pod` is None when etcd has none; `bound_by` is its annotation `<workflow id>@<run id>`, or empty. A record
    of an earlier life of the pod's name counts for nothing. `limit` is how many attempts were asked for; `query` finds
    them in Temporal.
    """
    if record is not None and (pod is None or record.create_revision not in (0, pod.create_revision)):
        record = None
    told = _with_waits(sorted(attempts, key=lambda attempt: attempt.started), pod, record)
    return Explanation(
        pod=name,
        state=state_of(pod),
        node=pod.node_name or None if pod else None,
        attempts=told,
        record=record,
        missing=tuple(missing_parts(pod, bound_by, record, told, limit)),
        calling=called_now(told) if pod is not None and not pod.finished else "",
        query=query,
    )


def _with_waits(attempts: Sequence[Attempt], pod: Pod | None, record: AttemptRecord | None) -> tuple[Attempt, ...]:
    """The attempts, with the waits of a pod that a cohort refused: it waits in etcd, between two runs.

    A lone pod and a gang wait in their own run, which has the step already.
    """
    told = list(attempts)
    for number, one in enumerate(attempts):
        if one.many is None or one.ended is None or one.outcome != REFUSED or any(s.name == WAITED for s in one.steps):
            continue
        following = attempts[number + 1] if number + 1 < len(attempts) else None
        if following is not None and (following.started <= one.ended or _lives_differ(one, following)):
            continue  # its own attempt began when the record was written; or the pod was deleted
        if following is not None:
            woken = following.cause.removeprefix("woken by ") if following.cause.startswith("woken by ") else ""
            seconds = (following.started - one.ended).total_seconds()
            told[number] = replace(one, steps=[*one.steps, Step(WAITED, one.ended, seconds, detail=woken)])
        elif state_of(pod) == "pending" and record is not None and record.run_id == one.run_id:
            told[number] = replace(one, outcome="waiting", steps=[*one.steps, Step(WAITED, one.ended, None)])
    return tuple(told)


def _lives_differ(one: Attempt, other: Attempt) -> bool:
    """Whether the attempts were for different pods of the name."""
    first, second = (attempt.placement.get("create_revision", 0) for attempt in (one, other))
    return 0 not in (first, second) and first != second


def called_now(attempts: Iterable[Attempt]) -> str:
    """Which plugin an open attempt calls, or calls again after a pause, and how that goes; empty for none.

    An attempt for an earlier pod of the name may have begun later, and ended.
    """
    still_open = [attempt for attempt in attempts if attempt.ended is None]
    if not still_open or not still_open[-1].steps:
        return ""
    *before, last = still_open[-1].steps
    if last.seconds is not None:
        return ""
    if last.name == CALL:
        return last.detail
    paused = last.name == WAITED and before and before[-1].name == CALL
    return f"{before[-1].detail}, so it is called again" if paused else ""


def state_of(pod: Pod | None) -> str:
    """How a pod stands, in one word."""
    if pod is None:
        return "deleted"
    if pod.finished:
        return "finished"
    if pod.bound:
        return "bound"
    return "terminating" if pod.deletion_timestamp else "pending"


def missing_parts(
    pod: Pod | None, bound_by: str, record: AttemptRecord | None, attempts: tuple[Attempt, ...], limit: int | None
) -> Iterable[str]:
    """Sentences about attempts that were not asked for, or that Temporal keeps no more: its retention, a deletion."""
    if attempts and attempts[0].attempt > 1:
        last = attempts[0].attempt - 1
        which = "attempt 1 is" if last == 1 else f"attempts 1 to {last} are"
        cut = limit is not None and len(attempts) >= limit
        yield f"{which} {f'older than the {limit} asked for' if cut else 'no longer kept by Temporal (retention)'}"
    runs = {attempt.run_id for attempt in attempts}
    run = bound_by.rpartition("@")[2]
    if run and run not in runs:
        yield f"the attempt that bound the pod ({bound_by}) is no longer kept by Temporal (retention)"
    if pod is not None and pod.bound and not bound_by:
        yield "the pod was not bound by wharfinger"
    if record is not None and record.run_id and record.run_id not in runs:
        yield f"attempt {record.attempt}, which the pod waits with, is no longer kept by Temporal (retention)"


def to_plain(explanation: Explanation) -> dict[str, Any]:
    """As plain values, times in RFC 3339."""
    return {
        "pod": explanation.pod,
        "state": explanation.state,
        "node": explanation.node,
        "held": explanation.held,
        "doubts": list(explanation.doubts),
        "calling": explanation.calling,
        "left": explanation.left.to_plain() if explanation.left is not None else None,
        "missing": list(explanation.missing),
        "query": explanation.query,
        "upstream": explanation.kubernetes.to_plain() if explanation.kubernetes is not None else None,
        "record": explanation.record.model_dump(mode="json") if explanation.record else None,
        "attempts": [_attempt(attempt) for attempt in explanation.attempts],
    }


def _attempt(attempt: Attempt) -> dict[str, Any]:
    computation = attempt.computation
    return {
        "attempt": attempt.attempt,
        "outcome": attempt.outcome,
        "cause": attempt.cause,
        "started": _text(attempt.started),
        "ended": _text(attempt.ended),
        "workflowId": attempt.workflow_id,
        "runId": attempt.run_id,
        "node": attempt.node,
        "message": attempt.message,
        "nominatedNode": attempt.nominated_node,
        "victims": attempt.victims,
        "victimCount": attempt.victim_count,
        "nodes": computation.get("nodes", 0),
        "feasible": computation.get("feasible", 0),
        "refusals": attempt.refusals,
        "ranking": attempt.ranking,
        "passedOver": attempt.passed_over,
        "pluginData": attempt.plugin_data,
        "notes": list(attempt.notes),
        "steps": [asdict(step) | {"started": _text(step.started)} for step in attempt.steps],
        "computation": computation,
    }


def _text(time: datetime | None) -> str | None:
    return time.isoformat(timespec="milliseconds").replace("+00:00", "Z") if time else None
