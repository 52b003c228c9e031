"""One try to place one pod; its retries are the chain.

::

    start ── no policy of ours ──► continue as new with it
      │
    place ── AskExtenders ──► ask_extenders ──► place again    with all answers so far
      │ │                           └─ ExtendersFailed ──────► fails: SchedulerError
      │ ├─── Gone ───────────────────────────────────────────► completes: gone, or bound by another attempt
      │ ├─── Refused, by assumed pods only ──────────────────► fails: Unschedulable (tried again at once)
      │ ├─── Refused ──► record_refusal ──► parked ──► woken ► fails: Unschedulable (next attempt)
      │ └─── Refused, with victims ──► record_refusal, which nominates ──► evict ──► parked, as above
    bind ─── Bound ──────────────────────────────────────────► completes: bound
        ├─── Held ──► call_plugin, once a step ──► bind again  with all answers so far
        └─── Contended ──────────────────────────────────────► fails: Contended

Only this order is decided here. What is decided about nodes comes back from activities
(`wharfinger.contracts.scheduling`) and is a fact in the history. The run's own retry policy
starts the next attempt. A bug (`workflows.bugs`) fails the run and so leads to the next attempt, too.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import timedelta
from itertools import chain, repeat
from typing import Any, Literal

from temporalio import workflow
from temporalio.exceptions import FailureError, is_cancelled_exception

with workflow.unsafe.imports_passed_through():
    from temporalio.common import SearchAttributeKey, SearchAttributePair, SearchAttributeUpdate, TypedSearchAttributes

    from wharfinger.contracts.attempts import (
        AttemptInput,
        AttemptResult,
        FailureType,
        PermitDecision,
        chain_retry,
        has_chain_policy,
        parsed,
    )
    from wharfinger.contracts.eviction import Evicted
    from wharfinger.contracts.extenders import NO_ANSWERS, AskExtenders, ExtendersAnswered, ExtendersFailed
    from wharfinger.contracts.lone import evict_input, refusal_input, rejection, victims_listed
    from wharfinger.contracts.names import SCHEDULE_ATTEMPT, SEARCH_NODE, SEARCH_POD, pod_attribute
    from wharfinger.contracts.plugin_calls import SLACK, CallsMade, Held, PluginAnswer, PluginStep, first_answers
    from wharfinger.contracts.scheduling import (
        ASK_LIMIT,
        COMMIT_RETRY,
        PLACE_RETRY,
        AskInput,
        BindInput,
        BindOutcome,
        Bound,
        CallInput,
        Gone,
        Placed,
        PlaceInput,
        PlaceOutcome,
        Recorded,
        RefusalInput,
        RefusalOutcome,
        Refused,
        Rejected,
        Scheduling,
    )
    from wharfinger.model.texts import shortened
    from wharfinger.workflows.attempt_run import ONLY_ASSUMED, AttemptRun, EvictionResult, failure, required_revision
    from wharfinger.workflows.bugs import BUGS
    from wharfinger.workflows.plugin_calling import call_retry, why_failed

POD_KEY = SearchAttributeKey.for_keyword(SEARCH_POD)
NODE_KEY = SearchAttributeKey.for_keyword(SEARCH_NODE)

EVICT = 0.05
"""Seconds more for each of very many victims: two transactions."""
SUMMARY_LIMIT = 120
"""Characters of a refusal shown in the UI's event list (the server takes 400 bytes)."""
REASON_LIMIT = 1024
"""Characters of a reason in a signal: it becomes the pod's condition."""
UNRECORDED = (FailureType.BEHIND, FailureType.UNAVAILABLE, FailureType.WRONG_ID)
"""Failures that contain nothing about the pod."""


