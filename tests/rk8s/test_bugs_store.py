"""libscheduler's bugs of the store and the watches, each with a test that fails on its behaviour.

The numbers are those of `docs/rk8s-decisions.md`; the bugs of its decisions are in `test_bugs_decisions.py`.
"""

from __future__ import annotations

import asyncio
import time
from urllib.parse import urlsplit

import pytest

from tests.faults.proxy import Mode, Network, Proxy, Trap
from tests.integration.gateway import Gateway
from tests.patience import patient
from tests.rk8s import rk8s_documents as docs
from tests.rk8s.conftest import Rk8sCluster
from tests.rk8s.rk8s_documents import node, pod
from wharfinger.objects.model.pod import PodKey
from wharfinger.programs.worker import Worker
from wharfinger.scheduling.contracts.attempts import AttemptResult, AttemptTimings, backoff, chain_retry
from wharfinger.scheduling.contracts.scheduling import COMMIT_RETRY
from wharfinger.scheduling.effects.open_runs import AttemptHandle, start_attempt


@pytest.fixture
def way(rk8s: Rk8sCluster) -> Proxy:
    """The way of a worker to etcd, which can be cut; it ends after the workers."""
    network = Network()
    rk8s.stack.callback(network.close)
    return network.proxy(urlsplit(rk8s.etcd).port or 0)


def url(way: Proxy) -> str:
    return f"http://127.0.0.1:{way.port}"


async def knows(rk8s: Rk8sCluster, worker: Worker, *names: str) -> None:
    await rk8s.until(lambda: all(PodKey("default", name) in worker.cache.pods for name in names))


async def started(rk8s: Rk8sCluster, worker: Worker, name: str, timings: AttemptTimings | None = None) -> AttemptHandle:
    """An attempt on a worker that starts none by itself."""
    uid = worker.cache.pods[PodKey("default", name)].uid
    return await start_attempt(
        rk8s.client, cluster="wharfinger", namespace="default", name=name, uid=uid, eager=False, timings=timings
    )


async def attempt(rk8s: Rk8sCluster, worker: Worker, name: str) -> AttemptResult:
    """The result of such an attempt."""
    handle = await started(rk8s, worker, name)
    return await asyncio.wait_for(handle.result(), patient(30))


async def test_b01_a_pod_is_placed_after_many_refused_attempts(rk8s: Rk8sCluster) -> None:
    """libscheduler gives a pod up after its ninth attempt. These attempts follow each other without a pause."""
    await rk8s.put(pod("p"))
    worker = await rk8s.worker(dispatch="none")
    await knows(rk8s, worker, "p")
    handle = await started(rk8s, worker, "p", AttemptTimings(park=0.01, backoff_initial=0.001, backoff_maximum=0.001))
    async with asyncio.timeout(patient(30)):
        while (await rk8s.record_of("p"))["attempt"] < 10:
            await asyncio.sleep(0.02)
    await rk8s.put(node("node1"))
    assert (await asyncio.wait_for(handle.result(), patient(30))).node == "node1"


async def test_b02_a_watch_that_was_compacted_away_lists_again(rk8s: Rk8sCluster, way: Proxy) -> None:
    await rk8s.put(node("node1"), pod("gone", "4"))
    await rk8s.worker(through=url(way))
    await rk8s.bound("gone")
    await asyncio.to_thread(way.set, Mode.CUT)
    await rk8s.delete("gone")
    await rk8s.put(pod("p", "4"))
    last = (await rk8s.store.get("/registry/pods/p")).revision
    await asyncio.to_thread(Gateway(rk8s.etcd).call, "/kv/compaction", {"revision": str(last), "physical": True})
    await asyncio.to_thread(way.set, Mode.OPEN)
    assert await rk8s.bound("p", seconds=40) == {"p": "node1"}


async def test_b03_changes_of_an_outage_before_the_first_event_are_seen(rk8s: Rk8sCluster, way: Proxy) -> None:
    await rk8s.worker(through=url(way))
    await asyncio.to_thread(way.set, Mode.CUT)
    await rk8s.put(node("node1"), pod("p"))
    await asyncio.to_thread(way.set, Mode.OPEN)
    assert await rk8s.bound("p", seconds=40) == {"p": "node1"}


async def test_b03_pods_that_are_put_while_a_worker_starts_are_all_seen(rk8s: Rk8sCluster) -> None:
    names = [f"p{number}" for number in range(60)]
    await rk8s.put(node("node1"))

    async def put() -> None:
        for name in names:
            await rk8s.put(pod(name, "10m", "10Mi"))

    await asyncio.gather(put(), rk8s.worker())
    await rk8s.bound(*names, seconds=40)


