"""A small world in which staged update runs are followed: works, results, leavers, lost writes."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from wharfinger.placement.deciding.stages import begin
from wharfinger.placement.deciding.staging import next_steps, retry, wants
from wharfinger.placement.model.update_runs import (
    MemberOutcome,
    MemberSeen,
    PlannedMember,
    PlannedStage,
    RunContents,
    RunPlan,
    RunState,
    RunStep,
    StageTask,
    TaskKind,
)

APPROVAL = (StageTask(TaskKind.APPROVAL),)
SNAPSHOT = 2
"""That runs deliver. Members have snapshot 1 before."""


def wait(seconds: float) -> tuple[StageTask, ...]:
    return (StageTask(TaskKind.TIMED_WAIT, seconds),)


def planned(name: str, previous: int = 1) -> PlannedMember:
    return PlannedMember(name, 1, "new", previous, "old" if previous else "")


def stage(name: str, members: str = "", newcomers: str = "", **fields: Any) -> PlannedStage:
    return PlannedStage(name, tuple(planned(one, 0 if one in newcomers else 1) for one in members), **fields)


def plan_of(*stages: PlannedStage, leaving: str = "") -> RunPlan:
    return RunPlan(stages, tuple(planned(name) for name in leaving), SNAPSHOT)


class World:
    """One run and its members, named by letters."""

    def __init__(self, plan: RunPlan) -> None:
        self.plan, self.progress = plan, begin(plan)
        self.state, self.clock = RunState.RUN, 0.0
        self.approvals: set[str] = set()
        self.works: dict[str, tuple[int, RunContents]] = {}
        self.results: dict[str, str] = {}
        self.gone: set[str] = set()
        self.unchosen = {one.name for one in plan.leaving}
        self.leaving: set[str] = set()
        self.unreachable: set[str] = set()
        self.counter = 10
        for one in (*(one for part in plan.stages for one in part.members), *plan.leaving):
            if one.previous:
                self.works[one.name] = (1, RunContents(one.previous, one.previous_overrides))
                self.results[one.name] = "ready"
        self.written: list[str] = []
        """Members in the order of their writes."""

    def seen(self) -> dict[str, MemberSeen]:
        return {name: self._seen(name, wanted) for name, wanted in wants(self.plan, self.progress).items()}

    def _seen(self, name: str, wanted: RunContents) -> MemberSeen:
        counter, has = self.works.get(name, (0, RunContents(0)))
        same, result = has == wanted, self.results.get(name, "")
        return MemberSeen(
            gone=name in self.gone,
            chosen=name not in self.unchosen,
            leaving=name in self.leaving,
            reachable=name not in self.unreachable,
            written=counter if same else 0,
            updated=same and (result == "ready" if wanted.snapshot else not counter),
            failed=same and result in ("failed", "passing"),
            passing=result == "passing",
            why={"failed": "CrashLoopBackOff", "passing": "no answer"}.get(result, ""),
        )

    def look(self, after: float = 0.0) -> RunStep:
        self.clock += after
        step = next_steps(
            self.plan, self.progress, self.seen(), self.approvals, clock=self.clock, wanted_state=self.state
        )
        self.progress = step.progress
        return step

    def go(self, after: float = 0.0, lost: Collection[str] = ()) -> RunStep:
        """Look, and write what is not lost."""
        step = self.look(after)
        for one in step.write:
            counter, has = self.works.get(one.name, (0, RunContents(0)))
            if one.name not in lost and not (has == one.wanted and counter > one.above):
                self.counter += 1
                self.works[one.name] = (self.counter, one.wanted)
                self.results[one.name] = ""
                self.written.append(one.name)
        return step

    def ready(self, names: str) -> None:
        for name in names:
            self.results[name] = "ready"
            if name in self.works and not self.works[name][1].snapshot:
                del self.works[name]

    def fail(self, names: str) -> None:
        self.results.update(dict.fromkeys(names, "failed"))

    def fail_for_a_while(self, names: str) -> None:
        """Fail of causes that may end."""
        self.results.update(dict.fromkeys(names, "passing"))

    def retry(self) -> None:
        self.progress = retry(self.plan, self.progress)

    def flying(self) -> str:
        """Members that were started and have no outcome."""
        table = self.progress.undone if self.progress.rollback else self.progress.members
        return "".join(one.name for one in table if one.counter and one.outcome is None)

    def outcomes(self, outcome: MemberOutcome) -> str:
        return "".join(one.name for one in self.progress.members if one.outcome is outcome)

    def snapshot(self, name: str) -> int:
        return self.works[name][1].snapshot if name in self.works else 0
