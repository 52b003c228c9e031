"""Lost and tainted nodes with whole workers on real servers."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator

from temporalio.api.enums.v1 import EventType
from temporalio.client import WorkflowExecutionStatus
from temporalio.service import RPCError

from tests.patience import patient
from tests.programs.conftest import Site
from wharfinger.etcd import keys
from wharfinger.etcd.store import Event
from wharfinger.process.names import node_workflow_id
from wharfinger.process.records import NodeBudgetRecord
from wharfinger.settings import NodeEvictionSettings

QUICK = NodeEvictionSettings(lost_pods="requeue", lost_after=2.0, taint_eviction=True)


async def put_running(site: Site, name: str, node: str) -> None:
    """A pod that runs on a node."""
    await site.pod(name)
    pod = await site.stored(name)
    pod["spec"]["nodeName"] = node
    await site.store.put(keys.pod(site.namespace, name), json.dumps(pod).encode())


async def at_rest(site: Site, node: str) -> None:
    """Return once the node's workflow is over."""
    handle = site.client.get_workflow_handle(node_workflow_id("wharfinger", node))
    async with asyncio.timeout(patient(30)):
        while True:
            try:
                if (await handle.describe()).status is WorkflowExecutionStatus.COMPLETED:
                    return
            except RPCError:
                pass
            await asyncio.sleep(0.1)


async def waits(site: Site, node: str) -> None:
    """Return once the node's workflow waits."""
    handle = site.client.get_workflow_handle(node_workflow_id("wharfinger", node))
    async with asyncio.timeout(patient(30)):
        while True:
            try:
                events = (await handle.fetch_history()).events
            except RPCError:
                events = []
            if any(event.event_type == EventType.EVENT_TYPE_TIMER_STARTED for event in events):
                return
            await asyncio.sleep(0.1)


async def test_pods_of_a_deleted_node_are_bound_elsewhere(site: Site) -> None:
    gone, here = f"gone-{site.namespace}", f"here-{site.namespace}"
    await site.node(gone)
    worker = await site.worker(node_evictions=QUICK)
    await site.pod("web")
    assert await site.all_bound(["web"]) == {"web": gone}
    before = await site.store.get(keys.pod(site.namespace, "web"))

    await site.node(here)
    await site.store.delete(keys.node(gone))
    await site.until(lambda: gone in worker.cache.absent_nodes)
    await site.until(lambda: gone not in worker.cache.absent_nodes, 30)

    assert await site.all_bound(["web"]) == {"web": here}
    after = await site.store.get(keys.pod(site.namespace, "web"))
    assert before.kv is not None
    assert after.kv is not None
    assert after.kv.create_revision > before.kv.create_revision
    await at_rest(site, gone)
    revision = (await site.store.get(keys.INSTALLATION)).revision
    for _ in range(3):
        await worker.loops.scheduling.node_evictions.look()
    assert (await site.store.get(keys.INSTALLATION)).revision == revision
    result = await site.client.get_workflow_handle(node_workflow_id("wharfinger", gone)).result()
    assert (result["outcome"], result["removed"]) == ("cleared", 1)
    worker.refresh_metrics()
    assert worker.metrics.registry.get_sample_value("wharfinger_lost_pods") == 0
    assert worker.metrics.registry.get_sample_value("wharfinger_requeued_pods_total", {"then": "made_anew"}) == 1


async def test_node_that_is_back_in_time_keeps_its_pods(site: Site) -> None:
    node = f"node-{site.namespace}"
    await site.node(node)
    await put_running(site, "web", node)
    await site.worker(node_evictions=NodeEvictionSettings(lost_pods="requeue", lost_after=600))
    await site.store.delete(keys.node(node))
    await waits(site, node)

    await site.node(node)
    await at_rest(site, node)

    assert await site.node_of("web") == node
    result = await site.client.get_workflow_handle(node_workflow_id("wharfinger", node)).result()
    assert (result["outcome"], result["removed"]) == ("returned", 0)


async def test_pods_that_do_not_tolerate_a_new_taint_are_evicted(site: Site) -> None:
    node = f"node-{site.namespace}"
    await site.node(node)
    await put_running(site, "web", node)
    worker = await site.worker(node_evictions=QUICK, eviction="immediate")

    kv = (await site.store.get(keys.node(node))).kv
    assert kv is not None
    tainted = json.loads(kv.value) | {"spec": {"taints": [{"key": "flaky", "effect": "NoExecute"}]}}
    await site.store.put(kv.key, json.dumps(tainted).encode())
    await site.until(lambda: not worker.cache.pods, 30)

    await at_rest(site, node)


async def test_of_a_mass_loss_a_tenth_of_the_nodes_is_cleared_per_window(site: Site) -> None:
    """6 of 20 nodes vanish. etcd's history is judged: a pod goes only while its node is one of two admitted ones."""
    nodes = [f"n{number}-{site.namespace}" for number in range(20)]
    for node in nodes:
        await site.node(node)
    for node in nodes[:6]:
        await put_running(site, f"web-{node}", node)
    workers = [await site.worker(node_evictions=QUICK) for _ in range(2)]
    began = await site.store.get(keys.INSTALLATION)
    for node in nodes[:6]:
        await site.store.delete(keys.node(node))
    await site.until(lambda: len(workers[0].cache.absent_nodes) == 6)
    await site.until(lambda: not workers[0].cache.absent_nodes, 60)

    ended = await site.store.get(keys.INSTALLATION)
    admitted: dict[str, float] = {}
    windows = 0
    cleared: set[str] = set()
    async for event in history(site, began.revision + 1, ended.revision):
        if event.kv.key == keys.NODE_BUDGET:
            admitted = NodeBudgetRecord.model_validate_json(event.kv.value).admitted
            windows += 1
            assert len(admitted) <= 2
        elif event.deleted and event.kv.key.startswith(keys.pod(site.namespace, "")):
            node = event.kv.key.rpartition("/web-")[2]
            assert node in admitted
            cleared.add(node)

    assert cleared == set(nodes[:6])
    assert windows == 6


async def history(site: Site, first: int, last: int) -> AsyncIterator[Event]:
    """All events of these revisions."""
    async with site.store.watch(keys.ROOT, first) as batches:
        async for batch in batches:
            for event in batch.events:
                yield event
            if batch.revision >= last:
                return
