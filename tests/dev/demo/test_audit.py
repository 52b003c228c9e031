"""The audit must find each kind of mistake, or it proves nothing."""

from __future__ import annotations

import json
from typing import Any

import pytest

from wharfinger.dev.demo.audit import audit, reason_of, replayed
from wharfinger.etcd import keys
from wharfinger.etcd.store import Put
from wharfinger.objects.model.pod import PodKey
from wharfinger.process.records import AttemptRecord
from wharfinger.testing import MemoryStore, node_manifest, pod_manifest

A = PodKey("default", "a")


def node(name: str = "n", *, cpu: str = "1", pods: str = "10") -> bytes:
    return json.dumps(node_manifest(name, cpu, "1Gi", int(pods))).encode()


def pod(name: str = "a", *, on: str = "", cpu: str = "600m", port: int = 0, **spec: Any) -> bytes:
    made = pod_manifest(name, cpu, metadata={"uid": name}, **spec, **({"nodeName": on} if on else {}))
    if port:
        made["spec"]["containers"][0]["ports"] = [{"containerPort": port, "hostPort": port}]
    return json.dumps(made).encode()


def record(run: str, *, create_revision: int = 0, message: str = "") -> bytes:
    return AttemptRecord(attempt=1, run_id=run, create_revision=create_revision, message=message).to_bytes()


@pytest.fixture
async def store() -> MemoryStore:
    store = MemoryStore()
    await store.put(keys.node("n"), node())
    return store


async def test_a_pod_bound_once_where_it_fits_is_sound(store: MemoryStore) -> None:
    await store.put(keys.pod(*A), pod())
    await store.put(keys.attempt(*A), record("run-1"))
    await store.txn((), (Put(keys.pod(*A), pod(on="n")),))
    await store.delete(keys.attempt(*A))

    result = await audit(store, 1)

    assert result.sound
    assert (result.pods, result.bound, result.waiting, result.attempts) == (1, 1, {}, 2)


async def test_a_pending_pod_without_a_record_is_lost(store: MemoryStore) -> None:
    await store.put(keys.pod(*A), pod())

    assert (await audit(store, 1)).lost == (A,)


async def test_a_record_of_an_earlier_life_does_not_excuse_a_pod(store: MemoryStore) -> None:
    await store.put(keys.attempt(*A), record("run-1", create_revision=1))
    await store.put(keys.pod(*A), pod())

    assert (await audit(store, 1)).lost == (A,)


async def test_a_gated_or_refused_pod_is_not_lost(store: MemoryStore) -> None:
    await store.put(keys.pod("default", "gated"), pod("gated", schedulingGates=[{"name": "wait"}]))
    revision = await store.put(keys.pod(*A), pod(cpu="2"))
    message = "0/1 nodes are available: 1 Insufficient cpu. no help"
    await store.put(keys.attempt(*A), record("run-1", create_revision=revision, message=message))

    result = await audit(store, 1)

    assert result.sound
    assert result.reasons() == {"Insufficient cpu": 1}


async def test_a_pod_that_changes_its_node_is_doubled(store: MemoryStore) -> None:
    await store.put(keys.node("m"), node("m"))
    await store.put(keys.pod(*A), pod(on="n"))
    await store.put(keys.pod(*A), pod(on="m"))

    assert (await audit(store, 1)).doubled == (A,)


async def test_a_pod_made_again_may_go_elsewhere(store: MemoryStore) -> None:
    await store.put(keys.node("m"), node("m"))
    await store.put(keys.pod(*A), pod(on="n"))
    await store.delete(keys.pod(*A))
    await store.put(keys.pod(*A), pod(on="m"))

    assert (await audit(store, 1)).sound


async def test_a_node_overcommitted_for_one_revision_is_found(store: MemoryStore) -> None:
    await store.put(keys.pod(*A), pod(on="n"))
    await store.put(keys.pod("default", "b"), pod("b", on="n"))
    await store.delete(keys.pod(*A))

    assert (await audit(store, 1)).overcommitted == ("n",)


async def test_pods_that_swap_within_one_revision_are_judged_together(store: MemoryStore) -> None:
    await store.put(keys.pod(*A), pod(on="n"))
    finished = json.loads(pod(on="n")) | {"status": {"phase": "Succeeded"}}
    swap = (Put(keys.pod("default", "b"), pod("b", on="n")), Put(keys.pod(*A), json.dumps(finished).encode()))
    await store.txn((), swap)

    assert (await audit(store, 1)).sound


async def test_pod_count_port_clash_and_missing_node_count_as_overcommitted() -> None:
    store = MemoryStore()
    for name in ("crowded", "ports"):
        await store.put(keys.node(name), node(name, pods="1" if name == "crowded" else "9"))
    for name, where, port in (("a", "crowded", 0), ("b", "crowded", 0), ("c", "ports", 80), ("d", "ports", 80)):
        await store.put(keys.pod("default", name), pod(name, on=where, cpu="1m", port=port))
    await store.put(keys.pod("default", "e"), pod("e", on="gone"))

    assert (await audit(store, 1)).overcommitted == ("crowded", "gone", "ports")


async def test_a_node_that_shrinks_under_its_pods_is_nobodys_mistake(store: MemoryStore) -> None:
    await store.put(keys.pod(*A), pod(on="n"))
    await store.put(keys.node("n"), node(cpu="100m"))

    assert (await audit(store, 1)).sound


async def test_objects_that_cannot_be_read_are_passed_over(store: MemoryStore) -> None:
    await store.put(keys.pod("default", "bad"), b"{")
    await store.put(keys.node("bad"), b"null")
    await store.put(keys.attempt("default", "bad"), b"[]")

    result = await audit(store, 1)

    assert result.sound
    assert result.pods == 0


def test_the_reason_is_the_message_without_its_numbers() -> None:
    message = "0/5 nodes are available: 2 Insufficient cpu, 3 node(s) were unschedulable. preemption: 0/5 nodes."

    assert reason_of(AttemptRecord(attempt=1, message=message)) == "Insufficient cpu, node(s) were unschedulable"
    assert reason_of(AttemptRecord(attempt=1, reason="SchedulerError", message="boom")) == "SchedulerError"


async def test_a_contended_pod_is_neither_lost_nor_answered(store: MemoryStore) -> None:
    revision = await store.put(keys.pod(*A), pod())
    contended = AttemptRecord(attempt=1, run_id="run-1", create_revision=revision, reason="Contended")
    await store.put(keys.attempt(*A), contended.to_bytes())

    ledger = await replayed(store, 1)

    assert (len(ledger.waiting()), ledger.refused()) == (1, 0)
    assert ledger.judge().sound


async def test_each_pod_that_a_run_refused_counts_as_an_attempt(store: MemoryStore) -> None:
    for name in ("a", "b"):
        revision = await store.put(keys.pod("default", name), pod(name))
        await store.put(keys.attempt("default", name), record("cohort-1", create_revision=revision))

    ledger = await replayed(store, 1)

    assert (ledger.judge().attempts, ledger.refused()) == (2, 2)
