"""UnsupportedFeatures: a pod that asks for what no plugin here honours is refused, never placed wrongly."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from wharfinger.framework.cycle_state import CycleState
from wharfinger.framework.interface import EventHint, Local, PreFilter, PreFilterResult, QueueingHints
from wharfinger.framework.snapshot import Snapshot
from wharfinger.framework.status import unresolvable
from wharfinger.model.events import Action, ClusterEvent, Resource
from wharfinger.model.pod import Pod
from wharfinger.plugins import names

_PASS = PreFilterResult()


class UnsupportedFeatures(PreFilter, Local, QueueingHints):
    """Refuses pods whose `unsupported` names something."""

    name = names.UNSUPPORTED_FEATURES

    def pre_filter(self, state: CycleState, pod: Pod, snapshot: Snapshot) -> PreFilterResult:  # noqa: ARG002
        """Success for a pod that uses nothing of the kind."""
        if not pod.unsupported:
            return _PASS
        features = ", ".join(pod.unsupported)
        return PreFilterResult(unresolvable(f"pod uses {features}, which this version does not support"))

    def signature(self, pod: Pod) -> Hashable:
        """What the pod uses."""
        return pod.unsupported

    def queueing_hints(self) -> Sequence[EventHint]:
        """The pod's own update that changed what it uses."""
        return (EventHint(Resource.UNSCHEDULED_POD, Action.ALL, _uses_something_else),)


def _uses_something_else(pod: Pod, event: ClusterEvent) -> bool:  # noqa: ARG001
    before = event.old.unsupported if isinstance(event.old, Pod) else ()
    return isinstance(event.new, Pod) and event.new.unsupported != before
