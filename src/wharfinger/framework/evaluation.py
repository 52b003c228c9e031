"""The outcome of one decision, with everything needed to say why; built from arrays when somebody asks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wharfinger.framework import message
from wharfinger.framework.adapters import FilterStep, selected
from wharfinger.framework.calls import call
from wharfinger.framework.columns import IntColumn
from wharfinger.framework.cycle_state import CycleState
from wharfinger.framework.interface import RowSelection
from wharfinger.framework.scoring import Scores, best, preference, ranked_plugins
from wharfinger.framework.search import Search
from wharfinger.framework.snapshot import Snapshot
from wharfinger.framework.status import Status
from wharfinger.model.decision import Decision, Ranked
from wharfinger.model.pod import Pod

RANKED = 5
"""Nodes in a decision's ranking unless more are asked for: the chosen one and four runners-up."""


class Evaluation:
    """One pod evaluated on one snapshot by one profile."""

    def __init__(
        self,
        pod: Pod,
        snapshot: Snapshot,
        state: CycleState,
        *,
        search: Search,
        rows: RowSelection,
        scores: Scores | None,
        filters: Sequence[FilterStep],
    ) -> None:
        self.pod = pod
        self.snapshot = snapshot
        self.state = state
        """What plugins noted; its `baggage` travels to the binding side."""
        self.post_filter_messages: tuple[str, ...] = ()
        """What PostFilter plugins add to the message."""
        self.nominated_node: str | None = None
        """Where PostFilter made, or would make, room."""
        self.victims: tuple[Pod, ...] = ()
        """Who would have to leave for it, most important first."""
        self._search = search
        self._rows = rows
        self._scores = scores
        self._filters = filters
        self._keys: IntColumn | None = None
        if scores is not None:
            self._keys = preference(snapshot, rows, pod, scores.totals)

    @cached_property
    def node(self) -> str | None:
        """The chosen node's name, None when no node is feasible."""
        if self.feasible_count == 0:
            return None
        return self._name(0 if self._keys is None else int(self._keys.argmax()))

    @cached_property
    def feasible_count(self) -> int:
        """How many nodes passed every filter."""
        return selected(self.snapshot, self._rows)

    @cached_property
    def feasible(self) -> tuple[str, ...]:
        """Names of the nodes that passed every filter, sorted."""
        names = self.snapshot.node_columns.names
        if isinstance(self._rows, slice):
            return names.sorted_names
        if self._search.alive is None or not len(self._rows):
            return ()
        order = names.alphabetical
        return tuple(names.array[order[self._search.alive[order]]].tolist())

    @cached_property
    def rejectors(self) -> tuple[str, ...]:
        """Plugins that refused first on some node, or in PreFilter, sorted; empty when placed."""
        if self.node is not None:
            return ()
        refused = {refusal.plugin for refusal in self._search.refusals} | set(self._search.restricting)
        if self._search.rejection is not None:
            refused.add(self._search.rejection.plugin)
        return tuple(sorted(refused))

    @cached_property
    def refusals(self) -> Mapping[str, Mapping[str, int]]:
        """Plugin that refused first -> reason -> number of nodes, in profile order."""
        rejection = self._search.rejection
        if rejection is not None:
            return {rejection.plugin: {rejection.message: len(self.snapshot)}}
        counts: dict[str, dict[str, int]] = {}
        for refusal in self._search.refusals:
            reasons = counts.setdefault(refusal.plugin, {})
            for status, number in call(refusal.plugin, "Filter", refusal.verdicts.counts, refusal.first).items():
                for reason in status.reasons:
                    reasons[reason] = reasons.get(reason, 0) + number
        # Sorted, so that a decision computed again elsewhere is written with the same bytes.
        return {plugin: dict(sorted(reasons.items())) for plugin, reasons in counts.items()}

    @cached_property
    def message(self) -> str:
        """The FailedScheduling text, empty when placed."""
        if self.node is not None:
            return ""
        nodes = len(self.snapshot)
        if nodes == 0:
            return message.NO_NODES
        rejection = self._search.rejection
        if rejection is not None:
            text = message.refused_before_filtering(nodes, rejection.message)
        else:
            reasons: dict[str, int] = {}
            for counts in self.refusals.values():
                for reason, number in counts.items():
                    reasons[reason] = reasons.get(reason, 0) + number
            text = message.refused_by_nodes(nodes, reasons)
        return message.with_post_filter(text, self.post_filter_messages)

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
        if self._scores is None or self._keys is None:
            return ()
        scores = self._scores
        return tuple(
            Ranked(self._name(position), int(scores.totals[position]), ranked_plugins(scores, position))
            for position in best(self._keys, count)
        )

    def runners_up(self, count: int) -> tuple[str, ...]:
        """The next best nodes after the chosen one, best first."""
        if self._keys is None:
            return ()
        return tuple(self._name(position) for position in best(self._keys, count + 1)[1:])

    def verdicts(self) -> Mapping[str, Mapping[str, Status]]:
        """Node -> plugin -> refusal, of *every* filter that refuses, not only the first.

        A pod refused in PreFilter stands refused by that plugin on every node. Computed anew from the snapshot.
        """
        names = self.snapshot.names
        refused: dict[str, dict[str, Status]] = {name: {} for name in names}
        rejection = self._search.rejection
        if rejection is not None:
            return {name: {rejection.plugin: rejection} for name in names}
        for refusal in self._search.refusals:
            if refusal.plugin in self._search.restricting:
                _collect(refused, names, refusal.plugin, refusal.verdicts.codes, refusal.verdicts.at)
        for step in self._filters:
            if step.name in self.state.skipped_filters:
                continue
            verdicts = step.verdicts(self.state, self.pod, self.snapshot, None)
            if verdicts is not None:
                _collect(refused, names, step.name, verdicts.codes, verdicts.at)
        return refused

    def _name(self, position: int) -> str:
        row = position if isinstance(self._rows, slice) else int(self._rows[position])
        return self.snapshot.names[row]


def _collect(
    refused: dict[str, dict[str, Status]],
    names: Sequence[str],
    plugin: str,
    codes: NDArray[Any],
    at: Callable[[int], Status],
) -> None:
    for row in np.flatnonzero(codes).tolist():
        refused[names[row]].setdefault(plugin, at(row))
