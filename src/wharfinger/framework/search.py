"""The outcome of a search for feasible nodes: which are feasible, and which plugin refused each other one first.

Made by `searcher`; read by `evaluation`. To the rest of a decision an extender is one more filter behind those of the
plugins (`extenders.extended_search`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from wharfinger.framework.columns import BoolColumn, IntColumn
from wharfinger.framework.domain import Domain
from wharfinger.framework.extenders.extender_verdicts import ExtenderVerdicts
from wharfinger.framework.local_table import LocalClass
from wharfinger.framework.snapshot import Snapshot
from wharfinger.framework.status import Status, call, unresolvable
from wharfinger.framework.verdicts import Verdicts


@dataclass(frozen=True, slots=True)
class SpanningVerdicts:
    """Verdicts of a filter that looks at more than one node at a time."""

    position: int
    plugin: str
    verdicts: Verdicts


@dataclass(frozen=True, slots=True)
class Extended:
    """What extenders did to a search."""

    verdicts: ExtenderVerdicts
    said: tuple[SpanningVerdicts, ...]
    """Refusals, in the order of the calls."""
    scores: Mapping[str, IntColumn]
    """Extender -> by row, what is added to the total."""
    feasible: BoolColumn
    """By row: what the plugins leave, also where an extender refuses."""
    unasked: BoolColumn
    """Those of them that no extender was asked about: they became feasible since. None of them is chosen."""

    @property
    def refusers(self) -> tuple[str, ...]:
        """The extenders that refused some node, in the order of the calls."""
        return tuple(one.plugin for one in self.said)


@dataclass
class Search:
    """The outcome: feasible rows, and who refused the others."""

    snapshot: Snapshot
    local: LocalClass
    codes: NDArray[np.int32]
    """By row: the first refusal of the Local plugins, in `statuses`; as it was at the time of the search."""
    statuses: Sequence[Status]
    positions: Sequence[int]
    rejection: Status | None = None
    """A PreFilter plugin refused the pod altogether."""
    restricting: tuple[str, ...] = ()
    """Plugins whose PreFilter named the only possible nodes, sorted."""
    said: list[SpanningVerdicts] = field(default_factory=list)
    """In profile order; only of filters that refused somewhere."""
    pressed: dict[int, Status] = field(default_factory=dict)
    """Rows refused because of the pods nominated to them."""
    among: BoolColumn | None = None
    """Rows that PreFilter left; None = all."""
    domain: Domain | None = None
    """The only nodes that the decision may choose among; None = all."""
    alive: BoolColumn | None = None
    """Feasible nodes by row; None = all."""
    examined: BoolColumn | None = None
    """Nodes that were looked at; None = all."""
    next_start: int = 0
    """Where the next sampling search begins."""
    extended: Extended | None = None
    """What extenders were recorded to say; None = none was asked. Their refusals are among `said`."""

    @property
    def within(self) -> BoolColumn | None:
        """Rows that may be chosen at all, whatever the filters say; None = all."""
        if self.domain is None:
            return self.among
        return self.domain.rows if self.among is None else self.among & self.domain.rows

    @property
    def count(self) -> int:
        """How many nodes are feasible."""
        if self.rejection is not None:
            return 0
        return len(self.snapshot) if self.alive is None else int(np.count_nonzero(self.alive))

    def refuses_as(self, other: Search) -> bool:
        """Whether it is known, without counting, that the same rows are refused for the same reasons."""
        beyond = (each.said or each.pressed or each.rejection or each.among is not None for each in (self, other))
        same_codes = self.codes is other.codes and self.statuses is other.statuses
        return same_codes and self.examined is None and other.examined is None and not any(beyond)

    def first_refusal(self, row: int) -> Status:
        """Why that row is not feasible: the first refusal; success when it is."""
        if self.rejection is not None:
            return self.rejection
        codes, table = self.first
        return table[int(codes[row])]

    @cached_property
    def first(self) -> tuple[NDArray[np.int32], Sequence[Status]]:
        """By row: the first refusal as a code in the table that comes with it; 0 = none."""
        if not self.said and not self.pressed and self.among is None and self.domain is None:
            return self.codes, self.statuses
        table = list(self.statuses)
        codes = self.codes.copy()
        place = np.array(self.positions, dtype=np.int64)[codes]
        place[codes == 0] = np.iinfo(np.int64).max
        for one in self.said:
            where = (one.verdicts.codes != 0) & (place > one.position)
            _mark(codes, table, where, one)
            place[where] = one.position
        if self.among is not None:
            codes[~self.among] = len(table)
            table.append(outside(self.restricting))
        if self.domain is not None:
            codes[~self.domain.rows] = len(table)
            table.append(self.domain.outside)
        for row, status in self.pressed.items():
            codes[row] = len(table)
            table.append(status)
        return codes, table

    def counts(self) -> Mapping[Status, int]:
        """First refusal -> number of (examined) nodes, in profile order."""
        codes, table = self.first
        if self.examined is not None:
            codes = codes[self.examined]
        numbers = np.bincount(codes, minlength=len(table)).tolist()
        counts: dict[Status, int] = {}
        for code in np.flatnonzero(numbers).tolist():
            if code:
                counts[table[code]] = counts.get(table[code], 0) + numbers[code]
        return counts


def _mark(codes: NDArray[np.int32], table: list[Status], where: BoolColumn, one: SpanningVerdicts) -> None:
    said, places = np.unique(one.verdicts.codes[where], return_inverse=True)
    codes[where] = places + len(table)
    table.extend(call(one.plugin, "Filter", one.verdicts.refusal, code).by(one.plugin) for code in said.tolist())


def outside(restricting: Sequence[str]) -> Status:
    """The refusal of a node that is not among those that PreFilter plugins named."""
    reason = f"node(s) didn't satisfy plugin(s) [{' '.join(sorted(restricting))}]"
    return unresolvable(reason).by(restricting[0])
