"""The registrations of all pools, as the watch shows them; a `Subscriber`."""

from __future__ import annotations

from wharfinger.informer.changes import Changes
from wharfinger.worker_loops.shards import Roster


class Instances:
    """One roster a pool."""

    def __init__(self) -> None:
        self._pools: dict[str, Roster] = {}

    def apply(self, changes: Changes) -> None:
        """Follow every registration."""
        for change in changes.instances:
            self.pool(change.tenant).set(change.slot, change.incarnation, change.new)

    def ready(self) -> frozenset[str]:
        """The members of all pools, `<tenant>/<slot>`."""
        return frozenset().union(*(roster.ready() for roster in self._pools.values()))

    def pool(self, tenant: str) -> Roster:
        """The registrations of one tenant, or of the common pool."""
        return self._pools.setdefault(tenant, Roster(tenant))
