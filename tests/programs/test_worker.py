"""One worker, two workers, none: on real servers, as others see it in etcd and Temporal."""

from __future__ import annotations

import asyncio
from contextlib import aclosing

import pytest
from temporalio.client import WorkflowExecutionStatus
from temporalio.converter import decode_typed_search_attributes

from tests.patience import patient
from tests.programs.conftest import Site
from wharfinger.client import Wharfinger
from wharfinger.errors import InstallationMismatch
from wharfinger.etcd import keys
from wharfinger.objects.model.pod import PodKey
from wharfinger.process.build import build_id
from wharfinger.process.names import pod_workflow_id
from wharfinger.scheduling.effects.open_runs import BUILDS_KEY, start_attempt
from wharfinger.scheduling.state.queue.entry import Part
from wharfinger.settings import DispatchSettings


def names(number: int) -> list[str]:
    return [f"web-{index}" for index in range(number)]


async def test_pods_put_by_another_client_are_bound(site: Site) -> None:
    for number in range(3):
        await site.node(f"node-{number}")
    worker = await site.worker()
    for name in names(20):
        await site.pod(name)
    bound = await site.all_bound(names(20))

    assert set(bound.values()) <= {"node-0", "node-1", "node-2"}
    pod = await site.stored("web-0")
    alone = f"wharfinger/pod/{site.namespace}/web-0/"
    assert pod["metadata"]["annotations"]["wharfinger.dev/attempt"].startswith((alone, "wharfinger/cohort/"))
    await site.until(lambda: len(worker.queue) == 0)


async def test_a_pod_that_fits_nowhere_waits_and_is_bound_when_a_node_comes(site: Site) -> None:
    await site.node("small", cpu="1")
    worker = await site.worker()
    await site.pod("big", cpu="3")
    await site.until(lambda: len(worker.queue.waiting) == 1)
    conditions = (await site.stored("big"))["status"]["conditions"]
    assert [(one["type"], one["status"]) for one in conditions] == [("PodScheduled", "False")]

    await site.node("large", cpu="4")

    assert await site.all_bound(["big"]) == {"big": "large"}
    await site.until(lambda: len(worker.queue) == 0)
    assert (await site.store.get(keys.attempt(site.namespace, "big"))).kv is None


async def test_two_workers_share_the_pods_and_fill_the_nodes_exactly(site: Site) -> None:
    for number in range(4):
        await site.node(f"node-{number}", cpu="1")
    one, other = await site.worker(), await site.worker()
    await site.until(
        lambda: (
            one.loops.scheduling.shards.members == other.loops.scheduling.shards.members
            and len(one.loops.scheduling.shards.members) == 2
        )
    )
    for name in names(44):
        await site.pod(name)
    async with asyncio.timeout(patient(30)):
        # Some may wait for a moment only: on a room that another pod was given in vain.
        while (placed := [await site.node_of(name) for name in names(44)]).count("") > 4:
            await asyncio.sleep(0.1)
    await site.until(lambda: len(one.queue.waiting) + len(other.queue.waiting) == 4, seconds=30)

    assert sorted(placed.count(f"node-{number}") for number in range(4)) == [10, 10, 10, 10]
    assert len([name for name in placed if not name]) == 4
    for worker in (one, other):  # few for themselves, many in a cohort
        [starts] = worker.metrics.attempt_starts.collect()
        assert sum(sample.value for sample in starts.samples) > 0


async def test_draining_gives_the_lease_back_and_the_other_worker_goes_on(site: Site) -> None:
    await site.node("node", cpu="8")
    one, other = await site.worker(), await site.worker()
    await site.until(lambda: len(other.loops.scheduling.shards.members) == 2)
    for name in names(20):
        await site.pod(name)
    seconds = await site.drain(one)
    left = [kv async for page in site.store.list(keys.INSTANCES) for kv in page.items]

    assert seconds < patient(20)  # its lease would have run out after thirty
    assert len(left) == 1, "its registration went with its lease, however long the drain took"
    await site.all_bound(names(20))
    await site.until(lambda: len(other.loops.scheduling.shards.members) == 1)


async def test_a_worker_that_does_not_dispatch_runs_only_what_others_start(site: Site) -> None:
    await site.node("node")
    worker = await site.worker(dispatch="none")
    await site.pod("started")
    await site.pod("left-alone")
    await site.until(lambda: len(worker.cache.pods) == 2)
    handle = await start_attempt(
        site.client,
        cluster="wharfinger",
        namespace=site.namespace,
        name="started",
        uid=site.uid(worker, "started"),
        eager=False,
    )
    result = await asyncio.wait_for(handle.result(), patient(15))

    assert (result.outcome, result.node) == ("bound", "node")
    assert await site.node_of("left-alone") == ""


