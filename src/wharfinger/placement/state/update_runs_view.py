"""What a hub has seen of staged update runs: strategies, runs, and what is recorded of runs.

A part of `state.hub_view`, which passes it objects and records of its streams. A run and its records are
found by the placement, the run's name and the create revision of its object.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from wharfinger.errors import InvalidObject
from wharfinger.etcd.store import KeyValue
from wharfinger.objects.documents.fields import mapping, text_map
from wharfinger.placement.contracts import placement_keys
from wharfinger.placement.contracts.delivery_records import (
    END,
    PLAN,
    PROGRESS,
    RETRIES,
    RunApprovalRecord,
    RunEndRecord,
    RunPlanRecord,
    RunProgressRecord,
    RunRetryRecord,
)
from wharfinger.placement.model.placement import PlacementRef
from wharfinger.placement.model.update_runs import RunPhase, RunState, StagedStrategy, UpdateRun
from wharfinger.placement.spec.placement_update_fields import stored_run, stored_strategy
from wharfinger.placement.state.seen import object_of, store

SUPERSEDES = "wharfinger.dev/supersedes"
"""Annotation of a run that does not wait for another one: `true`."""


@dataclass(frozen=True, slots=True)
class SeenRun:
    """A run's object."""

    name: str
    run: UpdateRun
    identity: int
    """Create revision of the object."""
    revision: int
    supersedes: bool = False

    @property
    def reference(self) -> str:
        """P, of its placement."""
        return str(self.run.placement)

    @property
    def holder(self) -> str:
        """How `rollouts/<P>` names it."""
        return f"{self.name}/{self.identity}"


@dataclass(slots=True)
class RunRecords:
    """What is recorded of one life of a run."""

    plan: RunPlanRecord | None = None
    """Without the contents of overrides."""
    progress: RunProgressRecord | None = None
    retries: int = 0
    approvals: dict[str, RunApprovalRecord] = field(default_factory=dict)
    end: RunEndRecord | None = None
    keys: set[str] = field(default_factory=set)

    @property
    def over(self) -> bool:
        """Whether it has ended, and no retry was asked for since."""
        return self.end is not None and self.end.retries >= self.retries


NO_RECORDS = RunRecords()


