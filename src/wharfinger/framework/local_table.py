"""What the plugins that look at one node at a time say of every node, kept from one decision to the next.

Pods with equal signatures share a table. Between two decisions a few nodes change; only those are asked about again,
by the plugins' node forms. A table is made (or made anew, when much changed) by their column forms. `LocalPlugins`
keeps one for each class of pods that was decided for of late.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from wharfinger.errors import PluginError
from wharfinger.framework.adapters import FilterStep, ScoreStep, refusal, whole
from wharfinger.framework.columns import BoolColumn, IntColumn
from wharfinger.framework.cycle_state import CycleState
from wharfinger.framework.interface import (
    MAX_NODE_SCORE,
    Filter,
    Local,
    NodeFilter,
    NodeScore,
    Normalization,
    Plugin,
    PreFilter,
    PreFilterResult,
    PreScore,
    Score,
    offers,
)
from wharfinger.framework.node_info import NodeInfo
from wharfinger.framework.row_memo import RowMemo
from wharfinger.framework.snapshot import Snapshot
from wharfinger.framework.status import SUCCESS, Code, Status, ask, call
from wharfinger.objects.model.pod import Pod

FEW = 32
"""Up to so many changed nodes are asked about one by one; beyond, the columns are quicker."""
STATUSES = 4096
"""Different refusals, beyond one a node, that a table may hold before it is made anew without the unused ones."""
NOWHERE = 1 << 30
"""The place of no filter at all, behind every other."""
DEAD = -1
"""Below every score: marks nodes that are refused in `LocalTable.ranked`."""


@dataclass(frozen=True, slots=True)
class LocalFilter:
    """A Local plugin's Filter and where it stands among all filters of the profile."""

    position: int
    step: FilterStep
    plugin: Any


@dataclass(frozen=True, slots=True)
class LocalScore:
    """A Local plugin's Score."""

    step: ScoreStep
    plugin: Any


