"""Bindings and statuses as KubeFleet's scheduler stores them, as written values, and as what a decision of ours makes.

`choose` tells a decision in KubeFleet's terms: bindings that are new, kept, given up and revived, and a status.
`cycle` does what KubeFleet's own cycles do to them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from wharfinger.placement.deciding import filters, texts
from wharfinger.placement.deciding.affinity import affinity_of
from wharfinger.placement.deciding.deciding import decide
from wharfinger.placement.deciding.deviations import D5, D6, D11
from wharfinger.placement.deciding.filters import PART
from wharfinger.placement.deciding.question import PlacementStanding, Question
from wharfinger.placement.model.members import Ages, Member
from wharfinger.placement.model.placement import (
    ChosenMember,
    MemberScores,
    Placement,
    PlacementDecision,
    PlacementType,
    PolicyCondition,
)

SCHEDULED, BOUND, UNSCHEDULED = "Scheduled", "Bound", "Unscheduled"
DECISIONS = 1000
"""So many decisions fit into a status."""


@dataclass(frozen=True, slots=True)
class StatusLine:
    """One decision in a status."""

    cluster: str
    selected: bool
    reason: str
    scores: MemberScores | None = None


@dataclass(frozen=True, slots=True)
class Binding:
    """A choice, as KubeFleet stores it."""

    cluster: str
    number: int
    """Among the bindings of its member."""
    state: str
    policy: str
    """Name of the policy snapshot."""
    scores: MemberScores | None
    reason: str
    previous: str = ""
    """The state before it was given up."""
    deleting: bool = False
    works: bool = True
    """Whether works keep it while it is deleted."""
    held: bool = True
    """Whether the scheduler keeps it: until a cycle has seen it deleting."""

    @property
    def id(self) -> str:
        """`<member>#<number>`."""
        return f"{self.cluster}#{self.number}"

    @property
    def line(self) -> StatusLine:
        """What the status says of it."""
        return StatusLine(self.cluster, True, self.reason, self.scores)


@dataclass(frozen=True, slots=True)
class SnapshotStatus:
    """The status of a policy snapshot."""

    generation: int
    condition: PolicyCondition
    lines: tuple[StatusLine, ...]


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a cycle failed."""

    text: str
    again: bool = False
    """Whether KubeFleet tries again by itself."""


@dataclass(frozen=True, slots=True)
class Cycle:
    """What one cycle did."""

    changed: tuple[Binding, ...] = ()
    """New, or other than before."""
    gone: tuple[str, ...] = ()
    """Ids of those that ended."""
    again: bool = False
    """Whether another cycle follows at once."""
    wrote: bool = False
    failure: Failure | None = None


@dataclass(slots=True)
class KubeFleetAttempt:
    """All cycles of an attempt, on a copy of the bindings."""

    placement: Placement
    snapshot: str
    """Name of the active policy snapshot."""
    members: tuple[Member, ...]
    """By name."""
    ages: Mapping[str, Ages]
    unselected_limit: int
    bindings: dict[str, Binding]
    """By id."""
    numbers: dict[str, int]
    """Of the next binding of a member."""
    status: SnapshotStatus | None
    cycles: list[Cycle] = field(default_factory=list)
    wrote: bool = False

    def set_status(self, status: SnapshotStatus) -> bool:
        """The status is this one now; whether it says anything else than before, in whatever order."""
        old = self.status
        same = old is not None and (old.generation, old.condition) == (status.generation, status.condition)
        if same and old is not None and len(old.lines) == len(status.lines) and set(old.lines) == set(status.lines):
            return False
        self.status = status
        self.wrote = True
        return True

    def note(
        self, before: Mapping[str, Binding], *, wrote: bool, again: bool = False, failure: Failure | None = None
    ) -> None:
        """Note a cycle that found these bindings."""
        changed = [one for key, one in self.bindings.items() if before.get(key) != one and not one.deleting]
        gone = before.keys() - self.bindings.keys()
        self.cycles.append(Cycle(tuple(sorted(changed, key=by_name)), tuple(sorted(gone)), again, wrote, failure))


def by_name(binding: Binding) -> tuple[str, int]:
    """The order of bindings' names, of which the random end is taken for the number."""
    return binding.cluster[: PART + 1] + "-", binding.number


def unselected(
    selected: Sequence[StatusLine], not_picked: Iterable[StatusLine], refused: Sequence[StatusLine], limit: int
) -> list[StatusLine]:
    """Those that a status names besides the selected, at most `limit`: who was not picked first, then the refused.

    A refused member that is selected all the same (its labels changed since) is not named, and takes a place.
    """
    seen = {line.cluster for line in selected}
    room = DECISIONS - len(selected)
    found = [line for line in not_picked if line.cluster not in seen][: max(0, min(limit, room))]
    left = max(0, min(limit - len(found), room - len(found)))
    return found + [line for line in refused[:left] if line.cluster not in seen]


