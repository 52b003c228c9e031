"""rk8s' spelling of the keys of pods; that it is a store in all else, the conformance suite shows."""

from __future__ import annotations

import pytest

from wharfinger.errors import UsageError
from wharfinger.etcd import keys
from wharfinger.etcd.rk8s_keys import Rk8sKeys, store_of
from wharfinger.etcd.store import Compare, Delete, Get, Put, Store, Unmoved
from wharfinger.objects.model.formats import ClusterFormat
from wharfinger.testing import MemoryStore


@pytest.fixture
def etcd() -> MemoryStore:
    """The store below, with the keys as they are stored."""
    return MemoryStore()


@pytest.fixture
def store(etcd: MemoryStore) -> Store:
    return store_of(etcd, ClusterFormat.RK8S)


async def names(store: Store, prefix: str) -> list[str]:
    return [kv.key async for page in store.list(prefix) for kv in page.items]


async def test_a_pod_lies_under_its_name_alone(etcd: MemoryStore, store: Store) -> None:
    await store.put(keys.pod("default", "web"), b"1")

    assert await names(etcd, "/") == ["/registry/pods/web"]
    read = (await store.get(keys.pod("default", "web"))).kv
    assert read is not None
    assert (read.key, read.value) == ("/registry/pods/default/web", b"1")
    assert store.as_stored(keys.pod("default", "web")) == "/registry/pods/web"
    assert await store.delete(keys.pod("default", "web"))
    assert await names(etcd, "/") == []


async def test_keys_of_anything_else_are_spelt_alike(etcd: MemoryStore, store: Store) -> None:
    for key in ("/registry/nodes/default/a", keys.attempt("default", "a"), "/registry/pods", "/registry/podsx/a"):
        await store.put(key, b"")

    assert await names(etcd, "/") == await names(store, "/")


@pytest.mark.parametrize(
    ("prefix", "found"),
    [
        (keys.ROOT, ["nodes/n", "pods/default/a", "pods/default/b/c"]),
        (keys.PODS, ["pods/default/a", "pods/default/b/c"]),
        (keys.pod("default", ""), ["pods/default/a", "pods/default/b/c"]),
        ("/registry/pods/def", ["pods/default/a", "pods/default/b/c"]),
        (keys.pod("default", "b"), ["pods/default/b/c"]),
        (keys.pod("other", ""), []),
        ("/registry/pods/a", []),
        ("/registry/pods/defaulty", []),
    ],
)
async def test_a_prefix_means_the_keys_as_they_are_spelt_here(
    etcd: MemoryStore, store: Store, prefix: str, found: list[str]
) -> None:
    start = await etcd.put("/registry/pods/a", b"")
    await etcd.put("/registry/pods/b/c", b"")
    last = await etcd.put("/registry/nodes/n", b"")

    seen: list[str] = []
    async with store.watch(prefix, start) as batches:
        async for batch in batches:
            seen += [event.kv.key for event in batch.events]
            if batch.revision >= last:
                break

    listed = await names(store, prefix)
    assert listed == [f"/registry/{name}" for name in found]
    assert sorted(seen) == listed
    assert (await store.txn([Unmoved(prefix, start - 1)], [])).succeeded is not bool(found)
    assert (await store.txn([Unmoved(prefix, last)], [])).succeeded


async def test_a_watch_spells_events_and_what_was_before_alike(etcd: MemoryStore, store: Store) -> None:
    start = await etcd.put("/registry/pods/a", b"1")
    await etcd.delete("/registry/pods/a")

    async with store.watch(keys.ROOT, start, previous=True) as batches:
        [put] = (await anext(batches)).events
        [gone] = (await anext(batches)).events

    assert (put.kv.key, put.previous, gone.kv.key, gone.deleted) == ("/registry/pods/default/a", None, put.kv.key, True)
    assert gone.previous == put.kv


async def test_transactions_compare_write_and_read_pods(etcd: MemoryStore, store: Store) -> None:
    key = keys.pod("default", "a")
    created = await etcd.put("/registry/pods/a", b"1")
    await etcd.put("/registry/pods/b", b"1")
    fresh = [Compare(key, "mod", created), Compare(key, "create", created), Compare(keys.pod("default", "c"), "mod", 0)]

    done = await store.txn(fresh, [Put(key, b"2"), Get(key), Delete(keys.pod("default", "b"))], [Get(key)])
    late = await store.txn(fresh, [Put(key, b"3")], [Get(key), Get(keys.pod("default", "b"))])

    assert (done.succeeded, late.succeeded) == (True, False)
    for answer in (done, late):
        assert answer.reads[0] is not None
        assert (answer.reads[0].key, answer.reads[0].value) == (key, b"2")
    assert late.reads[1] is None


async def test_other_namespaces_have_no_pods_and_take_none(etcd: MemoryStore, store: Store) -> None:
    """Also where a pod's name, or a key with more parts, would give the same key."""
    for name in ("a", "other", "other/a"):
        await etcd.put(f"/registry/pods/{name}", b"1")
    theirs = keys.pod("other", "a")

    assert (await store.get(theirs)).kv is None
    assert await names(store, keys.pod("other", "")) == []
    assert not await store.delete(theirs)
    assert (await store.txn([Compare(theirs, "mod", 0)], [Get(theirs)])).reads == (None,)
    for refused in (store.put(theirs, b""), store.txn((), [Put(theirs, b"")]), store.txn((), (), [Put(theirs, b"")])):
        with pytest.raises(UsageError, match="no namespace but default: other/a"):
            await refused
    assert await names(etcd, "/") == ["/registry/pods/a", "/registry/pods/other", "/registry/pods/other/a"]


async def test_a_lease_holds_a_pod_key(etcd: MemoryStore, store: Store) -> None:
    lease = await store.grant_lease(60)
    await store.txn((), [Put(keys.pod("default", "a"), b"", lease.id)])
    await lease.revoke()

    assert await names(etcd, "/") == []


def test_a_store_is_spelt_once() -> None:
    memory = MemoryStore()
    spelt = store_of(memory, ClusterFormat.RK8S)

    assert isinstance(spelt, Rk8sKeys)
    assert store_of(spelt, ClusterFormat.RK8S) is spelt
    assert store_of(memory, ClusterFormat.KUBERNETES) is memory