class LocalTable:
    """Verdicts and raw scores of one class of pods. Arrays are replaced, never written to, when they change."""

    def __init__(
        self, pod: Pod, state: CycleState, filters: Sequence[LocalFilter], scores: Sequence[LocalScore]
    ) -> None:
        self._pod = pod
        self.state = state
        """What the plugins noted of the class; it lives as long as the table."""
        self._filters = filters
        self._node_filters = [(each.step.name, each.plugin.filter_node, each.position) for each in filters]
        self._final = [score for score in scores if score.step.normalizer is None]
        self.normalized = tuple(score.step for score in scores if score.step.normalizer is not None)
        """Steps whose raw scores are to be normalised over the feasible nodes."""
        self._raw = [score for score in scores if score.step.normalizer is not None]
        self._rates = [(each.step.name, each.plugin.score_node, each.step.weight) for each in self._final]
        self._memo = RowMemo()
        self._code_of: dict[Status, int] = {SUCCESS: 0}
        self.statuses: list[Status] = [SUCCESS]
        """By code; 0 = success. Each names its plugin."""
        self.positions: list[int] = [NOWHERE]
        """By code: the refusing plugin's place among the filters."""
        self.codes: NDArray[np.int32] = np.zeros(0, dtype=np.int32)
        """By row: the first refusal."""
        self.alive: BoolColumn | None = None
        """Rows that no local filter refuses; None = all."""
        self.count = 0
        """How many."""
        self.columns: Mapping[str, IntColumn] = {}
        """Score plugin whose scores are to be normalised -> raw score by row."""
        self.uniform: Mapping[str, bool] = {}
        """Score plugin to be normalised -> whether every row's raw score is 0 for sure."""
        self.ranked: IntColumn = np.zeros(0, dtype=np.int64)
        """By row: weighted sum of the scores that need no normalisation; `DEAD` where refused."""

    def sync(self, snapshot: Snapshot) -> None:
        """Bring the table to that snapshot. Raises PluginError."""
        moved = self._memo.moved(snapshot)
        try:
            if moved is None or len(moved) > FEW or len(self.statuses) > STATUSES + len(snapshot):
                self._make(snapshot)
            elif len(moved):
                self._move(snapshot, moved.tolist())
        except BaseException:
            self._memo = RowMemo()  # half done is not done
            raise

    def same_everywhere(self, step: ScoreStep) -> bool:
        """Whether a step of `normalized` gives every node the same, whichever of them are feasible."""
        return self.uniform[step.name] and isinstance(step.normalizer, Normalization)

    # --- all rows -----------------------------------------------------------------------------

    def _make(self, snapshot: Snapshot) -> None:
        self._code_of, self.statuses, self.positions = {SUCCESS: 0}, [SUCCESS], [NOWHERE]
        codes = np.zeros(len(snapshot), dtype=np.int32)
        for each in self._filters:
            self._refuse(each, codes, snapshot)
        state, pod, everything = self.state, self._pod, slice(None)
        self.columns = {step.name: step.raw(state, pod, snapshot, everything) for step in self.normalized}
        ranked = np.zeros(len(snapshot), dtype=np.int64)
        for score in self._final:
            ranked += score.step.scores(state, pod, snapshot, everything)
        ranked[codes != 0] = DEAD
        self.ranked = ranked
        self.uniform = {step.name: not self.columns[step.name].any() for step in self.normalized}
        self._set_codes(codes, int((codes == 0).sum()))

    def _refuse(self, each: LocalFilter, codes: NDArray[np.int32], snapshot: Snapshot) -> None:
        """Mark the rows that this filter is the first to refuse."""
        among = codes == 0
        verdicts = each.step.verdicts(self.state, self._pod, snapshot, among) if among.any() else None
        if verdicts is None:
            return
        said, places = np.unique(np.where(among, verdicts.codes, 0), return_inverse=True)
        name, position = each.step.name, each.position
        by_place = np.zeros(len(said), dtype=np.int32)
        for place, code in enumerate(said.tolist()):
            if code:
                by_place[place] = self._code(call(name, "Filter", verdicts.refusal, code).by(name), position)
        np.copyto(codes, by_place[places], where=among)

    def _set_codes(self, codes: NDArray[np.int32], alive: int) -> None:
        self.codes = codes
        self.count = alive
        self.alive = None if alive == len(codes) else codes == 0

    # --- a few rows ---------------------------------------------------------------------------

    def _move(self, snapshot: Snapshot, rows: Sequence[int]) -> None:
        codes, ranked = self.codes, self.ranked.copy()
        alive = self.count
        for row in rows:
            info = snapshot.rows[row]
            status, position = self.first_refusal(info)
            code = 0 if status is SUCCESS else self._code(status, position)
            if code != codes[row]:
                codes = codes.copy() if codes is self.codes else codes
                alive += int(code == 0) - int(codes[row] == 0)
                codes[row] = code
            ranked[row] = DEAD if code else sum(self.rate(info).values())
            if self._raw:
                self._write_raw(info, row)
        self.ranked = ranked
        if codes is not self.codes:
            self._set_codes(codes, alive)

    def first_refusal(self, info: NodeInfo) -> tuple[Status, int]:
        """The node's first refusal and the place of the filter that said it; success and `NOWHERE` when none does."""
        pod, state, name = self._pod, self.state, ""
        try:
            for name, filter_node, position in self._node_filters:
                status = filter_node(state, pod, info)
                if status is not SUCCESS and not status.ok:
                    return refusal(name, status), position
        except PluginError:
            raise
        except Exception as error:  # a plugin may raise anything
            raise PluginError(name, "Filter", f"{type(error).__name__}: {error}") from error
        return SUCCESS, NOWHERE

    def rate(self, info: NodeInfo) -> dict[str, int]:
        """The weighted scores of one node that need no normalisation, by plugin."""
        pod, state, name, scores = self._pod, self.state, "", {}
        try:
            for name, score_node, weight in self._rates:
                score = score_node(state, pod, info)
                score = score if type(score) is int else whole(name, score)
                if not 0 <= score <= MAX_NODE_SCORE:
                    raise ValueError(f"score {score} lies outside 0..{MAX_NODE_SCORE}")
                scores[name] = score * weight
        except PluginError:
            raise
        except Exception as error:  # a plugin may raise anything
            raise PluginError(name, "Score", f"{type(error).__name__}: {error}") from error
        return scores

    def _write_raw(self, info: NodeInfo, row: int) -> None:
        """Take in the node's raw scores; most changes of a node leave them as they are."""
        for each in self._raw:
            name = each.step.name
            score = call(name, "Score", each.plugin.score_node, self.state, self._pod, info)
            known = self.columns[name][row]
            if (type(score) is not int or score != known) and (score := whole(name, score)) != known:
                column = self.columns[name].copy()
                column[row] = score
                self.columns = {**self.columns, name: column}
                self.uniform = {**self.uniform, name: False}

    def _code(self, status: Status, position: int) -> int:
        code = self._code_of.setdefault(status, len(self.statuses))
        if code == len(self.statuses):
            self.statuses.append(status)
            self.positions.append(position)
        return code


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


@dataclass(slots=True, eq=False, repr=False)
class LocalClass:
    """What is known of one class of pods: what PreFilter said of it, and its table."""

    pre_filtered: Mapping[str, PreFilterResult]
    """Plugin -> its PreFilter's answer."""
    table: LocalTable
    silent: frozenset[str] = frozenset()
    """Selective plugins that such pods do not concern: they are not asked."""
    pressed: dict[str, Pressed] = field(default_factory=dict)
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
        self._concerning = {concerns: name for name, concerns in reversed(selective)}
        """Each function once, with the first plugin that has it: plugins may share one."""
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
        """The pod's class, its table in whatever state it is: enough for single nodes. Raises PluginError."""
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
            for concerns, name in self._concerning.items():  # noqa: B007 - likewise
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
