"""The steps of an actor as tasks: which activities a step is, and what its end says.

::

    Up      grant_instance ─► create_instance (host) ─► await_ready            ready · ended · not-granted · refused
    Retire  drain_instance ─► (still there) kill_instance (host)               gone · moved · silent
    Drop    record_fleet, the fence ─► kill_instance (host)                    gone · silent

An `Up` may be given up at any time: what it granted stays granted, and the next plan drops it. Drains and kills finish;
only a run that is to be continued leaves drains to the next one, which goes on with them: its grant says drain.
A step never decides: whatever it finds, it ends, and the actor looks again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Any

from temporalio import workflow
from temporalio.exceptions import ActivityError, ApplicationError, TimeoutType, is_cancelled_exception
from temporalio.exceptions import TimeoutError as ActivityTimeoutError

from wharfinger.workflows import fleet_sentences as sentences

with workflow.unsafe.imports_passed_through():
    from wharfinger.fleet.contracts.fleets import (
        CONTROL_RETRY,
        CREATE_RETRY,
        HEARTBEAT,
        KILL_RETRY,
        WRITE_TIMEOUT,
        AwaitInput,
        Created,
        CreateInput,
        CreateOutcome,
        DrainInput,
        DrainOutcome,
        Ended,
        FleetControl,
        FleetFailure,
        FleetHost,
        Granted,
        GrantInput,
        KillInput,
        Planned,
        Ready,
        ReadyOutcome,
        RecordInput,
        StillThere,
    )
    from wharfinger.fleet.deciding.actor import ActorState, StepResult
    from wharfinger.fleet.model.rollout import Drop, Retire, Up
    from wharfinger.process.names import host_queue

REFUSED = (FleetFailure.UNKNOWN_VERSION, FleetFailure.SECRET_MISSING, FleetFailure.CANNOT_START)
"""What a host refuses for good."""
CREATE_TIMEOUT = timedelta(seconds=60)
"""Of one try."""
AWAIT_TIMEOUT = timedelta(days=1)
"""Of one try; the planner's deadline comes long before."""
SLACK = 60.0
"""Seconds of a try beyond what the activity waits for."""
FINISHED = workflow.ActivityCancellationType.WAIT_CANCELLATION_COMPLETED
"""Of what changes something: who gives it up waits until it is known whether it did."""

Step = Up | Retire | Drop


class Fenced(Exception):
    """Another actor took over: this one stops."""


def is_fenced(error: BaseException) -> bool:
    """Whether something failed because another actor took over."""
    cause = error.cause if isinstance(error, ActivityError) else error
    return isinstance(cause, ApplicationError) and cause.type == FleetFailure.FENCED


@dataclass(slots=True)
class OpenStep:
    """A step that is being taken."""

    step: Step
    incarnation: int
    """0 = not granted yet."""
    given_up: bool = False
    task: asyncio.Task[StepResult] | None = None


