"""Deciding for one placement: who is chosen, why, and why not the others. Pure: the same inputs give the same answer.

KubeFleet's rules, with the deviations that `deviations` lists. One pass picks as many members as are wanted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from wharfinger.model.members import Member
from wharfinger.model.placement import (
    Chosen,
    Placement,
    PlacementDecision,
    PlacementType,
    Scores,
    Verdict,
)
from wharfinger.placement import affinity, filters, spread, texts
from wharfinger.placement.deviations import D2, D3, D5, D6, D7, D8, D9, D10, D11, D12, Stuck
from wharfinger.placement.eligibility import Ages, why_not_eligible
from wharfinger.placement.naming import nameable
from wharfinger.placement.properties import RESOURCES, Unreadable
from wharfinger.placement.ranking import Candidate, Ranking

NOTHING: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Standing:
    """What a placement has: chosen earlier, delivered, on its way out."""

    chosen: tuple[Chosen, ...] = ()
    delivered: frozenset[str] = NOTHING
    """Names of the chosen that have the placement already: they are given up last."""
    lingering: frozenset[str] = NOTHING
    """Names of the evicted whose works are not gone."""
    remembered: frozenset[str] = NOTHING
    """Names of those given up whose works are still there. Only KubeFleet minds them."""


@dataclass(frozen=True, slots=True)
class Question:
    """All that a decision depends on."""

    placement: Placement
    number: int
    """Of the policy."""
    members: Sequence[Member]
    """By name."""
    ages: Mapping[str, Ages]
    standing: Standing = field(default_factory=Standing)
    cordoned: frozenset[str] = NOTHING
    """Names of members that take nothing new; PickFixed ignores it."""
    drained: frozenset[str] = NOTHING
    """Names of members that give up what they have, too, as soon as there is a successor."""
    unselected_limit: int | None = None
    """How many of the others a status names; None: all. It only tells whether D6 mattered."""


def decide(question: Question) -> PlacementDecision:
    """Decide, and name the deviations that mattered: without them the answer would be another one."""
    decided, triggered = _decided(question, NOTHING)
    assert not isinstance(decided, Stuck), "nothing is stuck while no deviation is undone"
    if not triggered:
        return decided
    mattered = {one for one in triggered if _differs(question, frozenset({one}), decided)}
    if not mattered and _differs(question, triggered, decided):
        mattered = set(triggered)
    return replace(decided, deviations=frozenset(mattered))


def decide_without(question: Question, without: frozenset[str]) -> PlacementDecision | Stuck:
    """What would be decided with some deviations undone."""
    return _decided(question, without)[0]


def _differs(question: Question, without: frozenset[str], decided: PlacementDecision) -> bool:
    other = _decided(question, without)[0]
    return other != decided


def _decided(question: Question, without: frozenset[str]) -> tuple[PlacementDecision | Stuck, frozenset[str]]:
    choice = _Choice(question, without)
    decided = choice.run()
    return decided, frozenset(choice.triggered - without)


class _Choice:
    """One way to decide, and the deviations that came into play."""

    def __init__(self, question: Question, without: frozenset[str]) -> None:
        self.question = question
        self.placement = question.placement
        self.policy = question.placement.policy
        self.without = without
        self.triggered: set[str] = set()
        self.known = {member.name: member for member in question.members}
        self.current: dict[str, Chosen] = {}
        """Chosen under this policy."""
        self.obsolete: dict[str, Chosen] = {}
        """Chosen under an older one."""
        for one in question.standing.chosen:
            member = self.known.get(one.name)
            if member is None or member.leaving or not self._is_same(one, member):
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

    def _is_same(self, chosen: Chosen, member: Member) -> bool:
        if chosen.identity == member.identity:
            return True
        self.triggered.add(D11)
        return D11 in self.without

    def _all(self) -> PlacementDecision | Stuck:
        self.current = {name: one for name, one in self.current.items() if name not in self.question.drained}
        judged = self._judge()
        if isinstance(judged, Stuck):
            return judged
        passed, verdicts = judged
        chosen = [self._choose(member, Scores()) for member in passed]
        stuck = self._unnameable(chosen)
        if stuck is not None:
            return stuck
        return self._decision([*self.current.values(), *chosen], None, verdicts, fulfilled=True)

    def _some(self) -> PlacementDecision | Stuck:
        wanted, present = self.policy.number or 0, len(self.current)
        settled = wanted <= present
        kept = list(self.current.values())
        if settled:
            kept = sorted(kept, key=self._keeping)[present - wanted :]
            self.current = {one.name: one for one in kept}
            if D6 in self.without:
                return self._decision(kept, wanted, [], fulfilled=True)
        judged = self._judge()
        scored = judged if isinstance(judged, Stuck) else self._score(*judged)
        if isinstance(scored, Stuck):
            # KubeFleet judges nobody when nothing is to do, and does not get stuck then
            return self._decision(kept, wanted, [], fulfilled=True) if settled else scored
        assert not isinstance(judged, Stuck), "nothing was scored then"
        verdicts = judged[1]
        drained = sorted((one for one in kept if one.name in self.question.drained), key=self._keeping)
        ranking = Ranking(self.policy.spread, self._domains(scored), self.without, self.triggered)
        ranking.put(scored)
        picked = ranking.pick(max(0, wanted - len(kept) + len(drained)))
        successors = max(0, len(kept) + len(picked) - wanted)
        left = {one.name for one in drained[:successors]}
        stay = {one.name: replace(one, reason=f"{one.reason}; {texts.NO_SUCCESSOR}") for one in drained[successors:]}
        kept = [stay.get(one.name, one) for one in kept if one.name not in left]
        verdicts += [
            Verdict(name, filters.CORDON, texts.UNSCHEDULABLE, texts.refused(texts.EXCHANGED)) for name in sorted(left)
        ]
        rest, uneven = ranking.rest()
        verdicts += [
            Verdict(
                member.name,
                spread.NAME,
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
            *(Verdict(one.name, "", "", texts.not_picked(one.name, scores), scores) for one, scores in rest),
            *sorted(verdicts, key=lambda verdict: verdict.name),
        ]
        if settled and verdicts and self.question.unselected_limit != 0:
            self.triggered.add(D6)
        return self._decision([*kept, *chosen], wanted, verdicts, fulfilled=len(kept) + len(chosen) >= wanted)

    def _keeping(self, chosen: Chosen) -> tuple[bool, bool, bool, Scores, str]:
        """Who is given up last comes last: who is not drained, then the delivered, of these who scored higher."""
        name, scores = chosen.name, chosen.scores
        delivered = name in self.question.standing.delivered
        return name not in self.question.drained, delivered, scores is not None, scores or Scores(), name

    def _fixed(self) -> PlacementDecision | Stuck:
        names = self.policy.names
        if len(set(names)) < len(names):
            self.triggered.add(D5)
        if not names:
            self.triggered.add(D9)
            if D9 in self.without:
                return Stuck("no cluster is named")
        chosen: list[Chosen] = []
        fresh: list[Chosen] = []
        verdicts: list[Verdict] = []
        found = 0
        for name in dict.fromkeys(names) if D5 not in self.without else names:
            member = self.known.get(name)
            if member is None:
                verdicts.append(Verdict(name, "", "NotFound", texts.not_found(name)))
                continue
            why = self._why_not_eligible(member, name in self.obsolete)
            if name in self.current:
                chosen.append(self._fixed_choice(self.current[name]))
                if why:
                    self.triggered.add(D5)
                if not why or D5 not in self.without:
                    found += 1
                else:  # it is chosen, and told as not selected
                    verdicts.append(self._not_eligible(name, why))
                continue
            if not why and self._lingers(name):
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

    def _fixed_choice(self, chosen: Chosen) -> Chosen:
        """PickFixed tells that a member is drained, and leaves it to the user."""
        drained = chosen.name in self.question.drained and texts.DRAINED not in chosen.reason
        return replace(chosen, reason=f"{chosen.reason}; {texts.DRAINED}") if drained else chosen

    def _not_eligible(self, name: str, why: str) -> Verdict:
        return Verdict(name, filters.ELIGIBILITY, texts.UNSCHEDULABLE, texts.not_eligible(name, why))

    def _why_not_eligible(self, member: Member, chosen_before: bool) -> str:
        ages = self.question.ages[member.name]
        why = why_not_eligible(member, ages, upstream=D10 in self.without)
        if why in (texts.NO_HEARTBEAT,):
            self.triggered.add(D10)
        if why and chosen_before and not member.leaving:
            self.triggered.add(D10)
            return why if D10 in self.without else ""
        return why

    def _lingers(self, name: str) -> bool:
        if name not in self.question.standing.lingering:
            return False
        self.triggered.add(D12)
        return D12 not in self.without

    def _judge(self) -> tuple[list[Member], list[Verdict]] | Stuck:
        """Who passes the filters before spread, and the verdicts on those that do not. The current are not judged."""
        passed, verdicts = [], []
        placement, ages, old = self.placement, self.question.ages, D10 in self.without
        dashed = self._has_dashes()
        for member in self.question.members:
            name = member.name
            if name in self.current:
                continue
            lenient = name in self.obsolete
            found = filters.refusal(
                placement,
                member,
                ages[name],
                dashes=D7 not in self.without,
                upstream=old,
                lenient=lenient and not old,
            )
            if lenient and why_not_eligible(member, ages[name]):
                self.triggered.add(D10)
            if isinstance(found, Unreadable):
                self.triggered.add(D3)
                if D3 in self.without or (D7 in self.without and dashed):
                    return Stuck(found.why)
                verdicts.append(self._unreadable(name, found))
            elif found is not None:
                if found.reason == texts.NO_HEARTBEAT:
                    self.triggered.add(D10)
                verdicts.append(Verdict(name, found.plugin, texts.UNSCHEDULABLE, texts.refused(found.reason)))
            elif name in self.question.cordoned or name in self.question.drained:
                verdicts.append(Verdict(name, filters.CORDON, texts.UNSCHEDULABLE, texts.refused(texts.CORDONED)))
            elif self._lingers(name):
                verdicts.append(Verdict(name, filters.EVICTION, texts.UNSCHEDULABLE, texts.refused(texts.LINGERS)))
            else:
                passed.append(member)
        return passed, verdicts

    def _has_dashes(self) -> bool:
        """Whether the policy names a resource with a dash."""
        names = [one.name for term in self.policy.required for one in term.properties]
        names += [one.sorter.name for one in self.policy.preferred if one.sorter is not None]
        dashed = any(name.startswith(RESOURCES) and name.count("-", len(RESOURCES)) > 1 for name in names)
        if dashed:
            self.triggered.add(D7)
        return dashed

    def _unreadable(self, name: str, found: Unreadable) -> Verdict:
        return Verdict(name, affinity.NAME, texts.UNSCHEDULABLE, texts.refused(texts.unreadable(found.why)))

    def _score(self, passed: Sequence[Member], verdicts: list[Verdict]) -> list[Candidate] | Stuck:
        preferred = self.policy.preferred
        if not preferred:
            return [Candidate(member, 0, member.name in self.obsolete) for member in passed]
        exactly = dashes = D7 not in self.without
        strict = D3 in self.without
        among = affinity.ranges(self.policy, self.question.members, dashes=dashes, strict=True)
        if isinstance(among, Unreadable):
            self.triggered.add(D3)
            if strict or not dashes:
                return Stuck(among.why)
            among = affinity.ranges(self.policy, self.question.members, dashes=dashes, strict=False)
            assert not isinstance(among, Unreadable), "it is not strict"
        if any(span is not None and span.spelled_apart for span in among.values()):
            self.triggered.add(D7)
        found = []
        for member in passed:
            liked = affinity.score(preferred, member, among, dashes=dashes, exactly=exactly)
            if isinstance(liked, Unreadable):
                self.triggered.add(D3)
                if strict or not dashes:
                    return Stuck(liked.why)
                verdicts.append(self._unreadable(member.name, liked))
                continue
            found.append(Candidate(member, liked, member.name in self.obsolete))
        return found

    def _domains(self, candidates: Sequence[Candidate]) -> list[spread.Domains]:
        if not self.policy.spread:
            return []
        chosen = [self.known[name] for name in self.current if name not in self.question.drained]
        counted = self.question.members
        if D2 not in self.without:
            counted = [*chosen, *(one.member for one in candidates)]
        found = [spread.domains(constraint.key, counted, chosen) for constraint in self.policy.spread]
        if D2 not in self.without:
            every = [
                {one.labels.get(each.key) for one in self.question.members} - {None} for each in self.policy.spread
            ]
            if any(each != domain.counts.keys() for each, domain in zip(every, found, strict=True)):
                self.triggered.add(D2)
        return found

    def _choose(self, member: Member, scores: Scores | None) -> Chosen:
        told = texts.chosen(member.name, scores)
        return Chosen(member.name, member.identity, self.question.number, scores, told)

    def _unnameable(self, chosen: Sequence[Chosen]) -> Stuck | None:
        known = self.obsolete.keys() | self.question.standing.remembered
        for one in chosen:
            if one.name not in known and not nameable(self.placement.ref.name, one.name):
                self.triggered.add(D8)
                if D8 in self.without:
                    return Stuck(f"no binding can be named for {one.name}")
        return None

    def _decision(
        self,
        chosen: Sequence[Chosen],
        number: int | None,
        verdicts: Sequence[Verdict],
        *,
        fulfilled: bool,
        found: int | None = None,
    ) -> PlacementDecision:
        return PlacementDecision(
            policy=self.question.number,
            generation=self.placement.generation,
            number=number,
            chosen=tuple(sorted(chosen, key=lambda one: one.name)),
            verdicts=tuple(verdicts),
            condition=texts.condition(len(chosen) if found is None else found, fulfilled=fulfilled),
        )
