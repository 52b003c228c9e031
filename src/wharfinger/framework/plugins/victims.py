"""Whom a pod would have to push off one node, and what that would cost: the pure part of preemption.

Rules of kube-scheduler 1.36 (`plugins/defaultpreemption`, `framework/preemption`): all pods of lower priority leave,
then the important ones come back as long as the pod still fits; those that disruption budgets protect come back
first.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache

from wharfinger.framework.node_info import NodeInfo
from wharfinger.framework.status import Code, Status, unresolvable
from wharfinger.objects.model.pod import Pod
from wharfinger.objects.model.surroundings import DisruptionBudget

NO_VICTIMS = unresolvable("No preemption victims found for incoming pod")
_PRIORITY_OFFSET = 1 << 31
"""Added to each priority, so that one victim more always costs, even at negative priorities."""

Budgets = Mapping[str, tuple[DisruptionBudget, ...]]
Cost = tuple[int, int, int, int, float]


@dataclass(frozen=True, slots=True)
class NodeVictims:
    """The pods that would have to leave one node."""

    victims: tuple[Pod, ...]
    """Most important first; never empty."""
    violations: int
    """How many of them a disruption budget protects."""

    def cost(self) -> Cost:
        """Smaller is better.

        Violations; the highest priority evicted; the sum of the priorities; how many; and how recently the longest
        running of the highest-priority victims began (the latest is best).
        """
        highest = self.victims[0].priority
        total = sum(victim.priority + _PRIORITY_OFFSET for victim in self.victims)
        longest = min(started(victim) for victim in self.victims if victim.priority == highest)
        return self.violations, highest, total, len(self.victims), -longest


def select(pod: Pod, node: NodeInfo, fits: Callable[[NodeInfo], Status], budgets: Budgets) -> NodeVictims | Status:
    """The fewest and least important pods to evict from the node; why not when that would not help.

    An error where the pod fits as it is: only an extender can have refused such a node.

    Args:
        pod: The preemptor, which needs the room.
        node: As it is now.
        fits: Every filter's answer if the node were another.
        budgets: By namespace.
    """
    lower = sorted((other for other in node.pods.values() if removable(other, pod)), key=importance)
    if not lower:
        return NO_VICTIMS
    room = node.without_pods([other.identity for other in lower])
    status = fits(room)
    if not status.ok:
        return status
    protected, others = _by_protection(lower, budgets)
    victims: list[Pod] = []
    violations = 0
    for group in (protected, others):
        for other in group:
            fuller = room.with_pod(other)
            if fits(fuller).ok:
                room = fuller
            else:
                victims.append(other)
                violations += group is protected
    if not victims:
        return Status(Code.ERROR, (f'expected at least one victim pod on node "{node.node.name}"',))
    return NodeVictims(tuple(sorted(victims, key=importance)), violations)


def removable(other: Pod, pod: Pod) -> bool:
    """Whether the pod may push the other off its node. One that is only assumed there is not bound yet."""
    return other.priority < pod.priority and other.bound


def is_leaving(other: Pod, pod: Pod) -> bool:
    """Whether the other is on its way out because it was preempted for the sake of pods like this."""
    return removable(other, pod) and bool(other.deletion_timestamp) and other.disruption_target


def importance(pod: Pod) -> tuple[int, float, int, str, str]:
    """Sorts the most important first: higher priority, then longer running.

    Start times have whole seconds, so many are equal. kube-scheduler leaves the order of those open. Here the one that
    was created first is first, so that a decision does not depend on the order in which a worker heard of the pods.
    """
    return -pod.priority, started(pod), pod.create_revision, pod.namespace, pod.name


def started(pod: Pod) -> float:
    """Seconds since 1970; a pod that has not started comes after all that have."""
    return _seconds(pod.start_time) if pod.start_time else math.inf


@lru_cache(maxsize=1 << 16)
def _seconds(timestamp: str) -> float:
    try:
        moment = datetime.fromisoformat(timestamp)
    except ValueError:
        return math.inf
    return (moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)).timestamp()


def _by_protection(pods: Sequence[Pod], budgets: Budgets) -> tuple[list[Pod], list[Pod]]:
    """Those whose eviction would violate a budget, if all were evicted in this order; and the others."""
    left: dict[tuple[str, str], int] = {}
    protected: list[Pod] = []
    others: list[Pod] = []
    for pod in pods:
        violates = False
        for budget in budgets.get(pod.namespace, ()):
            if protects(budget, pod):
                key = (budget.namespace, budget.name)
                left[key] = left.get(key, budget.disruptions_allowed) - 1
                violates = violates or left[key] < 0
        (protected if violates else others).append(pod)
    return protected, others


def protects(budget: DisruptionBudget, pod: Pod) -> bool:
    """Whether the budget (of the pod's namespace) speaks of the pod, and has not counted its eviction already."""
    selector = budget.selector
    if selector is None or not selector.requirements or not pod.labels:
        return False
    return pod.name not in budget.disrupted_pods and selector.matches(pod.labels)
