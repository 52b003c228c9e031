"""What a decision depends on (the placement, its members, and what it has already), and what counts in a decision."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field

from wharfinger.placement.model.members import Ages, Member
from wharfinger.placement.model.placement import ChosenMember, Placement, PlacementDecision

NOTHING: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class PlacementStanding:
    """What a placement has: chosen earlier, delivered, on its way out."""

    chosen: tuple[ChosenMember, ...] = ()
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
    members: tuple[Member, ...]
    """By name."""
    ages: Mapping[str, Ages]
    standing: PlacementStanding = field(default_factory=PlacementStanding)
    cordoned: frozenset[str] = NOTHING
    """Names of members that take nothing new; PickFixed ignores it."""
    drained: frozenset[str] = NOTHING
    """Names of members that give up what they have, too, as soon as there is a successor."""
    unreadable: Mapping[str, str] = field(default_factory=dict)
    """Members whose object cannot be read, and why: they keep what they have, and take nothing new."""
    unselected_limit: int | None = None
    """How many of the others a status names; None: all. It only tells whether D6 mattered."""

    def closed(self, name: str) -> bool:
        """Whether a member takes nothing new, and keeps what it has."""
        return (name in self.cordoned or name in self.unreadable) and name not in self.drained


def counting(decision: PlacementDecision) -> bytes:
    """A digest of all that counts in a decision.

    Members, the policy each was chosen by, how many are wanted, the condition, and who refused whom by which code
    count; scores, ages and texts do not: they change all the time.
    """
    counted = (
        decision.policy,
        decision.generation,
        decision.number,
        sorted((one.name, one.identity, one.policy) for one in decision.chosen),
        sorted((one.name, one.plugin, one.code) for one in decision.verdicts),
        (decision.condition.status, decision.condition.reason),
    )
    return hashlib.blake2b(repr(counted).encode(errors="surrogatepass"), digest_size=16).digest()
