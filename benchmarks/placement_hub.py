"""What a hub costs beside many members and placements: restart, a changed label, heart-beats; on a real etcd.

    python benchmarks/placement_hub.py [--members 1000] [--placements 10000]

Seven tenths of the placements are PickAll by a label, 29 % fulfilled PickN, 1 % PickN that cannot be fulfilled. Starts
go nowhere: what is measured is the hub's own work. Prints one JSON object:

- `restart_seconds`: from an empty view to the last reconciliation, with every decision settled; `resident_mib` then;
- `label_seconds`: from the put of a label to the last affected start, and `started` by it;
- `heartbeat_cores`: share of a core while every member reports other usage every 15 s.
"""

from __future__ import annotations

import argparse
import asyncio
import functools
import gc
import json
import os
import random
import time
from pathlib import Path
from typing import Any

import real_cluster
import settled_hub
from kubernetes_sides import start_etcd
from processes import Children, resident_mib
from streams import beside

from wharfinger.dev.etcd import MAX_TXN_OPS
from wharfinger.dev.settings import Servers
from wharfinger.etcd.etcd import EtcdStore
from wharfinger.etcd.store import Store
from wharfinger.placement.contracts import placement_keys
from wharfinger.placement.contracts.placement_records import MemberStatusRecord
from wharfinger.placement.contracts.placements import StreamRevisions
from wharfinger.placement.hub.following import HubStreams
from wharfinger.placement.hub.placement_controller import PlacementController
from wharfinger.placement.state.hub_view import HubView
from wharfinger.process.parts import ProcessParts
from wharfinger.process.running import tune_garbage_collection
from wharfinger.settings import EtcdSettings

GROUPS = 100
"""Values of the label that PickAll placements require: one of a hundred members each."""
HEARTBEAT = 15.0
BEATS_FOR = 30.0
"""Seconds."""


def member(number: int, group: int | None = None) -> tuple[str, bytes]:
    labels = {"group": str(number % GROUPS if group is None else group), "region": f"r{number % 7}"}
    return settled_hub.member(f"member-{number:04}", **labels)


def placement(number: int) -> tuple[str, bytes]:
    terms = [{"labelSelector": {"matchLabels": {"group": str(number % GROUPS)}}}]
    affinity = {"clusterAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"clusterSelectorTerms": terms}}}
    share = number % 100
    policy: dict[str, Any] = {"placementType": "PickAll", "affinity": affinity}
    if share >= 70:
        wanted = 3 if share < 99 else 50
        policy = {"placementType": "PickN", "numberOfClusters": wanted, "affinity": affinity}
    return settled_hub.placement(f"p{number:05}", policy, {})


def status(chance: random.Random) -> dict[str, Any]:
    available = {"cpu": str(chance.randrange(92)), "memory": str(chance.randrange(390_000_000_000))}
    return settled_hub.ONLINE | {
        "properties": {"kubernetes-fleet.io/node-count": {"value": "12"}},
        "resourceUsage": {
            "capacity": {"cpu": "96", "memory": "400000000000"},
            "allocatable": {"cpu": "92", "memory": "390000000000"},
            "available": available,
        },
    }


class Starts:
    """Counts what would be started."""

    def __init__(self) -> None:
        self.started: set[str] = set()
        self.last = 0.0
        """When the last one was started for the first time."""

    async def start(self, reference: str, seen: StreamRevisions, cause: str) -> None:  # noqa: ARG002
        """Count it."""
        if reference not in self.started:
            self.started.add(reference)
            self.last = time.monotonic()


async def measured(store: Store, members: int, placements: int) -> dict[str, Any]:
    chance, began = random.Random(1), time.monotonic()
    made = dict(map(member, range(members))), dict(map(placement, range(placements)))
    identities = await settled_hub.settle(store, *made, lambda: status(chance))
    filled = time.monotonic() - began
    gc.collect()
    tune_garbage_collection()

    view, starts, began, cpu = HubView(time.monotonic), Starts(), time.monotonic(), time.process_time()
    controller = PlacementController(ProcessParts(store), view, starts, me="hub")
    streams = HubStreams(store, view, note=controller.note, rng=random.Random(1))
    async with beside(streams.run(), controller.run()):
        while not view.in_sync or controller.unsettled:  # noqa: ASYNC110 - nothing tells
            await asyncio.sleep(0.05)
        found: dict[str, Any] = {
            "members": members,
            "placements": placements,
            "fill_seconds": round(filled, 1),
            "restart_seconds": round(time.monotonic() - began, 1),
            "restart_cpu": round(time.process_time() - cpu, 1),
            "started_at_rest": len(starts.started),
            "resident_mib": round(resident_mib(os.getpid())),
        }
        with_hub = await beats(store, identities)
        put = time.monotonic()
        await store.put(*member(0, group=1))
        while time.monotonic() < max(put, starts.last) + 3.0:  # noqa: ASYNC110 - nothing tells
            await asyncio.sleep(0.01)
        found |= {"label_seconds": round(starts.last - put, 3), "started": len(starts.started)}
    found["heartbeat_cores"] = round(with_hub - await beats(store, identities), 4)
    return found


async def beats(store: Store, identities: dict[str, int]) -> float:
    """Cores of this process while every member reports other usage; the writing of reports is in it."""
    chance, names = random.Random(2), sorted(identities)
    cpu, began = time.process_time(), time.monotonic()
    for beat in range(int(BEATS_FOR * len(names) / HEARTBEAT)):
        name = names[beat % len(names)]
        record = MemberStatusRecord(identity=identities[name], status=status(chance))
        await store.put(placement_keys.member_status(name), record.to_bytes())
        await asyncio.sleep(max(0.0, began + (beat + 1) * HEARTBEAT / len(names) - time.monotonic()))
    return (time.process_time() - cpu) / (time.monotonic() - began)


async def measure(given: argparse.Namespace, servers: Servers, folder: Path) -> int:
    """Start an etcd, and print what is measured on it."""
    async with Children(folder / "logs") as children:
        etcd, _ = await start_etcd(children, "etcd", servers.etcd, folder / "etcd", fsync=False)
        async with EtcdStore(EtcdSettings(endpoints=(etcd.url,), max_txn_ops=MAX_TXN_OPS)) as store:
            print(json.dumps(await measured(store, given.members, given.placements), indent=2))
    return 0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0] if __doc__ else "")
    parser.add_argument("--members", type=int, default=1000)
    parser.add_argument("--placements", type=int, default=10_000)
    real_cluster.run(functools.partial(measure, parser.parse_args()))


if __name__ == "__main__":
    main()
