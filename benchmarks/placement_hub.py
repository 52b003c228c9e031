"""What a hub costs beside many members and placements: restart, a changed label, heart-beats; on a real etcd.

    python benchmarks/placement_hub.py [--members 1000] [--placements 10000]

Seven tenths of the placements are PickAll by a label, 29 % fulfilled PickN, 1 % PickN that cannot be fulfilled. Starts
go nowhere: what is measured is the hub's own work. Prints one JSON object:

- `restart_seconds`: from an empty view to the last judgement, with every decision settled; `resident_mib` then;
- `label_seconds`: from the put of a label to the last affected start, and `started` by it;
- `heartbeat_cores`: share of a core while every member reports other usage every 15 s.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import random
import subprocess
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import uvloop

from wharfinger.contracts.placement_records import MemberRecord, MemberStatusRecord
from wharfinger.contracts.placements import CommitDecisionInput, DecideInput, StreamRevisions
from wharfinger.dev import binaries
from wharfinger.dev.etcd import EtcdServer
from wharfinger.dev.ports import free_port
from wharfinger.dev.progress import progress_for
from wharfinger.engine.parts import ProcessParts
from wharfinger.engine.placements.committing import commit
from wharfinger.engine.placements.drafting import draft
from wharfinger.engine.placements.hub_view import HubView
from wharfinger.hub_loops.following import HubStreams
from wharfinger.hub_loops.judging import PlacementJudge
from wharfinger.observe.placements import read_all
from wharfinger.process.garbage import tune_garbage_collection
from wharfinger.registry import placement_keys
from wharfinger.registry.etcd import EtcdStore
from wharfinger.registry.store import Put, Store
from wharfinger.settings import EtcdSettings

GROUPS = 100
"""Values of the label that PickAll placements require: one of a hundred members each."""
HEARTBEAT = 15.0
BEATS_FOR = 30.0
"""Seconds."""
AT_A_TIME = 100
TIME = "2026-01-01T00:00:00Z"


def member(number: int, group: int | None = None) -> dict[str, Any]:
    return {
        "apiVersion": "cluster.kubernetes-fleet.io/v1",
        "kind": "MemberCluster",
        "metadata": {
            "name": f"member-{number:04}",
            "labels": {"group": str(number % GROUPS if group is None else group), "region": f"r{number % 7}"},
        },
        "spec": {},
    }


def placement(number: int) -> dict[str, Any]:
    terms = [{"labelSelector": {"matchLabels": {"group": str(number % GROUPS)}}}]
    affinity = {"clusterAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"clusterSelectorTerms": terms}}}
    share = number % 100
    policy: dict[str, Any] = {"placementType": "PickAll", "affinity": affinity}
    if share >= 70:
        wanted = 3 if share < 99 else 50
        policy = {"placementType": "PickN", "numberOfClusters": wanted, "affinity": affinity}
    return {
        "apiVersion": "placement.kubernetes-fleet.io/v1",
        "kind": "ClusterResourcePlacement",
        "metadata": {"name": f"p{number:05}", "generation": 1},
        "spec": {"resourceSelectors": [{"group": "", "version": "v1", "kind": "Namespace"}], "policy": policy},
    }


def status(identity: int, chance: random.Random) -> bytes:
    conditions = [{"type": kind, "status": "True"} for kind in ("Joined", "Healthy")]
    told = {
        "agentStatus": [{"type": "MemberAgent", "conditions": conditions}],
        "properties": {"kubernetes-fleet.io/node-count": {"value": "12"}},
        "resourceUsage": {
            "capacity": {"cpu": "96", "memory": "400000000000"},
            "allocatable": {"cpu": "92", "memory": "390000000000"},
            "available": {"cpu": str(chance.randrange(92)), "memory": str(chance.randrange(390_000_000_000))},
        },
    }
    return MemberStatusRecord(identity=identity, status=told).to_bytes()


async def put_all(store: Store, puts: Iterable[tuple[str, bytes]]) -> None:
    found = [Put(key, value) for key, value in puts]
    for first in range(0, len(found), AT_A_TIME):
        await store.txn([], found[first : first + AT_A_TIME])


async def fill(store: Store, members: int, placements: int) -> dict[str, int]:
    """Members, their agents, placements and a settled decision of each; the members' identities."""
    chance = random.Random(1)
    await put_all(
        store,
        ((placement_keys.member_cluster(one["metadata"]["name"]), encoded(one)) for one in map(member, range(members))),
    )
    identities = {
        kv.key.rpartition("/")[2]: kv.create_revision
        async for page in store.list(placement_keys.MEMBER_CLUSTERS)
        for kv in page.items
    }
    await put_all(
        store,
        ((placement_keys.member(name), MemberRecord(identity=one).to_bytes()) for name, one in identities.items()),
    )
    await put_all(
        store, ((placement_keys.member_status(name), status(one, chance)) for name, one in identities.items())
    )
    await put_all(
        store,
        (
            (placement_keys.placement(f"cluster/{one['metadata']['name']}"), encoded(one))
            for one in map(placement, range(placements))
        ),
    )
    view = await read_all(store)
    for reference in sorted(view.placements):
        request = DecideInput(placement=reference, workflow_id="w", run_id="r")
        decided = draft(view, request, clock=time.monotonic(), time=TIME, token=reference)
        await commit(
            store, CommitDecisionInput(placement=reference, decided=decided, workflow_id="w", run_id="r"), TIME
        )
    return identities


