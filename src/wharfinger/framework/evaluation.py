"""The outcome of one decision, with everything needed to explain it; built from arrays on request."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wharfinger.framework.adapters import FilterStep
from wharfinger.framework.columns import BoolColumn, IntColumn, RowNumbers
from wharfinger.framework.cycle_state import CycleState
from wharfinger.framework.extenders.extender_verdicts import CandidateVictims, ExtenderVerdicts
from wharfinger.framework.local_table import DEAD
from wharfinger.framework.preferred_nodes import Preference
from wharfinger.framework.scoring import Scores, choose, prefer, ranking
from wharfinger.framework.search import Search, outside
from wharfinger.framework.status import Status
from wharfinger.objects.model.decision import (
    NO_NODES,
    Decision,
    Ranked,
    refused_before_filtering,
    refused_by_nodes,
    with_post_filter,
)
from wharfinger.objects.model.extenders import EXTENDER
from wharfinger.objects.model.gang import GANG_SCHEDULING
from wharfinger.objects.model.pod import Pod

RANKED = 5
"""Nodes in a decision's ranking unless more are asked for: the chosen one and four runners-up."""


class Evaluation:
    """One pod evaluated on one snapshot by one profile."""

    def __init__(
        self,
        pod: Pod,
        state: CycleState,
        search: Search,
        scores: Scores | None,
        filters: Sequence[FilterStep],
        *,
        preference: Preference | None = None,
    ) -> None:
        """`scores`: None when at most one node is feasible; `preference`: None = the best node is chosen."""
        self.pod = pod
        self.snapshot = search.snapshot
        self.state = state
        """What plugins noted; its `baggage` travels to the binding side."""
        self.post_filter_messages: tuple[str, ...] = ()
        """What PostFilter plugins add to the message."""
        self.nominated_node: str | None = None
        """Where PostFilter made, or would make, room."""
        self.victims: tuple[Pod, ...] = ()
        """Who would have to leave for it, most important first."""
        self.candidates: tuple[CandidateVictims, ...] = ()
        """Where PostFilter might make room, if extenders are to be asked about it first."""
        self.next_start = search.next_start
        """Where the next attempt of a sampling profile begins."""
        self.feasible_count = search.count
        """How many nodes passed every filter (of those examined)."""
        self._search = search
        self._scores = scores
        self._filters = filters
        self._preference = preference
        self._passed_over: int | None = None
        self._position = 0
        """Of the chosen node among those that were scored."""
        self.node: str | None = None
        """The chosen node's name, None when no node is feasible."""
        if scores is not None:
            self._position = self._choose(scores)
            self.node = self.snapshot.names[scores.row(self._position)]
        elif self.feasible_count:
            self.node = self.snapshot.names[0 if search.alive is None else int(search.alive.argmax())]

    def _choose(self, scores: Scores) -> int:
        best = choose(scores, self.snapshot, self.pod)
        if self._preference is None:
            return best
        chosen = prefer(best, scores, self.snapshot, self.pod, self._preference)
        self._passed_over = best if chosen != best else None
        return chosen

    @cached_property
    def feasible(self) -> tuple[str, ...]:
        """Names of the nodes that passed every filter, sorted."""
        names = self.snapshot.node_columns.names
        if self.feasible_count == 0:
            return ()
        if self._search.alive is None:
            return names.sorted_names
        order = names.alphabetical
        return tuple(names.array[order[self._search.alive[order]]].tolist())

    @property
    def examined(self) -> BoolColumn | None:
        """By row, which nodes were looked at; None = all of them."""
        return self._search.examined

    @property
    def extender_verdicts(self) -> ExtenderVerdicts | None:
        """What extenders were recorded to say of the nodes; None = none was asked."""
        return self._search.extended.verdicts if self._search.extended is not None else None

    @property
    def refused_before_filtering(self) -> str:
        """The plugin that refused the pod altogether in PreFilter: no filter was asked then; empty for none."""
        return self._search.rejection.plugin if self._search.rejection is not None else ""

    @cached_property
    def rejectors(self) -> tuple[str, ...]:
        """Plugins that refused first on some node, or in PreFilter, sorted; empty when placed.

        `Extender` stands for all extenders, as in kube-scheduler.
        """
        if self.node is not None:
            return ()
        refused = set(self._search.restricting)
        if self._search.rejection is not None:
            refused.add(self._search.rejection.plugin)
        else:
            refused.update(status.plugin for status in self._counts)
        if self._search.extended is not None and not refused.isdisjoint(self._search.extended.refusers):
            refused = refused.difference(self._search.extended.refusers) | {EXTENDER}
        return tuple(sorted(refused))

    @cached_property
    def _counts(self) -> Mapping[Status, int]:
        return self._search.counts()

    @cached_property
    def refusals(self) -> Mapping[str, Mapping[str, int]]:
        """Plugin that refused first -> reason -> number of nodes, in profile order."""
        rejection = self._search.rejection
        if rejection is not None:
            return {rejection.plugin: {rejection.message: len(self.snapshot)}}
        counts: dict[str, dict[str, int]] = {}
        for status, number in self._counts.items():
            reasons = counts.setdefault(status.plugin, {})
            for reason in status.reasons:
                reasons[reason] = reasons.get(reason, 0) + number
        # Sorted, so that a decision computed again elsewhere is written with the same bytes.
        refusers = self._search.extended.refusers if self._search.extended is not None else ()
        order = [*self._search.restricting, *(step.name for step in self._filters), GANG_SCHEDULING, *refusers]
        return {plugin: dict(sorted(counts[plugin].items())) for plugin in dict.fromkeys(order) if plugin in counts}

    @cached_property
    def message(self) -> str:
        """The FailedScheduling text, empty when placed."""
        if self.node is not None:
            return ""
        nodes = len(self.snapshot)
        if nodes == 0:
            return NO_NODES
        rejection = self._search.rejection
        if rejection is not None:
            text = refused_before_filtering(nodes, rejection.message)
        else:
            reasons: dict[str, int] = {}
            for counts in self.refusals.values():
                for reason, number in counts.items():
                    reasons[reason] = reasons.get(reason, 0) + number
            text = refused_by_nodes(nodes, reasons)
        return with_post_filter(text, self.post_filter_messages)

    @cached_property
    def decision(self) -> Decision:
        """The decision with the best few of the ranking."""
        return self.decide(RANKED)

    def decide(self, ranked: int | None = None) -> Decision:
        """The decision with the `ranked` best nodes of the ranking, None = all of them."""
        return Decision(
            pod=self.pod.key,
            revision=self.snapshot.revision,
            node=self.node,
            nodes=len(self.snapshot),
            feasible=self.feasible,
            ranking=self.ranking(self.feasible_count if ranked is None else ranked),
            refusals=self.refusals,
            rejectors=self.rejectors,
            message=self.message,
            nominated_node=self.nominated_node,
            victims=tuple(sorted(victim.key for victim in self.victims)),
        )

    def ranking(self, count: int) -> tuple[Ranked, ...]:
        """The `count` best nodes, best first; empty when scoring was skipped."""
        scores = self._scores
        if scores is None:
            return ()
        best_first = ranking(scores, self.snapshot, self.pod, count, self._preference)
        return tuple(self._ranked(scores, position) for position in best_first)

    def totals(self) -> tuple[RowNumbers, IntColumn]:
        """The feasible rows, and the total of each; all zero when scoring was skipped."""
        scores = self._scores
        if scores is None:
            alive = self._search.alive
            rows = np.arange(self.feasible_count) if alive is None else np.flatnonzero(alive)
            rows = rows[: self.feasible_count]
            return rows, np.zeros(len(rows), dtype=np.int64)
        positions = np.flatnonzero(scores.sums > DEAD)
        rows = positions if isinstance(scores.rows, slice) else scores.rows[positions]
        return rows, scores.sums[positions] + scores.constant

    def total_of(self, node: str) -> int | None:
        """The total of one node; None where it is not feasible, or scoring was skipped."""
        rows, totals = self.totals() if self._scores is not None else (None, None)
        row = self.snapshot.index.get(node)
        if rows is None or totals is None or row is None:
            return None
        position = int(np.searchsorted(rows, row))
        return int(totals[position]) if position < len(rows) and rows[position] == row else None

    @property
    def by_preference(self) -> bool:
        """Whether preferred nodes had a say: never when at most one node is feasible."""
        return self._scores is not None and self._preference is not None

    @property
    def passed_over(self) -> Ranked | None:
        """The node that would have been chosen but for the preference; None when it is the chosen one."""
        if self._scores is None or self._passed_over is None:
            return None
        return self._ranked(self._scores, self._passed_over)

    def _ranked(self, scores: Scores, position: int) -> Ranked:
        return Ranked(self.snapshot.names[scores.row(position)], scores.total(position), scores.of(position))

    @property
    def chosen(self) -> Ranked | None:
        """The chosen node with its scores; None when scoring was skipped."""
        return None if self._scores is None else self._ranked(self._scores, self._position)

    def runners_up(self, count: int) -> Mapping[str, int]:
        """The next best nodes after the chosen one and their totals, best first."""
        scores = self._scores
        if scores is None:
            return {}
        positions = ranking(scores, self.snapshot, self.pod, count + 1, self._preference)[1:]
        return {self.snapshot.names[scores.row(position)]: scores.total(position) for position in positions}

    def refuses_as(self, other: Evaluation) -> bool:
        """Whether nodes are surely refused for the same reasons as in the other evaluation; cheap, and often so."""
        return self._search.refuses_as(other._search)

    def verdicts_on(self, node: str) -> Mapping[str, Status]:
        """Plugin -> refusal of this node: what `verdicts` has of it, without the work for the others.

        KeyError when there is no node of this name.
        """
        search, row = self._search, self.snapshot.index[node]
        if search.rejection is not None:
            return {search.rejection.plugin: search.rejection}
        refused: dict[str, Status] = {}
        if search.among is not None and not search.among[row]:
            reason = outside(search.restricting)
            refused[reason.plugin] = reason
        if search.domain is not None and not search.domain.rows[row]:
            refused[search.domain.outside.plugin] = search.domain.outside
        for step in self._filters:
            if step.name in self.state.skipped_filters:
                continue
            state = search.local.table.state if step.name in search.local.pre_filtered else self.state
            status = step.one(state, self.pod, self.snapshot, row)
            if not status.ok:
                refused.setdefault(step.name, status)
        if row in search.pressed:
            refused.setdefault(search.pressed[row].plugin, search.pressed[row])
        for one in search.extended.said if search.extended is not None else ():
            if one.verdicts.codes[row]:
                refused.setdefault(one.plugin, one.verdicts.at(row))
        return refused

    def verdicts(self) -> Mapping[str, Mapping[str, Status]]:
        """Node -> plugin -> refusal, of *every* filter that refuses, not only the first.

        A pod refused in PreFilter stands refused by that plugin on every node. Computed anew from the snapshot.
        """
        search, names = self._search, self.snapshot.names
        rejection = search.rejection
        if rejection is not None:
            return {name: {rejection.plugin: rejection} for name in names}
        refused: dict[str, dict[str, Status]] = {name: {} for name in names}
        if search.among is not None:
            reason = outside(search.restricting)
            for row in np.flatnonzero(~search.among).tolist():
                refused[names[row]][reason.plugin] = reason
        if search.domain is not None:
            reason = search.domain.outside
            for row in np.flatnonzero(~search.domain.rows).tolist():
                refused[names[row]][reason.plugin] = reason
        for step in self._filters:
            if step.name in self.state.skipped_filters:
                continue
            state = search.local.table.state if step.name in search.local.pre_filtered else self.state
            verdicts = step.verdicts(state, self.pod, self.snapshot, None)
            if verdicts is not None:
                _collect(refused, names, step.name, verdicts.codes, verdicts.at)
        for row, status in search.pressed.items():
            refused[names[row]].setdefault(status.plugin, status)
        for one in search.extended.said if search.extended is not None else ():
            _collect(refused, names, one.plugin, one.verdicts.codes, one.verdicts.at)
        return refused


def _collect(
    refused: dict[str, dict[str, Status]],
    names: Sequence[str],
    plugin: str,
    codes: NDArray[Any],
    at: Callable[[int], Status],
) -> None:
    for row in np.flatnonzero(codes).tolist():
        refused[names[row]].setdefault(plugin, at(row).by(plugin))
