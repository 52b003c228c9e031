"""How far a rollout is: what its updated slots have shown, what the user asks of it, and what pauses or stops it.

::

    an instance of the target is granted ── it counts ── it has counted for `soak` seconds: the slot is proven
                                   └───── it ends unasked: once, no other slot is updated until this one is proven
                                                           twice, the slot has failed

Ends that were asked for, fences, and hosts that were started anew do not count. Observation needs no clock of its own:
it runs from the look that found the instance counted (`ReadySince`), and a break in its readiness or in the actor's
view begins it anew. `deciding.draft` asks `Proof` before it ends what serves.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from wharfinger.fleet.deciding.lives import Asked, Life, Look
from wharfinger.fleet.deciding.targets import Target, revert
from wharfinger.fleet.model.fleet import HaltedBy, Observed, SlotTrial, altered
from wharfinger.fleet.model.rollout import EPSILON, Memory, Outcome

ENDS_OF_FAILED = 2
"""Unasked ends within one rollout after which a slot has failed."""
LONGEST_WORDS = 200
"""Characters that are kept of an instance's last words."""


@dataclass(frozen=True, slots=True)
class Proof:
    """The slots of an open rollout at one look."""

    limit: int
    """Slots that may be exposed at a time."""
    begun: frozenset[int]
    """Slots that have, or had, an instance of the target, or gave up their former one for it."""
    proven: frozenset[int]
    exposed: frozenset[int]
    """Slots that are begun and not proven, and whose former instance is gone or leaves."""
    held: tuple[int, ...]
    """Slots that ended unasked and have not been observed anew since."""
    due: Mapping[int, float]
    """Slot under observation -> when it will be proven."""
    stopped: bool
    """Whether too many slots failed: what serves is not replaced before a resume."""

    def allows(self, slot: int, exposed: frozenset[int]) -> bool:
        """Whether the former instance of a slot may end; `exposed`: further slots that this plan exposes."""
        if self.held or self.stopped:
            return False
        return slot in self.proven or len((self.exposed | exposed) - {slot}) < self.limit

    def waits(self, exposed: frozenset[int]) -> str:
        """Why a former instance has to stay, for readers; `exposed` as in `allows`."""
        if self.stopped:
            return "waits for resume: updated slots failed"
        if self.held:
            return f"waits: {named(self.held)} ended unasked, and must be observed anew first"
        slots = sorted(self.exposed | exposed)
        return f"waits until {named(slots[:3])} {'is' if len(slots) == 1 else 'are'} proven"


def named(slots: Sequence[int]) -> str:
    """`slot 2`, `slots 0, 1`."""
    return f"slot{'s' if len(slots) > 1 else ''} {', '.join(str(slot) for slot in slots)}"


def observe(target: Target, view: Look) -> Target:
    """Bring the trials of an open rollout up to this look."""
    if not target.rolling:
        return target
    known = {trial.slot: trial for trial in target.memory.trials}
    trials, since = [], _counted_since(view)
    for slot in range(view.spec.replicas):
        if not (target.in_reach(slot) or target.alike(view.assigned(slot), target.number)):
            continue
        newcomers = _newcomers(target, view, slot)
        trial = known.get(slot)
        if trial is None and not newcomers:
            continue
        trials.append(_observed(trial or SlotTrial(slot), newcomers, view, since))
    if tuple(trials) == target.memory.trials:
        return target
    return altered(target, memory=altered(target.memory, trials=tuple(trials)))


def prove(target: Target, view: Look, limit: int) -> Proof:
    """What the trials mean for what may be ended next."""
    trials = target.memory.trials
    proven = frozenset(trial.slot for trial in trials if trial.proven)
    open_slots = [trial.slot for trial in trials if not trial.proven]
    due, since = {}, _counted_since(view)
    for slot in open_slots:
        counted = [life for life in _newcomers(target, view, slot) if life.counted and life.runs]
        if counted:
            due[slot] = min(since[life.slot, life.incarnation] for life in counted) + view.spec.soak
    return Proof(
        limit=limit,
        begun=frozenset(trial.slot for trial in trials),
        proven=proven,
        exposed=frozenset(slot for slot in open_slots if not _has_former(target, view, slot)),
        held=tuple(trial.slot for trial in trials if trial.ends and not trial.proven),
        due=due,
        stopped=target.memory.halted_by == "failures",
    )


def failed(target: Target) -> list[SlotTrial]:
    """Slots that ended unasked too often."""
    return [trial for trial in target.memory.trials if trial.ends >= ENDS_OF_FAILED]


def failures(trials: Sequence[SlotTrial]) -> str:
    """Why the rollout stops: the slots with their last words."""
    said = [
        f"slot {trial.slot} ended unasked {trial.ends} times" + (f" ({trial.why})" if trial.why else "")
        for trial in trials[:3]
    ]
    more = f", and {len(trials) - 3} more" if len(trials) > 3 else ""
    return "; ".join(said) + more


def complete_at(view: Look) -> float:
    """When all slots will have counted, unbroken, for the soak time since the last one of them began to."""
    since = _counted_since(view)
    counted = [life for life in view.lives if life.counted and life.slot < view.spec.replicas]
    moments = [since[life.slot, life.incarnation] for life in counted]
    return max(moments) + view.spec.soak if moments else view.clock


def _newcomers(target: Target, view: Look, slot: int) -> list[Life]:
    """Incarnations of the target's template in a slot, oldest first."""
    number = target.number
    return [life for life in view.of(slot) if not life.foreign and target.alike(life.revision, number)]


def _has_former(target: Target, view: Look, slot: int) -> bool:
    return any(
        life.runs and not life.foreign and not target.alike(life.revision, target.number) for life in view.of(slot)
    )


def _observed(
    trial: SlotTrial, newcomers: Sequence[Life], view: Look, since: Mapping[tuple[int, int], float]
) -> SlotTrial:
    for life in newcomers:
        ended = life.exit
        to_run = life.grant is not None and life.grant.want == "run"
        unasked = to_run and ended is not None and not (ended.planned or ended.host_restarted)
        if life.incarnation > trial.incarnation and ended is not None and unasked:
            why = (ended.detail or ended.how)[:LONGEST_WORDS]
            trial = replace(trial, ends=trial.ends + 1, incarnation=life.incarnation, why=why)
        elif life.counted and life.runs and not trial.proven:
            observed = view.clock - since[life.slot, life.incarnation]
            if observed >= view.spec.soak - EPSILON:
                trial = replace(trial, proven=True)
    return trial


def _counted_since(view: Look) -> dict[tuple[int, int], float]:
    """By slot and incarnation, since when it has counted."""
    return {(entry.slot, entry.incarnation): entry.counted_since for entry in view.memory.ready}


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
    if target.chosen:  # this write brought a new target, and the request was meant for the one before
        return altered(target, memory=memory)
    match request.action:
        case "promote":
            return altered(target, memory=altered(memory, promoted=True, progress_at=memory.clock))
        case "resume":
            # ends are counted from here on
            trials = tuple(replace(trial, ends=0, why="") for trial in memory.trials)
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
    if view.clock < expires_at(view, memory) - EPSILON or proof.due:  # a soak may last longer than the deadline
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
