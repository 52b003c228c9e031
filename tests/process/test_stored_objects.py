"""Stored objects that are followed: which rows the changes of one revision make new."""

from __future__ import annotations

from typing import Any

from wharfinger.etcd import keys
from wharfinger.etcd.store import Delete, Operation, Put
from wharfinger.objects.documents import documents
from wharfinger.objects.documents.kinds import NODE, by_word
from wharfinger.process.stored_objects import ChangedObjects, StoredObjects
from wharfinger.scheduling.reading.pods_and_nodes import StoredNodes
from wharfinger.testing.memory_store import MemoryStore


def put_node(name: str) -> Put:
    return Put(keys.node(name), documents.to_json({"kind": "Node", "metadata": {"name": name}, "status": {}}))


def put_pod(name: str, node: str, cpu: str = "1") -> Put:
    spec: dict[str, Any] = {"containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}], "nodeName": node}
    metadata = {"name": name, "namespace": "default", "uid": name}
    return Put(keys.pod("default", name), documents.to_json({"kind": "Pod", "metadata": metadata, "spec": spec}))


async def changes(store: MemoryStore, objects: StoredObjects, *operations: Operation) -> ChangedObjects:
    """What one transaction changes."""
    prefix, _ = await objects.follow()
    revision = (await store.txn([], operations)).revision
    async with store.watch(prefix, revision) as batches:
        async for batch in batches:
            return objects.take(batch.events)
    raise AssertionError("no events")


async def test_bind_and_deletion_of_a_pod_change_the_rows_of_their_nodes() -> None:
    store = MemoryStore()
    await store.txn([], [put_node("n1"), put_node("n2"), put_node("n3"), put_pod("a", "n1")])

    found = await changes(store, StoredNodes(store, NODE), put_pod("b", "n2", "2"), Delete(keys.pod("default", "a")))

    assert {entry.name: entry.used for entry in found.changed} == {
        "n1": {"pods": 0, "cpu": 0},
        "n2": {"pods": 1, "cpu": 2000},
    }
    assert not found.deleted


async def test_pod_that_uses_as_much_as_before_changes_no_row() -> None:
    store = MemoryStore()
    await store.txn([], [put_node("n1"), put_pod("a", "n1")])

    assert await changes(store, StoredNodes(store, NODE), put_pod("a", "n1")) == ([], [])


async def test_other_kinds_are_followed_by_their_own_keys_alone() -> None:
    store, maps = MemoryStore(), by_word("configmaps")
    other, mine = keys.stored("configmaps", "other", "m"), keys.stored("configmaps", "default", "m")
    await store.txn([], [Put(other, b"{}"), Put(mine, b"{}")])
    objects = StoredObjects(store, maps, "default")

    found = await changes(store, objects, Delete(other), Delete(mine))

    assert ([entry.name for entry in found.deleted], found.changed, objects.known) == (["m"], [], {})
