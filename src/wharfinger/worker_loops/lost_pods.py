"""The pods that are bound to a node that does not exist: computed from the cache when a caller asks.

A node whose stored object cannot be read exists, so its pods are not lost. Finished pods use nothing and are not lost.
"""

from __future__ import annotations

from collections.abc import Iterator

from wharfinger.cache.cache import Cache
from wharfinger.informer.view import View
from wharfinger.model.pod import Pod
from wharfinger.registry import keys
from wharfinger.worker_loops.caretakers import Caretakers


class LostPods:
    """Reads the rows of absent nodes, which the cache keeps in case the nodes come back."""

    def __init__(self, view: View, caretakers: Caretakers) -> None:
        self._view = view
        self._cache: Cache = view.cache
        self._caretakers = caretakers

    def nodes(self) -> Iterator[str]:
        """The absent nodes that pods are bound to and that this worker looks after."""
        return (name for name in self._cache.absent_nodes if self._caretakers.mine(name) and any(self.on(name)))

    def on(self, node: str) -> Iterator[Pod]:
        """The lost pods of the node; none while the node exists."""
        row = self._cache.absent_nodes.get(node)
        if row is None or self._view.exists(keys.node(node)):
            return iter(())
        return (pod for pod in row.pods.values() if pod.node_name == node)

    def count(self) -> int:
        """The lost pods of all nodes that this worker looks after: the sum over all workers counts each pod once."""
        return sum(len(list(self.on(name))) for name in self.nodes())
