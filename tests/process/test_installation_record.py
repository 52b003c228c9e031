"""The format of a cluster, as its installation record in etcd has it."""

from __future__ import annotations

import pytest

from wharfinger.errors import InstallationMismatch, UsageError
from wharfinger.etcd import keys
from wharfinger.objects.model.formats import ClusterFormat, known_format
from wharfinger.process.installation_record import in_its_format
from wharfinger.process.records import InstallationRecord
from wharfinger.testing.memory_store import MemoryStore

RK8S, KUBERNETES = ClusterFormat.RK8S, ClusterFormat.KUBERNETES


async def installed(format_: ClusterFormat) -> MemoryStore:
    store = MemoryStore()
    record = InstallationRecord(cluster="wharfinger", temporal_namespace="default", format=format_)
    await store.put(keys.INSTALLATION, record.to_bytes())
    return store


@pytest.mark.parametrize("asked", [None, RK8S])
async def test_the_record_decides_the_format(asked: ClusterFormat | None) -> None:
    store = await in_its_format(await installed(RK8S), asked)
    await store.put(keys.pod("default", "a"), b"{}")
    assert (store.format, store.as_stored(keys.pod("default", "a"))) == (RK8S, "/registry/pods/a")


@pytest.mark.parametrize(("asked", "format_"), [(None, KUBERNETES), (RK8S, RK8S), (KUBERNETES, KUBERNETES)])
async def test_without_a_record_the_format_is_the_one_asked_for(
    asked: ClusterFormat | None, format_: ClusterFormat
) -> None:
    assert (await in_its_format(MemoryStore(), asked)).format is format_


async def test_a_record_without_a_format_means_kubernetes() -> None:
    store = MemoryStore()
    await store.put(keys.INSTALLATION, b'{"cluster": "wharfinger", "temporal_namespace": "default"}')
    assert await in_its_format(store) is store
    with pytest.raises(InstallationMismatch, match="kept in the format kubernetes, not rk8s: leave out the format"):
        await in_its_format(store, RK8S)


async def test_a_record_that_cannot_be_read_is_an_error() -> None:
    store = MemoryStore()
    await store.put(keys.INSTALLATION, b'{"format": "another"}')
    with pytest.raises(InstallationMismatch, match="installation cannot be read"):
        await in_its_format(store)


def test_an_unknown_format_is_refused() -> None:
    assert known_format("rk8s") is RK8S
    with pytest.raises(UsageError, match="format 'k3s' is none of kubernetes, rk8s"):
        known_format("k3s")
