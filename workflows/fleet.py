"""A tenant's fleet of instances, or the common pool's: the entity that is always there while anything of it is.

::

    signal ──► acts, round by round (`acting`): repairs, scales, deletes ── nothing left ──► ends
                 │ ▲                        └── after each step, when nothing is open, and fenced off: continues as new
    a rollout    │ │ its report, or it is seen closed
    is wanted    ▼ │
               starts RollingUpdate (ABANDON) or joins it, and only passes reconcile signals (`poke`) on

A rollout that was terminated is started again under its generation; one that was cancelled or aborted stays so.
A reconcile signal is empty: the activity `plan` reads everything from etcd. Exactly one of the two acts; Fleet takes
the epoch over with its first act after a rollout, which fences off whatever that may have left behind.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta
from typing import Any

from temporalio import workflow
from temporalio.exceptions import FailureError, WorkflowAlreadyStartedError, is_cancelled_exception

from wharfinger.workflows.acting import RETRIED, TENANT_KEY, TROUBLE, Acting, begin, closed, grown, retried
from wharfinger.workflows.bugs import BUGS
from wharfinger.workflows.fleet_steps import Fenced
from wharfinger.workflows.waiting import heed_cancellation, until

with workflow.unsafe.imports_passed_through():
    from temporalio.common import SearchAttributePair, TypedSearchAttributes

    from wharfinger.fleet.contracts.actors import (
        ACTOR_RETRY,
        ActorStatus,
        FleetInput,
        RollingUpdateInput,
        RolloutReport,
    )
    from wharfinger.fleet.contracts.fleets import CONTROL_RETRY, PLAN_TIMEOUT, FleetControl, PlanInput
    from wharfinger.fleet.model.rollout import IDLE, LATE, Memory
    from wharfinger.process.failures import parsed
    from wharfinger.process.names import FLEET, ROLLING_UPDATE, rollout_workflow_id

APART = timedelta(seconds=1)
"""Between two reconcile signals that are passed on, at least."""


@workflow.defn(name=FLEET, failure_exception_types=BUGS)
class Fleet:
    """One fleet. Input: `FleetInput`, or a mapping with `tenant`."""

    def __init__(self) -> None:
        self._signalled = False
        self._closed = False
        """Whether the rollout that this run started has ended."""
        self._reports: list[RolloutReport] = []
        self._rollout = 0
        """Generation of the open rollout; 0 = none."""
        self._reported = 0
        """Generation of the last one that reported."""
        self._tenant = ""
        self._cluster = ""
        self._acting: Acting | None = None

    @workflow.signal
    def poke(self) -> None:
        """The reconcile signal: something happened to the fleet, so the run looks at it."""
        self._signalled = True
        if self._acting is not None:
            self._acting.signalled()

    @workflow.signal
    def rolled_out(self, report: RolloutReport) -> None:
        """A rollout is over."""
        self._reports.append(report)

    @workflow.query
    def status(self) -> ActorStatus:
        """What it is doing."""
        if self._acting is not None:
            return self._acting.status()
        doing = f"rollout {self._rollout} is open and acts; reconcile signals are passed on to it"
        return ActorStatus(tenant=self._tenant, role="fleet", generation=self._rollout, doing=doing)

    @workflow.run
    async def run(self, request: Any = None) -> None:
        """Look after the fleet until nothing of it is left."""
        fleet = parsed(FleetInput, request, "a mapping with the tenant of a fleet")
        self._tenant, self._rollout, self._reported = fleet.tenant, fleet.rollout, fleet.reported
        self._signalled = self._signalled or fleet.poked
        again = fleet.model_copy(update={"poked": self._signalled and self._rollout != 0})
        self._cluster, late = begin(fleet.tenant, "fleet", f"/fleet/{fleet.tenant}", None if self._reports else again)
        memory, is_retry = fleet.memory, retried()
        if self._rollout:
            self._closed = is_retry  # the report may have come to the run that failed
            memory = await self._wait_for_rollout(memory)
            self._continue(memory)
        epoch = 0 if is_retry else fleet.epoch
        acting = self._acting = Acting("fleet", fleet.tenant, self._cluster, memory, epoch=epoch)
        if is_retry or late > LATE:
            acting.lost_sight(max(late, 2 * LATE))
        try:
            self._rollout = await self._act(acting)
        except Fenced as fenced:
            workflow.logger.warning("fleet_fenced error=%r", str(fenced))
            self._acting = None
            await workflow.sleep(TROUBLE, summary="another actor took over: looks again who acts")
            self._continue(acting.memory)
        if self._rollout:
            self._acting = None
            self._continue(await self._wait_for_rollout(replace(acting.memory, rollout=self._rollout)))

    def _continue(self, memory: Memory, epoch: int = 0) -> None:
        """Go on with a fresh history. Reports of rollouts that this run knew nothing of are about nothing any more."""
        workflow.continue_as_new(
            FleetInput(
                tenant=self._tenant,
                memory=memory,
                rollout=self._rollout,
                epoch=epoch,
                reported=self._reported,
                poked=self._signalled and self._rollout != 0,
            ),
            retry_policy=ACTOR_RETRY,
        )

    # --- acting -------------------------------------------------------------------------------

    async def _act(self, acting: Acting) -> int:
        """Act until a rollout is open (its generation), or nothing is left (0)."""
        while True:
            await acting.wait()
            if acting.complete:
                self._continue(acting.memory, acting.epoch)
            planned = await acting.look()
            if planned is None:
                continue
            if planned.open_rollout not in (0, self._reported):
                return planned.open_rollout
            if not await acting.follow(planned):
                continue
            plan = planned.plan
            if plan.ended:
                if acting.actor.due:  # it may be wanted again: the sender of a reconcile signal relies on it
                    self._continue(plan.memory)
                return 0
            if plan.rollout and acting.actor.idle:
                await self._start(plan.rollout, acting.memory)
                return plan.rollout
            if acting.quiet:
                self._continue(acting.memory, acting.epoch)

    async def _start(self, generation: int, memory: Memory) -> None:
        """Start the rollout, or join the one that is open."""
        tenant = self._tenant
        while True:
            try:
                child = await workflow.start_child_workflow(
                    ROLLING_UPDATE,
                    RollingUpdateInput(tenant=tenant, generation=generation, memory=memory),
                    id=rollout_workflow_id(self._cluster, tenant, generation),
                    result_type=RolloutReport,
                    retry_policy=ACTOR_RETRY,
                    cancellation_type=workflow.ChildWorkflowCancellationType.ABANDON,
                    parent_close_policy=workflow.ParentClosePolicy.ABANDON,
                    search_attributes=TypedSearchAttributes([SearchAttributePair(TENANT_KEY, tenant)]),
                    static_summary=f"rollout {generation} of {tenant}",
                    static_details=f"Brings what the fleet's object of {tenant} wanted at revision {generation} of "
                    "etcd, or what it wants by then, to all instances.",
                )
            except WorkflowAlreadyStartedError:
                return
            except FailureError as error:
                if is_cancelled_exception(error):
                    raise asyncio.CancelledError from error
                workflow.logger.warning("rollout_not_started error=%r", str(error))
                await workflow.sleep(TROUBLE, summary="the rollout was not started: tries again")
            else:
                child.add_done_callback(self._child_closed)
                return

    def _child_closed(self, child: asyncio.Task[Any]) -> None:
        self._closed = True
        if not child.cancelled():
            child.exception()  # how it ended is in its report, or does not matter

    # --- while a rollout acts -----------------------------------------------------------------

    async def _wait_for_rollout(self, memory: Memory) -> Memory:
        """Pass reconcile signals on until the rollout is over; returns the memory of then."""
        details = f"Rollout {self._rollout} is open and acts. Reconcile signals are passed on to it."
        workflow.set_current_details(details)
        while True:
            heed_cancellation()
            await until(
                lambda: self._signalled or self._closed or bool(self._reports),
                timedelta(seconds=IDLE),
                summary=f"sees whether rollout {self._rollout} still runs",
            )
            passed_on = self._signalled and not self._closed and not self._report() and await self._pass_on()
            running = passed_on or bool(self._report()) or await self._runs(memory)
            report = self._report()  # it may have come with the answer
            if report is not None:
                self._reported, self._rollout = self._rollout, 0
                return closed(report.memory)
            if not running:
                self._rollout = 0
                return self._unseen(memory)
            if grown():
                self._continue(memory)

    def _report(self) -> RolloutReport | None:
        """The report of the open rollout; others are about nothing any more."""
        found = [report for report in self._reports if report.generation == self._rollout]
        self._reports = found
        return found[-1] if found else None

    async def _pass_on(self) -> bool:
        """Signal the rollout; returns whether there is one. Then a pause, unless it reports."""
        self._signalled = False
        rollout = workflow.get_external_workflow_handle(rollout_workflow_id(self._cluster, self._tenant, self._rollout))
        try:
            await rollout.signal("poke")
        except FailureError as error:
            if is_cancelled_exception(error):
                raise asyncio.CancelledError from error
            return False
        heed_cancellation()
        await until(lambda: self._closed or bool(self._reports), APART, summary="passes on no more for 1 s")
        return True

    async def _runs(self, memory: Memory) -> bool:
        """Whether the rollout's workflow is open."""
        self._closed = False
        try:
            planned = await workflow.execute_activity_method(
                FleetControl.plan,
                PlanInput(tenant=self._tenant, role="fleet", generation=self._rollout, memory=memory),
                start_to_close_timeout=PLAN_TIMEOUT,
                retry_policy=CONTROL_RETRY,
                summary=f"look whether rollout {self._rollout} runs",
            )
        except FailureError as error:
            if is_cancelled_exception(error):
                raise asyncio.CancelledError from error
            workflow.logger.warning("rollout_state_unknown error=%r", str(error))
            return True
        if planned.rollout_failed and workflow.patched(RETRIED):  # its policy did not retry it: never in a hurry
            await workflow.sleep(TROUBLE, summary=f"rollout {self._rollout} failed: starts it again")
        return planned.rollout_running

    def _unseen(self, memory: Memory) -> Memory:
        """What was seen before a rollout that ended without a report: there was no look since.

        Memory keeps that a rollout was open: the planner has it started again, or records that it was aborted.
        """
        blind = Acting("fleet", self._tenant, self._cluster, memory)
        blind.lost_sight(2 * LATE)
        return blind.memory
