"""Soft spread constraints: how well the feasible nodes meet them.

A node's cost is the sum over the constraints whose topology key it has of count x ln(domains + 2) + maxSkew - 1,
rounded half away from zero; the score is 100 x (highest + lowest - cost) div highest. For the hostname key the count
is the node's own. kube-scheduler 1.36, `plugins/podtopologyspread/scoring.go`.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from wharfinger.framework.columns import BoolColumn, IntColumn
from wharfinger.framework.interface import MAX_NODE_SCORE, RowSelection
from wharfinger.framework.interned import Interned
from wharfinger.framework.snapshot import Snapshot
from wharfinger.model.pod import Pod
from wharfinger.plugins.pod_topology_spread_args import HOSTNAME
from wharfinger.plugins.spread_constraints import Spread
from wharfinger.plugins.spread_counting import SpreadCounts


class SpreadScores:
    """Scores the feasible nodes (`rows`) of one snapshot for one pod."""

    def __init__(
        self, counts: SpreadCounts, pod: Pod, snapshot: Snapshot, rows: RowSelection, *, every_key: bool
    ) -> None:
        """`every_key`: nodes that lack a topology key get 0 and are left out of everything; else they are kept."""
        self._counts = counts
        self._pod = pod
        self._snapshot = snapshot
        self._rows = rows
        self._every_key = every_key

    def scores(self, spreads: tuple[Spread, ...]) -> IntColumn:
        """0..100 for each selected row."""
        keys = tuple([spread.constraint.topology_key for spread in spreads]) if self._every_key else ()
        having = self._counts.having(self._snapshot, keys).among
        kept = None if having is None else having[self._rows]
        if len(spreads) == 1 and spreads[0].constraint.topology_key != HOSTNAME:
            return self._by_domain(spreads[0], keys, kept)
        costs = self._costs(spreads, keys, kept)
        if kept is None:
            return normalized(costs, int(costs.max()), int(costs.min())) if len(costs) else costs
        scores = np.zeros(len(costs), dtype=np.int64)
        if kept.any():
            of_kept = costs[kept]
            scores[kept] = normalized(of_kept, int(of_kept.max()), int(of_kept.min()))
        return scores

    def _by_domain(self, spread: Spread, keys: tuple[str, ...], kept: BoolColumn | None) -> IntColumn:
        """With one constraint all nodes of a domain score the same: reckoned per domain, then spread over the rows."""
        labels = self._labels(spread)
        domains = self._domains(spread, keys, kept)
        costs = rounded(self._cost_by_code(spread, keys, len(domains)))
        among = costs.take(domains)
        if len(among):
            costs = normalized(costs, int(among.max()), int(among.min()))
        if self._every_key:
            costs[0] = 0
        scores: IntColumn = costs.take(labels.codes[self._rows])
        return scores

    def _costs(self, spreads: tuple[Spread, ...], keys: tuple[str, ...], kept: BoolColumn | None) -> IntColumn:
        total: NDArray[np.float64] | None = None
        for spread in spreads:
            if spread.constraint.topology_key == HOSTNAME:
                part = self._own_costs(spread, kept)
            else:
                by_code = self._cost_by_code(spread, keys, len(self._domains(spread, keys, kept)))
                part = by_code.take(self._labels(spread).codes[self._rows])
            total = part if total is None else total + part
        assert total is not None
        return rounded(total)

    def _own_costs(self, spread: Spread, kept: BoolColumn | None) -> NDArray[np.float64]:
        """For the hostname key, by selected row."""
        own = self._counts.rows(self._snapshot, self._pod, spread)[self._rows]
        size = len(own) if kept is None else int(np.count_nonzero(kept))
        costs = own * np.float64(math.log(size + 2))
        costs += spread.constraint.max_skew - 1
        if self._counts.having(self._snapshot, (HOSTNAME,)).among is not None:
            costs[self._labels(spread).codes[self._rows] == 0] = 0.0
        return costs

    def _cost_by_code(self, spread: Spread, keys: tuple[str, ...], size: int) -> NDArray[np.float64]:
        """By code of the topology label; nothing where it is absent."""
        nodes = self._counts.nodes(self._snapshot, self._pod, spread, keys)
        sums = self._counts.sums(self._snapshot, self._pod, spread, nodes)
        labels = self._labels(spread)
        if sums is None:
            sums = np.zeros(len(labels.values), dtype=np.int64)
        elif not self._every_key and 0 < labels.code("") < len(sums):
            sums = sums.copy()  # a missing label is the same domain as an empty one
            sums[labels.code("")] += sums[0]
        costs = sums * np.float64(math.log(size + 2))
        costs += spread.constraint.max_skew - 1
        costs[0] = 0.0
        return costs

    def _domains(self, spread: Spread, keys: tuple[str, ...], kept: BoolColumn | None) -> NDArray[np.intp]:
        """Codes of the label's values on the feasible nodes that are not left out; 0 is one where some lack it."""
        labels = self._labels(spread)
        if isinstance(self._rows, slice):
            codes = self._counts.having(self._snapshot, keys).domains(self._snapshot, spread.constraint.topology_key)
        else:
            of_rows = labels.codes[self._rows]
            codes = np.flatnonzero(np.bincount(of_rows if kept is None else of_rows[kept]))
        if not self._every_key and len(codes) and codes[0] == 0 and labels.code("") in codes:
            codes = codes[1:]
        return codes

    def _labels(self, spread: Spread) -> Interned[str | None]:
        return self._snapshot.label(spread.constraint.topology_key)


def rounded(costs: NDArray[np.float64]) -> IntColumn:
    """Half away from zero; costs are 0 or at least ln 2, where floor(x + 1/2) is just that."""
    whole: IntColumn = np.floor(costs + 0.5).astype(np.int64)
    return whole


def normalized(costs: IntColumn, highest: int, lowest: int) -> IntColumn:
    """The lowest cost becomes the best score."""
    if highest == 0:
        return np.full_like(costs, MAX_NODE_SCORE)
    scores: IntColumn = (highest + lowest - costs) * MAX_NODE_SCORE // highest
    return scores
