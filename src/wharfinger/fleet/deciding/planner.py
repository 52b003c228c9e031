"""Desired x observed x memory -> plan: the one place where it is decided what happens to a fleet.

The order of decisions: what ended is cleared; lost hosts; foreign grants; scaling down; filling what is empty;
settling and updating what lives. `Fleet` does the same as `RollingUpdate` except bringing a new target, for which it
starts one. Pure: the same arguments give the same plan.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from wharfinger.fleet.deciding.draft import Draft
from wharfinger.fleet.deciding.leaving import clear, leave_all, lose_hosts, resume_drains, scale_down
from wharfinger.fleet.deciding.lives import Asked, Look
from wharfinger.fleet.deciding.progress import (
    RolloutProgress,
    abort,
    answer,
    complete_at,
    expires_at,
    judge,
    measure,
    observe,
    prove,
)
from wharfinger.fleet.deciding.seeing import see
from wharfinger.fleet.deciding.status import report
from wharfinger.fleet.deciding.targets import Target, choose, forgotten, unrecorded
from wharfinger.fleet.deciding.updating import fill, update, withdraw
from wharfinger.fleet.model.fleet import FleetSpec, Observed, OutcomeName, SlotTrial, altered
from wharfinger.fleet.model.rollout import EPSILON, IDLE, REST, AwaitedIncarnation, Memory, Plan, Writes
from wharfinger.objects.model.names import COMMON

__all__ = ["Asked", "plan"]

FALLBACK = 30.0
"""Seconds between two looks while something is under way, in case no reconcile signal comes."""
SHORTEST = 0.1
"""Seconds: moments of the clock are not hit more exactly than this."""


def plan(observed: Observed, memory: Memory, asked: Asked) -> Plan:
    """What to do now.

    Args:
        observed: everything of the fleet at one revision of etcd.
        memory: of the plan before, its clock advanced.
        asked: the actor, and what it is doing already.
    """
    desired = observed.desired
    if asked.role == "fleet" and asked.generation:
        return Plan(memory=memory)
    spec = desired.spec if desired is not None else None
    spec = spec or memory.spec
    known = frozenset(memory.gone)
    target = choose(observed, memory, asked.role, spec or FleetSpec(replicas=0))
    view = see(observed, target.memory, asked, target.spec)
    if spec is None:
        view = replace(view, memory=altered(view.memory, spec=None))
    target = altered(target, memory=view.memory)
    draft = Draft(view, target.revisions)
    clear(draft, known)
    if target.deleting:
        return _delete(draft, target)
    if spec is None:
        return _close(draft, target, measure(view, target))
    if asked.role == "rollout":
        return _roll(draft, target, memory)
    return _keep(draft, target)


def _keep(draft: Draft, target: Target) -> Plan:
    """Fleet, with no rollout open: repair and scale, or start a rollout once no drain or kill of its own is open.

    A rollout that memory misses is started again under its generation, unless it was cancelled or ended itself.
    """
    view, desired = draft.view, draft.view.observed.desired
    assert desired is not None
    wanted = _rollout_wanted(view, target)
    generation = target.memory.rollout or desired.generation
    if target.memory.rollout and (view.asked.over or not wanted):
        if wanted and not target.chosen:
            target, wanted = abort(target, view.asked.over), False
        target, generation = altered(target, memory=altered(target.memory, rollout=0)), desired.generation
    progress = measure(view, target)
    if not wanted:
        _repair(draft, target)
        return _close(draft, target, progress)
    if any(step.kind != "up" for step in view.asked.busy):
        # It ends by itself, and may take an hour, in which no other plan repairs. What is brought up now is given up as
        # soon as nothing else is open, so it never holds the rollout up. Nothing is replaced that the rollout replaces.
        _repair(draft, target, replacing=False)
        return _close(draft, target, progress)
    for step in view.asked.busy:
        draft.abandon(step.slot, "a rollout goes on with it")
    if view.asked.busy:
        return _close(draft, target, progress)
    return _close(draft, target, progress, rollout=generation)


def _roll(draft: Draft, target: Target, before: Memory) -> Plan:
    """RollingUpdate: the same, and bring the target; done when it is everywhere, or given up."""
    view = draft.view
    target = observe(answer(target, view.observed, view.asked), view)
    progress = measure(view, target)
    proof = prove(target, view, draft.budget.exposed)
    if not target.frozen:
        judged = judge(target, view, progress, proof, before)
        if (judged.number, judged.memory.halted_by) != (target.number, target.memory.halted_by):
            judged = observe(judged, view)
            proof = prove(judged, view, draft.budget.exposed)
        target = judged
    if target.frozen:
        lose_hosts(draft)
        resume_drains(draft)
        left = withdraw(draft, target)
        ending = any(step.kind != "up" for step in (*view.asked.busy, *draft.steps))
        for step in view.asked.busy:
            if step.kind == "up" and not (ending and target.alike(step.revision, view.assigned(step.slot))):
                draft.abandon(step.slot, "the rollout is aborted")
        if ending:  # may take an hour, in which no other plan repairs, as in `_keep`
            scale_down(draft)
            fill(draft, target)
        over = not view.asked.busy and not draft.steps and not left
        return _close(draft, target, progress, done="aborted" if over else None)
    draft.observed(proof)
    _repair(draft, target)
    done: OutcomeName | None = None
    assigned = all(target.alike(view.assigned(slot), target.number) for slot in range(view.spec.replicas))
    begun = draft.steps or draft.assigns
    failing = target.memory.halted_by == "failures"
    if progress.everywhere and progress.alone and assigned and target.revision is not None and not (begun or failing):
        draft.complete_at = view.clock if target.reverting else complete_at(view)
        if draft.complete_at <= view.clock + EPSILON:
            done = "failed" if target.reverting else "completed"
            memory = altered(target.memory, stable=target.number, promoted=True)
            target = altered(target, memory=memory).completed()
        else:
            draft.moments.append(draft.complete_at)
    return _close(draft, target, progress, done=done)


def _repair(draft: Draft, target: Target, *, replacing: bool = True) -> None:
    """Bring the slots to what is wanted of them, one step further. `replacing`: also what serves, and is to be new."""
    lose_hosts(draft)
    resume_drains(draft)
    foreign = [life for life in draft.view.lives if life.foreign and life.living]
    if foreign:
        leave_all(draft, foreign, "it belongs to a former fleet of this name")
        return
    scale_down(draft)
    fill(draft, target)
    update(draft, target, replacing=replacing)


def _delete(draft: Draft, target: Target) -> Plan:
    """The fleet goes: its rollout first, then all instances whatever the floor, then its keys."""
    view = draft.view
    progress = measure(view, target)
    if view.asked.role == "rollout":
        for step in view.asked.busy:
            if step.kind == "up":
                draft.abandon(step.slot, "the fleet is deleted")
        target = abort(target, "the fleet is deleted") if target.outcome is None else target
        return _close(draft, target, progress, done=None if view.asked.busy else "aborted")
    lose_hosts(draft)
    leave_all(draft, [life for life in view.lives if life.living], "the fleet is deleted")
    observed = view.observed
    if any(life.living for life in view.lives) or draft.clears:
        return _close(draft, target, progress)
    left = observed.desired is not None or observed.actor is not None or observed.tenant_present
    left = left or bool(observed.revisions or observed.slots or observed.status)
    writes = Writes(tenant=_tenant(view, target), end=True) if left else Writes()
    return Plan(memory=Memory(clock=view.clock), writes=writes, ended=True)


def _rollout_wanted(view: Look, target: Target) -> bool:
    """Whether the target is to be brought to slots that do not have it, or was never said to be everywhere."""
    if target.revision is None or target.frozen:
        return False
    if target.revision.outcome is None:
        return True
    number, fresh = target.number, view.memory.fresh
    return any(
        (life.runs and not target.alike(life.revision, number))
        # the slot would return on something else than what is wanted
        or (life.slot not in fresh and (was := view.assigned(life.slot)) != 0 and not target.alike(was, number))
        for life in view.lives
        if life.slot < view.spec.replicas and not life.foreign
    )


def _close(
    draft: Draft, target: Target, progress: RolloutProgress, *, rollout: int = 0, done: OutcomeName | None = None
) -> Plan:
    """Put the plan together: steps, writes, memory, and when to look again.

    The status is always there; who writes leaves it out when it is written already.
    """
    view = draft.view
    if done is not None:
        target = altered(target, memory=altered(target.memory, trials=()))
    memory = _memory(draft, target, done)
    decisions = unrecorded(target, view.observed.actor)
    if decisions is not None:
        memory = altered(memory, decisions=decisions.number)
    steps = draft.finished()
    return Plan(
        memory=memory,
        writes=Writes(
            target=target.number if target.chosen else None,
            new_revision=target.new,
            decisions=decisions,
            outcomes=target.outcomes,
            clears=tuple(draft.clears),
            assigns=tuple(draft.assigns),
            tenant=_tenant(view, target),
            forget_revisions=forgotten(view, target),
            status=report(draft, target, progress, steps, rollout=rollout, done=done),
        ),
        steps=steps,
        give_up=tuple(sorted(draft.give_up)),
        wait=_wait(draft, target, progress, memory),
        rollout=rollout,
        done=done,
    )


def _tenant(view: Look, target: Target) -> Literal["present", "absent", "as-is"]:
    """Pods with the tenant's label come here from the first counted instance until deletion begins."""
    present = view.observed.tenant_present
    if target.deleting:
        return "absent" if present else "as-is"
    if present or view.asked.tenant == COMMON or not any(life.counted for life in view.lives):
        return "as-is"
    return "present"


