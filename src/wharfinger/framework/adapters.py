"""Plugins' Filter and Score as the runner calls them: over many nodes, whichever form the plugin was written in.

Made once, with the profile: looking at protocols is too slow for every decision. Answers are checked here, so a
plugin that breaks its contract is named instead of corrupting a decision.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

from wharfinger.errors import ConfigurationError, PluginError
from wharfinger.framework.columns import BoolColumn, IntColumn
from wharfinger.framework.cycle_state import CycleState
from wharfinger.framework.interface import (
    MAX_NODE_SCORE,
    Filter,
    NodeFilter,
    NodeScore,
    Normalization,
    Normalize,
    Plugin,
    RowSelection,
    Score,
    offers,
)
from wharfinger.framework.snapshot import Snapshot
from wharfinger.framework.status import SUCCESS, Status, ask, call
from wharfinger.framework.verdicts import Verdicts
from wharfinger.objects.model.pod import Pod

_INT64 = 2**63 - 1


def selected(snapshot: Snapshot, rows: RowSelection) -> int:
    """How many rows a selection holds."""
    return len(snapshot) if isinstance(rows, slice) else len(rows)


@dataclass(frozen=True, slots=True)
class FilterStep(ABC):
    """A Filter of a profile."""

    name: str
    """The plugin's."""

    @abstractmethod
    def verdicts(self, state: CycleState, pod: Pod, snapshot: Snapshot, among: BoolColumn | None) -> Verdicts | None:
        """Its verdicts, at least on the nodes in `among` (None = all). None = every node passes."""

    @abstractmethod
    def one(self, state: CycleState, pod: Pod, snapshot: Snapshot, row: int) -> Status:
        """Its verdict on one node, marked as the plugin's."""


@dataclass(frozen=True, slots=True)
class ColumnFilterStep(FilterStep):
    """A Filter that answers for all nodes at once."""

    plugin: Filter

    def verdicts(self, state: CycleState, pod: Pod, snapshot: Snapshot, among: BoolColumn | None) -> Verdicts | None:  # noqa: ARG002
        """See FilterStep; answers for every node whatever `among` says."""
        verdicts = call(self.name, "Filter", self.plugin.filter, state, pod, snapshot)
        if verdicts is None:
            return None
        if not isinstance(verdicts, Verdicts):
            raise PluginError(self.name, "Filter", f"answered {verdicts!r}, not Verdicts")
        try:
            verdicts.check(len(snapshot))
        except ValueError as error:
            raise PluginError(self.name, "Filter", str(error)) from error
        return verdicts

    def one(self, state: CycleState, pod: Pod, snapshot: Snapshot, row: int) -> Status:
        """See FilterStep; by the plugin's node form where it has one, which must say the same."""
        if offers(self.plugin, NodeFilter):
            status = ask(self.name, "Filter", self.plugin.filter_node, state, pod, snapshot.rows[row])
            return status if status.ok else refusal(self.name, status)
        verdicts = self.verdicts(state, pod, snapshot, None)
        return SUCCESS if verdicts is None else call(self.name, "Filter", verdicts.at, row).by(self.name)


@dataclass(frozen=True, slots=True)
class NodeFilterStep(FilterStep):
    """A Filter that is asked node by node."""

    plugin: NodeFilter

    def verdicts(self, state: CycleState, pod: Pod, snapshot: Snapshot, among: BoolColumn | None) -> Verdicts | None:
        """See FilterStep."""
        rows = range(len(snapshot)) if among is None else np.flatnonzero(among).tolist()
        refused: dict[int, Status] = {}
        for row in rows:
            status = self.one(state, pod, snapshot, row)
            if not status.ok:
                refused[row] = status
        return Verdicts.of(refused, len(snapshot)) if refused else None

    def one(self, state: CycleState, pod: Pod, snapshot: Snapshot, row: int) -> Status:
        """See FilterStep."""
        status = ask(self.name, "Filter", self.plugin.filter_node, state, pod, snapshot.rows[row])
        return status if status.ok else refusal(self.name, status)


def refusal(plugin: str, status: Status) -> Status:
    """The status, which must be a refusal, as the plugin's; PluginError otherwise."""
    if not status.rejected:
        raise PluginError(plugin, "Filter", f"answered {status!r}, not success or a refusal")
    return status.by(plugin)


