"""The projection for readers: conditions, slots, running steps, and one sentence of what is done and waited for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from wharfinger.fleet.deciding.draft import Draft
from wharfinger.fleet.deciding.lives import LOOK_AGAIN, Life, Look
from wharfinger.fleet.deciding.progress import RolloutProgress, named
from wharfinger.fleet.deciding.targets import Target
from wharfinger.fleet.model.fleet import OutcomeName
from wharfinger.fleet.model.rollout import EPSILON, Condition, Drop, Retire, RolloutStatus, Running, SlotStatus, Up

OVERDUE, FAILURES = "ProgressDeadlineExceeded", "FailureThresholdExceeded"
"""Reasons of `Paused` for a rollout that stopped by itself."""
Rollout = Literal["none", "running", "paused", "failed", "completed", "aborted"]


def report(
    draft: Draft,
    target: Target,
    progress: RolloutProgress,
    steps: Sequence[Up | Retire | Drop],
    *,
    rollout: int = 0,
    done: OutcomeName | None = None,
) -> RolloutStatus:
    """The status after this plan was begun."""
    view, desired = draft.view, draft.view.observed.desired
    slots, lost = _slots(view), _lost_together(view)
    ready = {slot for slot in slots if _is_ready(view, slot)}
    serving = sum(slot < view.spec.replicas for slot in ready)
    running = (*_busy(draft), *(_begun(step) for step in steps))
    state = _state(draft, target, rollout, done)
    open_generation = rollout or (view.asked.generation if view.asked.role == "rollout" and done is None else 0)
    return RolloutStatus(
        observed_generation=desired.generation if desired is not None else 0,
        target=target.number,
        completed=target.stable,
        replicas=view.spec.replicas,
        ready=serving,
        updated=len(progress.updated),
        generation=open_generation,
        rollout=state,
        phase=_phase(draft, target, progress, running, state, ready=serving, lost=lost),
        conditions=_conditions(draft, target, progress, state, serving),
        slots=tuple(_slot(draft, target, slot, slot in ready) for slot in slots),
        running=running,
        lost_together=lost,
    )


def _lost_together(view: Look) -> tuple[str, ...]:
    """Hosts that went with most others, as far as they had an instance that is missed."""
    if not view.hosts.together:
        return ()
    missed = {life.host for life in view.lives if life.living and not life.counted and life.host in view.hosts.together}
    return tuple(sorted(host for host in missed if view.hosts.missing_long(host)))


def _is_ready(view: Look, slot: int) -> bool:
    """As readers see it: a gap in the actor's sight, after which nothing is counted on for a while, is not theirs."""
    if view.available(slot):
        return True
    again_at = view.memory.sight_since + view.spec.min_ready + EPSILON
    return any(
        life.runs and not (life.newcomer or life.foreign) and 0.0 < life.ready_at <= again_at for life in view.of(slot)
    )


def _state(draft: Draft, target: Target, rollout: int, done: OutcomeName | None) -> Rollout:
    if done == "failed" or (target.reverting and not target.rolling):
        return "failed"
    if target.frozen:
        return "failed" if target.outcome == "failed" else "aborted"
    if done is None and (rollout or target.rolling):
        return "paused" if draft.view.spec.paused or target.memory.halted else "running"
    return "completed" if target.outcome == "completed" else "none"


def _conditions(
    draft: Draft, target: Target, progress: RolloutProgress, state: Rollout, ready: int
) -> tuple[Condition, ...]:
    view, desired = draft.view, draft.view.observed.desired
    enough = ready >= draft.budget.floor
    conditions = [
        Condition(
            "Available",
            enough,
            "MinimumReplicasAvailable" if enough else "MinimumReplicasUnavailable",
            f"{ready} of {view.spec.replicas} slots are ready, {draft.budget.floor} are needed",
        ),
        Condition("Progressing", state == "running", f"Rollout{state.capitalize()}", _standing(view, target)),
    ]
    if desired is not None and desired.spec is None:
        conditions.append(Condition("SpecInvalid", True, "Invalid", "; ".join(desired.problems)))
    if target.deleting:
        conditions.append(Condition("Deleting", True, "Deleted"))
    if view.spec.paused:
        conditions.append(Condition("Paused", True, "Asked"))
    elif target.memory.halted:
        reason = FAILURES if target.memory.halted_by == "failures" else OVERDUE
        conditions.append(Condition("Paused", True, reason, target.memory.halted))
    if target.rolling and progress.stands and not view.spec.paused and not target.memory.halted:
        kept, one = named(progress.kept[:8]), len(progress.kept) == 1
        if _waits_for_promote(target, progress):
            waits = "waits" if one else "wait"
            conditions.append(Condition("CanaryWaiting", True, "Promote", f"{kept} {waits} for promote"))
        else:
            are = "is" if one else "are"
            conditions.append(Condition("PartitionComplete", True, "Partition", f"{kept} {are} kept"))
    if draft.no_host:
        slot, why = min(draft.no_host.items())
        conditions.append(Condition("NoHost", True, "NoHost", f"slot {slot}: {why}"))
    return tuple(conditions)


def _standing(view: Look, target: Target) -> str:
    """Why a rollout stands, or does not go as its budget says."""
    nothing = view.spec.max_surge.amount == view.spec.max_unavailable.amount == 0
    told = "maxSurge and maxUnavailable are both 0: one instance surges all the same" if nothing else ""
    return "; ".join(filter(None, (target.memory.halted, told)))


