"""Which slot gets an instance, which newcomer is waited for, and which instance is replaced next.

A slot without an instance is filled: a crashed slot with the revision that it is assigned, a new slot with the one that
all slots have. A replacement stays inside its slot: the newcomer is the slot's next incarnation. The former instance
goes when the newcomer is counted (surge), or before (unavailable). A slot is replaced because its template is not the
wanted one, or because its host is drained; in that case by the same template on another host.
"""

from __future__ import annotations

from wharfinger.fleet.deciding.draft import Draft
from wharfinger.fleet.deciding.leaving import end, out_of_sight, remembered
from wharfinger.fleet.deciding.lives import Life
from wharfinger.fleet.deciding.targets import Target
from wharfinger.fleet.model.rollout import EPSILON, UNKNOWN, Assign


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
    # A crashed slot had work, and its tenant has less capacity until it is back; a fresh slot only adds some.
    for slot in sorted(empty, key=lambda slot: (slot in view.memory.fresh, slot)):
        revision = revision_for(draft, target, slot)
        if not revision:
            draft.note(slot, "empty: no revision was ever completed, and this one is not rolled out now")
            continue
        if draft.backing_off(slot, revision):
            draft.reserved += 1  # else the replacement of another slot takes its room, and it cannot return
            continue
        if not draft.room:
            draft.note(slot, "empty: waits for room under the ceiling")
            continue
        crashed = view.crashes(slot) > 0 or slot in draft.crashed
        why = "its instance ended" if crashed else "the slot is empty"
        draft.bring_up(slot, revision, assign=True, settle=crashed, why=why)


def update(draft: Draft, target: Target, *, replacing: bool = True) -> None:
    """Settle what lives in each slot; then replace the highest available ones that are not as wanted.

    Args:
        draft: the plan in the making.
        target: what is wanted.
        replacing: whether replacements begin; those that have begun are settled anyway.
    """
    view = draft.view
    outdated = []
    for slot in range(view.spec.replicas):
        if any(life.living for life in view.of(slot)):
            replaceable = _settle(draft, target, slot)
            if replaceable is not None:
                outdated.append(replaceable)
    # Highest slots first, as a StatefulSet does: the partition keeps the lowest, and lowering it goes on from there.
    for life in sorted(outdated if replacing else (), key=lambda life: -life.slot):
        _replace(draft, target, life)


def withdraw(draft: Draft, target: Target) -> bool:
    """End the new instances of a rollout that is given up, as far as availability allows; whether some are left."""
    view, left = draft.view, False
    for slot in range(view.spec.replicas):
        running = [life for life in view.of(slot) if life.runs and not life.foreign]
        former = [life for life in running if target.alike(life.revision, view.assigned(slot))]
        for life in running:
            serves = life.counted or bool(life.ready_at)
            if life in former or (serves and not any(other.counted for other in former)):
                continue
            left = True
            end(draft, life, "the rollout is given up")
    return left


def wanted(draft: Draft, target: Target, slot: int) -> int:
    """The revision that a slot should have now. A pause holds the next replacement, and ends none that has begun."""
    if draft.may_update(target, slot):
        return target.number
    running = [life for life in draft.view.of(slot) if life.runs and not life.foreign]
    if target.in_reach(slot):
        begun = any(target.alike(life.revision, target.number) for life in running)
    else:  # a canary that was asked for when the rollout had gone further takes nothing back
        begun = target.held_by_canary(slot) and any(life.revision == target.number for life in running)
    return target.number if begun else draft.view.assigned(slot)


def _settle(draft: Draft, target: Target, slot: int) -> Life | None:
    """Bring a slot to one instance; the one that is to be replaced, if it is available and not as wanted."""
    view = draft.view
    revision = wanted(draft, target, slot)
    running = [life for life in view.of(slot) if life.runs and not life.foreign]

    def good(life: Life) -> bool:
        return target.alike(life.revision, revision) and not view.hosts.being_left(life.host)

    kept = next((life for life in reversed(running) if life.counted and good(life)), None)
    if kept is not None:
        others = [life for life in running if life is not kept]
        assigned = view.assigned(slot) == revision
        for life in others:
            former = not target.alike(life.revision, revision) and _may_serve(draft, life)
            if former and not draft.may_end_former(slot):
                continue  # the newcomers of other slots are unproven: what is known to work goes on serving
            end(draft, life, f"incarnation {kept.incarnation} is ready", assign=0 if assigned else revision)
        if not others and not assigned and not view.busy(slot):
            draft.assigns.append(Assign(slot, revision))
        return None
    newcomer = next((life for life in reversed(running) if good(life)), None)
    if newcomer is not None:
        _await(draft, newcomer)
    serving = _serving(draft, target, slot, running)
    replaceable = draft.may_update(target, slot)
    for life in running:
        if life is newcomer or life is serving:
            continue
        if life.ready_at:
            draft.moments.append(life.ready_at)
        elif serving is not None or (_is_given_up(draft, life, replaceable) and not draft.held_back(life)):
            why = "another one of its slot serves" if life.counted else "it is not ready, and another one is wanted"
            end(draft, life, why)
        else:
            _ask(draft, life)
    if serving is None or newcomer is not None:
        return None
    return serving if replaceable or view.hosts.being_left(serving.host) else None


