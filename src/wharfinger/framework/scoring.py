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

from wharfinger.framework.adapters import ScoreStep
from wharfinger.framework.columns import IntColumn, RowNumbers
from wharfinger.framework.cycle_state import CycleState
from wharfinger.framework.interface import Normalization, RowSelection
from wharfinger.framework.local_table import DEAD, LocalTable, skips_score
from wharfinger.framework.preferred_nodes import Preference
from wharfinger.framework.search import Search
from wharfinger.framework.snapshot import Snapshot
from wharfinger.framework.status import Status, ask
from wharfinger.objects.model.pod import Pod

ALL_ROWS = slice(None)
FEW = 8
"""So many of many are found one after the other, more by sorting."""
PreScoreStep: TypeAlias = "tuple[str, Callable[[CycleState, Pod, Snapshot, RowSelection], Status]]"
"""A plugin's name and its PreScore."""


@dataclass(slots=True)
class Scores:
    """What each score plugin gave the feasible nodes, weighted; by position among `rows`."""

    rows: RowSelection
    """The rows behind the positions; all of them for a slice."""
    sums: IntColumn
    """Totals less `constant`; below 0 for a position that is not feasible."""
    order: Sequence[str]
    """Score plugins in profile order."""
    constant: int = 0
    """What every node has more: plugins that gave all nodes the same."""
    kept: Callable[[int], Mapping[str, int]] = lambda _row: {}
    """The weighted scores of a row that `sums` had from the start."""
    tied: tuple[RowNumbers, NDArray[np.uint64]] | None = None
    """Positions that share the highest total, and what breaks the tie; None = there is only one, or not requested."""
    made: dict[str, IntColumn | int] = field(default_factory=dict)
    """Scores made for this decision: weighted, by position; a number stands for all positions."""

    def total(self, position: int) -> int:
        """The weighted sum of all plugins."""
        return int(self.sums[position]) + self.constant

    def of(self, position: int) -> Mapping[str, int]:
        """Each plugin's weighted score there, in profile order."""
        found = dict(self.kept(self.row(position)))
        for name, made in self.made.items():
            found[name] = made if isinstance(made, int) else int(made[position])
        return {name: found[name] for name in self.order if name in found}

    def row(self, position: int) -> int:
        """The row behind a position."""
        return position if isinstance(self.rows, slice) else int(self.rows[position])


class Scorer:
    """Scores for one profile."""

    def __init__(
        self, pre_scores: Sequence[PreScoreStep], steps: Sequence[ScoreStep], local_names: frozenset[str]
    ) -> None:
        """`pre_scores`: of plugins that are not Local; `steps`: all, in order; `local_names`: the Local ones."""
        self._pre_scores = pre_scores
        self._order = [step.name for step in steps]
        self._others = [step for step in steps if step.name not in local_names]

    def score(self, state: CycleState, pod: Pod, search: Search) -> Scores:
        """Score the feasible nodes. Raises PluginError."""
        snapshot, table = search.snapshot, search.local.table
        rows = ALL_ROWS if search.alive is None else np.flatnonzero(search.alive)
        for name, pre_score in self._pre_scores:
            if skips_score(name, ask(name, "PreScore", pre_score, state, pod, snapshot, rows)):
                state.skipped_scores.add(name)
        state.lap.done("PreScore")
        others = [step for step in self._others if step.name not in state.skipped_scores]
        if search.alive is table.alive and not others and all(map(table.same_everywhere, table.normalized)):
            scores = Scores(ALL_ROWS, table.ranked, self._order)  # no other plugin scores; refused nodes are marked
        else:
            sums = table.ranked[rows]
            # By a slice it is the kept table itself, which later decisions read; picking rows has copied already.
            scores = Scores(rows, sums.copy() if isinstance(rows, slice) else sums, self._order)
        _add_local(scores, table, state, pod, snapshot)
        for step in others:
            scores.made[step.name] = column = step.scores(state, pod, snapshot, rows)
            scores.sums += column
        state.lap.done("Score")
        return scores


def _add_local(scores: Scores, table: LocalTable, state: CycleState, pod: Pod, snapshot: Snapshot) -> None:
    """The kept scores, normalised where the plugin asks for it, and added to the sums."""
    scores.kept = lambda row: table.rate(snapshot.rows[row])
    for step in table.normalized:
        if table.same_everywhere(step) and isinstance(step.normalizer, Normalization):
            scores.made[step.name] = same = step.normalizer.of_zeros * step.weight
            scores.constant += same
        else:
            raw = table.columns[step.name][scores.rows]
            scores.made[step.name] = column = step.finished(raw, state, pod, snapshot, scores.rows)
            scores.sums += column


def choose(scores: Scores, snapshot: Snapshot, pod: Pod) -> int:
    """The best position: the highest total, then the tie-break."""
    sums = scores.sums
    places = (sums == sums.max()).nonzero()[0]
    if len(places) == 1:
        return int(places[0])
    numbers = _tie_break(places, scores, snapshot, pod)
    scores.tied = places, numbers
    return int(places[numbers.argmax()])


def prefer(best: int, scores: Scores, snapshot: Snapshot, pod: Pod, preference: Preference) -> int:
    """The position that is chosen before the best one; the best itself when it is preferred, or nothing near it is."""
    if preference.preferred[scores.row(best)]:
        return best
    own = preference.positions(scores.rows)
    sums = scores.sums[own]
    highest = sums.max(initial=DEAD)
    if highest < _nearest(int(scores.sums[best]), preference):
        return best
    places = own[sums == highest]
    return int(places[_tie_break(places, scores, snapshot, pod).argmax()])


def ranking(
    scores: Scores, snapshot: Snapshot, pod: Pod, count: int, preference: Preference | None = None
) -> list[int]:
    """The `count` best positions, best first; the first is the one that `choose`, or `prefer`, names."""
    if preference is None and scores.tied is not None and count <= len(scores.tied[0]):
        return _first_few(*scores.tied, count)
    left = scores.sums.copy()
    if preference is not None:
        own = preference.positions(scores.rows)
        near = own[left[own] >= _nearest(int(left.max(initial=DEAD)), preference)]
        left[near] += preference.margin + 1  # above all others
    best_first: list[int] = []
    while len(best_first) < count:
        highest = left.max(initial=DEAD)
        if highest <= DEAD:
            break
        places = (left == highest).nonzero()[0]
        best_first += _first_few(places, _tie_break(places, scores, snapshot, pod), count - len(best_first))
        left[places] = DEAD
    return best_first


def _first_few(places: RowNumbers, numbers: NDArray[np.uint64], count: int) -> list[int]:
    """Of positions with the same total those that go first: the highest numbers, of equal ones the first."""
    if count > FEW or len(places) <= count:
        order: list[int] = places[np.argsort(~numbers, kind="stable")][:count].tolist()
        return order
    left = numbers.copy()
    few: list[int] = []
    for _ in range(count):
        highest = int(left.argmax())
        few.append(int(places[highest]))
        left[highest] = 0
    return few


def _nearest(highest: int, preference: Preference) -> int:
    """The lowest sum that is near the highest one; never that of a refused node."""
    return max(highest - preference.margin, DEAD + 1)


def _tie_break(places: RowNumbers, scores: Scores, snapshot: Snapshot, pod: Pod) -> NDArray[np.uint64]:
    """A number for each of these positions: the highest goes first, of equal ones the first."""
    rows = places if isinstance(scores.rows, slice) else scores.rows[places]
    return snapshot.node_columns.names.tie_break(rows, pod.uid)
