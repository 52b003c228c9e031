"""What commands say of objects of former lives, that cannot be read, or that go while they are looked at."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.placement.objects import eviction_object, member_object, placement_object
from wharfinger.cli.options import ConnectionOptions
from wharfinger.errors import InvalidObject, NotFound, UsageError
from wharfinger.etcd import keys
from wharfinger.etcd.store import Store
from wharfinger.objects.documents.kinds import (
    CLUSTER_PLACEMENT,
    MEMBER_CLUSTER,
    PLACEMENT_EVICTION,
    Kind,
    Reference,
    reference,
)
from wharfinger.placement.cli import objects
from wharfinger.placement.cli.clusters import _put
from wharfinger.placement.contracts import placement_keys
from wharfinger.placement.contracts.placement_records import DrainRecord, EvictionRecord
from wharfinger.placement.reading import observe_placements
from wharfinger.placement.reading.member_clusters import write_member
from wharfinger.placement.reading.written_objects import mark
from wharfinger.placement.state.hub_view import HubView
from wharfinger.testing.memory_store import MemoryStore

NOW = "2026-01-01T00:00:00Z"


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> MemoryStore:
    """What commands are connected to."""
    store = MemoryStore()

    @asynccontextmanager
    async def opened(connection: object) -> AsyncIterator[Store]:
        yield store.client()

    monkeypatch.setattr("wharfinger.cli.connect.open_store", opened)
    return store


async def put(store: MemoryStore, obj: Mapping[str, Any]) -> int:
    """Put an object; its mod revision."""
    about = reference(obj, "default")
    key = keys.stored(about.kind.folder, about.namespace, about.name)
    return await store.put(key, json.dumps(obj).encode())


async def described(kind: Kind, name: str) -> str:
    return await objects.describe_object(ConnectionOptions(), kind, name, "default")


async def test_an_eviction_is_described_by_its_own_outcome(store: MemoryStore) -> None:
    identity = await put(store, eviction_object("e", "web", "a"))
    record = EvictionRecord(valid=True, executed=True, message="of a former life", identity=identity + 1)
    await store.put(placement_keys.evicted("e"), record.to_bytes())
    assert "it has not ended yet" in await described(PLACEMENT_EVICTION, "e")
    for own in (identity, 0):
        mine = EvictionRecord(valid=True, executed=True, message="of this life", identity=own)
        await store.put(placement_keys.evicted("e"), mine.to_bytes())
        assert "executed: of this life" in await described(PLACEMENT_EVICTION, "e")


@pytest.mark.parametrize(
    ("kind", "obj"), [(MEMBER_CLUSTER, member_object("web")), (CLUSTER_PLACEMENT, placement_object("web"))]
)
async def test_what_goes_while_it_is_described_is_told(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch, kind: Kind, obj: Mapping[str, Any]
) -> None:
    await put(store, obj)

    async def nothing(_: Store) -> HubView:
        return HubView(lambda: 0.0)

    monkeypatch.setattr(observe_placements, "read_all", nothing)
    with pytest.raises(NotFound, match="web any more"):
        await described(kind, "web")


async def test_a_drain_names_the_life_of_its_member(store: MemoryStore) -> None:
    await store.put("x", b"")
    identity = await put(store, member_object("east"))
    await put(store, member_object("east", {"region": "east"}))
    await _put(ConnectionOptions(), "east", "drain", "")
    kv = (await store.get(placement_keys.drain("east"))).kv
    assert kv is not None
    assert DrainRecord.model_validate_json(kv.value).identity == identity


@pytest.mark.parametrize("value", [b"garbage", b"[]", b'{"spec": 1}'])
async def test_what_cannot_be_read_is_not_said_to_be_deleted(store: MemoryStore, value: bytes) -> None:
    key = placement_keys.placement("cluster/web")
    await store.put(key, value)
    with pytest.raises(InvalidObject, match="cannot be read") as told:
        await mark(store, Reference(CLUSTER_PLACEMENT, "", "web"))
    assert f"etcdctl --user root del {key}" in str(told.value)


async def test_a_join_is_written_over_what_is_there_then(store: MemoryStore) -> None:
    client, others = store.client(), [True]
    assert await write_member(client, "east", {"region": "east"}, {}, uid="u", now=NOW) == "created"

    async def faster(*_: object) -> None:
        if others:
            others.pop()
            await put(store, member_object("east", {"team": "a"}, [{"key": "t", "value": "v", "effect": "NoSchedule"}]))

    client.before_txn = faster
    assert await write_member(client, "east", {"zone": "z"}, {"u": "v"}, uid="u", now=NOW) == "configured"
    kv = (await store.get(placement_keys.member_cluster("east"))).kv
    assert kv is not None
    found = json.loads(kv.value)
    assert found["metadata"]["labels"] == {"team": "a", "zone": "z"}
    assert [one["key"] for one in found["spec"]["taints"]] == ["t", "u"]
    assert await write_member(store, "east", {"zone": "z"}, {"u": "v"}, uid="u", now=NOW) == "unchanged"


async def test_a_member_that_is_leaving_cannot_join(store: MemoryStore) -> None:
    await put(store, member_object("east", deletionTimestamp=NOW))
    with pytest.raises(UsageError, match="is leaving"):
        await write_member(store, "east", {}, {}, uid="u", now=NOW)


async def test_a_join_that_is_amiss_is_refused(store: MemoryStore) -> None:
    with pytest.raises(UsageError, match=r"metadata\.name"):
        await write_member(store, "x" * 300, {}, {}, uid="u", now=NOW)
    assert (await store.get(placement_keys.member_cluster("x" * 300))).kv is None
