"""What placements would get, and what would be done on their members, by a view in which something is supposed.

`reading.placement_plans` supposes; the pure cores decide (`effects.questions`) and foresee
(`deciding.rolling`).
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from wharfinger.placement.deciding.rolling import ForeseenRollout, foresee
from wharfinger.placement.effects.questions import answer
from wharfinger.placement.effects.rolling_out import rollout_of
from wharfinger.placement.model.delivery import RolloutStep
from wharfinger.placement.model.placement import PlacementDecision
from wharfinger.placement.state.hub_view import HubView
from wharfinger.placement.state.seen import SeenDecision


@dataclass(frozen=True, slots=True)
class SupposedPlacement:
    """What a placement would get."""

    reference: str
    before: Sequence[str]
    after: Sequence[str]
    condition: str
    fulfilled: bool
    why: Mapping[str, str]
    """Of members that come or go."""
    waves: Sequence[Sequence[RolloutStep]] = ()
    """What would be done on members, wave by wave, if everything went well."""
    held: Sequence[str] = ()
    """Members that would wait even then."""

    @property
    def added(self) -> list[str]:
        """Members that would be chosen newly."""
        return [name for name in self.after if name not in self.before]

    @property
    def removed(self) -> list[str]:
        """Members that would not be chosen any more."""
        return [name for name in self.before if name not in self.after]


def supposed(view: HubView) -> list[SupposedPlacement]:
    """What all placements would get by a view in which something is supposed, where another choice is stored."""
    found = (supposed_of(view, reference) for reference in sorted(view.references))
    return [one for one in found if one is not None]


def supposed_of(view: HubView, reference: str) -> SupposedPlacement | None:
    """What one placement would get by such a view; None where that is what is stored."""
    stored = view.decisions.get(reference)
    before = [one.name for one in stored.chosen] if stored is not None else []
    decision = answer(view, reference, time.monotonic()).decision
    if decision is None:
        return None
    changed = {(one.name, one.identity) for one in decision.chosen} ^ (
        {(one.name, one.identity) for one in stored.chosen} if stored is not None else set()
    )
    status = stored.condition.status if stored is not None else None
    if not changed and status == decision.condition.status:
        return None
    reasons = {one.name: one.reason for one in decision.verdicts}
    reasons |= {one.name: one.reason for one in decision.chosen}
    rollout = _foreseen(view, reference, decision)
    return SupposedPlacement(
        reference,
        before,
        list(decision.names),
        decision.condition.message,
        decision.condition.status,
        {name: reasons.get(name, "it is gone") for name, _ in changed},
        rollout.waves,
        rollout.held,
    )


def _foreseen(view: HubView, reference: str, decision: PlacementDecision) -> ForeseenRollout:
    """How such a decision would be rolled out."""
    seen, stored = view.placements.get(reference), view.decisions.get(reference)
    supposed_decision = SeenDecision(
        revision=stored.revision if stored is not None else 0,
        identity=seen.placement.identity if seen is not None else 0,
        policy=decision.policy,
        digest="",
        chosen=decision.chosen,
        condition=decision.condition,
        counting="",
        evicted=stored.evicted if stored is not None else frozenset(),
        abandons=seen.abandons if seen is not None else stored is not None and stored.abandons,
        deleting=seen is None or seen.placement.deleting,
        names=(),
        codes=b"",
    )
    view.decisions[reference] = supposed_decision
    try:
        rollout = rollout_of(view, reference)
    finally:
        if stored is not None:
            view.decisions[reference] = stored
        else:
            del view.decisions[reference]
    if rollout.spec.external and not rollout.deleting:
        return ForeseenRollout()
    leave = rollout.deleting and supposed_decision.abandons
    return foresee(rollout.members, rollout.steps.target, rollout.spec.budget, leave=leave)