async def test_b04_a_pod_is_bound_once_over_a_reconnect(rk8s: Rk8sCluster, way: Proxy) -> None:
    await rk8s.put(node("node1", "2"), pod("p", "1"))
    await rk8s.worker(through=url(way))
    await rk8s.bound("p")
    bound = (await rk8s.store.get("/registry/pods/p")).kv
    await asyncio.to_thread(way.set, Mode.CUT)
    await asyncio.to_thread(way.set, Mode.OPEN)
    await rk8s.put(pod("q", "1"))  # it fits beside the one if that is booked once
    assert await rk8s.bound("q", seconds=40) == {"q": "node1"}
    assert (await rk8s.store.get("/registry/pods/p")).kv == bound


async def test_b05_a_foreign_binding_is_kept_and_booked(rk8s: Rk8sCluster) -> None:
    await rk8s.put(node("node1", "2"), pod("p", "3"))
    worker = await rk8s.worker()
    await rk8s.refused("p", "NodeResourcesFit")
    await rk8s.put(node("node2", "2"), pod("p", "2", node_name="node2"))
    await rk8s.until(lambda: len(worker.queue) == 0)
    await rk8s.put(node("node3", "8"), pod("q", "1"), pod("r", "1"))
    bound = await rk8s.bound("q", "r")
    assert "node2" not in bound.values()
    assert await rk8s.value("p") == rk8s.stored["/registry/pods/p"]


async def test_b05_a_foreign_binding_that_was_not_seen_yet_wins(rk8s: Rk8sCluster, way: Proxy) -> None:
    await rk8s.put(node("node1"), node("node2"), pod("p"))
    worker = await rk8s.worker(through=url(way), dispatch="none")
    await knows(rk8s, worker, "p")
    await asyncio.to_thread(way.set, Mode.WATCH)
    await rk8s.put(pod("p", node_name="node2"))
    result = await attempt(rk8s, worker, "p")
    assert (result.outcome, result.node) == ("bound", "node2")
    assert await rk8s.value("p") == rk8s.stored["/registry/pods/p"]
    await asyncio.to_thread(way.set, Mode.OPEN)


async def test_b06_a_pod_that_was_deleted_is_not_made_again(rk8s: Rk8sCluster, way: Proxy) -> None:
    await rk8s.put(node("node1", "1"), pod("p", "1"), pod("q", "1"))
    worker = await rk8s.worker(through=url(way), dispatch="none")
    await knows(rk8s, worker, "p", "q")
    await asyncio.to_thread(way.set, Mode.WATCH)
    await rk8s.delete("p")
    assert (await attempt(rk8s, worker, "p")).outcome == "gone"
    assert (await rk8s.store.get("/registry/pods/p")).kv is None
    await asyncio.to_thread(way.set, Mode.OPEN)
    assert (await attempt(rk8s, worker, "q")).node == "node1"  # the failed bind holds no room


async def test_b06_a_bind_whose_answer_is_lost_is_made_once(rk8s: Rk8sCluster, way: Proxy) -> None:
    await rk8s.put(node("node1", "1"), pod("p", "1"))
    worker = await rk8s.worker(through=url(way), dispatch="none")
    await knows(rk8s, worker, "p")
    trap = Trap(b"/v3/kv/txn", answer=True)
    way.lay(trap)
    running = asyncio.create_task(attempt(rk8s, worker, "p"))
    assert await asyncio.to_thread(trap.sprung.wait, patient(20))
    way.lay(None)
    await asyncio.to_thread(way.set, Mode.CUT)
    await asyncio.to_thread(way.set, Mode.OPEN)
    assert (await running).node == "node1"
    before = rk8s.stored["/registry/pods/p"]
    assert await rk8s.value("p") == before.replace(b"node_name: null", b"node_name: node1")


async def test_b07_an_idle_worker_does_not_spin(rk8s: Rk8sCluster) -> None:
    """Without a channel for names, no loop can spin on one. CPU time, so other processes do not count."""
    await rk8s.put(node("node1"), pod("p"))
    worker = await rk8s.worker()
    await rk8s.bound("p")
    await rk8s.until(lambda: len(worker.queue) == 0)
    before = time.process_time()
    await asyncio.sleep(2)
    assert time.process_time() - before < 1