async def test_start_names_the_build_as_temporal_records_it(site: Site) -> None:
    """Temporal compares what it would note with what is there: same values, same order."""
    await site.node("node")
    worker = await site.worker(dispatch="none")
    await site.pod("plain")
    await site.until(lambda: worker.cache.pods)
    plain = await start_attempt(
        site.client, cluster="wharfinger", namespace=site.namespace, name="plain", uid=site.uid(worker, "plain")
    )
    await asyncio.wait_for(plain.result(), patient(15))
    noted = (await plain.describe()).typed_search_attributes.get(BUILDS_KEY)
    await site.drain(worker)

    worker = await site.worker()
    await site.pod("named")
    await site.until(lambda: "named" in {key.name for key in worker.cache.pods})
    chain = site.client.get_workflow_handle(
        pod_workflow_id("wharfinger", site.namespace, "named", site.uid(worker, "named"))
    )
    await site.all_bound(["named"])
    await asyncio.wait_for(chain.result(), patient(15))
    started = (await chain.fetch_history()).events[0].workflow_execution_started_event_attributes

    assert noted == ["unversioned", f"unversioned:{build_id()}"]
    assert decode_typed_search_attributes(started.search_attributes).get(BUILDS_KEY) == noted
    assert (await chain.describe()).typed_search_attributes.get(BUILDS_KEY) == noted


async def test_chain_on_an_unpolled_task_queue_is_terminated_at_takeover(site: Site) -> None:
    """[Its chain may sit on an unpolled task queue]: joining it would wait for ever."""
    await site.node("node")
    await site.pod("p", labels={"wharfinger.dev/tenant": "gone"})
    put = (await site.store.get(keys.pod(site.namespace, "p"))).kv
    assert put is not None
    stuck = await start_attempt(
        site.client,
        cluster="wharfinger",
        namespace=site.namespace,
        name="p",
        uid=f"rev-{put.create_revision}",
        tenant="gone",
        eager=False,
    )
    await site.worker()
    await site.all_bound(["p"])

    description = await site.client.get_workflow_handle(stuck.id, run_id=stuck.first_execution_run_id).describe()
    assert description.status is WorkflowExecutionStatus.TERMINATED


async def test_a_chain_terminated_by_a_person_is_started_again(site: Site) -> None:
    await site.node("small", cpu="1")
    worker = await site.worker(dispatching=DispatchSettings(hold=0.1, restart_every=1.0))
    await site.pod("p", cpu="3")
    await site.until(lambda: len(worker.queue.waiting) == 1)
    record = worker.loops.scheduling.view.records[PodKey(site.namespace, "p")]
    await site.client.get_workflow_handle(record.workflow_id).terminate("by hand")
    await site.until(
        lambda: worker.loops.scheduling.view.records[PodKey(site.namespace, "p")].run_id != record.run_id, seconds=20
    )

    assert worker.queue.get(PodKey(site.namespace, "p")).part in (Part.WAITING, Part.IN_FLIGHT)  # type: ignore[union-attr]


async def test_a_deleted_waiting_pod_completes_its_chain_as_gone(site: Site) -> None:
    worker = await site.worker()
    await site.node("small", cpu="1")
    await site.pod("p", cpu="3")
    await site.until(lambda: len(worker.queue.waiting) == 1)
    record = worker.loops.scheduling.view.records[PodKey(site.namespace, "p")]
    await site.store.delete(keys.pod(site.namespace, "p"))
    result = await asyncio.wait_for(site.client.get_workflow_handle(record.workflow_id).result(), patient(15))

    assert result["outcome"] == "gone"
    await site.until(lambda: not worker.loops.scheduling.view.records)


async def test_a_worker_of_another_cluster_refuses_this_etcd(site: Site) -> None:
    await site.worker()

    with pytest.raises(InstallationMismatch, match="belongs to cluster 'wharfinger'"):
        await site.worker(cluster="another")


async def test_a_submitted_pod_is_placed_by_the_dispatcher_and_streamed(site: Site) -> None:
    """The client starts nothing itself: the worker places the pods in its order."""
    await site.worker()
    await site.node("n1")
    wharfinger = Wharfinger(site.client, site.store)
    container = {"name": "main", "image": "x:1", "resources": {"requests": {"cpu": "100m"}}}
    manifests = [
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"namespace": site.namespace, "name": name},
            "spec": {"containers": [container]},
        }
        for name in ("a", "b", "c")
    ]
    start = (await site.store.get(keys.INSTALLATION)).revision + 1

    results = await asyncio.gather(*(wharfinger.submit(one, timeout=patient(30)) for one in manifests))
    async with aclosing(wharfinger.watch_assignments(start)) as stream, asyncio.timeout(patient(20)):
        streamed = [await anext(stream) for _ in manifests]

    assert {(one.outcome, one.node) for one in results} == {("bound", "n1")}
    attempts = {f"{one.workflow_id}@{one.run_id}": one for one in streamed}
    assert attempts.keys() == {one.bound_by for one in results}
    assert {(one.namespace, one.name, one.node) for one in streamed} == {
        (site.namespace, name, "n1") for name in ("a", "b", "c")
    }
