"""DefaultPreemption: when a pod fits nowhere, whom it may push off which node.

Decides only; evicting is done by the attempt. Rules of kube-scheduler 1.36 (`plugins/defaultpreemption`,
`framework/preemption`), with the same choice on every machine where it leaves one to chance.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Sequence

import numpy as np

from wharfinger.framework import search
from wharfinger.framework.columns import RowNumbers, name_hash
from wharfinger.framework.cycle_state import CycleState
from wharfinger.framework.extenders.extender_verdicts import CandidateVictims, PreemptionVerdicts, VictimPod
from wharfinger.framework.interface import EventHint, PostFilter, PostFilterResult, QueueingHints, Trial
from wharfinger.framework.node_info import NodeInfo
from wharfinger.framework.plugins import names
from wharfinger.framework.plugins.arguments import DefaultPreemptionArgs
from wharfinger.framework.plugins.victims import (
    NO_VICTIMS,
    Budgets,
    Cost,
    NodeVictims,
    importance,
    is_leaving,
    removable,
    select,
)
from wharfinger.framework.row_memo import DomainSums, RowMemo
from wharfinger.framework.snapshot import Snapshot
from wharfinger.framework.status import SUCCESS, Code, Status, unschedulable
from wharfinger.objects.model.events import Action, Resource
from wharfinger.objects.model.pod import Pod

NEVER = "not eligible due to preemptionPolicy=Never."
UNDER_WAY = "not eligible due to a terminating pod on the nominated node."
NO_CANDIDATE = "no candidate node for preemption"
NOT_HELPFUL = "Preemption is not helpful for scheduling"
_HIGHEST = 1 << 40
"""Above every priority."""
_BOOKS = 64
"""Books that are kept: each has an entry for every node that was tried out, with the pods that would leave it."""


class DefaultPreemption(PostFilter, QueueingHints):
    """Tries out nodes where other pods are in the way, and nominates the one where evicting costs least."""

    name = names.DEFAULT_PREEMPTION

    def __init__(self, args: DefaultPreemptionArgs) -> None:
        self._args = args
        self._books: OrderedDict[tuple[Hashable, int], Book] = OrderedDict()
        """By class of pods and priority; those asked for least recently are dropped."""
        self._lowliness = DomainSums(_lowliness)
        """Of each node's least important pod: where none is less important than a pod, nothing is tried out."""

    def post_filter(self, state: CycleState, pod: Pod, trial: Trial) -> PostFilterResult:  # noqa: ARG002
        """Node and victims, or why not."""
        reason = ineligible(pod, trial)
        if reason:
            return _refused(reason)
        if trial.turn.answer is not None:
            return _chosen_by_extenders(trial.turn.answer, pod, trial.snapshot)
        rows = _from_somewhere(trial.resolvable(), pod)
        inhabited = rows[self._lowliness.rows(trial.snapshot)[rows] > _HIGHEST - pod.priority].tolist()
        book = self._book(pod, trial)
        candidates: dict[int, Cost] = {}
        refusals: list[Status] = []
        peaceful = False
        wanted = self._args.wanted(len(rows))
        for row in inhabited:
            entry = book.entry(row, pod, trial)
            if isinstance(entry, Status):
                refusals.append(entry)
                continue
            candidates[row] = entry[0]
            peaceful = peaceful or entry[0][0] == 0
            if peaceful and len(candidates) >= wanted:
                break
        if not candidates:
            return _refused(_explained(len(trial.snapshot), len(rows), len(rows) - len(inhabited), refusals))
        if trial.turn.to_be_asked:
            found = (book.candidate(row, pod, trial) for row in candidates)
            return PostFilterResult(unschedulable(), candidates=tuple(found))
        row = _cheapest(candidates, pod, trial.snapshot)
        return PostFilterResult(SUCCESS, trial.snapshot.names[row], book.eviction(row, pod, trial).victims)

    def _book(self, pod: Pod, trial: Trial) -> Book:
        if trial.alike is None:
            return Book()
        key = trial.alike, pod.priority
        book = self._books.pop(key, None) or Book()
        self._books[key] = book
        if len(self._books) > _BOOKS:
            self._books.popitem(last=False)
        book.sync(trial.snapshot)
        return book

    def queueing_hints(self) -> Sequence[EventHint]:
        """None of its own: the hints of the plugins that refused react to a victim's deletion."""
        return (EventHint(Resource.ASSIGNED_POD, Action.DELETE, lambda _pod, _event: False),)


