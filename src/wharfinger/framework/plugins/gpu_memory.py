"""GpuMemory: whole graphics cards with enough memory each.

A pod asks for cards by `nvidia.com/gpu`, and for memory that each card must have by `wharfinger.dev/gpu-memory`. A node
offers cards by `nvidia.com/gpu`, all with the memory of its label (`objects.model.node`). A card is used by one pod.

NodeResourcesFit counts cards too, and so guards a node that another configuration fills. It leaves the memory to this
plugin, because that is no sum: four cards of 40 GiB are not two of 80 GiB (`CatalogEntry.manages`).
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from wharfinger.framework.columns import bounded
from wharfinger.framework.cycle_state import CycleState
from wharfinger.framework.interface import (
    PASSES,
    SKIPS,
    EventHint,
    Local,
    NodeFilter,
    NodeScore,
    PreFilter,
    PreFilterResult,
    PreScore,
    QueueingHints,
    Reserve,
    RowSelection,
)
from wharfinger.framework.node_info import NodeInfo
from wharfinger.framework.plugins import names
from wharfinger.framework.snapshot import Snapshot
from wharfinger.framework.status import SKIP, SUCCESS, Status, unresolvable, unschedulable
from wharfinger.objects.model.events import Action, ClusterEvent, Resource
from wharfinger.objects.model.node import GPU, GPU_MEMORY, Node, card_memory
from wharfinger.objects.model.pod import Pod

_NO_CARDS = unresolvable("node(s) had no GPU cards")
_TOO_SMALL = unresolvable("node(s) had GPU cards with too little memory")
_UNKNOWN = unresolvable("node(s) had no label with the memory of their GPU cards")
_TOO_FEW = unresolvable("node(s) had too few GPU cards")
_TAKEN = unschedulable("node(s) had too few free GPU cards")
_MEMORY_ALONE = PreFilterResult(unresolvable("pod asks for memory of GPU cards, and for no card"))


class GpuMemory(PreFilter, NodeFilter, PreScore, NodeScore, Reserve, Local, QueueingHints):
    """Counts free cards, and compares the memory of each card; prefers nodes that keep more cards free."""

    name = names.GPU_MEMORY

    def pre_filter(self, state: CycleState, pod: Pod, snapshot: Snapshot) -> PreFilterResult:  # noqa: ARG002
        """Skip for a pod without cards; refuses one that asks for their memory alone."""
        if _cards(pod):
            return PASSES
        return _MEMORY_ALONE if pod.requests.get(GPU_MEMORY, 0) else SKIPS

    def filter_node(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status:  # noqa: ARG002
        """Refuses nodes with too few cards, with too few free ones, and with cards that are too small."""
        cards = _cards(pod)
        if not cards:
            return SUCCESS
        status = _never(pod, cards, node.node)
        if status.ok and cards > _free(node):
            return _TAKEN
        return status

    def pre_score(
        self,
        state: CycleState,  # noqa: ARG002
        pod: Pod,
        snapshot: Snapshot,  # noqa: ARG002
        rows: RowSelection,  # noqa: ARG002
    ) -> Status:
        """Skip for a pod without cards."""
        return SUCCESS if _cards(pod) else SKIP

    def score_node(self, state: CycleState, pod: Pod, node: NodeInfo) -> int:  # noqa: ARG002
        """100 x the cards that stay free over all cards of the node, truncated; as rk8s scores."""
        total = _offered(node.node)
        return max(0, _free(node) - _cards(pod)) * 100 // total if total else 0

    def reserve(self, state: CycleState, pod: Pod, node_name: str) -> Status:
        """Record which cards the pod gets: the lowest free ones, numbered from 0.

        The pods that the decision counts on the node fill its cards from the lowest number, without gaps. So the
        numbers hold for the moment of the decision: when a pod ends, the cards behind its own move down. Nothing on the
        node follows them; they show how the node is filled.
        """
        cards = _cards(pod)
        info = state.snapshot.info(node_name) if cards and state.snapshot is not None else None
        if info is not None:
            first = info.requested.get(GPU, 0)
            state.carry(self.name, {"cards": str(first) if cards == 1 else f"{first}-{first + cards - 1}"})
        return SUCCESS

    def unreserve(self, state: CycleState, pod: Pod, node_name: str) -> None:
        """Nothing is held."""

    def signature(self, pod: Pod) -> Hashable:
        """What the pod asks for."""
        return _cards(pod), pod.requests.get(GPU_MEMORY, 0)

    def queueing_hints(self) -> Sequence[EventHint]:
        """Cards that become free; nodes that come with suitable cards, or get them; the pod asks for less."""
        labels = Action.UPDATE_NODE_LABEL | Action.UPDATE_NODE_ALLOCATABLE
        return (
            EventHint(Resource.NODE, Action.ADD | labels, _suits_now),
            EventHint(Resource.ASSIGNED_POD, Action.DELETE, _frees_cards),
            EventHint(Resource.ASSIGNED_POD, Action.UPDATE_POD_SCALE_DOWN, _gives_up_cards),
            EventHint(Resource.UNSCHEDULED_POD, Action.UPDATE_POD_SCALE_DOWN),
        )


def _cards(pod: Pod) -> int:
    return bounded(pod.requests.get(GPU, 0))


def _offered(node: Node) -> int:
    return bounded(node.allocatable.get(GPU, 0))


def _free(node: NodeInfo) -> int:
    return _offered(node.node) - node.requested.get(GPU, 0)


def _never(pod: Pod, cards: int, node: Node) -> Status:
    """The refusal of a node that would refuse the pod without other pods too, else success."""
    offered, memory = _offered(node), pod.requests.get(GPU_MEMORY, 0)
    if not offered:
        return _NO_CARDS
    each = card_memory(node.labels) if memory else 0
    if each < memory:
        return _TOO_SMALL if each else _UNKNOWN
    return SUCCESS if cards <= offered else _TOO_FEW


def _suits_now(pod: Pod, event: ClusterEvent) -> bool:
    cards = _cards(pod)
    if not isinstance(event.new, Node) or not _never(pod, cards, event.new).ok:
        return False
    if not isinstance(event.old, Node):
        return True
    return not _never(pod, cards, event.old).ok or _offered(event.new) > _offered(event.old)


def _frees_cards(pod: Pod, event: ClusterEvent) -> bool:  # noqa: ARG001
    gone = event.old
    return isinstance(gone, Pod) and bool(gone.node_name or gone.nominated_node_name) and _cards(gone) > 0


def _gives_up_cards(pod: Pod, event: ClusterEvent) -> bool:  # noqa: ARG001
    old, new = event.old, event.new
    return isinstance(old, Pod) and isinstance(new, Pod) and bool(new.node_name) and _cards(new) < _cards(old)