class UpdateRunsView:
    """What was seen. Changed by `take` and `take_object` only."""

    def __init__(self) -> None:
        self.strategies: dict[str, StagedStrategy] = {}
        """By key."""
        self.runs: dict[str, SeenRun] = {}
        """By key."""
        self.records: dict[str, dict[tuple[str, int], RunRecords]] = {}
        """Placement -> name and identity of the run -> what is recorded of it."""

    def take_object(self, key: str, kv: KeyValue | None) -> set[str]:
        """A strategy's or a run's object; the placements that it is about. Raises `InvalidObject`.

        An object that cannot be read stays as it was; one of another identity is not there.
        """
        if key.startswith(placement_keys.UPDATE_STRATEGIES):
            if kv is None:
                self.strategies.pop(key, None)
            else:
                self.strategies[key] = stored_strategy(object_of(kv))
            return {one.reference for one in self.runs.values() if self.strategy_key(one) == key}
        before = self.runs.pop(key, None)
        if kv is None:
            return {before.reference} if before is not None else set()
        try:
            now = self.runs[key] = _run_of(key, kv)
        except InvalidObject:
            if before is not None and before.identity == kv.create_revision:
                self.runs[key] = before
            raise
        return {one.reference for one in (before, now) if one is not None}

    def take(self, rest: str, value: bytes | None) -> str:
        """One record, by what follows `runs/` in its key; the placement that it is about. Raises `ValueError`."""
        names = placement_keys.run_record.parse(f"{placement_keys.run_record.prefix}{rest}")
        if names is None:
            raise ValueError("its key names no record of a run")
        reference, run, number, what = names
        identity = int(number)
        of_it = self.records.setdefault(reference, {})
        found = of_it.setdefault((run, identity), RunRecords())
        if value is None:
            found.keys.discard(what)
        else:
            found.keys.add(what)
        if not found.keys:
            del of_it[run, identity]
            if not of_it:
                del self.records[reference]
            return reference
        if what == PLAN:
            plan = RunPlanRecord.model_validate_json(value) if value is not None else None
            found.plan = plan.model_copy(update={"overrides": {}}) if plan is not None else None
        elif what == PROGRESS:
            found.progress = RunProgressRecord.model_validate_json(value) if value is not None else None
        elif what == RETRIES:
            found.retries = RunRetryRecord.model_validate_json(value).count if value is not None else 0
        elif what == END:
            found.end = RunEndRecord.model_validate_json(value) if value is not None else None
        elif what.startswith("approvals/"):
            name = what.removeprefix("approvals/")
            store(found.approvals, name, value, RunApprovalRecord)
        return reference

    def run(self, reference: str, name: str) -> SeenRun | None:
        """The run of that name, if it is about that placement."""
        found = self.runs.get(placement_keys.update_run(PlacementRef.parse(reference).namespace, name))
        return found if found is not None and found.reference == reference else None

    def of(self, reference: str, name: str, identity: int) -> RunRecords:
        """What is recorded of a run."""
        return self.records.get(reference, {}).get((name, identity), NO_RECORDS)

    def strategy_key(self, one: SeenRun) -> str:
        """The key of the strategy that a run follows."""
        return placement_keys.update_strategy(one.run.placement.namespace, one.run.strategy)

    def lives(self, reference: str, holder: str) -> bool:
        """Whether that run, as `rollouts/<P>` names it, is there and is not over."""
        name, _, identity = holder.rpartition("/")
        found = self.run(reference, name)
        if found is None or str(found.identity) != identity:
            return False
        return not self.of(reference, name, found.identity).over

    def delivered(self, reference: str, holder: str) -> frozenset[str]:
        """Members that the run which delivers removes the placement from by itself."""
        if not holder or not self.lives(reference, holder):
            return frozenset()
        name, _, identity = holder.rpartition("/")
        records = self.of(reference, name, int(identity))
        if records.plan is None:
            return frozenset()
        return frozenset(one.name for one in records.plan.plan.leaving)

    def named(self, reference: str) -> set[int]:
        """Snapshots that runs name: they deliver them, or go back to them."""
        found = {one.run.snapshot for one in self.runs.values() if one.reference == reference and one.run.snapshot}
        for records in self.records.get(reference, {}).values():
            if records.plan is not None:
                plan = records.plan.plan
                found.add(plan.snapshot)
                found |= {one.previous for stage in plan.stages for one in stage.members}
        return {number for number in found if number}

    def abandoned(self) -> Iterator[tuple[str, str, int]]:
        """Placement, name and identity of runs whose object is gone and of which something is recorded."""
        for reference, of_it in self.records.items():
            for name, identity in of_it:
                found = self.runs.get(placement_keys.update_run(PlacementRef.parse(reference).namespace, name))
                if found is None or found.identity != identity:
                    yield reference, name, identity


def _run_of(key: str, kv: KeyValue) -> SeenRun:
    obj = object_of(kv)
    parts = key.removeprefix(placement_keys.UPDATE_RUNS[1]).removeprefix(placement_keys.UPDATE_RUNS[0]).split("/")
    return SeenRun(
        name=parts[-1],
        run=stored_run(obj, parts[0] if len(parts) > 1 else ""),
        identity=kv.create_revision,
        revision=kv.mod_revision,
        supersedes=text_map(mapping(obj, "metadata"), "annotations").get(SUPERSEDES) == "true",
    )


def runs_to(records: RunRecords, state: RunState) -> bool:
    """Whether a run has something to do: make its plan, go on, or follow what it has started."""
    if records.over:
        return False
    if state is RunState.RUN:
        return True
    if state is RunState.INITIALIZE:
        return records.plan is None and records.progress is None
    return records.progress is not None and not stopped(records)


def stopped(records: RunRecords) -> bool:
    """Whether it is recorded that a stopped run has nothing under way."""
    return records.progress is not None and records.progress.progress.phase is RunPhase.STOPPED
