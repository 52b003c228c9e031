"""One try to place one pod; its retries are the chain. The flow is that of every group: `workflows.group_run`.

Its two steps take longer than those of other groups::

    place ── AskExtenders ──► ask_extenders ──► place again    with all answers so far
      │           └─ ExtendersFailed ──► fails: SchedulerError
      └───── Permit waits ──► update or signal `permit`, or its time-out
    bind ─── Held ──► call_plugin, once a step ──► bind again  with all answers so far
      └───── volumes are prepared ──► bind again, later
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import timedelta
from itertools import chain, repeat
from typing import Any, Literal

from temporalio import workflow
from temporalio.exceptions import (
    ActivityError,
    ApplicationError,
    FailureError,
    TimeoutType,
    is_cancelled_exception,
)
from temporalio.exceptions import TimeoutError as ActivityTimeout

with workflow.unsafe.imports_passed_through():
    from temporalio.common import RetryPolicy, SearchAttributeKey, SearchAttributePair, SearchAttributeUpdate

    from wharfinger.objects.model.texts import shortened
    from wharfinger.process.failures import parsed
    from wharfinger.process.names import SCHEDULE_ATTEMPT, SEARCH_NODE, SEARCH_POD, FailureType, pod_attribute
    from wharfinger.scheduling.contracts.attempts import (
        NOT_HELD,
        AttemptInput,
        AttemptResult,
        PermitDecision,
        Permitted,
    )
    from wharfinger.scheduling.contracts.cohort_scheduling import BoundMany, PlacedMany, RecordedMany, RecordReason
    from wharfinger.scheduling.contracts.extenders import NO_ANSWERS, AskExtenders, ExtendersAnswered, ExtendersFailed
    from wharfinger.scheduling.contracts.group_payloads import (
        bound_group,
        placed_group,
        recorded_group,
        refusal_input,
        rejected_together,
    )
    from wharfinger.scheduling.contracts.plugin_calls import (
        SLACK,
        CallsMade,
        Held,
        PluginAnswer,
        PluginStep,
        first_answers,
    )
    from wharfinger.scheduling.contracts.scheduling import (
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
        RefusalInput,
        RefusalOutcome,
        Rejected,
        Scheduling,
    )
    from wharfinger.workflows.bugs import BUGS
    from wharfinger.workflows.group_run import SUMMARY_LIMIT, Group, GroupRun
    from wharfinger.workflows.parking import required_revision, this_run

POD_KEY = SearchAttributeKey.for_keyword(SEARCH_POD)
NODE_KEY = SearchAttributeKey.for_keyword(SEARCH_NODE)

REASON_LIMIT = 1024
"""Characters of a reason in a signal: it becomes the pod's condition."""
UNRECORDED = (FailureType.BEHIND, FailureType.UNAVAILABLE, FailureType.WRONG_ID)
"""Failures that contain nothing about the pod."""


