"""Pods near etcd's limit of 1.5 MiB a request, against a real etcd: bound, or refused with a reason."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass

import pytest

from tests.conftest import EtcdServer
from tests.scheduling.world import CLUSTER, NOW, PROFILES, QUICK, node_object, pod_object
from wharfinger.activities.scheduling import SchedulingActivities
from wharfinger.etcd import keys
from wharfinger.etcd.etcd import EtcdStore
from wharfinger.objects.documents.decode import decode_node, decode_pod
from wharfinger.process.names import pod_workflow_id
from wharfinger.process.parts import ProcessParts
from wharfinger.scheduling.contracts.scheduling import (
    BindInput,
    BindOutcome,
    Bound,
    Placed,
    PlaceInput,
    RefusalInput,
    Rejected,
)
from wharfinger.scheduling.state.cache.cache import Cache
from wharfinger.scheduling.state.pool import Identity, Ownership, Pool
from wharfinger.settings import EtcdSettings

NODE = "node-for-large-pods"
USUAL = 1_400_000
LARGEST = 1_572_400
"""A pod of this size is stored, and nothing can be added to it."""


@dataclass
class Bench:
    """Activities on a real store, with a cache that is filled by hand."""

    store: EtcdStore
    cache: Cache
    activities: SchedulingActivities

    async def put(self, name: str, size: int) -> None:
        """Store a pod of about this many bytes."""
        await self.store.delete(keys.attempt("default", name))
        obj = pod_object(name)
        obj["spec"]["ballast"] = "x" * (size - len(json.dumps(obj)))
        value = json.dumps(obj).encode()
        revision = await self.store.put(keys.pod("default", name), value)
        self.cache.set_pod(decode_pod(value, create_revision=revision, mod_revision=revision), value)
        self.cache.progress.advance(revision)

    async def bind(self, name: str) -> BindOutcome:
        """Place and bind it."""
        workflow_id = pod_workflow_id(CLUSTER, "default", name, f"uid-{name}")
        place = PlaceInput(namespace="default", name=name, workflow_id=workflow_id, run_id="run-1")
        placed = await self.activities.place(place)
        assert isinstance(placed, Placed)
        bind = BindInput(namespace="default", name=name, placed=placed, workflow_id=workflow_id, run_id="run-1")
        return await self.activities.bind(bind)

    async def refuse(self, name: str) -> None:
        """Record a refusal of it."""
        await self.activities.record_refusal(
            RefusalInput(namespace="default", name=name, attempt=1, message="no room", workflow_id="w", run_id="r")
        )

    async def conditions(self, name: str) -> list[object]:
        read = await self.store.get(keys.pod("default", name))
        assert read.kv is not None
        return list(json.loads(read.kv.value)["status"].get("conditions", []))


@pytest.fixture
async def bench(etcd_server: EtcdServer) -> AsyncIterator[Bench]:
    store = await EtcdStore.connect(EtcdSettings(endpoints=(etcd_server.url,)))
    cache = Cache(clock=lambda: 0.0)
    value = json.dumps(node_object(NODE)).encode()
    await store.delete(keys.binding(NODE))
    revision = await store.put(keys.node(NODE), value)
    cache.set_node(decode_node(value, create_revision=revision, mod_revision=revision))
    activities = SchedulingActivities(
        ProcessParts(store, utc_now=lambda: NOW),
        Pool(cache, PROFILES, Ownership(frozenset(PROFILES))),
        Identity(CLUSTER, "bench"),
        QUICK,
    )
    yield Bench(store, cache, activities)
    await activities.close()
    for name in ("usual", "largest"):
        await store.delete(keys.pod("default", name))
        await store.delete(keys.attempt("default", name))
    await store.delete(keys.node(NODE))
    await store.delete(keys.binding(NODE))
    await store.close()


async def test_a_large_pod_is_bound(bench: Bench) -> None:
    await bench.put("usual", USUAL)

    assert isinstance(await bench.bind("usual"), Bound)


async def test_pod_with_no_room_for_its_binding_is_refused_with_a_reason(bench: Bench) -> None:
    await bench.put("largest", LARGEST)

    rejected = await bench.bind("largest")
    assert isinstance(rejected, Rejected)
    assert rejected.message.startswith("pod is too large for etcd to hold it bound: it has 1,572,")


async def test_large_pods_refusal_is_written_to_its_condition(bench: Bench) -> None:
    await bench.put("usual", USUAL)
    await bench.refuse("usual")

    assert len(await bench.conditions("usual")) == 1


async def test_a_pod_with_no_room_for_a_condition_still_gets_its_record(bench: Bench) -> None:
    await bench.put("largest", LARGEST)
    await bench.refuse("largest")

    assert await bench.conditions("largest") == []
    read = await bench.store.get(keys.attempt("default", "largest"))
    assert read.kv is not None
    assert json.loads(read.kv.value)["message"] == "no room"