UNKNOWN = -1
"""Number of a policy that is not the active one."""


def read_binding(written: Mapping[str, Any]) -> Binding:
    """A binding. One that is being deleted was seen by a cycle, and its works keep it."""
    cluster, _, number = str(written["id"]).rpartition("#")
    scores = _read_scores(written)
    deleting = bool(written.get("deleting"))
    return Binding(
        cluster=cluster,
        number=int(number),
        state=written["state"],
        policy=written["policy"],
        scores=scores,
        reason=texts.chosen(cluster, scores),
        previous=written.get("previous", ""),
        deleting=deleting,
        held=not deleting,
    )


def written_binding(binding: Binding) -> dict[str, Any]:
    """A binding as a value."""
    found: dict[str, Any] = {
        "id": binding.id,
        "cluster": binding.cluster,
        "state": binding.state,
        "policy": binding.policy,
        **_written_scores(binding.scores),
    }
    if binding.previous:
        found["previous"] = binding.previous
    if binding.deleting:
        found["deleting"] = True
    return found


def written_cycle(cycle: Cycle) -> dict[str, Any]:
    """What a cycle did, as a value: only what it did is named."""
    found: dict[str, Any] = {}
    if cycle.changed:
        found["changed"] = [written_binding(one) for one in cycle.changed]
    if cycle.gone:
        found["gone"] = list(cycle.gone)
    if cycle.again:
        found["requeue"] = True
    if cycle.wrote:
        found["wrote"] = True
    if cycle.failure is not None:
        kind = "expected" if cycle.failure.again else "unexpected"
        found["error"] = {"class": kind, "text": cycle.failure.text}
    return found


def read_status(written: Mapping[str, Any]) -> tuple[SnapshotStatus, str]:
    """A status, and when its condition changed last."""
    scheduled = written["scheduled"]
    lines = [
        StatusLine(one["cluster"], one["selected"], one["reason"], _read_scores(one)) for one in written["decisions"]
    ]
    condition = PolicyCondition(scheduled["status"] == "True", scheduled["reason"], scheduled["message"])
    return SnapshotStatus(written["observedGeneration"], condition, tuple(lines)), str(scheduled["lastTransitionTime"])


def written_status(status: SnapshotStatus, changed: str) -> dict[str, Any]:
    """A status as a value. `changed`: when its condition changed last."""
    return {
        "observedGeneration": status.generation,
        "scheduled": {
            "status": "True" if status.condition.status else "False",
            "reason": status.condition.reason,
            "message": status.condition.message,
            "lastTransitionTime": changed,
        },
        "decisions": [
            {"cluster": line.cluster, "selected": line.selected, **_written_scores(line.scores), "reason": line.reason}
            for line in status.lines
        ],
    }


def _read_scores(written: Mapping[str, Any]) -> MemberScores | None:
    return MemberScores(written["spread"], written["affinity"]) if "affinity" in written else None


def _written_scores(scores: MemberScores | None) -> dict[str, int]:
    return {} if scores is None else {"affinity": scores.affinity, "spread": scores.spread}


def choose(attempt: KubeFleetAttempt, number: int, identities: Mapping[str, int]) -> frozenset[str]:
    """Decide, and put the outcome into the attempt, as one cycle; the deviations that mattered.

    `number` is the active policy's; `identities`: which member each binding was made for, by the binding's id.
    """
    before = dict(attempt.bindings)
    doubled = _give_up_doubles(attempt)
    question = _question(attempt, number, identities)
    decision = decide(question)
    deviations = set(decision.deviations) | ({D5} if doubled else set())
    for binding in list(before.values()):
        if binding.deleting:
            if binding.works:
                attempt.bindings[binding.id] = replace(binding, held=False)
            else:
                del attempt.bindings[binding.id]
    if _bind(attempt, decision, identities):
        deviations.add(D11)
    status = _status(attempt, question, decision, before)
    if status.lines != _lines(attempt, question, decision, before, as_kubefleet=True):
        deviations.add(D6)
    attempt.note(before, wrote=attempt.set_status(status))
    return frozenset(deviations)


def _give_up_doubles(attempt: KubeFleetAttempt) -> bool:
    """KubeFleet has two bindings for a member that a PickFixed names twice. Ours are one choice: the last counts."""
    last: dict[str, Binding] = {}
    doubled = False
    for binding in sorted(attempt.bindings.values(), key=lambda one: one.number):
        if binding.deleting or binding.state == UNSCHEDULED:
            continue
        former = last.get(binding.cluster)
        if former is not None:
            doubled = True
            attempt.bindings[former.id] = replace(former, state=UNSCHEDULED, previous=former.state)
        last[binding.cluster] = binding
    return doubled


