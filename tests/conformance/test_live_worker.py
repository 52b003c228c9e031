"""A sample of the recorded decisions through a whole compatible worker: etcd, Temporal, and every loop between."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping
from datetime import timedelta
from typing import Any

import pytest

from tests.conformance.live import AT_ONCE, FIRST_START, Key, stored_key
from tests.conformance.scenarios import KINDS, as_object, best, key_of, parts, scenarios
from tests.conformance.test_live import Expected
from tests.patience import patient
from tests.programs.conftest import Site, site
from wharfinger.etcd import keys
from wharfinger.etcd.store import Delete, Operation, Put, WatchBatch
from wharfinger.settings import COMPATIBLE

__all__ = ["site"]

SEEDS = {"mixed": 1, "podaffinity": 2, "preemption": 3, "taints": 4}
"""A scenario of each family, all of the default profile."""
SAMPLE = [one for one in scenarios(*SEEDS) if one.values[0]["seed"] == SEEDS[one.values[0]["family"]]]


class Cluster:
    """Objects of one scenario, as users and kubelets write them."""

    def __init__(self, site: Site, prefix: str, changes: AsyncIterator[WatchBatch]) -> None:
        """`changes`: of pods, from now on."""
        self._store = site.store
        self._changes = changes
        self._prefix = prefix
        """Of uids: the pods of another scenario have the same names."""
        self._binds = 0

    async def put(self, *objects: Mapping[str, Any]) -> None:
        await self._write([Put(stored_key(one), json.dumps(one).encode()) for one in objects])

    async def put_pod(self, pod: dict[str, Any], **spec: Any) -> None:
        metadata = {**pod["metadata"], "uid": self._prefix + pod["metadata"]["uid"]}
        await self.put(as_object("Pod", {**pod, "metadata": metadata, "spec": {**pod["spec"], **spec}}))

    async def delete_pod(self, key: Key) -> None:
        await self._store.delete(keys.pod(*key))

    async def pod(self, key: Key) -> dict[str, Any] | None:
        found = (await self._store.get(keys.pod(*key))).kv
        return None if found is None else json.loads(found.value)

    async def once(self, key: Key, holds: Callable[[dict[str, Any]], object]) -> dict[str, Any]:
        """The pod, once the worker has done that to it; asked for one pod after the other."""
        stored = keys.pod(*key)
        async with asyncio.timeout(patient(20)):
            async for batch in self._changes:
                for event in batch.events:
                    if event.kv.key == stored and not event.deleted and holds(pod := json.loads(event.kv.value)):
                        return dict(pod)
        raise AssertionError("the watch ended")

    async def placed_as_recorded(self, pod: dict[str, Any], bound: dict[str, Any], node: str) -> None:
        """The pod starts on the recorded node, perhaps as another pod than the one that the worker bound."""
        started = (FIRST_START + timedelta(minutes=self._binds)).isoformat().replace("+00:00", "Z")
        self._binds += 1
        if bound["spec"]["nodeName"] != node:
            await self.delete_pod(key_of(pod))
            bound = {**as_object("Pod", pod), "spec": {**pod["spec"], "nodeName": node}}
        await self.put({**bound, "status": {**bound.get("status", {}), "startTime": started}})

    async def clear(self) -> None:
        """Delete what users own."""
        folders = (keys.PODS, keys.NODES, keys.NAMESPACES, keys.SERVICES, keys.DISRUPTION_BUDGETS)
        found = [Delete(kv.key) for one in folders async for page in self._store.list(one) for kv in page.items]
        await self._write(found)

    async def _write(self, operations: list[Any]) -> None:
        written: list[Operation] = operations
        for at in range(0, len(written), AT_ONCE):
            await self._store.txn((), written[at : at + AT_ONCE])


def node_of(pod: dict[str, Any]) -> str:
    return str(pod["spec"].get("nodeName", ""))


def refusal(pod: dict[str, Any]) -> str:
    """What the pod's condition says."""
    conditions = pod.get("status", {}).get("conditions", ())
    return next((str(one["message"]) for one in conditions if one["type"] == "PodScheduled"), "")


async def replay(cluster: Cluster, scenario: dict[str, Any]) -> None:
    for plural, kind, version in KINDS:
        await cluster.put(*(as_object(kind, fields, version) for fields in scenario.get(plural, ())))
    for pod, expected in zip(scenario["pods"], scenario["expect"], strict=True):
        key = key_of(pod)
        await cluster.put_pod(pod)
        if "message" in expected:
            refused = await cluster.once(key, refusal)
            assert parts(refusal(refused)) == parts(expected["message"])
            assert node_of(refused) == ""
            await cluster.delete_pod(key)
            continue
        bound = await cluster.once(key, node_of)
        await check_bound(cluster, bound, expected)
        await cluster.placed_as_recorded(pod, bound, expected["node"])


async def check_bound(cluster: Cluster, bound: dict[str, Any], expected: Expected) -> None:
    if "nominated" not in expected:
        assert node_of(bound) in best(expected)
        return
    assert node_of(bound) == expected["node"]
    left = [await cluster.pod((bound["metadata"].get("namespace", "default"), name)) for name in expected["victims"]]
    assert left == [None] * len(left)


@pytest.mark.timeout(300)
async def test_worker_decides_what_kube_scheduler_decided(site: Site) -> None:
    await site.worker(binding=COMPATIBLE, eviction="immediate")
    now = (await site.store.get(keys.INSTALLATION)).revision
    async with site.store.watch(keys.PODS, now + 1) as changes:
        for one in SAMPLE:
            cluster = Cluster(site, f"{one.id}-", changes)
            await replay(cluster, one.values[0])
            await cluster.clear()


def test_sample_has_every_kind_of_decision() -> None:
    kinds = {
        kind
        for one in SAMPLE
        for expected in one.values[0]["expect"]
        for kind in ("scores", "message", "nominated")
        if kind in expected
    }

    assert len(SAMPLE) == len(SEEDS)
    assert all(not one.values[0]["profile"] for one in SAMPLE)
    assert kinds == {"scores", "message", "nominated"}
