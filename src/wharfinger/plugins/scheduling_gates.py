"""SchedulingGates: a pod with gates stays out of the queue until all of them are taken away."""

from __future__ import annotations

from collections.abc import Sequence

from wharfinger.framework.interface import EventHint, PreEnqueue, QueueingHints
from wharfinger.framework.status import SUCCESS, Status, unresolvable
from wharfinger.model.events import Action, Resource
from wharfinger.model.pod import Pod
from wharfinger.plugins import names


class SchedulingGates(PreEnqueue, QueueingHints):
    """Refuses pods that have `spec.schedulingGates`."""

    name = names.SCHEDULING_GATES

    def pre_enqueue(self, pod: Pod) -> Status:
        """Success without gates."""
        if not pod.scheduling_gates:
            return SUCCESS
        return unresolvable(f"waiting for scheduling gates: [{' '.join(pod.scheduling_gates)}]")

    def queueing_hints(self) -> Sequence[EventHint]:
        """The pod's own update that took the last gate away."""
        return (EventHint(Resource.UNSCHEDULED_POD, Action.UPDATE_POD_GATES_ELIMINATED),)
