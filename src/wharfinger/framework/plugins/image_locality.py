"""ImageLocality: nodes that hold the pod's images already need not pull them.

Formula: kube-scheduler 1.36, `plugins/imagelocality`: an image counts its size, scaled by the share of all nodes
that hold it, so that a rare image does not draw every pod to its one node.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence

import numpy as np

from wharfinger.framework.columns import IntColumn, NodeColumns
from wharfinger.framework.cycle_state import CycleState
from wharfinger.framework.interface import MAX_NODE_SCORE, EventHint, PreScore, QueueingHints, RowSelection, Score
from wharfinger.framework.node_info import NodeInfo
from wharfinger.framework.plugins import names
from wharfinger.framework.row_memo import RowMemo
from wharfinger.framework.snapshot import Snapshot
from wharfinger.framework.status import SKIP, SUCCESS, Status
from wharfinger.objects.model.pod import NOTHING, Pod

_MIB = 1 << 20
_LITTLE = 23 * _MIB
"""Bytes that are not worth a difference."""
_MUCH = 1000 * _MIB
"""Bytes for each container that are worth the highest score."""
_COLUMNS = 128
"""Lists of images whose scores are kept; the least recent is dropped first."""


class ImageLocality(PreScore, Score, QueueingHints):
    """Keeps which node holds which image, in step with the nodes, and scores by list of images until an image moves."""

    name = names.IMAGE_LOCALITY

    def __init__(self) -> None:
        self._inventory = _Inventory()
        self._scores: OrderedDict[tuple[tuple[str, ...], int], IntColumn | None] = OrderedDict()

    def pre_score(self, state: CycleState, pod: Pod, snapshot: Snapshot, rows: RowSelection) -> Status:  # noqa: ARG002
        """Skip when no node holds enough of the pod's images to make a difference."""
        return SKIP if self._column(pod, snapshot) is None else SUCCESS

    def score(self, state: CycleState, pod: Pod, snapshot: Snapshot, rows: RowSelection) -> IntColumn:  # noqa: ARG002
        """0 for up to 23 MiB of the pod's images, 100 from 1000 MiB a container on."""
        column = self._column(pod, snapshot)
        return (snapshot.node_columns.names.zeros if column is None else column)[rows]

    def queueing_hints(self) -> Sequence[EventHint]:
        """None: it refuses nothing."""
        return ()

    def _column(self, pod: Pod, snapshot: Snapshot) -> IntColumn | None:
        """By row; None when every score is 0."""
        if not pod.images:
            return None
        if self._inventory.follow(snapshot):
            self._scores.clear()
        key = pod.images, pod.container_count
        if key in self._scores:
            self._scores.move_to_end(key)
            return self._scores[key]
        column = self._scores[key] = self._computed(pod, snapshot)
        if len(self._scores) > _COLUMNS:
            self._scores.popitem(last=False)
        return column

    def _computed(self, pod: Pod, snapshot: Snapshot) -> IntColumn | None:
        total = np.zeros(len(snapshot), dtype=np.int64)
        for image in pod.images:
            holders = self._inventory.holders(normalized(image))
            if holders:
                rows = [snapshot.index[name] for name in holders]
                # In exactly this order: another one differs in the last bit.
                share = float(len(holders)) / float(len(snapshot))
                total[rows] += int(float(_size(holders, rows, snapshot)) * share)
        much = _MUCH * pod.container_count
        scores: IntColumn = MAX_NODE_SCORE * (np.clip(total, _LITTLE, much) - _LITTLE) // (much - _LITTLE)
        return scores if scores.any() else None


def _size(holders: Mapping[str, int], rows: Sequence[int], snapshot: Snapshot) -> int:
    """Bytes, as the oldest of the nodes reports them: kube-scheduler keeps one size for all, the first that it saw."""
    oldest = min(rows, key=lambda row: (snapshot.rows[row].node.create_revision, row))
    return holders[snapshot.names[oldest]]


def normalized(image: str) -> str:
    """The name with a tag: `:latest` where it has none, as nodes report images."""
    return image if image.rfind(":") > image.rfind("/") else f"{image}:latest"


class _Inventory:
    """Which node holds which image."""

    def __init__(self) -> None:
        self._columns: NodeColumns | None = None
        self._memo = RowMemo()
        self._held: dict[str, Mapping[str, int]] = {}
        self._holders: dict[str, dict[str, int]] = {}

    def holders(self, image: str) -> Mapping[str, int]:
        """Node name to the image's size there, in bytes."""
        return self._holders.get(image, NOTHING)

    def follow(self, snapshot: Snapshot) -> bool:
        """Catch up with the snapshot's nodes; whether anything that scores are made of has changed."""
        if self._columns is snapshot.node_columns:
            return False
        self._columns = snapshot.node_columns
        moved = self._memo.moved(snapshot)
        changed = moved is None
        if moved is None:
            for name in [name for name in self._held if name not in snapshot.index]:
                self._hold(name, NOTHING)
        for row in range(len(snapshot)) if moved is None else moved.tolist():
            info: NodeInfo = snapshot.rows[row]
            changed |= self._hold(info.node.name, info.node.images)
        return changed

    def _hold(self, name: str, images: Mapping[str, int]) -> bool:
        before = self._held.get(name, NOTHING)
        if before is images or before == images:
            return False
        for image in before.keys() - images.keys():
            holders = self._holders[image]
            del holders[name]
            if not holders:
                del self._holders[image]
        for image, size in images.items():
            self._holders.setdefault(image, {})[name] = size
        if images:
            self._held[name] = images
        else:
            self._held.pop(name, None)
        return True