@workflow.defn(name=SCHEDULE_ATTEMPT, failure_exception_types=BUGS)
class ScheduleAttempt(GroupRun):
    """One attempt of one pod. Input: `AttemptInput`, or a mapping with `namespace` and `name`."""

    def __init__(self) -> None:
        super().__init__()
        self._pod: AttemptInput
        self._placed: Placed
        self._permission: PermitDecision | None = None
        self._held_by = ""
        """The Permit plugin that holds the pod now."""
        self._given_up: Placed | None = None
        """The placement that a Permit plugin held and did not permit: its plugins still have to unreserve."""
        self._answers = NO_ANSWERS

    @workflow.signal
    def permit(self, signal: PermitDecision = PermitDecision()) -> None:  # noqa: B008 - frozen
        """Allow or refuse the binding of a pod that a Permit plugin holds, now or later."""
        self._permission = signal

    @workflow.update(name="permit")
    def answer(self, decision: PermitDecision = PermitDecision()) -> Permitted:  # noqa: B008 - frozen
        """Allow or refuse the binding of a pod that a Permit plugin holds now; one answer counts."""
        self._permission = decision
        return Permitted(plugin=self._held_by, allowed=decision.allowed)

    @answer.validator
    def check_held(self, decision: PermitDecision = PermitDecision()) -> None:  # noqa: ARG002, B008 - frozen
        """Refuse an answer that no plugin waits for."""
        if not self._held_by or self._permission is not None:  # a signal may have come just before
            raise ApplicationError("no Permit plugin holds the pod now", type=NOT_HELD, non_retryable=True)

    @workflow.run
    async def run(self, request: Any = None) -> AttemptResult:
        """Place, then bind or record the refusal and park.

        Completes when the pod is bound, by this attempt or another, or gone. Every other end is a failure
        (`FailureType`) that the retry policy turns into the next attempt.
        """
        self._pod = pod = parsed(AttemptInput, request, "a mapping with namespace and name of a pod")
        timeout = timedelta(seconds=pod.timings.bind_timeout)
        group = Group(f"{pod.namespace}/{pod.name}", pod.timings, timeout, waits=True)
        self._attempts_before = pod.attempts_before
        named = SearchAttributePair(POD_KEY, pod_attribute(pod.namespace, pod.name))
        result = await self._run(request, group, workflow.info().typed_search_attributes.updated(named))
        if isinstance(self._last, Gone):
            return self._last.result(result.attempt)
        return AttemptResult(outcome="bound", node=self._node, attempt=result.attempt)

    @property
    def _node(self) -> str | None:
        return self._last.node if isinstance(self._last, Bound | Gone) else None

    def _attributes(self) -> list[SearchAttributeUpdate[Any]]:
        """The node, and the pod where the start left it out."""
        updates: list[SearchAttributeUpdate[Any]] = []
        if self._node:
            updates.append(NODE_KEY.value_set(self._node))
        if workflow.info().typed_search_attributes.get(POD_KEY) is None:
            updates.append(POD_KEY.value_set(pod_attribute(self._pod.namespace, self._pod.name)))
        return updates

    # --- place --------------------------------------------------------------------------------

    async def _place(self) -> PlacedMany:
        outcome = await self._decided()
        while isinstance(outcome, AskExtenders):  # `place` bounds how often it asks
            answered = await self._ask(outcome)
            if isinstance(answered, Gone):
                outcome = answered
            else:
                self._answers = self._answers.with_one(outcome, answered)
                outcome = await self._decided()
        self._last = outcome
        self._attempts_recorded = 0 if isinstance(outcome, Gone) else outcome.attempts
        placed = placed_group(self._pod, outcome)
        if isinstance(outcome, Placed):
            self._placed = outcome
            rejected = await self._held(outcome)
            if rejected is not None:
                self._given_up = outcome
                return rejected_together(placed, bound_group(self._pod, rejected)) or placed
        return placed

    async def _decided(self) -> PlaceOutcome:
        pod = self._pod
        revision = max(pod.revision, required_revision())
        return await self._decide(
            Scheduling.place,
            PlaceInput.alike(pod, revision=revision, answers=self._answers, **this_run()),
            start_to_close_timeout=timedelta(seconds=pod.timings.place_timeout),
            retry_policy=PLACE_RETRY,
            summary=self._group.title,
        )

    async def _ask(self, ask: AskExtenders) -> ExtendersAnswered | Gone:
        """Have the extenders asked; fail as an error of the scheduler where one fails that may not be ignored."""
        outcome = await self._commit(
            Scheduling.ask_extenders,
            AskInput.alike(self._pod, ask=ask),
            start_to_close_timeout=timedelta(seconds=ask.seconds + ASK_LIMIT),
            summary=shortened(
                f"{self._group.title}: {ask.count} {ask.about} → {', '.join(ask.extenders)}", SUMMARY_LIMIT
            ),
        )
        if isinstance(outcome, ExtendersFailed):
            await self._record_failure(FailureType.SCHEDULER_ERROR, outcome.message)
            raise self._failure(FailureType.SCHEDULER_ERROR, outcome.message)
        return outcome

    async def _held(self, placed: Placed) -> Rejected | None:
        """Wait for permission where a Permit plugin requires it; the rejection when it is not given."""
        hold = placed.permit
        if hold is None:
            return None
        self._held_by = hold.plugin if self._permission is None else ""
        try:
            await workflow.wait_condition(
                lambda: self._permission is not None,
                timeout=timedelta(seconds=hold.seconds),
                timeout_summary=f"held by {hold.plugin}",
            )
        except TimeoutError:
            self._held_by = ""
            return Rejected(plugin=hold.plugin, message=f"no permission came within {hold.seconds:g} s")
        self._held_by = ""
        permission = self._permission
        if permission is None or permission.allowed:
            return None
        return Rejected(
            plugin=hold.plugin, message=shortened(permission.reason, REASON_LIMIT) or "permission was refused"
        )

    # --- bind ---------------------------------------------------------------------------------

    async def _bind(self, placed: PlacedMany) -> BoundMany:  # noqa: ARG002 - `bind` takes what `place` answered
        pod, placed_alone = self._pod, self._placed.to_commit()
        request = BindInput.alike(pod, placed=placed_alone, attempt=self._number, **this_run())
        title = f"{self._group.title} → {self._placed.node}"
        pause = pauses()
        outcome = await self._send(request, title)
        while True:
            if isinstance(outcome, Held):
                calls = await _call_plugins(outcome, request, request.calls or first_answers(outcome), title)
                request = request.model_copy(update={"calls": calls})
            elif isinstance(outcome, Bound) and outcome.preparing:
                await workflow.sleep(next(pause))  # the bind itself says when its volumes are late
            else:
                break
            outcome = await self._send(request, title)
        self._last = outcome
        return bound_group(pod, outcome)

    async def _send(self, request: BindInput, title: str) -> BindOutcome:
        """Bind the pod, or go on with a bind that waits for plugins or for the pod's volumes."""
        return await self._commit(
            Scheduling.bind,
            request,
            start_to_close_timeout=self._group.commit_timeout + timedelta(seconds=self._placed.bind_seconds),
            # A transaction that was sent cannot be called back: a cancelled run waits for its response.
            cancellation_type=workflow.ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
            summary=title,
        )

    # --- record -------------------------------------------------------------------------------

    async def _record(self, placed: PlacedMany, reason: RecordReason, *, parks: bool = True) -> RecordedMany:  # noqa: ARG002
        given_up = self._given_up
        request = refusal_input(placed, reason, **this_run())
        more: dict[str, Any] = {"answers": self._answers} if request.victims else {}
        if given_up is not None:
            more |= {"reserved_node": given_up.node, "plugin_data": given_up.plugin_data}
        self._last = outcome = await self._written(request.model_copy(update=more))
        return recorded_group(request, outcome)

    async def _record_failure(self, kind: str, message: str) -> None:
        """Record an error of the scheduler itself."""
        pod = self._pod
        if kind in UNRECORDED:
            return
        await self._written(
            RefusalInput(
                namespace=pod.namespace,
                name=pod.name,
                uid=pod.uid,
                attempt=self._number,
                reason="SchedulerError",
                message=message,
                **this_run(),
            )
        )

    async def _written(self, request: RefusalInput) -> RefusalOutcome:
        # Not by `_commit`: the record of a failure must not be recorded when it fails itself.
        return await workflow.execute_activity_method(
            Scheduling.record_refusal,
            request,
            start_to_close_timeout=self._group.commit_timeout,
            retry_policy=COMMIT_RETRY,
            summary=shortened(request.message, SUMMARY_LIMIT),
        )


