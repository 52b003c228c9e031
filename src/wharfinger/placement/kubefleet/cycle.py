"""KubeFleet's scheduler, cycle by cycle: what the deviations of `deciding` are measured against.

Nothing but the simulator uses it. It keeps bindings as KubeFleet does: one object for each choice, which becomes
Unscheduled when it is given up, and may be revived. All defects are kept too; `deciding` lists those that it mends.
A cycle classifies the bindings, judges, picks and writes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from wharfinger.placement.deciding import filters, ranking, texts
from wharfinger.placement.deciding.affinity import Unreadable, affinity_of, liking
from wharfinger.placement.deciding.filters import nameable, why_not_eligible
from wharfinger.placement.kubefleet.bindings import (
    DECISIONS,
    SCHEDULED,
    UNSCHEDULED,
    Binding,
    Failure,
    KubeFleetAttempt,
    SnapshotStatus,
    StatusLine,
    by_name,
    unselected,
)
from wharfinger.placement.model.members import Member
from wharfinger.placement.model.placement import MemberScores, PlacementType, PolicyCondition


class KubeFleetCycle:
    """One cycle, on the bindings of an attempt."""

    def __init__(self, attempt: KubeFleetAttempt) -> None:
        self.attempt = attempt
        self.placement = attempt.placement
        self.policy = attempt.placement.policy
        self.wrote = False
        self._affinity = affinity_of(self.policy, dashes=False, exactly=False)
        known = {member.name: member for member in attempt.members}
        self.known = known
        self.unscheduled: list[Binding] = []
        self.obsolete: list[Binding] = []
        self.scheduled: list[Binding] = []
        self.bound: list[Binding] = []
        self.dangling: list[Binding] = []
        for binding in sorted(attempt.bindings.values(), key=by_name):
            member = known.get(binding.cluster)
            if binding.deleting:
                self._see_deleting(binding)
            elif binding.state == UNSCHEDULED:
                self.unscheduled.append(binding)
            elif member is None or member.leaving:
                self.dangling.append(binding)
            elif binding.policy != attempt.snapshot:
                self.obsolete.append(binding)
            elif binding.state == SCHEDULED:
                self.scheduled.append(binding)
            else:
                self.bound.append(binding)

    def run(self) -> Failure | bool:
        """True when another cycle has to follow at once."""
        self._give_up(self.dangling)
        match self.policy.type:
            case PlacementType.PICK_FIXED:
                return self._fixed()
            case PlacementType.PICK_N:
                return self._some()
            case _:
                return self._all()

    def _all(self) -> Failure | bool:
        judged = self._judge()
        if isinstance(judged, Failure):
            return judged
        passed, refused = judged
        picked = [(member, MemberScores()) for member in passed]
        taken = self._take(picked)
        if isinstance(taken, Failure):
            return taken
        created, patched = taken
        existing = [*created, *patched, *self.scheduled, *self.bound]
        self._write(existing, len(existing), [], refused)
        return False

    def _some(self) -> Failure | bool:
        wanted, present = self.policy.number or 0, len(self.scheduled) + len(self.bound)
        if wanted <= present:
            if present - wanted + len(self.obsolete) > 0:
                self._give_up(self.obsolete)
                self._drop(present - wanted)
                self._write([*self.scheduled, *self.bound], wanted, [], [])
            else:
                self._write([*self.bound, *self.scheduled], wanted, [], [])
            return False
        desired = wanted - present
        limit = min(desired, 1) if self.policy.spread else desired
        judged = self._judge()
        if isinstance(judged, Failure):
            return judged
        passed, refused = judged
        scored = self._score(passed)
        if isinstance(scored, Failure):
            return scored
        sticky = {binding.cluster for binding in self.obsolete}
        scored.sort(key=lambda one: (one[1], one[0].name in sticky, one[0].name), reverse=True)
        taken = self._take(scored[:limit])
        if isinstance(taken, Failure):
            return taken
        created, patched = taken
        if desired > limit == len(created) + len(patched):
            return True
        self._write([*created, *patched, *self.scheduled, *self.bound], wanted, scored[limit:], refused)
        return False

    def _fixed(self) -> Failure | bool:
        if not self.policy.names:
            return False
        valid: list[Member] = []
        invalid: list[StatusLine] = []
        missing: list[StatusLine] = []
        for name in self.policy.names:
            member = self.known.get(name)
            why = why_not_eligible(member, self.attempt.ages[name], as_kubefleet=True) if member is not None else ""
            if member is None:
                missing.append(StatusLine(name, False, texts.not_found(name)))
            elif why:
                invalid.append(StatusLine(name, False, texts.not_eligible(name, why)))
            else:
                valid.append(member)
        failure = self._take_fixed(valid)
        if failure is not None:
            return failure
        lines = [StatusLine(member.name, True, texts.chosen(member.name, None)) for member in valid]
        condition = texts.condition(len(valid), fulfilled=not invalid and not missing)
        self._set_status(condition, [*lines, *invalid, *missing])
        return False

    def _take_fixed(self, valid: Sequence[Member]) -> Failure | None:
        current = {binding.cluster for binding in (*self.scheduled, *self.bound)}
        obsolete = {binding.cluster: binding for binding in self.obsolete}
        unscheduled = {binding.cluster: binding for binding in self.unscheduled}
        made = []
        for member in valid:
            if member.name in current:
                continue
            old = obsolete.get(member.name) or unscheduled.get(member.name)
            if old is None:
                if not nameable(self.placement.ref.name, member.name):
                    return _nameless(self.placement.ref.name, member.name)
                made.append(self._new(member.name, None))
            else:
                patched = self._patched(old, None)
                if isinstance(patched, Failure):
                    return patched
                made.append(patched)
        for binding in made:
            self._put(binding)
        names = {member.name for member in valid}
        self._give_up([binding for binding in self.obsolete if binding.cluster not in names])
        return None

    def _judge(self) -> tuple[list[Member], list[StatusLine]] | Failure:
        """Who passes every filter, and the refused by name."""
        current = {binding.cluster for binding in (*self.scheduled, *self.bound)}
        self._counts = self._domains(current)
        passed, refused = [], []
        for member in self.attempt.members:
            ages = self.attempt.ages[member.name]
            found = filters.refusal(self.placement, self._affinity, member, ages, as_kubefleet=True)
            if isinstance(found, Unreadable):
                return _unreadable(found)
            if found is not None:
                refused.append(StatusLine(member.name, False, texts.refused(found.reason)))
            elif member.name not in current:
                judgement = ranking.judge(self.policy.spread, self._counts, member, as_kubefleet=True)
                if judgement.violated is None:
                    passed.append(member)
                else:
                    reason = texts.skewed(judgement.violated.key, judgement.violated.max_skew)
                    refused.append(StatusLine(member.name, False, texts.refused(reason)))
        return passed, refused

    def _domains(self, current: set[str]) -> list[ranking.Domains]:
        chosen = [member for member in self.attempt.members if member.name in current]
        return [ranking.domains(constraint.key, self.attempt.members, chosen) for constraint in self.policy.spread]

    def _score(self, passed: Sequence[Member]) -> list[tuple[Member, MemberScores]] | Failure:
        among = self._affinity.ranges(self.attempt.members)
        if among.unreadable is not None:
            return _unreadable(among.unreadable)
        liked_by = liking(self._affinity, among)
        scored = []
        for member in passed:
            liked = liked_by.score(member)
            if isinstance(liked, Unreadable):
                return _unreadable(liked)
            judgement = ranking.judge(self.policy.spread, self._counts, member, as_kubefleet=True)
            scored.append((member, MemberScores(judgement.score, liked)))
        return scored

    def _take(self, picked: Sequence[tuple[Member, MemberScores]]) -> tuple[list[Binding], list[Binding]] | Failure:
        """New bindings, and the obsolete and given-up ones that are picked again; other obsolete ones are given up."""
        names = {member.name: scores for member, scores in picked}
        patched = []
        for binding in (*self.obsolete, *self.unscheduled):
            if binding.cluster in names:
                revived = self._patched(binding, names[binding.cluster])
                if isinstance(revived, Failure):
                    return revived
                patched.append(revived)
        known = {binding.cluster for binding in (*self.obsolete, *self.unscheduled)}
        new = [(member.name, scores) for member, scores in picked if member.name not in known]
        for name, _ in new:
            if not nameable(self.placement.ref.name, name):
                return _nameless(self.placement.ref.name, name)
        created = [self._new(name, scores) for name, scores in new]
        for binding in (*created, *patched):
            self._put(binding)
        self._give_up([binding for binding in self.obsolete if binding.cluster not in names])
        return created, patched

    def _new(self, name: str, scores: MemberScores | None) -> Binding:
        number = self.attempt.numbers.get(name, 0)
        self.attempt.numbers[name] = number + 1
        return Binding(name, number, SCHEDULED, self.attempt.snapshot, scores, texts.chosen(name, scores))

    def _patched(self, binding: Binding, scores: MemberScores | None) -> Binding | Failure:
        state = binding.state
        if state == UNSCHEDULED:
            if not binding.previous:
                return Failure("failed to find the previous state of an unscheduled binding")
            state = binding.previous
        reason = texts.chosen(binding.cluster, scores)
        return replace(binding, state=state, policy=self.attempt.snapshot, scores=scores, reason=reason)

    def _put(self, binding: Binding) -> None:
        self.attempt.bindings[binding.id] = binding

    def _give_up(self, bindings: Iterable[Binding]) -> None:
        for binding in bindings:
            self._put(replace(binding, state=UNSCHEDULED, previous=binding.state))

    def _see_deleting(self, binding: Binding) -> None:
        if binding.works:
            self._put(replace(binding, held=False))
        else:
            del self.attempt.bindings[binding.id]

    def _drop(self, count: int) -> None:
        """Give up so many of the current: scheduled ones first, the lowest scores first."""
        self.scheduled = self.scheduled if count == 0 else sorted(self.scheduled, key=_rank)
        dropped, self.scheduled = self.scheduled[:count], self.scheduled[count:]
        left = count - len(dropped)
        if left:
            self.bound = sorted(self.bound, key=_rank)
            dropped += self.bound[:left]
            self.bound = self.bound[left:]
        self._give_up(dropped)

    def _write(
        self,
        existing: Sequence[Binding],
        wanted: int,
        not_picked: Sequence[tuple[Member, MemberScores]],
        refused: Sequence[StatusLine],
    ) -> None:
        lines = [binding.line for binding in existing[:DECISIONS]]
        others = [StatusLine(one.name, False, texts.not_picked(one.name, scores), scores) for one, scores in not_picked]
        lines += unselected(lines, others, refused, self.attempt.unselected_limit)
        condition = texts.condition(len(existing), fulfilled=len(existing) >= wanted)
        self._set_status(condition, lines)

    def _set_status(self, condition: PolicyCondition, lines: Sequence[StatusLine]) -> None:
        self.wrote |= self.attempt.set_status(SnapshotStatus(self.placement.generation, condition, tuple(lines)))


def _rank(binding: Binding) -> tuple[bool, MemberScores, str]:
    return binding.scores is not None, binding.scores or MemberScores(), binding.cluster


def _unreadable(found: Unreadable) -> Failure:
    return Failure(f"plugin {filters.AFFINITY} returned an error InternalError, {found.why}")


def _nameless(placement: str, member: str) -> Failure:
    return Failure(f"failed to format a unique label name with placement name {placement}, cluster name {member}")


CYCLES = 1000
"""A bound on the cycles of one attempt; each picks one member at least."""


def run(attempt: KubeFleetAttempt) -> None:
    """Cycle until nothing is left to do, or a cycle fails."""
    while len(attempt.cycles) < CYCLES:
        before = dict(attempt.bindings)
        cycle = KubeFleetCycle(attempt)
        outcome = cycle.run()
        failure = outcome if isinstance(outcome, Failure) else None
        attempt.note(before, again=outcome is True, wrote=cycle.wrote, failure=failure)
        if outcome is not True:
            return
