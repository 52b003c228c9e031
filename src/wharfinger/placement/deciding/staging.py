"""The next steps of a staged update run: which works to write, which tasks to await, when to look again.

`next_steps` is pure and level-triggered. It compares the frozen plan (`deciding.stages`), the recorded progress and
what one consistent read shows. A write that was lost, or whose answer was lost, is therefore in the next step again.
Members that joined after the plan was made are in no stage, and are ignored. `deciding.lanes` judges single members.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import Literal

from wharfinger.objects.model.texts import counted
from wharfinger.placement.deciding.lanes import EPSILON, RunLane, Walk
from wharfinger.placement.model.update_runs import (
    AwaitedTask,
    MemberOutcome,
    MemberProgress,
    MemberSeen,
    OnFailure,
    PlannedMember,
    PlannedStage,
    RunContents,
    RunPhase,
    RunPlan,
    RunProgress,
    RunState,
    RunStep,
    StageProgress,
    TaskKind,
)

_DONE: dict[RunPhase, Literal["succeeded", "failed", "aborted"]] = {
    RunPhase.SUCCEEDED: "succeeded",
    RunPhase.FAILED: "failed",
    RunPhase.ABORTED: "aborted",
}
_SHOWN = 3
"""Names in a sentence."""


def wants(plan: RunPlan, progress: RunProgress) -> dict[str, RunContents]:
    """What each member of the plan shall have when it is its turn. `MemberSeen` is about these contents."""
    undone = {one.name for one in progress.undone}
    found = {one.name: RunContents(0) for one in plan.leaving}
    for stage in plan.stages:
        for one in stage.members:
            previous = RunContents(one.previous, one.previous_overrides)
            found[one.name] = previous if one.name in undone else RunContents(plan.snapshot, one.overrides)
    return found


def retry(plan: RunPlan, progress: RunProgress) -> RunProgress:
    """Try failed and skipped members again by the same plan; after a rollback, all that it has touched, too.

    Approvals that were used, and waits that are over, are not asked for again. A run that is rolling back is unchanged.
    """
    if progress.rollback and progress.phase is not RunPhase.FAILED:
        return progress
    undone = {one.name: one.counter for one in progress.undone}
    again = (MemberOutcome.FAILED, MemberOutcome.SKIPPED)
    reset = {one.name for one in progress.members if one.name in undone or one.outcome in again}
    if not reset:
        return progress
    members = tuple(
        MemberProgress(one.name, above=max(one.counter, one.above, undone.get(one.name, 0)))
        if one.name in reset
        else one
        for one in progress.members
    )
    stages = tuple(
        replace(state, ended=state.ended and not any(member.name in reset for member in stage.members))
        for stage, state in zip(plan.stages, progress.stages, strict=True)
    )
    if undone:
        stages = tuple(StageProgress(approvals=state.approvals, ended=state.ended) for state in stages)
    return RunProgress(stages, members, clock=progress.clock)


def next_steps(
    plan: RunPlan,
    progress: RunProgress,
    seen: Mapping[str, MemberSeen],
    approvals: Collection[str],
    *,
    clock: float,
    wanted_state: RunState,
) -> RunStep:
    """What to do now, and the progress to record. It must be recorded before the works are written.

    Args:
        plan: the frozen plan.
        progress: what was recorded by the step before, or by `stages.begin`.
        seen: by name, compared with `wants` of this plan and progress; a member without an entry is gone.
        approvals: keys of the approvals that were given.
        clock: the run's seen seconds. The time since the step before counts as what the run did in it.
        wanted_state: anything but Run starts nothing. Members that were started are still followed.
    """
    if progress.phase in _DONE:
        return RunStep(progress, done=_DONE[progress.phase])
    look = _Look(plan, progress, Walk(seen, wants(plan, progress)), max(clock, progress.clock))
    look.approvals, look.starts = approvals, wanted_state is RunState.RUN
    if progress.rollback:
        look.undo()
    else:
        look.forward()
    return look.step()


class _Look:
    """One look at a run: its progress as it becomes, and what follows from it."""

    approvals: Collection[str] = ()
    starts: bool = True

    def __init__(self, plan: RunPlan, progress: RunProgress, walk: Walk, clock: float) -> None:
        self._plan, self._former, self._walk, self._clock = plan, progress, walk, clock
        elapsed = clock - progress.clock
        self._stages = list(progress.stages)
        self._members = {one.name: _aged(one, elapsed) for one in progress.members}
        self._undone = {one.name: _aged(one, elapsed) for one in progress.undone}
        self._rollback = progress.rollback
        self._awaits: list[AwaitedTask] = []
        self._halted = ""
        self._phase: RunPhase | None = None
        # A wait counts only while nothing else is waited for: a stop, or a member that is tried again, suspends it.
        current = next((index for index, state in enumerate(self._stages) if not state.ended), None)
        if current is not None and progress.phase is RunPhase.WAITING:
            state = self._stages[current]
            if state.started and self._settled(plan.stages[current].members):
                self._stages[current] = replace(state, waited=state.waited + elapsed)

    def forward(self) -> None:
        """Follow the members that were started, then go on where the run is."""
        removal = RunLane("removal", self._plan.leaving, len(self._plan.leaving))
        # All lanes are followed before one is filled: a stage starts no member while one of another is unfinished.
        self._walk.follow(removal, self._members)
        for stage, state in zip(self._plan.stages, self._stages, strict=True):
            self._walk.follow(_lane(stage), self._members)
            if state.started and not state.ended:
                self._walk.adopt(_lane(stage), self._members)
        for index in range(len(self._stages)):
            if not self._stage(index):
                return
        self._take_turn(removal, self._members)
        if self.starts and self._settled(removal.members):
            self._phase = RunPhase.SUCCEEDED

    def undo(self) -> None:
        """Roll back the touched members: the last stage first, each stage in reverse order."""
        for stage in reversed(self._plan.stages):
            members = tuple(one for one in reversed(stage.members) if one.name in self._undone)
            lane = RunLane("back", members, stage.concurrency, stage.deadline)
            self._walk.follow(lane, self._undone)
            self._take_turn(lane, self._undone)
            if any(self._undone[one.name].outcome is None for one in members):
                return
        if self.starts:
            self._phase = RunPhase.FAILED

    def _take_turn(self, lane: RunLane, table: dict[str, MemberProgress]) -> None:
        """Start members of a lane; a stopped run only takes up those whose works it has written already."""
        (self._walk.fill if self.starts else self._walk.adopt)(lane, table)

    def _stage(self, index: int) -> bool:
        """Whether a stage has ended; go on in it if not."""
        stage, state = self._plan.stages[index], self._stages[index]
        lane = _lane(stage)
        if state.ended:
            return True
        if not state.started:
            # A stage that updates no member needs no approval and no wait.
            if self.starts and all(lane.skips(self._walk.found(one.name)) for one in stage.members):
                self._walk.fill(replace(lane, limit=len(stage.members)), self._members)
                self._stages[index] = replace(state, ended=True)
                return True
            if not self._tasks(index, "before"):
                return False
            self._stages[index] = replace(self._stages[index], started=True)
        # After a retry, members of a later stage may be unfinished while an earlier one is tried again.
        alone = {one.name for one in stage.members}.issuperset(self._walk.flying)
        if self.starts and alone and not self._exceeded(stage):
            self._walk.fill(lane, self._members, lambda: self._exceeded(stage))
        if self._exceeded(stage):
            self._react(stage)
            return False
        if not self._settled(stage.members) or not self._tasks(index, "after"):
            return False
        self._stages[index] = replace(self._stages[index], ended=True)
        return True

    def _settled(self, members: Iterable[PlannedMember]) -> bool:
        return all(self._members[one.name].outcome is not None for one in members)

    def _tasks(self, index: int, when: Literal["before", "after"]) -> bool:
        """Whether the tasks of a stage are done, which they never are while the run is stopped."""
        stage, state = self._plan.stages[index], self._stages[index]
        key = f"{stage.name}.{when}"
        for task in stage.before if when == "before" else stage.after:
            if task.kind is TaskKind.TIMED_WAIT:
                remaining = task.wait - state.waited
                if remaining > EPSILON:
                    self._awaits.append(AwaitedTask(key, task.kind, remaining))
                    self._walk.timers += [remaining] if self.starts else []
            elif key not in self.approvals and key not in state.approvals:
                self._awaits.append(AwaitedTask(key, task.kind))
            elif self.starts and key not in state.approvals:
                self._stages[index] = replace(state, approvals=(*state.approvals, key))
        return self.starts and not self._awaits

    def _failed(self, stage: PlannedStage) -> list[str]:
        return [one.name for one in stage.members if self._members[one.name].outcome is MemberOutcome.FAILED]

    def _exceeded(self, stage: PlannedStage) -> bool:
        """Whether more members of a stage failed than may."""
        return len(self._failed(stage)) > stage.failures

    def _react(self, stage: PlannedStage) -> None:
        """Do what the stage says about too many failures. A stopped run does not begin to roll back."""
        failed = self._failed(stage)
        self._halted = f"stage {stage.name}: {len(failed)} of {len(stage.members)} failed ({counted(failed, _SHOWN)})"
        if stage.on_failure is OnFailure.ABORT:
            self._phase = RunPhase.ABORTED
        elif stage.on_failure is OnFailure.ROLLBACK and self.starts:
            self._rollback = self._halted
            removed = {one.name for one in self._plan.leaving}
            self._undone = {
                one.name: MemberProgress(one.name)
                for one in reversed(self._members.values())
                if one.name not in removed and (one.counter or one.outcome is MemberOutcome.UPDATED)
            }

    def step(self) -> RunStep:
        """The step, with the progress that it leads to."""
        phase = self._phase or self._present_phase()
        progress = RunProgress(
            stages=tuple(self._stages),
            members=tuple(self._members.values()),
            phase=phase,
            why=self._why(phase),
            clock=self._clock,
            rollback=self._rollback,
            undone=tuple(self._undone.values()),
        )
        if phase in _DONE:
            return RunStep(progress, done=_DONE[phase])
        if self._rollback != self._former.rollback:  # what was seen is about other contents: look again at once
            return RunStep(progress, timer=0.0)
        timers = self._walk.timers
        timer = max(0.0, min(timers)) if timers else None
        return RunStep(progress, tuple(self._walk.writes), tuple(self._awaits), timer)

    def _present_phase(self) -> RunPhase:
        if not self.starts:
            return RunPhase.STOPPING if self._walk.flying else RunPhase.STOPPED
        if self._rollback:
            return RunPhase.ROLLING_BACK
        if self._halted:
            return RunPhase.PAUSED
        return RunPhase.WAITING if self._awaits else RunPhase.RUNNING

    def _why(self, phase: RunPhase) -> str:
        busy = [*self._walk.flying, *(one.name for one in self._walk.writes)]
        waits = [f"waits for {counted(busy, _SHOWN)}"] if busy else []
        if phase is RunPhase.WAITING:
            waits = [_task(one) for one in self._awaits]
        if phase in (RunPhase.SUCCEEDED, RunPhase.FAILED):
            waits = _ended(self._undone or self._members)
        because = [self._halted or self._rollback] if self._halted or self._rollback else []
        hint = ["a retry tries them again"] if phase is RunPhase.PAUSED else []
        return "; ".join([*because, *waits, *hint])


def _lane(stage: PlannedStage) -> RunLane:
    return RunLane("forward", stage.members, stage.concurrency, stage.deadline)


def _aged(one: MemberProgress, elapsed: float) -> MemberProgress:
    if not one.counter or one.outcome is not None:
        return one
    failing = None if one.failing is None else one.failing + elapsed
    return replace(one, seen=one.seen + elapsed, failing=failing)


def _ended(table: Mapping[str, MemberProgress]) -> list[str]:
    found = {}
    for outcome in (MemberOutcome.FAILED, MemberOutcome.SKIPPED):
        found[outcome] = [one.name for one in table.values() if one.outcome is outcome]
    return [f"{len(names)} {outcome} ({counted(names, _SHOWN)})" for outcome, names in found.items() if names]


def _task(one: AwaitedTask) -> str:
    if one.kind is TaskKind.APPROVAL:
        return f"waits for approval {one.key}"
    return f"waits {one.remaining:.0f} s after stage {one.key.removesuffix('.after')}"
