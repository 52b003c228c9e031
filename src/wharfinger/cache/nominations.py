"""Pods for which preemption made room on a node, until they are placed: each later decision there reckons with them."""

from __future__ import annotations

from types import MappingProxyType

from wharfinger.framework.snapshot import NO_NOMINATIONS, Nominations
from wharfinger.model.pod import Pod, PodKey


class NominatedPods:
    """By node; a pod is nominated to one node at most."""

    def __init__(self) -> None:
        self._node_of: dict[PodKey, str] = {}
        self._by_node: dict[str, dict[PodKey, Pod]] = {}
        self._frozen: Nominations | None = NO_NOMINATIONS

    def put(self, pod: Pod) -> None:
        """The pod waits with this nomination, or with none."""
        key, node = pod.key, pod.nominated_node_name
        if not node and key not in self._node_of:
            return
        self.discard(key)
        if node:
            self._node_of[key] = node
            self._by_node.setdefault(node, {})[key] = pod
            self._frozen = None

    def discard(self, key: PodKey) -> None:
        """The pod needs no nomination any more."""
        node = self._node_of.pop(key, None)
        if node is None:
            return
        pods = self._by_node[node]
        del pods[key]
        if not pods:
            del self._by_node[node]
        self._frozen = None

    def frozen(self) -> Nominations:
        """All of them, highest priority first on each node; the same object until one changes."""
        if self._frozen is None:
            self._frozen = MappingProxyType({
                node: tuple(sorted(pods.values(), key=lambda pod: (-pod.priority, pod.key)))
                for node, pods in sorted(self._by_node.items())
            })  # fmt: skip
        return self._frozen
