"""How long the histories of runs are, on servers that other tests keep busy too."""

from __future__ import annotations

from collections.abc import Iterable

from temporalio.api.enums.v1 import EventType
from temporalio.api.history.v1 import HistoryEvent


def kinds(events: Iterable[HistoryEvent]) -> list[str]:
    """The events' types, in order, without the prefix they share."""
    return [EventType.Name(event.event_type).removeprefix("EVENT_TYPE_") for event in events]


def late_tasks(events: Iterable[HistoryEvent]) -> int:
    """Workflow tasks that timed out because nobody came to them in time."""
    return kinds(events).count("WORKFLOW_TASK_TIMED_OUT")


def length(events: Iterable[HistoryEvent]) -> int:
    """Events of a run as it is on a server that keeps up: a task that timed out costs two more."""
    found = list(events)
    return len(found) - 2 * late_tasks(found)
