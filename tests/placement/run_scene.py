"""Staged update runs on a store in memory, one activity at a time, with agents that answer when the test says so."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.placement.objects import placement_object
from tests.placement.scene import TIME, HubScene, P
from wharfinger.placement.contracts import placement_keys
from wharfinger.placement.contracts.delivery_records import (
    END,
    PROGRESS,
    RETRIES,
    ResultRecord,
    RolloutRecord,
    RunEndRecord,
    RunProgressRecord,
    RunRetryRecord,
    SnapshotRecord,
    WorkRecord,
)
from wharfinger.placement.contracts.update_runs import (
    ApprovedRun,
    ApproveRunInput,
    BeginRunInput,
    BegunRun,
    PlannedRun,
    PlanRunInput,
    RecordedRun,
    RecordRunInput,
    RunApproval,
    WriteRunWorksInput,
    WrittenRunWorks,
)
from wharfinger.placement.effects import update_writing
from wharfinger.placement.effects.update_steps import planned_run
from wharfinger.placement.model.update_runs import RunProgress
from wharfinger.placement.state.contents_view import ContentsView

RUN = "release"
GROUP = "placement.kubernetes-fleet.io/v1"


def external(**of: Any) -> dict[str, Any]:
    """A placement that update runs deliver."""
    obj = placement_object(**of)
    return {**obj, "spec": {**obj["spec"], "strategy": {"type": "External"}}}


def stage(name: str, labels: Mapping[str, str] | None = None, **fields: Any) -> dict[str, Any]:
    """A stage; without labels it selects all members."""
    return {"name": name, "labelSelector": {"matchLabels": dict(labels)} if labels else {}, **fields}


def strategy_object(*stages: Mapping[str, Any], name: str = "slowly", **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": GROUP,
        "kind": "ClusterStagedUpdateStrategy",
        "metadata": {"name": name},
        "spec": {"stages": list(stages), **spec},
    }


def run_object(name: str = RUN, *, state: str = "Run", snapshot: str = "1", **metadata: Any) -> dict[str, Any]:
    index = {"resourceSnapshotIndex": snapshot} if snapshot else {}
    return {
        "apiVersion": GROUP,
        "kind": "ClusterStagedUpdateRun",
        "metadata": {"name": name, **metadata},
        "spec": {"placementName": "web", "stagedRolloutStrategyName": "slowly", "state": state, **index},
    }


APPROVAL = {"type": "Approval"}


@dataclass
class RunScene(HubScene):
    """A placement on members a, b and c, its snapshot 1, and a run `release`."""

    contents: ContentsView = field(init=False)
    waves: int = 0
    written: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.contents = ContentsView(self.clock)

    async def arrange(self, *stages: Mapping[str, Any], members: str = "abc", **spec: Any) -> None:
        """Members, the decided placement, its snapshot, and the strategy."""
        for name in members:
            await self.member(name, labels={"name": name})
        await self.put(external())
        await self.attempt()
        await self.snapshot(1)
        await self.put(strategy_object(*stages, **spec))

    async def snapshot(self, number: int) -> None:
        await self.store.put(placement_keys.snapshot(P, number), SnapshotRecord(digest=str(number)).to_bytes())

    async def identity(self, name: str = RUN) -> int:
        kv = (await self.store.get(placement_keys.update_run("", name))).kv
        assert kv is not None
        return kv.create_revision

    async def which(self, name: str = RUN, run_id: str = "r") -> dict[str, Any]:
        return {
            "placement": P,
            "run": name,
            "identity": await self.identity(name),
            "workflow_id": f"w/{name}",
            "run_id": run_id,
        }

    async def plan(self, name: str = RUN, elapsed: float = 0.0) -> PlannedRun:
        await self.see()
        return planned_run(self.view, self.contents, PlanRunInput(**await self.which(name), elapsed=elapsed))

    async def begin(self, planned: PlannedRun, name: str = RUN) -> BegunRun:
        request = BeginRunInput(
            **await self.which(name),
            snapshot=planned.named or 1,
            decision=planned.decision,
            rollout=planned.rollout,
        )
        return await update_writing.begin(self.store, self.view, request, TIME)

    async def record(self, planned: PlannedRun, name: str = RUN, wave: str = "") -> RecordedRun:
        self.waves += 1
        request = RecordRunInput(**await self.which(name), planned=planned, wave=wave or f"wave {self.waves}")
        return await update_writing.record(self.store, request, TIME)

    async def write(self, planned: PlannedRun, fence: int, name: str = RUN) -> WrittenRunWorks:
        request = WriteRunWorksInput(
            **await self.which(name), writes=planned.writes, decision=planned.decision, rollout=fence
        )
        return await update_writing.write(self.store, self.view, request)

    async def turn(self, name: str = RUN, elapsed: float = 0.0) -> PlannedRun:
        """Plan, and do what was planned; the plan."""
        planned = await self.plan(name, elapsed)
        if planned.action == "begin":
            assert (await self.begin(planned, name)).outcome != "contended"
        elif planned.action == "end" or planned.progress:
            recorded = await self.record(planned, name)
            assert recorded.outcome == "recorded"
            if planned.writes:
                written = await self.write(planned, recorded.rollout, name)
                assert not written.moved
                self.written += written.written
        return planned

    async def settle(self, name: str = RUN, elapsed: float = 0.0) -> PlannedRun:
        """Turn until nothing is left to record; the last plan. `elapsed` passes before the first turn."""
        for _ in range(50):
            planned = await self.turn(name, elapsed)
            elapsed = 0.0
            if planned.action in ("queue", "over") or (planned.action == "step" and not planned.progress):
                return planned
        raise AssertionError("it never settles")

    async def answer(self, members: str = "", **said: Any) -> None:
        """Let agents report on the works that are not answered; absent ones go."""
        await self.see()
        for name, work in list(self.view.works.get(P, {}).items()):
            result = self.view.results.get(P, {}).get(name)
            if name not in (members or name) or (result is not None and result.counter == work.counter):
                continue
            if work.want == "absent":
                await self.remove_work(name)
                continue
            told = ResultRecord(
                **{"counter": work.counter, "identity": work.identity, "applied": True, "available": True, **said}
            )
            await self.store.put(placement_keys.result(P, name), told.to_bytes())

    async def deliver(self, number: int, members: Sequence[str] = "abc") -> None:
        """Let members have a snapshot from an earlier run."""
        await self.see()
        for name in members:
            seen = self.view.members[name].member.identity
            placement = self.view.placements[P]
            work = WorkRecord(
                counter=1,
                since=1,
                identity=seen,
                placement=placement.placement.identity,
                snapshot=number,
                strategy=dict(placement.delivery.strategy),
            )
            await self.store.put(placement_keys.work(P, name), work.to_bytes())
        await self.answer()

    async def state(self, state: str, name: str = RUN, **of: Any) -> None:
        await self.put(run_object(name, state=state, **of))

    async def retry(self, count: int = 1, name: str = RUN) -> None:
        await self.store.put(await self.key(RETRIES, name), RunRetryRecord(count=count).to_bytes())

    async def approve(self, stage: str, when: Any, who: str = "ann", name: str = RUN) -> ApprovedRun:
        approval = RunApproval(stage=stage, when=when, who=who)
        return await update_writing.approve(
            self.store, ApproveRunInput(**await self.which(name), approval=approval), TIME
        )

    async def key(self, what: str, name: str = RUN) -> str:
        return placement_keys.run_record(P, name, await self.identity(name), what)

    async def end(self, name: str = RUN) -> tuple[str, str]:
        kv = (await self.store.get(await self.key(END, name))).kv
        assert kv is not None
        record = RunEndRecord.model_validate_json(kv.value)
        return record.outcome, record.why

    async def progress(self, name: str = RUN) -> RunProgress:
        kv = (await self.store.get(await self.key(PROGRESS, name))).kv
        assert kv is not None
        return RunProgressRecord.model_validate_json(kv.value).progress

    async def rollout(self) -> RolloutRecord:
        kv = (await self.store.get(placement_keys.rollout(P))).kv
        assert kv is not None
        return RolloutRecord.model_validate_json(kv.value)

    async def has(self) -> dict[str, int]:
        """Member -> snapshot that its work wants present."""
        await self.see()
        works = self.view.works.get(P, {})
        return {name: one.snapshot for name, one in sorted(works.items()) if one.want == "present"}
