"""What it costs to deliver placements: at rest beside many members, and while one change is rolled out.

    python benchmarks/placement_delivery.py                     both; --only rest or --only roll for one of them
    python benchmarks/placement_delivery.py --only rest --members 1000 --placements 100 --seconds 300
    python benchmarks/placement_delivery.py --only roll --rolled 100 --objects 10

etcd and Temporal are real and run here, the hub is a process, and the agents of all members are another one, as they
are behind `wharfinger member`. The members' own stores are in memory in that process, because a thousand etcds do not
fit on one machine. Prints one JSON object a measurement. CPU is that of the processes, as the kernel counts it.

`rest`: every placement has a work and a result on every member, written as a rollout and agents would.

- `agents_seconds`, `agents_cpu_s`: from the start of all agents until each has looked at each of its works once;
- `hub_seconds`, `hub_cpu_s`: from the start of the hub's process until nothing is left to judge; `runs`: workflows that
  it started meanwhile (none are needed);
- `hub_mib`, `agents_mib`: resident memory; the second one without the members' stores;
- `writes`: by prefix of the hub's etcd, within `--seconds`; `member_writes`: of all members; `cores`: shares of a core
  in that time; `looks`: works that agents looked at meanwhile. An agent looks at a work less and less often, down to
  once in 15 minutes: `looks_at_rest` is their number in that time then.

`roll`: the contents of all objects of one placement change.

- `seconds`: from the first write of the new snapshot to the end of the run that rolls it out; `waited`: from the change
  to that first write (hubs wait for further changes);
- `cpu_ms_per_work`: by part, without what the part uses at rest; `most_away`: members at a time whose result was not of
  their work, of `budget`;
- `events`, `bytes`: of the history of that run; `writes`: as above.
"""

from __future__ import annotations

import argparse
import asyncio
import functools
import json
import os
import random
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import real_cluster
import settled_hub
import uvloop
from etcd_side import put_all
from kubernetes_sides import start_etcd, start_temporal
from processes import Child, Children, resident_mib
from settled_hub import TIME
from temporalio.client import Client, WorkflowExecutionStatus

from wharfinger.dev.etcd import MAX_TXN_OPS, EtcdServer
from wharfinger.dev.settings import Servers
from wharfinger.dev.temporal import TemporalServer
from wharfinger.etcd import keys
from wharfinger.etcd.etcd import EtcdStore
from wharfinger.etcd.store import Condition, Get, Operation, Read, Store, TxnResult
from wharfinger.objects.model.formats import ClusterFormat
from wharfinger.placement.contracts import placement_keys
from wharfinger.placement.contracts.delivery_records import (
    AppliedRecord,
    MarkRecord,
    ResultRecord,
    SnapshotRecord,
    WorkRecord,
)
from wharfinger.placement.contracts.placement_rollouts import TakeSnapshotInput
from wharfinger.placement.effects import snapshots
from wharfinger.placement.member.applying import WorkOnMember
from wharfinger.placement.member.folder import MemberConnection
from wharfinger.placement.member.joining import hub_id
from wharfinger.placement.member.member_agent import MemberReporter
from wharfinger.placement.member.member_store import EtcdMember
from wharfinger.placement.member.presence import Presence
from wharfinger.placement.member.works import Works
from wharfinger.placement.reading.observe_placements import read_all
from wharfinger.placement.state.contents_view import ContentsView
from wharfinger.placement.state.hub_view import HubView
from wharfinger.process.names import placement_rollout_id
from wharfinger.process.opening import opened
from wharfinger.process.parts import ProcessParts
from wharfinger.process.running import stop_on_signals, tune_garbage_collection
from wharfinger.programs.hub import Hub
from wharfinger.programs.process_settings import HubSettings
from wharfinger.serving.options import ServingOptions
from wharfinger.settings import EtcdSettings, LeaseSettings, TemporalSettings
from wharfinger.testing.memory_store import MemoryStore

CLUSTER = "wharfinger"
MOST_IN_MEMORY = 100
"""Operations in a transaction of a member's store."""
AT_REST = 3
"""Objects of each placement at rest: a namespace, and maps in it."""
REPORTED = 16.0
"""Seconds within which agents report what members have now: the new namespace."""
QUIET = 3.0
"""Seconds without anything left to judge, after which the hub is at rest."""
WITHIN = 600.0
"""Seconds after which a measurement is given up."""
LONGEST_LOOK = 900.0
"""Seconds between two looks at a work that stays as it is."""


# --- objects --------------------------------------------------------------------------------------


def encoded(obj: Any) -> bytes:
    return json.dumps(obj).encode()


