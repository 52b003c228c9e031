"""The counts that spread constraints compare: matching pods per node, and per domain over the nodes that take part."""

from __future__ import annotations

from wharfinger.framework.columns import IntColumn
from wharfinger.framework.snapshot import Snapshot
from wharfinger.model.pod import Pod
from wharfinger.plugins.counted_nodes import CountedNodes, NodeChoice, NodeChoices
from wharfinger.plugins.pod_counting import PodTallies
from wharfinger.plugins.spread_constraints import Spread


class SpreadCounts:
    """What is kept between decisions: tallies of pods and choices of nodes. Right for any snapshot, in any order."""

    def __init__(self) -> None:
        self._tallies = PodTallies()
        self._choices = NodeChoices()

    def having(self, snapshot: Snapshot, keys: tuple[str, ...]) -> CountedNodes:
        """The nodes that have all these labels."""
        return self._choices.counted(snapshot, NodeChoice(keys))

    def nodes(self, snapshot: Snapshot, pod: Pod, spread: Spread, keys: tuple[str, ...]) -> CountedNodes:
        """The nodes that take part: they have all these labels, and the constraint's policies let them in."""
        constraint = spread.constraint
        choice = NodeChoice.of(
            pod, keys, honor_affinity=constraint.honor_node_affinity, honor_taints=constraint.honor_node_taints
        )
        return self._choices.counted(snapshot, choice)

    def rows(self, snapshot: Snapshot, pod: Pod, spread: Spread) -> IntColumn:
        """Matching pods on each node, whether it takes part or not. Not to be written to."""
        if spread.selector is None or not spread.counts:
            return snapshot.node_columns.names.zeros
        return self._tallies.tally(snapshot, pod.namespace, spread.selector).rows(snapshot)

    def sums(self, snapshot: Snapshot, pod: Pod, spread: Spread, nodes: CountedNodes) -> IntColumn | None:
        """Matching pods by code of the topology label, over the nodes that take part; None = nothing is counted."""
        if spread.selector is None or not spread.counts:
            return None
        tally = self._tallies.tally(snapshot, pod.namespace, spread.selector)
        return tally.sums(snapshot, spread.constraint.topology_key, nodes.among)
