"""Starting attempts, and the small typed client for programs that want a pod placed.

`start_attempt` is how every attempt of ours begins: the dispatcher's, the command line's and those of
`Wharfinger`. Neighbours: `workflows.schedule_attempt` runs what is started here (it is named, never
imported), `observe.explanation` reads what became of it.

::

    async with Wharfinger.connect() as wharfinger:
        result = await wharfinger.schedule("default", "web-1", timeout=60)
        print(result.outcome, result.node)
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from temporalio.client import Client, WorkflowHandle
from temporalio.common import (
    SearchAttributeKey,
    SearchAttributePair,
    TypedSearchAttributes,
    WorkflowIDConflictPolicy,
    WorkflowIDReusePolicy,
)

from wharfinger.contracts.names import COMMON, SCHEDULE_ATTEMPT, SEARCH_POD, SEARCH_TENANT, pod_workflow_id, task_queue
from wharfinger.contracts.scheduling import AttemptResult, AttemptTimings, chain_retry

TASK_TIMEOUT = timedelta(seconds=3)
"""How long a crashed worker can keep a task that it took; busy machines pause for 0.4 s."""

POD_KEY = SearchAttributeKey.for_keyword(SEARCH_POD)
TENANT_KEY = SearchAttributeKey.for_keyword(SEARCH_TENANT)

AttemptHandle = WorkflowHandle[Any, AttemptResult]


async def start_attempt(
    client: Client,
    *,
    cluster: str,
    namespace: str,
    name: str,
    uid: str,
    tenant: str = COMMON,
    revision: int = 0,
    woken_by: str = "",
    eager: bool = True,
    terminate_existing: bool = False,
    timings: AttemptTimings | None = None,
    rpc_timeout: timedelta | None = None,
) -> AttemptHandle:
    """Start the pod's chain of attempts, or join the one that is open; answers its handle.

    Joining adds no event to the open run. `uid` is `Pod.uid`; `revision` one of the pod that the placing
    worker must have seen (0 = it reads); `tenant` says on whose task queue the work lies. `eager` lets a
    worker on this very client take the first task without a round trip. `terminate_existing` ends an
    open chain first: it may lie on a task queue that nobody polls any more.

    Raises `temporalio.service.RPCError` as the client does; nothing is retried beyond its own retries.
    """
    request: dict[str, Any] = {"namespace": namespace, "name": name, "uid": uid}
    if revision:
        request["revision"] = revision
    if woken_by:
        request["woken_by"] = woken_by
    if timings is not None:
        request["timings"] = timings.model_dump(exclude_defaults=True)
    conflict = WorkflowIDConflictPolicy.TERMINATE_EXISTING if terminate_existing else None
    return await client.start_workflow(
        SCHEDULE_ATTEMPT,
        request,
        id=pod_workflow_id(cluster, namespace, name, uid),
        task_queue=task_queue(cluster, tenant),
        result_type=AttemptResult,
        id_reuse_policy=WorkflowIDReusePolicy.ALLOW_DUPLICATE,
        id_conflict_policy=conflict or WorkflowIDConflictPolicy.USE_EXISTING,
        retry_policy=chain_retry(timings or AttemptTimings()),
        task_timeout=TASK_TIMEOUT,
        search_attributes=attributes(namespace, name, tenant),
        static_summary=f"{namespace}/{name}",
        request_eager_start=eager,
        rpc_timeout=rpc_timeout,
    )


def attributes(namespace: str, name: str, tenant: str = COMMON) -> TypedSearchAttributes:
    """What an attempt can be found by from its start on."""
    pairs: list[SearchAttributePair[Any]] = [SearchAttributePair(POD_KEY, f"{namespace}/{name}")]
    if tenant != COMMON:
        pairs.append(SearchAttributePair(TENANT_KEY, tenant))
    return TypedSearchAttributes(pairs)
