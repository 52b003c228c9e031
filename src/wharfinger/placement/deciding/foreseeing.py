"""Which steps a rolling update would take, wave by wave, if everything went well.

What is asked of a member that answers is available, or gone, before the next wave; a member without an agent stays as
it is. So what is still held at the end waits for somebody.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from wharfinger.placement.deciding.rolling import plan
from wharfinger.placement.model.delivery import MemberDelivery, RolloutBudget, RolloutStep, StepKind


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
