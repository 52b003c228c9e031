"""One rollout of a fleet: while it is open it alone acts on the slots, repairs and scaling included.

::

    start (by Fleet) ── takes the epoch ──► looks and acts, round by round (`acting`) ──► done: reports to Fleet
                                                 │ │ └── after each step, when nothing is open: continues as new
                                                 │ └──── fenced off: ends without a word
                                                 ├────── cancelled: gives up, drops newcomers, records aborted, reports
                                                 └────── failed, timed out: runs again by its retry policy

What is decided comes from the activity `plan`; a newer target is gone on with by the same run. Its report is a signal
to Fleet's workflow id, whichever run that is by then.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any, NoReturn

from temporalio import workflow
from temporalio.exceptions import FailureError

from wharfinger.workflows.acting import Acting, begin, closed, retried
from wharfinger.workflows.bugs import BUGS
from wharfinger.workflows.fleet_steps import Fenced

with workflow.unsafe.imports_passed_through():
    from wharfinger.fleet.contracts.actors import ACTOR_RETRY, ActorStatus, RollingUpdateInput, RolloutReport
    from wharfinger.fleet.contracts.fleets import Planned
    from wharfinger.fleet.model.rollout import LATE, Outcome, Plan, Writes
    from wharfinger.process.failures import parsed
    from wharfinger.process.names import ROLLING_UPDATE, fleet_workflow_id


@workflow.defn(name=ROLLING_UPDATE, failure_exception_types=BUGS)
class RollingUpdate:
    """A rollout of one generation. Input: `RollingUpdateInput`."""

    def __init__(self) -> None:
        self._signalled = False
        self._acting: Acting | None = None

    @workflow.signal
    def poke(self) -> None:
        """The reconcile signal: something happened to the fleet, so the run looks at it."""
        self._signalled = True
        if self._acting is not None:
            self._acting.signalled()

    @workflow.query
    def status(self) -> ActorStatus | None:
        """What it is doing; None before it began."""
        return self._acting.status() if self._acting is not None else None

    @workflow.run
    async def run(self, request: Any = None) -> RolloutReport:
        """Roll out until it is everywhere, or given up; answers how it ended, as it told Fleet."""
        rollout = parsed(RollingUpdateInput, request, "a mapping with tenant and generation of a rollout")
        tenant, generation = rollout.tenant, rollout.generation
        cluster, late = begin(tenant, "rollout", f"/rollout/{tenant}/{generation}", rollout)
        again = retried()
        epoch = 0 if again else rollout.epoch
        acting = self._acting = Acting("rollout", tenant, cluster, rollout.memory, generation=generation, epoch=epoch)
        if again or late > LATE:
            acting.lost_sight(max(late, 2 * LATE))
        try:
            report = await self._roll_out(acting, rollout)
        except Fenced as fenced:
            return RolloutReport(generation=generation, outcome="aborted", why=str(fenced), memory=acting.memory)
        except asyncio.CancelledError:
            aborted = await self._abort(acting, generation)
            if aborted is not None:
                await self._tell(cluster, tenant, aborted)
            raise
        await self._tell(cluster, tenant, report)
        return report

    async def _roll_out(self, acting: Acting, rollout: RollingUpdateInput) -> RolloutReport:
        while True:
            await acting.wait()
            if acting.complete:
                go_on(acting, rollout)
            planned = await acting.look()
            if planned is None or not await acting.follow(planned):
                continue
            done = planned.plan.done
            if done is not None and acting.actor.idle:
                memory = closed(acting.memory)
                return RolloutReport(generation=rollout.generation, outcome=done, why=reason(planned), memory=memory)
            if acting.quiet:
                go_on(acting, rollout)

    async def _abort(self, acting: Acting, generation: int) -> RolloutReport | None:
        """Asked for from outside: leave nothing half done. None where it never acted, or another actor does.

        The run was cancelled once and is not again, so what is awaited here comes to its end.
        """
        why = workflow.cancellation_reason() or "the rollout was cancelled"
        target = acting.memory.target
        acting.steps.give_up()
        try:
            await workflow.wait_condition(lambda: acting.actor.idle)
            if not acting.epoch or acting.steps.fenced:
                return None
            for step in acting.steps.unready:
                acting.steps.start(step, Planned(plan=Plan(memory=acting.memory), read_at=0))
            await workflow.wait_condition(lambda: acting.actor.idle)
            if target:
                await acting.record(Writes(outcomes=(Outcome(target, "aborted", why),)))
        except (Fenced, FailureError) as error:
            workflow.logger.warning("rollout_cleanup_failed error=%r", str(error))
            return None
        memory = replace(closed(acting.memory), frozen=target)
        return RolloutReport(generation=generation, outcome="aborted", why=why, memory=memory)

    async def _tell(self, cluster: str, tenant: str, report: RolloutReport) -> None:
        """Report to whichever run of Fleet there is; where there is none, the next one sees that this is closed."""
        fleet = workflow.get_external_workflow_handle(fleet_workflow_id(cluster, tenant))
        try:
            await fleet.signal("rolled_out", report)
        except FailureError as error:
            workflow.logger.warning("fleet_signal_failed error=%r", str(error))


def go_on(acting: Acting, rollout: RollingUpdateInput) -> NoReturn:
    """Continue with a fresh history."""
    changed = {"memory": acting.memory, "continued": True, "epoch": acting.epoch}
    workflow.continue_as_new(rollout.model_copy(update=changed), retry_policy=ACTOR_RETRY)


def reason(planned: Planned) -> str:
    """Why it ended, in a sentence."""
    writes = planned.plan.writes
    said = [one.why for one in writes.outcomes if one.why]
    return said[-1] if said else writes.status.phase if writes.status is not None else ""
