"""Slots without an instance get one: crashed ones on what they are assigned, new ones on what all have."""

from __future__ import annotations

from wharfinger.fleet.draft import Draft
from wharfinger.fleet.targets import Target


def revision_for(draft: Draft, target: Target, slot: int) -> int:
    """What an empty slot is filled with; 0 = nothing yet."""
    if draft.may_update(target, slot):
        return target.number
    assigned = draft.view.assigned(slot)
    if slot not in draft.view.memory.fresh and assigned in target.revisions:
        return assigned
    if target.stable:
        return target.stable
    return target.number if target.rolling and not draft.view.spec.paused else 0


def fill(draft: Draft, target: Target) -> None:
    """Bring up what is missing, as far as the ceiling, the back-off and the hosts allow. Crashed slots go first."""
    view = draft.view
    empty = [slot for slot in range(view.spec.replicas) if not view.living(slot) and not draft.taken(slot)]
    for slot in sorted(empty, key=lambda slot: (slot in view.memory.fresh, slot)):
        revision = revision_for(draft, target, slot)
        if not revision:
            draft.note(slot, "empty: no revision was ever completed, and this one is not rolled out now")
            continue
        if draft.backing_off(slot, revision):
            draft.reserved += 1
            continue
        if not draft.room:
            draft.note(slot, "empty: waits for room under the ceiling")
            continue
        crashed = view.crashes(slot) > 0 or slot in draft.crashed
        why = "its instance ended" if crashed else "the slot is empty"
        draft.bring_up(slot, revision, assign=True, settle=crashed, why=why)
