"""A decision of ours, told in KubeFleet's terms: bindings that are new, kept, given up and revived, and a status."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from wharfinger.placement.deciding import filters, texts
from wharfinger.placement.deciding.affinity import affinity_of
from wharfinger.placement.deciding.deciding import decide
from wharfinger.placement.deciding.deviations import D5, D6, D11
from wharfinger.placement.deciding.question import PlacementStanding, Question
from wharfinger.placement.kubefleet.upstream import UpstreamAttempt
from wharfinger.placement.kubefleet.upstream_records import (
    BOUND,
    SCHEDULED,
    UNSCHEDULED,
    Binding,
    Cycle,
    SnapshotStatus,
    StatusLine,
    by_name,
    unselected,
)
from wharfinger.placement.model.members import Member
from wharfinger.placement.model.placement import (
    ChosenMember,
    MemberScores,
    PlacementDecision,
    PlacementType,
    PolicyCondition,
)

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
    told = written["scheduled"]
    lines = [
        StatusLine(one["cluster"], one["selected"], one["reason"], _read_scores(one)) for one in written["decisions"]
    ]
    condition = PolicyCondition(told["status"] == "True", told["reason"], told["message"])
    return SnapshotStatus(written["observedGeneration"], condition, tuple(lines)), str(told["lastTransitionTime"])


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


def choose(attempt: UpstreamAttempt, number: int, identities: Mapping[str, int]) -> frozenset[str]:
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
    if status.lines != _lines(attempt, question, decision, before, upstream=True):
        deviations.add(D6)
    wrote = attempt.status is None or (
        (attempt.status.generation, attempt.status.condition) != (status.generation, status.condition)
        or len(attempt.status.lines) != len(status.lines)
        or set(attempt.status.lines) != set(status.lines)
    )
    if wrote:
        attempt.status, attempt.wrote = status, True
    changed = [one for key, one in attempt.bindings.items() if before.get(key) != one and not one.deleting]
    attempt.cycles.append(
        Cycle(
            changed=tuple(sorted(changed, key=by_name)),
            gone=tuple(sorted(before.keys() - attempt.bindings.keys())),
            wrote=wrote,
        )
    )
    return frozenset(deviations)


def _give_up_doubles(attempt: UpstreamAttempt) -> bool:
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


def _question(attempt: UpstreamAttempt, number: int, identities: Mapping[str, int]) -> Question:
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


def _bind(attempt: UpstreamAttempt, decision: PlacementDecision, identities: Mapping[str, int]) -> bool:
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
    attempt: UpstreamAttempt, question: Question, decision: PlacementDecision, before: Mapping[str, Binding]
) -> SnapshotStatus:
    lines = _lines(attempt, question, decision, before, upstream=False)
    return SnapshotStatus(decision.generation, decision.condition, lines)


def _lines(
    attempt: UpstreamAttempt,
    question: Question,
    decision: PlacementDecision,
    before: Mapping[str, Binding],
    *,
    upstream: bool,
) -> tuple[StatusLine, ...]:
    """What the status says. `upstream`: refused members that are chosen all the same take places of the unselected."""
    selected = [StatusLine(one.name, True, one.reason, one.scores) for one in decision.chosen]
    if decision.number is None and question.placement.policy.type is PlacementType.PICK_FIXED:
        return (*selected, *(StatusLine(one.name, False, one.reason) for one in decision.verdicts))
    others = [
        StatusLine(one.name, False, one.reason, one.scores) for one in decision.verdicts if one.scores is not None
    ]
    refused = [StatusLine(one.name, False, one.reason) for one in decision.verdicts if one.scores is None]
    if upstream and before:
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
            if filters.refusal(question.placement, affinity, member, ages, upstream=False) is not None:
                found.append(StatusLine(one.name, False, ""))
    return found