class Book:
    """What evicting would cost on each node, for pods of one class and priority; only of nodes that changed anew."""

    def __init__(self) -> None:
        self._memo = RowMemo()
        self._budgets: Budgets | None = None
        self._entries: dict[int, tuple[Cost, NodeVictims] | Status] = {}

    def sync(self, snapshot: Snapshot) -> None:
        """Forget what does not hold any more."""
        moved = self._memo.moved(snapshot)
        budgets = snapshot.surroundings.budgets
        if moved is None or budgets is not self._budgets:
            self._entries.clear()
        else:
            for row in moved.tolist():
                self._entries.pop(row, None)
        self._budgets = budgets

    def entry(self, row: int, pod: Pod, trial: Trial) -> tuple[Cost, NodeVictims] | Status:
        """Cost and victims on that node, or why evicting there would not help."""
        if trial.snapshot.names[row] in trial.snapshot.nominated:
            return _priced(row, pod, trial)  # nominations come and go without the node changing
        found = self._entries.get(row)
        if found is None:
            found = self._entries[row] = _priced(row, pod, trial)
        return found

    def candidate(self, row: int, pod: Pod, trial: Trial) -> CandidateVictims:
        """A node that is a candidate, as extenders are asked about it."""
        found = self.eviction(row, pod, trial)
        victims = tuple(VictimPod(one.key, one.uid, one.create_revision) for one in found.victims)
        return CandidateVictims(trial.snapshot.names[row], victims, found.violations)

    def eviction(self, row: int, pod: Pod, trial: Trial) -> NodeVictims:
        """The victims on a node that is a candidate."""
        found = self.entry(row, pod, trial)
        assert not isinstance(found, Status)
        return found[1]


def ineligible(pod: Pod, trial: Trial) -> str:
    """Why the pod may not preempt at all now; empty when it may."""
    if pod.preemption_policy == "Never":
        return NEVER
    row = trial.snapshot.index.get(pod.nominated_node_name) if pod.nominated_node_name else None
    if row is None or trial.refusal(row).code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE:
        return ""
    there = trial.snapshot.rows[row].pods.values()
    return UNDER_WAY if any(is_leaving(other, pod) for other in there) else ""


def _priced(row: int, pod: Pod, trial: Trial) -> tuple[Cost, NodeVictims] | Status:
    found = select(
        pod, trial.snapshot.rows[row], lambda info: trial.fits(row, info), trial.snapshot.surroundings.budgets
    )
    return found if isinstance(found, Status) else (found.cost(), found)


def _lowliness(info: NodeInfo) -> int:
    """How far below every possible priority the least important pod is that could be evicted; 0 = there is none."""
    return max((_HIGHEST - pod.priority for pod in info.pods.values() if pod.bound), default=0)


def _from_somewhere(rows: RowNumbers, pod: Pod) -> RowNumbers:
    """All rows, from one that depends on the pod: not every pod shall look at the same nodes first."""
    start = name_hash(pod.uid) % len(rows) if len(rows) else 0
    return np.concatenate((rows[start:], rows[:start]))


def _cheapest(candidates: dict[int, Cost], pod: Pod, snapshot: Snapshot) -> int:
    least = min(candidates.values())
    equal = np.array(sorted(row for row, cost in candidates.items() if cost == least), dtype=np.intp)
    return int(equal[snapshot.node_columns.names.tie_break(equal, pod.uid).argmax()])


def _chosen_by_extenders(answer: PreemptionVerdicts, pod: Pod, snapshot: Snapshot) -> PostFilterResult:
    """The cheapest of the candidates that extenders left, with the victims that they named.

    Candidates whose victims are not there any more, or may not be evicted, are left out: the cluster has moved since
    they were asked.
    """
    if answer.error:
        return _refused(answer.error)
    judged = {one.node: _still_there(one, pod, snapshot) for one in answer.candidates}
    left = {snapshot.index[node]: victims for node, victims in judged.items() if victims is not None}
    if not left:
        return _refused(NO_CANDIDATE)
    row = _cheapest({row: victims.cost() for row, victims in left.items()}, pod, snapshot)
    return PostFilterResult(SUCCESS, snapshot.names[row], left[row].victims)


def _still_there(candidate: CandidateVictims, pod: Pod, snapshot: Snapshot) -> NodeVictims | None:
    row = snapshot.index.get(candidate.node)
    there = {other.uid: other for other in snapshot.rows[row].pods.values()} if row is not None else {}
    victims = [there.get(one.uid) for one in candidate.victims]
    found = [one for one in victims if one is not None and removable(one, pod)]
    if not found or len(found) < len(victims):
        return None
    return NodeVictims(tuple(sorted(found, key=importance)), candidate.violations)


def _explained(nodes: int, tried: int, uninhabited: int, refusals: Sequence[Status]) -> str:
    errors = sorted({reason for status in refusals if status.code is Code.ERROR for reason in status.reasons})
    if errors:
        return errors[0] if len(errors) == 1 else f"[{', '.join(errors)}]"
    reasons: dict[str, int] = {NOT_HELPFUL: nodes - tried} if nodes > tried else {}
    if uninhabited:
        reasons.update(dict.fromkeys(NO_VICTIMS.reasons, uninhabited))
    for status in refusals:
        for reason in status.reasons:
            reasons[reason] = reasons.get(reason, 0) + 1
    return search.refused_by_nodes(nodes, reasons)


def _refused(reason: str) -> PostFilterResult:
    return PostFilterResult(unschedulable(f"preemption: {reason}"))
