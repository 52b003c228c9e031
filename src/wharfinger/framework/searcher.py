"""Which nodes are feasible: PreFilter, then Filter, over all nodes of a snapshot.

Filters are looked at in profile order and a node counts under the plugin that refused it first. What later filters
say of a node already refused is computed on request (`evaluation`), not here. `FailedSearch` is what PostFilter
plugins get.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence, Set
from typing import NamedTuple, TypeAlias

import numpy as np

from wharfinger.errors import PluginError
from wharfinger.framework import sampling
from wharfinger.framework.adapters import FilterStep
from wharfinger.framework.columns import BoolColumn, RowNumbers
from wharfinger.framework.cycle_state import CycleState
from wharfinger.framework.domain import Domain
from wharfinger.framework.extenders.extended_search import extend, refuses
from wharfinger.framework.extenders.extender_verdicts import ExtenderVerdicts
from wharfinger.framework.interface import NOT_ASKED, PreemptionTurn, PreFilter
from wharfinger.framework.local_table import LocalClass, LocalPlugins, Pressed, pre_filtered
from wharfinger.framework.node_info import NodeInfo
from wharfinger.framework.search import Search, SpanningVerdicts, outside
from wharfinger.framework.snapshot import Snapshot
from wharfinger.framework.status import Code, Status, unresolvable
from wharfinger.objects.model.pod import Pod

PreFilterStep: TypeAlias = "tuple[str, PreFilter]"
"""A plugin that has a PreFilter, and its name."""


class PreFiltered(NamedTuple):
    """What the PreFilters said together."""

    rejection: Status | None
    possible: frozenset[str] | None
    restricting: tuple[str, ...]


class Searcher:
    """Searches for one profile."""

    def __init__(
        self,
        local: LocalPlugins,
        *,
        pre_filters: Sequence[PreFilterStep],
        others: Sequence[tuple[int, FilterStep]],
        percentage: int | None,
        scored: bool,
    ) -> None:
        """What a profile searches with.

        Args:
            local: The Local plugins.
            pre_filters: Of all plugins, in order.
            others: Filters that are not Local, with their place among all filters, in order.
            percentage: Of nodes to look for, see `sampling`; None = look at every node.
            scored: Whether anything scores, or an extender filters; if not, one feasible node will do for a sampling
                search.
        """
        self._local = local
        self._pre_filters = pre_filters
        self._others = others
        self._percentage = percentage
        self._scored = scored
        self._last = max([local.last_filter, *(place for place, _ in others)])
        """The place of the last filter; extenders come behind it."""

    def search(
        self,
        state: CycleState,
        pod: Pod,
        snapshot: Snapshot,
        *,
        start: int = 0,
        domain: Domain | None = None,
        verdicts: ExtenderVerdicts | None = None,
    ) -> Search:
        """Run PreFilter and Filter plugins over the snapshot, for nodes of the domain alone. Raises PluginError.

        `verdicts`: what extenders were recorded to say; None = none was asked.
        """
        search = self._begin(state, pod, snapshot)
        if domain is not None:
            search.domain = domain
            search.alive = domain.rows if search.alive is None else search.alive & domain.rows
        search.next_start = start
        state.lap.done("PreFilter", search.rejection.code if search.rejection is not None else Code.SUCCESS)
        if search.rejection is not None:
            return search
        self._filter(search, state, pod)
        if snapshot.nominated:
            self._press(search, state, pod)
        self._choose_from(search, pod, start, verdicts)
        state.lap.done("Filter")
        if verdicts is not None:
            extend(search, verdicts, self._last + 1)
        return search

    def verify(
        self,
        pod: Pod,
        snapshot: Snapshot,
        row: int,
        info: NodeInfo | None = None,
        skipped: Set[str] | None = None,
    ) -> Status:
        """Every filter's answer for one row, perhaps as if it were `info`: the first refusal, or success.

        `skipped`: filters whose PreFilter answered Skip for the snapshot as it is; None = not asked yet.
        """
        here = snapshot.rows[row] if info is None else info
        others = nominated_before(pod, snapshot, here.node.name)
        if others:
            if skipped is None:
                state = CycleState()
                self._pre_filter(self._local.known(pod, snapshot), state, pod, snapshot)
                skipped = state.skipped_filters
            status = self._one(pod, snapshot, row, with_pods(here, others), skipped)
            if not status.ok:
                return status
        # The nominated pods may never come, so a pod must not fit only because of them, as by affinity to them.
        return self._one(pod, snapshot, row, here, skipped or frozenset())

    def looks_at_one_node(self, state: CycleState) -> bool:
        """Whether, in the decision of this state, every filter looked at one node at a time."""
        return all(step.name in state.skipped_filters for _, step in self._others)

    # --- one after the other ------------------------------------------------------------------

    def _begin(self, state: CycleState, pod: Pod, snapshot: Snapshot) -> Search:
        local = self._local.of(pod, snapshot)
        table = local.table
        search = Search(snapshot, local, table.codes, table.statuses, table.positions, alive=table.alive)
        for plugin, data in table.state.baggage.items():  # of PreFilters that were asked once for the whole class
            state.carry(plugin, data)
        said = self._pre_filter(local, state, pod, snapshot)
        search.rejection, search.restricting = said.rejection, said.restricting
        if said.possible is not None and said.rejection is None:
            search.among = np.zeros(len(snapshot), dtype=np.bool_)
            search.among[[snapshot.index[name] for name in said.possible if name in snapshot.index]] = True
            search.alive = search.among if search.alive is None else search.alive & search.among
        return search

    def _pre_filter(self, local: LocalClass, state: CycleState, pod: Pod, snapshot: Snapshot) -> PreFiltered:
        """Run the PreFilters: those of Local plugins have answered already."""
        rejection: Status | None = None
        possible: frozenset[str] | None = None
        restricting: tuple[str, ...] = ()
        silent = local.silent
        if silent:
            state.skipped_filters |= silent
        for name, plugin in self._pre_filters:
            if name in silent:
                continue
            answer = local.pre_filtered.get(name)
            if answer is None:
                answer = pre_filtered(name, plugin, state, pod, snapshot)
            status = answer.status
            if status.code is Code.SKIP:
                state.skipped_filters.add(name)
            elif status.rejected:
                rejection = status.by(name)
                if status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE:
                    break
            if answer.nodes is not None:
                if not isinstance(answer.nodes, Set):
                    raise PluginError(name, "PreFilter", f"named the nodes {answer.nodes!r}, not a set of names")
                possible = frozenset(answer.nodes) if possible is None else possible & answer.nodes
                restricting = tuple(sorted((*restricting, name)))
                if not possible:
                    rejection = unresolvable(contradiction(restricting)).by(restricting[0])
                    break
        return PreFiltered(rejection, possible, restricting)

    def _filter(self, search: Search, state: CycleState, pod: Pod) -> None:
        """Run the filters that are not Local, for as long as a node is left."""
        left = search.alive
        for position, step in self._others:
            if step.name in state.skipped_filters:
                continue
            before_local = position < self._local.last_filter  # then it may be the first to refuse anywhere
            if left is not None and not before_local and not left.any():
                break
            verdicts = step.verdicts(state, pod, search.snapshot, None if before_local else left)
            if verdicts is None:
                continue
            refused: BoolColumn = verdicts.codes != 0
            if refused.any():
                search.said.append(SpanningVerdicts(position, step.name, verdicts))
                left = ~refused if left is None else left & ~refused
        search.alive = left

    def _press(self, search: Search, state: CycleState, pod: Pod) -> None:
        """Nodes with nominated pods must do with those pods too."""
        snapshot, local, within = search.snapshot, search.local, search.within
        alone = self.looks_at_one_node(state)
        known, local.pressed = local.pressed, {}
        for name in snapshot.nominated:
            row = snapshot.index.get(name)
            others = nominated_before(pod, snapshot, name) if row is not None else ()
            if row is None or not others or (within is not None and not within[row]):
                continue
            info = snapshot.rows[row]
            if alone:  # then nothing but the node and these pods matters, and most often neither has changed
                pressed = known.get(name)
                if pressed is None or pressed.stamp != info.stamp or pressed.others != others:
                    pressed = Pressed(info.stamp, others, local.table.first_refusal(with_pods(info, others))[0])
                local.pressed[name] = pressed
                status = pressed.status
            else:
                status = self._one(pod, snapshot, row, with_pods(info, others), state.skipped_filters)
            if not status.ok:
                search.pressed[row] = status
        if search.pressed:
            alive = np.ones(len(snapshot), dtype=np.bool_) if search.alive is None else search.alive.copy()
            alive[list(search.pressed)] = False
            search.alive = alive

    def _choose_from(self, search: Search, pod: Pod, start: int, verdicts: ExtenderVerdicts | None) -> None:
        """The node nominated for the pod alone, if it does; else a sample, if the profile wants one; else all."""
        snapshot = search.snapshot
        own = snapshot.index.get(pod.nominated_node_name) if pod.nominated_node_name else None
        declined = own is not None and verdicts is not None and refuses(verdicts, pod.nominated_node_name)
        # Room was made there by evicting pods: on any other node the pod would waste that.
        if own is not None and not declined and (search.alive is None or search.alive[own]):
            search.alive = np.zeros(len(snapshot), dtype=np.bool_)
            search.alive[own] = True
            search.examined = search.alive
            return
        if self._percentage is not None:
            alive = np.ones(len(snapshot), dtype=np.bool_) if search.alive is None else search.alive
            within = search.within
            searched = len(snapshot) if within is None else int(within.sum())
            most = sampling.wanted(searched, self._percentage) if self._scored else 1
            sample = sampling.take(snapshot, alive, within, most, start)
            search.examined, search.alive, search.next_start = sample.examined, sample.feasible, sample.next_start
            if own is not None and not sample.examined[own]:  # it was refused first of all, and counts as examined
                search.examined = sample.examined.copy()
                search.examined[own] = True
                search.next_start = (search.next_start + 1) % len(snapshot)

    def _one(self, pod: Pod, snapshot: Snapshot, row: int, info: NodeInfo, skipped: Set[str]) -> Status:
        """One pass over one row; filters in `skipped` have no say, whatever their PreFilter says of this row's pods."""
        if info is not snapshot.rows[row]:
            snapshot = snapshot.with_pods_changed({row: info})
        state = CycleState()
        local = self._local.known(pod, snapshot)
        said = self._pre_filter(local, state, pod, snapshot)
        state.skipped_filters |= skipped
        if said.rejection is not None:
            return said.rejection
        if said.possible is not None and info.node.name not in said.possible:
            return outside(said.restricting)
        status, place = local.table.first_refusal(info)
        for position, step in self._others:
            if position > place:
                break
            if step.name not in state.skipped_filters:
                answer = step.one(state, pod, snapshot, row)
                if not answer.ok:
                    return answer
        return status


