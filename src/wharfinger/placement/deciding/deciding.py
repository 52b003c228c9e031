"""Deciding for one placement: who is chosen, why, and why not the others. Pure: the same inputs give the same answer.

KubeFleet's rules, with the deviations that `deviations` lists. One pass picks as many members as are wanted.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from wharfinger.placement.deciding import filters, texts
from wharfinger.placement.deciding.deviations import D2, D5, D6, D8, D9, D10, D11, D14, Deviations, Stuck
from wharfinger.placement.deciding.filters import MemberFilter, nameable, why_not_eligible
from wharfinger.placement.deciding.question import Question
from wharfinger.placement.deciding.ranking import SPREAD, Domains, MemberCandidate, Ranking, domains
from wharfinger.placement.deciding.scaling_down import given_up
from wharfinger.placement.model.members import Member
from wharfinger.placement.model.placement import (
    ChosenMember,
    ClusterSpread,
    MemberScores,
    MemberVerdict,
    PlacementDecision,
    PlacementType,
)


def decide(question: Question) -> PlacementDecision:
    """Decide, and name the deviations that mattered: without them the answer would be another one."""
    deviations = Deviations()
    decided = _Choice(question, deviations).run()
    assert not isinstance(decided, Stuck), "nothing is stuck while no deviation is undone"
    noted = frozenset(deviations.noted)
    # One deviation may hide another one: then only undoing all of them shows that they mattered.
    mattered = frozenset(one for one in noted if decide_without(question, frozenset({one})) != decided)
    if noted and not mattered and decide_without(question, noted) != decided:
        mattered = noted
    return replace(decided, deviations=mattered)


def decide_without(question: Question, undone: frozenset[str]) -> PlacementDecision | Stuck:
    """What would be decided with some deviations undone."""
    return _Choice(question, Deviations(undone)).run()


class _Choice:
    """One way to decide. It notes the deviations that come into play."""

    def __init__(self, question: Question, deviations: Deviations) -> None:
        self.question = question
        self.placement = question.placement
        self.policy = question.placement.policy
        self.deviations = deviations
        self.filter = MemberFilter(question, deviations)
        self.known = {member.name: member for member in question.members}
        self.current: dict[str, ChosenMember] = {}
        """Chosen under this policy."""
        self.obsolete: dict[str, ChosenMember] = {}
        """Chosen under an older one."""
        self.note = ""
        """What the condition adds to KubeFleet's message."""
        for one in question.standing.chosen:
            member = self.known.get(one.name)
            if member is None or member.leaving or (one.identity != member.identity and self.deviations.note(D11)):
                continue
            (self.current if one.policy == question.number else self.obsolete)[one.name] = one

    def run(self) -> PlacementDecision | Stuck:
        """Decide."""
        match self.policy.type:
            case PlacementType.PICK_FIXED:
                return self._fixed()
            case PlacementType.PICK_N:
                return self._some()
            case _:
                return self._all()

    def _all(self) -> PlacementDecision | Stuck:
        self.current = {name: one for name, one in self.current.items() if name not in self.question.drained}
        filtered = self.filter.filter(self.current, self.obsolete)
        if isinstance(filtered, Stuck):
            return filtered
        passed, verdicts = filtered
        chosen = [self._choose(member, MemberScores()) for member in passed]
        stuck = self._unnameable(chosen)
        if stuck is not None:
            return stuck
        return self._decision([*self.current.values(), *chosen], None, verdicts, fulfilled=True)

    def _some(self) -> PlacementDecision | Stuck:
        wanted, present = self.policy.number or 0, len(self.current)
        settled = wanted <= present
        if settled:
            self._scale_down(present - wanted)
            if not self.deviations.holds(D6):
                return self._decision(list(self.current.values()), wanted, [], fulfilled=True)
        filtered = self.filter.filter(self.current, self.obsolete)
        scored = filtered if isinstance(filtered, Stuck) else self.filter.score(*filtered, self.obsolete)
        if isinstance(scored, Stuck):
            # KubeFleet filters no member when nothing is to do, and does not get stuck then
            return self._decision(list(self.current.values()), wanted, [], fulfilled=True) if settled else scored
        assert not isinstance(filtered, Stuck), "nothing was scored then"
        verdicts = filtered[1]
        scored = self._keep_closed(scored, wanted, verdicts)
        kept = list(self.current.values())
        drained = sorted((one for one in kept if one.name in self.question.drained), key=self._keeping)
        ranking = Ranking(self.policy.spread, self._domains(scored), self.deviations)
        ranking.put(scored)
        # A drained member leaves only where another one takes its place, so one is picked for each of them.
        picked = ranking.pick(max(0, wanted - len(kept) + len(drained)))
        successors = max(0, len(kept) + len(picked) - wanted)
        left = {one.name for one in drained[:successors]}
        stay = {one.name: replace(one, reason=f"{one.reason}; {texts.NO_SUCCESSOR}") for one in drained[successors:]}
        kept = [stay.get(one.name, one) for one in kept if one.name not in left]
        verdicts += [
            MemberVerdict(name, filters.CORDON, texts.UNSCHEDULABLE, texts.refused(texts.EXCHANGED))
            for name in sorted(left)
        ]
        rest, uneven = ranking.rest()
        verdicts += [
            MemberVerdict(
                member.name,
                SPREAD,
                texts.UNSCHEDULABLE,
                texts.refused(texts.skewed(constraint.key, constraint.max_skew)),
            )
            for member, constraint in uneven
        ]
        chosen = [self._choose(member, scores) for member, scores in picked]
        stuck = self._unnameable(chosen)
        if stuck is not None:
            return stuck
        verdicts = [
            *(MemberVerdict(one.name, "", "", texts.not_picked(one.name, scores), scores) for one, scores in rest),
            *sorted(verdicts, key=lambda verdict: verdict.name),
        ]
        if settled and verdicts and self.question.unselected_limit != 0:
            self.deviations.note(D6)
        return self._decision([*kept, *chosen], wanted, verdicts, fulfilled=len(kept) + len(chosen) >= wanted)

    def _scale_down(self, count: int) -> None:
        """Give up so many of the current: drained ones first, then those whose going keeps hard constraints."""
        order = sorted(self.current.values(), key=self._keeping)
        going = [one.name for one in order[:count]]
        hard = [one for one in self.policy.spread if one.hard]
        drained = sum(one.name in self.question.drained for one in order[:count])
        if hard and count > drained:
            staying = [self.known[one.name] for one in order[drained:] if one.name not in self.question.drained]
            spread_out = self._spread_out(staying, count - drained, hard)
            if self.deviations.holds(D14):
                if spread_out is None:
                    self.note = texts.uneven(len(order) - count)
                else:
                    going[drained:] = spread_out
            if spread_out is None or set(spread_out) != {one.name for one in order[drained:count]}:
                self.deviations.note(D14)
        self.current = {one.name: one for one in order if one.name not in going}

    def _spread_out(self, order: Sequence[Member], count: int, hard: Sequence[ClusterSpread]) -> list[str] | None:
        """Who goes so that hard constraints hold: over all domains that count, else over those that have it now."""
        filtered = self.filter.filter(self.current, self.obsolete)
        passed = [] if isinstance(filtered, Stuck) else filtered[0]
        # Domains that only have candidates count, too, as in a fresh decision. No choice may satisfy all of them.
        for counted in ([*order, *passed], order):
            values = [{one.labels[each.key] for one in counted if each.key in one.labels} for each in hard]
            found = given_up(order, count, hard, values)
            if found is not None:
                return [one.name for one in found]
        return None

    def _keep_closed(
        self, candidates: Sequence[MemberCandidate], wanted: int, verdicts: list[MemberVerdict]
    ) -> list[MemberCandidate]:
        """Choose members again that keep what they have though they take nothing new; who is left to be picked."""
        closed = [one for one in candidates if self.filter.keeps(one.member.name, self.obsolete)]
        closed.sort(key=lambda one: self._keeping(self.obsolete[one.member.name]), reverse=True)
        for one in closed:
            name = one.member.name
            if len(self.current) < wanted:
                self.current[name] = self._choose(one.member, MemberScores(0, one.affinity))
            elif (refused := self.filter.closed(name)) is not None:
                verdicts.append(refused)
        names = {one.member.name for one in closed}
        return [one for one in candidates if one.member.name not in names]

    def _keeping(self, chosen: ChosenMember) -> tuple[bool, bool, bool, MemberScores, str]:
        """Who is given up last comes last: who is not drained, then the delivered, of these who scored higher."""
        name, scores = chosen.name, chosen.scores
        delivered = name in self.question.standing.delivered
        return name not in self.question.drained, delivered, scores is not None, scores or MemberScores(), name

    def _fixed(self) -> PlacementDecision | Stuck:
        names = self.policy.names
        if len(set(names)) < len(names):
            self.deviations.note(D5)
        if not names and not self.deviations.note(D9):
            return Stuck("no cluster is named")
        chosen: list[ChosenMember] = []
        fresh: list[ChosenMember] = []
        verdicts: list[MemberVerdict] = []
        found = 0
        for name in dict.fromkeys(names) if self.deviations.holds(D5) else names:
            member = self.known.get(name)
            if member is None:
                verdicts.append(MemberVerdict(name, "", "NotFound", texts.not_found(name)))
                continue
            why = self._why_not_eligible(member, name in self.obsolete)
            if name in self.current:
                chosen.append(self._fixed_choice(self.current[name]))
                if not why or self.deviations.note(D5):
                    found += 1
                else:  # it is chosen, and reported as not selected
                    verdicts.append(self._not_eligible(name, why))
                continue
            if not why and self.filter.lingers(name):
                why = texts.LINGERS
            if why:
                verdicts.append(self._not_eligible(name, why))
                continue
            found += 1
            one = self._choose(member, None)
            chosen.append(self._fixed_choice(one))
            fresh.append(one)
        stuck = self._unnameable(fresh)
        if stuck is not None:
            return stuck
        return self._decision(chosen, None, verdicts, fulfilled=not verdicts, found=found)

    def _fixed_choice(self, chosen: ChosenMember) -> ChosenMember:
        """PickFixed tells that a member is drained, and leaves it to the user."""
        drained = chosen.name in self.question.drained and texts.DRAINED not in chosen.reason
        return replace(chosen, reason=f"{chosen.reason}; {texts.DRAINED}") if drained else chosen

    def _not_eligible(self, name: str, why: str) -> MemberVerdict:
        return MemberVerdict(name, filters.ELIGIBILITY, texts.UNSCHEDULABLE, texts.not_eligible(name, why))

    def _why_not_eligible(self, member: Member, chosen_before: bool) -> str:
        ages = self.question.ages[member.name]
        why = why_not_eligible(member, ages, as_kubefleet=not self.deviations.holds(D10))
        if why == texts.NO_HEARTBEAT:
            self.deviations.note(D10)
        kept = why and chosen_before and not member.leaving and self.deviations.note(D10)
        return "" if kept else why

    def _domains(self, candidates: Sequence[MemberCandidate]) -> list[Domains]:
        if not self.policy.spread:
            return []
        chosen = [self.known[name] for name in self.current if name not in self.question.drained]
        counted: Iterable[Member] = self.question.members
        if self.deviations.holds(D2):
            counted = [*chosen, *(one.member for one in candidates)]
        found = [domains(constraint.key, counted, chosen) for constraint in self.policy.spread]
        if self.deviations.holds(D2):
            every = [
                {one.labels.get(each.key) for one in self.question.members} - {None} for each in self.policy.spread
            ]
            if any(each != domain.counts.keys() for each, domain in zip(every, found, strict=True)):
                self.deviations.note(D2)
        return found

    def _choose(self, member: Member, scores: MemberScores | None) -> ChosenMember:
        reason = texts.chosen(member.name, scores)
        if member.name in self.obsolete and self.question.closed(member.name):
            reason = f"{reason}; {texts.CLOSED}"
        return ChosenMember(member.name, member.identity, self.question.number, scores, reason)

    def _unnameable(self, chosen: Sequence[ChosenMember]) -> Stuck | None:
        known = self.obsolete.keys() | self.question.standing.remembered
        for one in chosen:
            unnameable = one.name not in known and not nameable(self.placement.ref.name, one.name)
            if unnameable and not self.deviations.note(D8):
                return Stuck(f"no binding can be named for {one.name}")
        return None

    def _decision(
        self,
        chosen: Sequence[ChosenMember],
        number: int | None,
        verdicts: Sequence[MemberVerdict],
        *,
        fulfilled: bool,
        found: int | None = None,
    ) -> PlacementDecision:
        condition = texts.condition(len(chosen) if found is None else found, fulfilled=fulfilled)
        if self.note:
            condition = replace(condition, message=f"{condition.message}; {self.note}")
        return PlacementDecision(
            policy=self.question.number,
            generation=self.placement.generation,
            number=number,
            chosen=tuple(sorted(chosen, key=lambda one: one.name)),
            verdicts=tuple(verdicts),
            condition=condition,
        )
