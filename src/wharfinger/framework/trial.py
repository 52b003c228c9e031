"""What PostFilter plugins are given: why every node was refused, and whether one would do with other pods on it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from wharfinger.framework.columns import BoolColumn, RowNumbers
from wharfinger.framework.node_info import NodeInfo
from wharfinger.framework.search import Search
from wharfinger.framework.snapshot import Snapshot
from wharfinger.framework.status import Code, Status
from wharfinger.model.pod import Pod


class FailedSearch:
    """A search that found nothing; see `interface.Trial`."""

    def __init__(
        self, pod: Pod, snapshot: Snapshot, search: Search, verify_row: Callable[[Pod, Snapshot, int], Status]
    ) -> None:
        self.snapshot = snapshot
        """What was searched."""
        self._pod = pod
        self._search = search
        self._verify_row = verify_row

    def refusal(self, row: int) -> Status:
        """The first refusal of that row's node."""
        return self._search.first_refusal(row)

    def resolvable(self) -> RowNumbers:
        """Rows refused as Unschedulable, ascending."""
        if self._search.rejection is not None:
            resolvable = self._search.rejection.code is not Code.UNSCHEDULABLE_AND_UNRESOLVABLE
            return np.arange(len(self.snapshot) if resolvable else 0)
        helped: BoolColumn = np.zeros(len(self.snapshot), dtype=np.bool_)
        for refusal in self._search.refusals:
            codes = refusal.verdicts.codes
            for code in np.unique(codes[refusal.first]).tolist():
                if refusal.verdicts.statuses[code].code is not Code.UNSCHEDULABLE_AND_UNRESOLVABLE:
                    helped |= refusal.first & (codes == code)
        return np.flatnonzero(helped)

    def fits(self, row: int, info: NodeInfo) -> Status:
        """Every filter's answer if that row were `info`."""
        return self._verify_row(self._pod, self.snapshot.with_pods_changed({row: info}), row)
