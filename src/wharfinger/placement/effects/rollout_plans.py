"""From what a hub has seen of a placement to one plan of its rollout, with all that its writes will compare."""

from __future__ import annotations

from collections.abc import Iterable

from wharfinger.placement.contracts import placement_keys
from wharfinger.placement.contracts.placement_rollouts import AT_ONCE, PlannedRollout, PlannedStep
from wharfinger.placement.contracts.placements import LISTED
from wharfinger.placement.effects.rolling_out import NO_ROLLOUT, Rollout, relied_on, rollout_of
from wharfinger.placement.model.delivery import RolloutStep, StepKind
from wharfinger.placement.state.contents_view import ContentsView
from wharfinger.placement.state.hub_view import HubView

SETTLE = 15.0
"""Seconds from the first change of a selected object until all are looked at. KubeFleet's."""
APART = 30.0
"""Seconds between two snapshots. KubeFleet's."""
NEXT = 0.5
"""Seconds until then where works are removed first: it is planned again after them."""
MOST = 8 * AT_ONCE
"""Steps of one plan, which is kept in a history; the next one goes on."""


def planned(view: HubView, contents: ContentsView, reference: str, clock: float) -> PlannedRollout:
    """The next steps. `clock`: the hub's seconds."""
    found = rollout_of(view, reference)
    stamp = contents.stamp(reference) if found.selects else None
    steps, wait = found.steps, snapshot_in(view, contents, reference, found, clock)
    chosen = steps.steps
    if wait == 0.0 and (first := tuple(one for one in chosen if one.kind in (StepKind.REMOVE, StepKind.DROP))):
        chosen, wait = first, NEXT  # what goes does not wait for a snapshot, which may take long, or fail
    return PlannedRollout(
        steps=tuple(_step(view, reference, found, one) for one in chosen[:MOST]),
        snapshot=found.snapshot,
        pinned=found.pinned,
        snapshot_in=wait,
        selected=stamp or "",
        timer=steps.timer,
        waiting=_named(steps.waiting),
        away=_named(steps.away),
        failed=_named(steps.failed),
        held=len(steps.held),
        gone=found.gone,
        forgets=found.forgets,
        target=steps.target,
        ready=steps.ready,
        floor=steps.floor,
        ceiling=steps.ceiling,
        trouble=found.trouble,
        decision=view.mod_revision(placement_keys.decision(reference)),
        rollout=view.mod_revision(placement_keys.rollout(reference)),
        losses=view.mod_revision(placement_keys.losses(reference)),
        seen=view.newest,
    )


def snapshot_in(view: HubView, contents: ContentsView, reference: str, found: Rollout, clock: float) -> float | None:
    """Seconds until the selected objects are to be looked at; None when they are as they were."""
    if not found.selects:
        return None
    stamp = contents.stamp(reference)
    record = view.delivery.rollouts.get(reference, NO_ROLLOUT)
    if stamp is None:
        return None
    forgotten = not found.snapshot and not record.trouble  # the placement was deleted, and made again before it went
    if stamp == record.selected and not forgotten:
        contents.looked_at(reference)
        return None
    if not record.selected or forgotten:
        return 0.0
    taken = view.delivery.taken.get(reference)
    due = contents.since(reference) + SETTLE
    if taken is not None:
        due = max(due, taken + APART)
    return max(0.0, due - clock)


def _step(view: HubView, reference: str, found: Rollout, step: RolloutStep) -> PlannedStep:
    member = view.members.get(step.member)
    before = view.works.get(reference, {}).get(step.member)
    result = view.results.get(reference, {}).get(step.member)
    counter = max(before.counter if before is not None else 0, result.counter if result is not None else 0) + 1
    work, told, obj = relied_on(view, reference, step.member)
    away = step.free and member is not None and not member.reachable
    identity = member.member.identity if member is not None else 0
    if before is not None and step.kind in (StepKind.REMOVE, StepKind.STRATEGY):
        identity = before.identity
    return PlannedStep(
        member=step.member,
        kind=step.kind,
        want=step.want,
        ready=step.ready,
        free=step.free,
        identity=identity,
        overrides=found.overrides.get(step.member, ""),
        counter=counter,
        work=work,
        result=told,
        object=obj,
        agent=view.mod_revision(placement_keys.member(step.member)) if step.free else 0,
        status=view.mod_revision(placement_keys.member_status(step.member)) if away else None,
    )


def _named(members: Iterable[str]) -> tuple[str, ...]:
    return tuple(members)[:LISTED]
