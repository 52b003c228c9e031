"""Which feasible node is best: PreScore, Score, normalisation, weights, and the choice.

Ties are broken by a hash of the pod's uid and the node's name: the same on every machine, whatever the order of the
nodes, and spread evenly over equal nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from wharfinger.errors import PluginError
from wharfinger.framework.adapters import ScoreStep, selected
from wharfinger.framework.calls import ask
from wharfinger.framework.columns import IntColumn, name_hash
from wharfinger.framework.cycle_state import CycleState
from wharfinger.framework.interface import MAX_NODE_SCORE, RowSelection
from wharfinger.framework.snapshot import Snapshot
from wharfinger.framework.status import Code, Status
from wharfinger.model.pod import Pod

PreScoreStep: TypeAlias = "tuple[str, Callable[[CycleState, Pod, Snapshot, RowSelection], Status]]"
"""A plugin's name and its PreScore."""

_MIX = np.uint64(0x9E3779B97F4A7C15)
"""2^64 over the golden ratio: spreads the bits of what it multiplies (Knuth's multiplicative hashing)."""
_SHIFT = np.uint64(24)
_TIE_BITS = 40
_FLOOR = -(1 << 22)
"""Totals further below the best than this are not told apart when ranking."""


@dataclass(slots=True)
class Scores:
    """Totals and the weighted normalised score of each plugin, over the selected rows."""

    totals: IntColumn
    plugins: dict[str, IntColumn] = field(default_factory=dict)


def score_nodes(
    state: CycleState,
    pod: Pod,
    snapshot: Snapshot,
    rows: RowSelection,
    *,
    pre_scores: Sequence[PreScoreStep],
    steps: Sequence[ScoreStep],
) -> Scores:
    """Score the selected rows. Raises PluginError."""
    for name, pre_score in pre_scores:
        status = ask(name, "PreScore", pre_score, state, pod, snapshot, rows)
        if status.code is Code.SKIP:
            state.skipped_scores.add(name)
        elif not status.ok:
            raise PluginError(name, "PreScore", status.message or status.code.name)
    totals = np.zeros(selected(snapshot, rows), dtype=np.int64)
    scores = Scores(totals)
    for step in steps:
        if step.name not in state.skipped_scores:
            column = step.scores(state, pod, snapshot, rows)
            scores.plugins[step.name] = column
            totals += column
    return scores


def preference(snapshot: Snapshot, rows: RowSelection, pod: Pod, totals: IntColumn) -> IntColumn:
    """A key per row, largest = best: the total, then the tie-break."""
    mixed = (snapshot.node_columns.names.hashes[rows] ^ np.uint64(name_hash(pod.uid))) * _MIX
    ties: NDArray[np.int64] = (mixed >> _SHIFT).view(np.int64)
    distance = np.maximum(totals - totals.max(), _FLOOR)
    key: IntColumn = (distance << _TIE_BITS) + ties
    return key


def best(keys: IntColumn, count: int) -> list[int]:
    """Positions of the `count` largest keys, best first."""
    if count >= len(keys):
        order: list[int] = np.argsort(-keys, kind="stable").tolist()
        return order
    left = keys.copy()
    positions: list[int] = []
    for _ in range(count):
        position = int(left.argmax())
        positions.append(position)
        left[position] = np.iinfo(np.int64).min
    return positions


def default_normalize(scores: IntColumn, *, reverse: bool = False) -> IntColumn:
    """kube-scheduler's DefaultNormalizeScore: the highest raw score becomes 100 (0 when reversed)."""
    highest = int(scores.max()) if len(scores) else 0
    if highest == 0:
        return np.full_like(scores, MAX_NODE_SCORE) if reverse else scores
    scaled: IntColumn = scores * MAX_NODE_SCORE // highest
    return MAX_NODE_SCORE - scaled if reverse else scaled


def ranked_plugins(scores: Scores, position: int) -> Mapping[str, int]:
    """Each plugin's weighted score at one position."""
    return {plugin: int(column[position]) for plugin, column in scores.plugins.items()}
