"""Which waiting pods an event may concern, without looking at the others.

Waiting pods are indexed by the plugins that refused them, and within a plugin by *class*: pods that
no decision can tell apart (all but name and uid are equal). A hint is asked once a class.

The plugins are those of the pod's record and, once the pod was decided in memory, also those that refused it then: by
then, the reason in its record may be gone.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from wharfinger.objects.model.pod import Pod, PodKey
from wharfinger.scheduling.state.queue.entry import Entry

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
        pod.claims,
        pod.in_line_volumes,
        pod.required_features,
        pod.unsupported,
        pod.group,
        pod.gang,
        pod.hard_terms_across_nodes,
        tuple(sorted(pod.labels.items())),
    )


@dataclass(slots=True, eq=False)
class Equals:
    """Waiting pods that the same plugins refuse and that are equal for every decision, in order of arrival."""

    rejectors: Rejectors
    pod_class: PodClass
    members: dict[PodKey, Entry] = field(default_factory=dict)


class Candidates:
    """Index of waiting pods: rejecting plugins -> class -> pods."""

    def __init__(self) -> None:
        self._index: dict[Rejectors, dict[PodClass, Equals]] = {}
        self._where: dict[PodKey, Equals] = {}

    def add(self, entry: Entry) -> None:
        """Index a waiting pod by its refusal. One that is indexed already, and has changed, keeps its rejectors."""
        before = self._where.get(entry.key)
        self.discard(entry.key)
        refusal = entry.refusal
        rejectors = before.rejectors if before is not None else refusal.rejectors if refusal is not None else ()
        self._put(Equals(rejectors, pod_class(entry.pod), {entry.key: entry}))

    def refused_again(self, key: PodKey, rejectors: Rejectors) -> None:
        """A waiting pod and its equals do not fit now: these plugins refuse them, perhaps others than before."""
        equals = self._where.get(key)
        if equals is None:  # it left while others were decided
            return
        union = tuple(sorted({*equals.rejectors, *rejectors}))
        if union != equals.rejectors:
            self._remove(equals)
            self._put(Equals(union, equals.pod_class, equals.members))

    def _put(self, equals: Equals) -> None:
        present = self._index.setdefault(equals.rejectors, {}).setdefault(equals.pod_class, equals)
        present.members.update(equals.members)
        self._where.update(dict.fromkeys(equals.members, present))

    def _remove(self, equals: Equals) -> None:
        classes = self._index[equals.rejectors]
        del classes[equals.pod_class]
        if not classes:
            del self._index[equals.rejectors]

    def discard(self, key: PodKey) -> None:
        """Take the pod out of the index, if it is in."""
        equals = self._where.pop(key, None)
        if equals is None:
            return
        del equals.members[key]
        if not equals.members:
            self._remove(equals)

    def equals_of(self, key: PodKey) -> Equals:
        """A waiting pod and its equals."""
        return self._where[key]

    def rejectors(self) -> list[Rejectors]:
        """The different sets of plugins that keep pods waiting; there are few, however many pods."""
        return list(self._index)

    def refused_by(self, rejectors: Rejectors) -> list[Equals]:
        """The pods that exactly these plugins refused, class by class."""
        return list(self._index.get(rejectors, {}).values())
