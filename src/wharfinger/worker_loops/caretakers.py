"""Which worker looks after a node: rendezvous hashing over the ready workers of the common pool.

While the common pool has no ready worker, the workers of all tenants share the nodes. As with pods, two workers that
disagree for a moment start the same workflow id, and one of them joins.
"""

from __future__ import annotations

from collections.abc import Callable

from wharfinger.contracts.names import COMMON
from wharfinger.worker_loops.instances import Instances
from wharfinger.worker_loops.shards import Ring


class Caretakers:
    """The share-out of nodes."""

    def __init__(self, instances: Instances, me: Callable[[], str | None]) -> None:
        """`me`: this worker's member name while it serves, else None."""
        self._instances = instances
        self._me = me
        self._ring = Ring()

    def mine(self, node: str) -> bool:
        """Whether this worker looks after the node, present or absent."""
        me = self._me()
        return me is not None and self._current().owner(f"node/{node}") == me

    def serves(self, tenant: str) -> bool:
        """Whether a worker of the pool is ready."""
        return bool(self._instances.pool(tenant).ready())

    def _current(self) -> Ring:
        members = self._instances.pool(COMMON).ready() or self._instances.ready()
        if members != self._ring.members:
            self._ring = Ring(members)
        return self._ring