def encoded(obj: Any) -> bytes:
    return json.dumps(obj).encode()


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


async def measure(url: str, members: int, placements: int) -> dict[str, Any]:
    store = await EtcdStore.connect(EtcdSettings(endpoints=(url,), max_txn_ops=1024))
    began = time.monotonic()
    identities = await fill(store, members, placements)
    filled = time.monotonic() - began
    gc.collect()
    tune_garbage_collection()

    view, starts, began, cpu = HubView(time.monotonic), Starts(), time.monotonic(), time.process_time()
    judge = PlacementJudge(ProcessParts(store), view, starts, me="hub")
    streams = HubStreams(store, view, note=judge.note, rng=random.Random(1))
    running = [asyncio.create_task(streams.run()), asyncio.create_task(judge.run())]
    while not view.in_sync or judge.unsettled:  # noqa: ASYNC110 - nothing tells
        await asyncio.sleep(0.05)
    found: dict[str, Any] = {
        "members": members,
        "placements": placements,
        "fill_seconds": round(filled, 1),
        "restart_seconds": round(time.monotonic() - began, 1),
        "restart_cpu": round(time.process_time() - cpu, 1),
        "started_at_rest": len(starts.started),
        "resident_mib": round(resident()),
    }
    with_hub = await beats(store, identities)
    put = time.monotonic()
    await store.put(placement_keys.member_cluster("member-0000"), encoded(member(0, group=1)))
    while time.monotonic() < max(put, starts.last) + 3.0:  # noqa: ASYNC110 - nothing tells
        await asyncio.sleep(0.01)
    found |= {"label_seconds": round(starts.last - put, 3), "started": len(starts.started)}
    for task in running:
        task.cancel()
    await asyncio.gather(*running, return_exceptions=True)
    found["heartbeat_cores"] = round(with_hub - await beats(store, identities), 4)
    await store.close()
    return found


async def beats(store: Store, identities: dict[str, int]) -> float:
    """Cores of this process while every member reports other usage; the writing of reports is in it."""
    chance, names = random.Random(2), sorted(identities)
    cpu, began = time.process_time(), time.monotonic()
    for beat in range(int(BEATS_FOR * len(names) / HEARTBEAT)):
        name = names[beat % len(names)]
        await store.put(placement_keys.member_status(name), status(identities[name], chance))
        await asyncio.sleep(max(0.0, began + (beat + 1) * HEARTBEAT / len(names) - time.monotonic()))
    return (time.process_time() - cpu) / (time.monotonic() - began)


def resident() -> float:
    text = Path("/proc/self/status").read_text(encoding="ascii")
    return int(text.partition("VmRSS:")[2].split()[0]) / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0] if __doc__ else "")
    parser.add_argument("--members", type=int, default=1000)
    parser.add_argument("--placements", type=int, default=10_000)
    options = parser.parse_args()
    import sys

    executable = binaries.locate(binaries.ETCD, progress_for(sys.stderr))
    with tempfile.TemporaryDirectory() as folder:
        server = EtcdServer(executable, Path(folder), free_port(), fsync=False)
        process = subprocess.Popen(server.command(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            while not server.is_up():
                time.sleep(0.05)
            print(json.dumps(uvloop.run(measure(server.url, options.members, options.placements)), indent=2))
        finally:
            process.terminate()
            process.wait()


if __name__ == "__main__":
    main()
