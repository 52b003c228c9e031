"""The typed client against the real Temporal server, with the real activities on a store in memory."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any
from uuid import uuid4

import pytest
from temporalio import workflow
from temporalio.client import Client
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from tests.client.cluster import Cluster, running
from tests.conftest import EtcdServer, TemporalServer
from tests.integration.histories import length
from tests.patience import patient
from tests.scheduling.world import World, world
from wharfinger.client import Wharfinger, outcome_of, start_attempt
from wharfinger.errors import InvalidObject, NotFound, ServerError, WharfingerError
from wharfinger.etcd import keys
from wharfinger.process.connecting import data_converter
from wharfinger.process.names import SCHEDULE_ATTEMPT, pod_workflow_id, task_queue
from wharfinger.scheduling.contracts.attempts import AttemptResult
from wharfinger.settings import EtcdSettings

__all__ = ["world"]


@workflow.defn(name=SCHEDULE_ATTEMPT)
class EarlierRelease:
    """A workflow of 0.1 whose pod another attempt bound meanwhile."""

    @workflow.run
    async def run(self, _request: Any) -> Any:
        """Answer as it did."""
        return {"outcome": "gone", "node": "n1", "attempt": 2}


@pytest.fixture
async def cluster(temporal_server: TemporalServer, world: World) -> AsyncIterator[Cluster]:
    async with running(temporal_server, world) as found:
        yield found


async def test_a_pod_is_scheduled_and_its_outcome_awaited(cluster: Cluster) -> None:
    await cluster.world.put_node("node-1")
    await cluster.world.put_pod("web")

    result = await cluster.wharfinger.schedule("default", "web", timeout=patient(20))

    assert result == AttemptResult(outcome="bound", node="node-1", attempt=1)
    assert await cluster.world.node_of("web") == "node-1"


async def test_bound_run_of_real_activities_has_14_events_and_small_payloads(cluster: Cluster) -> None:
    for number in range(6):
        await cluster.world.put_node(f"node-{number}")
    await cluster.world.put_pod("web")
    handle = await cluster.wharfinger.start("default", "web")
    await handle.result()

    history = await cluster.client.get_workflow_handle(handle.id).fetch_history()
    assert length(history.events) <= 14
    assert sum(event.ByteSize() for event in history.events) < 12_000


async def test_a_pod_that_fits_nowhere_waits_and_can_be_asked_about(cluster: Cluster) -> None:
    await cluster.world.put_node("small", cpu="500m")
    await cluster.world.put_pod("web")
    with pytest.raises(TimeoutError):
        await cluster.wharfinger.schedule("default", "web", timeout=0.5)
    while await cluster.world.record_of("web") is None:
        await asyncio.sleep(0.02)

    found = await cluster.wharfinger.explain("default", "web")

    assert (found.state, found.node, found.missing) == ("pending", None, ())
    assert found.record is not None
    assert found.record.message.startswith("0/1 nodes are available: 1 Insufficient cpu.")
    [attempt] = found.attempts
    assert attempt.cause == "started: asked for by a client"
    assert attempt.refusals == {"NodeResourcesFit": {"Insufficient cpu": 1}}


async def test_attempts_of_a_woken_pod_are_returned_in_order(cluster: Cluster) -> None:
    await cluster.world.put_pod("web")
    handle = await cluster.wharfinger.start("default", "web")
    while await cluster.world.record_of("web") is None:
        await asyncio.sleep(0.02)
    revision = await cluster.world.put_node("node-1")
    await handle.signal("wake", {"revision": revision, "event": "NodeAdd", "object": "node-1"})
    await handle.result()

    attempts: list[Any] = []
    while len(attempts) < 2:  # visibility is a little late
        attempts = await cluster.wharfinger.attempts("default", "web")
    assert [(one.attempt, one.outcome) for one in attempts] == [(1, "refused"), (2, "bound")]
    assert attempts[1].cause == "woken by NodeAdd node-1"
    assert attempts[1].node == "node-1"


async def test_attempt_of_a_bound_pod_is_bound_and_names_the_node(cluster: Cluster) -> None:
    await cluster.world.put_pod("web", spec={"nodeName": "node-9"})

    result = await cluster.wharfinger.schedule("default", "web", timeout=patient(20))
    assert result == AttemptResult(outcome="bound", node="node-9", attempt=1)


async def test_what_a_worker_of_0_1_calls_gone_with_a_node_is_bound_there(temporal_server: TemporalServer) -> None:
    """It said so where another attempt had bound the pod."""
    client = await Client.connect(temporal_server.address, data_converter=data_converter)
    name = f"old-{uuid4().hex[:8]}"
    handle = await start_attempt(client, cluster=name, namespace="default", name="web", uid="u", eager=False)
    async with Worker(
        client, task_queue=task_queue(name), workflows=[EarlierRelease], workflow_runner=UnsandboxedWorkflowRunner()
    ):
        result = await outcome_of(handle, "default/web", patient(20))

    assert result == AttemptResult(outcome="bound", node="n1", attempt=2)


async def test_attempt_of_a_pod_bound_by_a_cohort_names_node_and_cohort(cluster: Cluster) -> None:
    await cluster.world.put_node("node-1")
    await cluster.world.put_pod("web")
    await cluster.hand.seen()
    await cluster.hand.bind_many(await cluster.hand.place_many("web"))

    result = await cluster.wharfinger.schedule("default", "web", timeout=patient(20))
    assert (result.outcome, result.node) == ("bound", "node-1")
    annotations = (await cluster.world.pod("web"))["metadata"]["annotations"]
    assert result.bound_by == annotations["wharfinger.dev/attempt"] != ""


@pytest.mark.parametrize(
    ("more", "reason", "detail"),
    [
        ({"spec": {"schedulerName": "other"}}, "other-scheduler", "scheduler other, pool common"),
        ({"status": {"phase": "Succeeded"}}, "not-pending", "its phase is Succeeded"),
    ],
    ids=["another scheduler's", "finished"],
)
async def test_a_pod_that_is_not_to_be_placed_is_gone_with_the_reason(
    cluster: Cluster, more: Any, reason: str, detail: str
) -> None:
    await cluster.world.put_pod("web", **more)

    result = await cluster.wharfinger.schedule("default", "web", timeout=patient(20))
    assert result == AttemptResult(outcome="gone", attempt=1, reason=reason, detail=detail)


async def test_a_waiting_pod_that_is_deleted_or_replaced_is_gone_with_the_reason(cluster: Cluster) -> None:
    for name, reason in (("deleted", "deleted"), ("replaced", "replaced")):
        await cluster.world.put_pod(name)
        handle = await cluster.wharfinger.start("default", name)
        while await cluster.world.record_of(name) is None:
            await asyncio.sleep(0.02)
        await cluster.world.store.delete(keys.pod("default", name))
        if name == "replaced":
            await cluster.world.put_pod(name, uid="uid-of-the-second")
        await handle.signal("wake")

        result = await outcome_of(handle, f"default/{name}", patient(20))
        assert (result.outcome, result.node, result.reason) == ("gone", None, reason)


async def test_a_run_under_another_id_fails_and_names_the_right_one(cluster: Cluster) -> None:
    await cluster.world.put_node("node-1")
    await cluster.world.put_pod("web")
    handle = await cluster.client.start_workflow(
        "ScheduleAttempt",
        {"namespace": "default", "name": "web"},
        id=f"{cluster.name}-my-own",
        task_queue=task_queue(cluster.name),
    )

    with pytest.raises(Exception, match="failed") as raised:
        await handle.result()
    assert pod_workflow_id(cluster.name, "default", "web", "uid-web") in str(raised.value.__cause__)
    assert await cluster.world.node_of("web") == ""


async def test_a_pod_that_does_not_exist_cannot_be_scheduled(cluster: Cluster) -> None:
    with pytest.raises(NotFound, match="there is no pod default/web"):
        await cluster.wharfinger.schedule("default", "web")


async def test_a_pod_that_cannot_be_read_is_named(cluster: Cluster) -> None:
    await cluster.world.store.put(keys.pod("default", "web"), b"[]")

    with pytest.raises(InvalidObject, match="pod default/web cannot be read: is a list"):
        await cluster.wharfinger.schedule("default", "web")


async def test_a_chain_that_is_cancelled_raises(cluster: Cluster) -> None:
    await cluster.world.put_pod("web")
    handle = await cluster.wharfinger.start("default", "web")
    while await cluster.world.record_of("web") is None:
        await asyncio.sleep(0.02)
    await handle.cancel()

    with pytest.raises(WharfingerError, match="the attempts of pod default/web ended"):
        await outcome_of(handle, "default/web", patient(20))


async def test_a_tenants_pod_goes_to_the_tenants_queue(cluster: Cluster) -> None:
    await cluster.world.store.put(keys.tenant("blue"), b"{}")
    await cluster.world.put_pod("web", labels={"wharfinger.dev/tenant": "blue"})
    handle = await cluster.wharfinger.start("default", "web")

    assert (await handle.describe()).task_queue == f"{cluster.name}/blue"
    await handle.terminate()


async def test_tenant_is_named_by_the_label_that_workers_use(cluster: Cluster) -> None:
    await cluster.world.store.put(keys.tenant("blue"), b"{}")
    await cluster.world.put_pod("web", labels={"team": "blue"})
    ours = Wharfinger(cluster.client, cluster.world.store, cluster=cluster.name, tenant_label="team")
    handle = await ours.start("default", "web")

    assert (await handle.describe()).task_queue == f"{cluster.name}/blue"
    await handle.terminate()


async def test_connecting_opens_and_closes_everything(etcd_server: EtcdServer, temporal_server: TemporalServer) -> None:
    settings = EtcdSettings(endpoints=(etcd_server.url,))
    async with Wharfinger.connect(etcd=settings, temporal=temporal_server.address) as wharfinger:
        found = await wharfinger.explain("default", "nobody")

    assert (found.state, found.attempts) == ("deleted", ())


async def test_a_temporal_that_is_not_there_is_one_clear_line(etcd_server: EtcdServer) -> None:
    with pytest.raises(ServerError, match=r"^cannot reach Temporal at 127\.0\.0\.1:1$"):
        async with Wharfinger.connect(etcd=EtcdSettings(endpoints=(etcd_server.url,)), temporal="127.0.0.1:1"):
            pass
