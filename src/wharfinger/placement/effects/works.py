"""Writes one wave of works: the wave itself first, then each work by a transaction of its own.

Each transaction compares what its step was planned by, so that it holds whatever changed since. One that fails cancels
no other.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from wharfinger.etcd.store import Compare, Delete, Get, KeyValue, Operation, Put, Store
from wharfinger.placement.contracts import placement_keys
from wharfinger.placement.contracts.delivery_records import RolloutRecord, WorkRecord
from wharfinger.placement.contracts.placement_rollouts import (
    PlannedStep,
    TakeSnapshotInput,
    WriteWorksInput,
    WrittenWorks,
)
from wharfinger.placement.contracts.placements import StreamRevisions
from wharfinger.placement.contracts.update_runs import BeginRunInput, RecordRunInput, RunWrite, WriteRunWorksInput
from wharfinger.placement.deciding import overriding
from wharfinger.placement.effects.rolling_out import NO_ROLLOUT, changes_for, written
from wharfinger.placement.model.delivery import StepKind
from wharfinger.placement.state.hub_view import HubView

AT_A_TIME = 16
"""Transactions that are sent at the same time."""


async def write(store: Store, view: HubView, request: WriteWorksInput, time: str) -> WrittenWorks:
    """Write the wave. `time`: RFC 3339, UTC. Raises `Unavailable`, and may be called again then."""
    begun = await begin_wave(store, request, time)
    if not begun.revision:
        return WrittenWorks(outcome="contended", seen=begun.seen)
    wave = request.model_copy(update={"rollout": begun.revision})
    written, moved, newest = await write_each(request.steps, lambda step: _write_one(store, view, wave, step))
    seen = StreamRevisions(hub=max(begun.revision, newest))
    return WrittenWorks(outcome="written", written=written, moved=moved, rollout=begun.revision, seen=seen)


S = TypeVar("S", PlannedStep, RunWrite)


async def write_each(
    steps: Sequence[S], write: Callable[[S], Awaitable[tuple[str, int]]]
) -> tuple[tuple[str, ...], tuple[str, ...], int]:
    """Write the works of these steps, some at a time; each write returns the key that had moved, and a revision.

    Returns the members that were written, the others with the key that had moved, and the newest revision. An error of
    one write is raised after all have ended.
    """
    places = asyncio.Semaphore(AT_A_TIME)

    async def one(step: S) -> tuple[str, int]:
        async with places:
            return await write(step)

    answers = await asyncio.gather(*map(one, steps), return_exceptions=True)
    written, moved, newest = [], [], 0
    for step, answer in zip(steps, answers, strict=True):
        if isinstance(answer, BaseException):
            raise answer
        key, revision = answer
        newest = max(newest, revision)
        if key:
            moved.append(f"{step.member}: {key}")
        else:
            written.append(step.member)
    return tuple(written), tuple(moved), newest


ActingRun = TakeSnapshotInput | WriteWorksInput | BeginRunInput | RecordRunInput
"""Which run acts, and by which decision and `rollouts/<P>` it was planned."""


@dataclass(frozen=True, slots=True)
class Rewritten:
    """What became of a transaction that rewrites `rollouts/<P>`."""

    revision: int
    """Mod revision of `rollouts/<P>` since then; 0 = something had moved."""
    found: Mapping[str, KeyValue | None] = field(default_factory=dict)
    """Where something had moved: the compared keys of the hub."""

    @property
    def seen(self) -> StreamRevisions:
        """What must be seen for the outcome to be seen."""
        return StreamRevisions(hub=self.revision) if self.revision else shown(self.found.values())


async def rewrite(
    store: Store,
    run: ActingRun,
    record: RolloutRecord,
    compares: Iterable[Compare] = (),
    operations: Iterable[Operation] = (),
) -> Rewritten:
    """Rewrite `rollouts/<P>`, and do what goes with it, while what the run was planned by has not moved."""
    key = placement_keys.rollout(run.placement)
    planned_by = Compare(key, "mod", run.rollout), Compare(placement_keys.decision(run.placement), "mod", run.decision)
    conditions = [*planned_by, *compares]
    of_the_hub = [one.key for one in conditions if one.key.startswith(placement_keys.HUB)]
    writes = [Put(key, record.to_bytes()), *operations]
    answered = await store.txn(conditions, writes, [Get(one) for one in of_the_hub])
    if answered.succeeded:
        return Rewritten(answered.revision)
    return Rewritten(0, dict(zip(of_the_hub, answered.reads, strict=True)))


async def begin_wave(
    store: Store,
    wave: WriteWorksInput | RecordRunInput,
    time: str,
    compares: Iterable[Compare] = (),
    operations: Iterable[Operation] = (),
) -> Rewritten:
    """Rewrite `rollouts/<P>` by this wave, once: an earlier try may have done it, whose answer was lost."""
    key = placement_keys.rollout(wave.placement)
    there = (await store.get(key)).kv
    before = record_of(there)
    if there is None or before.token != wave.wave:
        record = next_record(before, wave, time).model_copy(
            update={"token": wave.wave, "run": wave.holder if isinstance(wave, RecordRunInput) else before.run}
        )
        begun = await rewrite(store, wave, record, compares, operations)
        there = begun.found.get(key)
        if there is None or record_of(there).token != wave.wave:
            return begun
    return Rewritten(there.mod_revision)


def shown(found: Iterable[KeyValue | None]) -> StreamRevisions:
    """What must be seen for these values to be seen. Keys of members are left out."""
    there = [kv for kv in found if kv is not None]
    hub, objects = (
        max((kv.mod_revision for kv in there if kv.key.startswith(prefix)), default=0)
        for prefix in (placement_keys.HUB, placement_keys.PLACEMENT_OBJECTS)
    )
    return StreamRevisions(hub=hub, objects=objects)


def record_of(kv: KeyValue | None) -> RolloutRecord:
    """Of a stored value; what cannot be read counts as no rollout."""
    return RolloutRecord.from_bytes(kv and kv.value) or NO_ROLLOUT


def next_record(record: RolloutRecord, run: ActingRun, time: str) -> RolloutRecord:
    """The record of the next wave. Another run begins another epoch."""
    return record.model_copy(
        update={
            "epoch": record.epoch + (record.run_id != run.run_id),
            "role": run.role,
            "workflow_id": run.workflow_id,
            "run_id": run.run_id,
            "wave": record.wave + 1,
            "time": time,
        }
    )


async def put_work(
    store: Store,
    wave: WriteWorksInput | WriteRunWorksInput,
    step: PlannedStep | RunWrite,
    make: Callable[[WorkRecord], WorkRecord | None] | None,
    compares: Iterable[Compare],
) -> tuple[str, int]:
    """Write the work of one member: which key had moved, empty when it was written; and the revision of the answer.

    `make` gets the work before; its None means that the overrides are not those that were planned. None instead of
    `make`: work and result go.
    """
    reference = wave.placement
    key = placement_keys.work(reference, step.member)
    operations: list[Operation] = [Delete(key), Delete(placement_keys.result(reference, step.member))]
    if make is not None:
        before = (await store.get(key)).kv if step.work else None
        there = before.mod_revision if before is not None else 0
        if there != step.work:
            return "" if before is not None and _is_of(before, step) else key, there
        work = make(earlier(before))
        if work is None:
            return "overrides", 0
        operations = [Put(key, work.to_bytes())]
    conditions = [
        # A slow try of an earlier wave, or of another run, writes nothing.
        Compare(placement_keys.rollout(reference), "mod", wave.rollout),
        Compare(placement_keys.decision(reference), "mod", wave.decision),
        Compare(key, "mod", step.work),
        *compares,
    ]
    answered = await store.txn(conditions, operations, [Get(one.key) for one in conditions])
    if answered.succeeded:
        return "", answered.revision
    found = dict(zip((one.key for one in conditions), answered.reads, strict=True))
    if conditions[0].holds(answered.reads[0]):  # the wave goes on: an earlier try of it may have done this
        work_now = found[key]
        if make is None and not any(found[one.key] for one in operations):
            return "", 1
        if make is not None and work_now is not None and _is_of(work_now, step):
            return "", work_now.mod_revision
    moved = next(one.key for one in conditions if not one.holds(found[one.key]))
    return moved, shown(answered.reads).hub


def _is_of(found: KeyValue, step: PlannedStep | RunWrite) -> bool:
    """Whether a work is what a step writes."""
    work = earlier(found)
    return (work.counter, work.want, work.identity) == (step.counter, step.want, step.identity)


async def _write_one(store: Store, view: HubView, wave: WriteWorksInput, step: PlannedStep) -> tuple[str, int]:
    reference = wave.placement
    result = Compare(placement_keys.result(reference, step.member), "mod", step.result)
    if step.kind is StepKind.DROP:
        # By this result nothing is there. A newer one may say otherwise.
        return await put_work(store, wave, step, None, [result])
    compares = []
    if step.kind is not StepKind.REMOVE:
        # The member has neither begun to leave, nor become another one of that name.
        compares.append(Compare(placement_keys.member_cluster(step.member), "mod", step.object))
    if step.free:
        # The step takes nothing from the budget because the member was not available: it must still be so.
        compares += [result, Compare(placement_keys.member(step.member), "mod", step.agent)]
        if step.status is not None:
            compares.append(Compare(placement_keys.member_status(step.member), "mod", step.status))
    elif step.kind in (StepKind.UPDATE, StepKind.REMOVE):
        # The budget relies on the other members: none of them may have ceased to be available since the plan.
        compares.append(Compare(placement_keys.losses(reference), "mod", wave.losses))
    return await put_work(store, wave, step, lambda before: _work(view, wave, step, before), compares)


def _work(view: HubView, request: WriteWorksInput, step: PlannedStep, former: WorkRecord) -> WorkRecord | None:
    """The work that is written; None when what is changed for the member is not what was planned."""
    reference = request.placement
    if step.kind is StepKind.REMOVE:
        changed = {"counter": step.counter, "since": step.counter, "want": step.want, "identity": step.identity}
        return former.model_copy(update=changed)
    seen = view.placements.get(reference)
    if seen is None:
        return None
    strategy = dict(seen.delivery.strategy)
    if step.kind is StepKind.STRATEGY:
        return former.model_copy(update={"counter": step.counter, "strategy": strategy})
    snapshot = view.delivery.snapshots.get(reference, {}).get(request.snapshot)
    if snapshot is None:
        return None
    changes: tuple[overriding.ResolvedOverride, ...] = ()
    if step.overrides:
        try:
            changes = changes_for(view, reference, snapshot, step.member)
        except overriding.OverrideError:
            return None
        if overriding.digest(changes) != step.overrides:
            return None
    return WorkRecord(
        counter=step.counter,
        since=step.counter,
        want="present",
        identity=step.identity,
        placement=seen.placement.identity,
        snapshot=request.snapshot,
        overrides=step.overrides,
        resolved=written(changes),
        strategy=strategy,
    )


def earlier(before: KeyValue | None) -> WorkRecord:
    """The work of a stored value; what cannot be read is as if there were none."""
    return WorkRecord.from_bytes(before and before.value) or WorkRecord()
