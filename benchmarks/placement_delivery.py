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
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import real_cluster
import settled_hub
from etcd_side import put_all
from kubernetes_sides import start_etcd, start_temporal
from placement_processes import encoded, prefix_of
from processes import Child, Children, resident_mib, until
from streams import beside
from temporalio.client import Client, WorkflowExecutionStatus

from wharfinger.dev.etcd import MAX_TXN_OPS, EtcdServer
from wharfinger.dev.settings import Servers
from wharfinger.dev.temporal import TemporalServer
from wharfinger.etcd import keys
from wharfinger.etcd.etcd import EtcdStore
from wharfinger.etcd.store import KeyValue, Store
from wharfinger.placement.contracts import placement_keys
from wharfinger.placement.contracts.delivery_records import (
    ResultRecord,
    WorkRecord,
)
from wharfinger.process.names import placement_rollout_id
from wharfinger.settings import EtcdSettings

CLUSTER = "wharfinger"
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


async def fill(store: Store, members: int, placements: int, agents: int) -> None:
    """Members, placements, their decisions, snapshots, works and results, all settled. The first `agents` have none."""
    names = [f"p{number:03}" for number in range(placements)]
    for name in names:
        await put_all(store, dict(contents(name, AT_REST, 1)))
    identities = await settled_hub.settle(store, dict(map(member, range(members))), dict(map(placement, names)))
    await settled_hub.deliver_all(store, identities)
    for name in sorted(identities)[:agents]:
        await store.delete(placement_keys.member(name))  # its agent's to write


# --- the processes ---------------------------------------------------------------------------------


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

    async def until(self, what: str, done: Callable[[dict[str, Any]], bool]) -> None:
        """Wait until it says that this is so."""

        async def holds() -> bool:
            return done(await self.ask())

        await until(what, holds, WITHIN)

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
        command = [sys.executable, str(Path(__file__).with_name("placement_processes.py")), part, *servers, *arguments]
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
async def writes(store: Store, seen: Callable[[KeyValue], None] = lambda _: None) -> AsyncIterator[Counter[str]]:
    """Counts what is written meanwhile, by prefix, and shows it to `seen`."""
    found: Counter[str] = Counter()

    async def follow() -> None:
        async with store.watch("/", 0) as batches:
            async for batch in batches:
                found.update(prefix_of(event.kv.key) for event in batch.events)
                for event in batch.events:
                    seen(event.kv)

    async with beside(follow()):
        yield found


def rounded(values: Mapping[str, float], digits: int = 3) -> dict[str, float]:
    return {name: round(value, digits) for name, value in sorted(values.items())}


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
    said = await part.ask()
    began, cpu = time.monotonic(), found.cpu()
    await part.until("all are looked at", lambda one: one["looked"] >= looked and one["online"] == agents)
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

    snapshot: str
    """The key of the new one."""
    used: Callable[[], Counter[str]]
    """CPU seconds so far."""
    counters: dict[str, int] = field(default_factory=dict)
    """Member -> counter of its work."""
    told: dict[str, int] = field(default_factory=dict)
    """Member -> counter that its result tells of as available."""
    most_away: int = 0
    first: float = 0.0
    """When the new snapshot was written."""
    cpu: Counter[str] = field(default_factory=Counter)

    def see(self, kv: KeyValue) -> None:
        """Take in what was written."""
        if kv.key == self.snapshot:
            self.first, self.cpu = time.monotonic(), self.used()
        name = kv.key.rpartition("/")[2]
        if kv.key.startswith(placement_keys.work.prefix):
            self.counters[name] = WorkRecord.model_validate_json(kv.value).counter
        elif kv.key.startswith(placement_keys.result.prefix):
            result = ResultRecord.model_validate_json(kv.value)
            self.told[name] = result.counter if result.available else 0
        away = sum(self.told.get(name, 0) < counter for name, counter in self.counters.items())
        self.most_away = max(self.most_away, away)


async def delivered(store: Store, snapshot: int, members: int) -> bool:
    """Whether all members have it."""
    works = [WorkRecord.model_validate_json(kv.value) async for kv in store.each(placement_keys.work.prefix)]
    results = [ResultRecord.model_validate_json(kv.value) async for kv in store.each(placement_keys.result.prefix)]
    return (
        len(works) == len(results) == members
        and all(work.snapshot == snapshot for work in works)
        and all(one.available and one.counter == work.counter for work, one in zip(works, results, strict=True))
    )


async def rolled(found: Scene, given: argparse.Namespace) -> dict[str, Any]:
    members, objects = given.rolled, given.objects
    await put_all(found.store, dict(map(member, range(members))))
    agents = await found.start("agents", f"--agents={members}")
    await agents.until("agents are online", lambda one: one["online"] == members)
    await (await found.start("hub")).until("the hub is ready", lambda one: bool(one["ready"]))
    await put_all(found.store, dict([*contents("web", objects, 1), placement("web")]))
    id_ = placement_rollout_id(CLUSTER, "cluster/web")
    await at_an_end(found, id_, 1, members)
    await asyncio.sleep(REPORTED)
    rest = await found.cores(10.0)
    rolling, changed = Rolling(placement_keys.snapshot("cluster/web", 2), found.cpu), time.monotonic()
    async with writes(found.store, rolling.see) as written:
        await asyncio.sleep(0.5)
        await put_all(found.store, dict(contents("web", objects, 2)))
        await at_an_end(found, id_, 2, members)
        ended, cpu = time.monotonic(), found.cpu()
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
        "writes": dict(written),
    }


async def at_an_end(found: Scene, id_: str, snapshot: int, members: int) -> None:
    """Until all members have the snapshot, and the run has ended."""

    async def ended() -> bool:
        if (await found.store.get(placement_keys.snapshot("cluster/web", snapshot))).kv is None:
            return False
        run = await found.client.get_workflow_handle(id_).describe()
        return run.status != WorkflowExecutionStatus.RUNNING and await delivered(found.store, snapshot, members)

    await until(f"snapshot {snapshot} is delivered", ended, WITHIN, 0.3)


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
    real_cluster.run(functools.partial(measure, parser.parse_args()))


if __name__ == "__main__":
    main()
