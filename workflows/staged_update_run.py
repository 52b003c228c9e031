"""Delivers one snapshot of one placement stage by stage; open while the run is under way or waits.

::

    plan_run ── no plan yet ──► take_snapshot, where none is named ──► begin_run ──┐
      │  └───── progress ─────► record_run ──► write_run_works (60 at a time) ─────┤
      ▲                                                                            │
      └─────── await_run ◄── members, an approval, a wait, a turn is awaited ◄─────┘
    ends: succeeded, failed, aborted, superseded, gone; stopped and planned until its object says Run

Only this order is decided here. What the run waits for and writes comes back from `plan_run` and is a fact in the
history. Waits are slices: the seen seconds of each are recorded with the progress, so a wait keeps its remainder over a
stop and over crashes of hubs, etcd and Temporal. A new run begins after each stage.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any, NoReturn

from temporalio import workflow
from temporalio.exceptions import ApplicationError

with workflow.unsafe.imports_passed_through():
    from wharfinger.placement.contracts.placement_rollouts import (
        AT_ONCE,
        SLICE,
        TakeSnapshotInput,
    )
    from wharfinger.placement.contracts.placements import latest
    from wharfinger.placement.contracts.update_runs import (
        IDLE_SLICE,
        RUN_TIMEOUT,
        SHORTEST,
        ApprovedRun,
        ApproveRunInput,
        AwaitedRun,
        AwaitRunInput,
        BeginRunInput,
        PlannedRun,
        PlanRunInput,
        RecordRunInput,
        RunApproval,
        UpdateRunActivities,
        UpdateRunInput,
        UpdateRunResult,
        WriteRunWorksInput,
    )
    from wharfinger.process.failures import has_chain_policy, parsed
    from wharfinger.process.names import STAGED_UPDATE_RUN
    from wharfinger.workflows.bugs import BUGS
    from wharfinger.workflows.parking import this_run
    from wharfinger.workflows.placement_runs import CONTENDED, PlacementRun, go_on
    from wharfinger.workflows.waiting import until
EVENTS = 3000
"""Of a history, after which the run continues as a new one."""
REST = timedelta(seconds=5)
"""After a look at selected objects that cannot be placed; the next plan says what is waited for."""


@workflow.defn(name=STAGED_UPDATE_RUN, failure_exception_types=BUGS)
class StagedUpdateRun(PlacementRun):
    """One update run. Input: `UpdateRunInput`, or a mapping with `placement`, `run` and `identity`."""

    def __init__(self) -> None:
        super().__init__()
        self._given = UpdateRunInput.model_construct(placement="", run="", identity=0)
        self._elapsed = 0.0
        self._ended_stages = -1
        self._approvals: tuple[str, ...] = ()
        self._waits_for = "it has not begun"
        self._waiting: workflow.ActivityHandle[AwaitedRun] | None = None

    # --- messages -----------------------------------------------------------------------------

    @workflow.update
    async def approve(self, approval: RunApproval) -> ApprovedRun:
        """Let a stage start, or end. Refused while the stage does not wait for it."""
        approved = await self._call(
            UpdateRunActivities.approve_run,
            ApproveRunInput(**self._which(), approval=approval),
            f"{approval.key} approved by {approval.who or 'a client'}",
            RUN_TIMEOUT,
        )
        self._approvals = tuple(key for key in self._approvals if key != approval.key)
        self._poked = True
        return approved

    @approve.validator
    def check_approval(self, approval: RunApproval) -> None:
        """Refuse an approval that the run does not wait for."""
        if approval.key not in self._approvals:
            raise ApplicationError(
                f"run {self._given.run} does not wait for approval {approval.key}; it is: {self._waits_for}",
                type="NotAwaited",
                non_retryable=True,
            )

    # --- the run ------------------------------------------------------------------------------

    @workflow.run
    async def run(self, request: Any = None) -> UpdateRunResult:
        """Follow the plan until the run ends, or its object stops it."""
        given = parsed(UpdateRunInput, request, "a mapping with placement, run and identity")
        self._given = given
        self._seen, self._elapsed, self._waves = given.seen, given.elapsed, given.waves
        if not has_chain_policy(workflow.info().retry_policy):
            await self._go_on(request)
        result = await self._to_its_end(self._delivered())
        workflow.set_current_details(f"{result.outcome}: {result.why}" if result.why else result.outcome)
        return result

    async def _delivered(self) -> UpdateRunResult:
        result = await self._deliver()
        await workflow.wait_condition(workflow.all_handlers_finished)
        return result

    async def _deliver(self) -> UpdateRunResult:
        while True:
            planned = await self._plan()
            self._approvals, self._waits_for = planned.approvals, message(planned)
            workflow.set_current_details(self._waits_for)
            self._elapsed = self._elapsed if planned.action == "step" else 0.0
            done = await self._follow(planned)
            if done and planned.ends is not None:
                self._stop_waiting()
                return UpdateRunResult(outcome=planned.ends, waves=self._waves, why=planned.why)
            stage_over = done and planned.ended_stages > self._ended_stages >= 0
            if done:
                self._ended_stages = planned.ended_stages if planned.action == "step" else -1
            info = workflow.info()
            long = info.get_current_history_length() > EVENTS or info.is_continue_as_new_suggested()
            if stage_over or long:
                await self._go_on(self._next_input())
            if done and planned.action != "begin" and not planned.writes and planned.timer != 0.0:
                await self._wait(planned)

    async def _follow(self, planned: PlannedRun) -> bool:
        """Make the plan, or record progress and write works; whether it was done as planned."""
        if planned.action == "begin":
            return await self._begin(planned)
        if planned.action != "end" and not planned.progress:
            return True
        fence = await self._record(planned)
        if fence and await self._write(planned, fence):
            return True
        await workflow.sleep(CONTENDED)
        return False

    # --- steps --------------------------------------------------------------------------------

    def _which(self) -> dict[str, Any]:
        """What every request of this run contains."""
        which = {"placement": self._given.placement, "run": self._given.run, "identity": self._given.identity}
        return {**which, "seen": self._seen, **this_run()}

    async def _plan(self) -> PlannedRun:
        request = PlanRunInput(**self._which(), elapsed=self._elapsed)
        return await self._look(UpdateRunActivities.plan_run, request, f"{self._given.run}: what follows")

    async def _begin(self, planned: PlannedRun) -> bool:
        number, rollout = planned.named, planned.rollout
        if number is None:
            request = TakeSnapshotInput.alike(planned, placement=self._given.placement, **this_run(), role="run")
            taken = await self._snapshot_taken(request)
            if taken.outcome not in ("taken", "same"):
                workflow.set_current_details(taken.why or "others were first")
                if taken.outcome == "contended":
                    await workflow.sleep(CONTENDED)
                else:
                    await self._rest()
                return False
            number, rollout = taken.number, taken.seen.hub
        begun = await self._call(
            UpdateRunActivities.begin_run,
            BeginRunInput(**self._which(), snapshot=number, decision=planned.decision, rollout=rollout),
            f"{self._given.run}: plan its stages for snapshot {number}",
            RUN_TIMEOUT,
        )
        if begun.outcome == "contended":
            await workflow.sleep(CONTENDED)
        return begun.outcome != "contended"

    async def _record(self, planned: PlannedRun) -> int:
        """The fence of the wave, 0 when others were first."""
        self._waves += 1
        bare = planned.model_copy(update={"writes": ()})  # thousands of members would travel twice
        recorded = await self._call(
            UpdateRunActivities.record_run,
            RecordRunInput(**self._which(), planned=bare, wave=f"{workflow.info().run_id}/{self._waves}"),
            message(planned),
            RUN_TIMEOUT,
        )
        if recorded.outcome == "contended":
            return 0
        self._elapsed = 0.0
        return max(recorded.rollout, 1)

    async def _write(self, planned: PlannedRun, fence: int) -> bool:
        for first in range(0, len(planned.writes), AT_ONCE):
            writes = planned.writes[first : first + AT_ONCE]
            written = await self._call(
                UpdateRunActivities.write_run_works,
                WriteRunWorksInput(**self._which(), writes=writes, decision=planned.decision, rollout=fence),
                ", ".join(one.member for one in writes),
                RUN_TIMEOUT,
            )
            if written.moved:
                return False
        return True

    async def _wait(self, planned: PlannedRun) -> None:
        """Until something can go on, a message, or the time is up. A message does not end the wait under way."""
        if self._waiting is None:
            seconds = IDLE_SLICE if planned.timer is None else max(SHORTEST, min(SLICE, planned.timer))
            request = AwaitRunInput(**self._which(), elapsed=self._elapsed, seconds=seconds)
            self._waiting = self._awaiting(UpdateRunActivities.await_run, request, message(planned), IDLE_SLICE)
        waiting = self._waiting
        await workflow.wait_condition(lambda: waiting.done() or self._poked)
        self._poked = False
        if waiting.done():
            self._waiting = None
            awaited = await waiting
            self._seen = latest(self._seen, awaited.seen)
            self._elapsed += awaited.elapsed

    async def _rest(self) -> None:
        """A moment, or until a message."""
        await until(lambda: self._poked, REST)
        self._poked = False

    def _stop_waiting(self) -> None:
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None

    def _next_input(self) -> UpdateRunInput:
        return self._given.model_copy(update={"seen": self._seen, "elapsed": self._elapsed, "waves": self._waves})

    async def _go_on(self, request: Any) -> NoReturn:
        """Continue with a fresh history."""
        self._stop_waiting()
        await workflow.wait_condition(workflow.all_handlers_finished)
        go_on(self._given.placement, request)


def message(planned: PlannedRun) -> str:
    """A plan as a sentence."""
    if planned.action != "step":
        return planned.why
    parts = [f"{planned.phase}: {planned.updated} of {planned.members} members"]
    parts += [f"{planned.ended_stages} of {planned.stages} stages"]
    parts += [f"writes {', '.join(one.member for one in planned.writes)}"] if planned.writes else []
    parts += [planned.why] if planned.why else []
    return "; ".join(parts)
