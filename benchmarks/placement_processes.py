"""The hub and the agents of `placement_delivery.py`, each a process that says by a socket how far it is.

    python benchmarks/placement_processes.py hub|agents --etcd URL --temporal HOST:PORT --socket FILE [--agents N]

The members' own stores are in memory, in the agents' process, and hold what the works of the hub say.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import settled_hub
import uvloop
from etcd_side import put_all
from processes import resident_mib
from settled_hub import TIME
from streams import beside

from wharfinger.etcd.etcd import EtcdStore
from wharfinger.etcd.store import Condition, Get, Operation, Read, Store, TxnResult
from wharfinger.objects.model.formats import ClusterFormat
from wharfinger.placement.contracts import placement_keys
from wharfinger.placement.contracts.delivery_records import (
    AppliedRecord,
    MarkRecord,
    SnapshotRecord,
    WorkRecord,
)
from wharfinger.placement.effects import snapshots
from wharfinger.placement.member.applying import WorkOnMember
from wharfinger.placement.member.folder import MemberConnection
from wharfinger.placement.member.joining import hub_id
from wharfinger.placement.member.member_agent import MemberReporter
from wharfinger.placement.member.member_store import EtcdMember
from wharfinger.placement.member.presence import Presence
from wharfinger.placement.member.works import Works
from wharfinger.process.opening import Opened, serve
from wharfinger.process.parts import ProcessParts
from wharfinger.process.running import stop_on_signals, tune_garbage_collection
from wharfinger.programs.hub import Hub
from wharfinger.programs.process_settings import HubSettings
from wharfinger.serving.options import ServingOptions
from wharfinger.settings import EtcdSettings, LeaseSettings, TemporalSettings
from wharfinger.testing.memory_store import MemoryStore

MOST_IN_MEMORY = 100
"""Operations in a transaction of a member's store."""


@dataclass
class Counted:
    """What agents do on members."""

    writes: Counter[str] = field(default_factory=Counter)
    reads: int = 0
    """Of `applied/<P>`: two a look."""
    looked: set[tuple[int, str]] = field(default_factory=set)


COUNTED = Counted()


class MemberInMemory(MemoryStore):
    """Counts what agents do."""

    async def get(self, key: str, *, revision: int = 0) -> Read:
        """See `Store.get`."""
        if key.startswith(placement_keys.applied.prefix):
            COUNTED.reads += 1
            COUNTED.looked.add((id(self._shared), key))
        return await super().get(key, revision=revision)

    async def txn(
        self, compares: Sequence[Condition], success: Sequence[Operation], failure: Sequence[Operation] = ()
    ) -> TxnResult:
        """See `Store.txn`."""
        answered = await super().txn(compares, success, failure)
        if answered.succeeded:
            COUNTED.writes.update(prefix_of(one.key) for one in success if not isinstance(one, Get))
        return answered


async def brought(hub: Store, stores: Mapping[str, MemoryStore], identities: Mapping[str, int]) -> None:
    """Make the stores what they would be with all works applied."""
    hub_is, wanted = await hub_id(hub), dict[str, WorkRecord]()
    async for (reference, _), work in placement_keys.work.records(hub, WorkRecord.model_validate_json):
        wanted.setdefault(reference, work)
    template = MemoryStore()
    bringing = EtcdMember(template, now=lambda: TIME)
    for reference, work in wanted.items():
        record = await placement_keys.snapshot.read(hub, SnapshotRecord.model_validate_json, reference, work.snapshot)
        assert record is not None
        objects = await snapshots.read(hub, reference, record)
        await WorkOnMember(bringing, reference, work, "life", runs_workloads=False, now=TIME).bring(objects)
    found = [kv async for kv in template.each("/")]
    for name, store in stores.items():
        life, puts = f"{hub_is}/{name}/{identities[name]}", dict[str, bytes]()
        for kv in found:
            value = kv.value
            if kv.key.startswith(placement_keys.applied.prefix):
                value = (
                    AppliedRecord.model_validate_json(value)
                    .model_copy(update={"identity": identities[name]})
                    .to_bytes()
                )
            elif kv.key.startswith(placement_keys.MARKS):
                value = MarkRecord.model_construct(**json.loads(value) | {"life": life}).to_bytes()
            puts[kv.key] = value
        await put_all(store, puts, at_once=MOST_IN_MEMORY)
        await asyncio.sleep(0)


