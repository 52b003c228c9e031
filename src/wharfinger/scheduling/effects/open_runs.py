"""Open runs of attempts: how each is started, by the dispatcher and by `Wharfinger`, and how it is reached.

Neighbours: `workflows.schedule_attempt` runs what is started here (it is named, never imported),
`reading.attempts` reads what became of it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from datetime import timedelta
from typing import Any, TypeVar

from temporalio.client import Client, WorkflowExecutionStatus, WorkflowFailureError, WorkflowHandle
from temporalio.common import (
    Priority,
    SearchAttributeKey,
    SearchAttributePair,
    TypedSearchAttributes,
    WorkflowIDConflictPolicy,
    WorkflowIDReusePolicy,
)
from temporalio.service import RPCError, RPCStatusCode

from wharfinger.errors import ServerError, WharfingerError
from wharfinger.process.names import (
    COMMON,
    SCHEDULE_ATTEMPT,
    SEARCH_BUILDS,
    SEARCH_POD,
    SEARCH_TENANT,
    pod_attribute,
    pod_workflow_id,
    task_queue,
)
from wharfinger.scheduling.contracts.attempts import AttemptResult, AttemptTimings, chain_retry

TASK_TIMEOUT = timedelta(seconds=3)
"""How long a crashed worker can keep a task that it took; busy machines pause for 0.4 s."""

RPC_TIMEOUT = timedelta(seconds=5)
"""For one try of a call to Temporal; the caller tries again."""

POD_KEY = SearchAttributeKey.for_keyword(SEARCH_POD)
TENANT_KEY = SearchAttributeKey.for_keyword(SEARCH_TENANT)
BUILDS_KEY = SearchAttributeKey.for_keyword_list(SEARCH_BUILDS)

UNVERSIONED = "unversioned"
"""How Temporal marks builds of workers that leave versions to their own code, as ours do."""

AttemptHandle = WorkflowHandle[Any, AttemptResult]
T = TypeVar("T")


async def kept(answer: Awaitable[T]) -> T | None:
    """What Temporal answers about a run; None where it has no such run, or no longer. Raises `RPCError`."""
    try:
        return await answer
    except RPCError as error:
        if error.status is RPCStatusCode.NOT_FOUND:
            return None
        raise


LONGEST_FAIRNESS_KEY = 64
"""Bytes; Temporal refuses more, and no namespace of Kubernetes' is longer."""


async def queue_of_open(client: Client, workflow_id: str) -> str:
    """The task queue on which the workflow's open run lies; empty when none is open. Raises `RPCError`."""
    found = await kept(client.get_workflow_handle(workflow_id).describe(rpc_timeout=RPC_TIMEOUT))
    return found.task_queue if found is not None and found.status is WorkflowExecutionStatus.RUNNING else ""


async def signal_open(client: Client, workflow_id: str, name: str, argument: Any) -> bool:
    """Signal the workflow's open run; False when there is none. Raises `RPCError`."""
    try:
        await client.get_workflow_handle(workflow_id).signal(name, argument, rpc_timeout=RPC_TIMEOUT)
    except RPCError as error:
        # There can be none, for example because the id is too long. A retry does not help.
        if error.status in (RPCStatusCode.NOT_FOUND, RPCStatusCode.INVALID_ARGUMENT):
            return False
        raise
    return True


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
    attempts_before: int = 0,
    eager: bool = True,
    build_id: str = "",
    terminate_existing: bool = False,
    timings: AttemptTimings | None = None,
    rpc_timeout: timedelta | None = None,
) -> AttemptHandle:
    """Start the pod's chain of attempts, or join the one that is open; answers its handle.

    Joining adds no event to the open run. `uid` is `Pod.uid`; `revision` one of the pod that the placing
    worker must have seen (0 = it reads); `woken_by` is the cause that is explained; a new chain counts on from
    `attempts_before`; `tenant` says on whose task queue the work lies. `eager` lets a worker on this very client take
    the first task without a round trip; `build_id` is that worker's, see `attributes`. `terminate_existing` ends an
    open chain first: it may lie on a task queue that no worker polls any more.

    Raises `temporalio.service.RPCError` as the client does; nothing is retried beyond its own retries.
    """
    request: dict[str, Any] = {"namespace": namespace, "name": name, "uid": uid}
    if revision:
        request["revision"] = revision
    if woken_by:
        request["woken_by"] = woken_by
    if attempts_before:
        request["attempts_before"] = attempts_before
    if timings is not None:
        request["timings"] = timings.model_dump(exclude_defaults=True)
    terminate, use = WorkflowIDConflictPolicy.TERMINATE_EXISTING, WorkflowIDConflictPolicy.USE_EXISTING
    return await client.start_workflow(
        SCHEDULE_ATTEMPT,
        request,
        id=pod_workflow_id(cluster, namespace, name, uid),
        task_queue=task_queue(cluster, tenant),
        result_type=AttemptResult,
        id_reuse_policy=WorkflowIDReusePolicy.ALLOW_DUPLICATE,
        id_conflict_policy=terminate if terminate_existing else use,
        retry_policy=chain_retry(timings or AttemptTimings()),
        task_timeout=TASK_TIMEOUT,
        search_attributes=attributes(namespace, name, tenant, build_id),
        static_summary=f"{namespace}/{name}",
        priority=Priority(fairness_key=namespace.encode()[:LONGEST_FAIRNESS_KEY].decode(errors="ignore")),
        request_eager_start=eager,
        rpc_timeout=rpc_timeout,
    )


async def outcome_of(handle: AttemptHandle, pod: str, timeout: float | None = None) -> AttemptResult:
    """How a pod's chain of attempts ends; raises as `Wharfinger.schedule` does."""
    try:
        async with asyncio.timeout(timeout):
            return _as_today(await handle.result())
    except WorkflowFailureError as error:
        raise WharfingerError(f"the attempts of pod {pod} ended: {error.cause or error}") from error
    except RPCError as error:
        raise ServerError(f"Temporal did not return the outcome of pod {pod}: {error}") from error


def _as_today(result: AttemptResult) -> AttemptResult:
    """The same answer in today's words: workers of 0.1 said `gone`, with the node, where another attempt had bound."""
    if result.outcome == "gone" and result.node:
        return result.model_copy(update={"outcome": "bound"})
    return result


def attributes(namespace: str, name: str, tenant: str = COMMON, build_id: str = "") -> TypedSearchAttributes:
    """What an attempt can be found by from its start on.

    `build_id`: of the worker that will take the first task, where that is known. Temporal notes the builds that
    completed a run's tasks, and writes what it shows of the run once more for it, in all its indexes; what it finds
    noted already it leaves (the values are `worker_versioning.VersionStampToBuildIdSearchAttribute`'s of its source).
    """
    pod = SearchAttributePair(POD_KEY, pod_attribute(namespace, name))
    return TypedSearchAttributes([pod, *of_tenant(tenant), *builds(build_id)])


def of_tenant(tenant: str) -> list[SearchAttributePair[Any]]:
    """What a tenant's runs are found by; nothing for the common pool's."""
    return [] if tenant == COMMON else [SearchAttributePair(TENANT_KEY, tenant)]


def builds(build_id: str) -> list[SearchAttributePair[Any]]:
    """What Temporal would note of the build; nothing where it is not known."""
    return [SearchAttributePair(BUILDS_KEY, [UNVERSIONED, f"{UNVERSIONED}:{build_id}"])] if build_id else []
