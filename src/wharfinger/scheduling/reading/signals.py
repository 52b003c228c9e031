"""The signals `wake` and `permit` to a pod's open attempt, and the update `permit`."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from temporalio.client import Client, WorkflowUpdateFailedError, WorkflowUpdateRPCTimeoutOrCancelledError
from temporalio.service import RPCError, RPCStatusCode

from wharfinger.errors import ServerError
from wharfinger.objects.model.pod import Pod
from wharfinger.process.names import pod_workflow_id
from wharfinger.process.records import AttemptRecord
from wharfinger.scheduling.contracts.attempts import PermitDecision, Wake
from wharfinger.scheduling.effects.open_runs import signal_open

ANSWER_WITHIN = timedelta(seconds=10)
"""For an update's answer: a worker has to run the attempt's next task."""


@dataclass(frozen=True, slots=True)
class Signalled:
    """What became of a signal."""

    delivered: bool
    workflow_id: str
    """Of the run that got it, or would have."""
    why: str = ""
    """One line with why it was refused; empty when it was delivered."""


async def wake(client: Client, record: AttemptRecord | None, *, cluster: str, pod: Pod) -> Signalled:
    """Make the pod's parked attempt, or its gang's, try again at once. Raises `ServerError`.

    `record`: of the pod's last attempt.
    """
    workflow_id = pod_workflow_id(cluster, pod.namespace, pod.name, pod.uid)
    if record is not None and record.parked:
        # The record may be any client's: workflows of others are left alone.
        named = record.workflow_id
        workflow_id = named if named.startswith(f"{cluster}/") else workflow_id
    attempts = record.attempt if record is not None and not pod.group else 0
    return await _signal(client, workflow_id, "wake", Wake(attempts=attempts), pod)


async def permit(client: Client, *, cluster: str, pod: Pod, permission: PermitDecision) -> Signalled:
    """Allow or refuse the bind of a pod that a Permit plugin holds. Raises `ServerError`."""
    workflow_id = pod_workflow_id(cluster, pod.namespace, pod.name, pod.uid)
    return await _signal(client, workflow_id, "permit", permission, pod)


async def answer(client: Client, *, cluster: str, pod: Pod, permission: PermitDecision) -> Signalled:
    """Allow or refuse the bind of a pod that a Permit plugin holds now; one answer counts. Raises `ServerError`."""
    handle = client.get_workflow_handle(pod_workflow_id(cluster, pod.namespace, pod.name, pod.uid))
    if pod.bound:
        return _bound(handle.id, pod)
    try:
        await handle.execute_update("permit", permission, rpc_timeout=ANSWER_WITHIN)
    except WorkflowUpdateRPCTimeoutOrCancelledError as error:
        if isinstance(error.__cause__, asyncio.CancelledError):
            raise asyncio.CancelledError from error
        within = f"{ANSWER_WITHIN.total_seconds():g} s"
        raise ServerError(f"no worker took the answer for pod {pod.key} within {within}; it may still count") from error
    except WorkflowUpdateFailedError as error:  # a worker of the release before fails so, too: it has no such update
        return Signalled(False, handle.id, f"pod {pod.key}: {getattr(error.cause, 'message', error.cause)}")
    except RPCError as error:
        if error.status is RPCStatusCode.NOT_FOUND:
            return Signalled(False, handle.id, f"pod {pod.key} has no open attempt")
        raise ServerError(f"Temporal did not take the answer for pod {pod.key}: {error.message}") from error
    return Signalled(True, handle.id)


async def _signal(client: Client, workflow_id: str, name: str, argument: Any, pod: Pod) -> Signalled:
    if pod.bound:
        return _bound(workflow_id, pod)
    try:
        delivered = await signal_open(client, workflow_id, name, argument)
    except RPCError as error:
        raise ServerError(f"Temporal did not take the signal {name} for pod {pod.key}: {error.message}") from error
    return Signalled(delivered, workflow_id, "" if delivered else f"pod {pod.key} has no open attempt")


def _bound(workflow_id: str, pod: Pod) -> Signalled:
    """Its run may be open for a moment more."""
    return Signalled(False, workflow_id, f"pod {pod.key} is bound to {pod.node_name} already")
