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

MOST_TERMS = 128
"""Affinity terms and spread constraints a pod may have together; each is counted over the whole cluster."""
_PASS = PreFilterResult()
_TOO_MANY = f"more than {MOST_TERMS} terms about other pods"


class UnsupportedFeatures(PreFilter, Local, QueueingHints):
    """Refuses pods whose `unsupported` names something, and those that would keep a worker busy for seconds."""

    name = names.UNSUPPORTED_FEATURES

    def pre_filter(self, state: CycleState, pod: Pod, snapshot: Snapshot) -> PreFilterResult:  # noqa: ARG002
        """Success for a pod that uses nothing of the kind."""
        used = unsupported(pod)
        if not used:
            return _PASS
        features = ", ".join(used)
        return PreFilterResult(unresolvable(f"pod uses {features}, which this version does not support"))

    def signature(self, pod: Pod) -> Hashable:
        """What the pod uses."""
        return unsupported(pod)

    def queueing_hints(self) -> Sequence[EventHint]:
        """The pod's own update that changed what it uses."""
        return (EventHint(Resource.UNSCHEDULED_POD, Action.ALL, _uses_something_else),)


def _uses_something_else(pod: Pod, event: ClusterEvent) -> bool:  # noqa: ARG001
    before = unsupported(event.old) if isinstance(event.old, Pod) else ()
    return isinstance(event.new, Pod) and unsupported(event.new) != before


def unsupported(pod: Pod) -> tuple[str, ...]:
    """What the pod uses that is not supported, in words."""
    terms = len(pod.required_affinity) + len(pod.required_anti_affinity) + len(pod.spread_constraints)
    terms += len(pod.preferred_affinity) + len(pod.preferred_anti_affinity)
    return pod.unsupported if terms <= MOST_TERMS else (*pod.unsupported, _TOO_MANY)
