"""Starts and wakes attempts through a Temporal client: implements `signals.Attempts`."""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from datetime import timedelta
from typing import Any

from temporalio.client import Client, WorkflowFailureError
from temporalio.common import (
    RetryPolicy,
    SearchAttributePair,
    TypedSearchAttributes,
    WorkflowIDConflictPolicy,
    WorkflowIDReusePolicy,
)
from temporalio.service import RPCError, RPCStatusCode

from wharfinger.objects.model.gang import GangKey
from wharfinger.objects.model.pod import Pod, PodKey
from wharfinger.process.names import (
    SCHEDULE_COHORT,
    SEARCH_ATTRIBUTES,
    SEARCH_BUILDS,
    SEARCH_PODS,
    cohort_workflow_id,
    gang_workflow_id,
    pod_workflow_id,
    pods_listed,
    task_queue,
)
from wharfinger.scheduling.contracts.attempts import AttemptTimings, Wake, backoff, chain_retry
from wharfinger.scheduling.contracts.cohort_scheduling import (
    PODS_KEY,
    CohortInput,
    CohortPod,
    GangName,
    Turn,
    cohort_retry,
)
from wharfinger.scheduling.contracts.group_lines import title
from wharfinger.scheduling.effects.open_runs import (
    RPC_TIMEOUT,
    TASK_TIMEOUT,
    builds,
    of_tenant,
    queue_of_open,
    signal_open,
    start_attempt,
)

log = logging.getLogger(__name__)

LONG_POLL = timedelta(seconds=30)
"""For one call that waits for the end of a run: the server answers within 20 s."""
ATTRIBUTE_RETRY = 300.0
"""Seconds after which `WharfingerPods` is sent again: the attribute may be registered while the worker runs."""


class OptionalAttributes:
    """Search attributes that a start carries only if they are registered in Temporal.

    In an older installation they may not be. Temporal refuses a start with an unknown attribute. The start is repeated
    without it, and later starts omit it.
    """

    def __init__(self, namespace: str, clock: Callable[[], float]) -> None:
        """`namespace`: Temporal's, for the log."""
        self._namespace = namespace
        self._clock = clock
        self._rejected: dict[str, float] = {}
        """When each was rejected last (clock seconds)."""

    def carried(self, name: str) -> bool:
        """Whether starts carry the attribute now."""
        rejected = self._rejected.get(name)
        return rejected is None or (name == SEARCH_PODS and self._clock() - rejected >= ATTRIBUTE_RETRY)

    async def start(self, call: Callable[[], Awaitable[object]], *names: str) -> None:
        """Call until no attribute is rejected; `call` asks `carried` each time. Raises `RPCError` as it does."""
        while True:
            sent = [name for name in names if self.carried(name)]
            try:
                await call()
            except RPCError as error:
                rejected = next((name for name in sent if _rejects(error, name)), None)
                if rejected is None:
                    raise
                self._reject(rejected)
            else:
                return

    def _reject(self, name: str) -> None:
        if name not in self._rejected:
            if name == SEARCH_BUILDS:
                log.warning("build_id_rejected effect=one_more_visibility_write_per_run")
            else:
                log.warning(
                    "search_attribute_rejected name=%s effect=cohorts_are_not_found_by_pod_name register=%r",
                    name,
                    f"temporal operator search-attribute create --namespace {self._namespace} "
                    f"--name {name} --type {SEARCH_ATTRIBUTES[name]}",
                )
        self._rejected[name] = self._clock()


def _rejects(error: RPCError, name: str) -> bool:
    """Whether the server refuses the start for this attribute's sake. Other names may begin with this one."""
    words = error.message.replace(",", " ").replace(".", " ").split()
    return error.status is RPCStatusCode.INVALID_ARGUMENT and name in words


WAKE = "wake"


