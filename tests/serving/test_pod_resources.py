"""`/metrics/resources`: requests and limits of pods, as kube-scheduler counts them."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Sequence
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.serving.serving import content, get, serving
from wharfinger.etcd import keys
from wharfinger.serving.content import PodAmounts
from wharfinger.serving.options import ServingOptions
from wharfinger.serving.pod_resources import amounts_of, stored_amounts
from wharfinger.testing.memory_store import MemoryStore

OPEN = ServingOptions(open=True)
MI = 1024 * 1024


def pod(name: str = "p", node: str = "n", phase: str = "Running", **spec: Any) -> dict[str, Any]:
    return {
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"nodeName": node, "schedulerName": "s", "priority": 7, "containers": [{"name": "c"}], **spec},
        "status": {"phase": phase},
    }


def container(
    limits: dict[str, str] | None = None, requests: dict[str, str] | None = None, **more: Any
) -> dict[str, Any]:
    return {"name": "c", "resources": {"limits": limits or {}, "requests": requests or {}}, **more}


def test_limits_follow_the_formula_of_requests() -> None:
    found = amounts_of(
        pod(
            containers=[container({"cpu": "1", "memory": "64Mi"}, {"cpu": "100m"}), container({"cpu": "500m"})],
            initContainers=[container({"cpu": "250m"}, restartPolicy="Always"), container({"cpu": "4"})],
            overhead={"cpu": "100m", "ephemeral-storage": "1Gi"},
        )
    )

    assert found is not None
    assert found.limits == {"cpu": 4350, "memory": 64 * MI}  # the fourth core starts beside the sidecar
    assert found.requests["cpu"] == 4350
    assert (found.node, found.scheduler, found.priority) == ("n", "s", 7)


def test_pod_level_limits_replace_those_of_containers() -> None:
    found = amounts_of(pod(containers=[container({"cpu": "1"})], resources={"limits": {"cpu": "3", "memory": "1Mi"}}))

    assert found is not None
    assert found.limits == {"cpu": 3000, "memory": MI}


def test_overhead_alone_is_no_limit() -> None:
    found = amounts_of(pod(overhead={"cpu": "100m"}))

    assert found is not None
    assert (found.requests, dict(found.limits)) == ({"cpu": 100}, {})


@pytest.mark.parametrize(
    ("phase", "counts"), [("Pending", True), ("Running", True), ("Succeeded", False), ("Failed", False)]
)
def test_pods_that_have_ended_do_not_count(phase: str, counts: bool) -> None:
    assert (amounts_of(pod(phase=phase)) is not None) is counts


async def read(store: MemoryStore) -> dict[tuple[str, ...], float]:
    """By metric, pod, resource and unit."""
    async with serving(OPEN, content(pods=lambda: stored_amounts(store))) as server:
        _, text = await get(server, "/metrics/resources")
    samples = [sample for family in text_string_to_metric_families(text) for sample in family.samples]
    return {
        (one.name, one.labels["pod"], one.labels["resource"], one.labels["unit"]): one.value
        for one in samples
        if {"namespace", "node", "scheduler", "priority"} <= one.labels.keys()
    }


async def put(store: MemoryStore, name: str, value: dict[str, Any] | bytes) -> None:
    raw = value if isinstance(value, bytes) else json.dumps(value).encode()
    await store.put(f"{keys.PODS}default/{name}", raw)


async def test_pods_of_etcd_are_shown_with_units() -> None:
    store = MemoryStore()
    amounts = {"cpu": "1500m", "memory": "1Gi", "hugepages-2Mi": "2Mi", "example.com/card": "2"}
    await put(store, "a", pod("a", containers=[container(amounts)]))
    await put(store, "b", pod("b", node="", containers=[container(requests={"cpu": "1"})]))
    await put(store, "broken", b"no pod")

    request, limit = "kube_pod_resource_request", "kube_pod_resource_limit"
    assert await read(store) == {
        (request, "a", "cpu", "cores"): 1.5,
        (request, "a", "memory", "bytes"): 1024.0 * MI,
        (request, "a", "hugepages-2Mi", "bytes"): 2.0 * MI,
        (request, "a", "example.com/card", ""): 2.0,
        (limit, "a", "cpu", "cores"): 1.5,
        (limit, "a", "memory", "bytes"): 1024.0 * MI,
        (limit, "a", "hugepages-2Mi", "bytes"): 2.0 * MI,
        (limit, "a", "example.com/card", ""): 2.0,
        (request, "b", "cpu", "cores"): 1.0,
    }


async def test_only_the_holder_answers() -> None:
    async def one() -> AsyncGenerator[Sequence[PodAmounts], None]:
        yield [PodAmounts("d", "p", "", "s", None, {"cpu": 1})]

    async with serving(OPEN, content(pods=one, holds=lambda: False)) as server:
        assert await get(server, "/metrics/resources") == (200, "")
        server.content.holds = lambda: True
        _, text = await get(server, "/metrics/resources")

    assert 'priority="",resource="cpu",unit="cores"} 0.001\n' in text


async def test_page_is_missing_without_a_provider() -> None:
    async with serving(OPEN) as server:
        assert (await get(server, "/metrics/resources"))[0] == 404


async def test_names_are_escaped() -> None:
    async def odd() -> AsyncGenerator[Sequence[PodAmounts], None]:
        yield [PodAmounts("d", 'a"b\\c', "", "s", None, {"cpu": 1})]

    async with serving(OPEN, content(pods=odd)) as server:
        _, text = await get(server, "/metrics/resources")

    assert [sample.labels["pod"] for family in text_string_to_metric_families(text) for sample in family.samples] == [
        'a"b\\c'
    ]