def _serving(draft: Draft, target: Target, slot: int, running: list[Life]) -> Life | None:
    """The instance that serves a slot until a wanted one does.

    What the slot is assigned goes before a newcomer of a target that is no more: that one may not be proven.
    """
    counted = [life for life in reversed(running) if life.counted]
    assigned = draft.view.assigned(slot)
    return next((life for life in counted if target.alike(life.revision, assigned)), counted[0] if counted else None)


def _is_given_up(draft: Draft, life: Life, replaceable: bool) -> bool:
    """Whether one that does not serve ends for another one: it never did, or it is known not to and is not wanted."""
    if life.newcomer:
        return True
    unwanted = replaceable or draft.view.hosts.being_left(life.host)
    return unwanted and draft.calm and (life.instance is not None or out_of_sight(draft, life))


def _may_serve(draft: Draft, life: Life) -> bool:
    """Whether it is ready, or was and lost its lease a moment ago."""
    return life.ready or (life.instance is None and not out_of_sight(draft, life))


def _await(draft: Draft, life: Life) -> None:
    """A newcomer: waited for as long as its deadline runs, then given up as if it had crashed."""
    view = draft.view
    if life.ready_at:
        draft.moments.append(life.ready_at)
        return
    if life.grant is None:  # asked for, and not granted yet: its deadline runs from the grant
        return
    if not life.newcomer:
        draft.note(life.slot, f"incarnation {life.incarnation} was ready, and is {life.phase}")
        _ask(draft, life)
        return
    deadline = life.since + view.spec.instance_deadline
    late = view.clock >= deadline - EPSILON
    if not life.refused and not late:
        draft.moments.append(deadline)
        if life.busy is not None:
            return
        if view.settled:
            draft.adopt(life, "is granted already")
        else:
            draft.moments.append(view.settled_at)
        return
    if draft.held_back(life):
        return
    why = life.refused or f"not ready within {view.spec.instance_deadline:.0f} s"
    if life.busy is None and view.settled and not draft.taken(life.slot):
        draft.crash(life, why, host=life.host)
    end(draft, life, why)


def _ask(draft: Draft, life: Life) -> None:
    """Its record has been missing for long, and there is no exit record: its host checks whether it runs.

    One that does is left alone. A host that lost its disk does not know that there ever was one, and starts it. Who
    asked before, or still waits for it from before it vanished, will never hear of that: the host is asked anew.
    """
    view, entry = draft.view, remembered(draft, life)
    if life.instance is not None or view.hosts.lost(life.host):
        return
    moment = max((entry.since if entry is not None else view.clock) + UNKNOWN, view.settled_at)
    if view.clock < moment - EPSILON:
        draft.moments.append(moment)
    elif life.busy is not None:
        draft.abandon(life.slot, "its record is missing: its host is to be asked")
    elif not draft.taken(life.slot):
        draft.adopt(life, "its record is missing: asks whether it runs")
        draft.asked.add((life.slot, life.incarnation))


def _replace(draft: Draft, target: Target, life: Life) -> None:
    """Bring up a successor beside it while the ceiling allows, else let it go first while the floor does."""
    view, slot = draft.view, life.slot
    if draft.taken(slot):
        return
    if len(view.living(slot)) > 1:  # a former one has not ended
        return
    if not view.settled:
        draft.moments.append(view.settled_at)
        return
    revision = wanted(draft, target, slot)
    if draft.backing_off(slot, revision):
        draft.reserved += 1
        return
    why = "its host is being drained" if target.alike(life.revision, revision) else f"revision {revision} is wanted"
    settle = draft.crashed.get(slot) is not None
    if draft.room and draft.bring_up(slot, revision, assign=False, settle=settle, why=why):
        return
    version = draft.versions.get(revision, "")
    if not draft.calm or not draft.may_lose_one:
        return
    if not view.hosts.choose(version, slot=slot, leaving=life.host):
        draft.no_host[slot] = view.hosts.why_none(version)
        draft.note(slot, draft.no_host[slot])
        return
    if not target.alike(life.revision, revision) and not draft.may_end_former(slot):
        return
    if draft.no_host.pop(slot, None):  # there is none beside it, but there is its own place
        draft.notes.pop(slot, None)
    draft.retire(life, why)
