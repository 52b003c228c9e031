"""Random lives of placements: members come, go, drift, are cordoned, drained, evicted; users edit; rules always hold.

Each step decides on what is there and stores the outcome. A failure tells the seed of the life.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field, replace

import pytest

from tests.placement.deciding.cases import HEALTHY, HEARD, member
from wharfinger.objects.model.selectors import LabelSelector, Operator, Requirement, Taint, Toleration
from wharfinger.placement.deciding import ranking
from wharfinger.placement.deciding.deciding import decide
from wharfinger.placement.deciding.question import PlacementStanding, Question, counting
from wharfinger.placement.model.members import Ages, Member
from wharfinger.placement.model.placement import (
    ChosenMember,
    ClusterPreference,
    ClusterSpread,
    ClusterTerm,
    Placement,
    PlacementDecision,
    PlacementPolicy,
    PlacementRef,
    PlacementType,
    PropertySorter,
)

LIVES = 4000
SHARDS = 8
QUICK = 1
STEPS = 7
NAMES = [f"m{at}" for at in range(8)]
TAINT = Taint("t", "", "NoSchedule")


@dataclass
class Life:
    """A placement and the members around it."""

    chance: random.Random
    members: dict[str, Member] = field(default_factory=dict)
    ages: dict[str, Ages] = field(default_factory=dict)
    policy: PlacementPolicy = field(default_factory=PlacementPolicy)
    number: int = 0
    chosen: tuple[ChosenMember, ...] = ()
    delivered: set[str] = field(default_factory=set)
    lingering: set[str] = field(default_factory=set)
    cordoned: set[str] = field(default_factory=set)
    drained: set[str] = field(default_factory=set)
    identities: int = 0

    def some_member(self, name: str) -> Member:
        """A member with labels, taints and properties by chance."""
        chance, old = self.chance, self.members.get(name)
        self.identities += old is None
        self.ages[name] = HEARD if chance.random() < 0.8 else Ages(chance.choice([200.0, 900.0, None]), 1000.0)
        return member(
            name,
            identity=old.identity if old is not None else self.identities,
            labels={
                key: value
                for key, value in (("region", chance.choice("abc")), ("env", chance.choice(["prod", "test"])))
                if chance.random() < 0.9
            },
            taints=(TAINT,) if chance.random() < 0.2 else (),
            leaving=(old is not None and old.leaving) or chance.random() < 0.05,
            agent=HEALTHY if chance.random() < 0.95 else None,
            properties={"cost": chance.choice(["1", "2.5", "1000m", "dear", "0.10"])} if chance.random() < 0.8 else {},
        )

    def some_policy(self) -> PlacementPolicy:
        """A policy of the same type by chance."""
        chance, kind = self.chance, self.policy.type
        if kind is PlacementType.PICK_FIXED:
            return PlacementPolicy(kind, names=tuple(chance.sample([*NAMES, "nowhere"], chance.randrange(5))))
        required = ClusterTerm(LabelSelector((Requirement("env", Operator.IN, ("prod",)),)))
        policy = PlacementPolicy(
            kind,
            required=(required,) if chance.random() < 0.4 else (),
            tolerations=(Toleration("t", "Exists"),) if chance.random() < 0.3 else (),
        )
        if kind is PlacementType.PICK_ALL:
            return policy
        skew, hard = chance.randrange(1, 3), chance.random() < 0.6
        return replace(
            policy,
            number=chance.randrange(6),
            preferred=(ClusterPreference(9, None, PropertySorter("cost", "Ascending")),)
            if chance.random() < 0.5
            else (),
            spread=(ClusterSpread("region", skew, hard),) if chance.random() < 0.6 else (),
        )

    def happen(self) -> None:
        """One thing, or a few."""
        chance = self.chance
        for _ in range(chance.randrange(1, 4)):
            name = chance.choice(NAMES)
            match chance.randrange(9):
                case 0 | 1 | 2:
                    self.members[name] = self.some_member(name)
                case 3:
                    self.members.pop(name, None)
                case 4:
                    policy = self.some_policy()
                    self.number += replace(policy, number=None) != replace(self.policy, number=None)
                    self.policy = policy
                case 5 if self.policy.number is not None:
                    self.policy = replace(self.policy, number=chance.randrange(6))
                case 6 if self.chosen:
                    out = chance.choice(self.chosen).name
                    self.chosen = tuple(one for one in self.chosen if one.name != out)
                    self.delivered.discard(out)
                    self.lingering.add(out)
                case 7:
                    self.lingering.discard(name)
                    self.delivered.update(one.name for one in self.chosen if chance.random() < 0.7)
                case 8:
                    chance.choice([self.cordoned, self.drained]).symmetric_difference_update({name})

    def question(self) -> Question:
        """What is to be decided now."""
        known = tuple(self.members[name] for name in sorted(self.members))
        standing = PlacementStanding(self.chosen, frozenset(self.delivered), frozenset(self.lingering))
        return Question(
            Placement(PlacementRef("", "web"), 1, self.policy),
            self.number,
            known,
            {one.name: self.ages[one.name] for one in known},
            standing,
            frozenset(self.cordoned),
            frozenset(self.drained),
        )

    def store(self, decision: PlacementDecision) -> None:
        """The outcome is what counts from now on."""
        self.chosen = decision.chosen
        self.delivered &= {one.name for one in decision.chosen}


@pytest.mark.parametrize(
    "shard", [pytest.param(shard, marks=[] if shard < QUICK else pytest.mark.long) for shard in range(SHARDS)]
)
def test_rules_hold_in_every_life_and_every_decision_settles(shard: int) -> None:
    size = LIVES // SHARDS
    for seed in range(shard * size, (shard + 1) * size):
        chance = random.Random(seed)
        life = Life(chance, policy=PlacementPolicy(chance.choice(list(PlacementType))))
        life.policy = life.some_policy()
        for name in chance.sample(NAMES, 5):
            life.members[name] = life.some_member(name)
        for step in range(STEPS):
            asked = life.question()
            decision = decide(asked)
            wrong = [*_broken(asked, decision), *_unsettled(asked, decision)]
            assert wrong == [], f"seed {seed}, step {step}"
            life.store(decision)
            life.happen()


def _broken(asked: Question, decision: PlacementDecision) -> list[str]:
    """Which rules a decision breaks."""
    policy, known = asked.placement.policy, {one.name: one for one in asked.members}
    chosen, verdicts = [one.name for one in decision.chosen], [one.name for one in decision.verdicts]
    before = {one.name: one for one in asked.standing.chosen}
    wrong = []
    for one in decision.chosen:
        there = known.get(one.name)
        if there is None or there.leaving or there.identity != one.identity:
            wrong.append(f"{one.name} is chosen, and is not there")
        is_new = one.name not in before or before[one.name].identity != one.identity
        if is_new and one.name in asked.standing.lingering:
            wrong.append(f"{one.name} is chosen again while its work is there")
        if is_new and policy.type is not PlacementType.PICK_FIXED and one.name in asked.cordoned | asked.drained:
            wrong.append(f"{one.name} is cordoned, and newly chosen")
    if len(chosen) != len(set(chosen)) or len(verdicts) != len(set(verdicts)) or set(chosen) & set(verdicts):
        wrong.append("a member is named twice")
    judged = set(policy.names) if policy.type is PlacementType.PICK_FIXED else known.keys()
    if set(chosen) | set(verdicts) != judged:
        wrong.append("a member has no verdict, or one that is none has")
    if policy.type is PlacementType.PICK_ALL and not asked.drained.isdisjoint(chosen):
        wrong.append("a drained member keeps what all get")
    if policy.number is not None:
        if len(chosen) > policy.number:
            wrong.append("more are chosen than are wanted")
        if decision.condition.status != (len(chosen) == policy.number):
            wrong.append("the condition is wrong")
    wrong += _lost(asked, decision)
    return wrong + _uneven(asked, decision)


def _lost(asked: Question, decision: PlacementDecision) -> list[str]:
    """Nothing but what rule allows removes a member that was chosen under this policy."""
    known = {one.name: one for one in asked.members}
    stay = {
        one.name
        for one in asked.standing.chosen
        if one.policy == asked.number
        and (there := known.get(one.name)) is not None
        and not there.leaving
        and there.identity == one.identity
        and one.name not in asked.drained
    }
    names = {one.name for one in decision.chosen}
    wanted = asked.placement.policy.number
    if wanted is not None and len(stay) > wanted:
        return [] if len(names) == wanted and names <= stay else ["not only as many are given up as N fell"]
    return [f"{name} is given up" for name in sorted(stay - names)]


def _uneven(asked: Question, decision: PlacementDecision) -> list[str]:
    """Whoever is newly picked was not in a domain that is too full."""
    before = {one.name: one.identity for one in asked.standing.chosen if one.policy == asked.number}
    known = {one.name: one for one in asked.members}
    candidates = {one.name for one in decision.verdicts if one.plugin in ("", ranking.SPREAD)}
    for constraint in asked.placement.policy.spread:
        key = constraint.key
        picked = Counter(known[one.name].labels.get(key) for one in decision.chosen if one.name not in asked.drained)
        counts = {known[name].labels.get(key): 0 for name in candidates | {one.name for one in decision.chosen}}
        counts = {value: picked[value] for value in counts if value is not None}
        for one in decision.chosen:
            value = known[one.name].labels.get(key)
            is_new = before.get(one.name) != one.identity and one.name not in asked.drained
            matters = constraint.hard and is_new and value is not None
            if matters and counts[value] - min(counts.values()) > constraint.max_skew:
                return [f"{one.name} makes {key} too uneven: {counts}"]
    return []


def _unsettled(asked: Question, decision: PlacementDecision) -> list[str]:
    """Decided again it is the same; decided on its own outcome it says nothing new."""
    wrong = [] if decide(asked) == decision else ["it is decided otherwise the second time"]
    stored = {one.name for one in decision.chosen}
    standing = replace(asked.standing, chosen=decision.chosen, delivered=asked.standing.delivered & stored)
    again = decide(replace(asked, standing=standing))
    if {one.name for one in again.chosen} != stored:
        return [*wrong, f"on its own outcome it chooses {[one.name for one in again.chosen]}"]
    changed = again.chosen != decision.chosen  # else it is asked the same once more
    third = decide(replace(asked, standing=replace(standing, chosen=again.chosen))) if changed else again
    if counting(again) != counting(third):
        wrong.append("it never settles")
    return wrong
