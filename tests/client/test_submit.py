"""Submitting pods, and the signals `wake` and `permit`, against the real Temporal server."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest

from tests.client.cluster import Cluster, running
from tests.conftest import TemporalServer
from tests.patience import patient
from tests.scheduling.effects.placing.test_placing_lone import Fussy, with_plugin
from tests.scheduling.world import World, pod_object, world
from wharfinger.client import AttemptResult, Wharfinger, outcome_of
from wharfinger.errors import AlreadyExists, InvalidObject, NotFound, ServerError, UsageError
from wharfinger.etcd import keys
from wharfinger.framework.interface import Permission
from wharfinger.framework.status import Code, Status
from wharfinger.scheduling.reading import signals

__all__ = ["world"]

PLAIN: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "web"},
    "spec": {"containers": [{"name": "main", "image": "web:1", "resources": {"requests": {"cpu": "1"}}}]},
}


@pytest.fixture
async def cluster(temporal_server: TemporalServer, world: World) -> AsyncIterator[Cluster]:
    async with running(temporal_server, world) as found:
        yield found


async def until_stored(world: World, name: str) -> dict[str, Any]:
    async with asyncio.timeout(patient(10)):
        while (kv := (await world.store.get(keys.pod("default", name))).kv) is None:
            await asyncio.sleep(0.01)
    found: dict[str, Any] = json.loads(kv.value)
    return found


# --- submit ---------------------------------------------------------------------------------------


async def test_submit_creates_the_pod_and_returns_when_it_is_bound(cluster: Cluster) -> None:
    await cluster.world.put_node("node-1")
    submitted = asyncio.create_task(cluster.wharfinger.submit(PLAIN, timeout=patient(20)))
    stored = await until_stored(cluster.world, "web")
    assert (stored["metadata"]["namespace"], len(stored["metadata"]["uid"])) == ("default", 36)
    assert stored["metadata"]["creationTimestamp"].endswith("Z")
    placed = await cluster.wharfinger.schedule("default", "web", timeout=patient(20))

    result = await submitted

    assert (placed.outcome, placed.node) == (result.outcome, result.node) == ("bound", "node-1")
    annotations = (await cluster.world.pod("web"))["metadata"]["annotations"]
    assert result.bound_by == annotations["wharfinger.dev/attempt"] != ""


async def test_a_submission_that_is_repeated_waits_for_the_same_pod(cluster: Cluster) -> None:
    await cluster.world.put_node("node-1")
    first = asyncio.create_task(cluster.wharfinger.submit(PLAIN, timeout=patient(20)))
    uid = (await until_stored(cluster.world, "web"))["metadata"]["uid"]
    second = asyncio.create_task(cluster.wharfinger.submit(PLAIN, timeout=patient(20)))
    await cluster.wharfinger.schedule("default", "web", timeout=patient(20))

    assert await first == await second
    assert await cluster.wharfinger.submit(PLAIN, timeout=patient(20)) == await first
    assert (await cluster.world.pod("web"))["metadata"]["uid"] == uid


async def test_a_creation_whose_answer_was_lost_is_not_made_twice(cluster: Cluster) -> None:
    await cluster.world.put_node("node-1")
    cluster.world.store.fail_next(applied=True)
    submitted = asyncio.create_task(cluster.wharfinger.submit(PLAIN, timeout=patient(20)))
    await until_stored(cluster.world, "web")
    await cluster.wharfinger.schedule("default", "web", timeout=patient(20))

    assert (await submitted).outcome == "bound"
    kv = (await cluster.world.store.get(keys.pod("default", "web"))).kv
    assert kv is not None
    assert json.loads(kv.value)["spec"]["nodeName"] == "node-1"


@pytest.mark.parametrize(
    "stored",
    [pod_object("web", cpu="2"), pod_object("web", spec={"nodeName": "node-9", "priority": 5})],
    ids=["another request", "another priority, bound"],
)
async def test_another_pod_of_the_name_is_refused_and_left_alone(cluster: Cluster, stored: dict[str, Any]) -> None:
    value = json.dumps(stored).encode()
    await cluster.world.store.put(keys.pod("default", "web"), value)

    with pytest.raises(AlreadyExists, match=r"^pod/default/web exists already and differs: delete it first"):
        await cluster.wharfinger.submit(PLAIN, timeout=5)
    kv = (await cluster.world.store.get(keys.pod("default", "web"))).kv
    assert kv is not None
    assert kv.value == value


async def test_unknown_fields_are_kept_where_they_are_not_checked(cluster: Cluster) -> None:
    manifest = {**PLAIN, "spec": {**PLAIN["spec"], "ourOwn": 1}}

    with pytest.raises(TimeoutError):
        await cluster.wharfinger.submit(manifest, timeout=0.1, check_fields=False)
    assert (await cluster.world.pod("web"))["spec"]["ourOwn"] == 1


@pytest.mark.parametrize(
    ("change", "error", "text"),
    [
        ({"spec": {"containers": "none"}}, InvalidObject, "spec.containers"),
        ({"metadata": {"name": "Web_1"}}, InvalidObject, "metadata.name 'Web_1' of a Pod must be lower case"),
        ({"spec": {**PLAIN["spec"], "node_name": "node-1"}}, InvalidObject, "spec.node_name: unknown field"),
        ({"spec": {**PLAIN["spec"], "restartPolicies": ""}}, InvalidObject, "did you mean restartPolicy?"),
        ({"kind": "Node"}, UsageError, "node/web is no pod"),
        ({"kind": "Podd"}, InvalidObject, "kind 'Podd' is not known here"),
    ],
)
async def test_what_is_no_valid_pod_is_not_written(
    cluster: Cluster, change: dict[str, Any], error: type[Exception], text: str
) -> None:
    with pytest.raises(error, match=text):
        await cluster.wharfinger.submit({**PLAIN, **change}, timeout=5)
    assert [page.items async for page in cluster.world.store.list(keys.PODS)] == [()]


@pytest.mark.parametrize(
    ("end", "reason", "detail"),
    [
        ("delete", "deleted", ""),
        ("replace", "replaced", "another pod has the name now"),
        ("terminate", "not-pending", "it is being deleted"),
        ("fail", "not-pending", "its phase is Failed"),
    ],
)
async def test_a_submitted_pod_that_ends_unbound_is_gone_with_the_reason(
    cluster: Cluster, end: str, reason: str, detail: str
) -> None:
    submitted = asyncio.create_task(cluster.wharfinger.submit(PLAIN, timeout=patient(20)))
    await until_stored(cluster.world, "web")
    match end:
        case "delete":
            await cluster.world.store.delete(keys.pod("default", "web"))
        case "replace":
            await cluster.world.store.delete(keys.pod("default", "web"))
            await cluster.world.put_pod("web", uid="second")
        case "terminate":
            await cluster.world.change_pod(
                "web", lambda pod: pod["metadata"].update(deletionTimestamp="2026-03-01T12:00:00Z")
            )
        case _:
            await cluster.world.change_pod("web", lambda pod: pod.update(status={"phase": "Failed"}))

    assert await submitted == AttemptResult(outcome="gone", attempt=0, reason=reason, detail=detail)


async def test_pod_that_was_bound_and_deleted_before_a_read_is_bound(cluster: Cluster) -> None:
    store = cluster.world.store.client()
    store.pause_watches()
    submitted = asyncio.create_task(
        Wharfinger(cluster.client, store, cluster=cluster.name).submit(PLAIN, timeout=patient(20))
    )
    await until_stored(cluster.world, "web")
    await cluster.world.change_pod("web", lambda pod: pod["spec"].update(nodeName="node-9"))
    await cluster.world.store.delete(keys.pod("default", "web"))
    store.resume_watches()

    assert await submitted == AttemptResult(outcome="bound", node="node-9", attempt=0)


async def test_a_submission_whose_changes_were_compacted_goes_by_what_is_stored(cluster: Cluster) -> None:
    store = cluster.world.store.client()
    store.pause_watches()
    submitted = asyncio.create_task(
        Wharfinger(cluster.client, store, cluster=cluster.name).submit(PLAIN, timeout=patient(20))
    )
    await until_stored(cluster.world, "web")
    revision = await cluster.world.change_pod("web", lambda pod: pod["spec"].update(nodeName="node-9"))
    cluster.world.store.compact(revision)
    store.resume_watches()

    assert await submitted == AttemptResult(outcome="bound", node="node-9", attempt=0)


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        ({"schedulerName": "volcano"}, "no live wharfinger instance serves volcano; another scheduler may"),
        ({"priorityClassName": "high"}, "held back: no PriorityClass with name high was found"),
        ({"schedulingGates": [{"name": "quota"}]}, "held back by its scheduling gates: quota"),
        ({}, "no attempt has reported yet: no worker takes pods of the common pool now"),
    ],
    ids=["scheduler name", "class", "gate", "no worker"],
)
async def test_submission_without_an_attempt_gives_the_reason(cluster: Cluster, spec: dict[str, Any], why: str) -> None:
    with pytest.raises(TimeoutError, match=f"is not bound after 0.1 s: {why}"):
        await cluster.wharfinger.submit({**PLAIN, "spec": {**PLAIN["spec"], **spec}}, timeout=0.1)


async def test_a_submission_outlives_reads_that_fail(cluster: Cluster) -> None:
    store = cluster.world.store.client()
    wharfinger = Wharfinger(cluster.client, store, cluster=cluster.name)
    submitted = asyncio.create_task(wharfinger.submit(PLAIN, timeout=patient(20)))
    await until_stored(cluster.world, "web")
    store.fail_reads(2)
    await cluster.world.change_pod("web", lambda pod: pod["spec"].update(nodeName="node-9"))

    assert await submitted == AttemptResult(outcome="bound", node="node-9", attempt=0)


async def test_submission_that_times_out_names_the_reason_and_leaves_the_pod(cluster: Cluster) -> None:
    with pytest.raises(TimeoutError, match=r"^pod default/web is not bound after 0.1 s: no attempt has reported yet"):
        await cluster.wharfinger.submit(PLAIN, timeout=0.1)
    await cluster.world.put_node("small", cpu="500m")
    handle = await cluster.wharfinger.start("default", "web")
    while await cluster.world.record_of("web") is None:
        await asyncio.sleep(0.02)

    with pytest.raises(TimeoutError, match=r"not bound after 0.1 s: 0/1 nodes are available: 1 Insufficient cpu"):
        await cluster.wharfinger.submit(PLAIN, timeout=0.1)
    await handle.terminate()


# --- wake -----------------------------------------------------------------------------------------


async def test_wake_makes_a_waiting_pod_try_again(cluster: Cluster) -> None:
    await cluster.world.put_pod("web")
    handle = await cluster.wharfinger.start("default", "web")
    while await cluster.world.record_of("web") is None:
        await asyncio.sleep(0.02)
    await cluster.world.put_node("node-1")
    await cluster.hand.seen()

    answer = await cluster.wharfinger.wake("default", "web")

    assert (answer.delivered, answer.workflow_id, answer.why) == (True, handle.id, "")
    assert (await outcome_of(handle, "default/web", patient(20))).node == "node-1"


@pytest.mark.parametrize("asked", ["wake", "start"])
async def test_chain_of_a_pod_that_waits_without_one_counts_on(cluster: Cluster, asked: str) -> None:
    """Its last attempt was in a group, whose run has ended."""
    await cluster.world.put_pod("web")
    await cluster.hand.seen()
    await cluster.hand.record_many(await cluster.hand.place_many("web"))
    await cluster.world.put_node("node-1")
    await cluster.hand.seen()

    answer = await getattr(cluster.wharfinger, asked)("default", "web")

    assert getattr(answer, "delivered", True)
    result = await cluster.wharfinger.schedule("default", "web", timeout=patient(20))
    assert (result.node, result.attempt) == ("node-1", 2)
    assert (await cluster.wharfinger.explain("default", "web")).attempts[-1].attempt == 2


@pytest.mark.parametrize("signal", ["wake", "permit", "permit_now"])
async def test_signal_to_a_pod_without_an_open_attempt_is_refused(cluster: Cluster, signal: str) -> None:
    await cluster.world.put_node("node-1")
    await cluster.world.put_pod("web")
    send = getattr(cluster.wharfinger, signal)

    before = await send("default", "web")
    await cluster.wharfinger.schedule("default", "web", timeout=patient(20))
    after = await send("default", "web")

    assert (before.delivered, before.why) == (False, "pod default/web has no open attempt")
    assert (after.delivered, after.why) == (False, "pod default/web is bound to node-1 already")


async def test_a_signal_to_a_pod_that_does_not_exist_names_it(cluster: Cluster) -> None:
    with pytest.raises(NotFound, match="there is no pod default/web"):
        await cluster.wharfinger.wake("default", "web")


async def test_wake_leaves_a_workflow_of_another_cluster_alone(cluster: Cluster) -> None:
    """The record is an object in etcd that any client may have written."""
    await cluster.world.put_pod("web")
    other = Wharfinger(cluster.client, cluster.world.store, cluster=f"{cluster.name}-other")
    theirs = await cluster.wharfinger.start("default", "web")
    while await cluster.world.record_of("web") is None:
        await asyncio.sleep(0.02)

    answer = await other.wake("default", "web")

    assert not answer.delivered
    assert answer.workflow_id.startswith(f"{cluster.name}-other/")
    await theirs.terminate()


# --- permit ---------------------------------------------------------------------------------------


@pytest.fixture
async def holding(temporal_server: TemporalServer, world: World) -> AsyncIterator[Cluster]:
    """A cluster whose plugin holds every pod until it is permitted."""
    plugin = Fussy()
    plugin.permits = Permission(Status(Code.WAIT), 300.0)
    async with running(temporal_server, world, profiles=with_plugin(plugin)) as found:
        await world.put_node("node-1")
        await world.put_pod("web")
        yield found


async def test_permit_lets_a_held_pod_be_bound(holding: Cluster) -> None:
    handle = await holding.wharfinger.start("default", "web")

    answer = await holding.wharfinger.permit("default", "web")

    assert (answer.delivered, answer.workflow_id) == (True, handle.id)
    assert (await outcome_of(handle, "default/web", patient(20))).node == "node-1"


async def test_an_answer_that_no_worker_takes_is_told_in_one_line(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    await cluster.world.put_pod("web")
    not_there = await cluster.wharfinger.permit("default", "web")
    await cluster.client.start_workflow("ScheduleAttempt", id=not_there.workflow_id, task_queue="nobody-polls")
    monkeypatch.setattr(signals, "ANSWER_WITHIN", timedelta(seconds=0.5))
    with pytest.raises(ServerError, match="no worker took the answer for pod default/web within"):
        await cluster.wharfinger.permit_now("default", "web")


async def test_an_answer_counts_once_the_pod_is_held(holding: Cluster) -> None:
    handle = await holding.wharfinger.start("default", "web")

    while not (answer := await holding.wharfinger.permit_now("default", "web")).delivered:
        assert answer.why == "pod default/web: no Permit plugin holds the pod now"

    assert answer.workflow_id == handle.id
    assert (await outcome_of(handle, "default/web", patient(20))).node == "node-1"


async def test_a_refused_permission_becomes_the_pods_condition(holding: Cluster) -> None:
    handle = await holding.wharfinger.start("default", "web")

    await holding.wharfinger.permit("default", "web", allowed=False, reason="no licence left")
    while (record := await holding.world.record_of("web")) is None:
        await asyncio.sleep(0.02)

    assert record["message"] == "no licence left"
    assert await holding.world.node_of("web") == ""
    await handle.terminate()
