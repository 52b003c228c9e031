"""Rolling update of one placement: which members' works change now, and which waves would follow.

KubeFleet's budget: never fewer ready members than the target less `maxUnavailable`, never more that can be ready than
the target and `maxSurge`; percentages are rounded up. In order: what failed is updated, what is not wanted is removed,
the rest is updated, newly chosen members get it. Comments at the lines name where this differs on purpose.

Pure: the same standing gives the same steps. The floor holds although results change meanwhile because each write
compares what it relies on (`effects.works`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from wharfinger.placement.model.delivery import MemberDelivery, RolloutBudget, RolloutStep, RolloutSteps, StepKind, Want


def is_ready(one: MemberDelivery, budget: RolloutBudget) -> bool:
    """Whether a member is counted on."""
    if not one.reachable or one.want != "present":
        return False
    if one.reported:
        return True
    return one.available and (not one.untrackable or one.unchanged >= budget.unavailable_period)


def plan(members: Sequence[MemberDelivery], target: int, budget: RolloutBudget, *, leave: bool = False) -> RolloutSteps:
    """What follows. Where the budget does not take all, the first of `members` are taken.

    Args:
        members: all that are chosen, or have a work or a result.
        target: how many members are wanted.
        budget: how many may change at a time.
        leave: whether objects stay on members that the placement leaves.
    """
    dropped = [one for one in members if (one.want is not None and not one.there) or one.gone]
    lost = {one.member for one in dropped}
    kept = [one for one in members if one.member not in lost]
    ready = [one for one in kept if is_ready(one, budget)]
    counted = [one for one in kept if _counts(one)]
    least = target - budget.max_unavailable.of(target, up=True)
    most = target + budget.max_surge.of(target, up=True)

    # A member that leaves is not updated: what it has is released.
    delivered = [one for one in kept if one.chosen and one.want == "present" and not one.leaving]
    outdated = [one for one in delivered if not one.current]
    # The agent applies no lower counter than it has seen, so the same contents have to come with a higher one.
    outdated += [one for one in delivered if one.current and one.outrun]
    failing = [one for one in outdated if _has_failed(one, budget)]
    updates = [one for one in outdated if not _has_failed(one, budget)]
    unwanted = [one for one in kept if not one.chosen and one.want == "present"]
    # Removing what is not available takes nothing from the budget, so a placement can shrink while a member fails.
    free = [one for one in unwanted if not _is_available(one)]
    free += [one for one in kept if not one.chosen and one.want != "present" and one.outrun]
    removals = [one for one in unwanted if _is_available(one)]
    # It counts against the ceiling already, so it needs no room: it waits for itself only.
    returning = [one for one in kept if _stays(one) and one.want in ("absent", "release")]
    additions = [one for one in kept if _stays(one) and one.want is None]
    # The work is of an earlier life of the member, which has nothing of it.
    additions += [one for one in dropped if _stays(one) and not one.gone]

    spare = max(0, len(ready) - least)
    # What failed counts again as soon as it is updated, or until it is gone: the ceiling holds for that moment, too.
    room = max(0, most - len(counted) - sum(not _counts(one) for one in (*free, *failing)))
    added = additions[:room]
    coming = [*added, *returning, *(one for one in delivered if _is_coming(one, budget))]
    # A member that leaves or is drained keeps what it has until what comes in its place is ready.
    going = [one for one in removals if not (one.yields and coming)]
    # Removals first: they make room below the ceiling for members that are chosen now.
    taken = (going + updates)[:spare]
    moving = {one.member for one in (*failing, *free, *taken, *added, *returning)}
    steps = [RolloutStep(one.member, StepKind.DROP) for one in dropped if one.member not in moving]
    steps += [RolloutStep(one.member, StepKind.UPDATE, free=True) for one in failing]
    steps += [_removal(one, free=True, leave=leave) for one in free]
    steps += [_removal(one, ready=is_ready(one, budget), leave=leave) for one in taken if not one.chosen]
    steps += [RolloutStep(one.member, StepKind.UPDATE, ready=is_ready(one, budget)) for one in taken if one.chosen]
    steps += [RolloutStep(one.member, StepKind.ADD) for one in (*returning, *added)]
    strategy = [  # contents stay as they are, so the budget does not count these
        one
        for one in kept
        if one.chosen and one.want == "present" and not one.same_strategy and one.member not in moving
    ]
    steps += [RolloutStep(one.member, StepKind.STRATEGY) for one in strategy]

    held = [one.member for one in (*removals, *updates, *additions) if one.member not in moving]
    expected = [one for one in kept if one.want is not None and one.member not in moving and not _answered(one)]
    return RolloutSteps(
        steps=tuple(steps),
        held=tuple(held),
        waiting=tuple(one.member for one in expected if one.reachable),
        away=tuple(one.member for one in expected if not one.reachable),
        failed=tuple(one.member for one in kept if one.failed and one.member not in moving),
        timer=_timer(kept, budget) if held else None,
        target=target,
        ready=len(ready),
        floor=least,
        ceiling=most,
    )


def _is_available(one: MemberDelivery) -> bool:
    return one.reachable and (one.available or one.reported)


def _stays(one: MemberDelivery) -> bool:
    """Whether it may get something: a member that leaves gets nothing any more."""
    return one.chosen and not one.leaving


def _has_failed(one: MemberDelivery, budget: RolloutBudget) -> bool:
    return one.failed or one.outrun or _is_stuck(one, budget)


def _is_coming(one: MemberDelivery, budget: RolloutBudget) -> bool:
    """Whether it is about to be ready."""
    return one.reachable and not is_ready(one, budget) and not _has_failed(one, budget)


def _is_stuck(one: MemberDelivery, budget: RolloutBudget) -> bool:
    """Whether it was applied, and has not become available in its time."""
    # Then it is treated as failed: contents that never become available could not be replaced within the budget.
    waited = one.applied and not one.available and not one.reported and one.reachable
    return waited and one.unchanged >= budget.unavailable_period


def _counts(one: MemberDelivery) -> bool:
    """Whether it can be ready, or is not gone yet: against the ceiling."""
    # An unreachable member may be ready unseen: it counts against the ceiling, although it is not counted on.
    if one.want in ("absent", "release"):
        return True
    return one.want == "present" and not one.failed and not one.reported


def _answered(one: MemberDelivery) -> bool:
    """Whether its result says how its work ended, for now."""
    return one.want == "present" and (one.available or one.failed or one.reported)


def _removal(one: MemberDelivery, *, leave: bool, ready: bool = False, free: bool = False) -> RolloutStep:
    want: Want = "release" if leave or one.leaving else "absent"
    return RolloutStep(one.member, StepKind.REMOVE, want, ready=ready, free=free)


def _timer(members: Sequence[MemberDelivery], budget: RolloutBudget) -> float | None:
    waits = [
        budget.unavailable_period - one.unchanged
        for one in members
        if one.want == "present"
        and one.reachable
        and not one.reported
        and not one.failed
        and ((one.available and one.untrackable) or (one.applied and not one.available and not one.current))
    ]
    return min((one for one in waits if one > 0), default=None)


@dataclass(frozen=True, slots=True)
class ForeseenRollout:
    """What would follow."""

    waves: tuple[tuple[RolloutStep, ...], ...] = ()
    held: tuple[str, ...] = ()
    """Members that would go on waiting."""


def foresee(
    members: Sequence[MemberDelivery], target: int, budget: RolloutBudget, *, leave: bool = False
) -> ForeseenRollout:
    """The waves. Arguments are those of `rolling.plan`."""
    now = list(members)
    waves: list[tuple[RolloutStep, ...]] = []
    while True:
        steps = plan(now, target, budget, leave=leave)
        moving = tuple(one for one in steps.steps if one.kind is not StepKind.DROP)
        if not steps.steps or len(waves) > 2 * len(members):
            return ForeseenRollout(tuple(waves), steps.held)
        if moving:
            waves.append(moving)
        by_name = {one.member: one for one in steps.steps}
        now = [_after(one, by_name.get(one.member), budget) for one in now]


def _after(one: MemberDelivery, step: RolloutStep | None, budget: RolloutBudget) -> MemberDelivery:
    """How it stands when the step is done."""
    if step is None:
        return one
    if step.kind is StepKind.DROP:
        return MemberDelivery(one.member, one.chosen, reachable=one.reachable, leaving=one.leaving)
    if step.want != "present":
        return replace(one, want=step.want, there=True, available=False, outrun=False, gone=one.reachable)
    return replace(
        one,
        want="present",
        there=True,
        current=True,
        same_strategy=True,
        applied=one.reachable,
        available=one.reachable or (step.kind is StepKind.STRATEGY and one.available),
        failed=False,
        gone=False,
        outrun=False,
        unchanged=budget.unavailable_period,
    )
