"""Pods of rk8s through the client: the stream of assignments, and submissions, on a store in memory."""

from __future__ import annotations

import asyncio
import random
from contextlib import aclosing
from typing import Any

import pytest

from tests.patience import patient
from tests.rk8s import rk8s_documents as docs
from wharfinger.client import Assignment
from wharfinger.errors import AlreadyExists, Compacted, InvalidObject, Unavailable, UsageError
from wharfinger.etcd import keys
from wharfinger.etcd.rk8s_keys import Rk8sKeys, store_of
from wharfinger.etcd.store import Delete, Put, Read, Store
from wharfinger.objects.model.formats import ClusterFormat
from wharfinger.process.records import BoundByRecord
from wharfinger.scheduling.reading.assignments import watch_assignments
from wharfinger.scheduling.reading.submitting import create, end_of
from wharfinger.testing.memory_store import MemoryStore


@pytest.fixture
def memory() -> MemoryStore:
    return MemoryStore()


@pytest.fixture
def store(memory: MemoryStore) -> Store:
    return store_of(memory, ClusterFormat.RK8S)


async def put(store: Store, name: str, node: str | None = None) -> int:
    return await store.put(keys.pod("default", name), docs.document(docs.pod(name, node_name=node)))


async def bind(store: Store, name: str, node: str = "worker1") -> int:
    """Create the pod, then bind it as a worker does; the revision of the bind."""
    life = await put(store, name)
    record = BoundByRecord(attempt=f"wharfinger/pod/default/{name}@run-{name}", node=node, create_revision=life)
    value = docs.document(docs.pod(name, node_name=node))
    done = await store.txn(
        [], [Put(keys.pod("default", name), value), Put(keys.bound_by("default", name), record.to_bytes())]
    )
    return done.revision


async def take(stream: Any, count: int) -> list[Assignment]:
    async with asyncio.timeout(patient(10)):
        return [await anext(stream) for _ in range(count)]


# --- assignments ----------------------------------------------------------------------------------


async def test_the_stream_names_who_bound_pods_of_rk8s(store: Store) -> None:
    first = await bind(store, "listed")
    async with aclosing(watch_assignments(store, 0)) as stream:
        (one,) = await take(stream, 1)
        revision = await bind(store, "watched", "worker2")
        (two,) = await take(stream, 1)
    assert (one.name, one.node, one.workflow_id, one.run_id) == (
        "listed",
        "worker1",
        "wharfinger/pod/default/listed",
        "run-listed",
    )
    assert two == Assignment(
        "default",
        "watched",
        f"rev-{revision - 1}",
        "worker2",
        "wharfinger/pod/default/watched",
        "run-watched",
        revision,
        True,
    )
    assert one.revision == first


async def test_a_pod_that_another_scheduler_bound_names_no_workflow(store: Store) -> None:
    await put(store, "theirs", "worker1")
    await store.put(keys.pod("default", "odd"), docs.document(docs.pod("odd", cpu="x", node_name="worker1")))
    await store.put(keys.pod("default", "broken"), b"a: [")
    async with aclosing(watch_assignments(store, 1)) as stream:
        found = await take(stream, 2)
    assert [(one.name, one.workflow_id, one.run_id) for one in found] == [("theirs", "", ""), ("odd", "", "")]


async def test_a_stream_that_is_late_still_finds_who_bound_a_deleted_pod(store: Store) -> None:
    revision = await bind(store, "gone")
    await store.txn([], [Delete(keys.pod("default", "gone")), Delete(keys.bound_by("default", "gone"))])
    async with aclosing(watch_assignments(store, revision)) as stream:
        (one,) = await take(stream, 1)
    assert one.run_id == "run-gone"


async def test_the_stream_waits_for_a_record_that_etcd_does_not_return(memory: MemoryStore, store: Store) -> None:
    class Shy(Rk8sKeys):
        fails = 2

        async def txn(self, *arguments: Any, **named: Any) -> Any:
            if self.fails:
                self.fails -= 1
                raise Unavailable("away")
            return await super().txn(*arguments, **named)

    async with aclosing(watch_assignments(Shy(memory), rng=random.Random(1))) as stream:
        following = asyncio.ensure_future(take(stream, 1))
        await asyncio.sleep(0)
        await bind(store, "web")
        (one,) = await following
    assert one.run_id == "run-web"


# --- submissions ----------------------------------------------------------------------------------

SHORT = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "web", "namespace": "elsewhere"},
    "spec": {"containers": [{"name": "main", "image": "web:1", "ports": [{"containerPort": 80}]}]},
}


async def test_a_submitted_document_is_stored_in_rk8s_words(memory: MemoryStore, store: Store) -> None:
    key, life = await create(store, SHORT, check_fields=True)
    assert str(key) == "default/web"
    found = (await memory.get("/registry/pods/web")).kv
    assert found is not None
    assert found.create_revision == life
    stored = docs.read(found.value)
    assert (len(stored["metadata"].pop("uid")), stored["metadata"].pop("creationTimestamp")[-1]) == (36, "Z")
    assert stored == SHORT


async def test_a_submission_of_rk8s_that_is_repeated_finds_its_pod(store: Store) -> None:
    _, life = await create(store, SHORT, check_fields=True)
    await store.put(keys.pod("default", "web"), docs.document(docs.pod("other")).replace(b"name: other", b"name: web"))
    with pytest.raises(AlreadyExists, match="pod/default/web exists already and differs"):
        await create(store, SHORT, check_fields=True)
    await store.delete(keys.pod("default", "web"))
    _, anew = await create(store, SHORT, check_fields=True)
    assert (await create(store, SHORT, check_fields=True))[1] == anew > life


async def test_what_is_no_pod_of_rk8s_is_not_submitted(memory: MemoryStore, store: Store) -> None:
    with pytest.raises(InvalidObject, match=r"spec\.nodeSelector is Kubernetes'"):
        await create(store, {**SHORT, "spec": {"nodeSelector": {}}}, check_fields=True)
    with pytest.raises(UsageError, match="a Node is no pod"):
        await create(store, {**SHORT, "kind": "Node"}, check_fields=True)
    assert (await memory.get("/registry/pods/web")).kv is None


async def test_waiting_outlives_an_etcd_that_is_away_after_a_compaction(store: Store, memory: MemoryStore) -> None:
    """The record of what bound the pod is read where the changes are compacted, too."""

    class Compacting(Rk8sKeys):
        away = 2

        def watch(self, prefix: str, start_revision: int, *, previous: bool = False) -> Any:
            raise Compacted("compacted", compact_revision=start_revision)

        async def get(self, key: str, *, revision: int = 0) -> Read:
            if key.startswith(keys.BOUND_BY) and self.away:
                self.away -= 1
                raise Unavailable("away")
            return await super().get(key, revision=revision)

    key, life = await create(store, SHORT, check_fields=True)
    record = BoundByRecord(attempt="wharfinger/pod/default/web@run", node="worker1", create_revision=life)
    found = (await store.get(keys.pod("default", "web"))).kv
    assert found is not None
    await store.put(keys.pod("default", "web"), found.value.replace(b"spec:\n", b"spec:\n  node_name: worker1\n"))
    await store.put(keys.bound_by("default", "web"), record.to_bytes())
    ended = await end_of(Compacting(memory), key, life)
    assert (ended.outcome, ended.node, ended.bound_by) == ("bound", "worker1", "wharfinger/pod/default/web@run")
