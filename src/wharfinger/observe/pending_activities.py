"""What an open run has done now: the tries of an activity that its history lacks yet, as Temporal describes them.

Temporal writes an activity's tries to the history when it ends. Until then, the last failure and the next try are in
the description of the run. Pure; `observe.attempts` asks for it, and `observe.history` has read the rest.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC

from google.protobuf.timestamp_pb2 import Timestamp
from temporalio.api.enums.v1 import PendingActivityState
from temporalio.api.workflow.v1 import PendingActivityInfo

from wharfinger.model.texts import one_line
from wharfinger.observe.history import Attempt, Step

LONGEST = 500
"""Characters of a failure."""
WAITED = "waited"


def is_doing(attempt: Attempt) -> bool:
    """Whether an activity of it has not ended."""
    return any(_is_open(step) for step in attempt.steps)


def with_pending(attempt: Attempt, pending: Sequence[PendingActivityInfo]) -> Attempt:
    """The attempt, whose open steps have their tries so far, the last failure, and when the next try is due."""
    by_name = {info.activity_type.name: info for info in pending}
    steps = [
        _told(step, info) if _is_open(step) and (info := by_name.get(step.name)) is not None else step
        for step in attempt.steps
    ]
    return replace(attempt, steps=steps)


def _is_open(step: Step) -> bool:
    return step.seconds is None and step.name != WAITED


def _told(step: Step, info: PendingActivityInfo) -> Step:
    tries = max(1, info.attempt)
    words = [step.detail] if step.detail else []
    if info.HasField("last_failure"):
        failure = info.last_failure
        why = failure.message or failure.cause.message or "for no reason that is told"
        words.append(f"try {tries - 1} failed ({one_line(why, LONGEST)}), and {_next(info, tries)}")
    return replace(step, tries=tries, detail=": ".join(words))


def _next(info: PendingActivityInfo, number: int) -> str:
    """What has become of the try of that number."""
    if info.state != PendingActivityState.PENDING_ACTIVITY_STATE_SCHEDULED:
        return f"try {number} is being made"
    due = info.next_attempt_schedule_time if info.HasField("next_attempt_schedule_time") else info.scheduled_time
    return f"try {number} is due at {_clock(due)}"


def _clock(time: Timestamp) -> str:
    return f"{time.ToDatetime(tzinfo=UTC):%H:%M:%S}Z"
