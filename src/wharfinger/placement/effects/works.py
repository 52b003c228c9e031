"""Writes one wave of works: the wave itself first, then each work by a transaction of its own.

Each transaction compares what its step was planned by, so that it holds whatever changed since. One that fails cancels
no other.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, Protocol, TypeVar

from wharfinger.etcd.store import Compare, Delete, Get, KeyValue, Operation, Put, Store
from wharfinger.placement.contracts import placement_keys
from wharfinger.placement.contracts.delivery_records import RolloutRecord, WorkRecord
from wharfinger.placement.contracts.placement_rollouts import PlannedStep, WriteWorksInput, WrittenWorks
from wharfinger.placement.contracts.placements import StreamRevisions
from wharfinger.placement.deciding import overriding
from wharfinger.placement.effects.rolling_out import NO_ROLLOUT, changes_for, concerning, written
from wharfinger.placement.model.delivery import StepKind
from wharfinger.placement.state.hub_view import HubView

AT_A_TIME = 16
"""Transactions that are sent at the same time."""


async def write(store: Store, view: HubView, request: WriteWorksInput, time: str) -> WrittenWorks:
    """Write the wave. `time`: RFC 3339, UTC. Raises `Unavailable`, and may be called again then."""
    fence, before = await begin_wave(store, request, time)
    if not fence:
        return WrittenWorks(outcome="contended", seen=StreamRevisions(hub=before))
    written, moved, newest = await write_each(request.steps, lambda step: _write_one(store, view, request, step, fence))
    seen = StreamRevisions(hub=max(fence, newest))
    return WrittenWorks(outcome="written", written=written, moved=moved, rollout=fence, seen=seen)


class OfMember(Protocol):
    """A step of one member."""

    @property
    def member(self) -> str:
        """Name of the member."""


S = TypeVar("S", bound=OfMember)


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


async def begin_wave(store: Store, request: WriteWorksInput, time: str) -> tuple[int, int]:
    """Rewrite `rollouts/<P>`: its mod revision by this wave, 0 when others were first; and what must be seen then."""
    key = placement_keys.rollout(request.placement)
    found = (await store.get(key)).kv
    record = record_of(found)
    if found is not None and record.token == request.wave:
        return found.mod_revision, found.mod_revision  # an earlier try of this wave, whose answer was lost
    if (found.mod_revision if found is not None else 0) != request.rollout:
        return 0, found.mod_revision if found is not None else 0
    wave = next_record(record, request, time).model_copy(update={"token": request.wave})
    answered = await store.txn(
        [
            Compare(key, "mod", request.rollout),
            Compare(placement_keys.decision(request.placement), "mod", request.decision),
        ],
        [Put(key, wave.to_bytes())],
        [Get(key), Get(placement_keys.decision(request.placement))],
    )
    if answered.succeeded:
        return answered.revision, answered.revision
    found = answered.reads[0]
    if found is not None and record_of(found).token == request.wave:
        return found.mod_revision, found.mod_revision
    return 0, shown(answered.reads).hub


def shown(found: Iterable[KeyValue | None]) -> StreamRevisions:
    """What must be seen for these values of keys of the hub to be seen; keys of other streams are left out."""
    hub = (kv.mod_revision for kv in found if kv is not None and kv.key.startswith(placement_keys.HUB))
    return StreamRevisions(hub=max(hub, default=0))


def record_of(kv: KeyValue | None) -> RolloutRecord:
    """Of a stored value; what cannot be read counts as no rollout."""
    return RolloutRecord.from_bytes(kv and kv.value) or NO_ROLLOUT


class ActingRun(Protocol):
    """Which run acts."""

    @property
    def workflow_id(self) -> str:
        """Of the workflow."""

    @property
    def run_id(self) -> str:
        """Of its run."""

    @property
    def role(self) -> Literal["rollout", "run"]:
        """As whom it delivers."""


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


async def _write_one(
    store: Store, view: HubView, request: WriteWorksInput, step: PlannedStep, fence: int
) -> tuple[str, int]:
    """Which key had moved, empty when it was written; and the revision of the answer."""
    reference = request.placement
    key = placement_keys.work(reference, step.member)
    compares = [
        # A slow try of an earlier wave, or of another run, writes nothing.
        Compare(placement_keys.rollout(reference), "mod", fence),
        Compare(placement_keys.decision(reference), "mod", request.decision),
        Compare(key, "mod", step.work),
    ]
    operations: list[Operation]
    if step.kind is StepKind.DROP:
        # By this result nothing is there. A newer one may say otherwise.
        compares.append(Compare(placement_keys.result(reference, step.member), "mod", step.result))
        operations = [Delete(key), Delete(placement_keys.result(reference, step.member))]
    else:
        before = (await store.get(key)).kv if step.work else None
        if (before.mod_revision if before is not None else 0) != step.work:
            return _written(key, before, step)
        work = _work(view, request, step, before)
        if work is None:
            return "overrides", 0
        operations = [Put(key, work.to_bytes())]
        if work.want == "present":
            # The member has neither begun to leave, nor become another one of that name.
            compares.append(Compare(placement_keys.member_cluster(step.member), "mod", step.object))
        if step.free:
            # The step takes nothing from the budget because the member was not available: it must still be so.
            compares.append(Compare(placement_keys.result(reference, step.member), "mod", step.result))
            compares.append(Compare(placement_keys.member(step.member), "mod", step.agent))
            if step.status is not None:
                compares.append(Compare(placement_keys.member_status(step.member), "mod", step.status))
        elif step.kind in (StepKind.UPDATE, StepKind.REMOVE):
            # The budget relies on the other members: none of them may have ceased to be available since the plan.
            compares.append(Compare(placement_keys.losses(reference), "mod", request.losses))
    answered = await store.txn(compares, operations, [Get(one.key) for one in compares])
    if answered.succeeded:
        return "", answered.revision
    found = dict(zip((one.key for one in compares), answered.reads, strict=True))
    if compares[0].holds(answered.reads[0]):  # the wave goes on: an earlier try of it may have written the work
        dropped = step.kind is StepKind.DROP and not any(found[one.key] for one in operations)
        moved, revision = ("", 1) if dropped else _written(key, found[key], step)
        if not moved:
            return "", revision
    moved = next(one.key for one in compares if not one.holds(found[one.key]))
    return moved, shown(answered.reads).hub


def _written(key: str, found: KeyValue | None, step: PlannedStep) -> tuple[str, int]:
    """The key as moved, unless an earlier try of the same wave put this work, whose answer was lost."""
    if step.kind is not StepKind.DROP and found is not None and is_of(found, (step.counter, step.want, step.identity)):
        return "", found.mod_revision
    return key, 0


def is_of(found: KeyValue, step: tuple[int, str, int]) -> bool:
    """Whether a work is what a step writes: counter, want, and the member's identity."""
    work = earlier(found)
    return (work.counter, work.want, work.identity) == step