def pauses() -> Iterator[float]:
    """Seconds between two looks at volumes that are being prepared, without end: soon at first, then every ten."""
    return chain((0.5, 1.0, 2.0, 5.0), repeat(10.0))


async def _call_plugins(held: Held, bind: BindInput, calls: CallsMade, title: str) -> CallsMade:
    """Call the plugins that are due, in order, until one does not agree; all answers so far.

    `bind`: the request that the room is held for; `calls`: the answers before; `title`: pod and node, for the UI.
    """
    for step in held.steps:
        answer = await _called(step, bind, calls, title)
        calls = calls.with_one(answer)
        if not answer.done:
            break
    return calls


async def _called(step: PluginStep, bind: BindInput, calls: CallsMade, title: str) -> PluginAnswer:
    """Call one plugin until it answers, again after Wait. Where its time is over, that is its answer.

    A cancelled attempt has an answer, too: the room has to be given back before it ends.
    """
    began = workflow.time()
    request = CallInput.alike(bind, step=step, calls=calls)
    message = f"it did not agree within {step.deadline:g} s"
    try:
        for pause in _call_pauses():
            left = step.deadline - (workflow.time() - began)
            if left <= 0 or workflow.cancellation_reason() is not None:
                break
            answer = await workflow.execute_activity_method(
                Scheduling.call_plugin,
                request,
                start_to_close_timeout=timedelta(seconds=step.timeout + SLACK),
                schedule_to_close_timeout=timedelta(seconds=left + SLACK),
                heartbeat_timeout=timedelta(seconds=step.heartbeat),
                retry_policy=_retry(step),
                # The plugin has ended before its room is given back.
                cancellation_type=workflow.ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
                summary=f"{title}: {step.point} of {step.plugin}",
            )
            if answer.code != "wait":
                return answer
            message = f"it did not agree within {step.deadline:g} s: {answer.message}"
            await workflow.sleep(min(pause, left))
    except (FailureError, asyncio.CancelledError) as error:
        if not is_cancelled_exception(error):
            message = _why_failed(error, step)
    code: Literal["cancelled", "error"] = "error" if workflow.cancellation_reason() is None else "cancelled"
    return PluginAnswer(point=step.point, plugin=step.plugin, code=code, message=message)


def _call_pauses() -> Iterator[float]:
    """Seconds between two calls of a plugin that answered Wait, without end."""
    return chain((0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 30.0), repeat(60.0))


def _retry(step: PluginStep) -> RetryPolicy:
    """When a call that raised, timed out or was lost with its worker is made again."""
    return RetryPolicy(
        initial_interval=timedelta(milliseconds=500),
        backoff_coefficient=2.0,
        maximum_interval=timedelta(seconds=30),
        maximum_attempts=step.attempts,
    )


def _why_failed(error: BaseException, step: PluginStep) -> str:
    """Why the calls of a step came to nothing, in words."""
    cause = error.cause if isinstance(error, ActivityError) else error
    if isinstance(cause, ActivityTimeout):
        if isinstance(cause.cause, ApplicationError):  # the last failure, before the time was over
            return f"{cause.cause.message}; it did not agree within {step.deadline:g} s"
        if cause.type is TimeoutType.SCHEDULE_TO_CLOSE:
            return f"it did not agree within {step.deadline:g} s"
        return "the worker that called it is gone"
    return cause.message if isinstance(cause, ApplicationError) else str(cause)