def _question(attempt: KubeFleetAttempt, number: int, identities: Mapping[str, int]) -> Question:
    live = [one for one in attempt.bindings.values() if not one.deleting]
    chosen = {
        one.cluster: ChosenMember(
            one.cluster,
            identities.get(one.id, 0),
            number if one.policy == attempt.snapshot else UNKNOWN,
            one.scores,
            one.reason,
        )
        for one in sorted(live, key=lambda one: one.number)
        if one.state != UNSCHEDULED
    }
    standing = PlacementStanding(
        chosen=tuple(chosen.values()),
        delivered=frozenset({one.cluster for one in live if one.state == BOUND}),
        lingering=frozenset({one.cluster for one in attempt.bindings.values() if one.deleting and one.works}),
        remembered=frozenset({one.cluster for one in live if one.state == UNSCHEDULED}),
    )
    return Question(
        attempt.placement, number, attempt.members, attempt.ages, standing, unselected_limit=attempt.unselected_limit
    )


def _bind(attempt: KubeFleetAttempt, decision: PlacementDecision, identities: Mapping[str, int]) -> bool:
    """Make the bindings those of the decision; whether a member that came back would have had its old one."""
    came_back = False
    chosen = decision.names
    kept: set[str] = set()
    for binding in sorted(attempt.bindings.values(), key=lambda one: (one.state == UNSCHEDULED, -one.number)):
        one = chosen.get(binding.cluster)
        if binding.deleting:
            continue
        if one is not None and identities.get(binding.id, 0) != one.identity:
            came_back = True
        elif one is not None and binding.cluster not in kept:
            kept.add(binding.cluster)
            state = binding.previous if binding.state == UNSCHEDULED else binding.state
            attempt.bindings[binding.id] = replace(
                binding,
                state=state or SCHEDULED,
                policy=attempt.snapshot,
                scores=one.scores,
                reason=one.reason,
            )
            continue
        if binding.state != UNSCHEDULED:
            attempt.bindings[binding.id] = replace(binding, state=UNSCHEDULED, previous=binding.state)
    for one in decision.chosen:
        if one.name not in kept:
            count = attempt.numbers.get(one.name, 0)
            attempt.numbers[one.name] = count + 1
            made = Binding(one.name, count, SCHEDULED, attempt.snapshot, one.scores, one.reason)
            attempt.bindings[made.id] = made
    return came_back


def _status(
    attempt: KubeFleetAttempt, question: Question, decision: PlacementDecision, before: Mapping[str, Binding]
) -> SnapshotStatus:
    lines = _lines(attempt, question, decision, before, as_kubefleet=False)
    return SnapshotStatus(decision.generation, decision.condition, lines)


def _lines(
    attempt: KubeFleetAttempt,
    question: Question,
    decision: PlacementDecision,
    before: Mapping[str, Binding],
    *,
    as_kubefleet: bool,
) -> tuple[StatusLine, ...]:
    """What the status says.

    `as_kubefleet`: refused members that are chosen all the same take places of the unselected.
    """
    selected = [StatusLine(one.name, True, one.reason, one.scores) for one in decision.chosen]
    if decision.number is None and question.placement.policy.type is PlacementType.PICK_FIXED:
        return (*selected, *(StatusLine(one.name, False, one.reason) for one in decision.verdicts))
    others = [
        StatusLine(one.name, False, one.reason, one.scores) for one in decision.verdicts if one.scores is not None
    ]
    refused = [StatusLine(one.name, False, one.reason) for one in decision.verdicts if one.scores is None]
    if as_kubefleet and before:
        refused += _refused_but_chosen(question, decision)
        refused.sort(key=lambda one: one.cluster)
    return (*selected, *unselected(selected, others, refused, attempt.unselected_limit))


def _refused_but_chosen(question: Question, decision: PlacementDecision) -> Sequence[StatusLine]:
    found = []
    affinity = affinity_of(question.placement.policy, dashes=True, exactly=True)
    members: dict[str, Member] = {member.name: member for member in question.members}
    old = {one.name for one in question.standing.chosen if one.policy == question.number}
    for one in decision.chosen:
        if one.name in old:
            member = members[one.name]
            ages = question.ages[one.name]
            if filters.refusal(question.placement, affinity, member, ages, as_kubefleet=False) is not None:
                found.append(StatusLine(one.name, False, ""))
    return found
