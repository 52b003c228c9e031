"""DefaultPreemption: when a pod fits nowhere, whom it may push off which node.

Decides only; evicting is done by the attempt. Rules of kube-scheduler 1.36 (`plugins/defaultpreemption`,
`framework/preemption`), with the same choice on every machine where it leaves one to chance.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache

import numpy as np

from wharfinger.framework.columns import RowNumbers, name_hash
from wharfinger.framework.cycle_state import CycleState
from wharfinger.framework.extenders.extender_verdicts import CandidateVictims, PreemptionVerdicts, VictimPod
from wharfinger.framework.interface import EventHint, PostFilter, PostFilterResult, QueueingHints, Trial
from wharfinger.framework.node_info import NodeInfo
from wharfinger.framework.plugins import names
from wharfinger.framework.plugins.arguments import DefaultPreemptionArgs
from wharfinger.framework.row_memo import DomainSums, RowMemo
from wharfinger.framework.snapshot import Snapshot
from wharfinger.framework.status import SUCCESS, Code, Status, unresolvable, unschedulable
from wharfinger.objects.model.decision import refused_by_nodes
from wharfinger.objects.model.events import Action, Resource
from wharfinger.objects.model.pod import Pod
from wharfinger.objects.model.surroundings import DisruptionBudget

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
        # Victims are not chosen anew: extenders agreed to these, and perhaps to no others.
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
            # While every candidate violates a budget, the nodes that are left may still have one that violates none.
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
    found = {one.node: _still_there(one, pod, snapshot) for one in answer.candidates}
    left = {snapshot.index[node]: victims for node, victims in found.items() if victims is not None}
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
    return refused_by_nodes(nodes, reasons)


def _refused(reason: str) -> PostFilterResult:
    return PostFilterResult(unschedulable(f"preemption: {reason}"))


NO_VICTIMS = unresolvable("No preemption victims found for incoming pod")
_PRIORITY_OFFSET = 1 << 31
"""Added to each priority, so that one victim more always costs, even at negative priorities."""

Budgets = Mapping[str, tuple[DisruptionBudget, ...]]
Cost = tuple[int, int, int, int, float]


@dataclass(frozen=True, slots=True)
class NodeVictims:
    """The pods that would have to leave one node."""

    victims: tuple[Pod, ...]
    """Most important first; never empty."""
    violations: int
    """How many of them a disruption budget protects."""

    def cost(self) -> Cost:
        """Smaller is better.

        Violations; the highest priority evicted; the sum of the priorities; how many; and how recently the longest
        running of the highest-priority victims began (the latest is best).
        """
        highest = self.victims[0].priority
        total = sum(victim.priority + _PRIORITY_OFFSET for victim in self.victims)
        longest = min(started(victim) for victim in self.victims if victim.priority == highest)
        return self.violations, highest, total, len(self.victims), -longest


def select(pod: Pod, node: NodeInfo, fits: Callable[[NodeInfo], Status], budgets: Budgets) -> NodeVictims | Status:
    """The fewest and least important pods to evict from the node; why not when that would not help.

    An error where the pod fits as it is: only an extender can have refused such a node.

    Args:
        pod: The preemptor, which needs the room.
        node: As it is now.
        fits: Every filter's answer if the node were another.
        budgets: By namespace.
    """
    lower = sorted((other for other in node.pods.values() if removable(other, pod)), key=importance)
    if not lower:
        return NO_VICTIMS
    room = node.without_pods([other.identity for other in lower])
    status = fits(room)
    if not status.ok:
        return status
    protected, others = _by_protection(lower, budgets)
    victims: list[Pod] = []
    violations = 0
    # Those that come back first are the likeliest to stay: a violated budget costs more than any other eviction.
    for group in (protected, others):
        for other in group:
            fuller = room.with_pod(other)
            if fits(fuller).ok:
                room = fuller
            else:
                victims.append(other)
                violations += group is protected
    if not victims:
        return Status(Code.ERROR, (f'expected at least one victim pod on node "{node.node.name}"',))
    return NodeVictims(tuple(sorted(victims, key=importance)), violations)


def removable(other: Pod, pod: Pod) -> bool:
    """Whether the pod may push the other off its node. One that is only assumed there is not bound yet."""
    return other.priority < pod.priority and other.bound


def is_leaving(other: Pod, pod: Pod) -> bool:
    """Whether the other is on its way out because it was preempted for the sake of pods like this."""
    return removable(other, pod) and bool(other.deletion_timestamp) and other.disruption_target


def importance(pod: Pod) -> tuple[int, float, int, str, str]:
    """Sorts the most important first: higher priority, then longer running.

    Start times have whole seconds, so many are equal. kube-scheduler leaves the order of those open. Here the one that
    was created first is first, so that a decision does not depend on the order in which a worker heard of the pods.
    """
    return -pod.priority, started(pod), pod.create_revision, pod.namespace, pod.name


def started(pod: Pod) -> float:
    """Seconds since 1970; a pod that has not started comes after all that have."""
    return _seconds(pod.start_time) if pod.start_time else math.inf


@lru_cache(maxsize=1 << 16)
def _seconds(timestamp: str) -> float:
    try:
        moment = datetime.fromisoformat(timestamp)
    except ValueError:
        return math.inf
    return (moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)).timestamp()


def _by_protection(pods: Sequence[Pod], budgets: Budgets) -> tuple[list[Pod], list[Pod]]:
    """Those whose eviction would violate a budget, if all were evicted in this order; and the others."""
    left: dict[tuple[str, str], int] = {}
    protected: list[Pod] = []
    others: list[Pod] = []
    for pod in pods:
        violates = False
        for budget in budgets.get(pod.namespace, ()):
            if protects(budget, pod):
                key = (budget.namespace, budget.name)
                left[key] = left.get(key, budget.disruptions_allowed) - 1
                violates = violates or left[key] < 0
        (protected if violates else others).append(pod)
    return protected, others


def protects(budget: DisruptionBudget, pod: Pod) -> bool:
    """Whether the budget (of the pod's namespace) speaks of the pod, and has not counted its eviction already."""
    selector = budget.selector
    if selector is None or not selector.requirements or not pod.labels:
        return False
    return pod.name not in budget.disrupted_pods and selector.matches(pod.labels)
