"""Starts and wakes attempts through a Temporal client: the real `Starter` and `Signaller`."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import timedelta

from temporalio.client import Client, WorkflowExecutionStatus
from temporalio.common import (
    SearchAttributePair,
    TypedSearchAttributes,
    WorkflowIDConflictPolicy,
    WorkflowIDReusePolicy,
)
from temporalio.service import RPCError, RPCStatusCode

from wharfinger.client import TASK_TIMEOUT, TENANT_KEY, start_attempt
from wharfinger.contracts.attempts import AttemptTimings, Wake, chain_retry
from wharfinger.contracts.cohorts import CohortInput, CohortPod, GangName, Turn, cohort_retry
from wharfinger.contracts.names import (
    COMMON,
    SCHEDULE_COHORT,
    SEARCH_BUILDS,
    cohort_workflow_id,
    gang_workflow_id,
    pod_workflow_id,
    task_queue,
)
from wharfinger.model.pod import Pod

log = logging.getLogger(__name__)

RPC_TIMEOUT = timedelta(seconds=5)
"""For one try; the callers try again by themselves."""
WAKE = "wake"
_NOBODY = frozenset({RPCStatusCode.NOT_FOUND, RPCStatusCode.INVALID_ARGUMENT})
"""There is no open run, or can be none: the id is too long, say. Trying again helps neither."""


class TemporalAttempts:
    """Attempts of one pool on one client (the worker's own, so that eager starts find it)."""

    def __init__(
        self, client: Client, *, cluster: str, tenant: str, build_id: str = "", timings: AttemptTimings | None = None
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
        own = [] if tenant == COMMON else [SearchAttributePair(TENANT_KEY, tenant)]
        self._attributes = TypedSearchAttributes(own)
        """Of cohorts: they name their pods nowhere but in their input."""

    def back_off(self, timings: AttemptTimings | None) -> None:
        """Start chains with these from now on; see `timings` at the beginning."""
        self._timings = timings

    def workflow_id(self, pod: Pod) -> str:
        """The id of a pod's chain."""
        return pod_workflow_id(self._cluster, pod.namespace, pod.name, pod.uid)

    def gang_workflow_id(self, gang: GangName) -> str:
        """The id of a gang's chain."""
        return gang_workflow_id(self._cluster, gang.namespace, gang.name)

    async def start(self, pod: Pod, *, cause: str, check_queue: bool) -> None:
        """Start the pod's chain here, or join the open one; see `Starter`."""
        elsewhere = check_queue and await self._sits_elsewhere(self.workflow_id(pod))
        build_id = self._build_id
        try:
            await self._start(pod, cause, build_id, terminate_existing=elsewhere)
        except RPCError as error:
            if not build_id or not _refuses_builds(error):
                raise
            self._name_no_build()
            await self._start(pod, cause, "", terminate_existing=elsewhere)

    def _name_no_build(self) -> None:
        if self._build_id:
            self._build_id = ""
            log.warning("Temporal lets no start name its build, so it writes what it shows of a run once more")

    async def _start(self, pod: Pod, cause: str, build_id: str, *, terminate_existing: bool) -> None:
        await start_attempt(
            self._client,
            cluster=self._cluster,
            namespace=pod.namespace,
            name=pod.name,
            uid=pod.uid,
            tenant=self._tenant,
            revision=pod.mod_revision,
            woken_by=cause,
            eager=True,
            build_id=build_id,
            terminate_existing=terminate_existing,
            timings=self._timings,
            rpc_timeout=RPC_TIMEOUT,
        )

    async def start_cohort(self, name: str, pods: Sequence[CohortPod], *, cause: str, turn: Turn) -> None:
        """Start a cohort of these pods here; see `Starter`."""
        cohort = CohortInput(pods=tuple(pods), woken_by=cause, turn=turn)
        await self._client.start_workflow(
            SCHEDULE_COHORT,
            cohort.model_dump(exclude_defaults=True),
            id=cohort_workflow_id(self._cluster, name),
            task_queue=self._queue,
            id_reuse_policy=WorkflowIDReusePolicy.REJECT_DUPLICATE,
            retry_policy=cohort_retry(),
            task_timeout=TASK_TIMEOUT,
            search_attributes=self._attributes,
            static_summary=f"{len(pods)} pods",
            request_eager_start=True,
            rpc_timeout=RPC_TIMEOUT,
        )

    async def start_gang(
        self, gang: GangName, *, revision: int, cause: str, check_queue: bool, wake: Wake | None = None
    ) -> None:
        """Start the gang's chain here, or join the open one; see `Starter`."""
        cohort = CohortInput(gang=gang, revision=revision, woken_by=cause, timings=self._timings or AttemptTimings())
        workflow_id = self.gang_workflow_id(gang)
        elsewhere = check_queue and await self._sits_elsewhere(workflow_id)
        terminate, use = WorkflowIDConflictPolicy.TERMINATE_EXISTING, WorkflowIDConflictPolicy.USE_EXISTING
        await self._client.start_workflow(
            SCHEDULE_COHORT,
            cohort.model_dump(exclude_defaults=True),
            id=workflow_id,
            task_queue=self._queue,
            id_reuse_policy=WorkflowIDReusePolicy.ALLOW_DUPLICATE,
            id_conflict_policy=terminate if elsewhere else use,
            retry_policy=chain_retry(cohort.timings),
            task_timeout=TASK_TIMEOUT,
            search_attributes=self._attributes,
            static_summary=f"gang {gang.namespace}/{gang.name}",
            request_eager_start=wake is None,  # it cannot go with a signal
            start_signal=WAKE if wake is not None else None,
            start_signal_args=[wake] if wake is not None else [],
            rpc_timeout=RPC_TIMEOUT,
        )

    async def wake(self, workflow_id: str, wake: Wake) -> bool:
        """Signal the chain; whether there was an open one.

        The id comes from a record in etcd, where anybody may have written it: others' workflows are left alone.
        """
        if not workflow_id.startswith(f"{self._cluster}/"):
            return False
        try:
            await self._client.get_workflow_handle(workflow_id).signal(WAKE, wake, rpc_timeout=RPC_TIMEOUT)
        except RPCError as error:
            if error.status in _NOBODY:
                return False
            raise
        return True

    async def _sits_elsewhere(self, workflow_id: str) -> bool:
        """Whether an open chain lies on a task queue other than ours."""
        try:
            found = await self._client.get_workflow_handle(workflow_id).describe(rpc_timeout=RPC_TIMEOUT)
        except RPCError as error:
            if error.status is RPCStatusCode.NOT_FOUND:
                return False
            raise
        return found.status is WorkflowExecutionStatus.RUNNING and found.task_queue != self._queue


def _refuses_builds(error: RPCError) -> bool:
    """Whether the server, an old one say, refuses the attribute that would only spare it work."""
    return error.status is RPCStatusCode.INVALID_ARGUMENT and SEARCH_BUILDS in error.message