def whole(plugin: str, score: object) -> int:
    """One node's score as the plugin gave it; PluginError unless it is a whole number of 64 bits."""
    if not isinstance(score, int | np.integer) or abs(int(score)) > _INT64:
        raise PluginError(plugin, "Score", f"answered {score!r}, not a whole number of 64 bits")
    return int(score)


@dataclass(frozen=True, slots=True)
class ScoreStep:
    """A Score of a profile, with its weight and normalisation."""

    name: str
    weight: int
    columns: Score | None
    nodes: NodeScore | None
    normalizer: Normalize | Normalization | None

    def scores(self, state: CycleState, pod: Pod, snapshot: Snapshot, rows: RowSelection) -> IntColumn:
        """Weighted normalised scores of the selected rows."""
        return self.finished(self.raw(state, pod, snapshot, rows), state, pod, snapshot, rows)

    def raw(self, state: CycleState, pod: Pod, snapshot: Snapshot, rows: RowSelection) -> IntColumn:
        """Scores of the selected rows as the plugin gives them, neither normalised nor weighted."""
        if self.columns is not None:
            column = call(self.name, "Score", self.columns.score, state, pod, snapshot, rows)
        else:
            column = self._one_by_one(state, pod, snapshot, rows)
        self._check_shape(column, selected(snapshot, rows))
        return column

    def finished(
        self, column: IntColumn, state: CycleState, pod: Pod, snapshot: Snapshot, rows: RowSelection
    ) -> IntColumn:
        """Raw scores of the selected rows, normalised and weighted."""
        if isinstance(self.normalizer, Normalization):
            column = self.normalizer.apply(column)
        elif self.normalizer is not None:
            column = call(self.name, "NormalizeScore", self.normalizer.normalize, state, pod, column, snapshot, rows)
            self._check_shape(column, selected(snapshot, rows))
        self.check_range(column)
        return column if self.weight == 1 else column * self.weight

    def _one_by_one(self, state: CycleState, pod: Pod, snapshot: Snapshot, rows: RowSelection) -> IntColumn:
        assert self.nodes is not None
        numbers = range(len(snapshot)) if isinstance(rows, slice) else rows.tolist()
        score_node = self.nodes.score_node
        raw = [
            whole(self.name, call(self.name, "Score", score_node, state, pod, snapshot.rows[row])) for row in numbers
        ]
        return np.array(raw, dtype=np.int64)

    def _check_shape(self, column: IntColumn, expected: int) -> None:
        if not isinstance(column, np.ndarray) or column.dtype != np.int64 or column.shape != (expected,):
            raise PluginError(self.name, "Score", f"answered {type(column).__name__}, not an int64 per node")

    def check_range(self, column: IntColumn) -> None:
        """PluginError unless all lie in 0..100."""
        if not len(column):
            return
        lowest, highest = int(column.min()), int(column.max())
        if lowest < 0 or highest > MAX_NODE_SCORE:
            raise PluginError(self.name, "Score", f"scores {lowest} to {highest} lie outside 0..{MAX_NODE_SCORE}")


def filter_step(plugin: Plugin) -> FilterStep | None:
    """The plugin's Filter; None when it has none. A plugin with both forms is called by columns."""
    if offers(plugin, Filter):
        return ColumnFilterStep(plugin.name, plugin)
    if offers(plugin, NodeFilter):
        return NodeFilterStep(plugin.name, plugin)
    return None


def score_step(plugin: Plugin, weight: int) -> ScoreStep | None:
    """The plugin's Score; None when it has none. ConfigurationError when it declares a normalisation that is none."""
    columns = plugin if offers(plugin, Score) else None
    nodes = plugin if columns is None and offers(plugin, NodeScore) else None
    if columns is None and nodes is None:
        return None
    declared = getattr(plugin, "normalization", None)
    if declared is not None and not isinstance(declared, Normalization):
        raise ConfigurationError(f"plugin {plugin.name}: normalization is {declared!r}, not a Normalization")
    normalizer = plugin if offers(plugin, Normalize) else None
    return ScoreStep(plugin.name, weight, columns, nodes, declared or normalizer)
