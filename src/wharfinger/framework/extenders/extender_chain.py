"""The calls that one question takes, one after the other: pure, so a caller only sends and reads.

Filters are called in order, each with the nodes that those before it left; an extender that prioritises is called with
those that all filters left, where there are several. Rules as in kube-scheduler 1.36 (`schedule_one.go`,
findNodesThatPassExtenders and prioritizeNodes; `extender.go`; `framework/preemption`, callExtenders).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from wharfinger.framework.extenders.extender_verdicts import (
    MAX_EXTENDER_SCORE,
    CandidateVictims,
    ExtenderFailure,
    ExtenderQuestion,
    ExtenderVerdict,
    ExtenderVerdicts,
    NodeRefusals,
    PreemptionQuestion,
    PreemptionVerdicts,
    VictimPod,
)
from wharfinger.framework.interface import MAX_NODE_SCORE
from wharfinger.objects.model.extenders import Extender

SCALE = MAX_NODE_SCORE // MAX_EXTENDER_SCORE
"""An extender's points times its weight times this are added to the total."""
LARGEST_SCORE = 2**53
"""Of what is added; beyond it the sums of several extenders could leave int64."""


@dataclass(frozen=True, slots=True)
class FilterAnswer:
    """What an extender's filter call answered."""

    passed: tuple[str, ...]
    """Names of the nodes that it left."""
    failed: Mapping[str, str] = field(default_factory=dict)
    """Node -> reason; evicting pods might help."""
    unresolvable: Mapping[str, str] = field(default_factory=dict)
    """Node -> reason; evicting pods cannot help. Goes before `failed`."""


class FilterChain:
    """One question's way through the extenders that it names."""

    def __init__(self, question: ExtenderQuestion, extenders: Iterable[Extender]) -> None:
        """`extenders`: those of the configuration; one that the question names and that is not there fails."""
        self._question = question
        self._by_name = {extender.name: extender for extender in extenders}
        self._number = {name: number for number, name in enumerate(question.nodes)}
        self._verdicts: dict[str, ExtenderVerdict] = {}
        self.left: list[str] = list(question.nodes)
        """The nodes that no extender has refused so far, in the order of the question."""

    def filters(self) -> list[Extender]:
        """Those to be called, in order; no further one once `left` is empty."""
        return [one for one in self._asked() if one.filter_verb]

    def prioritizers(self) -> list[Extender]:
        """Those to be called when all filters have answered, in any order; none where at most one node is left."""
        return [one for one in self._asked() if one.prioritize_verb] if len(self.left) > 1 else []

    def missing(self) -> ExtenderFailure | None:
        """The failure of a question that names an extender which this configuration does not have."""
        gone = next((name for name in self._question.extenders if name not in self._by_name), None)
        return None if gone is None else ExtenderFailure(gone, "", f"extender {gone} is not configured here")

    def filtered(self, extender: Extender, answer: FilterAnswer) -> ExtenderFailure | None:
        """Take an answer; the failure when it names a node that was not sent, and may not be ignored."""
        sent = set(self.left)
        stranger = next((name for name in answer.passed if name not in sent), None)
        if stranger is not None:
            said = f'extender "{extender.name}" claims a filtered node "{stranger}" which is not found in the input'
            return self.failed(extender, extender.filter_verb, f"{said} node list")
        passed = set(answer.passed)
        refused: dict[tuple[str | None, bool], int] = {}
        for name in self.left:
            if name not in passed:
                key = _reason(name, answer)
                refused[key] = refused.get(key, 0) | 1 << self._number[name]
        refusals = tuple(NodeRefusals(reason, helps, nodes) for (reason, helps), nodes in refused.items())
        self._verdicts[extender.name] = replace(self._verdict(extender), refusals=refusals)
        self.left = [name for name in self.left if name in passed]
        return None

    def prioritized(self, extender: Extender, scores: Iterable[tuple[str, int]]) -> None:
        """Take points by node: those of a node that is named twice are added, other names are ignored."""
        found: dict[int, int] = {}
        left = set(self.left)
        for name, score in scores:
            if name in left:
                number = self._number[name]
                found[number] = found.get(number, 0) + score
        if any(abs(score * extender.weight * SCALE) > LARGEST_SCORE for score in found.values()):
            self.unscored(extender, "a score is too large to be added")
        else:
            self._verdicts[extender.name] = replace(self._verdict(extender), scores=found)

    def unscored(self, extender: Extender, message: str) -> None:
        """An extender's prioritise call failed: it gives no scores, and nothing else comes of it."""
        self._verdicts[extender.name] = replace(self._verdict(extender), failure=message)

    def failed(self, extender: Extender, verb: str, message: str) -> ExtenderFailure | None:
        """A filter call failed; None where the extender may be ignored: then all nodes pass it."""
        if not extender.ignorable:
            return ExtenderFailure(extender.name, verb, message)
        self._verdicts[extender.name] = replace(self._verdict(extender), failure=message)
        return None

    def verdicts(self) -> ExtenderVerdicts:
        """What was said in all."""
        said = tuple(self._verdict(extender) for extender in self._asked())
        question = self._question
        return ExtenderVerdicts(question.revision, question.nodes, said, question.start)

    def _asked(self) -> list[Extender]:
        return [self._by_name[name] for name in self._question.extenders if name in self._by_name]

    def _verdict(self, extender: Extender) -> ExtenderVerdict:
        return self._verdicts.get(extender.name) or ExtenderVerdict(extender.name, weight=extender.weight)


