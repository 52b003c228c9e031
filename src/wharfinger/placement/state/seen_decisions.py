"""What a hub has seen of one decision, kept small, and how a placement stands by it.

Neighbours: `state.seen` has the other facts, `contracts.placement_records` the stored value.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass

from wharfinger.etcd.store import KeyValue
from wharfinger.placement.contracts.placement_records import DecisionRecord, inflated, verdict_pairs
from wharfinger.placement.model.placement import ChosenMember, PolicyCondition
from wharfinger.placement.state.seen import SeenPlacement

_CODES: dict[tuple[str, str], int] = {}
"""Plugin and code -> its number in `SeenDecision.codes`; there are some dozens."""
CHOSEN, NOT_THERE = 0, 255


def code_of(plugin: str, code: str) -> int:
    """The number of a verdict's plugin and code."""
    found = _CODES.setdefault((plugin, code), len(_CODES) + 1)
    return min(found, NOT_THERE - 1)


@dataclass(frozen=True, slots=True)
class SeenDecision:
    """A stored decision, small: without texts and scores of those that were not chosen."""

    revision: int
    """Mod revision of its key."""
    identity: int
    policy: int
    digest: str
    chosen: tuple[ChosenMember, ...]
    condition: PolicyCondition
    counting: str
    evicted: frozenset[str]
    abandons: bool
    deleting: bool
    names: tuple[str, ...]
    """Every member that it names, sorted."""
    codes: bytes
    """What it says of each of these."""

    def code(self, member: str) -> int:
        """What it says of a member: CHOSEN, NOT_THERE, or the number of a verdict's plugin and code."""
        at = bisect_left(self.names, member)
        return self.codes[at] if at < len(self.names) and self.names[at] == member else NOT_THERE


def decision_of(kv: KeyValue) -> SeenDecision:
    """Raises `ValueError`."""
    found = inflated(kv.value)
    record = DecisionRecord.of_chosen(found)
    decision = record.decision
    numbers: dict[tuple[str, str], int] = {}
    codes = {one.name: CHOSEN for one in decision.chosen}
    for name, pair in verdict_pairs(found):
        number = numbers.get(pair)
        if number is None:
            number = numbers[pair] = code_of(*pair)
        codes.setdefault(name, number)
    names = tuple(sorted(codes))
    return SeenDecision(
        revision=kv.mod_revision,
        identity=record.identity,
        policy=decision.policy,
        digest=record.digest,
        chosen=decision.chosen,
        condition=decision.condition,
        counting=record.counting,
        evicted=record.evicted,
        abandons=record.abandons,
        deleting=record.deleting,
        names=names,
        codes=bytes(map(codes.__getitem__, names)),
    )


def state_of(seen: SeenPlacement | None, stored: SeenDecision | None) -> str:
    """How a placement stands, in a word; a placement without an object is being deleted."""
    if seen is None or seen.placement.deleting:
        return "deleting"
    if seen.unreadable:
        return "unreadable"
    if stored is None:
        return "undecided"
    return "fulfilled" if stored.condition.status else "unfulfilled"


STATES = ("deleting", "unreadable", "undecided", "fulfilled", "unfulfilled")
