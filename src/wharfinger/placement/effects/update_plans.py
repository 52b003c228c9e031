"""From what a hub has seen to the frozen plan of a staged update run: chosen members, what they have, overrides.

Pure. `deciding.stages` divides the members into stages; here is what KubeFleet asks of a placement before that.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from wharfinger.placement.deciding import stages
from wharfinger.placement.deciding.stages import RunMember
from wharfinger.placement.effects.rolling_out import changed_for_chosen, changes_for, told_of_members, written
from wharfinger.placement.model.placement import PlacementType, lives
from wharfinger.placement.model.update_runs import RunPlan
from wharfinger.placement.state.hub_view import HubView
from wharfinger.placement.state.seen import SeenDecision, SeenPlacement
from wharfinger.placement.state.update_runs_view import SeenRun


@dataclass(frozen=True, slots=True)
class MadePlan:
    """A plan, or why there can be none."""

    plan: RunPlan | None = None
    problem: str = ""
    overrides: dict[str, tuple[dict[str, Any], ...]] = field(default_factory=dict)
    """Digest -> what is changed, of what the run writes."""
    previous: dict[str, str] = field(default_factory=dict)
    """Member -> digest of the overrides of its work; what is changed has to be read from there."""


def why_not_yet(view: HubView, reference: str) -> str:
    """What a run waits for before its plan can be made; empty when it can."""
    seen, stored = view.placements.get(reference), view.decisions.get(reference)
    if seen is None or stored is None:
        return "waits until it is decided which members the placement gets"
    policy = seen.placement.policy
    number = policy.number if policy.type is PlacementType.PICK_N and stored.condition.status else None
    same = stored.identity == seen.placement.identity and stored.digest == seen.digest
    if not same or (number is not None and number != len(stored.chosen)):
        return "waits until it is decided again which members the placement gets"
    return ""


def make_plan(view: HubView, reference: str, run: SeenRun, snapshot: int) -> MadePlan:
    """The plan of a run that delivers this snapshot; 0 = one that is not taken yet, without overrides."""
    seen, stored = view.placements.get(reference), view.decisions.get(reference)
    if seen is None or stored is None:
        return MadePlan(problem="the placement is not decided")
    key = view.update_runs.strategy_key(run)
    strategy = view.update_runs.strategies.get(key)
    problems = list(_problems(view, reference, seen, stored, snapshot))
    if strategy is None:
        name, why = run.run.strategy[:80], view.unreadable.get(key)
        problems.append(f"strategy {name} cannot be read: {why}" if why else f"there is no strategy {name}")
    taken = view.delivery.snapshots.get(reference, {}).get(snapshot)
    changed, troubles = changed_for_chosen(view, reference, taken, stored)
    problems += told_of_members(troubles)
    if problems or strategy is None:
        return MadePlan(problem="; ".join(problems))
    members = list(_members(view, reference, stored, changed))
    plan = stages.plan_run(strategy, members, snapshot, seen.delivery.strategy)
    if isinstance(plan, str):
        return MadePlan(problem=plan)
    previous = {one.name: one.previous_overrides for one in members if one.previous_overrides}
    return MadePlan(plan, overrides=_contents(view, reference, changed, snapshot), previous=previous)


def _problems(view: HubView, reference: str, seen: SeenPlacement, stored: SeenDecision, snapshot: int) -> Iterator[str]:
    if seen.unreadable:
        yield f"the placement cannot be read: {seen.unreadable}"
    elif not seen.delivery.external:
        yield "the placement is delivered by rolling updates: its spec.strategy.type is not External"
    if not stored.condition.status:
        yield f"the placement's policy is not fulfilled: {stored.condition.message}"
    if snapshot and snapshot not in view.delivery.snapshots.get(reference, {}):
        yield f"the placement has no snapshot {snapshot}"


def _contents(
    view: HubView, reference: str, changed: Mapping[str, str], number: int
) -> dict[str, tuple[dict[str, Any], ...]]:
    """What is changed, by digest. `changed`: digests by member."""
    snapshots = view.delivery.snapshots.get(reference, {})
    members = {digest: name for name, digest in changed.items()}
    return {digest: written(changes_for(view, reference, snapshots[number], name)) for digest, name in members.items()}


def _members(view: HubView, reference: str, stored: SeenDecision, changed: dict[str, str]) -> Iterator[RunMember]:
    """Members that are there and do not leave: the chosen ones, and those that have the placement."""
    chosen = lives(stored.chosen)
    works = view.works.get(reference, {})
    for name in sorted({name for name, _ in chosen} | works.keys()):
        member, work = view.members.get(name), works.get(name)
        if member is None or member.member.leaving:
            continue
        identity = member.member.identity
        has = work is not None and work.identity == identity and work.want == "present"
        yield RunMember(
            name=name,
            identity=identity,
            labels=member.member.labels,
            chosen=(name, identity) in chosen,
            previous_snapshot=work.snapshot if work is not None and has else 0,
            previous_overrides=work.overrides if work is not None and has else "",
            overrides=changed.get(name, ""),
        )