def member(number: int) -> tuple[str, bytes]:
    return settled_hub.member(f"m{number:04}")


def placement(name: str) -> tuple[str, bytes]:
    """Selects the namespace of its name with all that is in it, for all members."""
    return settled_hub.placement(name, {"placementType": "PickAll"}, {"name": name})


def contents(name: str, objects: int, version: int) -> Iterable[tuple[str, bytes]]:
    """A namespace and maps of half a kibibyte, so many objects in all."""
    metadata = {"name": name, "annotations": {"version": str(version)}}
    yield keys.stored("namespaces", "", name), encoded({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
    for number in range(objects - 1):
        obj = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": f"map-{number}", "namespace": name},
            "data": {"version": str(version), "settings": "x" * 400},
        }
        yield keys.stored("configmaps", name, f"map-{number}"), encoded(obj)


# --- what a rollout and the agents would have written ----------------------------------------------


async def fill(store: Store, members: int, placements: int, agents: int) -> None:
    """Members, placements, their decisions, snapshots, works and results, all settled. The first `agents` have none."""
    names = [f"p{number:03}" for number in range(placements)]
    for name in names:
        await put_all(store, dict(contents(name, AT_REST, 1)))
    identities = await settled_hub.settle(store, dict(map(member, range(members))), dict(map(placement, names)))
    view = await read_all(store)
    stamps = await selected_now(store, view)
    for reference in sorted(view.placements):
        await deliver(store, view, reference, stamps[reference], identities)
    for name in sorted(identities)[:agents]:
        await store.delete(placement_keys.member(name))  # its agent's to write


async def selected_now(store: Store, view: HubView) -> dict[str, str]:
    """Placement -> stamp of what it selects."""
    seen = ContentsView(time.monotonic)
    for reference, one in view.placements.items():
        seen.read(reference, one.delivery.selectors)
    for folder in seen.wanted:
        seen.listed(folder, [kv async for page in store.list(folder) for kv in page.items])
    return {reference: seen.stamp(reference) or "" for reference in view.placements}


async def deliver(store: Store, view: HubView, reference: str, stamp: str, identities: Mapping[str, int]) -> None:
    """The snapshot, and on each member the work and the result."""
    seen, decision = view.placements[reference], view.decisions[reference]
    request = TakeSnapshotInput(
        placement=reference, selected=stamp, decision=decision.revision, rollout=0, workflow_id="w", run_id="r"
    )
    taken = await snapshots.take(store, view, request, TIME)
    assert taken.outcome == "taken", taken
    strategy = dict(seen.delivery.strategy)
    result = {"applied": True, "available": True, "objects": taken.objects, "time": TIME}
    puts: dict[str, bytes] = {}
    for one in decision.chosen:
        identity = identities[one.name]
        work = WorkRecord(
            counter=1,
            since=1,
            identity=identity,
            placement=seen.placement.identity,
            snapshot=taken.number,
            strategy=strategy,
        )
        told = ResultRecord(counter=1, since=1, identity=identity, **result)
        puts[placement_keys.work(reference, one.name)] = work.to_bytes()
        puts[placement_keys.result(reference, one.name)] = told.to_bytes()
    await put_all(store, puts)


# --- the members' stores ---------------------------------------------------------------------------


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
    hub_is, applied = (
        await hub_id(hub),
        [kv async for page in hub.list(placement_keys.work.prefix) for kv in page.items],
    )
    wanted: dict[str, WorkRecord] = {}
    for kv in applied:
        wanted.setdefault(
            kv.key.removeprefix(placement_keys.work.prefix).rpartition("/")[0], WorkRecord.model_validate_json(kv.value)
        )
    template = MemoryStore()
    bringing = EtcdMember(template, now=lambda: TIME)
    for reference, work in wanted.items():
        kv = (await hub.get(placement_keys.snapshot(reference, work.snapshot))).kv
        assert kv is not None
        objects = await snapshots.read(hub, reference, SnapshotRecord.model_validate_json(kv.value))
        await WorkOnMember(bringing, reference, work, "life", runs_workloads=False, now=TIME).bring(objects)
    found = [kv async for page in template.list("/") for kv in page.items]
    for name, store in stores.items():
        life, puts = f"{hub_is}/{name}/{identities[name]}", dict[str, bytes]()
        for kv in found:
            value = kv.value
            if kv.key.startswith(placement_keys.applied.prefix):
                record = AppliedRecord.model_validate_json(value)
                value = record.model_copy(update={"identity": identities[name]}).to_bytes()
            elif kv.key.startswith(placement_keys.MARKS):
                mark = MarkRecord.model_construct(**json.loads(value) | {"life": life})
                value = mark.to_bytes()
            puts[kv.key] = value
        await put_all(store, puts, at_once=MOST_IN_MEMORY)
        await asyncio.sleep(0)


def prefix_of(key: str) -> str:
    """The part of a key that says what it is."""
    known = next((one for one in (placement_keys.HUB, placement_keys.PLACED) if key.startswith(one)), "")
    head, _, rest = key.removeprefix(known).lstrip("/").partition("/")
    return f"{known}{head}" if known else f"/{head}/{rest.partition('/')[0]}"


# --- the processes ---------------------------------------------------------------------------------


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
    shared = asyncio.create_task(works.run()), asyncio.create_task(presence.run())
    tasks = [*shared, *(asyncio.create_task(one.run()) for one in agents)]
    await stop.wait()
    answering.close()
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def connecting(store: MemoryStore) -> Callable[[], Any]:
    async def connect() -> Store:
        return store.client()

    return connect


async def run_hub(url: str, temporal: str, socket: Path) -> None:
    """A hub, as `wharfinger hub` runs it."""
    settings = HubSettings(name="hub", etcd=EtcdSettings(endpoints=(url,)), temporal=TemporalSettings(temporal))
    tune_garbage_collection()
    stop = stop_on_signals()
    async with opened(
        settings.etcd, settings.format, settings.temporal, serving=ServingOptions(port=-1), stop=stop
    ) as found:
        assert found is not None
        hub = Hub(settings, found.process, found.temporal)
        answering = await answer(
            socket,
            lambda: {
                "ready": all(one == "ok" for one in hub.checks().values()),
                "unsettled": hub.placements.unsettled + hub.rollouts.unsettled,
            },
        )
        await hub.run(stop)
        answering.close()


@dataclass
class Part:
    """One process that answers."""

    child: Child
    socket: Path

    async def ask(self) -> dict[str, Any]:
        """What it says of itself. Raises `BenchmarkFailed` when it has ended."""
        while not self.socket.exists():
            assert self.child.cpu_seconds >= 0, "it raises when it has ended"
            await asyncio.sleep(0.05)
        reader, _ = await asyncio.open_unix_connection(self.socket)
        answered: dict[str, Any] = json.loads(await reader.read())
        return answered

    @property
    def mib(self) -> float:
        """Its memory."""
        return resident_mib(self.child.process.pid)


@dataclass
class Scene:
    """The servers, and what runs beside them."""

    etcd: EtcdServer
    temporal: TemporalServer
    children: Children
    store: EtcdStore
    client: Client

    async def start(self, part: str, *arguments: str) -> Part:
        """The hub or the agents."""
        socket = self.children.folder / f"{part}.socket"
        servers = f"--etcd={self.etcd.url}", f"--temporal={self.temporal.address}", f"--socket={socket}"
        command = [sys.executable, __file__, f"--part={part}", *servers, *arguments]
        return Part(await self.children.start(part, command), socket)

    def cpu(self) -> Counter[str]:
        """Seconds so far by process."""
        return Counter(self.children.cpu())

    async def cores(self, seconds: float) -> dict[str, float]:
        """Shares of a core for so long."""
        before, began = self.cpu(), time.monotonic()
        await asyncio.sleep(seconds)
        elapsed = time.monotonic() - began
        return {name: (used - before[name]) / elapsed for name, used in self.cpu().items()}


@asynccontextmanager
async def scene(servers: Servers, folder: Path) -> AsyncIterator[Scene]:
    async with Children(folder) as children:
        etcd, _ = await start_etcd(children, "etcd", servers.etcd, folder / "data", fsync=False)
        temporal, _ = await start_temporal(children, "temporal", servers.temporal)
        async with EtcdStore(EtcdSettings(endpoints=(etcd.url,), max_txn_ops=MAX_TXN_OPS)) as store:
            yield Scene(etcd, temporal, children, store, await Client.connect(temporal.address))


@asynccontextmanager
async def writes(store: Store) -> AsyncIterator[Counter[str]]:
    """Counts what is written meanwhile, by prefix."""
    found: Counter[str] = Counter()

    async def follow() -> None:
        async with store.watch("/", 0) as batches:
            async for batch in batches:
                found.update(prefix_of(event.kv.key) for event in batch.events)

    following = asyncio.create_task(follow())
    try:
        yield found
    finally:
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)


