"""Writes of a staged update run: its plan, its progress, one wave of works, an approval.

Each transaction compares the identity of the run's object, so that a run that was deleted, or made again, writes
nothing. Plan and progress rewrite `rollouts/<P>`, and each work compares that, the decision, the work and the member's
object. A slow try of an earlier wave, or of another run, therefore changes nothing.
"""

from __future__ import annotations

from wharfinger.etcd.store import Compare, Get, Operation, Put, Store
from wharfinger.placement.contracts import placement_keys
from wharfinger.placement.contracts.delivery_records import (
    END,
    LARGEST_PLAN,
    PLAN,
    PROGRESS,
    RunApprovalRecord,
    RunEndRecord,
    RunPlanRecord,
    RunProgressRecord,
    WorkRecord,
)
from wharfinger.placement.contracts.placement_records import inflated_bytes
from wharfinger.placement.contracts.placements import StreamRevisions, latest
from wharfinger.placement.contracts.update_runs import (
    ApprovedRun,
    ApproveRunInput,
    BeginRunInput,
    BegunRun,
    RecordedRun,
    RecordRunInput,
    RunRequest,
    RunWrite,
    WriteRunWorksInput,
    WrittenRunWorks,
    decoded,
)
from wharfinger.placement.effects.update_plans import MadePlan, make_plan
from wharfinger.placement.effects.works import begin_wave, next_record, put_work, record_of, rewrite, shown, write_each
from wharfinger.placement.model.placement import PlacementRef
from wharfinger.placement.model.update_runs import RunState
from wharfinger.placement.state.hub_view import HubView


async def begin(store: Store, view: HubView, request: BeginRunInput, time: str) -> BegunRun:
    """Put the plan, or why there can be none. `time`: RFC 3339, UTC. May be called again."""
    run = view.update_runs.run(request.placement, request.run)
    if run is None or run.identity != request.identity:
        return BegunRun(outcome="contended")
    made = make_plan(view, request.placement, run, request.snapshot)
    value = b""
    if made.plan is not None:
        value = (await _record(store, view, request, made, time)).to_bytes()
        if not _may_be_kept(value):
            made = MadePlan(problem=f"the plan is larger than {LARGEST_PLAN // 1024} KiB")
    if made.problem:
        return await _refuse(store, view, request, made.problem, time)
    reference, plan = request.placement, _key(request, PLAN)
    there = (await store.get(placement_keys.rollout(reference))).kv
    before = record_of(there)
    wave = next_record(before, request, time).model_copy(update={"token": f"{request.run_id}/{PLAN}"})
    if run.run.state is RunState.RUN:  # it goes on at once: later runs wait for it
        held = before.run not in ("", request.holder) and view.update_runs.lives(reference, before.run)
        if held and not run.supersedes:
            return BegunRun(outcome="contended", seen=shown([there]))
        wave = wave.model_copy(update={"run": request.holder})
    # Old snapshots are removed meanwhile: a plan may only name one that is kept.
    snapshot = placement_keys.snapshot(reference, request.snapshot)
    kept = Compare(snapshot, "mod", view.mod_revision(snapshot))
    compares = [_same_life(request), Compare(plan, "create", 0), kept]
    begun = await rewrite(store, request, wave, compares, [Put(plan, value)])
    earlier = begun.found.get(plan)
    if earlier is not None:
        return BegunRun(outcome="begun", seen=StreamRevisions(hub=earlier.mod_revision))
    return BegunRun(outcome="begun" if begun.revision else "contended", seen=begun.seen)


def _may_be_kept(value: bytes) -> bool:
    try:
        return len(value) <= LARGEST_PLAN and bool(inflated_bytes(value))
    except ValueError:  # it would be too large to be read again
        return False


async def _record(store: Store, view: HubView, request: BeginRunInput, made: MadePlan, time: str) -> RunPlanRecord:
    """The plan with the contents of all overrides, also of those that members have now."""
    assert made.plan is not None, "checked by the caller"
    overrides = dict(made.overrides)
    for member, digest in made.previous.items():
        kv = (await store.get(placement_keys.work(request.placement, member))).kv if digest not in overrides else None
        work = WorkRecord.model_validate_json(kv.value) if kv is not None else None
        if work is not None and work.overrides == digest:
            overrides[digest] = work.resolved
    identity = view.placements[request.placement].placement.identity
    return RunPlanRecord(plan=made.plan, placement=identity, overrides=overrides, token=request.run_id, time=time)


async def _refuse(store: Store, view: HubView, request: BeginRunInput, problem: str, time: str) -> BegunRun:
    retries = view.update_runs.of(request.placement, request.run, request.identity).retries
    end = RunEndRecord(outcome="failed", why=problem, retries=retries, time=time)
    answered = await store.txn(
        [_same_life(request), Compare(_key(request, PLAN), "create", 0)], [Put(_key(request, END), end.to_bytes())]
    )
    if not answered.succeeded:
        return BegunRun(outcome="contended", why=problem)
    return BegunRun(outcome="refused", why=problem, seen=StreamRevisions(hub=answered.revision))


