"""One try to place one pod; its retries are the chain.

::

    start ── no policy of ours ──► continue as new with it
      │
    place ── Gone ───────────────────────────────────────────► completes: gone, or bound by another attempt
      │ │ └─ Refused, by assumed pods only ──────────────────► fails: Unschedulable (tried again at once)
      │ ├─── Refused ──► record_refusal ──► parked ──► woken ► fails: Unschedulable (next attempt)
      │ └─── Refused, with victims ──► record_refusal, which nominates ──► evict ──► parked, as above
    bind ─── Bound ──────────────────────────────────────────► completes: bound
        └─── Contended ──────────────────────────────────────► fails: Contended

Only this order is decided here. What is decided about nodes comes back from activities
(`wharfinger.contracts.scheduling`) and is a fact in the history; who starts the next attempt is the
run's own retry policy. Any exception fails the run and so leads to the next attempt: nothing wedges.
"""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any, NoReturn

from temporalio import workflow
from temporalio.exceptions import (
    ApplicationError,
    ApplicationErrorCategory,
    FailureError,
    is_cancelled_exception,
)

with workflow.unsafe.imports_passed_through():
    from temporalio.common import SearchAttributeKey, SearchAttributePair, TypedSearchAttributes

    from wharfinger.contracts.attempts import (
        AttemptInput,
        AttemptResult,
        FailureType,
        Permission,
        Wake,
        chain_retry,
        details,
        has_chain_policy,
        parsed,
    )
    from wharfinger.contracts.eviction import Evicted
    from wharfinger.contracts.lone import evict_input, refusal_input, rejection, victims_listed
    from wharfinger.contracts.names import SCHEDULE_ATTEMPT, SEARCH_NODE, SEARCH_OUTCOME, SEARCH_POD, pod_attribute
    from wharfinger.contracts.scheduling import (
        COMMIT_RETRY,
        PLACE_RETRY,
        BindInput,
        Bound,
        Contended,
        EvictOutcome,
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
    from wharfinger.workflows.parking import ONLY_ASSUMED, Parking, kind_and_message, next_delay, required_revision

POD_KEY = SearchAttributeKey.for_keyword(SEARCH_POD)
NODE_KEY = SearchAttributeKey.for_keyword(SEARCH_NODE)
OUTCOME_KEY = SearchAttributeKey.for_keyword(SEARCH_OUTCOME)

EVICT = 0.05
"""Seconds more for each of very many victims: two transactions."""
SUMMARY_LIMIT = 120
"""Characters of a refusal shown in the UI's event list (the server takes 400 bytes)."""
REASON_LIMIT = 1024
"""Characters of a reason that somebody signals: it becomes the pod's condition."""
UNRECORDED = (FailureType.BEHIND, FailureType.UNAVAILABLE)
"""Failures of `place` that say nothing about the pod: just tried again."""


@workflow.defn(name=SCHEDULE_ATTEMPT, failure_exception_types=[Exception])
class ScheduleAttempt:
    """One attempt of one pod. Input: `AttemptInput`, or a mapping with `namespace` and `name`."""

    def __init__(self) -> None:
        self._outcome = "error"
        self._node: str | None = None
        self._parking = Parking()
        self._permission: Permission | None = None

    @workflow.signal
    def wake(self, signal: Wake = Wake()) -> None:  # noqa: B008 - frozen
        """An event lets the pod fit now; an empty one means: try again whatever happened."""
        self._parking.signalled(signal)

    @workflow.signal
    def permit(self, signal: Permission = Permission()) -> None:  # noqa: B008 - frozen
        """Allow or refuse the binding of a pod that a Permit plugin holds."""
        self._permission = signal

    @workflow.run
    async def run(self, request: Any = None) -> AttemptResult:
        """Place, then bind or record the refusal and park.

        Completes when the pod is bound, by this attempt or another, or gone. Every other end is a failure
        (`FailureType`) that the retry policy turns into the next attempt.
        """
        pod = parsed(AttemptInput, request, "a mapping with namespace and name of a pod")
        if not has_chain_policy(workflow.info().retry_policy):
            workflow.continue_as_new(
                request,
                retry_policy=chain_retry(pod.timings),
                search_attributes=with_pod(workflow.info().typed_search_attributes, pod),
            )
        try:
            result = await self._attempt(pod)
        except (Exception, asyncio.CancelledError) as failure:
            if is_cancelled_exception(failure):
                self._outcome = "cancelled"
            self._publish(pod)
            raise
        self._publish(pod)
        return result

    async def _attempt(self, pod: AttemptInput) -> AttemptResult:
        match await self._place(pod):
            case Gone() as gone:
                return self._gone(gone)
            case Refused() as refused:
                self._outcome = "refused"
                return await self._refuse(pod, refused)
            case Placed() as placed:
                rejected = await self._held(placed)
                if rejected:
                    self._outcome = "refused"
                    return await self._refuse(pod, rejection(placed, rejected), placed)
                return await self._bind(pod, placed)

    async def _place(self, pod: AttemptInput) -> PlaceOutcome:
        info = workflow.info()
        try:
            return await workflow.execute_local_activity_method(
                Scheduling.place,
                PlaceInput(
                    namespace=pod.namespace,
                    name=pod.name,
                    uid=pod.uid,
                    revision=max(pod.revision, required_revision()),
                    workflow_id=info.workflow_id,
                    run_id=info.run_id,
                ),
                start_to_close_timeout=timedelta(seconds=pod.timings.place_timeout),
                retry_policy=PLACE_RETRY,
                summary=title(pod),
            )
        except FailureError as error:
            return await self._failed(pod, error)

    async def _bind(self, pod: AttemptInput, placed: Placed) -> AttemptResult:
        info = workflow.info()
        try:
            outcome = await workflow.execute_activity_method(
                Scheduling.bind,
                BindInput(
                    namespace=pod.namespace,
                    name=pod.name,
                    placed=placed.to_commit(),
                    workflow_id=info.workflow_id,
                    run_id=info.run_id,
                    attempt=info.attempt,
                ),
                start_to_close_timeout=timedelta(seconds=pod.timings.bind_timeout),
                retry_policy=COMMIT_RETRY,
                # A transaction that is out cannot be called back: a cancelled run waits for its answer.
                cancellation_type=workflow.ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
                summary=f"{title(pod)} → {placed.node}",
            )
        except FailureError as error:
            await self._failed(pod, error)
        match outcome:
            case Bound():
                self._outcome, self._node = "bound", outcome.node
                return AttemptResult(outcome="bound", node=outcome.node, attempt=info.attempt)
            case Gone():
                return self._gone(outcome)
        if workflow.cancellation_reason() is not None:
            raise asyncio.CancelledError  # asked for while bind was out, and no node came of it
        if isinstance(outcome, Rejected):
            self._outcome = "refused"
            return await self._refuse(pod, rejection(placed, outcome))
        return self._contended(outcome)

    async def _held(self, placed: Placed) -> Rejected | None:
        """Wait for permission where a Permit plugin asks for it; why not, when it is not given."""
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

    def _contended(self, contended: Contended) -> NoReturn:
        self._outcome = "contended"
        raise ApplicationError(
            contended.message,
            *details(Wake(), required_revision()),
            type=FailureType.CONTENDED,
            category=ApplicationErrorCategory.BENIGN,
        )

    async def _refuse(self, pod: AttemptInput, refused: Refused, held: Placed | None = None) -> AttemptResult:
        """Record and park, then end as Unschedulable; a refusal by assumed pods only ends at once.

        No event would wake the latter when an assumption fails: nothing changes in etcd then.
        """
        wake, delay = Wake(event=ONLY_ASSUMED), None
        if not refused.only_assumed:
            recorded = await self._record(pod, self._refusal(pod, refused, held))
            refused_at = workflow.time()
            room = await self._make_room(pod, refused, recorded) if isinstance(recorded, Recorded) else recorded
            if isinstance(room, Gone):
                return self._gone(room)
            if room.complete:
                wake = await self._parking.wait(
                    pod.timings,
                    refused.message,
                    since=refused.computation.revision,
                    leaving=room.leaving or refused.leaving,
                    evicted=bool(refused.victims),
                )
                if room.revision > wake.revision:  # decided on an older state, it would evict once more
                    wake = wake.model_copy(update={"revision": room.revision})
                delay = next_delay(refused_at)
            else:  # victims, or the pod itself, are not what they were: the next attempt chooses anew
                wake = Wake(revision=room.revision, event="NominationLapsed")
        raise ApplicationError(
            refused.message,
            *details(wake, required_revision()),
            type=FailureType.UNSCHEDULABLE,
            category=ApplicationErrorCategory.BENIGN,
            next_retry_delay=delay,
        )

    def _refusal(self, pod: AttemptInput, refused: Refused, held: Placed | None) -> RefusalInput:
        info = workflow.info()
        return refusal_input(pod, refused, held, attempt=info.attempt, workflow_id=info.workflow_id, run_id=info.run_id)

    async def _make_room(self, pod: AttemptInput, refused: Refused, recorded: Recorded) -> EvictOutcome:
        """Evict the victims of the nomination that was just recorded; nobody where there are none."""
        if not refused.victims or not recorded.nominated:
            return Evicted(revision=recorded.revision if refused.victims else 0, complete=not refused.victims)
        info = workflow.info()
        try:
            return await workflow.execute_activity_method(
                Scheduling.evict,
                evict_input(pod, refused, recorded.revision, workflow_id=info.workflow_id, run_id=info.run_id),
                start_to_close_timeout=timedelta(seconds=pod.timings.bind_timeout + EVICT * refused.victim_count),
                retry_policy=COMMIT_RETRY,
                summary=shortened(f"{victims_listed(refused)} → off {refused.nominated_node}", SUMMARY_LIMIT),
            )
        except FailureError as error:
            return await self._failed(pod, error)

    async def _failed(self, pod: AttemptInput, error: FailureError) -> NoReturn:
        """End as what the activity failed with; what is the scheduler's own fault is recorded first."""
        if is_cancelled_exception(error):
            raise error
        if workflow.cancellation_reason() is not None:
            raise asyncio.CancelledError from error  # asked for while the activity was out: no next attempt
        kind, message = kind_and_message(error)
        final = kind == FailureType.WRONG_ID
        if not final and kind not in UNRECORDED:
            await self._record(
                pod,
                RefusalInput(
                    namespace=pod.namespace,
                    name=pod.name,
                    uid=pod.uid,
                    attempt=workflow.info().attempt,
                    reason="SchedulerError",
                    message=message,
                    workflow_id=workflow.info().workflow_id,
                    run_id=workflow.info().run_id,
                ),
            )
        raise ApplicationError(
            message, *details(Wake(), required_revision()), type=kind, non_retryable=final
        ) from error

    async def _record(self, pod: AttemptInput, request: RefusalInput) -> RefusalOutcome:
        return await workflow.execute_activity_method(
            Scheduling.record_refusal,
            request,
            start_to_close_timeout=timedelta(seconds=pod.timings.bind_timeout),
            retry_policy=COMMIT_RETRY,
            summary=shortened(request.message, SUMMARY_LIMIT),
        )

    def _gone(self, gone: Gone) -> AttemptResult:
        """The attribute says what this attempt did (nothing), the result what became of the pod."""
        self._outcome, self._node = "gone", gone.node
        return gone.result(workflow.info().attempt)

    def _publish(self, pod: AttemptInput) -> None:
        """Outcome, node and (where the start left it out) the pod, in one upsert of the last task."""
        updates = [OUTCOME_KEY.value_set(self._outcome)]
        if self._node:
            updates.append(NODE_KEY.value_set(self._node))
        if workflow.info().typed_search_attributes.get(POD_KEY) is None:
            updates.append(POD_KEY.value_set(pod_attribute(pod.namespace, pod.name)))
        workflow.upsert_search_attributes(updates)


def with_pod(present: TypedSearchAttributes, pod: AttemptInput) -> TypedSearchAttributes:
    """The run's search attributes, and the pod's name among them."""
    return present.updated(SearchAttributePair(POD_KEY, pod_attribute(pod.namespace, pod.name)))


def title(pod: AttemptInput) -> str:
    """How the Temporal UI calls the pod."""
    return f"{pod.namespace}/{pod.name}"