def _memory(draft: Draft, target: Target, done: OutcomeName | None) -> Memory:
    memory = target.memory
    ready, waiting = memory.ready, memory.waiting
    if draft.probed:
        known = {(entry.slot, entry.incarnation) for entry in waiting}
        waiting = (
            *waiting,
            *(AwaitedIncarnation(*key, memory.clock) for key in sorted(draft.probed) if key not in known),
        )
    if draft.asked:
        ready = tuple(
            replace(entry, since=memory.clock) if (entry.slot, entry.incarnation) in draft.asked else entry
            for entry in ready
        )
    crashed = tuple(draft.crashed[slot] for slot in sorted(draft.crashed))
    leaving = _leaving(draft.view, memory)
    trials = _trials(draft, memory) if done is None else memory.trials
    rollout = 0 if done else memory.rollout
    if (ready, waiting, crashed, leaving, trials, rollout) == (
        memory.ready,
        memory.waiting,
        memory.crashed,
        memory.leaving,
        memory.trials,
        memory.rollout,
    ):
        return memory
    return altered(
        memory, ready=ready, waiting=waiting, crashed=crashed, leaving=leaving, trials=trials, rollout=rollout
    )


def _trials(draft: Draft, memory: Memory) -> tuple[SlotTrial, ...]:
    """With those of the slots whose former instance this plan ends for the target."""
    new = draft.begun - {trial.slot for trial in memory.trials}
    if not new:
        return memory.trials
    return tuple(sorted((*memory.trials, *(SlotTrial(slot) for slot in new)), key=lambda trial: trial.slot))


