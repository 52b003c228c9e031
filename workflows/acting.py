"""The loop of `Fleet` and `RollingUpdate`, which act on a fleet's slots, around the pure
`fleet.deciding.actor.ActorState`.

::

    look (plan) ─► record what was decided ─► give up ─► start steps ─► wait: signal | a step's end | a slice of time ─┐
      ▲                                                                                                                │
      └────────────────────────────────────────────────────────────────────────────────────────────────────────────────┘

Level-triggered: each round decides anew on what etcd shows, and nothing but `Memory` is carried on. The first act takes
the actor's epoch over; who finds another's there is `Fenced`, and stops without another word. Steps run as tasks of
`fleet_steps`. Whatever an activity fails with otherwise, the round is tried again after a pause: an actor outlives it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import TypeVar

from temporalio import workflow
from temporalio.exceptions import ApplicationError, FailureError, is_cancelled_exception

from wharfinger.workflows import fleet_sentences as sentences
from wharfinger.workflows.fleet_steps import FINISHED, Fenced, Step, Steps, is_fenced
from wharfinger.workflows.waiting import until

with workflow.unsafe.imports_passed_through():
    from temporalio.common import SearchAttributeKey

    from wharfinger.fleet.contracts.actors import ACTOR_RETRY, ActorStatus
    from wharfinger.fleet.contracts.fleets import (
        CONTROL_RETRY,
        PLAN_TIMEOUT,
        WRITE_TIMEOUT,
        FleetControl,
        PlanInput,
        Planned,
        RecordedFleet,
        RecordInput,
    )
    from wharfinger.fleet.deciding.actor import ActorState
    from wharfinger.fleet.model.fleet import Role
    from wharfinger.fleet.model.rollout import LATE, Memory, Up, Writes
    from wharfinger.process.contract import Contract
    from wharfinger.process.failures import has_chain_policy
    from wharfinger.process.names import SEARCH_TENANT, FailureType

TENANT_KEY = SearchAttributeKey.for_keyword(SEARCH_TENANT)

MOST_STEPS = 32
"""Steps that are open at a time, at most, of those that bring up, and of the others: each holds a place in an agent
that waits for it. The rest come later. Long drains take no places of what is to be brought up."""
TROUBLE = 10.0
"""Seconds before the next look when an activity failed as it should not."""
LONG = 3000
"""Events of a history after which no step is started, and none but kills are waited for: the run is continued."""

RETRIED = "actors-are-retried"
"""The patch of runs that Temporal retries by their policy."""
APART = "long-drains-hold-nothing-up"
"""The patch of runs that leave their drains to the next one, and have places for what is brought up."""

T = TypeVar("T")


class Acting:
    """One actor of one fleet, for the time of one run."""

    def __init__(
        self, role: Role, tenant: str, cluster: str, memory: Memory, *, generation: int = 0, epoch: int = 0
    ) -> None:
        """`generation`: of the rollout that is its own; `epoch`: under which it acts already, 0 = it must take over."""
        self.actor = ActorState(role, memory)
        self.steps = Steps(self.actor, tenant, cluster, epoch)
        self._role: Role = role
        self._tenant = tenant
        self._generation = generation
        self._why = "begins"
        self._phase = ""

    @property
    def memory(self) -> Memory:
        """To carry on with."""
        return self.actor.memory

    @property
    def epoch(self) -> int:
        """Under which it acts; 0 = it does not yet."""
        return self.steps.epoch

    @property
    def complete(self) -> bool:
        """Whether a change is complete, and nothing is in the way of a fresh history before the next look."""
        return self._may_continue(self.steps.left > 0)

    @property
    def quiet(self) -> bool:
        """Whether steps ended and none follows, or the history is long, and nothing is in the way of a fresh one."""
        return self._may_continue(self.steps.ended > 0 or grown())

    def _may_continue(self, wanted: bool) -> bool:
        return wanted and self.actor.idle and not self.steps.fenced and workflow.all_handlers_finished()

    def signalled(self) -> None:
        """Something happened out there."""
        self._why = "poked"  # histories have this word in the summary of the next look
        self.actor.signalled()

    def lost_sight(self, seconds: float) -> None:
        """No plan was made for so many seconds."""
        self.actor.slept(0.0, seconds)

    def status(self) -> ActorStatus:
        """What it is doing, for the query."""
        return ActorStatus(
            tenant=self._tenant,
            role=self._role,
            generation=self._generation,
            epoch=self.epoch,
            doing=self._phase or sentences.doing(self.actor.busy),
            busy=self.actor.busy,
            memory=self.actor.memory,
        )

    async def wait(self) -> None:
        """Wait until a look is due. Raises `Fenced`, and `CancelledError` when the run is to end."""
        self.check()
        while not self.actor.due:
            self._publish()
            await self._pause(self.actor.timeout)
            self.check()

    async def look(self) -> Planned | None:
        """Have the fleet planned; None where that led to nothing that could be followed. Raises as `wait` does."""
        self.check()
        return await self._tried(self._plan())

    async def follow(self, planned: Planned) -> bool:
        """Write what was decided, give up, start steps; whether the plan was followed. Raises as `wait` does."""
        self.check()
        if not await self._tried(self._record_plan(planned)):
            for step in planned.plan.steps:
                self.actor.put_off(step)
            return False
        self.check()
        for slot in planned.plan.give_up:
            self.steps.give_up(slot)
        if grown():  # what is granted or asked to leave stays so, and is waited for by the next run; kills end
            self.steps.give_up()
            if self.steps.retiring and mended():
                self.steps.leave()
            begun: list[Step] = []
        else:
            begun = self._placed(planned.plan.steps)
        for step in begun:
            self.steps.start(step, planned)
        for step in planned.plan.steps:
            if step not in begun:
                self.actor.put_off(step)
        self._publish()
        return True

    def _placed(self, steps: Sequence[Step]) -> list[Step]:
        """The steps for which there is a place now, in their order."""
        room = max(0, MOST_STEPS - len(self.steps))
        if len(steps) <= room:
            return list(steps)
        if not mended():
            return list(steps[:room])
        ups, ends = self.steps.places(MOST_STEPS)
        first = [step for step in steps if isinstance(step, Up)][:ups]
        others = [step for step in steps if not isinstance(step, Up)][:ends]
        return [step for step in steps if step in first or step in others]

    def check(self) -> None:
        """Raise what is to end the run, also where a cancellation came with an answer and was swallowed."""
        if workflow.cancellation_reason() is not None:
            raise asyncio.CancelledError
        if self.steps.fenced:
            raise Fenced(self.steps.fenced)

    async def record(self, writes: Writes, planned: Planned | None = None) -> RecordedFleet:
        """Write, and become the actor with it where it is not yet (then with the plan that was just made)."""
        take = self.epoch == 0
        recorded = await workflow.execute_activity_method(
            FleetControl.record_fleet,
            RecordInput(
                tenant=self._tenant,
                role=self._role,
                generation=self._generation,
                epoch=planned.actor_epoch if take and planned is not None else self.epoch,
                take=take,
                desired=planned.desired if planned is not None else 0,
                writes=writes,
            ),
            start_to_close_timeout=WRITE_TIMEOUT,
            retry_policy=CONTROL_RETRY,
            cancellation_type=FINISHED,
            summary=sentences.recording(writes, take=take),
        )
        self.steps.epoch = recorded.epoch
        return recorded

    # --- one round ----------------------------------------------------------------------------

    async def _tried(self, work: Awaitable[T | None]) -> T | None:
        """What came of it; None where an activity failed as it should not, after a pause."""
        try:
            return await work
        except FailureError as error:
            if is_cancelled_exception(error):
                raise asyncio.CancelledError from error
            if is_fenced(error):
                raise Fenced(str(error.cause or error)) from error
            workflow.logger.warning("fleet_activity_failed error=%r", str(error))
        self.check()
        await workflow.sleep(TROUBLE, summary="an activity failed: looks again")
        self.actor.slept(TROUBLE, TROUBLE)
        self._why = "an activity failed"
        self.actor.signalled()
        return None

    async def _pause(self, seconds: float) -> None:
        """Wait for an event, or so many seconds; the actor's clock advances by that time."""
        began, ended = workflow.time(), self.steps.ended
        await until(
            lambda: self.actor.due or self.steps.ended != ended or bool(self.steps.fenced),
            timedelta(seconds=max(seconds, 0.001)),
            summary=sentences.waiting(seconds, self.actor.busy),
        )
        self.actor.slept(seconds, workflow.time() - began)
        if self.steps.ended != ended:
            self._why = "a step ended"

    async def _plan(self) -> Planned | None:
        """One plan; None where it came too late to be believed."""
        memory, busy = self.actor.look()
        why, self._why = self._why, "it is time"
        began = workflow.time()
        planned = await workflow.execute_activity_method(
            FleetControl.plan,
            PlanInput(
                tenant=self._tenant,
                role=self._role,
                generation=self._generation,
                epoch=self.epoch,
                memory=memory,
                busy=busy,
            ),
            start_to_close_timeout=PLAN_TIMEOUT,
            retry_policy=CONTROL_RETRY,
            summary=sentences.looking(why, busy),
        )
        took = workflow.time() - began
        self.actor.looked(planned.plan, took, planned.attempt > 1)
        if took > LATE or planned.attempt > 1:
            self._why = "the last look came too late"
            return None
        status = planned.plan.writes.status
        self._phase = planned.phase or (status.phase if status is not None else "") or self._phase
        return planned

    async def _record_plan(self, planned: Planned) -> bool:
        """Write what was decided; whether the rest of the plan still holds then."""
        plan = planned.plan
        acts = bool(plan.steps) or self._role == "rollout"
        if plan.writes.empty and not (acts and self.epoch == 0):
            return True
        began = workflow.time()
        try:
            recorded = await self.record(plan.writes, planned)
        except FailureError:
            self.actor.unwritten()
            raise
        took = workflow.time() - began
        self.actor.slept(0.0, took)
        if plan.writes.target is not None and recorded.target != plan.writes.target:
            # Not at once: where the agent that writes holds the object for invalid, and the one that plans does not,
            # this would go round and round.
            self.actor.unwritten()
            self._why = "the object changed meanwhile"
            return False
        if plan.writes.end and not recorded.ended:
            self._why = "the end is off"
        elif took > LATE:
            self._why = "writing took long"
        else:
            return True
        self.actor.signalled()
        return False

    def _publish(self) -> None:
        workflow.set_current_details(sentences.details(self._phase, self.epoch, self.actor.busy))


