"""Which waiting pods an event may concern, without looking at the others.

Waiting pods are indexed by the plugins that refused them, and within a plugin by *class*: pods that
no decision can tell apart (all but name and uid are equal). A hint is asked once a class.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from wharfinger.model.pod import Pod, PodKey
from wharfinger.queue.entry import Entry

PodClass = tuple[Any, ...]
"""What a decision reads of a pod; equal classes get equal answers on the same snapshot."""

Rejectors = tuple[str, ...]
"""Names of the plugins that refused a pod, sorted."""


def pod_class(pod: Pod) -> PodClass:
    """The class of a pod: everything but name, uid and revisions."""
    return (
        pod.scheduler_name,
        pod.namespace,
        pod.priority,
        pod.preemption_policy,
        pod.nominated_node_name,
        tuple(sorted(pod.requests.items())),
        pod.scoring_cpu,
        pod.scoring_memory,
        pod.host_ports,
        tuple(sorted(pod.node_selector.items())),
        pod.required_node_terms,
        pod.preferred_node_terms,
        pod.tolerations,
        pod.required_affinity,
        pod.required_anti_affinity,
        pod.preferred_affinity,
        pod.preferred_anti_affinity,
        pod.spread_constraints,
        pod.controller,
        pod.images,
        pod.container_count,
        pod.unsupported,
        pod.group,
        pod.gang,
        pod.hard_terms_across_nodes,
        tuple(sorted(pod.labels.items())),
    )


class Candidates:
    """Index of waiting pods: rejecting plugins -> class -> pods, in order of arrival."""

    def __init__(self) -> None:
        self._index: dict[Rejectors, dict[PodClass, dict[PodKey, Entry]]] = {}
        self._where: dict[PodKey, tuple[Rejectors, PodClass]] = {}

    def add(self, entry: Entry) -> None:
        """Index a waiting pod by its refusal (replacing what was indexed for it)."""
        self.discard(entry.key)
        rejectors = entry.refusal.rejectors if entry.refusal is not None else ()
        group = pod_class(entry.pod)
        self._where[entry.key] = rejectors, group
        self._index.setdefault(rejectors, {}).setdefault(group, {})[entry.key] = entry

    def discard(self, key: PodKey) -> None:
        """Take the pod out of the index, if it is in."""
        where = self._where.pop(key, None)
        if where is None:
            return
        rejectors, group = where
        groups = self._index[rejectors]
        del groups[group][key]
        if not groups[group]:
            del groups[group]
        if not groups:
            del self._index[rejectors]

    def class_of(self, key: PodKey) -> PodClass:
        """The class a waiting pod was indexed under."""
        return self._where[key][1]

    def rejectors(self) -> list[Rejectors]:
        """The different sets of plugins that keep pods waiting; there are few, however many pods."""
        return list(self._index)

    def refused_by(self, rejectors: Rejectors) -> Iterator[list[Entry]]:
        """The pods that exactly these plugins refused, class by class."""
        for members in list(self._index.get(rejectors, {}).values()):
            yield list(members.values())
