"""What scripts wait for: pure verdicts on how a placement is delivered. Temporal is never asked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from enum import StrEnum

from wharfinger.errors import NotFound
from wharfinger.etcd.store import Store
from wharfinger.objects.model.texts import counted
from wharfinger.placement.contracts import placement_keys
from wharfinger.placement.effects.selected import read_selected
from wharfinger.placement.reading import placement_delivery
from wharfinger.placement.reading.observe_placements import records_of
from wharfinger.placement.reading.placement_conditions import DeliveredMember, DeliveryState
from wharfinger.placement.reading.placement_delivery import DeliveryReading, PlacementDelivery, delivery_of
from wharfinger.placement.reading.placement_plans import supposed_of
from wharfinger.process.committing import readable
from wharfinger.process.following import KeyWatch, watching
from wharfinger.process.waiting import Verdict

PATIENCE = 300.0
"""Seconds of a wait, where nothing else is asked for."""
NAMED = 3
"""Members that a sentence names."""


class PlacementGoal(StrEnum):
    """What is waited for."""

    SETTLED = "settled"
    """Every chosen member has what is wanted and reports it, and nothing is left on any other member."""
    AVAILABLE = "available"
    """The policy is fulfilled, and what is wanted is available on every chosen member."""
    GONE = "gone"
    """Nothing is left of the placement."""


def judge(reading: DeliveryReading, goal: PlacementGoal) -> Verdict:
    """Whether the goal is reached, cannot be reached any more, or is to be waited for. Pure.

    That the selected objects are those of the newest snapshot is not looked at. Raises `NotFound` when there is no such
    placement, except for the goal `gone`.
    """
    view, reference, record = reading.view, reading.reference, reading.record
    seen = view.placements.get(reference)
    if goal is PlacementGoal.GONE:
        return _gone(reading)
    if seen is None and record is None:
        raise NotFound(f"there is no placement {reference}")
    if seen is None or seen.placement.deleting:
        return Verdict("failed", "it is being deleted")
    if seen.unreadable:
        return _waiting(reading, f"it cannot be read: {seen.unreadable}")
    if record is None:
        return _waiting(reading, "it is not decided yet")
    delivery = delivery_of(reading)
    if delivery.behind:
        return _waiting(reading, "it was changed since it was decided")
    pending = [one.eviction.name for one in view.pending_evictions(reference)]
    if pending:
        return _waiting(reading, f"{counted(pending, NAMED)}: not judged yet")
    other = supposed_of(view, reference)
    if other is not None:
        moves = [f"+ {counted(other.added, NAMED)}"] if other.added else []
        moves += [f"- {counted(other.removed, NAMED)}"] if other.removed else []
        return _waiting(reading, f"it is about to be decided again: {'; '.join(moves) or other.condition}")
    return _available(delivery) if goal is PlacementGoal.AVAILABLE else _settled(delivery)


def _gone(reading: DeliveryReading) -> Verdict:
    seen, record = reading.view.placements.get(reading.reference), reading.record
    if seen is None and record is None and not reading.works:
        return Verdict("reached", "nothing is left of it")
    if seen is not None and not seen.placement.deleting:
        return Verdict("waiting", "its deletion was not requested")
    if not reading.works:
        held = seen is not None and seen.held
        return _waiting(reading, "a finalizer holds it" if held else "its keys are not removed yet")
    away = [one for one in reading.works if one not in reading.view.members or not reading.view.members[one].there]
    silent = f"; no agent: {counted(sorted(away), NAMED)}" if away else ""
    return _waiting(reading, f"left on {counted(sorted(reading.works), NAMED)}{silent}")


def _available(delivery: PlacementDelivery) -> Verdict:
    chosen = [one for one in delivery.members if one.chosen]
    condition = delivery.record.decision.condition
    open_ = [one for one in chosen if one.state is not DeliveryState.AVAILABLE]
    if open_:
        return _waiting(delivery.reading, _members(open_))
    if not condition.status or not chosen:
        return _waiting(delivery.reading, condition.message if not condition.status else "no member cluster is chosen")
    return Verdict("reached", _reached(delivery, "available"))


def _settled(delivery: PlacementDelivery) -> Verdict:
    if delivery.settled:
        return Verdict("reached", f"{_reached(delivery, 'settled')}{_missing(delivery)}")
    open_ = [one for one in delivery.members if not one.done]
    steps = ", ".join(f"{one.kind} {one.member}" for one in delivery.rollout.steps.steps[:NAMED])
    why = _members(open_) if open_ else delivery.rollout.trouble or f"the hub has steps left: {steps}"
    return _waiting(delivery.reading, why)


def _missing(delivery: PlacementDelivery) -> str:
    """What the policy asks for beyond what was found, as the end of a sentence; empty when it is fulfilled."""
    seen = delivery.reading.view.placements.get(delivery.reading.reference)
    if delivery.record.decision.condition.status or seen is None:
        return ""
    number = seen.placement.policy.wanted
    wanted = "its policy is" if number is None else f"{number} {'is' if number == 1 else 'are'} wanted:"
    return f"; {wanted} unfulfilled"


def _reached(delivery: PlacementDelivery, word: str) -> str:
    chosen = [one.name for one in delivery.members if one.chosen]
    on = (
        f" on {len(chosen)} member cluster{'s' if len(chosen) != 1 else ''}"
        if chosen
        else ": no member cluster is chosen"
    )
    return f"snapshot {delivery.rollout.snapshot} is {word}{on}" if delivery.rollout.snapshot else f"it is {word}{on}"


def _waiting(reading: DeliveryReading, why: str) -> Verdict:
    """Not yet; and that no hub is there to do anything about it."""
    return Verdict("waiting", why if reading.view.hubs else f"{why}; no hub runs (`wharfinger hub`)")


def _members(open_: Sequence[DeliveredMember]) -> str:
    more = f"; and {len(open_) - NAMED} more" if len(open_) > NAMED else ""
    return f"{'; '.join(str(one) for one in open_[:NAMED])}{more}"


async def look(store: Store, reference: str, goal: PlacementGoal) -> Verdict:
    """Whether the goal is reached now, by the objects that are selected now. Raises as `judge` does."""
    reading = await placement_delivery.read(store, reference)
    verdict = judge(reading, goal)
    if goal is PlacementGoal.GONE or not verdict.reached:
        return verdict
    delivery = delivery_of(reading)
    rollout = delivery.rollout
    if rollout.pinned or rollout.spec.external or not delivery.record.decision.chosen:
        return verdict
    revision = reading.view.revisions["hub"]
    kv = (await store.get(placement_keys.placement(reference), revision=revision)).kv
    obj: Mapping[str, object] = (readable(kv.value) if kv is not None else None) or {}
    selected = await read_selected(store, obj, reference, revision)
    if selected.trouble:
        return _waiting(reading, selected.trouble)
    snapshot = reading.view.delivery.snapshots.get(reference, {}).get(rollout.snapshot)
    if snapshot is None:
        return _waiting(reading, "no snapshot of the selected objects is taken yet")
    if snapshot.digest != selected.digest:
        return _waiting(
            reading, f"objects changed since snapshot {rollout.snapshot}, and the next one is not taken yet"
        )
    return verdict


def watching_placement(store: Store, reference: str) -> AbstractAsyncContextManager[KeyWatch]:
    """Watch, inside the block, all that the status of a placement depends on. Raises the store's errors."""
    keys = [placement_keys.placement(reference), *records_of(reference), placement_keys.member.prefix]
    return watching(store, keys)
