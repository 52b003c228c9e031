"""How much of a cluster is in use, resource by resource."""

from __future__ import annotations

from dataclasses import dataclass

from wharfinger.framework.snapshot import Snapshot
from wharfinger.objects.model.node import CPU, MEMORY, PODS

FIRST = (CPU, MEMORY, PODS)
"""Resources that every cluster has, in this order; others follow by name."""


@dataclass(frozen=True, slots=True)
class Amount:
    """What the pods on the nodes request of a resource, and what the nodes offer: milli-cpu, else bytes or pieces."""

    requested: int
    allocatable: int

    @property
    def percent(self) -> float:
        """Of what is offered, in per cent with one decimal; 0 where nothing is offered."""
        return round(100 * self.requested / self.allocatable, 1) if self.allocatable else 0.0


@dataclass(frozen=True, slots=True)
class Use:
    """The whole cluster's use."""

    nodes: int
    resources: dict[str, Amount]


def use_of(snapshot: Snapshot) -> Use:
    """The use of all nodes together, cordoned ones too; resources that no node offers are left out."""
    offered = {name for info in snapshot.rows for name, amount in info.node.allocatable.items() if amount}
    names = [name for name in FIRST if name in offered] + sorted(offered.difference(FIRST))
    amounts = {
        name: Amount(
            sum(info.requested.get(name, 0) for info in snapshot.rows),
            sum(info.node.allocatable.get(name, 0) for info in snapshot.rows),
        )
        for name in names
    }
    return Use(len(snapshot), amounts)