@workflow.defn(name=SCHEDULE_ATTEMPT, failure_exception_types=BUGS)
class ScheduleAttempt(AttemptRun):
    """One attempt of one pod. Input: `AttemptInput`, or a mapping with `namespace` and `name`."""

    def __init__(self) -> None:
        super().__init__()
        self._pod: AttemptInput
        self._node: str | None = None
        self._permission: PermitDecision | None = None
        self._answers = NO_ANSWERS
        self._calls: CallsMade | None = None

    @workflow.signal
    def permit(self, signal: PermitDecision = PermitDecision()) -> None:  # noqa: B008 - frozen
        """Allow or refuse the binding of a pod that a Permit plugin holds."""
        self._permission = signal

    @workflow.run
    async def run(self, request: Any = None) -> AttemptResult:
        """Place, then bind or record the refusal and park.

        Completes when the pod is bound, by this attempt or another, or gone. Every other end is a failure
        (`FailureType`) that the retry policy turns into the next attempt.
        """
        self._pod = pod = parsed(AttemptInput, request, "a mapping with namespace and name of a pod")
        if not has_chain_policy(workflow.info().retry_policy):
            workflow.continue_as_new(
                request,
                retry_policy=chain_retry(pod.timings),
                search_attributes=with_pod(workflow.info().typed_search_attributes, pod),
            )
        return await self._published(self._attempt())

    async def _attempt(self) -> AttemptResult:
        placed = await self._place()
        while isinstance(placed, AskExtenders):  # `place` bounds how often it asks
            answered = await self._ask(placed)
            if isinstance(answered, Gone):
                return self._gone(answered)
            self._answers = self._answers.with_one(placed, answered)
            placed = await self._place()
        match placed:
            case Gone():
                return self._gone(placed)
            case Refused():
                return await self._refuse(placed)
        rejected = await self._held(placed)
        if rejected is not None:
            return await self._refuse(rejection(placed, rejected), placed)
        return await self._bind(placed)

    async def _place(self) -> PlaceOutcome:
        pod, info = self._pod, workflow.info()
        return await self._decide(
            Scheduling.place,
            PlaceInput(
                namespace=pod.namespace,
                name=pod.name,
                uid=pod.uid,
                revision=max(pod.revision, required_revision()),
                workflow_id=info.workflow_id,
                run_id=info.run_id,
                answers=self._answers,
            ),
            start_to_close_timeout=timedelta(seconds=pod.timings.place_timeout),
            retry_policy=PLACE_RETRY,
            summary=title(pod),
        )

    async def _ask(self, ask: AskExtenders) -> ExtendersAnswered | Gone:
        """Have the extenders asked; fail as an error of the scheduler where one fails that may not be ignored."""
        pod = self._pod
        outcome = await self._commit(
            Scheduling.ask_extenders,
            AskInput(namespace=pod.namespace, name=pod.name, ask=ask),
            start_to_close_timeout=timedelta(seconds=ask.seconds + ASK_LIMIT),
            summary=shortened(f"{title(pod)}: {ask.count} {ask.about} → {', '.join(ask.extenders)}", SUMMARY_LIMIT),
        )
        if isinstance(outcome, ExtendersFailed):
            await self._record_failure(FailureType.SCHEDULER_ERROR, outcome.message)
            raise failure(FailureType.SCHEDULER_ERROR, outcome.message)
        return outcome

    async def _bind(self, placed: Placed) -> AttemptResult:
        info = workflow.info()
        outcome = await self._send(placed)
        pause = pauses()
        while True:
            if isinstance(outcome, Held):
                self._calls = await self._called(placed, outcome)
            elif isinstance(outcome, Bound) and outcome.preparing:
                await workflow.sleep(next(pause))  # the bind itself says when its volumes are late
            else:
                break
            outcome = await self._send(placed)
        match outcome:
            case Bound():
                self._outcome, self._node = "bound", outcome.node
                return AttemptResult(outcome="bound", node=outcome.node, attempt=info.attempt)
            case Gone():
                return self._gone(outcome)
        if workflow.cancellation_reason() is not None:
            raise asyncio.CancelledError  # requested while bind ran, and the pod was not bound
        if isinstance(outcome, Rejected):
            return await self._refuse(rejection(placed, outcome))
        raise self._contended(outcome.message)

    async def _send(self, placed: Placed) -> BindOutcome:
        """Bind the pod, or go on with a bind that waits for the pod's volumes."""
        pod, info = self._pod, workflow.info()
        return await self._commit(
            Scheduling.bind,
            BindInput(
                namespace=pod.namespace,
                name=pod.name,
                placed=placed.to_commit(),
                workflow_id=info.workflow_id,
                run_id=info.run_id,
                attempt=info.attempt,
                calls=self._calls,
            ),
            start_to_close_timeout=timedelta(seconds=pod.timings.bind_timeout + placed.bind_seconds),
            # A transaction that was sent cannot be called back: a cancelled run waits for its response.
            cancellation_type=workflow.ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
            summary=f"{title(pod)} → {placed.node}",
        )

    async def _called(self, placed: Placed, held: Held) -> CallsMade:
        """Call the plugins that are due, in order, until one does not agree; all answers so far."""
        calls = first_answers(held) if self._calls is None else self._calls
        for step in held.steps:
            answer = await self._call(placed, step, calls)
            calls = calls.with_one(answer)
            if not answer.done:
                break
        return calls

    async def _call(self, placed: Placed, step: PluginStep, calls: CallsMade) -> PluginAnswer:
        """Call one plugin until it answers, again after Wait. Where its time is over, that is its answer.

        A cancelled attempt has an answer, too: the room has to be given back before it ends.
        """
        pod, info, began = self._pod, workflow.info(), workflow.time()
        request = CallInput(
            namespace=pod.namespace,
            name=pod.name,
            placed=placed.to_commit(),
            step=step,
            calls=calls,
            workflow_id=info.workflow_id,
            run_id=info.run_id,
            attempt=info.attempt,
        )
        message = f"it did not agree within {step.deadline:g} s"
        try:
            for pause in call_pauses():
                left = step.deadline - (workflow.time() - began)
                if left <= 0 or workflow.cancellation_reason() is not None:
                    break
                answer = await workflow.execute_activity_method(
                    Scheduling.call_plugin,
                    request,
                    start_to_close_timeout=timedelta(seconds=step.timeout + SLACK),
                    schedule_to_close_timeout=timedelta(seconds=left + SLACK),
                    heartbeat_timeout=timedelta(seconds=step.heartbeat),
                    retry_policy=call_retry(step),
                    # The plugin has ended before its room is given back.
                    cancellation_type=workflow.ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
                    summary=f"{title(pod)} → {placed.node}: {step.point} of {step.plugin}",
                )
                if answer.code != "wait":
                    return answer
                message = f"it did not agree within {step.deadline:g} s: {answer.message}"
                await workflow.sleep(min(pause, left))
        except (FailureError, asyncio.CancelledError) as error:
            if not is_cancelled_exception(error):
                message = why_failed(error, step)
        code: Literal["cancelled", "error"] = "error" if workflow.cancellation_reason() is None else "cancelled"
        return PluginAnswer(point=step.point, plugin=step.plugin, code=code, message=message)

    async def _held(self, placed: Placed) -> Rejected | None:
        """Wait for permission where a Permit plugin requires it; the rejection when it is not given."""
        hold = placed.permit
        if hold is None:
            return None
        try:
            await workflow.wait_condition(
                lambda: self._permission is not None,
                timeout=timedelta(seconds=hold.seconds),
                timeout_summary=f"held by {hold.plugin}",
            )
        except TimeoutError:
            return Rejected(plugin=hold.plugin, message=f"no permission came within {hold.seconds:g} s")
        permission = self._permission
        if permission is None or permission.allowed:
            return None
        return Rejected(
            plugin=hold.plugin, message=shortened(permission.reason, REASON_LIMIT) or "permission was refused"
        )

    async def _refuse(self, refused: Refused, held: Placed | None = None) -> AttemptResult:
        """Record and park, then fail as Unschedulable; a refusal by assumed pods only fails at once."""
        self._outcome = "refused"
        if refused.only_assumed:
            raise failure(FailureType.UNSCHEDULABLE, refused.message, ONLY_ASSUMED)
        pod, info = self._pod, workflow.info()
        recorded = await self._record(
            refusal_input(
                pod,
                refused,
                held,
                attempt=info.attempt,
                workflow_id=info.workflow_id,
                run_id=info.run_id,
                answers=self._answers,
            )
        )
        refused_at = workflow.time()
        room = await self._make_room(refused, recorded) if isinstance(recorded, Recorded) else recorded
        if isinstance(room, Gone):
            return self._gone(room)
        raise await self._parked(
            pod.timings,
            refused.message,
            room,
            since=refused.computation.revision,
            leaving=refused.leaving,
            refused_at=refused_at,
        )

    async def _make_room(self, refused: Refused, recorded: Recorded) -> EvictionResult | Gone:
        """Evict the victims of the nomination that was just recorded."""
        if not refused.victims:
            return EvictionResult()
        if not recorded.nominated:
            return EvictionResult(lapsed=True, revision=recorded.revision)
        pod, info = self._pod, workflow.info()
        outcome = await self._commit(
            Scheduling.evict,
            evict_input(pod, refused, recorded.revision, workflow_id=info.workflow_id, run_id=info.run_id),
            start_to_close_timeout=timedelta(seconds=pod.timings.bind_timeout + EVICT * refused.victim_count),
            summary=shortened(f"{victims_listed(refused)} → off {refused.nominated_node}", SUMMARY_LIMIT),
        )
        if isinstance(outcome, Evicted):
            return EvictionResult(not outcome.complete, outcome.revision, outcome.leaving, evicted=True)
        return outcome

    async def _record_failure(self, kind: str, message: str) -> None:
        """Record an error of the scheduler itself."""
        pod, info = self._pod, workflow.info()
        if kind in UNRECORDED:
            return
        await self._record(
            RefusalInput(
                namespace=pod.namespace,
                name=pod.name,
                uid=pod.uid,
                attempt=info.attempt,
                reason="SchedulerError",
                message=message,
                workflow_id=info.workflow_id,
                run_id=info.run_id,
            )
        )

    async def _record(self, request: RefusalInput) -> RefusalOutcome:
        # Not by `_commit`: the record of a failure must not be recorded when it fails itself.
        return await workflow.execute_activity_method(
            Scheduling.record_refusal,
            request,
            start_to_close_timeout=timedelta(seconds=self._pod.timings.bind_timeout),
            retry_policy=COMMIT_RETRY,
            summary=shortened(request.message, SUMMARY_LIMIT),
        )

    def _gone(self, gone: Gone) -> AttemptResult:
        """The attribute contains what this attempt did (nothing), the result what became of the pod."""
        self._outcome, self._node = "gone", gone.node
        return gone.result(workflow.info().attempt)

    def _attributes(self) -> list[SearchAttributeUpdate[Any]]:
        """The node, and the pod where the start left it out."""
        updates: list[SearchAttributeUpdate[Any]] = []
        if self._node:
            updates.append(NODE_KEY.value_set(self._node))
        if workflow.info().typed_search_attributes.get(POD_KEY) is None:
            updates.append(POD_KEY.value_set(pod_attribute(self._pod.namespace, self._pod.name)))
        return updates


def call_pauses() -> Iterator[float]:
    """Seconds between two calls of a plugin that answered Wait, without end."""
    return chain((0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 30.0), repeat(60.0))


def pauses() -> Iterator[float]:
    """Seconds between two looks at volumes that are being prepared, without end: soon at first, then every ten."""
    return chain((0.5, 1.0, 2.0, 5.0), repeat(10.0))


def with_pod(present: TypedSearchAttributes, pod: AttemptInput) -> TypedSearchAttributes:
    """The run's search attributes, and the pod's name among them."""
    return present.updated(SearchAttributePair(POD_KEY, pod_attribute(pod.namespace, pod.name)))


def title(pod: AttemptInput) -> str:
    """The pod's name in the Temporal UI."""
    return f"{pod.namespace}/{pod.name}"
