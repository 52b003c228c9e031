"""The outcome of a search for feasible nodes: which are feasible, and which plugin refused each other one first.

A search may be confined to a topology domain, the nodes with one value of each of some labels. Plugins still see the
whole cluster, because pods elsewhere may matter to them.

Recorded verdicts of extenders are laid over a search. To the rest of a decision an extender is one more filter behind
those of the plugins: its refusals are counted, shown and tried by preemption as theirs are. A node that a plugin
refuses counts under the plugin, because no extender was asked about it.

Made by `searcher`; read by `evaluation`. The FailedScheduling text is written as kube-scheduler's FitError writes it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from wharfinger.framework.columns import BoolColumn, IntColumn, RowNumbers
from wharfinger.framework.extenders.extender_chain import SCALE
from wharfinger.framework.extenders.extender_verdicts import FEW_BITS, ExtenderVerdict, ExtenderVerdicts, numbers_in
from wharfinger.framework.local_table import LocalClass
from wharfinger.framework.snapshot import Snapshot
from wharfinger.framework.status import SUCCESS, Code, Status, call, unresolvable
from wharfinger.framework.verdicts import Verdicts
from wharfinger.objects.model.gang import GANG_SCHEDULING

NO_NODES = "no nodes available to schedule pods"


def refused_before_filtering(nodes: int, reason: str) -> str:
    """A PreFilter plugin refused the pod altogether."""
    return f"0/{nodes} nodes are available: {reason}."


def refused_by_nodes(nodes: int, reasons: Mapping[str, int]) -> str:
    """No node passed; `reasons`: how many nodes gave each. Pairs are sorted as texts, so 10 comes before 9."""
    text = f"0/{nodes} nodes are available:"
    pairs = sorted(f"{count} {reason}" for reason, count in reasons.items())
    return f"{text} {', '.join(pairs)}." if pairs else text


def with_post_filter(message: str, additions: Sequence[str]) -> str:
    """What PostFilter plugins had to add."""
    return " ".join([message, *additions])


def not_satisfied(plugins: Sequence[str]) -> str:
    """Reason of a node that is not among those that PreFilter plugins named."""
    return f"node(s) didn't satisfy plugin(s) [{' '.join(sorted(plugins))}]"


def contradiction(plugins: Sequence[str]) -> str:
    """Reason when the nodes that PreFilter plugins named have none in common."""
    names = sorted(plugins)
    if len(names) == 1:
        return f"node(s) didn't satisfy plugin {names[0]}"
    return f"node(s) didn't satisfy plugin(s) [{' '.join(names)}] simultaneously"


Terms = tuple[tuple[str, str], ...]
"""Labels that the nodes of a domain have: keys and values."""
_ESCAPES = (("%", "%25"), (",", "%2C"))
"""No value of Kubernetes has these characters; in other formats it may."""


@dataclass(frozen=True, slots=True)
class Domain:
    """The nodes that may be chosen."""

    terms: Terms
    rows: BoolColumn
    """By row of the snapshot; of every snapshot that has the same nodes."""

    def __str__(self) -> str:
        """As records and messages have it; `terms_of` reads it back."""
        return ",".join([f"{key}={_escaped(value)}" for key, value in self.terms])

    @property
    def outside(self) -> Status:
        """The refusal of all other nodes."""
        return unresolvable(f"node(s) outside the gang's domain {self}").by(GANG_SCHEDULING)


def domain(snapshot: Snapshot, terms: Iterable[tuple[str, str]]) -> Domain:
    """That domain; without any row when no node has all the values."""
    terms = tuple(terms)
    rows = np.ones(len(snapshot), dtype=np.bool_)
    for key, value in terms:
        column = snapshot.label(key)
        rows &= column.codes == column.code(value)  # the code of a value that no node has is negative
    return Domain(terms, rows)


def terms_of(text: str) -> Terms:
    """The labels of a domain by its text; empty for none."""
    parts = [part.partition("=") for part in text.split(",") if part]
    return tuple([(key, _plain(value)) for key, _, value in parts])


def _escaped(value: str) -> str:
    for plain, escape in _ESCAPES:
        value = value.replace(plain, escape)
    return value


def _plain(value: str) -> str:
    for plain, escape in reversed(_ESCAPES):
        value = value.replace(escape, plain)
    return value


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
    return unresolvable(not_satisfied(restricting)).by(restricting[0])


# --- extenders ------------------------------------------------------------------------------------


def extend(search: Search, verdicts: ExtenderVerdicts, position: int) -> None:
    """Let the extenders refuse nodes of the search. `position`: behind all filters."""
    snapshot = search.snapshot
    rows = np.array([snapshot.index.get(name, -1) for name in verdicts.nodes], dtype=np.intp)
    there = rows >= 0  # a node may have gone since
    asked = np.zeros(len(snapshot), dtype=np.bool_)
    asked[rows[there]] = True
    feasible = np.ones(len(snapshot), dtype=np.bool_) if search.alive is None else search.alive
    unasked = feasible & ~asked
    if unasked.any():
        search.examined = ~unasked if search.examined is None else search.examined & ~unasked
    alive = feasible & asked
    said = []
    for place, one in enumerate(verdicts.verdicts):
        refused = _refusals(one, rows, there, snapshot)
        if refused is not None:
            said.append(SpanningVerdicts(position + place, one.extender, refused))
            alive = alive & (refused.codes == 0)
    search.alive = alive
    search.said += said
    scores = {one.extender: _added(one, rows, there, snapshot) for one in verdicts.verdicts if one.scores}
    search.extended = Extended(verdicts, tuple(said), scores, feasible, unasked)


def refuses(verdicts: ExtenderVerdicts, node: str) -> bool:
    """Whether an extender that was asked about the node refused it."""
    if node not in verdicts.nodes:
        return False
    bit = 1 << verdicts.nodes.index(node)
    return any(refusal.nodes & bit for one in verdicts.verdicts for refusal in one.refusals)


def _refusals(one: ExtenderVerdict, rows: RowNumbers, there: BoolColumn, snapshot: Snapshot) -> Verdicts | None:
    codes = np.zeros(len(snapshot), dtype=np.int32)
    statuses = [SUCCESS]
    for refusal in one.refusals:
        code = Code.UNSCHEDULABLE if refusal.resolvable else Code.UNSCHEDULABLE_AND_UNRESOLVABLE
        numbers = _numbers(refusal.nodes, len(rows))
        codes[rows[numbers[there[numbers]]]] = len(statuses)
        reasons = () if refusal.reason is None else (refusal.reason,)
        statuses.append(Status(code, reasons, one.extender))
    return Verdicts(codes, tuple(statuses)) if len(statuses) > 1 else None


def _added(one: ExtenderVerdict, rows: RowNumbers, there: BoolColumn, snapshot: Snapshot) -> IntColumn:
    column = np.zeros(len(snapshot), dtype=np.int64)
    given = np.zeros(len(rows), dtype=np.int64)
    for number, score in one.scores.items():
        given[number] = score * one.weight * SCALE
    column[rows[there]] = given[there]
    return column


def _numbers(bitmap: int, length: int) -> RowNumbers:
    """The nodes of the question whose bits are set."""
    if bitmap.bit_count() <= FEW_BITS:  # many nodes may have a reason each
        return np.fromiter(numbers_in(bitmap), dtype=np.intp)
    data = np.frombuffer(bitmap.to_bytes((length + 7) // 8, "little"), dtype=np.uint8)
    return np.flatnonzero(np.unpackbits(data, count=length, bitorder="little"))