async def record(store: Store, request: RecordRunInput, time: str) -> RecordedRun:
    """Put progress and rewrite `rollouts/<P>`, or put how the run ended. May be called again."""
    planned = request.planned
    operations: list[Operation] = []
    if planned.ends is not None and planned.ends not in ("stopped", "planned"):
        end = {"outcome": planned.ends, "why": planned.why, "retries": planned.retries, "time": time}
        operations.append(Put(_key(request, END), RunEndRecord.model_validate(end).to_bytes()))
    if not planned.progress:
        answered = await store.txn([_same_life(request)], operations)
        put = answered.succeeded and operations
        return RecordedRun(outcome="recorded", seen=StreamRevisions(hub=answered.revision if put else 0))
    key = _key(request, PROGRESS)
    progress = RunProgressRecord.model_validate_json(decoded(planned.progress)).model_copy(
        update={"token": request.wave, "time": time}
    )
    compares = [_same_life(request), Compare(key, "mod", planned.recorded)]
    begun = await begin_wave(store, request, time, compares, [Put(key, progress.to_bytes()), *operations])
    kv = begun.found.get(key)
    stored = RunProgressRecord.from_bytes(kv and kv.value)
    # Where an earlier try recorded it, and its wave is over, its writes fail.
    recorded = begun.revision or (stored is not None and stored.token == request.wave)
    return RecordedRun(outcome="recorded" if recorded else "contended", rollout=begun.revision, seen=begun.seen)


async def write(store: Store, view: HubView, request: WriteRunWorksInput) -> WrittenRunWorks:
    """Write works of a wave that `record` began. May be called again."""
    kv = (await store.get(_key(request, PLAN))).kv
    placement = view.placements.get(request.placement)
    if kv is None or placement is None:
        return WrittenRunWorks(moved=tuple(f"{one.member}: the plan" for one in request.writes))
    plan = RunPlanRecord.model_validate_json(kv.value)
    written, moved, newest = await write_each(request.writes, lambda step: _write_one(store, request, plan, step))
    return WrittenRunWorks(written=written, moved=moved, seen=latest(request.seen, StreamRevisions(hub=newest)))


async def _write_one(store: Store, request: WriteRunWorksInput, plan: RunPlanRecord, step: RunWrite) -> tuple[str, int]:
    there = Compare(placement_keys.member_cluster(step.member), "mod", step.object)
    compares = [_same_life(request), there]
    return await put_work(store, request, step, lambda before: _work(plan, step, before), compares)


def _work(plan: RunPlanRecord, step: RunWrite, former: WorkRecord) -> WorkRecord | None:
    """The work that is written; None when the contents of its overrides are not in the plan."""
    changed = {"counter": step.counter, "since": step.counter, "want": step.want}
    if not step.snapshot:
        return former.model_copy(update=changed)
    if step.overrides and step.overrides not in plan.overrides:
        return None
    return WorkRecord(
        **changed,
        identity=step.identity,
        placement=plan.placement,
        snapshot=step.snapshot,
        overrides=step.overrides,
        resolved=plan.overrides.get(step.overrides, ()),
        strategy=dict(plan.plan.apply_strategy),
    )


async def approve(store: Store, request: ApproveRunInput, time: str) -> ApprovedRun:
    """Put an approval, once. May be called again."""
    given = request.approval
    key = placement_keys.run_approval(request.placement, request.run, request.identity, given.key)
    approval = RunApprovalRecord(who=given.who, why=given.why, time=time)
    answered = await store.txn(
        [_same_life(request), Compare(key, "create", 0)], [Put(key, approval.to_bytes())], [Get(key)]
    )
    if answered.succeeded:
        return ApprovedRun(outcome="approved", seen=StreamRevisions(hub=answered.revision))
    found = answered.reads[0]
    if found is None:
        return ApprovedRun(outcome="gone", why=f"run {request.run} is deleted")
    by = RunApprovalRecord.model_validate_json(found.value)
    if (by.who, by.why) == (given.who, given.why):
        return ApprovedRun(outcome="approved", seen=StreamRevisions(hub=found.mod_revision))
    return ApprovedRun(
        outcome="already",
        why=f"{given.key} is approved already{f' by {by.who}' if by.who else ''} at {by.time}",
        seen=StreamRevisions(hub=found.mod_revision),
    )


def _key(request: RunRequest, what: str) -> str:
    return placement_keys.run_record(request.placement, request.run, request.identity, what)


def _same_life(request: RunRequest) -> Compare:
    """The run's object is there, and was not made again."""
    return Compare(
        placement_keys.update_run(PlacementRef.parse(request.placement).namespace, request.run),
        "create",
        request.identity,
    )
