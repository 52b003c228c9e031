"""What PostFilter plugins are given: why every node was refused, and whether one would do with other pods on it."""

from __future__ import annotations

from collections.abc import Hashable

import numpy as np

from wharfinger.framework.columns import RowNumbers
from wharfinger.framework.cycle_state import CycleState
from wharfinger.framework.interface import NOT_ASKED, PreemptionTurn
from wharfinger.framework.node_info import NodeInfo
from wharfinger.framework.search import Search
from wharfinger.framework.searcher import Searcher, verify_alone
from wharfinger.framework.status import Code, Status
from wharfinger.objects.model.pod import Pod


class FailedSearch:
    """A search that found nothing; see `interface.Trial`."""

    def __init__(
        self, pod: Pod, state: CycleState, search: Search, searcher: Searcher, turn: PreemptionTurn = NOT_ASKED
    ) -> None:
        self.snapshot = search.snapshot
        """What was searched."""
        self.turn = turn
        """See `interface.Trial`."""
        self._pod = pod
        self._search = search
        self._searcher = searcher
        self._skipped = frozenset(state.skipped_filters)
        alone = search.rejection is None and searcher.looks_at_one_node(state)
        self.alike: Hashable | None = search.local if alone else None
        """See `interface.Trial`."""

    def refusal(self, row: int) -> Status:
        """The first refusal of that row's node."""
        return self._search.first_refusal(row)

    def resolvable(self) -> RowNumbers:
        """Rows refused as Unschedulable, ascending."""
        rejection = self._search.rejection
        if rejection is not None:
            final = rejection.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE
            rows = np.arange(0 if final else len(self.snapshot))
            domain = self._search.domain
            return rows if domain is None else rows[domain.rows[rows]]
        codes, table = self._search.first
        helps = np.array([code > 0 and _resolvable(status) for code, status in enumerate(table)], dtype=np.bool_)
        return np.flatnonzero(helps[codes])

    def fits(self, row: int, info: NodeInfo) -> Status:
        """Every filter's answer if that row were `info`."""
        if self.alike is not None:
            return verify_alone(self._pod, self._search, info)
        return self._searcher.verify(self._pod, self.snapshot, row, info, self._skipped)


def _resolvable(status: Status) -> bool:
    return status.code is not Code.UNSCHEDULABLE_AND_UNRESOLVABLE
