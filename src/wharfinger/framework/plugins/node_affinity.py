"""NodeAffinity: the pod's nodeSelector and node affinity, and an affinity the profile adds to every pod.

Formula and order of reasons: kube-scheduler 1.36, `plugins/nodeaffinity`.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np

from wharfinger.framework.columns import IntColumn
from wharfinger.framework.cycle_state import CycleState
from wharfinger.framework.interface import (
    PASSES,
    SKIPS,
    EventHint,
    Filter,
    Local,
    NodeFilter,
    NodeScore,
    Normalization,
    PreFilter,
    PreFilterResult,
    PreScore,
    QueueingHints,
    RowSelection,
    Score,
)
from wharfinger.framework.node_info import NodeInfo
from wharfinger.framework.plugins import names
from wharfinger.framework.plugins.arguments import NodeAffinityArgs
from wharfinger.framework.plugins.node_matching import matches_any_term, matches_labels, matches_term, node_matches
from wharfinger.framework.snapshot import Snapshot
from wharfinger.framework.status import SKIP, SUCCESS, Status, unresolvable
from wharfinger.framework.verdicts import Verdicts
from wharfinger.objects.model.events import Action, ClusterEvent, Resource
from wharfinger.objects.model.node import Node
from wharfinger.objects.model.pod import Pod
from wharfinger.objects.model.selectors import NodeSelectorTerm, Operator

_ENFORCED = unresolvable("node(s) didn't match scheduler-enforced node affinity")
_REQUIRED = unresolvable("node(s) didn't match Pod's node affinity/selector")
_STATUSES = (SUCCESS, _ENFORCED, _REQUIRED)
_CONFLICT = PreFilterResult(unresolvable("pod affinity terms conflict"))
_NAME_FIELD = "metadata.name"


class NodeAffinity(PreFilter, Filter, NodeFilter, PreScore, Score, NodeScore, Local, QueueingHints):
    """Requirements refuse nodes; preferences sum up to a score."""

    name = names.NODE_AFFINITY
    normalization = Normalization.HIGHEST

    def __init__(self, args: NodeAffinityArgs) -> None:
        self._added_required = args.required_terms()
        self._added_preferred = args.preferred_terms()

    def pre_filter(self, state: CycleState, pod: Pod, snapshot: Snapshot) -> PreFilterResult:  # noqa: ARG002
        """Skip for a pod without requirements; the only possible nodes when every term names its nodes."""
        terms = pod.required_node_terms
        if terms is None and self._added_required is None and not pod.node_selector:
            return SKIPS
        if not terms:
            return PASSES
        named = pinned_nodes(terms)
        if named is None:
            return PASSES
        return PreFilterResult(nodes=named) if named else _CONFLICT

    def filter(self, state: CycleState, pod: Pod, snapshot: Snapshot) -> Verdicts | None:  # noqa: ARG002
        """First the profile's added affinity, then the pod's own selector and terms."""
        codes = np.zeros(len(snapshot), dtype=np.int8)
        if pod.node_selector:
            codes[~matches_labels(snapshot, pod.node_selector)] = 2
        if pod.required_node_terms is not None:
            codes[~matches_any_term(snapshot, pod.required_node_terms)] = 2
        if self._added_required is not None:
            codes[~matches_any_term(snapshot, self._added_required)] = 1
        return Verdicts(codes, _STATUSES)

    def pre_score(self, state: CycleState, pod: Pod, snapshot: Snapshot, rows: RowSelection) -> Status:  # noqa: ARG002
        """Skip when neither the pod nor the profile prefers anything."""
        return SUCCESS if pod.preferred_node_terms or self._added_preferred else SKIP

    def score(self, state: CycleState, pod: Pod, snapshot: Snapshot, rows: RowSelection) -> IntColumn:  # noqa: ARG002
        """Sum of the weights of the preferences each node meets."""
        total = np.zeros(len(snapshot), dtype=np.int64)
        for preferred in (*pod.preferred_node_terms, *self._added_preferred):
            if preferred.weight and not preferred.term.empty:
                total[matches_term(snapshot, preferred.term)] += preferred.weight
        chosen: IntColumn = total[rows]
        return chosen

    def signature(self, pod: Pod) -> Hashable:
        """Selector and terms."""
        return tuple(sorted(pod.node_selector.items())), pod.required_node_terms, pod.preferred_node_terms

    def filter_node(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status:  # noqa: ARG002
        """The same, of one node."""
        if not self._matches_added(node.node):
            return _ENFORCED
        return SUCCESS if node_matches(pod, node.node) else _REQUIRED

    def score_node(self, state: CycleState, pod: Pod, node: NodeInfo) -> int:  # noqa: ARG002
        """The same, of one node."""
        name, labels = node.node.name, node.node.labels
        wanted = (*pod.preferred_node_terms, *self._added_preferred)
        return sum(preferred.weight for preferred in wanted if preferred.term.matches(name, labels))

    def queueing_hints(self) -> Sequence[EventHint]:
        """A node that matches now and did not before."""
        return (EventHint(Resource.NODE, Action.ADD | Action.UPDATE_NODE_LABEL, self._matches_now),)

    def _matches_now(self, pod: Pod, event: ClusterEvent) -> bool:
        if not isinstance(event.new, Node) or not self._matches(pod, event.new):
            return False
        return not isinstance(event.old, Node) or not self._matches(pod, event.old)

    def _matches(self, pod: Pod, node: Node) -> bool:
        return self._matches_added(node) and node_matches(pod, node)

    def _matches_added(self, node: Node) -> bool:
        added = self._added_required
        return added is None or any(term.matches(node.name, node.labels) for term in added)


def pinned_nodes(terms: Sequence[NodeSelectorTerm]) -> frozenset[str] | None:
    """The nodes the terms name by `metadata.name In`; None when some term names none, so any node may match."""
    named: frozenset[str] = frozenset()
    for term in terms:
        sets = [
            frozenset(requirement.values)
            for requirement in term.fields
            if requirement.key == _NAME_FIELD and requirement.operator is Operator.IN
        ]
        if not sets:
            return None
        named |= frozenset.intersection(*sets)
    return named
