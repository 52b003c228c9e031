"""Which events may help a pod that InterPodAffinity refused.

kube-scheduler's hints, and `beyond` them what these forget: a pod without terms of its own, refused because placed pods
repel it, hears of nodes that appear or change their labels; the first pod of a series of the end of the last one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from wharfinger.framework.interface import EventHint
from wharfinger.model.affinity import PodAffinityTerm
from wharfinger.model.events import Action, ClusterEvent, Resource
from wharfinger.model.node import Node
from wharfinger.model.pod import Pod
from wharfinger.model.surroundings import Surroundings


def hints() -> Sequence[EventHint]:
    """All of them."""
    pods = Action.ADD | Action.DELETE | Action.UPDATE_POD_LABEL
    return (
        EventHint(Resource.ASSIGNED_POD, pods, _pod_helps),
        EventHint(Resource.UNSCHEDULED_POD, Action.UPDATE_POD_LABEL),
        EventHint(Resource.NODE, Action.ADD | Action.UPDATE_NODE_LABEL, _node_helps),
        EventHint(Resource.NODE, Action.ADD | Action.UPDATE_NODE_LABEL, _may_not_repel, beyond=True),
        EventHint(Resource.ASSIGNED_POD, Action.DELETE, _was_last_of_series, beyond=True),
    )


def _pod_helps(pod: Pod, event: ClusterEvent) -> bool:
    old, new, around = event.old, event.new, event.surroundings
    if not isinstance(old, Pod):
        return isinstance(new, Pod) and _satisfies(pod.required_affinity, new, around)
    if not isinstance(new, Pod):
        return _offended(pod, old, around)
    if _satisfies(pod.required_affinity, new, around) and not _satisfies(pod.required_affinity, old, around):
        return True
    terms = pod.required_anti_affinity
    return any(_selects(term, old, around) and not _selects(term, new, around) for term in terms)


def _offended(pod: Pod, gone: Pod, around: Surroundings) -> bool:
    """Whether one repels the other."""
    return any(_selects(term, gone, around) for term in pod.required_anti_affinity) or any(
        _selects(term, pod, around) for term in gone.required_anti_affinity
    )


def _was_last_of_series(pod: Pod, event: ClusterEvent) -> bool:
    """Whether the pod may be the first of a series that the gone one belonged to."""
    terms, around = pod.required_affinity, event.surroundings
    return isinstance(event.old, Pod) and _satisfies(terms, event.old, around) and _satisfies(terms, pod, around)


def _may_not_repel(pod: Pod, event: ClusterEvent) -> bool:  # noqa: ARG001
    """Whom placed pods repel does not know their topologies: any node may lie outside them now."""
    return not pod.required_affinity and not pod.required_anti_affinity


def _node_helps(pod: Pod, event: ClusterEvent) -> bool:
    old, new = event.old, event.new
    if not isinstance(new, Node):
        return False
    if not isinstance(old, Node):
        affinity = pod.required_affinity
        return bool(pod.required_anti_affinity) or any(term.topology_key in new.labels for term in affinity)
    for term in pod.required_affinity:
        value = new.labels.get(term.topology_key)
        if value is not None and value != old.labels.get(term.topology_key):
            return True
    for term in pod.required_anti_affinity:
        value = old.labels.get(term.topology_key)
        if value is not None and value != new.labels.get(term.topology_key):
            return True
    return False


def _satisfies(terms: Iterable[PodAffinityTerm], pod: Pod, around: Surroundings) -> bool:
    """Whether the pod is one that all the terms mean; no terms, no such pod."""
    wanted = tuple(terms)
    return bool(wanted) and all(_selects(term, pod, around) for term in wanted)


def _selects(term: PodAffinityTerm, pod: Pod, around: Surroundings) -> bool:
    return term.selects(pod.namespace, around.namespace_labels(pod.namespace), pod.labels)
