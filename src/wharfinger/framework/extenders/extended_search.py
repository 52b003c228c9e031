"""Recorded verdicts of extenders, laid over a search and its scores.

To the rest of a decision an extender is one more filter behind those of the plugins: its refusals are counted, shown
and tried by preemption as theirs are. A node that a plugin refuses counts under the plugin, because no extender was
asked about it.
"""

from __future__ import annotations

import numpy as np

from wharfinger.framework.columns import BoolColumn, IntColumn, RowNumbers
from wharfinger.framework.extenders.extender_chain import SCALE
from wharfinger.framework.extenders.extender_verdicts import FEW_BITS, ExtenderVerdict, ExtenderVerdicts, numbers_in
from wharfinger.framework.scoring import Scores
from wharfinger.framework.search import Extended, Search, SpanningVerdicts
from wharfinger.framework.snapshot import Snapshot
from wharfinger.framework.status import SUCCESS, Code, Status
from wharfinger.framework.verdicts import Verdicts


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


def add_scores(scores: Scores, extended: Extended) -> None:
    """Add the extenders' points to scores of feasible rows alone, and show each extender as one that scored."""
    columns = {name: column[scores.rows] for name, column in extended.scores.items()}
    if not columns:
        return
    total: IntColumn = sum(columns.values(), np.zeros(len(scores.sums), dtype=np.int64))
    lowest = int(total.min(initial=0))  # below 0, a sum would mean that the node is not feasible
    scores.sums = scores.sums + (total - lowest)
    scores.constant += lowest
    scores.order = (*scores.order, *columns)
    scores.made.update(columns)
