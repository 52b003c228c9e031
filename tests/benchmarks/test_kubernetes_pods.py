"""Loading, watching and deleting pods for benchmarks/kubernetes.py, on an API server in memory."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from benchmarks import kubernetes_pods
from benchmarks.kubernetes_pods import (
    NAMESPACE,
    BenchmarkFailed,
    PodWatch,
    all_of,
    clear,
    load_at_rate,
    load_nodes,
    load_pods,
    node,
    pod,
)
from wharfinger.apiserver.bodies import binding
from wharfinger.apiserver.client import EVENTS, NODES, PODS, revision_of, uid_of
from wharfinger.testing.memory_upstream import MemoryUpstream


@pytest.fixture
async def apiserver() -> MemoryUpstream:
    api = MemoryUpstream()
    await load_nodes(api, map(node, range(3)))
    return api


async def bind(api: MemoryUpstream, name: str, to: str) -> None:
    found: Any = api.find(PODS, name, namespace=NAMESPACE)
    body = binding(
        namespace=NAMESPACE, name=name, uid=uid_of(found), revision=revision_of(found), node=to, attempt="test"
    )
    answer = await api.create(PODS, body, namespace=NAMESPACE, name=name, subresource="binding")
    assert answer.done, answer


async def test_nodes_are_ready_and_spread_over_three_zones(apiserver: MemoryUpstream) -> None:
    zones = [one["metadata"]["labels"]["topology.kubernetes.io/zone"] for one in apiserver.objects(NODES)]

    assert sorted(zones) == ["zone-0", "zone-1", "zone-2"]


async def test_watch_waits_until_each_expected_pod_is_bound(apiserver: MemoryUpstream) -> None:
    names = ["one", "two"]
    async with PodWatch.open(apiserver) as watch:
        watch.expect(names)
        await load_pods(apiserver, map(pod, names))
        waiting = asyncio.create_task(watch.all_bound())
        await bind(apiserver, "one", "node-00000")
        await watch.first_bound()

        assert not waiting.done()

        await bind(apiserver, "two", "node-00001")
        await waiting

        assert watch.nodes == {"one": "node-00000", "two": "node-00001"}
        assert watch.bound["one"] <= watch.bound["two"]


async def test_watch_goes_on_after_the_server_ended_it(apiserver: MemoryUpstream) -> None:
    async with PodWatch.open(apiserver) as watch:
        watch.expect(["one"])
        apiserver.cut_watches(PODS)
        await load_pods(apiserver, [pod("one", on="node-00002")])

        await watch.all_bound()

        assert watch.nodes == {"one": "node-00002"}


async def test_watch_forgets_deleted_pods_and_sees_their_names_again(apiserver: MemoryUpstream) -> None:
    async with PodWatch.open(apiserver) as watch:
        for where in ("node-00000", "node-00001"):
            watch.expect(["one"])
            await load_pods(apiserver, [pod("one", on=where)])
            await watch.all_bound()

            assert watch.nodes == {"one": where}

            await clear(apiserver)
            while watch.bound:
                await asyncio.sleep(0)


async def test_pod_that_moves_to_another_node_ends_the_benchmark(apiserver: MemoryUpstream) -> None:
    async with PodWatch.open(apiserver) as watch:
        watch.expect(["one", "two"])
        await load_pods(apiserver, [pod("one", on="node-00000")])
        await watch.first_bound()
        apiserver.put(PODS, pod("one", on="node-00001"), namespace=NAMESPACE)

        with pytest.raises(BenchmarkFailed, match="pod one was bound to node-00000 and to node-00001"):
            await watch.all_bound()


async def test_node_with_more_pods_than_room_ends_the_benchmark(apiserver: MemoryUpstream) -> None:
    names = ["one", "two", "three"]
    async with PodWatch.open(apiserver, room=2) as watch:
        watch.expect(names)
        await load_pods(apiserver, (pod(name, on="node-00000") for name in names))

        with pytest.raises(BenchmarkFailed, match="node node-00000 has 3 pods, and room for 2"):
            await watch.all_bound()


async def test_silence_ends_the_benchmark(apiserver: MemoryUpstream, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kubernetes_pods, "SILENCE", 0.01)
    async with PodWatch.open(apiserver) as watch:
        watch.expect(["one"])

        with pytest.raises(BenchmarkFailed, match="1 pods are not bound"):
            await watch.all_bound()


async def test_stream_reports_when_each_pod_was_due(apiserver: MemoryUpstream) -> None:
    due: dict[str, float] = {}
    names = [f"pod-{number}" for number in range(5)]

    await load_at_rate(apiserver, [pod(name) for name in names], 500.0, due.__setitem__)

    assert list(due) == names
    assert [due[name] - due["pod-0"] for name in names] == pytest.approx([0, 0.002, 0.004, 0.006, 0.008])
    assert len(apiserver.objects(PODS)) == 5


async def test_clear_deletes_all_pods_and_events_of_the_benchmark(apiserver: MemoryUpstream) -> None:
    await load_pods(apiserver, (pod(f"pod-{number}", on="node-00000") for number in range(70)))
    apiserver.put(EVENTS, {"metadata": {"name": "event"}, "reason": "Scheduled"}, namespace=NAMESPACE)
    apiserver.put(PODS, {"metadata": {"name": "foreign"}, "spec": {"containers": []}}, namespace="default")

    await clear(apiserver)

    assert [one["metadata"]["name"] for one in apiserver.objects(PODS)] == ["foreign"]
    assert apiserver.objects(EVENTS) == []


async def test_refused_request_ends_the_benchmark_with_the_servers_words(apiserver: MemoryUpstream) -> None:
    await load_pods(apiserver, [pod("one")])

    with pytest.raises(BenchmarkFailed, match='refuses pods/one: pods "one" already exists'):
        await load_pods(apiserver, [pod("two"), pod("one"), pod("three")])


async def test_all_of_sends_no_more_than_its_share_at_once() -> None:
    running = most = 0

    async def request() -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0)
        running -= 1

    await all_of(request() for _ in range(100))

    assert most == kubernetes_pods.AT_ONCE
