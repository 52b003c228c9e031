"""Plugins that look at no node: PrioritySort, SchedulingGates and DefaultBinder.

DefaultBinder binds by the one etcd transaction of the activity `bind`. The plugin only says that this transaction may
go out; another Bind plugin before it could refuse.
"""

from __future__ import annotations

from collections.abc import Sequence

from wharfinger.framework.cycle_state import CycleState
from wharfinger.framework.interface import Bind, EventHint, PreEnqueue, QueueingHints, QueueSort
from wharfinger.framework.plugins import names
from wharfinger.framework.status import SUCCESS, Status, unresolvable
from wharfinger.objects.model.events import Action, Resource
from wharfinger.objects.model.pod import Pod


class PrioritySort(QueueSort, QueueingHints):
    """Orders the active queue: the more important pod first; of equals, the one that came first."""

    name = names.PRIORITY_SORT

    def queue_key(self, pod: Pod, arrival: float) -> tuple[int, float]:
        """Priority descending, arrival ascending."""
        return (-pod.priority, arrival)

    def queueing_hints(self) -> Sequence[EventHint]:
        """Refuses nothing, so nothing helps."""
        return ()


class SchedulingGates(PreEnqueue, QueueingHints):
    """Keeps pods that have `spec.schedulingGates` out of the queue until all of them are taken away."""

    name = names.SCHEDULING_GATES

    def pre_enqueue(self, pod: Pod) -> Status:
        """Success without gates."""
        if not pod.scheduling_gates:
            return SUCCESS
        return unresolvable(f"waiting for scheduling gates: [{' '.join(pod.scheduling_gates)}]")

    def queueing_hints(self) -> Sequence[EventHint]:
        """The pod's own update that took the last gate away."""
        return (EventHint(Resource.UNSCHEDULED_POD, Action.UPDATE_POD_GATES_ELIMINATED),)


class DefaultBinder(Bind, QueueingHints):
    """Lets every pod be bound."""

    name = names.DEFAULT_BINDER

    def bind(self, state: CycleState, pod: Pod, node_name: str) -> Status:  # noqa: ARG002
        """Always success."""
        return SUCCESS

    def queueing_hints(self) -> Sequence[EventHint]:
        """Refuses nothing, so nothing helps."""
        return ()
