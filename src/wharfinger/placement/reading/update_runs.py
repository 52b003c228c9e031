"""Staged update runs, as a program sees them: start, plan, status, approve, stop, resume, retry.

A run without a namespace is a ClusterStagedUpdateRun and delivers a ClusterResourcePlacement; one with a namespace is a
StagedUpdateRun and delivers a ResourcePlacement of that namespace. Everything is a key in etcd, which hubs follow.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from wharfinger.errors import InvalidObject, NotFound, UsageError
from wharfinger.etcd.store import Compare, Get, KeyValue, Put, Store
from wharfinger.objects.documents import documents
from wharfinger.objects.documents.fields import part
from wharfinger.objects.documents.kinds import UPDATE_RUNS, Reference
from wharfinger.objects.documents.times import rfc3339_now
from wharfinger.objects.model.texts import one_line
from wharfinger.placement.contracts import placement_keys
from wharfinger.placement.contracts.delivery_records import PROGRESS, RETRIES, RunApprovalRecord, RunRetryRecord
from wharfinger.placement.contracts.update_runs import When
from wharfinger.placement.effects.update_steps import look
from wharfinger.placement.model.placement import PlacementRef
from wharfinger.placement.model.update_runs import RunPlan, RunState, UpdateRun
from wharfinger.placement.reading.observe_placements import read_all
from wharfinger.placement.reading.observe_update_runs import check_name, plan_of, run_of, status_of
from wharfinger.placement.reading.written_objects import create, new_object
from wharfinger.placement.spec.placement import check_placement_change
from wharfinger.placement.state.hub_view import HubView
from wharfinger.placement.state.update_runs_view import SUPERSEDES, SeenRun
from wharfinger.process.committing import Author, author, commit, readable

LONGEST = 200
"""Characters of a reason."""
STATE_CHANGES = "wharfinger.dev/state-changes"
"""Annotation of a run: who stopped and resumed it, when and why, the newest first, as JSON."""
MOST_CHANGES = 10
"""Changes in that annotation."""


@dataclass(frozen=True, slots=True)
class ShownPlan:
    """The plan of a run."""

    run: SeenRun
    plan: RunPlan
    frozen: bool
    """Whether it is stored; else it is what the plan would be now."""


class UpdateRuns:
    """The staged update runs of a cluster; `Wharfinger.update_runs`."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def start(
        self,
        name: str,
        *,
        placement: str,
        strategy: str,
        namespace: str = "",
        snapshot: int | None = None,
        supersedes: bool = False,
        plan_only: bool = False,
    ) -> None:
        """Make a run's object, which hubs start.

        Args:
            name: of the run.
            placement: name of the placement that is delivered.
            strategy: name of the strategy that is followed.
            namespace: of run, placement and strategy; empty = they are of the cluster.
            snapshot: the one that is delivered; None = a new one is taken.
            supersedes: whether the run takes over from one that is under way; else it waits for that one.
            plan_only: whether only the plan is made, until `resume`.

        Raises `UsageError`, `InvalidConfiguration`, `NotFound` without that placement or strategy, `AlreadyExists`.
        """
        check_name(name, namespace)
        spec = {
            "placementName": placement,
            "stagedRolloutStrategyName": strategy,
            "state": RunState.INITIALIZE.value if plan_only else RunState.RUN.value,
            **({"resourceSnapshotIndex": str(snapshot)} if snapshot is not None else {}),
        }
        about = Reference(UPDATE_RUNS[1 if namespace else 0], namespace, name)
        obj = new_object(about, spec, {SUPERSEDES: "true"} if supersedes else {})
        for what, asked, key in (
            ("placement", placement, placement_keys.placement(str(PlacementRef(namespace, placement)))),
            ("strategy", strategy, placement_keys.update_strategy(namespace, strategy)),
        ):
            if (await self._store.get(key)).kv is None:
                raise NotFound(f"there is no {what} {asked}")
        await create(self._store, about, obj)

    async def plan(self, name: str, namespace: str = "") -> ShownPlan:
        """The plan of a run: the frozen one, or what it would be now. Raises `NotFound`, `UsageError`."""
        view, run = await self._read(name, namespace)
        frozen = view.update_runs.of(run.reference, run.name, run.identity).plan is not None
        return ShownPlan(run, plan_of(view, run), frozen)

    async def plan_for(
        self, placement: str, strategy: str, *, namespace: str = "", snapshot: int | None = None
    ) -> ShownPlan:
        """What the plan of a run would be that does not exist. Raises `NotFound`, `UsageError`."""
        run = SeenRun("", UpdateRun(PlacementRef(namespace, placement), snapshot, strategy), 0, 0)
        return ShownPlan(run, plan_of(await read_all(self._store), run), frozen=False)

    async def status(self, name: str, namespace: str = "") -> dict[str, Any]:
        """How far a run is: the fields of `update-run status -o json`. Raises `NotFound`."""
        view, run = await self._read(name, namespace)
        return status_of(view, run)

    async def approve(
        self, name: str, stage: str, when: When, *, namespace: str = "", who: str = "", why: str = ""
    ) -> RunApprovalRecord:
        """Let a stage start (`before`) or end (`after`). Raises `NotFound`, and `UsageError` when it does not wait."""
        view, run = await self._read(name, namespace)
        key, records = f"{stage}.{when}", view.update_runs.of(run.reference, run.name, run.identity)
        if key in records.approvals:
            raise UsageError(f"{key} is approved already, by {records.approvals[key].who or 'a client'}")
        found = look(view, run.reference, run.name, run.identity)
        if key not in found.approvals:
            waits = f"it waits for {', '.join(found.approvals)}" if found.approvals else found.why or "it goes on"
            raise UsageError(f"run {name} does not wait for approval {key[:80]}: {waits}")
        record = RunApprovalRecord(who=author(who=who).who, why=one_line(why, LONGEST), time=rfc3339_now())
        target = placement_keys.run_approval(run.reference, run.name, run.identity, key)
        progress = placement_keys.run_record(run.reference, run.name, run.identity, PROGRESS)
        answered = await self._store.txn(
            [
                Compare(placement_keys.update_run(namespace, name), "create", run.identity),
                Compare(target, "create", 0),
                Compare(progress, "mod", view.mod_revision(progress)),
            ],
            [Put(target, record.to_bytes())],
            [Get(target)],
        )
        if not answered.succeeded:
            there = answered.reads[0] is not None
            raise UsageError(f"{key} {'is approved already' if there else 'was not approved: the run has moved on'}")
        return record

    async def stop(self, name: str, namespace: str = "", *, who: str = "", why: str = "") -> bool:
        """Start nothing new, and keep what waits are left; whether that changed anything.

        Raises `NotFound`, `InvalidConfiguration` when it is only planned, and `UsageError` when it has ended.
        """
        return await self._set_state(name, namespace, RunState.STOP, author(why, who=who))

    async def resume(self, name: str, namespace: str = "", *, who: str = "", why: str = "") -> bool:
        """Go on, or start what is only planned; whether that changed anything.

        Raises `NotFound`, and `UsageError` when the run has ended.
        """
        return await self._set_state(name, namespace, RunState.RUN, author(why, who=who))

    async def retry(self, name: str, namespace: str = "", *, who: str = "", why: str = "") -> int:
        """Try failed and skipped members again by the same plan; the number of this retry.

        Raises `NotFound`, and `UsageError` when the run is rolling back or is not started.
        """
        view, run = await self._read(name, namespace)
        found = look(view, run.reference, run.name, run.identity)
        progress = found.former
        if found.action == "step" and progress is not None and progress.rollback and found.ends is None:
            raise UsageError(f"run {name} is rolling back: {found.why}")
        if run.run.state is RunState.INITIALIZE:
            raise UsageError(f"run {name} is not started: resume it")
        key = placement_keys.run_record(run.reference, run.name, run.identity, RETRIES)
        there = (await self._store.get(key)).kv
        count = RunRetryRecord.model_validate_json(there.value).count if there is not None else 0
        by = author(one_line(why, LONGEST), who=who)
        record = RunRetryRecord(count=count + 1, who=by.who, why=by.why, time=rfc3339_now())
        answered = await self._store.txn(
            [
                Compare(placement_keys.update_run(namespace, name), "create", run.identity),
                Compare(key, "mod", there.mod_revision if there is not None else 0),
            ],
            [Put(key, record.to_bytes())],
        )
        if not answered.succeeded:
            raise UsageError(f"run {name} was changed at the same time: look at its status, and try again")
        return record.count

    async def _read(self, name: str, namespace: str) -> tuple[HubView, SeenRun]:
        check_name(name, namespace)
        view = await read_all(self._store)
        return view, run_of(view, name, namespace)

    async def _set_state(self, name: str, namespace: str, state: RunState, by: Author) -> bool:
        check_name(name, namespace)
        _check_goes_on(await read_all(self._store), name, namespace)

        def over(stored: KeyValue | None) -> bytes | None:
            if stored is None:
                raise NotFound(f"update run {name} does not exist")
            obj = readable(stored.value)
            if obj is None:
                raise InvalidObject(f"update run {name} cannot be read")
            edited = {**obj, "spec": {**(obj.get("spec") or {}), "state": state.value}}
            check_placement_change(obj, edited)
            return documents.to_json(_signed(edited, state, by)) if edited != obj else None

        key = placement_keys.update_run(namespace, name)
        return (await commit(self._store, key, over, f"update run {name}")).written


