"""Which revision is wanted, which slots may get it, and which revisions are removed from the history.

The target lies in the actor's record. It follows the spec's template, with three exceptions: an invalid spec changes
nothing, a target that failed or was aborted is frozen, and a revert holds until the template changes once more.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

from wharfinger.fleet.deciding.lives import Look
from wharfinger.fleet.model.fleet import (
    Actor,
    Decisions,
    FleetSpec,
    Observed,
    OutcomeName,
    Revision,
    Role,
    SlotTrial,
    altered,
)
from wharfinger.fleet.model.rollout import Memory, Outcome

OVER = ("failed", "aborted")


@dataclass(frozen=True)  # without slots, for `altered`
class Target:
    """What is wanted, and what has to be written to want it."""

    role: Role
    spec: FleetSpec
    memory: Memory
    revisions: dict[int, Revision]
    """By number, a new one included."""
    revision: Revision | None
    chosen: bool = False
    """Whether it is another one than the actor's record says."""
    new: bool = False
    """Whether it has to be written as a revision first."""
    outcomes: tuple[Outcome, ...] = ()
    deleting: bool = False
    number: int = field(init=False)
    """Of the target; 0 = there is none yet."""
    rolling: bool = field(init=False)
    """Whether a rollout brings it to the slots."""

    def __post_init__(self) -> None:
        """Derive what a plan reads for every slot."""
        revision = self.revision
        object.__setattr__(self, "number", revision.number if revision is not None else 0)
        rolling = self.role == "rollout" and revision is not None and not self.frozen and not self.deleting
        object.__setattr__(self, "rolling", rolling)

    @property
    def outcome(self) -> OutcomeName | None:
        """Of the target; None also when there is no target."""
        return self.revision.outcome if self.revision is not None else None

    @property
    def frozen(self) -> bool:
        """Whether it is not rolled out (any more)."""
        return self.revision is not None and (self.revision.outcome in OVER or self.memory.frozen == self.number)

    @property
    def reverting(self) -> bool:
        """Whether it was chosen because another one failed."""
        return self.memory.reverted_from != 0

    @property
    def canary_only(self) -> bool:
        """Whether the slots of the canary alone may be updated."""
        return self.spec.canary > 0 and not self.memory.promoted

    @property
    def stable(self) -> int:
        """What slots have that never had the target: the last revision that reached every slot; 0 = there is none."""
        known = self.revisions.get(self.memory.stable)
        if known is not None and known.outcome == "completed":
            return known.number
        return max((r.number for r in self.revisions.values() if r.outcome == "completed"), default=0)

    @property
    def first(self) -> bool:
        """Whether nothing was ever completed: then neither partition nor canary have anything to keep."""
        return self.stable == 0

    def loops(self, number: int) -> bool:
        """Whether instances of a revision's template end again and again."""
        return any(self.alike(number, looping) for looping in self.memory.looping)

    def alike(self, one: int, other: int) -> bool:
        """Whether an instance of one revision need not be replaced by one of another."""
        return one == other or alike(self.revisions, one, other)

    def may_update(self, slot: int) -> bool:
        """Whether a slot may get the target now."""
        return self.in_reach(slot) and not self.spec.paused and not self.memory.halted

    def in_reach(self, slot: int) -> bool:
        """The same, when a pause is over."""
        return self._beyond_partition(slot) and not self.held_by_canary(slot)

    def held_by_canary(self, slot: int) -> bool:
        """Whether nothing but the canary keeps the target from a slot."""
        return self._beyond_partition(slot) and self.canary_only and slot not in self.memory.canary

    def _beyond_partition(self, slot: int) -> bool:
        return self.rolling and slot >= self.spec.partition

    def completed(self) -> Target:
        """It is everywhere: said once, by the first rollout that brought it."""
        if self.revision is None or self.revision.outcome is not None:
            return self
        revision = replace(self.revision, outcome="completed")
        return altered(
            self,
            revision=revision,
            revisions={**self.revisions, revision.number: revision},
            outcomes=(*self.outcomes, Outcome(revision.number, "completed")),
        )


