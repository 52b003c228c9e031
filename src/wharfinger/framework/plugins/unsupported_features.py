"""UnsupportedFeatures: a pod that asks for what no plugin here honours is refused, never placed wrongly."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from wharfinger.framework.cycle_state import CycleState
from wharfinger.framework.interface import (
    PASSES,
    SKIPS,
    EventHint,
    Filter,
    NodeFilter,
    PreFilter,
    PreFilterResult,
    QueueingHints,
)
from wharfinger.framework.node_info import NodeInfo
from wharfinger.framework.plugins import names
from wharfinger.framework.snapshot import Snapshot
from wharfinger.framework.status import SUCCESS, Status, unresolvable
from wharfinger.framework.verdicts import Verdicts
from wharfinger.objects.model.events import Action, ClusterEvent, Resource
from wharfinger.objects.model.node import Node
from wharfinger.objects.model.pod import Pod

MOST_TERMS = 128
"""Affinity terms and spread constraints a pod may have together; each is counted over the whole cluster."""
_TOO_MANY = f"more than {MOST_TERMS} terms about other pods"


def concerns(pod: Pod) -> bool:
    """Whether the pod may use something of the kind."""
    return bool(unsupported(pod)) or any("/" in resource for resource in pod.requests)


class UnsupportedFeatures(PreFilter, Filter, NodeFilter, QueueingHints):
    """Refuses pods whose `unsupported` names something, and those that would keep a worker busy for seconds.

    Refuses nodes that would have to give a pod devices by a DeviceClass, because devices are not decided here.
    """

    name = names.UNSUPPORTED_FEATURES
    concerns = staticmethod(concerns)

    def pre_filter(self, state: CycleState, pod: Pod, snapshot: Snapshot) -> PreFilterResult:
        """Skip for a pod that uses nothing of the kind."""
        if pod.unsupported:
            return PreFilterResult(_undecided(", ".join(pod.unsupported)))
        if unsupported(pod):
            return PreFilterResult(unresolvable(f"pod has {_TOO_MANY}, which this version does not support"))
        around = snapshot.surroundings
        devices = [one for one, amount in pod.requests.items() if amount > 0 and "/" in one and around.are_devices(one)]
        state.write(self.name, devices)
        return PASSES if devices else SKIPS

    def filter(self, state: CycleState, pod: Pod, snapshot: Snapshot) -> Verdicts | None:  # noqa: ARG002
        """Refuses nodes whose device plugin does not have what the pod asks for."""
        devices = state.read(self.name)
        codes: NDArray[np.int64] = np.zeros(len(snapshot), dtype=np.int64)
        for code, resource in enumerate(devices, 1):
            codes[(snapshot.allocatable(resource) <= 0) & (codes == 0)] = code
        return Verdicts(codes, (SUCCESS, *map(_undecided, devices))) if codes.any() else None

    def filter_node(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status:  # noqa: ARG002
        """The same, of one node."""
        return next((_undecided(one) for one in state.read(self.name) if node.allocatable(one) <= 0), SUCCESS)

    def queueing_hints(self) -> Sequence[EventHint]:
        """The pod's own update that changed what it uses; a node whose device plugin has a resource now."""
        return (
            EventHint(Resource.UNSCHEDULED_POD, Action.ALL, _uses_something_else),
            EventHint(Resource.NODE, Action.ADD | Action.UPDATE_NODE_ALLOCATABLE, _has_a_resource_now),
        )


def _undecided(asked: str) -> Status:
    return unresolvable(f"devices are not decided here ({asked})")


def _uses_something_else(pod: Pod, event: ClusterEvent) -> bool:
    before = unsupported(event.old) if isinstance(event.old, Pod) else ()
    return isinstance(event.new, Pod) and (unsupported(event.new) != before or event.new.requests != pod.requests)


def _has_a_resource_now(pod: Pod, event: ClusterEvent) -> bool:
    if not isinstance(event.new, Node) or unsupported(pod):
        return False
    before = event.old.allocatable if isinstance(event.old, Node) else {}
    now = event.new.allocatable
    return any("/" in one and now.get(one, 0) > 0 and before.get(one, 0) <= 0 for one in pod.requests)


def unsupported(pod: Pod) -> tuple[str, ...]:
    """What the pod uses that is not supported, in words."""
    terms = len(pod.required_affinity) + len(pod.required_anti_affinity) + len(pod.spread_constraints)
    terms += len(pod.preferred_affinity) + len(pod.preferred_anti_affinity)
    return pod.unsupported if terms <= MOST_TERMS else (*pod.unsupported, _TOO_MANY)
