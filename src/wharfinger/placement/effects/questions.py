"""What follows for one placement from what a hub has seen: a decision, how evictions end, or that its traces go.

Pure: the same view gives the same answer. The hub's loops ask whether an attempt is needed, its activity decides, and
`explain` and `plan` ask the same of other states.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from wharfinger.placement.contracts import placement_keys
from wharfinger.placement.deciding import filters, texts
from wharfinger.placement.deciding.affinity import Unreadable, affinity_of
from wharfinger.placement.deciding.deciding import decide
from wharfinger.placement.deciding.question import PlacementStanding, Question, counting
from wharfinger.placement.model.members import Ages
from wharfinger.placement.model.placement import (
    ChosenMember,
    Eviction,
    EvictionOutcome,
    Placement,
    PlacementBudget,
    PlacementDecision,
    PlacementType,
    PolicyCondition,
)
from wharfinger.placement.state.hub_view import HubView
from wharfinger.placement.state.seen import CHOSEN, NOT_THERE, SeenDecision, SeenEviction, SeenPlacement, code_of

_NO_PLACEMENT = "Failed to find ClusterResourcePlacement targeted by eviction"
_DELETING = "Found deleting ClusterResourcePlacement targeted by eviction"
_FIXED = "Found ClusterResourcePlacement with PickFixed placement type targeted by eviction"
_NOT_CHOSEN = "Failed to find scheduler decision for placement in cluster targeted by eviction"
_ALLOWED = "Eviction is allowed, no ClusterResourcePlacementDisruptionBudget specified"
_LEAVING = (
    "Eviction is allowed, "
    "resources propagated by placement is currently being removed from cluster targeted by eviction"
)
_FAILED = "Eviction is allowed, placement has failed"
_WRONG_BUDGET = (
    "Eviction is blocked by misconfigured ClusterResourcePlacementDisruptionBudget, either MaxUnavailable is specified "
    "or MinAvailable is specified as a percentage for PickAll ClusterResourcePlacement"
)
_NOTHING_THERE = "Eviction is blocked, placement has not propagated resources to target cluster yet"
_BUDGET = "by specified ClusterResourcePlacementDisruptionBudget, availablePlacements: {}, totalPlacements: {}"


@dataclass(frozen=True, slots=True)
class Delivered:
    """Where a placement is, and how it does there: names of members."""

    present: Collection[str] = ()
    """Members that have something of it."""
    available: Collection[str] = ()
    """Reachable members of the decision on which all of it is available."""
    failed: Collection[str] = ()
    """Members on which it failed, or only differences are reported."""
    removing: Collection[str] = ()
    """Members that it is being removed from."""


def judge_eviction(
    eviction: Eviction,
    placement: Placement | None,
    chosen: Sequence[ChosenMember],
    delivered: Delivered,
    budget: PlacementBudget | None,
    *,
    evicted: int = 0,
) -> EvictionOutcome:
    """How an eviction ends. The decision that follows from an executed one is stored with it.

    `chosen`: by the stored decision. `evicted`: members that left it by evictions before this one, and have no
    successors yet.
    """
    if placement is None:
        return EvictionOutcome(False, False, _NO_PLACEMENT)
    if placement.deleting:
        return EvictionOutcome(False, False, _DELETING)
    if placement.policy.type is PlacementType.PICK_FIXED:
        return EvictionOutcome(False, False, _FIXED)
    name = eviction.cluster
    if name in delivered.removing:
        return EvictionOutcome(True, True, _LEAVING)
    if name not in {one.name for one in chosen}:
        return EvictionOutcome(False, False, _NOT_CHOSEN)
    if name not in delivered.present:
        return EvictionOutcome(True, False, _NOTHING_THERE)
    if name in delivered.failed:
        return EvictionOutcome(True, True, _FAILED)
    if budget is None:
        return EvictionOutcome(True, True, _ALLOWED)
    return _by_budget(placement, chosen, delivered, budget, evicted)


def _by_budget(
    placement: Placement, chosen: Sequence[ChosenMember], delivered: Delivered, budget: PlacementBudget, evicted: int
) -> EvictionOutcome:
    least, most = budget.min_available, budget.max_unavailable
    if placement.policy.type is PlacementType.PICK_ALL and (most is not None or (least is not None and least.percent)):
        return EvictionOutcome(True, False, _WRONG_BUDGET)
    total = len(chosen) + evicted
    available = sum(one.name in delivered.available for one in chosen)
    wanted = placement.policy.number or 0
    room = 0
    if most is not None:
        room = most.of(wanted, up=True) - (total - available)
    elif least is not None:
        room = available - least.of(wanted, up=True)
    counts = _BUDGET.format(available, total)
    if room > 0:
        return EvictionOutcome(True, True, f"Eviction is allowed {counts}")
    return EvictionOutcome(True, False, f"Eviction is blocked {counts}")


DELETING = PolicyCondition(False, "PlacementDeleting", "the placement is being deleted, and nothing is chosen for it")
EVICTIONS = 20
"""Evictions that end with one attempt: a transaction takes so many."""


@dataclass(frozen=True, slots=True)
class WhatFollows:
    """What follows for one placement."""

    decision: PlacementDecision | None = None
    """None: nothing is to be decided."""
    digest: str = ""
    """Of the policy."""
    abandons: bool = False
    deleting: bool = False
    evicted: frozenset[str] = frozenset()
    """Members it was evicted from whose works are not gone."""
    outcomes: Mapping[str, EvictionOutcome] = field(default_factory=dict)
    """Of evictions, by name."""
    free: tuple[str, ...] = ()
    """Members it is evicted from for free, because it has failed there."""
    remove: bool = False
    """Whether nothing of the placement is left anywhere, so that its keys and its object go."""
    ages: Mapping[str, Ages] = field(default_factory=dict)


def answer(view: HubView, reference: str, now: float) -> WhatFollows:
    """What follows for a placement. `now`: clock seconds of the hub."""
    seen, stored = view.placements.get(reference), view.decisions.get(reference)
    pending = view.pending_evictions(reference)[:EVICTIONS]
    if seen is None or seen.placement.deleting:
        return _deleting(view, reference, seen, stored, pending)
    if seen.unreadable:
        return WhatFollows()
    question = _question(view, reference, seen, stored, now)
    outcomes, evicted, free = _evicted(view, reference, seen.placement, stored, pending)
    before = stored.evicted if stored is not None else frozenset()
    lingering = frozenset(before.union(evicted) & _having_work(view, reference))
    standing = question.standing
    # Who is evicted now is no longer chosen, so that the same decision may choose a successor.
    left = tuple(one for one in standing.chosen if one.name not in evicted)
    question = replace(question, standing=replace(standing, chosen=left, lingering=lingering))
    return WhatFollows(
        decision=decide(question),
        digest=seen.digest,
        abandons=seen.abandons,
        evicted=lingering,
        outcomes=outcomes,
        free=free,
        ages=question.ages,
    )


def needs_attempt(view: HubView, reference: str, now: float) -> bool:
    """Whether deciding in memory differs from what is stored."""
    found, stored = answer(view, reference, now), view.decisions.get(reference)
    if found.outcomes or found.remove:
        return True
    if found.decision is None:
        return False
    return stored is None or differs(found, stored)


def differs(found: WhatFollows, stored: SeenDecision) -> bool:
    """Whether an answer says anything that the stored decision does not."""
    assert found.decision is not None, "something was decided"
    decided = (found.deleting, found.evicted, found.abandons, found.digest, counting(found.decision).hex())
    return decided != (stored.deleting, stored.evicted, stored.abandons, stored.digest, stored.counting)


def member_needs_attempt(view: HubView, reference: str, member: str, now: float) -> bool:
    """Whether a PickAll would say something else of one member; all others are as they were."""
    seen, stored = view.placements.get(reference), view.decisions.get(reference)
    if seen is None or seen.unreadable or seen.placement.deleting:
        return False
    if stored is None or stored.identity != seen.placement.identity or stored.digest != seen.digest:
        return True
    known = view.members.get(member)
    if known is not None and any(one.name == member and one.identity != known.member.identity for one in stored.chosen):
        return True  # it went and came back: newly chosen, or not chosen
    return stored.code(member) != _code(view, seen.placement, stored, member, now)


def _code(view: HubView, placement: Placement, stored: SeenDecision, name: str, now: float) -> int:
    """What a PickAll says of a member."""
    found = view.members.get(name)
    if found is None:
        return NOT_THERE
    member, drain = found.member, view.member_view.drain_of(name)
    if not member.leaving and not (drain is not None and drain.want == "drain"):
        chosen = next((one for one in stored.chosen if one.name == name), None)
        if chosen is not None and chosen.identity == member.identity and chosen.policy == stored.policy:
            return CHOSEN
    affinity = affinity_of(placement.policy, dashes=True, exactly=True)
    refused = filters.refusal(placement, affinity, member, found.ages(now), as_kubefleet=False)
    if isinstance(refused, Unreadable):
        return code_of(filters.AFFINITY, texts.UNSCHEDULABLE)
    if refused is not None:
        return code_of(refused.plugin, texts.UNSCHEDULABLE)
    if found.unreadable:
        return code_of(filters.OBJECT, texts.UNSCHEDULABLE)
    if drain is not None:
        return code_of(filters.CORDON, texts.UNSCHEDULABLE)
    lingers = name in stored.evicted and name in _having_work(view, str(placement.ref))
    return code_of(filters.EVICTION, texts.UNSCHEDULABLE) if lingers else CHOSEN


def _question(view: HubView, reference: str, seen: SeenPlacement, stored: SeenDecision | None, now: float) -> Question:
    works, drains = view.works.get(reference, {}), view.member_view.drains
    cordoned = {name for name, one in drains.items() if one.want == "cordon"}
    return Question(
        placement=seen.placement,
        number=_number(view, reference, seen, stored),
        members=view.member_view.in_order,
        ages={name: one.ages(now) for name, one in view.members.items()},
        standing=PlacementStanding(
            chosen=stored.chosen if stored is not None else (),
            delivered=frozenset(name for name, work in works.items() if work.want == "present"),
        ),
        cordoned=frozenset(cordoned),
        drained=frozenset(drains.keys() - cordoned),
        unreadable={name: one.unreadable for name, one in view.members.items() if one.unreadable},
    )


def _number(view: HubView, reference: str, seen: SeenPlacement, stored: SeenDecision | None) -> int:
    """Of the policy: the same as long as it is the same policy of the same object."""
    if stored is None:
        return max(view.policies.get(reference, ()), default=0) + 1
    if stored.digest == seen.digest and stored.identity == seen.placement.identity and not stored.deleting:
        return stored.policy
    known = view.policies.get(reference, set())
    return max(known | {stored.policy}) + 1


def _having_work(view: HubView, reference: str) -> set[str]:
    """Members that have a work, or something in its place that cannot be read."""
    prefix = placement_keys.work.below(reference)
    unreadable = {key.removeprefix(prefix) for key in view.unreadable if key.startswith(prefix)}
    return unreadable.union(view.works.get(reference, ()))


def _evicted(
    view: HubView,
    reference: str,
    placement: Placement | None,
    stored: SeenDecision | None,
    pending: Sequence[SeenEviction],
) -> tuple[dict[str, EvictionOutcome], frozenset[str], tuple[str, ...]]:
    """How the pending evictions end, one after the other; who is evicted by them, and who of these for free."""
    outcomes: dict[str, EvictionOutcome] = {}
    evicted: set[str] = set()
    free: list[str] = []
    chosen = list(stored.chosen) if stored is not None else []
    budget = view.budgets.get(placement.ref.name) if placement is not None else None
    for one in (each.eviction for each in pending):
        # The budget has to hold for all of them together, so each one is judged by what those before it leave.
        delivered = _delivered(view, reference, chosen)
        said = judge_eviction(one, placement, chosen, delivered, budget, evicted=len(evicted))
        outcomes[one.name] = said
        if said.executed and one.cluster in {each.name for each in chosen}:
            evicted.add(one.cluster)
            if one.cluster in delivered.failed:
                free.append(one.cluster)
            chosen = [each for each in chosen if each.name != one.cluster]
    return outcomes, frozenset(evicted), tuple(free)


def _delivered(view: HubView, reference: str, chosen: Sequence[ChosenMember]) -> Delivered:
    works, results = view.works.get(reference, {}), view.results.get(reference, {})
    named = {one.name: one.identity for one in chosen}
    reachable = {
        name
        for name, identity in named.items()
        if (one := view.members.get(name)) is not None and one.reachable and one.member.identity == identity
    }
    current = {name: one for name, one in results.items() if name in works and one.counter >= works[name].since}
    return Delivered(
        present={name for name, one in works.items() if one.want == "present"},
        available={name for name, one in current.items() if one.available and name in reachable},
        failed={name for name, one in current.items() if one.failed or one.reported},
        removing={name for name in works if name not in named},
    )


def _deleting(
    view: HubView,
    reference: str,
    seen: SeenPlacement | None,
    stored: SeenDecision | None,
    pending: Sequence[SeenEviction],
) -> WhatFollows:
    """A placement that is being deleted, or has vanished: its decision is emptied, then all its traces go."""
    placement = seen.placement if seen is not None else None
    outcomes, _, _ = _evicted(view, reference, placement, stored, pending)
    abandons = seen.abandons if seen is not None else stored is not None and stored.abandons
    delivered = (view.results, view.delivery.snapshots, view.delivery.pins)
    left = _having_work(view, reference) or any(reference in kept for kept in delivered)
    if stored is None or stored.deleting:
        there = stored is not None or seen is not None or reference in view.policies
        held = seen is not None and seen.held
        return WhatFollows(deleting=True, abandons=abandons, outcomes=outcomes, remove=there and not left and not held)
    number = stored.policy
    kind = placement.policy.type if placement is not None else PlacementType.PICK_ALL
    decision = PlacementDecision(
        policy=number,
        generation=placement.generation if placement is not None else 0,
        number=0 if kind is PlacementType.PICK_N else None,
        chosen=(),
        verdicts=(),
        condition=DELETING,
    )
    return WhatFollows(decision, stored.digest, abandons, deleting=True, outcomes=outcomes)
