"""PrioritySort: the more important pod first; of equals, the one that came first."""

from __future__ import annotations

from collections.abc import Sequence

from wharfinger.framework.interface import EventHint, QueueingHints, QueueSort
from wharfinger.model.pod import Pod
from wharfinger.plugins import names


class PrioritySort(QueueSort, QueueingHints):
    """Orders the active queue."""

    name = names.PRIORITY_SORT

    def queue_key(self, pod: Pod, arrival: float) -> tuple[int, float]:
        """Priority descending, arrival ascending."""
        return (-pod.priority, arrival)

    def queueing_hints(self) -> Sequence[EventHint]:
        """Refuses nothing, so nothing helps."""
        return ()
