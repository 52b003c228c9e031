"""How long the histories of runs are, on servers that other tests keep busy too."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

from temporalio.api.enums.v1 import EventType
from temporalio.api.history.v1 import HistoryEvent

DEADLOCK = "[TMPRL1101]"
"""How the SDK marks a workflow task that took 2 s, which happens to any when its process stands still."""


def kinds(events: Iterable[HistoryEvent]) -> list[str]:
    """The events' types, in order, without the prefix they share."""
    return [EventType.Name(event.event_type).removeprefix("EVENT_TYPE_") for event in events]


def late_tasks(events: Iterable[HistoryEvent]) -> int:
    """Workflow tasks that timed out because no worker came to them in time."""
    return kinds(events).count("WORKFLOW_TASK_TIMED_OUT")


def deadlocked(event: HistoryEvent) -> bool:
    """Whether a workflow task failed because its process stood still."""
    return DEADLOCK in event.workflow_task_failed_event_attributes.failure.message


def length(events: Iterable[HistoryEvent]) -> int:
    """Events of a run as it is on a server and workers that keep up.

    A task that no worker came to in time costs two more; one that was begun and came to nothing three, and so does one
    that only prolongs the time of a local activity.
    """
    found = list(events)
    extra = 0
    for event, after in pairwise([*found, HistoryEvent()]):
        if event.event_type == EventType.EVENT_TYPE_WORKFLOW_TASK_TIMED_OUT:
            extra += 3 if event.workflow_task_timed_out_event_attributes.started_event_id else 2
        elif event.event_type == EventType.EVENT_TYPE_WORKFLOW_TASK_FAILED and deadlocked(event):
            extra += 3
        elif event.event_type == EventType.EVENT_TYPE_WORKFLOW_TASK_COMPLETED:
            extra += 3 * (after.event_type == EventType.EVENT_TYPE_WORKFLOW_TASK_SCHEDULED)
    return len(found) - extra