def state_changes(obj: Mapping[str, Any]) -> list[dict[str, str]]:
    """Who stopped and resumed a run by its object: `state`, `who`, `why` and `time` (RFC 3339), the newest first.

    Empty where nothing is noted, and for what is not readable. `apply` notes nothing.
    """
    noted = part(obj, "metadata", "annotations").get(STATE_CHANGES)
    try:
        read = json.loads(noted) if isinstance(noted, str) else []
    except (ValueError, RecursionError):  # anybody may write an annotation
        return []
    rows = [one for one in read if isinstance(one, dict)] if isinstance(read, list) else []
    return [{name: str(one.get(name) or "") for name in ("state", "who", "why", "time")} for one in rows[:MOST_CHANGES]]


def _signed(obj: dict[str, Any], state: RunState, by: Author) -> dict[str, Any]:
    """The object with a note of who gave it this state."""
    change = {"state": state.value, "who": by.who, "why": one_line(by.why, LONGEST), "time": rfc3339_now()}
    metadata = obj.get("metadata") or {}
    annotations = metadata.get("annotations") or {}
    if not isinstance(annotations, dict):  # another client's mistake, which must not be in the way of a stop
        return obj
    noted = json.dumps([change, *state_changes(obj)][:MOST_CHANGES])
    return {**obj, "metadata": {**metadata, "annotations": {**annotations, STATE_CHANGES: noted}}}


def _check_goes_on(view: HubView, name: str, namespace: str) -> None:
    """Raises `UsageError` when a run has ended. One that is not there, or cannot be read, passes."""
    run = view.update_runs.runs.get(placement_keys.update_run(namespace, name))
    records = view.update_runs.of(run.reference, run.name, run.identity) if run is not None else None
    if run is None or records is None or not records.over or records.end is None:
        return
    end = records.end
    why = f": {one_line(end.why, LONGEST)}" if end.why else ""
    retries = "retry and resume it" if run.run.state is RunState.STOP else "retry it"
    # a run that has succeeded with a reason has skipped members
    in_vain = end.outcome == "gone" or (end.outcome == "succeeded" and not end.why)
    advice = "start another one" if in_vain else f"{retries}, or start another one"
    raise UsageError(f"run {name} has ended ({end.outcome}{why}): {advice}")
