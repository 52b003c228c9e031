"""What has to go: ended incarnations are cleared, unwanted ones end, slots beyond the replicas are given up.

An instance that may have work in hand is drained (`Retire`). One that never was ready, or is gone with its host, is
dropped at once (`Drop`). Nothing granted is touched before the view has been unbroken long enough. An instance that
holds its lease is not ended because its agent is away: instances live and serve without an agent.
"""

from __future__ import annotations

from wharfinger.fleet.deciding.draft import Draft
from wharfinger.fleet.deciding.lives import LOOK_AGAIN, Life
from wharfinger.fleet.model.rollout import EPSILON, STEADY, Clear, ReadySince


def clear(draft: Draft, known: frozenset[tuple[int, int]]) -> None:
    """Remove what ended incarnations left, and count crashes once. An end with its host's restart is no crash.

    Args:
        draft: the plan in the making.
        known: (slot, incarnation) whose end was seen before.
    """
    for life in draft.view.lives:
        if not life.ended or life.busy is not None or (life.exit is None and life.grant is None):
            continue
        crashes = draft.view.crashes(life.slot)
        asked = life.grant is None or life.grant.want == "drain" or life.exit is None or life.exit.planned
        counted = (life.slot, life.incarnation) in known or (life.exit is not None and life.exit.host_restarted)
        if asked and life.exit is not None and life.grant is not None:
            crashes = 0
            draft.crashed.pop(life.slot, None)
        elif not asked and life.exit is not None and not counted:
            why = life.exit.detail or life.exit.how
            crashes = draft.crash(life, why, first=life.exit.lived >= STEADY)
        if life.grant is not None:
            draft.view.hosts.leave(life.host)
        draft.clears.append(Clear(life.slot, life.incarnation, crashes))


def lose_hosts(draft: Draft) -> None:
    """Fence off what is gone with its host; ask the queues of those that have been missing for long.

    An instance with a record holds its lease, and lives though its agent does not: it is left alone. One that was asked
    to leave, and has not by the time that its host is to kill it, is fenced off all the same, which ends it. Till then
    it drains, also when no step follows that any more.
    """
    view = draft.view
    draft.moments.extend(moment for moment in view.hosts.judged_at() if moment > view.clock)
    if not view.settled:
        return
    asked = {step.host for step in view.asked.busy}
    for life in view.lives:
        if life.ended or life.grant is None or not view.hosts.missing_long(life.host):
            continue
        leaving = life.grant.want == "drain"
        if leaving:
            if life.instance is not None and view.waited(life) < view.spec.drain_timeout - EPSILON:
                continue
        elif life.instance is not None or not out_of_sight(draft, life):
            continue
        if not view.hosts.silent(life.host):
            if life.runs and not view.busy(life.slot) and life.host not in asked:
                draft.adopt(life, "its host is missing: asks whether it answers")
                draft.probed.add((life.slot, life.incarnation))
                asked.add(life.host)
        elif not leaving and draft.held_back(life):
            continue
        elif life.busy is not None:
            if life.busy.kind == "up":
                draft.abandon(life.slot, "its host is lost")
        else:
            draft.drop(life, f"host {life.host} is lost", kill=False, free=leaving)


def out_of_sight(draft: Draft, life: Life) -> bool:
    """Whether an instance without a record has had none for long, or never was ready.

    Who lost a lease to a pause is back in a moment, and would be missed from then until its successor is ready. It has
    the time after which everything else is believed too.
    """
    view, entry = draft.view, remembered(draft, life)
    if entry is None:
        return True
    moment = (entry.lost or view.clock) + view.asked.lease_ttl + LOOK_AGAIN
    if view.clock < moment - EPSILON:
        draft.moments.append(moment)
        return False
    return True


def remembered(draft: Draft, life: Life) -> ReadySince | None:
    """What is remembered of an instance that was ready."""
    key = life.slot, life.incarnation
    return next((entry for entry in draft.view.memory.ready if (entry.slot, entry.incarnation) == key), None)


def end(draft: Draft, life: Life, why: str, *, assign: int = 0, free: bool = False) -> None:
    """End one incarnation, by a drain if it ever was ready.

    Args:
        draft: the plan in the making.
        life: which one.
        why: for readers.
        assign: the revision that its slot has from then on.
        free: whatever the floor (the fleet goes).
    """
    if not life.living:
        return
    if life.busy is not None:
        if life.busy.kind == "up":
            draft.abandon(life.slot, why)
        return
    if life.grant is None or draft.decided(life):
        return
    if not draft.view.settled:
        draft.moments.append(draft.view.settled_at)
    elif life.grant.want == "drain" or life.ready or not life.newcomer:
        draft.retire(life, why, assign=assign, free=free)
    else:
        draft.drop(life, why, free=free)


def resume_drains(draft: Draft) -> None:
    """A drain that was begun, and that no step follows any more, is followed to its end.

    Where its end would not be seen, it counts as gone once its host has been missing for long.
    """
    hosts = draft.view.hosts
    for life in draft.view.lives:
        if life.grant is not None and life.grant.want == "drain" and not life.ended:
            if life.instance is None and hosts.missing(life.host) and hosts.silent(life.host):
                continue
            end(draft, life, "was asked to leave")


def leave_all(draft: Draft, lives: list[Life], why: str) -> None:
    """All of them, whatever the floor."""
    for life in lives:
        end(draft, life, why, free=True)


def scale_down(draft: Draft) -> None:
    """Slots beyond the replicas, highest first; those that are available only while the floor holds."""
    view = draft.view
    for slot in sorted((slot for slot in view.places if slot >= view.spec.replicas), reverse=True):
        lives = view.living(slot)
        if draft.counted(slot) and not draft.may_lose_one:
            draft.note(slot, "waits for other slots to be available before it goes")
            last = draft.counted(slot)[-1]  # one is enough for the slot to be available
            lives = [life for life in lives if life is not last]
        for life in lives:
            if life.ready_at and life.busy is None:
                draft.moments.append(life.ready_at)
                continue
            end(draft, life, f"only {view.spec.replicas} replicas are wanted")