async def test_b09_a_writer_that_takes_the_node_away_again_loses_no_pod(rk8s: Rk8sCluster) -> None:
    """Such a writer read the pod before its bind. The pod is placed on its node again, and its room is booked once."""
    await rk8s.put(node("node1", "2"), pod("p", "1"))
    await rk8s.worker()
    await rk8s.bound("p")
    await rk8s.put(node("better", "4"))  # it has the higher score, but the pod may run on its first node already
    late = pod("p", "1")
    late["status"]["podIP"] = "10.0.0.9"
    await rk8s.put(late, pod("q", "1"))
    assert await rk8s.bound("p", "q") == {"p": "node1", "q": "better"}
    assert docs.read(await rk8s.value("p"))["status"]["podIP"] == "10.0.0.9"
    await rk8s.put(pod("r", "3"))
    assert await rk8s.bound("r") == {"r": "better"}
    await rk8s.put(pod("s", "2"))
    await rk8s.refused("s", "NodeResourcesFit")


async def test_b10_a_bound_pod_is_booked_once_however_often_it_is_written(rk8s: Rk8sCluster) -> None:
    await rk8s.put(node("node1", "2"), *(pod("p", "1", node_name="node1") for _ in range(3)))
    await rk8s.worker()
    await rk8s.put(*(pod("p", "1", node_name="node1", running=running) for running in (True, False, True)))
    await rk8s.put(pod("q", "1"))
    assert await rk8s.bound("q") == {"q": "node1"}
    await rk8s.put(pod("r", "1"))
    await rk8s.refused("r", "NodeResourcesFit")


async def test_b17_a_node_that_cannot_be_read_holds_nothing_up(rk8s: Rk8sCluster) -> None:
    broken = docs.document(node("broken", "100")).replace(b"podCIDR", b"podCidr")
    await rk8s.put_raw("/registry/nodes/broken", broken)
    await rk8s.put(node("node1"), pod("p"))
    worker = await rk8s.worker()
    assert await rk8s.bound("p") == {"p": "node1"}
    assert worker.loops.scheduling.view.invalid.reasons == {"/registry/nodes/broken": "spec.podCIDR is missing"}


async def test_b17_an_unreadable_node_takes_no_pod_until_it_is_mended(rk8s: Rk8sCluster) -> None:
    await rk8s.put(node("node1"), pod("on-it"))
    worker = await rk8s.worker()
    await rk8s.bound("on-it")
    await rk8s.put_raw("/registry/nodes/node1", b"kind: Node\n")
    await rk8s.until(lambda: "/registry/nodes/node1" in worker.loops.scheduling.view.invalid)
    await rk8s.put(pod("p"))
    await rk8s.refused("p")
    await rk8s.put(node("node1"))
    assert await rk8s.bound("p") == {"p": "node1"}
    assert await rk8s.node_of("on-it") == "node1"


async def test_b21_pods_of_one_name_are_one_pod_in_whichever_namespace(rk8s: Rk8sCluster) -> None:
    """rk8s' keys have no namespace. The last document counts, and the pod's namespace stays as it is written."""
    theirs = pod("p", "1")
    theirs["metadata"]["namespace"] = "team-a"
    await rk8s.put(node("node1", "1"), pod("p", "4"), theirs)
    await rk8s.worker()
    assert await rk8s.bound("p") == {"p": "node1"}
    assert docs.read(await rk8s.value("p"))["metadata"] == theirs["metadata"]


def test_b24_a_bind_that_fails_is_repeated_after_growing_pauses() -> None:
    assert [backoff(COMMIT_RETRY, number) for number in range(1, 7)] == [0.5, 1, 2, 4, 5, 5]


async def test_b25_a_node_that_vanishes_during_an_attempt_loses_no_pod(rk8s: Rk8sCluster, way: Proxy) -> None:
    await rk8s.put(node("node1", "8"), node("node2"), pod("p"))
    worker = await rk8s.worker(through=url(way), dispatch="none")
    await knows(rk8s, worker, "p")
    await asyncio.to_thread(way.set, Mode.WATCH)
    await rk8s.delete("node1", kind="nodes")
    result = await attempt(rk8s, worker, "p")
    assert (result.outcome, result.node) == ("bound", "node2")
    await asyncio.to_thread(way.set, Mode.OPEN)


def test_b27_the_pause_between_attempts_stays_bounded() -> None:
    policy = chain_retry(AttemptTimings())
    assert [backoff(policy, number) for number in (1, 2, 5, 64, 10**6)] == [1, 2, 10, 10, 10]