def rounded(values: Mapping[str, float], digits: int = 3) -> dict[str, float]:
    return {name: round(value, digits) for name, value in sorted(values.items())}


async def until(what: str, done: Callable[[dict[str, Any]], bool], part: Part, pause: float = 0.2) -> dict[str, Any]:
    """What the part says as soon as that is so."""
    began = time.monotonic()
    while not done(said := await part.ask()):
        if time.monotonic() - began > WITHIN:
            raise TimeoutError(f"not {what} within {WITHIN:.0f} s: {said}")
        await asyncio.sleep(pause)
    return said


# --- at rest ---------------------------------------------------------------------------------------


async def at_rest(found: Scene, given: argparse.Namespace) -> dict[str, Any]:
    agents, seconds = min(given.agents, given.members), given.seconds
    pairs, looked = given.members * given.placements, agents * given.placements
    began = time.monotonic()
    await fill(found.store, given.members, given.placements, agents)
    result: dict[str, Any] = {
        "what": "rest",
        "members": given.members,
        "placements": given.placements,
        "pairs": pairs,
        "agents": agents,
        "fill_seconds": round(time.monotonic() - began, 1),
    }
    part = await found.start("agents", f"--agents={agents}")
    said = await until("filled", bool, part)
    began, cpu = time.monotonic(), found.cpu()
    await until("looked at", lambda one: one["looked"] >= looked and one["online"] == agents, part)
    result |= {
        "agents_seconds": round(time.monotonic() - began, 1),
        "agents_cpu_s": rounded(found.cpu() - cpu, 1),
        "agents_mib": round(part.mib - said["stores_mib"]),
        "stores_mib": round(said["stores_mib"]),
    }
    hub = await found.start("hub")
    result |= await hub_restart(found, hub)
    async with writes(found.store) as written:
        before = await part.ask()
        result["cores"] = rounded(await found.cores(seconds))
        after = await part.ask()
    return result | {
        "seconds": seconds,
        "writes": dict(written),
        "member_writes": dict(Counter(after["writes"]) - Counter(before["writes"])),
        "looks": after["looks"] - before["looks"],
        "looks_at_rest": round(looked * seconds / LONGEST_LOOK),
        "open_runs": len([one async for one in found.client.list_workflows("ExecutionStatus = 'Running'")]),
        "hub_mib": round(hub.mib),
    }


