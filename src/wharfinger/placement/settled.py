"""Whether a decision says anything new: what is stored is replaced only then, and nothing is started otherwise."""

from __future__ import annotations

from wharfinger.model.placement import PlacementDecision


def is_settled(stored: PlacementDecision | None, decided: PlacementDecision) -> bool:
    """Whether the stored decision says the same in all that counts.

    Members, the policy each was chosen by, how many are wanted, the condition, and who refused whom by which code
    count; scores, ages and texts do not: they change all the time.
    """
    return stored is not None and _counting(stored) == _counting(decided)


def _counting(decision: PlacementDecision) -> object:
    return (
        decision.policy,
        decision.generation,
        decision.number,
        {(one.name, one.identity, one.policy) for one in decision.chosen},
        {(one.name, one.plugin, one.code) for one in decision.verdicts},
        (decision.condition.status, decision.condition.reason),
    )
