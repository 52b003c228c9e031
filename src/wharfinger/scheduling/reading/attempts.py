"""Fetching what is recorded of a pod's attempts: from Temporal its runs, from etcd the pod and its record.

Every fetch is bounded. The pod's own runs are found by the search attribute `WharfingerPod`, those of cohorts and gangs
by `WharfingerPods`. As visibility is a little late, the newest run of the pod's own workflow id is looked up as well,
and so are the runs that the pod, its record and its attempts name. A pod's part in a cohort's run is returned as an
attempt of that pod.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC

from temporalio.api.enums.v1 import PendingActivityState
from temporalio.api.history.v1 import HistoryEvent
from temporalio.api.workflow.v1 import PendingActivityInfo
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from wharfinger.errors import InvalidObject, NotFound, ServerError
from wharfinger.etcd import keys
from wharfinger.etcd.store import KeyValue, Store
from wharfinger.objects.documents.formats import format_of
from wharfinger.objects.model.pod import Pod, PodKey
from wharfinger.objects.model.texts import one_line
from wharfinger.process.names import (
    SCHEDULE_ATTEMPT,
    SCHEDULE_COHORT,
    SEARCH_POD,
    SEARCH_PODS,
    by_digest,
    decisions_query,
    gang_workflow_id,
    is_cohort,
    pod_attribute,
    pod_workflow_id,
    quoted,
)
from wharfinger.process.records import binder_of
from wharfinger.process.temporal_plugins import decode
from wharfinger.scheduling.effects.open_runs import kept
from wharfinger.scheduling.reading.explanation import Explanation, explain
from wharfinger.scheduling.reading.group_members import read_member
from wharfinger.scheduling.reading.history import Attempt, Step, is_only_continued, read_attempt
from wharfinger.scheduling.reading.pods_and_nodes import read_record

LIMIT = 50
"""Runs that are fetched unless more are asked for, the newest ones."""
CONCURRENT = 8
"""Histories fetched at a time."""

Run = tuple[str, str]
"""Workflow id and run id."""
LONGEST = 500
"""Characters of a failure."""
WAITED = "waited"


async def explain_pod(client: Client, store: Store, *, cluster: str, key: PodKey, limit: int = LIMIT) -> Explanation:
    """Everything known of a pod's scheduling; raises `StoreError`, `ServerError`, `InvalidObject`."""
    pod, bound_by = await _pod(store, key)
    record = await read_record(store, key)
    attempts = await fetch_attempts(client, cluster=cluster, key=key, uid=pod.uid if pod else "", limit=limit)
    named = [bound_by, *(one.after_cohort for one in attempts)]
    if record is not None:  # of a gang's or a cohort's run, the pod was one of many
        named += [record.decided_by, f"{record.workflow_id}@{record.run_id}"]
    gang = await _gang_runs(client, cluster, pod, limit) if pod is not None and pod.group else []
    shared = await _shared_runs(client, cluster, key, min(limit, LIMIT))
    cohorts = dict.fromkeys([*shared, *gang, *(_run(name) for name in named if is_cohort(cluster, name))])
    attempts += await _memberships(client, list(cohorts)[-limit:], key)
    attempts = sorted(attempts, key=lambda one: one.started)[-limit:]
    query = decisions_query(cluster, *key, group=pod.group if pod is not None else "")
    return explain(str(key), pod, bound_by, record, attempts, limit=limit, query=query)


async def fetch_attempts(
    client: Client, *, cluster: str, key: PodKey, uid: str = "", limit: int = LIMIT
) -> list[Attempt]:
    """The newest `limit` recorded attempts of a pod, oldest first; raises `ServerError`."""
    with _asking_for(f"pod {key}"):
        runs = await find_runs(client, cluster, key, limit)
        if uid:
            workflow_id = pod_workflow_id(cluster, key.namespace, key.name, uid)
            described = await kept(client.get_workflow_handle(workflow_id).describe())
            newest = (workflow_id, described.run_id) if described is not None else None
            runs += [newest] if newest and newest not in runs else []
        gate = asyncio.Semaphore(CONCURRENT)
        found = await asyncio.gather(*(_attempt(client, run, gate) for run in runs))
    return sorted((one for one in found if one is not None), key=lambda one: one.started)


@contextmanager
def _asking_for(what: str) -> Iterator[None]:
    """Raise `ServerError` where Temporal does not answer."""
    try:
        yield
    except RPCError as error:
        raise ServerError(f"Temporal did not return the attempts of {what}: {error.message}") from error


async def _gang_runs(client: Client, cluster: str, pod: Pod, limit: int) -> list[Run]:
    """The attempts of the pod's gang, oldest first; raises `ServerError`."""
    workflow_id = gang_workflow_id(cluster, pod.namespace, pod.group)
    with _asking_for(f"gang {pod.group}"):
        found = [run async for run in client.list_workflows(f"WorkflowId={quoted(workflow_id)}", limit=limit)]
    return [(run.id, run.run_id) for run in reversed(found)]


async def _shared_runs(client: Client, cluster: str, key: PodKey, limit: int) -> list[Run]:
    """The newest runs of cohorts and gangs that list the pod, oldest first; raises `ServerError`.

    None where Temporal does not know the attribute. Other pods may have the same digest.
    """
    cohorts = f'WorkflowType="{SCHEDULE_COHORT}" AND WorkflowId STARTS_WITH "{cluster}/cohort/"'
    with _asking_for(f"pod {key}"):
        try:
            found = [run async for run in client.list_workflows(f"{cohorts} AND {by_digest(*key)}", limit=limit)]
        except RPCError as error:
            if error.status is RPCStatusCode.INVALID_ARGUMENT and SEARCH_PODS in error.message:
                return []
            raise
    return [(run.id, run.run_id) for run in reversed(found)]


