"""Pods of a cohort that get volumes which exist: on bare etcd the bind itself writes both, volume and claim."""

from __future__ import annotations

import json
from typing import Any

from tests.scheduling.world import Hand, World
from wharfinger.etcd import keys
from wharfinger.etcd.store import Get, Operation
from wharfinger.process.transactions import Limits
from wharfinger.scheduling.effects.binding.outcome import SENDERS

GIB = "1Gi"


async def local_storage(world: World, pods: int) -> list[str]:
    """A node for each pod, with a local volume, and pods that wait for their first consumer's node."""
    await world.store.put(
        keys.stored("storageclasses", "", "local"),
        json.dumps(
            {
                "apiVersion": "storage.k8s.io/v1",
                "kind": "StorageClass",
                "metadata": {"name": "local"},
                "provisioner": "kubernetes.io/no-provisioner",
                "volumeBindingMode": "WaitForFirstConsumer",
            }
        ).encode(),
    )
    names = []
    for number in range(pods):
        node, name = f"node-{number}", f"web-{number}"
        await world.put_node(node, cpu="1", labels={"kubernetes.io/hostname": node})
        await world.store.put(
            keys.stored("persistentvolumes", "", f"disk-{number}"), json.dumps(_volume(number)).encode()
        )
        await world.store.put(
            keys.stored("persistentvolumeclaims", "default", f"data-{number}"), json.dumps(_claim(number)).encode()
        )
        volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": f"data-{number}"}}]
        await world.put_pod(name, spec={"volumes": volumes})
        names.append(name)
    return names


def _volume(number: int) -> dict[str, Any]:
    terms = [{"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [f"node-{number}"]}]}]
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": f"disk-{number}"},
        "spec": {
            "capacity": {"storage": GIB},
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "local",
            "nodeAffinity": {"required": {"nodeSelectorTerms": terms}},
        },
        "status": {"phase": "Available"},
    }


def _claim(number: int) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": f"data-{number}", "namespace": "default", "uid": f"uid-data-{number}"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "local",
            "resources": {"requests": {"storage": GIB}},
        },
        "status": {"phase": "Pending"},
    }


def reads_of(hand: Hand) -> list[list[str]]:
    """From now on, the keys that each transaction reads which does nothing else."""
    seen: list[list[str]] = []
    txn = hand.store.txn

    async def counted(compares: Any, then: list[Operation], otherwise: Any = ()) -> Any:
        if then == [] or all(isinstance(one, Get) for one in then):
            reads = [one.key for one in (*then, *otherwise) if isinstance(one, Get)]
            if not compares and reads:
                seen.append(reads)
        return await txn(compares, then, otherwise)

    hand.store.txn = counted  # type: ignore[method-assign]
    return seen


async def test_a_cohorts_volumes_are_read_together(world: World) -> None:
    names = await local_storage(world, 20)
    hand = await world.hand()
    cohort = await hand.place_many(*names)
    assert len(cohort.seats) == 20
    reads = reads_of(hand)

    bound = await hand.bind_many(cohort)

    assert len(bound.bound) == 20, bound
    assert {len(keys_read) for keys_read in reads} == {40}
    assert len(reads) <= SENDERS
    for number, name in enumerate(names):
        node = await world.node_of(name)
        claim = json.loads(
            (await world.store.get(keys.stored("persistentvolumeclaims", "default", f"data-{number}"))).kv.value
        )
        assert node == f"node-{claim['spec']['volumeName'].removeprefix('disk-')}"


async def test_volumes_are_read_in_as_many_transactions_as_needed(world: World) -> None:
    names = await local_storage(world, 70)
    hand = await world.hand()
    cohort = await hand.place_many(*names)
    reads = reads_of(hand)

    bound = await hand.bind_many(cohort)

    assert len(bound.bound) == 70, bound
    assert {len(keys_read) for keys_read in reads} >= {128, 12}
    assert max(len(keys_read) for keys_read in reads) == Limits().operations