def alike(revisions: Mapping[int, Revision], one: int, other: int) -> bool:
    """Whether two numbers stand for the same template.

    A template that is wanted again, after it was superseded, aborted or failed, gets a new number: an outcome is said
    once. What runs it already, under the former number, is as wanted all the same.
    """
    if one == other:
        return True
    first, second = revisions.get(one), revisions.get(other)
    return first is not None and second is not None and first.template == second.template


def choose(observed: Observed, memory: Memory, role: Role, spec: FleetSpec) -> Target:
    """The target by the spec as it is now, with memory made ready for it."""
    desired = observed.desired
    memory = recalled(memory, observed.actor)
    revisions = {revision.number: revision for revision in observed.revisions}
    current = revisions.get(observed.actor.target) if observed.actor is not None else None
    deleting = desired is None or desired.deleting
    kept = Target(role, spec, memory, revisions, current, deleting=deleting)
    if desired is None or desired.spec is None or deleting:
        return _taken(kept)
    if current is not None and current.template == desired.template:
        if memory.reverted_from:
            kept = altered(kept, memory=altered(memory, reverted_from=0))
        return _taken(kept)
    reverted = revisions.get(memory.reverted_from or _reverted(kept, memory))
    if current is not None and reverted is not None and reverted.template == desired.template:
        return _taken(altered(kept, memory=altered(memory, reverted_from=reverted.number)))
    outcomes: tuple[Outcome, ...] = ()
    if current is not None and current.outcome is None:
        outcomes = (Outcome(current.number, "superseded", "a newer template is wanted"),)
        current = replace(current, outcome="superseded")
        revisions[current.number] = current
    memory = altered(memory, reverted_from=0, frozen=0)
    completed = [r for r in revisions.values() if r.template == desired.template and r.outcome == "completed"]
    if completed:
        wanted = max(completed, key=lambda revision: revision.number)
    else:
        last = max((*revisions, *(slot.revision for slot in observed.slots), kept.number), default=0)
        wanted = Revision(last + 1, desired.template, version=desired.version)
        revisions[wanted.number] = wanted
    return _taken(
        altered(
            kept,
            memory=memory,
            revision=wanted,
            chosen=True,
            new=wanted.outcome is None,
            outcomes=outcomes,
        )
    )


def recalled(memory: Memory, actor: Actor | None) -> Memory:
    """Memory, with the recorded decisions where they differ: memory was lost, or a backup was restored."""
    said = actor.decisions if actor is not None else None
    if actor is None or said is None or said.target != actor.target or said.number == memory.decisions:
        return memory
    if memory.target != actor.target:
        memory = altered(memory, progress_at=memory.clock, progress_mark=(-1, -1), trials=())
    return altered(
        memory,
        target=actor.target,
        trials=_recalled_trials(memory.trials, said.trials),
        decisions=said.number,
        **_recorded(said),
    )


def _recorded(of: Memory | Decisions) -> dict[str, Any]:
    """What memory and its record have in common, but for the trials."""
    return {one.name: getattr(of, one.name) for one in fields(Decisions) if one.name not in _APART}


_APART = ("number", "target", "trials")


def _recalled_trials(mine: tuple[SlotTrial, ...], recorded: tuple[SlotTrial, ...]) -> tuple[SlotTrial, ...]:
    """The ends as they are recorded; what is proven is remembered."""
    proven = {trial.slot for trial in mine if trial.proven}
    ended = {trial.slot: replace(trial, proven=trial.slot in proven) for trial in recorded}
    bare = {trial.slot: SlotTrial(trial.slot, proven=trial.proven) for trial in mine}
    return tuple(trial for _, trial in sorted({**bare, **ended}.items()))


