"""What the updated slots of a rollout have shown: which are proven, which hold the next one back, which failed.

::

    an instance of the target is granted ── it counts ── it has counted for `soak` seconds: the slot is proven
                                   └───── it ends unasked: once, no other slot is updated until this one is proven
                                                           twice, the slot has failed

Ends that were asked for, fences, and hosts that were started anew do not count. Observation needs no clock of its own:
it runs from the look that found the instance counted (`ReadySince`), and a break in its readiness or in the actor's
view begins it anew. Neighbours: `deciding.progress` stops the rollout, `deciding.draft` asks before it ends what
serves.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from wharfinger.fleet.deciding.altered import altered
from wharfinger.fleet.deciding.lives import Life, Look
from wharfinger.fleet.deciding.targets import Target
from wharfinger.fleet.model.fleet import SlotTrial
from wharfinger.fleet.model.rollout import EPSILON

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


def forgiven(trials: tuple[SlotTrial, ...]) -> tuple[SlotTrial, ...]:
    """After a resume: ends are counted from here on."""
    return tuple(replace(trial, ends=0, why="") for trial in trials)


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
        if life.incarnation > trial.incarnation and _ended_unasked(life):
            ended = life.exit
            why = (ended.detail or ended.how)[:LONGEST_WORDS] if ended is not None else ""
            trial = replace(trial, ends=trial.ends + 1, incarnation=life.incarnation, why=why)
        elif life.counted and life.runs and not trial.proven:
            observed = view.clock - since[life.slot, life.incarnation]
            if observed >= view.spec.soak - EPSILON:
                trial = replace(trial, proven=True)
    return trial


def _ended_unasked(life: Life) -> bool:
    ended = life.exit
    if ended is None or ended.planned or ended.host_restarted:
        return False
    return life.grant is not None and life.grant.want == "run"


def _counted_since(view: Look) -> dict[tuple[int, int], float]:
    """By slot and incarnation, since when it has counted."""
    return {(entry.slot, entry.incarnation): entry.counted_since for entry in view.memory.ready}
