"""How far a rollout is, what the user asks of it, and what happens when it gets no further."""

from __future__ import annotations

from dataclasses import dataclass, replace

from wharfinger.fleet.deciding.altered import altered
from wharfinger.fleet.deciding.lives import Asked, Look
from wharfinger.fleet.deciding.proving import Proof, failed, failures, forgiven, named
from wharfinger.fleet.deciding.targets import Target, revert
from wharfinger.fleet.model.fleet import HaltedBy, Observed
from wharfinger.fleet.model.rollout import EPSILON, Memory, Outcome


@dataclass(frozen=True, slots=True)
class RolloutProgress:
    """Where the target is, among the slots below the replicas."""

    updated: frozenset[int]
    """Slots with a counted instance of the target's template."""
    outdated: int
    """Living incarnations of other templates."""
    left: tuple[int, ...]
    """Slots that are not updated, and that may be."""
    kept: tuple[int, ...]
    """Slots that are not updated and may not be: the partition, the canary, a pause."""
    alone: bool
    """Whether nothing lives beside the updated instances."""

    everywhere: bool
    """Whether every slot has an instance of the target."""
    changing: bool
    """Whether an updated slot still has its former instance too."""

    @property
    def stands(self) -> bool:
        """Whether all that may be updated is, and what it replaced is gone."""
        return not self.left and bool(self.kept) and not self.changing


def measure(view: Look, target: Target) -> RolloutProgress:
    """Count."""
    number, replicas = target.number, view.spec.replicas

    def stays(slot: int) -> bool:
        """Whether the slot returns on the target, or will: what it may not be assigned is there by chance."""
        return not target.rolling or target.in_reach(slot) or target.alike(view.assigned(slot), number)

    living = [life for life in view.lives if life.living]
    likes = [life for life in living if life.slot < replicas and target.alike(life.revision, number)]
    updated = frozenset(life.slot for life in likes if number and life.counted and stays(life.slot))
    missing = [slot for slot in range(replicas) if slot not in updated]

    def own(slot: int) -> bool:
        """Whether what the slot is filled with is the target all the same."""
        assigned = view.assigned(slot)
        return target.alike(assigned, number) or (target.first and assigned == 0)

    left = tuple(slot for slot in missing if target.may_update(slot) or (target.rolling and own(slot)))
    return RolloutProgress(
        updated=updated,
        outdated=sum(life.slot < replicas for life in living) - len(likes),
        left=left,
        kept=tuple(slot for slot in missing if slot not in left),
        alone=len(living) == len(updated) and not view.asked.busy,
        everywhere=not missing,
        changing=any(len(view.living(slot)) > 1 for slot in updated),
    )


def answer(target: Target, observed: Observed, asked: Asked) -> Target:
    """Follow the request of the spec once, if it names the open rollout. A write that brings a target asks nothing."""
    desired, memory = observed.desired, target.memory
    if asked.role != "rollout" or desired is None or desired.spec is None or desired.generation == memory.answered:
        return target
    request = desired.spec.request
    if request is None or request.generation != asked.generation or target.revision is None:
        return target
    memory = altered(memory, answered=desired.generation)
    if target.chosen:
        return altered(target, memory=memory)
    match request.action:
        case "promote":
            return altered(target, memory=altered(memory, promoted=True, progress_at=memory.clock))
        case "resume":
            trials = forgiven(memory.trials)
            memory = altered(memory, halted="", halted_by="", trials=trials, progress_at=memory.clock)
            return altered(target, memory=memory)
        case "abort":
            return abort(altered(target, memory=memory), "asked for")


def abort(target: Target, why: str) -> Target:
    """The target is not rolled out any more."""
    revision, outcomes = target.revision, target.outcomes
    if revision is None:
        return target
    if revision.outcome is None:
        outcomes = (*outcomes, Outcome(revision.number, "aborted", why))
        revision = replace(revision, outcome="aborted")
    return altered(
        target,
        revision=revision,
        revisions={**target.revisions, revision.number: revision},
        outcomes=outcomes,
        memory=altered(target.memory, frozen=revision.number, halted="", halted_by=""),
    )


def judge(target: Target, view: Look, progress: RolloutProgress, proof: Proof, before: Memory) -> Target:
    """Stop a rollout whose slots fail, or that gets no further: it pauses, or is reverted.

    The deadline's clock stands still while nothing can be expected, also as `expires_at` says. While a slot is under
    observation the deadline does not pass, and a slot that is proven is progress.

    Args:
        target: what is rolled out.
        view: the present look.
        progress: counted in it.
        proof: of the slots that are updated, in it.
        before: memory of the plan before.
    """
    memory, spec = target.memory, view.spec
    broken = failed(target)
    if target.rolling and not memory.halted and len(broken) >= spec.failure_threshold:
        return _stop(target, failures(broken), "failures")
    scaled = before.replicas != spec.replicas  # numbers cannot be compared then
    proven = proof.proven - {trial.slot for trial in before.trials if trial.proven}
    mark = len(progress.updated), progress.outdated
    best = memory.progress_mark
    fresh_start = best == (-1, -1) or scaled
    standing = not target.rolling or spec.paused or bool(memory.halted) or not progress.left
    if fresh_start or standing or proven or mark[0] > best[0] or mark[1] < best[1]:
        best = mark if fresh_start else (max(mark[0], best[0]), min(mark[1], best[1]))
        if (memory.progress_at, memory.progress_mark) == (memory.clock, best):
            return target
        return altered(target, memory=altered(memory, progress_at=memory.clock, progress_mark=best))
    if view.clock < expires_at(view, memory) - EPSILON or proof.due:
        return target
    are = "is" if len(progress.left) == 1 else "are"
    why = f"no progress for {spec.progress_deadline:.0f} s; {named(progress.left[:3])} {are} not updated"
    return _stop(target, why, "deadline")


def expires_at(view: Look, memory: Memory) -> float:
    """When the progress deadline passes if nothing gets further.

    The time after the latest gap in which nothing is replaced yet does not count: a newcomer would be given up before
    its own deadline, or before it is made at all.
    """
    unseen = max(view.settled_at - max(memory.progress_at, memory.sight_since), 0.0)
    return memory.progress_at + view.spec.progress_deadline + unseen


def _stop(target: Target, why: str, by: HaltedBy) -> Target:
    """Pause, or revert where the spec says so and there is something to go back to."""
    reverted = revert(target, why) if target.spec.on_deadline == "revert" and not target.reverting else None
    return reverted or altered(target, memory=altered(target.memory, halted=why, halted_by=by))
