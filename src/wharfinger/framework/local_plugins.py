"""The Local plugins of a profile: one table for each class of pods that was decided for of late."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, NamedTuple

from wharfinger.errors import PluginError
from wharfinger.framework.cycle_state import CycleState
from wharfinger.framework.interface import (
    Filter,
    Local,
    NodeFilter,
    NodeScore,
    Plugin,
    PreFilter,
    PreFilterResult,
    PreScore,
    Score,
    offers,
)
from wharfinger.framework.local_table import LocalFilter, LocalScore, LocalTable
from wharfinger.framework.snapshot import Snapshot
from wharfinger.framework.status import Code, Status, ask, call
from wharfinger.model.pod import Pod

CELLS = 1 << 20
"""Rows of all tables together, about (some 40 MiB); at least eight tables are kept."""
FEWEST_TABLES = 8
MOST_TABLES = 1024
"""However small the cluster is."""


class Pressed(NamedTuple):
    """What the Local plugins said of a node with its nominated pods."""

    stamp: int
    """Of the node as it was."""
    others: tuple[Pod, ...]
    status: Status


class LocalClass:
    """What is known of one class of pods: what PreFilter said of it, and its table."""

    __slots__ = ("pre_filtered", "pressed", "silent", "table")

    def __init__(
        self, pre_filtered: Mapping[str, PreFilterResult], table: LocalTable, silent: frozenset[str] = frozenset()
    ) -> None:
        self.pre_filtered = pre_filtered
        """Plugin -> its PreFilter's answer."""
        self.silent = silent
        """Selective plugins that such pods do not concern: they are not asked."""
        self.table = table
        self.pressed: dict[str, Pressed] = {}
        """Of the nodes that had nominated pods at the last decision that looked at one node at a time."""


class LocalPlugins:
    """Makes and keeps the classes. Not to be shared between threads."""

    def __init__(
        self,
        plugins: Sequence[Plugin],
        *,
        filters: Sequence[LocalFilter],
        scores: Sequence[LocalScore],
        pre_filters: Sequence[str],
        pre_scores: Sequence[str],
        selective: Sequence[tuple[str, Callable[[Pod], bool]]] = (),
    ) -> None:
        """`plugins`: the Local ones; `pre_filters`, `pre_scores`: names of those that take part there.

        `selective`: names of Selective plugins with a PreFilter, and whom each concerns.
        """
        self.names = frozenset(plugin.name for plugin in plugins)
        """Of the Local plugins."""
        self._plugins: list[tuple[str, Any]] = [(plugin.name, plugin) for plugin in plugins]
        self.last_filter = max((each.position for each in filters), default=-1)
        """The place of the last Local filter among all filters."""
        self._signing = [(name, plugin.signature) for name, plugin in self._plugins if offers(plugin, Local)]
        self._selective = selective
        self._concerning = [(next(n for n, other in selective if other is one), one) for one in _distinct(selective)]
        self._filters = filters
        self._scores = scores
        self._preparing = [
            (
                name,
                plugin if name in pre_filters and offers(plugin, PreFilter) else None,
                plugin if name in pre_scores and offers(plugin, PreScore) else None,
            )
            for name, plugin in self._plugins
        ]
        """Of each plugin, its PreFilter and its PreScore where they take part."""
        self._classes: OrderedDict[Hashable, LocalClass] = OrderedDict()
        self._rows = 0
        """Of the largest snapshot."""

    def __len__(self) -> int:
        return len(self._classes)

    def of(self, pod: Pod, snapshot: Snapshot) -> LocalClass:
        """The pod's class, its table in step with the snapshot. Raises PluginError."""
        known = self.known(pod, snapshot)
        known.table.sync(snapshot)
        return known

    def known(self, pod: Pod, snapshot: Snapshot) -> LocalClass:
        """The pod's class, its table in whatever state it is: enough to judge single nodes. Raises PluginError."""
        key = self._signature(pod)
        known = self._classes.get(key)
        if known is None:
            known = self._classes[key] = self._make(pod, snapshot)
        else:
            self._classes.move_to_end(key)
        # Classes first seen on a snapshot of one node get tables of all nodes later, so the largest one counts.
        self._rows = max(self._rows, len(snapshot))
        most = min(MOST_TABLES, max(FEWEST_TABLES, CELLS // max(1, self._rows)))
        while len(self._classes) > most:
            self._classes.popitem(last=False)
        return known

    def _signature(self, pod: Pod) -> Hashable:
        name, point = "", "signature"
        parts: list[Hashable] = []
        try:
            for name, signature in self._signing:  # noqa: B007 - read when one raises
                parts.append(signature(pod))
            point = "concerns"
            for name, concerns in self._concerning:  # noqa: B007 - likewise
                parts.append(concerns(pod))
            key = tuple(parts)
            hash(key)
        except Exception as error:  # a plugin may raise anything
            for (culprit, _), part in zip(self._signing, parts, strict=False):
                call(culprit, "signature", hash, part)  # all were given, so one of them cannot be hashed
            raise PluginError(name, point, f"{type(error).__name__}: {error}") from error
        return key

    def _make(self, pod: Pod, snapshot: Snapshot) -> LocalClass:
        answers: dict[str, PreFilterResult] = {}
        unscored: set[str] = set()
        state = CycleState()
        for name, pre_filter, pre_score in self._preparing:
            if pre_filter is not None:
                answers[name] = pre_filtered(name, pre_filter, state, pod, snapshot)
            if pre_score is not None and skips_score(
                name, ask(name, "PreScore", pre_score.pre_score, state, pod, snapshot, slice(None))
            ):
                unscored.add(name)
        silent = frozenset(name for name, concerns in self._selective if not concerns(pod))
        skipped = {name for name, answer in answers.items() if answer.status.code is Code.SKIP}
        return LocalClass(
            answers,
            LocalTable(
                pod,
                state,
                [each for each in self._filters if each.step.name not in skipped],
                [each for each in self._scores if each.step.name not in unscored],
            ),
            silent,
        )


def _distinct(selective: Sequence[tuple[str, Callable[[Pod], bool]]]) -> list[Callable[[Pod], bool]]:
    return list(dict.fromkeys(concerns for _, concerns in selective))


def local_by_form(plugin: Plugin) -> bool:
    """Whether the plugin is Local, and has the node form of everything it filters and scores by."""
    if not offers(plugin, Local):
        return False
    filters = not offers(plugin, Filter) or offers(plugin, NodeFilter)
    return filters and (not offers(plugin, Score) or offers(plugin, NodeScore))


def pre_filtered(name: str, plugin: PreFilter, state: CycleState, pod: Pod, snapshot: Snapshot) -> PreFilterResult:
    """The plugin's PreFilter answer; PluginError when it is none."""
    answer = call(name, "PreFilter", plugin.pre_filter, state, pod, snapshot)
    if not isinstance(answer, PreFilterResult):
        raise PluginError(name, "PreFilter", f"answered {answer!r}, not a PreFilterResult")
    status = answer.status
    if not (status.ok or status.rejected or status.code is Code.SKIP):
        raise PluginError(name, "PreFilter", status.message or status.code.name)
    return answer


def skips_score(name: str, status: Status) -> bool:
    """Whether PreScore said to leave out the plugin's Score; PluginError when it said neither that nor success."""
    if not status.ok and status.code is not Code.SKIP:
        raise PluginError(name, "PreScore", status.message or status.code.name)
    return status.code is Code.SKIP
