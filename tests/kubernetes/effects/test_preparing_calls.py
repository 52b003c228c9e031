"""Promises that wait for asynchronous plugins: after their volumes, until these agree, or it is too late."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

from wharfinger.apiserver.client import PERSISTENT_VOLUME_CLAIMS
from wharfinger.etcd import keys
from wharfinger.etcd.store import Put
from wharfinger.kubernetes.effects.adopting import Adopter
from wharfinger.kubernetes.effects.preparing import Preparation, Preparations
from wharfinger.objects.documents import documents
from wharfinger.objects.documents.edit import bind_pod
from wharfinger.objects.model.pod import PodKey
from wharfinger.scheduling.contracts import promise_records
from wharfinger.scheduling.model.promises import Promise, VolumeStep
from wharfinger.testing import MemoryStore, MemoryUpstream

WEB = PodKey("default", "web")
WAITING = Promise(
    "uid-1", 5, "n1", "workflow@run", "2026-03-01T12:00:00Z",
    ready=False, calls=("PreBind/Licences",), patience=0.0, call_patience=100.0,
)  # fmt: skip


async def promised(store: MemoryStore, promise: Promise) -> Promise:
    pod = {"metadata": {"name": "web", "uid": promise.uid, "resourceVersion": str(promise.revision)}, "spec": {}}
    bound = bind_pod(documents.to_json(pod), node_name=promise.node, attempt=promise.attempt, now=promise.since)
    writes = [Put(keys.pod(*WEB), bound), Put(keys.promise(*WEB), promise_records.stored(promise))]
    return promise_records.at(promise, (await store.txn([], writes)).revision)


def preparations(store: MemoryStore, api: MemoryUpstream) -> Preparations:
    return Preparations(api, Adopter(store, utc_now=lambda: datetime(2026, 3, 1, tzinfo=UTC)))


async def stored(store: MemoryStore) -> Promise:
    kv = (await store.get(keys.promise(*WEB))).kv
    assert kv is not None
    return promise_records.read_value(Promise, kv.value)


async def test_it_is_not_ready_before_the_plugins_agree() -> None:
    store = MemoryStore()
    preparation = preparations(store, MemoryUpstream())
    promise = await promised(store, WAITING)
    found = await preparation.prepare(WEB, promise)
    assert (found.ready, found.calls, found.waits_for) == (
        False,
        ("PreBind/Licences",),
        "plugins are called: PreBind/Licences",
    )
    assert not (await stored(store)).ready

    assert await preparation.agree(WEB, promise)
    now = await stored(store)
    assert (now.ready, now.calls) == (True, ())


async def test_another_attempt_cannot_agree_for_it() -> None:
    store = MemoryStore()
    await promised(store, WAITING)
    assert not await preparations(store, MemoryUpstream()).agree(WEB, replace(WAITING, attempt="workflow@other"))
    assert not (await stored(store)).ready


async def test_volumes_come_first() -> None:
    store, api = MemoryStore(), MemoryUpstream()
    claim = {"metadata": {"name": "data", "namespace": "default"}, "spec": {}}
    api.put(PERSISTENT_VOLUME_CLAIMS, claim)
    promise = await promised(store, replace(WAITING, volumes=(VolumeStep("data"),)))
    found = await preparations(store, api).prepare(WEB, promise)
    assert (found.calls, found.waits_for) == ((), "a volume is being made for claim data on node n1")
    assert (await stored(store)).calls == ("PreBind/Licences",)


def test_it_is_given_up_when_its_time_is_over() -> None:
    waits = Preparation(waits_for="plugins are called", calls=WAITING.calls)
    assert waits.late(WAITING, 100) == ""
    assert waits.late(WAITING, 101) == "its plugins did not agree within 101 s: PreBind/Licences"
    volumes = Preparation(waits_for="a volume is being made")
    assert volumes.late(replace(WAITING, patience=50.0), 51) == (
        "its volumes were not there within 50 s: a volume is being made"
    )


def test_what_an_earlier_release_stored_is_read() -> None:
    """It knows no calls; and it ignores those of this release."""
    value = b'{"uid":"u","revision":5,"node":"n1","attempt":"w@r","since":"","ready":false}'
    assert promise_records.read_value(Promise, value).calls == ()