def unrecorded(target: Target, actor: Actor | None) -> Decisions | None:
    """The decisions that are to be recorded with the target; None where those that are say the same."""
    memory = target.memory
    said = actor.decisions if actor is not None else None
    last = max(memory.decisions, said.number if said is not None else 0)
    if not target.number:
        return None
    decisions = Decisions(
        number=last,
        target=target.number,
        trials=tuple(replace(trial, proven=False) for trial in memory.trials if trial.incarnation),
        **_recorded(memory),
    )
    if said is None and not (target.chosen or target.rolling):
        said = Decisions(last, target.number)
    return replace(decisions, number=last + 1) if decisions != said else None


def revert(target: Target, why: str) -> Target | None:
    """Back to the last good revision; None when there is none."""
    failed = target.revision
    good = _fallback(target, failed) if failed is not None else None
    if failed is None or good is None:
        return None
    outcomes = target.outcomes
    if failed.outcome is None:
        outcomes = (*outcomes, Outcome(failed.number, "failed", why))
    revisions = {**target.revisions, failed.number: replace(failed, outcome=failed.outcome or "failed")}
    memory = altered(target.memory, reverted_from=failed.number)
    chosen = altered(target, memory=memory, revisions=revisions, revision=good, chosen=True, new=False)
    return _taken(altered(chosen, outcomes=outcomes))


def _fallback(target: Target, failed: Revision) -> Revision | None:
    """The last good revision, or an older completed one where instances of that one end again and again."""
    others = [r for r in target.revisions.values() if r.outcome == "completed" and r.template != failed.template]
    good = next((r for r in others if r.number == target.stable), None)
    good = good or max(others, key=lambda revision: revision.number, default=None)
    if good is None or not target.loops(good.number):
        return good
    older = [r for r in others if r.number < good.number and not target.loops(r.number)]
    return max(older, key=lambda revision: revision.number, default=good)


def _reverted(target: Target, memory: Memory) -> int:
    """An actor without memory: the newest revision failed, and an older one is wanted instead."""
    newest = max(target.revisions, default=0)
    if memory.spec is None and 0 < target.number < newest and target.revisions[newest].outcome == "failed":
        return newest
    return 0


def _taken(target: Target) -> Target:
    """What belongs to one target begins anew with it, the choice of its canary included."""
    memory = target.memory
    if memory.target == target.number:
        return _with_canary(target) if target.rolling and target.canary_only else target
    return altered(
        target,
        memory=altered(
            memory,
            target=target.number,
            canary=_canary(target.spec, ()),
            promoted=memory.reverted_from != 0,
            halted="",
            halted_by="",
            trials=(),
            progress_at=memory.clock,
            progress_mark=(-1, -1),
        ),
    )


def _with_canary(target: Target) -> Target:
    """The target with as many slots in its canary as the spec wants by now.

    A scale-down or a higher partition may have taken slots of the canary away. Without any of them, a rollout would
    wait for a promotion that no instance could justify.
    """
    canary = _canary(target.spec, target.memory.canary)
    if canary == target.memory.canary:
        return target
    return altered(target, memory=altered(target.memory, canary=canary))


def _canary(spec: FleetSpec, before: tuple[int, ...]) -> tuple[int, ...]:
    """The slots of a canary: those chosen before that may still be updated, then the highest others."""
    eligible = range(spec.replicas - 1, max(spec.partition, 0) - 1, -1)
    kept = [slot for slot in before if slot in eligible]
    others = [slot for slot in eligible if slot not in kept]
    return (*kept, *others[: max(spec.canary - len(kept), 0)])


def forgotten(view: Look, target: Target) -> tuple[int, ...]:
    """Numbers of the revisions beyond the history limit, oldest first."""
    observed, memory = view.observed, target.memory
    if len(observed.revisions) <= view.spec.history_limit:
        return ()
    used = {target.number, target.stable, memory.stable, memory.reverted_from, memory.frozen}
    used |= {life.revision for life in view.lives}
    used |= {slot.revision for slot in observed.slots if slot.number < view.spec.replicas}
    used |= {step.revision for step in view.asked.busy}
    numbers = sorted(revision.number for revision in observed.revisions)
    used |= set(numbers[-1:])  # its successor's number comes from it
    others = [number for number in numbers if number not in used]
    return tuple(others[: max(len(others) - view.spec.history_limit, 0)])
