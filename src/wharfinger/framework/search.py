"""Which nodes are feasible: PreFilter, then Filter, over all nodes of a snapshot.

Filters are looked at in profile order and a node counts under the plugin that refused it first. What later filters
say of a node already refused is computed when somebody asks (`evaluation`), not here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np

from wharfinger.errors import PluginError
from wharfinger.framework import message
from wharfinger.framework.adapters import FilterStep
from wharfinger.framework.calls import call
from wharfinger.framework.columns import BoolColumn
from wharfinger.framework.cycle_state import CycleState
from wharfinger.framework.interface import PreFilterResult, RowSelection
from wharfinger.framework.snapshot import Snapshot
from wharfinger.framework.status import SUCCESS, Code, Status, unresolvable
from wharfinger.framework.verdicts import Verdicts
from wharfinger.model.pod import Pod

ALL_ROWS = slice(None)
PreFilterStep: TypeAlias = "tuple[str, Callable[[CycleState, Pod, Snapshot], PreFilterResult]]"
"""A plugin's name and its PreFilter."""


@dataclass(frozen=True, slots=True)
class FirstRefusals:
    """What one plugin said, and where it was the first to refuse."""

    plugin: str
    verdicts: Verdicts
    first: BoolColumn


@dataclass(slots=True)
class Search:
    """The outcome: feasible rows, and who refused the others."""

    nodes: int
    rejection: Status | None = None
    """A PreFilter plugin refused the pod altogether."""
    refusals: list[FirstRefusals] = field(default_factory=list)
    """In profile order; node sets named by PreFilter come first."""
    restricting: tuple[str, ...] = ()
    """Plugins whose PreFilter named the only possible nodes, sorted."""
    alive: BoolColumn | None = None
    """Feasible nodes by row; None = all."""

    @property
    def feasible(self) -> RowSelection:
        """The feasible rows; a full slice when every node is."""
        if self.rejection is not None:
            return np.empty(0, dtype=np.intp)
        if self.alive is None:
            return ALL_ROWS
        return np.flatnonzero(self.alive)

    def first_refusal(self, row: int) -> Status:
        """Why that row is not feasible: the first refusal; success when it is."""
        if self.rejection is not None:
            return self.rejection
        for refusal in self.refusals:
            if refusal.first[row]:
                return call(refusal.plugin, "Filter", refusal.verdicts.at, row).by(refusal.plugin)
        return SUCCESS

    def refuse(self, plugin: str, verdicts: Verdicts) -> None:
        """Take a filter's verdicts into account."""
        refused: BoolColumn = verdicts.codes != 0
        first = refused if self.alive is None else refused & self.alive
        if not first.any():
            return
        self.alive = ~refused if self.alive is None else self.alive & ~refused
        self.refusals.append(FirstRefusals(plugin, verdicts, first))


def find_feasible(
    state: CycleState,
    pod: Pod,
    snapshot: Snapshot,
    pre_filters: Sequence[PreFilterStep],
    filters: Sequence[FilterStep],
) -> Search:
    """Run PreFilter and Filter plugins over the snapshot. Raises PluginError."""
    search = Search(len(snapshot))
    _run_pre_filters(search, state, pod, snapshot, pre_filters)
    if search.rejection is not None:
        return search
    for step in filters:
        if step.name in state.skipped_filters:
            continue
        if search.alive is not None and not search.alive.any():
            break
        verdicts = step.verdicts(state, pod, snapshot, search.alive)
        if verdicts is not None:
            search.refuse(step.name, verdicts)
    return search


def _run_pre_filters(
    search: Search,
    state: CycleState,
    pod: Pod,
    snapshot: Snapshot,
    pre_filters: Sequence[PreFilterStep],
) -> None:
    possible: frozenset[str] | None = None
    restricting: list[str] = []
    for name, pre_filter in pre_filters:
        answer = call(name, "PreFilter", pre_filter, state, pod, snapshot)
        if not isinstance(answer, PreFilterResult):
            raise PluginError(name, "PreFilter", f"answered {answer!r}, not a PreFilterResult")
        status = answer.status
        if status.code is Code.SKIP:
            state.skipped_filters.add(name)
        elif status.rejected:
            search.rejection = status.by(name)
            if status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE:
                return
        elif not status.ok:
            raise PluginError(name, "PreFilter", status.message or status.code.name)
        if answer.nodes is not None:
            possible = _common(name, possible, answer.nodes)
            restricting.append(name)
            search.restricting = tuple(sorted(restricting))
            if not possible:
                search.rejection = unresolvable(message.contradiction(restricting)).by(search.restricting[0])
                return
    if possible is None or search.rejection is not None:
        return
    excluded = np.ones(len(snapshot), dtype=np.bool_)
    excluded[[snapshot.index[name] for name in possible if name in snapshot.index]] = False
    reason = unresolvable(message.not_satisfied(restricting))
    search.refuse(search.restricting[0], Verdicts.refuse(excluded, reason))


def _common(plugin: str, possible: frozenset[str] | None, named: object) -> frozenset[str]:
    """The nodes that are possible still, now that a plugin named its own."""
    if not isinstance(named, Set):
        raise PluginError(plugin, "PreFilter", f"named the nodes {named!r}, not a set of names")
    return frozenset(named) if possible is None else possible & named
