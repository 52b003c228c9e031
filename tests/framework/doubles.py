"""Small plugins that answer what a test tells them to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from wharfinger.framework.columns import IntColumn
from wharfinger.framework.cycle_state import CycleState
from wharfinger.framework.interface import Permission, PreFilterResult, RowSelection
from wharfinger.framework.node_info import NodeInfo
from wharfinger.framework.snapshot import Snapshot
from wharfinger.framework.status import SUCCESS, Status
from wharfinger.framework.verdicts import Verdicts
from wharfinger.objects.model.pod import Pod

NO_OPINION = PreFilterResult()
GRANTED = Permission()


@dataclass
class Doorkeeper:
    """PreEnqueue with a fixed answer."""

    name: str
    answer: Status = SUCCESS

    def pre_enqueue(self, pod: Pod) -> Status:
        return self.answer


@dataclass
class Gatekeeper:
    """PreFilter with a fixed answer."""

    name: str
    answer: PreFilterResult = NO_OPINION
    asked: int = 0

    def pre_filter(self, state: CycleState, pod: Pod, snapshot: Snapshot) -> PreFilterResult:
        self.asked += 1
        return self.answer


@dataclass
class Refuser:
    """One-node Filter that refuses some nodes."""

    name: str
    refused: Mapping[str, Status] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)

    def filter_node(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status:
        self.asked.append(node.node.name)
        return self.refused.get(node.node.name, SUCCESS)


@dataclass
class ColumnRefuser:
    """Filter by columns, always the same verdicts."""

    name: str
    verdicts: Verdicts | None = None

    def filter(self, state: CycleState, pod: Pod, snapshot: Snapshot) -> Verdicts | None:
        return self.verdicts


@dataclass
class Scorer:
    """One-node Score with a fixed score per node."""

    name: str
    scores: Mapping[str, int] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)

    def score_node(self, state: CycleState, pod: Pod, node: NodeInfo) -> int:
        self.asked.append(node.node.name)
        return self.scores.get(node.node.name, 0)


@dataclass
class ColumnScorer:
    """Score by columns, always the same array."""

    name: str
    column: IntColumn = field(default_factory=lambda: np.zeros(0, dtype=np.int64))

    def score(self, state: CycleState, pod: Pod, snapshot: Snapshot, rows: RowSelection) -> IntColumn:
        return self.column


@dataclass
class Bookkeeper:
    """Reserve and Permit that note what happens to them."""

    name: str
    diary: list[str]
    answer: Status = SUCCESS
    permission: Permission = GRANTED
    unreserve_error: Exception | None = None
    """What Unreserve raises."""

    def reserve(self, state: CycleState, pod: Pod, node_name: str) -> Status:
        self.diary.append(f"{self.name} reserve")
        return self.answer

    def unreserve(self, state: CycleState, pod: Pod, node_name: str) -> None:
        self.diary.append(f"{self.name} unreserve")
        if self.unreserve_error is not None:
            raise self.unreserve_error

    def permit(self, state: CycleState, pod: Pod, node_name: str) -> Permission:
        return self.permission


@dataclass
class Broken:
    """Raises at whatever point it is asked."""

    name: str = "Broken"

    def filter_node(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status:
        raise ZeroDivisionError("oh")