def contradiction(plugins: Sequence[str]) -> str:
    """Reason when the nodes that PreFilter plugins named have none in common."""
    names = sorted(plugins)
    if len(names) == 1:
        return f"node(s) didn't satisfy plugin {names[0]}"
    return f"node(s) didn't satisfy plugin(s) [{' '.join(names)}] simultaneously"


def verify_alone(pod: Pod, search: Search, info: NodeInfo) -> Status:
    """The same as `Searcher.verify`, where every filter looks at one node at a time."""
    table = search.local.table
    others = nominated_before(pod, search.snapshot, info.node.name)
    if others:
        status, _ = table.first_refusal(with_pods(info, others))
        if not status.ok:
            return status
    return table.first_refusal(info)[0]


def nominated_before(pod: Pod, snapshot: Snapshot, node_name: str) -> tuple[Pod, ...]:
    """Pods nominated to the node that go first: of the same or a higher priority."""
    there = snapshot.nominated.get(node_name, ())
    return tuple(other for other in there if other.priority >= pod.priority and other.key != pod.key)


def with_pods(info: NodeInfo, pods: Sequence[Pod]) -> NodeInfo:
    """The node with more pods on it."""
    for pod in pods:
        info = info.with_pod(pod)
    return info


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
        rejection, final = self._search.rejection, Code.UNSCHEDULABLE_AND_UNRESOLVABLE
        if rejection is not None:
            rows = np.arange(0 if rejection.code is final else len(self.snapshot))
            domain = self._search.domain
            return rows if domain is None else rows[domain.rows[rows]]
        codes, table = self._search.first
        helps = np.array([code > 0 and one.code is not final for code, one in enumerate(table)], dtype=np.bool_)
        return np.flatnonzero(helps[codes])

    def fits(self, row: int, info: NodeInfo) -> Status:
        """Every filter's answer if that row were `info`."""
        if self.alike is not None:
            return verify_alone(self._pod, self._search, info)
        return self._searcher.verify(self._pod, self.snapshot, row, info, self._skipped)