class Steps:
    """The open steps of one actor."""

    def __init__(self, actor: ActorState, tenant: str, cluster: str, epoch: int) -> None:
        self.epoch = epoch
        self.ended = 0
        """How many ended."""
        self.left = 0
        """How many of them took an instance away: then a change is complete."""
        self.fenced = ""
        """Why the actor is to stop; empty = it is not."""
        self.unready: list[Drop] = []
        """How to drop what these steps granted, what was given up since, and was not ready. What the planner gave up
        is its own to judge once it looks again: it may serve by then."""
        self._actor = actor
        self._tenant = tenant
        self._cluster = cluster
        self._open: dict[int, OpenStep] = {}

    def __len__(self) -> int:
        return len(self._open)

    def start(self, step: Step, planned: Planned) -> None:
        """Start a step's task."""
        key = self._actor.begun(step)
        current = self._open[key] = OpenStep(step, step.incarnation)
        current.task = asyncio.create_task(self._program(key, current, planned))
        current.task.add_done_callback(partial(self._done, key))

    def give_up(self, slot: int | None = None) -> None:
        """Cancel what brings an instance up, in one slot or in all."""
        self.unready.clear()
        for current in self._open.values():
            wanted = isinstance(current.step, Up) and slot in (None, current.step.slot)
            if wanted and not current.given_up and current.task is not None:
                current.given_up = True
                current.task.cancel()

    @property
    def retiring(self) -> bool:
        """Whether an instance that was asked to leave is waited for."""
        return any(isinstance(current.step, Retire) and not current.given_up for current in self._open.values())

    def places(self, most: int) -> tuple[int, int]:
        """How many more may be open of those that bring up, and of the others, where `most` of either may be."""
        ups = sum(isinstance(current.step, Up) for current in self._open.values())
        return max(most - ups, 0), max(most - (len(self._open) - ups), 0)

    def leave(self) -> None:
        """Stop waiting for instances that were asked to leave; the next plan resumes that."""
        for current in self._open.values():
            if isinstance(current.step, Retire) and not current.given_up and current.task is not None:
                current.given_up = True
                current.task.cancel()

    def _done(self, key: int, task: asyncio.Task[StepResult]) -> None:
        """A step is over, however; also one that was cancelled before it began."""
        current = self._open.pop(key)
        result = self._result(current, task)
        step = current.step
        granted_here = current.incarnation != step.incarnation
        if current.given_up and granted_here and result.kind != "ready":
            self.unready.append(Drop(step.slot, current.incarnation, step.host, why="it was given up"))
        self._actor.ended(key, result)
        self.ended += 1
        self.left += result.kind == "gone"

    def _result(self, current: OpenStep, task: asyncio.Task[StepResult]) -> StepResult:
        error = None if task.cancelled() else task.exception()
        if task.cancelled() or (error is not None and is_cancelled_exception(error)):
            return StepResult("cancelled", incarnation=current.incarnation)
        if error is None:
            return task.result()
        if is_fenced(error):
            self.fenced = self.fenced or str(error.__cause__ or error)
        else:
            workflow.logger.warning("fleet_step_failed error=%r", str(error))
        return StepResult("moved", incarnation=current.incarnation, why=str(error))

    # --- programs -----------------------------------------------------------------------------

    def _program(self, key: int, current: OpenStep, planned: Planned) -> Coroutine[Any, Any, StepResult]:
        match current.step:
            case Up() as step:
                return self._up(key, current, step, planned)
            case Retire() as step:
                return self._retire(step, planned)
            case Drop() as step:
                return self._drop(step, planned)

    async def _up(self, key: int, current: OpenStep, step: Up, planned: Planned) -> StepResult:
        if not current.incarnation:
            current.incarnation = await self._grant(step, planned)
            if not current.incarnation:
                return StepResult("moved")
            self._actor.granted(key, current.incarnation)
        incarnation = current.incarnation
        if current.given_up:  # asked for while the grant was out
            return StepResult("cancelled", incarnation=incarnation)
        try:
            created = await self._create(step, incarnation, planned)
        except ActivityError as error:
            return host_failed(error, incarnation)
        if current.given_up:
            return StepResult("cancelled", incarnation=incarnation)
        outcome = await self._await(step, incarnation, planned) if isinstance(created, Created) else created
        match outcome:
            case Ready():
                return StepResult("ready", outcome.mod_revision, incarnation, waited=planned.min_ready)
            case Ended():
                return StepResult("ended", incarnation=incarnation, why=outcome.detail)
            case _:
                return StepResult("not-granted", incarnation=incarnation)

    async def _retire(self, step: Retire, planned: Planned) -> StepResult:
        timeout, kill_timeout = left(step.waited, planned)
        outcome = await self._drain(step, planned, timeout)
        if outcome.kind == "moved":
            return StepResult("moved", incarnation=step.incarnation, why=outcome.what)
        if isinstance(outcome, StillThere):
            return await self._kill(step, planned, kill_timeout)
        return StepResult("gone", incarnation=step.incarnation)

    async def _drop(self, step: Drop, planned: Planned) -> StepResult:
        recorded = await workflow.execute_activity_method(
            FleetControl.record_fleet,
            RecordInput(
                tenant=self._tenant,
                role=self._actor.role,
                epoch=self.epoch,
                revoke=((step.slot, step.incarnation),),
                registered=step.registered,
                lost="" if step.kill else step.host,
            ),
            start_to_close_timeout=WRITE_TIMEOUT,
            retry_policy=CONTROL_RETRY,
            cancellation_type=FINISHED,
            summary=sentences.revoking(step),
        )
        if recorded.moved:
            return StepResult("moved", incarnation=step.incarnation)
        if not step.kill:
            return StepResult("gone", incarnation=step.incarnation)
        return await self._kill(step, planned, 0.0)

    # --- activities ---------------------------------------------------------------------------

    async def _grant(self, step: Up, planned: Planned) -> int:
        """The incarnation; 0 = what was compared has moved."""
        outcome = await workflow.execute_activity_method(
            FleetControl.grant_instance,
            GrantInput(
                tenant=self._tenant,
                epoch=self.epoch,
                slot=step.slot,
                revision=step.revision,
                host=step.host,
                identity=planned.identity,
                settle=planned.min_ready if step.settle else 0.0,
                assign=step.assign,
                after=step.after,
            ),
            start_to_close_timeout=WRITE_TIMEOUT,
            retry_policy=CONTROL_RETRY,
            cancellation_type=FINISHED,
            summary=sentences.granting(step),
        )
        return outcome.incarnation if isinstance(outcome, Granted) else 0

    async def _create(self, step: Up, incarnation: int, planned: Planned) -> CreateOutcome:
        return await workflow.execute_activity_method(
            FleetHost.create_instance,
            CreateInput(tenant=self._tenant, slot=step.slot, incarnation=incarnation),
            task_queue=host_queue(self._cluster, step.host),
            schedule_to_start_timeout=timedelta(seconds=planned.host_silent),
            start_to_close_timeout=CREATE_TIMEOUT,
            heartbeat_timeout=HEARTBEAT,
            retry_policy=CREATE_RETRY,
            cancellation_type=FINISHED,
            summary=sentences.creating(step, incarnation),
        )

    async def _await(self, step: Up, incarnation: int, planned: Planned) -> ReadyOutcome:
        return await workflow.execute_activity_method(
            FleetControl.await_ready,
            AwaitInput(tenant=self._tenant, slot=step.slot, incarnation=incarnation, min_ready=planned.min_ready),
            start_to_close_timeout=AWAIT_TIMEOUT,
            heartbeat_timeout=HEARTBEAT,
            retry_policy=CONTROL_RETRY,
            summary=sentences.awaiting(step, incarnation),
        )

    async def _drain(self, step: Retire, planned: Planned, seconds: float) -> DrainOutcome:
        return await workflow.execute_activity_method(
            FleetControl.drain_instance,
            DrainInput(
                tenant=self._tenant,
                slot=step.slot,
                incarnation=step.incarnation,
                epoch=self.epoch,
                grant_mod_revision=step.grant_mod_revision,
                counted=step.counted,
                assign=step.assign,
                decisions=planned.plan.memory.decisions,
                timeout=seconds,
            ),
            start_to_close_timeout=timedelta(seconds=seconds + SLACK),
            heartbeat_timeout=HEARTBEAT,
            retry_policy=CONTROL_RETRY,
            cancellation_type=FINISHED,
            summary=sentences.draining(step),
        )

    async def _kill(self, step: Retire | Drop, planned: Planned, timeout: float) -> StepResult:
        try:
            await workflow.execute_activity_method(
                FleetHost.kill_instance,
                KillInput(tenant=self._tenant, slot=step.slot, incarnation=step.incarnation, timeout=timeout),
                task_queue=host_queue(self._cluster, step.host),
                schedule_to_start_timeout=timedelta(seconds=planned.host_silent),
                start_to_close_timeout=timedelta(seconds=timeout + SLACK),
                heartbeat_timeout=HEARTBEAT,
                retry_policy=KILL_RETRY,
                cancellation_type=FINISHED,
                summary=sentences.killing(step, timeout),
            )
        except ActivityError as error:
            return host_failed(error, step.incarnation)
        return StepResult("gone", incarnation=step.incarnation)


def left(waited: float, planned: Planned) -> tuple[float, float]:
    """Seconds that a drain and the kill after it still may take, when the instance was asked so long ago."""
    over = max(waited - planned.drain_timeout, 0.0)
    return max(planned.drain_timeout - waited, 0.0), max(planned.kill_timeout - over, 0.0)


def host_failed(error: ActivityError, incarnation: int) -> StepResult:
    """What a host's failure means; raises what is none of its own."""
    cause = error.cause
    if isinstance(cause, ActivityTimeoutError) and cause.type == TimeoutType.SCHEDULE_TO_START:
        return StepResult("silent", incarnation=incarnation)
    if isinstance(cause, ApplicationError) and cause.type in REFUSED:
        return StepResult("refused", incarnation=incarnation, why=cause.message)
    raise error
