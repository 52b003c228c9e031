"""What follows for what one placement has on its members, from what a hub has seen: the next steps of its rollout.

Pure: the same view gives the same answer. The hub's loops ask whether a rollout is needed, its activities plan (with
all that their writes will compare) and wait by it; `status` and `plan` show it. Who is chosen: `effects.questions`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from wharfinger.placement.contracts import placement_keys
from wharfinger.placement.contracts.delivery_records import ResultRecord, RolloutRecord, SnapshotRecord, WorkRecord
from wharfinger.placement.contracts.placement_rollouts import AT_ONCE, PlannedRollout, PlannedStep
from wharfinger.placement.contracts.placements import LISTED
from wharfinger.placement.deciding import overriding, rolling
from wharfinger.placement.model.delivery import (
    DeliverySpec,
    MemberDelivery,
    Override,
    RolloutStep,
    RolloutSteps,
    StepKind,
)
from wharfinger.placement.model.placement import PlacementRef, PlacementType
from wharfinger.placement.state.contents_view import ContentsView
from wharfinger.placement.state.delivery_view import ChangedThere
from wharfinger.placement.state.hub_view import HubView
from wharfinger.placement.state.seen import SeenDecision, SeenPlacement

NO_ROLLOUT = RolloutRecord()
NO_RESULT = ResultRecord()
LARGEST, MOST = 1024 * 1024, 8 * 1024 * 1024
"""Bytes of what overrides change on one member: deflated, as etcd has to take it; and as JSON."""
_NOBODYS = DeliverySpec()


@dataclass(frozen=True, slots=True)
class Rollout:
    """How a placement is delivered, and what follows."""

    steps: RolloutSteps = field(default_factory=RolloutSteps)
    members: tuple[MemberDelivery, ...] = ()
    """All that are chosen or have a work, by name."""
    snapshot: int = 0
    """The one that is wanted; 0 = there is none."""
    pinned: bool = False
    overrides: Mapping[str, str] = field(default_factory=dict)
    """Member -> digest of what is changed for it; those that are not named have nothing changed."""
    spec: DeliverySpec = _NOBODYS
    trouble: str = ""
    """Why something cannot go on."""
    troubles: Mapping[str, str] = field(default_factory=dict)
    """Member -> why it cannot be said what is changed for it."""
    deleting: bool = False
    leaves: bool = False
    """Whether objects stay on members that the placement leaves."""
    forgets: bool = False
    """Whether it is gone from all members, and its snapshots are to be removed."""
    selects: bool = False
    """Whether anything has to be selected for it: a member is chosen, and no update run delivers it."""

    @property
    def gone(self) -> bool:
        """Whether nothing of it is on any member."""
        return self.deleting and not self.members

    @property
    def foreseen(self) -> rolling.ForeseenRollout | None:
        """What would follow if everything went well; None where update runs deliver it."""
        if self.spec.external and not self.deleting:
            return None
        return rolling.foresee(self.members, self.steps.target, self.spec.budget, leave=self.leaves)


def rollout_of(view: HubView, reference: str, supposed: SeenDecision | None = None) -> Rollout:
    """How a placement stands; `supposed`: a decision instead of the stored one."""
    seen, stored = view.placements.get(reference), supposed or view.decisions.get(reference)
    if stored is None:
        return Rollout(deleting=seen is None)
    if (seen is None or seen.placement.deleting) and not stored.deleting:
        return Rollout(trouble="its decision is not emptied yet")
    spec = seen.delivery if seen is not None else _NOBODYS
    number, pinned = wanted_snapshot(view, reference)
    snapshot = view.delivery.snapshots.get(reference, {}).get(number)
    changed, troubles = changed_for_chosen(view, reference, snapshot, stored)
    works, results = view.works.get(reference, {}), view.results.get(reference, {})
    chosen = {one.name: one.identity for one in stored.chosen}
    there = number if snapshot is not None else 0
    members = tuple(
        _delivery(view, reference, name, chosen.get(name), (spec, there, changed.get(name, "")))
        for name in sorted(chosen.keys() | works.keys() | results.keys())
        if name not in troubles or name in works
    )
    members = tuple(replace(one, current=True) if one.member in troubles else one for one in members)
    leaves = stored.deleting and stored.abandons
    steps = rolling.plan(members, _target(seen, stored), spec.budget, leave=leaves)
    if spec.external and not stored.deleting:
        kept = _left_to_runs(view, reference, _only(steps, (StepKind.REMOVE, StepKind.DROP)))
        steps = replace(steps, steps=kept, held=(), timer=None)
    elif snapshot is None:
        kinds = (StepKind.REMOVE, StepKind.DROP, StepKind.STRATEGY)
        steps = replace(steps, steps=_only(steps, kinds), held=(), timer=None)
    return Rollout(
        steps=steps,
        members=members,
        snapshot=number,
        pinned=pinned,
        overrides=changed,
        spec=spec,
        trouble=_trouble(view, reference, stored, troubles),
        troubles=troubles,
        deleting=stored.deleting,
        leaves=leaves,
        forgets=stored.deleting
        and not members
        and (reference in view.delivery.snapshots or reference in view.delivery.pins),
        selects=bool(stored.chosen)
        and not stored.deleting
        and not spec.external
        and seen is not None
        and not seen.unreadable,
    )


def _trouble(view: HubView, reference: str, stored: SeenDecision, troubles: Mapping[str, str]) -> str:
    """Why something cannot go on, or is not as a user asked for it."""
    record, pin = view.delivery.rollouts.get(reference, NO_ROLLOUT), view.delivery.pins.get(reference)
    known = view.delivery.snapshots.get(reference, {})
    pinned = []
    if pin is not None and known and pin.snapshot not in known and not stored.deleting:
        pinned.append(f"it is pinned to snapshot {pin.snapshot}, which is not kept: the newest is wanted")
    return record.trouble or "; ".join(pinned + told_of_members(troubles)[:3])


def told_of_members(troubles: Mapping[str, str]) -> list[str]:
    """A sentence for each member, by name."""
    return [f"member {name}: {why}" for name, why in sorted(troubles.items())]


def _left_to_runs(view: HubView, reference: str, steps: tuple[RolloutStep, ...]) -> tuple[RolloutStep, ...]:
    """Steps without the removals that the update run which delivers the placement begins in its turn."""
    by_run = view.update_runs.delivered(reference, view.delivery.rollouts.get(reference, NO_ROLLOUT).run)
    works = view.works.get(reference, {})
    kept = {name for name in by_run if name in works and works[name].want == "present"}
    return tuple(one for one in steps if one.want != "absent" or one.member not in kept)


def wanted_snapshot(view: HubView, reference: str) -> tuple[int, bool]:
    """Number of the wanted snapshot, 0 for none, and whether it is pinned."""
    known = view.delivery.snapshots.get(reference, {})
    pin = view.delivery.pins.get(reference)
    if pin is not None and pin.snapshot in known:
        return pin.snapshot, True
    return max(known, default=0), False


def concerned(view: HubView, overrides: Iterable[Override]) -> set[str]:
    """Placements whose wanted snapshot has something that these overrides may change."""
    found: set[str] = set()
    for override in overrides:
        exact = {(one.group, one.kind, one.namespace, one.name) for one in override.selectors}
        spaces = {one.name for one in override.selectors if one.kind == "Namespace" and not one.group}
        about = view.decisions if override.placement is None else [str(override.placement)]
        for reference in about:
            snapshot = view.delivery.snapshots.get(reference, {}).get(wanted_snapshot(view, reference)[0])
            if snapshot is not None and any(
                (group, kind, namespace, name) in exact or namespace in spaces
                for group, _, kind, namespace, name in (*snapshot.objects, *snapshot.enveloped)
            ):
                found.add(reference)
    return found


def changes_for(
    view: HubView, reference: str, snapshot: SnapshotRecord, member: str
) -> tuple[overriding.ResolvedOverride, ...]:
    """What is changed for one member. Raises `OverrideError`."""
    overrides = view.delivery.changes_of(reference, snapshot).overrides
    if not overrides:
        return ()
    objects = view.delivery.objects_of(snapshot)
    return overriding.resolved(overrides, PlacementRef.parse(reference), member, _labels(view, member), objects)


def changed_for_chosen(
    view: HubView, reference: str, snapshot: SnapshotRecord | None, stored: SeenDecision
) -> tuple[dict[str, str], dict[str, str]]:
    """Digests of what is changed for members, and why that cannot be said for others."""
    changed: dict[str, str] = {}
    troubles: dict[str, str] = {}
    if snapshot is None or stored.deleting or not view.delivery.overrides:
        return changed, troubles
    known = view.delivery.changes_of(reference, snapshot).members
    for name in (one.name for one in stored.chosen):
        before = known.get(name)
        if before is None or before.labels != _labels(view, name):
            before = known[name] = _change(view, reference, snapshot, name)
        if before.trouble:
            troubles[name] = before.trouble
        elif before.digest:
            changed[name] = before.digest
    return changed, troubles


def _labels(view: HubView, member: str) -> Mapping[str, str]:
    return view.members[member].member.labels if member in view.members else {}


def _change(view: HubView, reference: str, snapshot: SnapshotRecord, name: str) -> ChangedThere:
    """What overrides come to on one member, as long as it has these labels."""
    labels = _labels(view, name)
    try:
        changes = changes_for(view, reference, snapshot, name)
        digest, size = overriding.digest_and_size(changes)
    except overriding.OverrideError as error:
        return ChangedThere(labels, trouble=str(error))
    if size > LARGEST and (size > MOST or len(WorkRecord(resolved=written(changes)).to_bytes()) > LARGEST):
        return ChangedThere(labels, trouble=f"what overrides change there is too large to be kept ({size // 1024} KiB)")
    return ChangedThere(labels, digest)


def written(changes: Iterable[overriding.ResolvedOverride]) -> tuple[dict[str, Any], ...]:
    """As a work has them."""
    return tuple(overriding.to_json(changes))


def member_delivery(
    view: HubView, reference: str, name: str, stored: SeenDecision, wanted: tuple[DeliverySpec, int, str]
) -> MemberDelivery:
    """How it stands on one member. `wanted`: how it is delivered, the snapshot, the digest of what is changed."""
    chosen = next((one.identity for one in stored.chosen if one.name == name), None)
    return _delivery(view, reference, name, chosen, wanted)


def _delivery(
    view: HubView, reference: str, name: str, chosen_as: int | None, wanted: tuple[DeliverySpec, int, str]
) -> MemberDelivery:
    """The same. `chosen_as`: the identity of the member that is chosen, None where none is."""
    spec, snapshot, overrides = wanted
    drain = view.member_view.drain_of(name)
    member = view.members.get(name)
    identity = member.member.identity if member is not None else 0
    leaving = member is not None and member.member.leaving
    chosen = chosen_as == identity
    work = view.works.get(reference, {}).get(name)
    result = view.results.get(reference, {}).get(name)
    if work is None:
        gone = result is not None and (result.gone or result.identity != identity)
        orphan = result is not None and not gone
        return MemberDelivery(name, chosen=chosen and not leaving, gone=gone, outrun=orphan, leaving=leaving)
    current = work.answered(result) or NO_RESULT
    same = (work.snapshot, work.overrides) == (snapshot, overrides)
    return MemberDelivery(
        member=name,
        chosen=chosen,
        want=work.want,
        there=identity == work.identity,
        current=leaving or same or not snapshot,
        same_strategy=leaving or work.strategy == spec.strategy,
        reachable=member is not None and member.there and member.unhealthy is None,
        applied=current.applied,
        available=current.available,
        untrackable=current.untrackable,
        failed=current.failed,
        passing=current.passing,
        reported=current.reported,
        gone=current.gone and current.counter == work.counter,
        outrun=result is not None and result.identity == work.identity and result.counter > work.counter,
        unchanged=view.delivery.unchanged(reference, name),
        leaving=leaving,
        yields=leaving or (drain is not None and drain.want == "drain"),
    )


def _target(seen: SeenPlacement | None, stored: SeenDecision) -> int:
    if seen is None or stored.deleting:
        return 0
    policy = seen.placement.policy
    if policy.type is PlacementType.PICK_N:
        return policy.number or 0
    return len(set(policy.names)) if policy.type is PlacementType.PICK_FIXED else len(stored.chosen)


def _only(steps: RolloutSteps, kinds: tuple[StepKind, ...]) -> tuple[RolloutStep, ...]:
    return tuple(one for one in steps.steps if one.kind in kinds)


SETTLE = 15.0
"""Seconds from the first change of a selected object until all are looked at. KubeFleet's."""
APART = 30.0
"""Seconds between two snapshots. KubeFleet's."""
NEXT = 0.5
"""Seconds until then where works are removed first: it is planned again after them."""
MOST_STEPS = 8 * AT_ONCE
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
        steps=tuple(_step(view, reference, found, one) for one in chosen[:MOST_STEPS]),
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
        work=view.mod_revision(placement_keys.work(reference, step.member)),
        result=view.mod_revision(placement_keys.result(reference, step.member)),
        object=view.mod_revision(placement_keys.member_cluster(step.member)),
        agent=view.mod_revision(placement_keys.member(step.member)) if step.free else 0,
        status=view.mod_revision(placement_keys.member_status(step.member)) if away else None,
    )


def _named(members: Iterable[str]) -> tuple[str, ...]:
    return tuple(members)[:LISTED]