async def hub_restart(found: Scene, hub: Part) -> dict[str, Any]:
    """From the start of the process, just now, to the last judgement."""
    began, cpu = time.monotonic(), found.cpu()
    rest: float | None = None
    while rest is None or time.monotonic() < rest + QUIET:
        said = await hub.ask()
        if said["unsettled"] or not said["ready"]:
            rest = None
        elif rest is None:
            rest, used = time.monotonic(), found.cpu()
        if time.monotonic() - began > WITHIN:
            raise TimeoutError(f"the hub is not at rest within {WITHIN:.0f} s: {said}")
        await asyncio.sleep(0.1)
    return {
        "hub_seconds": round(rest - began, 1),
        "hub_cpu_s": rounded(used - cpu, 1),
        "runs": len([one async for one in found.client.list_workflows()]),
    }


# --- one change ------------------------------------------------------------------------------------


@dataclass
class Rolling:
    """What the history of one rollout shows."""

    store: Store
    counters: dict[str, int] = field(default_factory=dict)
    """Member -> counter of its work."""
    told: dict[str, int] = field(default_factory=dict)
    """Member -> counter that its result tells of as available."""
    most_away: int = 0
    written: Counter[str] = field(default_factory=Counter)
    first: float = 0.0
    """When the new snapshot was written."""
    cpu: Counter[str] = field(default_factory=Counter)

    async def follow(self, snapshot: str, cpu: Callable[[], Counter[str]]) -> None:
        """Until cancelled."""
        async with self.store.watch("/", 0) as batches:
            async for batch in batches:
                for event in batch.events:
                    key = event.kv.key
                    self.written[prefix_of(key)] += 1
                    if key == snapshot:
                        self.first, self.cpu = time.monotonic(), cpu()
                    name = key.rpartition("/")[2]
                    if key.startswith(placement_keys.work.prefix):
                        self.counters[name] = WorkRecord.model_validate_json(event.kv.value).counter
                    elif key.startswith(placement_keys.result.prefix):
                        result = ResultRecord.model_validate_json(event.kv.value)
                        self.told[name] = result.counter if result.available else 0
                away = sum(self.told.get(name, 0) < counter for name, counter in self.counters.items())
                self.most_away = max(self.most_away, away)


