"""What follows for one staged update run, from what a hub has seen: its turn, its next steps, how it ends.

Pure: the same view gives the same answer. The hub's loop asks whether a run has something to do, the activities plan
and wait by it, and `update-run status` shows it. `deciding.staging` decides the steps.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from wharfinger.placement.contracts import placement_keys
from wharfinger.placement.contracts.delivery_records import RunPlanRecord, RunProgressRecord
from wharfinger.placement.contracts.update_runs import PlannedRun, PlanRunInput, RunAction, RunEnding, RunWrite, encoded
from wharfinger.placement.deciding import rolling, staging
from wharfinger.placement.deciding.stages import begin
from wharfinger.placement.effects.rolling_out import NO_ROLLOUT, member_delivery
from wharfinger.placement.effects.update_plans import why_not_yet
from wharfinger.placement.model.delivery import DeliverySpec
from wharfinger.placement.model.update_runs import (
    MemberOutcome,
    MemberProgress,
    MemberSeen,
    MemberWrite,
    PlannedMember,
    RunContents,
    RunPhase,
    RunPlan,
    RunProgress,
    RunState,
    RunStep,
    TaskKind,
)
from wharfinger.placement.state.contents_view import ContentsView
from wharfinger.placement.state.hub_view import HubView
from wharfinger.placement.state.seen import SeenDecision
from wharfinger.placement.state.update_runs_view import RunRecords, SeenRun


@dataclass(frozen=True, slots=True)
class RunLook:
    """What one look at a run led to."""

    action: RunAction
    why: str = ""
    ends: RunEnding | None = None
    step: RunStep | None = None
    plan: RunPlan | None = None
    former: RunProgress | None = None
    """As it is recorded; None = nothing is."""
    retries: int = 0
    timer: float | None = None
    seen: Mapping[str, MemberSeen] = field(default_factory=dict)

    @property
    def changed(self) -> bool:
        """Whether there is progress beyond the seconds that have passed."""
        if self.step is None:
            return False
        return self.former is None or _essence(self.former) != _essence(self.step.progress)

    @property
    def news(self) -> bool:
        """Whether something is to be done now."""
        if self.action != "step" or self.step is None:
            return self.action != "queue"
        return self.changed or bool(self.step.write) or self.ends is not None

    @property
    def approvals(self) -> tuple[str, ...]:
        """Approvals that it waits for."""
        awaits = self.step.awaits if self.step is not None else ()
        return tuple(one.key for one in awaits if one.kind is TaskKind.APPROVAL)


def look(
    view: HubView,
    reference: str,
    name: str,
    identity: int,
    elapsed: float = 0.0,
    *,
    contents: ContentsView | None = None,
) -> RunLook:
    """What follows for a run. `elapsed`: seen seconds since its progress was recorded.

    `contents`: of a hub, which knows whether selected objects are as they were when they could not be placed.
    """
    run, records = view.update_runs.run(reference, name), view.update_runs.of(reference, name, identity)
    if run is None or run.identity != identity:
        return RunLook("over", "its object is deleted", "gone")
    if records.over and records.end is not None:
        return RunLook("over", records.end.why, records.end.outcome)
    placement = view.placements.get(reference)
    if placement is None or placement.placement.deleting:
        return RunLook("end", f"the placement is {'gone' if placement is None else 'being deleted'}", "gone")
    if records.plan is not None and records.plan.placement != placement.placement.identity:
        return RunLook("end", "the placement was deleted and made again", "gone")
    waits = _turn(view, reference, run, records)
    if waits is not None:
        return waits
    state, stored = run.run.state, view.decisions.get(reference)
    if records.progress is None and state is RunState.STOP:
        return RunLook("over", "it was stopped before it started", "stopped")
    if records.plan is None:
        why = why_not_yet(view, reference)
        return RunLook("queue", why) if why else _begin(view, reference, run, contents)
    if records.progress is None and state is RunState.INITIALIZE:
        return RunLook("over", "it is planned, and starts when its state is Run", "planned")
    if not placement.delivery.external and not placement.unreadable:
        return RunLook("end", "the placement is delivered by rolling updates now: start another run", "failed")
    if stored is None or stored.deleting:
        return RunLook("queue", "waits until it is decided again which members the placement gets")
    if records.progress is None and _is_stale(view, reference, records.plan.plan):
        return RunLook("end", "members have got other contents since its plan was made: start another run", "failed")
    return _step(view, reference, run, (records.plan, records.progress, records.retries), elapsed)


def _begin(view: HubView, reference: str, run: SeenRun, contents: ContentsView | None) -> RunLook:
    """The plan is to be made, of what is selected or of the snapshot that is named."""
    record = view.delivery.rollouts.get(reference, NO_ROLLOUT)
    if run.run.snapshot is not None or not record.trouble:
        return RunLook("begin", "its plan is to be made")
    why = f"its plan is to be made, but what is selected cannot be placed: {record.trouble}"
    same = contents is not None and record.selected == stamp_of(contents, run)
    return RunLook("queue" if same else "begin", why)


def stamp_of(contents: ContentsView, run: SeenRun) -> str:
    """Stamp of what may be selected now, when a run looks at it."""
    return contents.stamp(run.reference) or f"run {run.holder}"


def _turn(view: HubView, reference: str, run: SeenRun, records: RunRecords) -> RunLook | None:
    """What another run that delivers the placement means for this one; None = nothing."""
    holder = view.delivery.rollouts.get(reference, NO_ROLLOUT).run
    if holder in ("", run.holder) or (run.run.state is not RunState.RUN and records.progress is None):
        return None
    other, lives = holder.rpartition("/")[0], view.update_runs.lives(reference, holder)
    if records.progress is not None:
        again = records.retries > records.progress.retries
        return RunLook("end", f"run {other} has taken over", "superseded") if lives or not again else None
    return RunLook("queue", f"waits for run {other} to end") if lives and not run.supersedes else None


def _is_stale(view: HubView, reference: str, plan: RunPlan) -> bool:
    """Whether a member has got other contents since the plan was made: a rollback would bring back older ones."""
    works = view.works.get(reference, {})
    return any(
        work.want == "present"
        and work.identity == one.identity
        and (work.snapshot, work.overrides) != (one.previous, one.previous_overrides)
        for stage in plan.stages
        for one in stage.members
        if (work := works.get(one.name)) is not None
    )


def _step(
    view: HubView,
    reference: str,
    run: SeenRun,
    recorded: tuple[RunPlanRecord, RunProgressRecord | None, int],
    elapsed: float,
) -> RunLook:
    plan, record, retries = recorded[0].plan, recorded[1], recorded[2]
    former = record.progress if record is not None else None
    progress = former if former is not None else begin(plan)
    if record is not None and retries > record.retries:
        progress = _retried(view, reference, run, plan, progress)
    seen, waits = _all_seen(view, reference, plan, progress)
    approvals = view.update_runs.of(reference, run.name, run.identity).approvals
    clock, state = progress.clock + elapsed, run.run.state
    step = staging.next_steps(plan, progress, seen, approvals.keys(), clock=clock, wanted_state=state)
    ends: RunEnding | None = step.done
    if step.progress.phase is RunPhase.STOPPED:
        ends = "stopped"
    timers = [one for one in (step.timer, *waits) if one is not None]
    timer = min(timers) if timers and not ends else None
    return RunLook("step", step.progress.why, ends, step, plan, former, retries, timer, seen)


def _retried(view: HubView, reference: str, run: SeenRun, plan: RunPlan, progress: RunProgress) -> RunProgress:
    """The progress of a retry. What another run has changed since is updated again, too."""
    if view.delivery.rollouts.get(reference, NO_ROLLOUT).run not in ("", run.holder):
        seen, _ = _all_seen(view, reference, plan, progress)
        changed = {name for name, one in seen.items() if not (one.written or one.updated)}
        members = tuple(
            replace(one, outcome=MemberOutcome.FAILED) if one.outcome and one.name in changed else one
            for one in progress.members
        )
        progress = replace(progress, members=members)
    return staging.retry(plan, progress)


def _all_seen(
    view: HubView, reference: str, plan: RunPlan, progress: RunProgress
) -> tuple[dict[str, MemberSeen], list[float]]:
    """All members, compared with what they shall have; and after which seconds some count as ready by themselves."""
    stored, wanted = view.decisions[reference], staging.wants(plan, progress)
    chosen = {one.name: (one,) for one in stored.chosen}
    seen: dict[str, MemberSeen] = {}
    waits: list[float] = []
    for one in plan.members:
        about = replace(stored, chosen=chosen.get(one.name, ()))
        seen[one.name], ready_in = _seen(view, reference, one, about, (plan, wanted[one.name]))
        waits += [ready_in] if ready_in is not None and ready_in > 0 else []
    return seen, waits


def _seen(
    view: HubView,
    reference: str,
    planned: PlannedMember,
    stored: SeenDecision,
    wanted: tuple[RunPlan, RunContents],
) -> tuple[MemberSeen, float | None]:
    """A member compared with what it shall have, and seconds until it counts as ready by itself.

    `stored`: the decision, of whose members this one is enough.
    """
    plan, (snapshot, overrides) = wanted
    member, name = view.members.get(planned.name), planned.name
    if member is None or member.member.identity != planned.identity:
        return MemberSeen(gone=True), None
    placement = view.placements[reference]
    spec: DeliverySpec = replace(placement.delivery, strategy=plan.apply_strategy)
    found = member_delivery(view, reference, name, stored, (spec, snapshot, overrides))
    work, result = view.works.get(reference, {}).get(name), view.results.get(reference, {}).get(name)
    counter = work.counter if work is not None else 0
    same = work is not None and found.there
    if work is None or not snapshot:
        same = same and found.want == "absent"
        updated = work is None and not snapshot
    else:
        same = same and found.want == "present" and work.strategy == plan.apply_strategy and not found.outrun
        same = same and (work.snapshot, work.overrides) == (snapshot, overrides)
        same = same and work.placement == placement.placement.identity
        updated = same and rolling.is_ready(found, spec.budget)
    ready_in = None
    if same and found.untrackable and not updated and found.reachable:
        ready_in = spec.budget.unavailable_period - found.unchanged
    seen = MemberSeen(
        chosen=found.chosen,
        leaving=member.member.leaving,
        reachable=found.reachable,
        written=counter if same else 0,
        updated=updated,
        failed=same and found.failed,
        passing=found.passing,
        why=result.reason if result is not None else "",
    )
    return seen, ready_in


def _essence(progress: RunProgress) -> RunProgress:
    """Progress without what only time changes."""
    members = tuple(_timeless(one) for one in progress.members)
    undone = tuple(_timeless(one) for one in progress.undone)
    stages = tuple(replace(one, waited=0.0) for one in progress.stages)
    return replace(progress, stages=stages, members=members, undone=undone, why="", clock=0.0)


def _timeless(one: MemberProgress) -> MemberProgress:
    failing = None if one.failing is None else 0.0
    return replace(one, seen=0.0, failing=failing, why=one.why if one.outcome else "")


def planned_run(view: HubView, contents: ContentsView, request: PlanRunInput) -> PlannedRun:
    """What follows for a run, with all that its writes will compare."""
    reference, name, identity = request.placement, request.run, request.identity
    elapsed = request.elapsed
    found = look(view, reference, name, identity, elapsed, contents=contents)
    run, step = view.update_runs.run(reference, name), found.step
    decision, rollout = placement_keys.decision(reference), placement_keys.rollout(reference)
    prefix = placement_keys.run_record.below(reference, name, identity)
    base = PlannedRun.model_validate(
        {
            "action": found.action,
            "ends": found.ends,
            "why": found.why,
            "retries": max(found.retries, view.update_runs.of(reference, name, identity).retries),
            "decision": view.mod_revision(decision),
            "rollout": view.mod_revision(rollout),
            "recorded": view.mod_revision(f"{prefix}progress"),
            "seen": view.newest,
        }
    )
    if found.action == "begin" and run is not None:
        return base.model_copy(update={"named": run.run.snapshot, "selected": stamp_of(contents, run)})
    if step is None:
        return base
    timed = found.timer is not None and elapsed > 0
    record = found.changed or bool(step.write) or found.ends not in (None, "stopped") or timed
    progress = RunProgressRecord(progress=step.progress, retries=found.retries)
    table = step.progress.undone if step.progress.rollback else step.progress.members
    return base.model_copy(
        update={
            "progress": encoded(progress.to_bytes()) if record else "",
            "writes": tuple(_write(view, reference, one) for one in step.write),
            "approvals": found.approvals,
            "timer": found.timer,
            "phase": step.progress.phase,
            "stages": len(step.progress.stages),
            "ended_stages": sum(one.ended for one in step.progress.stages),
            "members": len(table),
            "updated": sum(one.outcome is not None for one in table),
        }
    )


def _write(view: HubView, reference: str, one: MemberWrite) -> RunWrite:
    work = view.works.get(reference, {}).get(one.name)
    result = view.results.get(reference, {}).get(one.name)
    counters = [one.above, work.counter if work is not None else 0, result.counter if result is not None else 0]
    return RunWrite(
        member=one.name,
        identity=one.identity,
        snapshot=one.wanted.snapshot,
        overrides=one.wanted.overrides,
        counter=max(counters) + 1,
        work=view.mod_revision(placement_keys.work(reference, one.name)),
        object=view.mod_revision(placement_keys.member_cluster(one.name)),
    )