class TemporalAttempts:
    """Attempts of one pool on one client (the worker's own, so that eager starts find it)."""

    def __init__(
        self,
        client: Client,
        *,
        cluster: str,
        tenant: str,
        build_id: str = "",
        timings: AttemptTimings | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`build_id`: of this process's worker, which takes the first tasks; `timings` of the chains that are started;
        None = the defaults, which the inputs then do not repeat.
        """
        self._client = client
        self._build_id = build_id
        self._timings = timings
        self._cluster = cluster
        self._tenant = tenant
        self._queue = task_queue(cluster, tenant)
        self._optional = OptionalAttributes(client.namespace, clock)

    def back_off(self, timings: AttemptTimings | None) -> None:
        """Start chains with these from now on; see `timings` at the beginning."""
        self._timings = timings

    def workflow_id(self, pod: Pod) -> str:
        """The id of a pod's chain."""
        return pod_workflow_id(self._cluster, pod.namespace, pod.name, pod.uid)

    def cohort_workflow_id(self, name: str) -> str:
        """The id of the cohort of that name."""
        return cohort_workflow_id(self._cluster, name)

    def seconds_after(self, attempt: int) -> float:
        """The back-off of a chain that is started now: seconds from that attempt to the next."""
        return backoff(chain_retry(self._timings or AttemptTimings()), attempt)

    async def start(self, pod: Pod, *, cause: str, check_queue: bool, attempts_before: int = 0) -> None:
        """Start the pod's chain here, or join the open one; see `Attempts`."""
        elsewhere = check_queue and await self._sits_elsewhere(self.workflow_id(pod))
        await self._optional.start(
            lambda: self._start(pod, cause, attempts_before, terminate_existing=elsewhere),
            *([SEARCH_BUILDS] if self._build_id else []),
        )

    async def _start(self, pod: Pod, cause: str, attempts_before: int, *, terminate_existing: bool) -> None:
        await start_attempt(
            self._client,
            cluster=self._cluster,
            namespace=pod.namespace,
            name=pod.name,
            uid=pod.uid,
            tenant=self._tenant,
            revision=pod.mod_revision,
            woken_by=cause,
            attempts_before=attempts_before,
            eager=True,
            build_id=self._named_build,
            terminate_existing=terminate_existing,
            timings=self._timings,
            rpc_timeout=RPC_TIMEOUT,
        )

    async def start_cohort(self, name: str, pods: Sequence[CohortPod], *, cause: str, turn: Turn) -> None:
        """Start a cohort of these pods here; see `Attempts`."""
        await self._start_many(
            CohortInput(pods=tuple(pods), woken_by=cause, turn=turn),
            [(pod.namespace, pod.name) for pod in pods],
            retry_policy=cohort_retry(),
            id=self.cohort_workflow_id(name),
            id_reuse_policy=WorkflowIDReusePolicy.REJECT_DUPLICATE,
            static_summary=title((pod.namespace, pod.name) for pod in pods),
            request_eager_start=True,
        )

    async def start_gang(
        self,
        gang: GangKey,
        members: Sequence[PodKey],
        *,
        revision: int,
        cause: str,
        check_queue: bool,
        wake: Wake | None = None,
    ) -> None:
        """Start the gang's chain here, or join the open one; see `Attempts`."""
        name, timings = GangName(**gang._asdict()), self._timings or AttemptTimings()
        cohort = CohortInput(gang=name, revision=revision, woken_by=cause, timings=timings)
        workflow_id = gang_workflow_id(self._cluster, *gang)
        elsewhere = check_queue and await self._sits_elsewhere(workflow_id)
        terminate, use = WorkflowIDConflictPolicy.TERMINATE_EXISTING, WorkflowIDConflictPolicy.USE_EXISTING
        await self._start_many(
            cohort,
            members,
            retry_policy=chain_retry(timings),
            id=workflow_id,
            id_reuse_policy=WorkflowIDReusePolicy.ALLOW_DUPLICATE,
            id_conflict_policy=terminate if elsewhere else use,
            static_summary=f"gang {gang}",
            request_eager_start=wake is None,  # it cannot go with a signal
            start_signal=WAKE if wake is not None else None,
            start_signal_args=[wake] if wake is not None else [],
        )

    async def _start_many(
        self, cohort: CohortInput, pods: Iterable[tuple[str, str]], *, retry_policy: RetryPolicy, **options: Any
    ) -> None:
        """Start the cohort or gang. Its start lists the pods, in the one write that Temporal makes of it anyway."""
        listed = SearchAttributePair(PODS_KEY, pods_listed(pods))
        request = cohort.model_dump(exclude_defaults=True)

        async def start() -> None:
            pairs = [*of_tenant(self._tenant), *builds(self._named_build)]
            pairs += [listed] if self._optional.carried(SEARCH_PODS) else []
            await self._client.start_workflow(
                SCHEDULE_COHORT,
                request,
                task_queue=self._queue,
                retry_policy=retry_policy,
                task_timeout=TASK_TIMEOUT,
                search_attributes=TypedSearchAttributes(pairs),
                rpc_timeout=RPC_TIMEOUT,
                **options,
            )

        await self._optional.start(start, *([SEARCH_BUILDS] if self._build_id else []), SEARCH_PODS)

    @property
    def _named_build(self) -> str:
        """The build that starts name; empty when Temporal refuses that."""
        return self._build_id if self._optional.carried(SEARCH_BUILDS) else ""

    async def wake(self, workflow_id: str, wake: Wake) -> bool:
        """Signal the chain; whether there was an open one.

        The id comes from a record in etcd, which any client may have written: workflows of others are left alone.
        """
        ours = workflow_id.startswith(f"{self._cluster}/")
        return ours and await signal_open(self._client, workflow_id, WAKE, wake)

    async def failure_of(self, workflow_id: str) -> BaseException | None:
        """Wait for the end of a run; see `Attempts`."""
        try:
            await self._client.get_workflow_handle(workflow_id).result(rpc_timeout=LONG_POLL)
        except WorkflowFailureError as error:
            return error.cause
        return None

    async def _sits_elsewhere(self, workflow_id: str) -> bool:
        """Whether an open chain lies on a task queue other than ours."""
        return await queue_of_open(self._client, workflow_id) not in ("", self._queue)