def _phase(
    draft: Draft,
    target: Target,
    progress: RolloutProgress,
    running: Sequence[Running],
    state: Rollout,
    *,
    ready: int,
    lost: Sequence[str],
) -> str:
    view, desired = draft.view, draft.view.observed.desired
    if target.deleting:
        left = sum(life.living for life in view.lives)
        return f"is deleted: {left} {'instance is' if left == 1 else 'instances are'} still there"
    if desired is not None and desired.spec is None and view.memory.spec is None:
        return "the spec is invalid: " + "; ".join(desired.problems)
    if target.memory.halted:
        return f"paused: {target.memory.halted}"
    what = f"revision {target.number}: {len(progress.updated)} of {view.spec.replicas} slots updated"
    if state not in ("running", "paused"):
        what = f"{ready} of {view.spec.replicas} slots ready"
    if view.memory.careful:
        what += "; many slots vanished at once: one is repaired at a time"
    if lost:
        are = "hosts were lost" if len(lost) > 1 else "host was lost with most others"
        what += f"; {len(lost)} {are} at once: one slot is repaired at a time"
    if running:
        more = f", and {len(running) - 1} more" if len(running) > 1 else ""
        return f"{what}; {running[0].sentence}{more}"
    if view.spec.paused:
        return f"{what}; paused"
    if draft.notes:
        slot, note = min(draft.notes.items())
        return f"{what}; slot {slot}: {note}"
    if draft.complete_at > view.clock:
        return f"{what}; completed once all have counted for {view.spec.soak:.0f} s"
    if target.rolling and progress.stands:
        return f"{what}; waits for " + ("promote" if _waits_for_promote(target, progress) else "a lower partition")
    uncounted = [life for life in view.lives if life.ready_at]
    if uncounted:
        return f"{what}; slot {uncounted[0].slot} is ready, and counts after {view.spec.min_ready:.0f} s"
    if not view.settled and (progress.left or ready < view.spec.replicas):
        return f"{what}; acts once it has seen the fleet for {view.asked.lease_ttl + LOOK_AGAIN:.0f} s without a gap"
    return what


def _waits_for_promote(target: Target, progress: RolloutProgress) -> bool:
    """Whether a promotion would let a slot be updated; where the partition keeps all of them, it would not."""
    return any(target.held_by_canary(slot) for slot in progress.kept)


def _slots(view: Look) -> list[int]:
    beyond = sorted(slot for slot in view.places if slot >= view.spec.replicas and view.living(slot))
    return [*range(view.spec.replicas), *beyond]


def _slot(draft: Draft, target: Target, slot: int, ready: bool) -> SlotStatus:
    view, proof = draft.view, draft.proof
    lives = view.of(slot)
    trial = next((trial for trial in target.memory.trials if trial.slot == slot), None)
    unproven = proof is not None and slot in proof.due
    observed = f"unproven until it has counted for {view.spec.soak:.0f} s" if unproven else ""
    return SlotStatus(
        slot=slot,
        assigned=view.assigned(slot),
        ready=ready,
        incarnations=tuple([(life.incarnation, life.phase, life.revision, life.host) for life in lives]),
        crashes=draft.crashed[slot].times if slot in draft.crashed else view.crashes(slot),
        note=draft.notes.get(slot) or _missing(lives) or _refused(view, lives) or observed,
        unproven=unproven,
        ends=trial.ends if trial is not None else 0,
    )


def _missing(lives: Sequence[Life]) -> str:
    """What the readiness of a starting instance lacks."""
    said = [life.instance.waiting_for for life in lives if life.instance is not None and life.instance.waiting_for]
    return said[0] if said else ""


def _refused(view: Look, lives: Sequence[Life]) -> str:
    """That the host of an instance which has not come has too many."""
    hosts = [life.host for life in lives if life.busy is not None and life.instance is None and life.runs]
    full = next((host for host in hosts if view.hosts.crowded(host)), "")
    return f"host {full} has no room, and is asked again and again" if full else ""


def _busy(draft: Draft) -> tuple[Running, ...]:
    view = draft.view
    found = []
    for life in view.lives:
        if life.busy is not None:
            limit = view.spec.instance_deadline if life.busy.kind == "up" else 0.0
            seen = view.clock - life.since if life.newcomer else 0.0
            sentence = _sentence(life.busy.kind, life.slot, life.incarnation, life.host)
            if life.busy.kind == "retire" and view.hosts.missing(life.host):
                sentence += ", its host has no agent: it is gone when its lease is and the host does not answer"
            found.append(Running(life.busy.kind, life.slot, life.incarnation, sentence, seen, limit))
    return tuple(found)


def _begun(step: Up | Retire | Drop) -> Running:
    return Running(step.kind, step.slot, step.incarnation, _sentence(step.kind, step.slot, step.incarnation, step.host))


def _sentence(kind: Literal["up", "retire", "drop"], slot: int, incarnation: int, host: str) -> str:
    which = f"incarnation {incarnation}" if incarnation else "its next incarnation"
    match kind:
        case "up":
            return f"slot {slot}: waits for {which} on {host} to be ready"
        case "retire":
            return f"slot {slot}: {which} on {host} drains"
        case "drop":
            return f"slot {slot}: {which} on {host} is ended"
