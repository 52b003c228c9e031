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
        pod.unsupported,
        pod.group,
        pod.hard_terms_across_nodes,
        tuple(sorted(pod.labels.items())),
    )


class Candidates:
    """Index of waiting pods: rejecting plugins -> class -> pods, in order of arrival."""

    def __init__(self) -> None:
        self._groups: dict[tuple[tuple[str, ...], PodClass], dict[PodKey, Entry]] = {}
        self._group_of: dict[PodKey, tuple[tuple[str, ...], PodClass]] = {}
        self._by_plugin: dict[str, dict[tuple[tuple[str, ...], PodClass], None]] = {}

    def add(self, entry: Entry) -> None:
        """Index a waiting pod by its refusal (replacing what was indexed for it)."""
        self.discard(entry.key)
        rejectors = entry.refusal.rejectors if entry.refusal is not None else ()
        group = (rejectors, pod_class(entry.pod))
        self._group_of[entry.key] = group
        members = self._groups.setdefault(group, {})
        if not members:
            for plugin in rejectors:
                self._by_plugin.setdefault(plugin, {})[group] = None
        members[entry.key] = entry

    def discard(self, key: PodKey) -> None:
        """Take the pod out of the index, if it is in."""
        group = self._group_of.pop(key, None)
        if group is None:
            return
        members = self._groups[group]
        del members[key]
        if members:
            return
        del self._groups[group]
        for plugin in group[0]:
            del self._by_plugin[plugin][group]
            if not self._by_plugin[plugin]:
                del self._by_plugin[plugin]

    def class_of(self, key: PodKey) -> PodClass:
        """The class a waiting pod was indexed under."""
        return self._group_of[key][1]

    def plugins(self) -> Iterator[tuple[str, int]]:
        """Each plugin that keeps pods waiting, with their number."""
        for plugin, groups in self._by_plugin.items():
            yield plugin, sum(len(self._groups[group]) for group in groups)

    def groups(self) -> Iterator[tuple[tuple[str, ...], list[Entry]]]:
        """Each group of equal waiting pods: the plugins that refused it, and its pods."""
        for group, members in list(self._groups.items()):
            yield group[0], list(members.values())

    def groups_refused_by(self, plugins: frozenset[str]) -> Iterator[tuple[tuple[str, ...], list[Entry]]]:
        """The groups that at least one of the plugins refused."""
        found: dict[tuple[tuple[str, ...], PodClass], None] = {}
        for plugin in plugins:
            found.update(self._by_plugin.get(plugin, {}))
        for group in found:
            yield group[0], list(self._groups[group].values())