def _leaving(view: Look, memory: Memory) -> tuple[AwaitedIncarnation, ...]:
    """Since when those that were asked to leave, and have not ended, have been seen so."""
    asked = [life for life in view.lives if life.grant is not None and life.grant.want == "drain" and not life.ended]
    if not asked:
        return ()
    known = {(entry.slot, entry.incarnation): entry for entry in memory.leaving}
    keys = [(life.slot, life.incarnation) for life in asked]
    return tuple(known.get(key) or AwaitedIncarnation(*key, memory.clock) for key in keys)


def _wait(draft: Draft, target: Target, progress: RolloutProgress, memory: Memory) -> float:
    """Seconds until something is due by the clock; the long pauses only when nothing is under way."""
    view = draft.view
    if target.deleting and draft.clears:
        return SHORTEST  # nothing else may happen that would make the actor look again
    moments = list(draft.moments)
    if target.rolling and progress.left and not view.spec.paused and not memory.halted:
        moments.append(expires_at(view, memory))
    waits = [moment - view.clock for moment in moments if moment > view.clock + EPSILON]
    replicas = view.spec.replicas
    restless = (
        waits  # only slices of waits count as seen time, and a long pause is one slice
        or draft.steps
        or view.asked.busy
        or draft.clears
        or draft.assigns
        or any(life.living and not life.counted for life in view.lives)
        or any(not view.available(slot) for slot in range(replicas))
        or any(life.slot >= replicas and life.living for life in view.lives)
        or (target.rolling and progress.left)
    )
    waits.append(FALLBACK if restless else REST if view.asked.role == "fleet" else IDLE)
    return max(min(waits), SHORTEST)
