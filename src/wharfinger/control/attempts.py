"""Starts and wakes attempts through a Temporal client: the real `Starter` and `Signaller`."""

from __future__ import annotations

from datetime import timedelta

from temporalio.client import Client, WorkflowExecutionStatus
from temporalio.service import RPCError, RPCStatusCode

from wharfinger.client import start_attempt
from wharfinger.contracts.names import pod_workflow_id, task_queue
from wharfinger.contracts.scheduling import AttemptTimings, Wake
from wharfinger.model.pod import Pod

RPC_TIMEOUT = timedelta(seconds=5)
"""For one try; the callers try again by themselves."""
WAKE = "wake"


class TemporalAttempts:
    """Attempts of one pool on one client (the worker's own, so that eager starts find it)."""

    def __init__(self, client: Client, *, cluster: str, tenant: str, timings: AttemptTimings | None = None) -> None:
        """`timings` of the chains that are started; None = the defaults, which the inputs then do not repeat."""
        self._client = client
        self._timings = timings
        self._cluster = cluster
        self._tenant = tenant
        self._queue = task_queue(cluster, tenant)

    def workflow_id(self, pod: Pod) -> str:
        """The id of a pod's chain."""
        return pod_workflow_id(self._cluster, pod.namespace, pod.name, pod.uid)

    async def start(self, pod: Pod, *, cause: str, check_queue: bool) -> None:
        """Start the pod's chain here, or join the open one; see `Starter`."""
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
            terminate_existing=check_queue and await self._sits_elsewhere(pod),
            timings=self._timings,
            rpc_timeout=RPC_TIMEOUT,
        )

    async def wake(self, workflow_id: str, wake: Wake) -> bool:
        """Signal the chain; whether there was an open one."""
        try:
            await self._client.get_workflow_handle(workflow_id).signal(WAKE, wake, rpc_timeout=RPC_TIMEOUT)
        except RPCError as error:
            if error.status is RPCStatusCode.NOT_FOUND:
                return False
            raise
        return True

    async def _sits_elsewhere(self, pod: Pod) -> bool:
        """Whether an open chain of the pod lies on a task queue other than ours."""
        try:
            found = await self._client.get_workflow_handle(self.workflow_id(pod)).describe(rpc_timeout=RPC_TIMEOUT)
        except RPCError as error:
            if error.status is RPCStatusCode.NOT_FOUND:
                return False
            raise
        return found.status is WorkflowExecutionStatus.RUNNING and found.task_queue != self._queue