def _reason(name: str, answer: FilterAnswer) -> tuple[str | None, bool]:
    """Why a node is not among those that passed, and whether evicting might help."""
    if name in answer.unresolvable:
        return answer.unresolvable[name], False
    # A node that is left out without a word counts as one that was never looked at: no reason, no eviction.
    return answer.failed.get(name), name in answer.failed


@dataclass(frozen=True, slots=True)
class MetaVictims:
    """An extender's word on one candidate."""

    uids: tuple[str, ...]
    violations: int


PodsOf = Callable[[str], Mapping[str, VictimPod] | None]
"""The pods on a node that the preemptor may evict, by uid; None where there is no such node."""


class PreemptionChain:
    """The candidates' way through the extenders that have a verb for preemption."""

    def __init__(self, question: PreemptionQuestion, extenders: Iterable[Extender], pods_of: PodsOf) -> None:
        self._by_name = {extender.name: extender for extender in extenders}
        self._names = question.extenders
        self._pods_of = pods_of
        self.candidates: tuple[CandidateVictims, ...] = question.candidates
        """Those that are left; the next extender is sent them."""
        self.error = ""
        """Why no pod is evicted; no further extender is called then."""

    def callees(self) -> Sequence[Extender]:
        """Those to be called, in order; no further one once `candidates` is empty or there is an `error`."""
        return [self._by_name[name] for name in self._names if name in self._by_name]

    def answered(self, extender: Extender, answer: Mapping[str, MetaVictims]) -> None:
        """Take what an extender left, by node."""
        found: list[CandidateVictims] = []
        for node, victims in answer.items():
            if not victims.uids:
                if extender.ignorable:
                    continue
                self.error = f'expected at least one victim pod on node "{node}"'
                return
            candidate = self._candidate(extender, node, victims)
            if isinstance(candidate, str):
                self.failed(extender, candidate)
                return
            found.append(candidate)
        self.candidates = tuple(found)

    def failed(self, extender: Extender, message: str) -> None:
        """A call failed, or its answer made no sense: no pod is evicted unless the extender may be ignored."""
        if not extender.ignorable:
            self.error = message

    def verdicts(self) -> PreemptionVerdicts:
        """What is left."""
        return PreemptionVerdicts(() if self.error else self.candidates, self.error)

    def _candidate(self, extender: Extender, node: str, victims: MetaVictims) -> CandidateVictims | str:
        pods = self._pods_of(node)
        if pods is None:
            return f'nodeinfo not found for node name "{node}"'
        for uid in victims.uids:
            if uid not in pods:
                claim = f"extender: {extender.name} claims to preempt pod (UID: {uid}) on node: {node}"
                return f"{claim}, but no pod that may be preempted is found on that node"
        return CandidateVictims(node, tuple(pods[uid] for uid in dict.fromkeys(victims.uids)), victims.violations)
