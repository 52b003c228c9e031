"""Starts and signals the workflows that clear nodes, through a Temporal client: the real `NodeStarter`."""

from __future__ import annotations

from collections.abc import Callable

from temporalio.client import Client, WorkflowExecutionStatus
from temporalio.common import (
    SearchAttributeKey,
    SearchAttributePair,
    TypedSearchAttributes,
    WorkflowIDConflictPolicy,
    WorkflowIDReusePolicy,
)
from temporalio.service import RPCError, RPCStatusCode

from wharfinger.process.names import NODE_EVICTION, SEARCH_NODE, node_workflow_id, task_queue
from wharfinger.scheduling.contracts.node_eviction import NodeInput, node_retry
from wharfinger.scheduling.effects.starts import RPC_TIMEOUT, TASK_TIMEOUT

NODE_KEY = SearchAttributeKey.for_keyword(SEARCH_NODE)


class TemporalNodes:
    """Workflows of nodes on the task queue of one pool."""

    def __init__(self, client: Client, *, cluster: str, tenant: str) -> None:
        self._client = client
        self._cluster = cluster
        self._queue = task_queue(cluster, tenant)

    async def start(self, node: str, *, signal: str, serves: Callable[[str], bool]) -> None:
        """See `NodeStarter.start`."""
        stranded = await self._stranded(node, serves)
        terminate, use = WorkflowIDConflictPolicy.TERMINATE_EXISTING, WorkflowIDConflictPolicy.USE_EXISTING
        await self._client.start_workflow(
            NODE_EVICTION,
            NodeInput(node=node).model_dump(exclude_defaults=True),
            id=node_workflow_id(self._cluster, node),
            task_queue=self._queue,
            id_reuse_policy=WorkflowIDReusePolicy.ALLOW_DUPLICATE,
            id_conflict_policy=terminate if stranded else use,
            retry_policy=node_retry(),
            task_timeout=TASK_TIMEOUT,
            search_attributes=TypedSearchAttributes([SearchAttributePair(NODE_KEY, node)]),
            static_summary=f"node {node}",
            static_details="Removes the pods of a node that does not exist, or that do not tolerate its taints.",
            start_signal=signal or None,
            rpc_timeout=RPC_TIMEOUT,
        )

    async def signal(self, node: str, signal: str) -> None:
        """See `NodeStarter.signal`."""
        handle = self._client.get_workflow_handle(node_workflow_id(self._cluster, node))
        try:
            await handle.signal(signal, rpc_timeout=RPC_TIMEOUT)
        except RPCError as error:
            if error.status is not RPCStatusCode.NOT_FOUND:
                raise

    async def _stranded(self, node: str, serves: Callable[[str], bool]) -> bool:
        """Whether the open run lies on the task queue of a pool that has no ready worker."""
        handle = self._client.get_workflow_handle(node_workflow_id(self._cluster, node))
        try:
            found = await handle.describe(rpc_timeout=RPC_TIMEOUT)
        except RPCError as error:
            if error.status is RPCStatusCode.NOT_FOUND:
                return False
            raise
        running = found.status is WorkflowExecutionStatus.RUNNING
        return running and found.task_queue != self._queue and not serves(found.task_queue.rpartition("/")[2])