async def _memberships(client: Client, runs: Sequence[Run], key: PodKey) -> list[Attempt]:
    """The pod's part in those runs of cohorts and gangs; raises `ServerError`."""
    gate = asyncio.Semaphore(CONCURRENT)
    with _asking_for(f"pod {key}"):
        histories = await asyncio.gather(*(_history(client, run, gate) for run in runs))
    found = (read_member(*run, events, key) for run, events in zip(runs, histories, strict=True) if events)
    return [one for one in found if one is not None]


def _run(name: str) -> Run:
    workflow_id, _, run_id = name.rpartition("@")
    return workflow_id, run_id


async def find_runs(client: Client, cluster: str, key: PodKey, limit: int) -> list[Run]:
    """Runs that name the pod, newest first; other clusters may share the Temporal namespace."""
    pod = quoted(pod_attribute(*key))
    query = f'{SEARCH_POD}={pod} AND WorkflowType="{SCHEDULE_ATTEMPT}" AND WorkflowId STARTS_WITH "{cluster}/pod/"'
    return [(run.id, run.run_id) async for run in client.list_workflows(query, limit=limit)]


async def _attempt(client: Client, run: Run, gate: asyncio.Semaphore) -> Attempt | None:
    """One run's attempt; None when retention took it meanwhile, or it only continued as new."""
    events = await _history(client, run, gate)
    if events is None or is_only_continued(events):
        return None
    attempt = read_attempt(*run, events)
    if attempt is not None and is_doing(attempt):
        async with gate:
            attempt = with_pending(attempt, await _pending(client, run))
    return attempt


async def _pending(client: Client, run: Run) -> Sequence[PendingActivityInfo]:
    """What an open run has done now, with the tries that are no events of its history yet; none once it is gone."""
    workflow_id, run_id = run
    described = await kept(client.get_workflow_handle(workflow_id, run_id=run_id).describe())
    if described is None:
        return ()
    pending = described.raw_description.pending_activities
    await decode(client, pending, f"run {run_id} of {workflow_id}")
    return pending


async def _history(client: Client, run: Run, gate: asyncio.Semaphore) -> Sequence[HistoryEvent] | None:
    """One run's events; None when retention took them."""
    workflow_id, run_id = run
    async with gate:
        history = await kept(client.get_workflow_handle(workflow_id, run_id=run_id).fetch_history())
    if history is None:
        return None
    await decode(client, history.events, f"run {run_id} of {workflow_id}")
    return history.events


async def _pod(store: Store, key: PodKey) -> tuple[Pod | None, str]:
    """The pod, and which attempt bound it."""
    read = await store.get(keys.pod(*key))
    if read.kv is None:
        return None, ""
    pod = decoded(store, read.kv, key)
    return pod, await bound_by(store, read.kv, pod)


async def bound_by(store: Store, kv: KeyValue, pod: Pod) -> str:
    """`<workflow id>@<run id>` of what bound a stored pod; empty when another writer did, or none. Raises `StoreError`.

    It stands in the pod, or in a record of its own where pods do not carry it.
    """
    format_ = format_of(store.format)
    if format_.marks_pods:
        return format_.attempt_of(kv.value)
    record = (await store.get(keys.bound_by(*pod.key))).kv if pod.bound else None
    return binder_of(record.value, pod.create_revision, pod.node_name) if record is not None else ""


async def stored_pod(store: Store, key: PodKey) -> Pod:
    """The pod. Raises `NotFound`, `InvalidObject`, `StoreError`."""
    read = await store.get(keys.pod(*key))
    if read.kv is None:
        raise NotFound(f"there is no pod {key}")
    return decoded(store, read.kv, key)


def decoded(store: Store, kv: KeyValue, key: PodKey) -> Pod:
    """A pod as stored that a user named. Raises `InvalidObject`, which names it."""
    try:
        return format_of(store.format).decode_pod(kv.value, **key._asdict(), **kv.revisions)
    except InvalidObject as error:
        raise InvalidObject(f"pod {key} cannot be read: {error}") from error


# --- what an open run does now --------------------------------------------------------------------
#
# Temporal writes an activity's tries to the history when it ends. Until then, the last failure and the next try are in
# the description of the run.


def is_doing(attempt: Attempt) -> bool:
    """Whether an activity of it has not ended."""
    return any(_is_open(step) for step in attempt.steps)


def with_pending(attempt: Attempt, pending: Sequence[PendingActivityInfo]) -> Attempt:
    """The attempt, whose open steps have their tries so far, the last failure, and when the next try is due."""
    by_name = {info.activity_type.name: info for info in pending}
    steps = [
        _told(step, info) if _is_open(step) and (info := by_name.get(step.name)) is not None else step
        for step in attempt.steps
    ]
    return replace(attempt, steps=steps)


def _is_open(step: Step) -> bool:
    return step.seconds is None and step.name != WAITED


def _told(step: Step, info: PendingActivityInfo) -> Step:
    tries = max(1, info.attempt)
    words = [step.detail] if step.detail else []
    if info.HasField("last_failure"):
        failure = info.last_failure
        why = failure.message or failure.cause.message or "for no reason that is told"
        words.append(f"try {tries - 1} failed ({one_line(why, LONGEST)}), and {_next(info, tries)}")
    return replace(step, tries=tries, detail=": ".join(words))


def _next(info: PendingActivityInfo, number: int) -> str:
    """What has become of the try of that number."""
    if info.state != PendingActivityState.PENDING_ACTIVITY_STATE_SCHEDULED:
        return f"try {number} is being made"
    due = info.next_attempt_schedule_time if info.HasField("next_attempt_schedule_time") else info.scheduled_time
    return f"try {number} is due at {due.ToDatetime(tzinfo=UTC):%H:%M:%S}Z"