async def delivered(store: Store, snapshot: int, members: int) -> bool:
    """Whether all members have it."""
    works = [
        WorkRecord.model_validate_json(kv.value)
        async for page in store.list(placement_keys.work.prefix)
        for kv in page.items
    ]
    results = [
        ResultRecord.model_validate_json(kv.value)
        async for page in store.list(placement_keys.result.prefix)
        for kv in page.items
    ]
    return (
        len(works) == len(results) == members
        and all(work.snapshot == snapshot for work in works)
        and all(one.available and one.counter == work.counter for work, one in zip(works, results, strict=True))
    )


async def rolled(found: Scene, given: argparse.Namespace) -> dict[str, Any]:
    members, objects = given.rolled, given.objects
    await put_all(found.store, dict(map(member, range(members))))
    agents = await found.start("agents", f"--agents={members}")
    await until("online", lambda one: one["online"] == members, agents)
    await until("ready", lambda one: bool(one["ready"]), await found.start("hub"))
    await put_all(found.store, dict([*contents("web", objects, 1), placement("web")]))
    id_ = placement_rollout_id(CLUSTER, "cluster/web")
    await at_an_end(found, id_, 1, members)
    await asyncio.sleep(REPORTED)
    rest = await found.cores(10.0)
    rolling, changed = Rolling(found.store), time.monotonic()
    following = asyncio.create_task(rolling.follow(placement_keys.snapshot("cluster/web", 2), found.cpu))
    await asyncio.sleep(0.5)
    await put_all(found.store, dict(contents("web", objects, 2)))
    await at_an_end(found, id_, 2, members)
    ended, cpu = time.monotonic(), found.cpu()
    following.cancel()
    await asyncio.gather(following, return_exceptions=True)
    run = (await found.client.get_workflow_handle(id_).describe()).raw_description.workflow_execution_info
    seconds = ended - rolling.first
    used = {name: (cpu[name] - rolling.cpu[name]) - rest[name] * seconds for name in cpu}
    return {
        "what": "roll",
        "members": members,
        "objects": objects,
        "waited": round(rolling.first - changed, 1),
        "seconds": round(seconds, 1),
        "cpu_ms_per_work": rounded({name: 1000 * one / members for name, one in used.items()}, 2),
        "rest_cores": rounded(rest),
        "most_away": rolling.most_away,
        "budget": -(-members // 4),
        "events": run.history_length,
        "bytes": run.history_size_bytes,
        "writes": dict(rolling.written),
    }


async def at_an_end(found: Scene, id_: str, snapshot: int, members: int) -> None:
    """Until all members have the snapshot, and the run has ended."""
    began = time.monotonic()
    while time.monotonic() - began < WITHIN:
        if (await found.store.get(placement_keys.snapshot("cluster/web", snapshot))).kv is not None:
            described = await found.client.get_workflow_handle(id_).describe()
            if described.status != WorkflowExecutionStatus.RUNNING and await delivered(found.store, snapshot, members):
                return
        await asyncio.sleep(0.3)
    raise TimeoutError(f"snapshot {snapshot} is not delivered within {WITHIN:.0f} s")


async def measure(given: argparse.Namespace, servers: Servers, folder: Path) -> int:
    """Print each measurement that is wanted, on servers of its own."""
    for name, measured in {"rest": at_rest, "roll": rolled}.items():
        if given.only in (None, name):
            async with scene(servers, folder / name) as found:
                print(json.dumps(await measured(found, given), indent=2), flush=True)
    return 0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0] if __doc__ else "")
    parser.add_argument("--only", choices=("rest", "roll"))
    parser.add_argument("--members", type=int, default=1000, help="at rest")
    parser.add_argument("--placements", type=int, default=100, help="at rest")
    parser.add_argument("--agents", type=int, default=1000, help="of the first members at rest; the others say nothing")
    parser.add_argument("--seconds", type=float, default=60.0, help="for which writes are counted at rest")
    parser.add_argument("--rolled", type=int, default=100, help="members of the placement that changes")
    parser.add_argument("--objects", type=int, default=10, help="of the placement that changes")
    parser.add_argument("--part", choices=("hub", "agents"), help=argparse.SUPPRESS)
    for name in ("--etcd", "--temporal", "--socket"):
        parser.add_argument(name, help=argparse.SUPPRESS)
    given = parser.parse_args()
    random.seed(1)
    if given.part == "hub":
        uvloop.run(run_hub(given.etcd, given.temporal, Path(given.socket)))
    elif given.part:
        uvloop.run(run_agents(given.etcd, given.agents, Path(given.socket)))
    else:
        real_cluster.run(functools.partial(measure, given))


if __name__ == "__main__":
    main()
