"""Brings to the members of one placement what was decided, within its budget; open only while something goes on.

::

    plan_rollout ── the selected objects are others ──► take_snapshot ──┐
      │   └──────── works are to change ──────────────► write_works ────┤ a wave
      ▲                                                                 │
      └── await_results ◄── something is awaited ◄──────────────────────┘
    nothing to do, nothing awaited ──► completes: done, gone; awaited for five minutes in vain ──► stalled

Only this order is decided here. What is written, to whom and why comes back from `plan_rollout` and is a fact in the
history; contents of objects are in none of it. A hub starts a rollout only where it has a step or a timer.
"""

from __future__ import annotations

from typing import Any

from temporalio import workflow

with workflow.unsafe.imports_passed_through():
    from wharfinger.placement.contracts.placement_rollouts import (
        AT_ONCE,
        EVENTS,
        PATIENCE,
        SLICE,
        WRITE_TIMEOUT,
        AwaitResultsInput,
        ForgetContentsInput,
        PlannedRollout,
        PlannedStep,
        PlanRolloutInput,
        RolloutActivities,
        RolloutInput,
        RolloutResult,
        TakeSnapshotInput,
        WriteWorksInput,
    )
    from wharfinger.placement.contracts.placements import latest
    from wharfinger.process.failures import has_chain_policy, parsed
    from wharfinger.process.names import ROLL_OUT_PLACEMENT
    from wharfinger.workflows.bugs import BUGS
    from wharfinger.workflows.parking import this_run
    from wharfinger.workflows.placement_runs import CONTENDED, PlacementRun, go_on


@workflow.defn(name=ROLL_OUT_PLACEMENT, failure_exception_types=BUGS)
class RollOutPlacement(PlacementRun):
    """One rollout of one placement. Input: `RolloutInput`, or a mapping with `placement`."""

    def __init__(self) -> None:
        super().__init__()
        self._reference = ""

    @workflow.run
    async def run(self, request: Any = None) -> RolloutResult:
        """Roll out until nothing is left to do, or to wait for."""
        given = parsed(RolloutInput, request, "a mapping with the reference of a placement")
        if not has_chain_policy(workflow.info().retry_policy):
            go_on(given.placement, request)
        self._reference, self._seen, self._waves = given.placement, given.seen, given.waves
        result = await self._to_its_end(self._roll_out())
        workflow.set_current_details(result.why)
        return result

    async def _roll_out(self) -> RolloutResult:
        vain = 0.0
        while True:
            self._poked = False
            planned = await self._plan()
            workflow.set_current_details(message(planned))
            if planned.snapshot_is_due:
                await self._take_snapshot(planned)
            elif planned.forgets:
                await self._forget(planned)
            elif planned.steps:
                vain = 0.0
                await self._write(planned)
            else:
                awaited = planned.waiting or planned.away
                if not planned.timers and (planned.gone or not awaited or vain >= PATIENCE):
                    return ended(planned, self._waves)
                began = workflow.time()
                await self._wait(min([*planned.timers, SLICE]))
                vain += workflow.time() - began
            info = workflow.info()
            if info.get_current_history_length() > EVENTS or info.is_continue_as_new_suggested():
                go_on(self._reference, RolloutInput(placement=self._reference, seen=self._seen, waves=self._waves))

    async def _plan(self) -> PlannedRollout:
        request = PlanRolloutInput(placement=self._reference, seen=self._seen, **this_run())
        return await self._look(RolloutActivities.plan_rollout, request, f"{self._reference}: what follows")

    async def _take_snapshot(self, planned: PlannedRollout) -> None:
        taken = await self._snapshot_taken(TakeSnapshotInput.alike(planned, placement=self._reference, **this_run()))
        if taken.outcome in ("contended", "gone"):
            await workflow.sleep(CONTENDED)

    async def _forget(self, planned: PlannedRollout) -> None:
        forgotten = await self._call(
            RolloutActivities.forget_contents,
            ForgetContentsInput(placement=self._reference, decision=planned.decision),
            f"{self._reference}: remove its snapshots",
        )
        if forgotten.outcome == "contended":
            await workflow.sleep(CONTENDED)

    async def _write(self, planned: PlannedRollout) -> None:
        fence, run = planned.rollout, this_run()
        for first in range(0, len(planned.steps), AT_ONCE):
            steps = planned.steps[first : first + AT_ONCE]
            self._waves += 1
            request = WriteWorksInput.alike(
                planned,
                placement=self._reference,
                steps=steps,
                rollout=fence,
                wave=f"{run['run_id']}/{self._waves}",
                **run,
            )
            summary = f"snapshot {planned.snapshot}: {listed(steps)}"
            written = await self._call(RolloutActivities.write_works, request, summary, WRITE_TIMEOUT)
            if written.outcome == "contended" or written.moved:
                await workflow.sleep(CONTENDED)
                return
            fence = written.rollout

    async def _wait(self, seconds: float) -> None:
        """Until something can go on, a signal, or the time is up."""
        if self._poked:
            return
        request = AwaitResultsInput(placement=self._reference, seen=self._seen, seconds=seconds)
        summary = f"{self._reference}: wait for results"
        waiting = self._awaiting(RolloutActivities.await_results, request, summary, SLICE)
        await workflow.wait_condition(lambda: waiting.done() or self._poked)
        if not waiting.done():
            waiting.cancel()
            return
        awaited = await waiting
        self._seen = latest(self._seen, awaited.seen)


def listed(steps: tuple[PlannedStep, ...]) -> str:
    """Steps as a sentence, such as `update a, b; remove c`."""
    kinds: dict[str, list[str]] = {}
    for step in steps:
        word = step.want if step.want == "release" else step.kind.value
        kinds.setdefault(word, []).append(step.member)
    return "; ".join(f"{kind} {', '.join(members)}" for kind, members in kinds.items())


def message(planned: PlannedRollout) -> str:
    """A plan as a sentence."""
    parts = [f"snapshot {planned.snapshot}{' (pinned)' if planned.pinned else ''}"] if planned.snapshot else []
    parts.append(f"{planned.ready} of {planned.target} ready (floor {planned.floor}, ceiling {planned.ceiling})")
    parts += [listed(planned.steps)] if planned.steps else []
    parts += [f"waits for {', '.join(planned.waiting)}"] if planned.waiting else []
    parts += [f"no agent: {', '.join(planned.away)}"] if planned.away else []
    parts += [f"failed: {', '.join(planned.failed)}"] if planned.failed else []
    parts += [f"{planned.held} held by the budget"] if planned.held else []
    parts += [planned.trouble] if planned.trouble else []
    return "; ".join(parts)


def ended(planned: PlannedRollout, waves: int) -> RolloutResult:
    """How a rollout without a step and a timer ends."""
    if planned.gone:
        return RolloutResult(outcome="gone", waves=waves, why="nothing of it is on any member")
    open_ = planned.waiting or planned.away or planned.failed or planned.held or planned.trouble
    outcome = "stalled" if open_ else "done"
    return RolloutResult(outcome=outcome, snapshot=planned.snapshot, waves=waves, why=message(planned))
