"""Why a run was started, and what woke a pod, in words: from a run's first event and the failure that ended it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from temporalio.api.common.v1 import Payload
from temporalio.api.failure.v1 import Failure
from temporalio.api.history.v1 import HistoryEvent

from wharfinger.process.names import AFTER_COHORT
from wharfinger.scheduling.contracts.attempts import ONLY_ASSUMED

CAUSES = {
    "gang complete": "started when enough members of the gang were there",
    "gang changed": "started when the gang had changed",
    "gates gone": "started when nothing held the pod back any more",
    "record gone": "started again, as its last record was gone",
    "seen": "started when the pod was seen",
    "run failed": "started again, as the run of its group failed",
    "unanswered": "started again, as etcd or the Kubernetes API did not answer the run of its group",
    "start failed": "started again, as Temporal had not accepted the start of its group",
    "chain gone": "started again, as the chain that its record names was gone",
    "unconfirmed": "started again, as etcd showed no outcome of the start before",
    "take-over": "started by a worker that took the pod over",
    "level": "started again, as each pod that waits is after some minutes",
}
"""Reasons of a start, the most informative first, for pods that were queued for several reasons."""

WAKES = {
    "safety timer": "the safety timer",
    "OwnAttempt": "a cohort that could not place it",
    "NominationLapsed": "a nomination that no longer holds",
    "VictimsOverdue": "evicted pods that did not leave in time",
    "Sweep": "the regular look at all waiting pods",
    "ConfigurationChanged": "a change of the configuration",
    "TakeOver": "a worker that took the pod over",
    "WakeUnanswered": "the wake before, after which etcd showed no attempt",
    "Unconfirmed": "a worker that had heard of no outcome",
}
"""What woke a pod, where that is no event of the cluster."""


def woken_by(failure: Failure) -> str:
    """What ended a refused attempt's wait, from the failure that it ended with; empty when unknown."""
    wake = _wake_of(failure)
    return wake_told(wake) if wake is not None else ""


def _wake_of(failure: Failure) -> dict[str, Any] | None:
    """The wake with which a refused attempt ended; None for other failures."""
    wake = first_of(failure.application_failure_info.details.payloads)
    return wake if failure.application_failure_info.type == "Unschedulable" and isinstance(wake, dict) else None


def wake_told(wake: Mapping[str, Any]) -> str:
    """A wake (`contracts.attempts.Wake`) in words; empty where no pod was woken."""
    event = wake.get("event", "")
    if event == ONLY_ASSUMED.event:
        return ""  # it did not wait at all
    if event in WAKES:
        return WAKES[event]
    if not event:
        return "a signal without an event" if not wake.get("revision") else f"a change at revision {wake['revision']}"
    plugin = f" ({wake['plugin']} says it may help)" if wake.get("plugin") else ""
    return f"{event} {wake.get('object', '')}".strip() + plugin


def cause_of(event: HistoryEvent) -> str:
    """Why the run was started that this event begins."""
    started = event.workflow_execution_started_event_attributes
    if started.HasField("continued_failure"):
        failure = started.continued_failure
        kind = failure.application_failure_info.type or "failure"
        waker = woken_by(failure)
        if waker:
            return f"woken by {waker}"
        if (_wake_of(failure) or {}).get("event") == ONLY_ASSUMED.event:
            return "tried again, as only pods whose binds were not confirmed were in the way"
        return f"tried again after {kind}"
    reason = _reason(event)
    if reason.startswith(AFTER_COHORT):
        return "started for the pod alone, after a cohort could not place it"
    if reason:
        return started_for(reason)
    return "started by hand" if started.continued_execution_run_id else "started"


def started_for(reason: str) -> str:
    """The reason of a dispatcher's start (`woken_by` of its input) in words."""
    several = reason.split(", ")
    return next((told for cause, told in CAUSES.items() if cause in several), f"started: {reason}")


def number_of(event: HistoryEvent) -> int:
    """The number of the attempt that this event begins, among those of the pod."""
    started = event.workflow_execution_started_event_attributes
    last = first_of(started.continued_failure.application_failure_info.details.payloads)
    before, made = (count_in(of, name) for of, name in ((started_with(event), "attempts_before"), (last, "attempts")))
    return max(max(1, started.attempt) + before, made + 1)


def count_in(of: Any, name: str) -> int:
    """The number of that name in what a history has; 0 for anything else."""
    count = of.get(name, 0) if isinstance(of, dict) else 0
    return count if isinstance(count, int) else 0


def cohort_before(event: HistoryEvent) -> str:
    """`<workflow id>@<run id>` of the cohort that left the pod to the chain that this event begins; empty for none."""
    reason = _reason(event)
    return reason.removeprefix(AFTER_COHORT) if reason.startswith(AFTER_COHORT) else ""


def _reason(event: HistoryEvent) -> str:
    request = started_with(event)
    return str(request.get("woken_by", "")) if isinstance(request, dict) else ""


def started_with(event: HistoryEvent) -> Any:
    """The input of the run that this event started, as plain JSON."""
    return first_of(event.workflow_execution_started_event_attributes.input.payloads)


def first_of(payloads: Sequence[Payload]) -> Any:
    """The first payload as plain JSON; None when there is none or it is something else."""
    if not payloads:
        return None
    try:
        return json.loads(payloads[0].data)
    except ValueError:
        return None