def grown() -> bool:
    """Whether the history is long enough to begin another one."""
    info = workflow.info()
    return info.is_continue_as_new_suggested() or info.get_current_history_length() > LONG


def mended() -> bool:
    """Whether long drains hold nothing up in this run; asked only where that makes a difference."""
    return workflow.patched(APART)


def begin(tenant: str, kind: str, wanted: str, request: Contract | None) -> tuple[str, float]:
    """At the start of a run: the cluster that its id names, and how many seconds late it starts.

    Fails for good under another id: then two runs could look after one fleet. A run that has no retry policy of ours
    (another program or an earlier release started it) continues as new with it.

    Args:
        tenant: whose fleet.
        kind: the workflow in a word, for the error.
        wanted: how its id goes on behind the cluster's name.
        request: the input to continue with; None = this run must go on as it is.
    """
    info = workflow.info()
    cluster = info.workflow_id.removesuffix(wanted)
    if not info.workflow_id.endswith(wanted) or not cluster or "/" in cluster:
        raise ApplicationError(
            f"the {kind} of {tenant} runs under the workflow id <cluster>{wanted}, not {info.workflow_id!r}",
            type=FailureType.WRONG_ID,
            non_retryable=True,
        )
    if request is not None and not has_chain_policy(info.retry_policy) and workflow.patched(RETRIED):
        workflow.continue_as_new(request, retry_policy=ACTOR_RETRY)
    if info.typed_search_attributes.get(TENANT_KEY) is None:
        workflow.upsert_search_attributes([TENANT_KEY.value_set(tenant)])
    return cluster, workflow.time() - info.workflow_start_time.timestamp()


def retried() -> bool:
    """Whether this run follows one that failed or timed out: activities of that one may still take effect.

    Such a run takes the epoch over, which fences them off, and trusts nothing that its input has seen.
    """
    return workflow.info().attempt > 1 and workflow.patched(RETRIED)


def closed(memory: Memory) -> Memory:
    """What is remembered when a rollout is over."""
    return replace(memory, rollout=0)