def _work(view: HubView, request: WriteWorksInput, step: PlannedStep, before: KeyValue | None) -> WorkRecord | None:
    """The work that is written; None when what is changed for the member is not what was planned."""
    reference = request.placement
    former = earlier(before)
    if step.kind is StepKind.REMOVE:
        changed = {"counter": step.counter, "since": step.counter, "want": step.want, "identity": step.identity}
        return former.model_copy(update=changed)
    seen = view.placements.get(reference)
    if seen is None:
        return None
    strategy: Mapping[str, Any] = seen.delivery.strategy
    if step.kind is StepKind.STRATEGY:
        return former.model_copy(update={"counter": step.counter, "strategy": dict(strategy)})
    snapshot = view.delivery.snapshots.get(reference, {}).get(request.snapshot)
    if snapshot is None:
        return None
    changes: tuple[overriding.ResolvedOverride, ...] = ()
    if step.overrides:
        overrides = concerning(view, reference, snapshot)
        try:
            changes = changes_for(view, reference, snapshot, overrides, step.member)
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
        strategy=dict(strategy),
    )


def earlier(before: KeyValue | None) -> WorkRecord:
    """The work of a stored value; what cannot be read is as if there were none."""
    return WorkRecord.from_bytes(before and before.value) or WorkRecord()