def prefix_of(key: str) -> str:
    """The part of a key that says what it is."""
    known = next((one for one in (placement_keys.HUB, placement_keys.PLACED) if key.startswith(one)), "")
    head, _, rest = key.removeprefix(known).lstrip("/").partition("/")
    return f"{known}{head}" if known else f"/{head}/{rest.partition('/')[0]}"


def encoded(obj: Any) -> bytes:
    return json.dumps(obj).encode()


async def answer(socket: Path, answers: Callable[[], Mapping[str, Any]]) -> asyncio.Server:
    """Answer each connection."""

    async def asked(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(encoded(answers()))
        writer.close()

    return await asyncio.start_unix_server(asked, socket)


async def run_agents(url: str, count: int, socket: Path) -> None:
    """The agents of the first members, as `wharfinger member` runs them; the stores are in memory."""
    stop = stop_on_signals()
    hub = await EtcdStore.connect(EtcdSettings(endpoints=(url,)))
    identities = await settled_hub.identities_of(hub)
    stores = {name: MemberInMemory() for name in sorted(identities)[:count]}
    before = resident_mib(os.getpid())
    await brought(hub, stores, identities)
    stores_mib = resident_mib(os.getpid()) - before
    COUNTED.reads = 0
    COUNTED.writes.clear()
    COUNTED.looked.clear()
    tune_garbage_collection()
    process = ProcessParts(hub)
    works = Works(hub, rng=process.rng)
    presence = Presence(hub, LeaseSettings(), clock=process.clock, rng=process.rng)
    agents = [
        MemberReporter(
            MemberConnection(name, EtcdSettings(), ClusterFormat.KUBERNETES),
            process,
            connecting(store),
            lease=LeaseSettings(),
            report_every=15.0,
            works=works,
            presence=presence,
        )
        for name, store in stores.items()
    ]
    answering = await answer(
        socket,
        lambda: {
            "online": sum(one.state == "ok" for one in agents),
            "looked": len(COUNTED.looked),
            "looks": COUNTED.reads // 2,
            "writes": COUNTED.writes,
            "stores_mib": stores_mib,
        },
    )
    async with beside(works.run(), presence.run(), *(one.run() for one in agents)):
        await stop.wait()
        answering.close()


def connecting(store: MemoryStore) -> Callable[[], Any]:
    async def connect() -> Store:
        return store.client()

    return connect


async def run_hub(url: str, temporal: str, socket: Path) -> None:
    """A hub, as `wharfinger hub` runs it."""
    settings = HubSettings(name="hub", etcd=EtcdSettings(endpoints=(url,)), temporal=TemporalSettings(temporal))

    async def make(found: Opened) -> Hub:
        hub = Hub(settings, found.process, found.temporal)
        answering = await answer(
            socket,
            lambda: {
                "ready": all(one == "ok" for one in hub.checks().values()),
                "unsettled": hub.placements.unsettled + hub.rollouts.unsettled,
            },
        )
        found.stack.callback(answering.close)
        return hub

    await serve(settings.etcd, settings.format, settings.temporal, ServingOptions(port=-1), make)


def main() -> None:
    """Run one of them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=("hub", "agents"))
    parser.add_argument("--etcd", required=True)
    parser.add_argument("--temporal", required=True)
    parser.add_argument("--socket", type=Path, required=True)
    parser.add_argument("--agents", type=int, default=0)
    given = parser.parse_args()
    if given.part == "hub":
        uvloop.run(run_hub(given.etcd, given.temporal, given.socket))
    else:
        uvloop.run(run_agents(given.etcd, given.agents, given.socket))


if __name__ == "__main__":
    main()
