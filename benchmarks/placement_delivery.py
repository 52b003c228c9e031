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
import contextlib
import json
import os
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import uvloop
from processes import cpu_seconds, resident_mib
from temporalio.client import Client, WorkflowExecutionStatus

from wharfinger.config.member_files import MemberConnection
from wharfinger.contracts.delivery_records import AppliedRecord, MarkRecord, ResultRecord, SnapshotRecord, WorkRecord
from wharfinger.contracts.names import placement_rollout_id
from wharfinger.contracts.placement_records import MemberRecord, MemberStatusRecord
from wharfinger.contracts.placement_rollouts import TakeSnapshotInput
from wharfinger.contracts.placements import CommitDecisionInput, DecideInput
from wharfinger.dev import binaries
from wharfinger.dev.etcd import EtcdServer
from wharfinger.dev.ports import free_port
from wharfinger.dev.progress import progress_for
from wharfinger.dev.temporal import TemporalServer
from wharfinger.engine.parts import ProcessParts
from wharfinger.engine.placements import snapshots
from wharfinger.engine.placements.committing import commit
from wharfinger.engine.placements.contents_view import ContentsView
from wharfinger.engine.placements.drafting import draft
from wharfinger.engine.placements.hub_view import HubView
from wharfinger.hub import Hub
from wharfinger.member_loops.applying import WorkOnMember
from wharfinger.member_loops.joining import hub_id
from wharfinger.member_loops.member_agent import MemberReporter
from wharfinger.member_loops.member_store import EtcdMember
from wharfinger.member_loops.presence import Presence
from wharfinger.member_loops.works import Works
from wharfinger.model.formats import ClusterFormat
from wharfinger.observe.placements import read_all
from wharfinger.process.garbage import tune_garbage_collection
from wharfinger.process.opening import opened
from wharfinger.process.stopping import stop_on_signals
from wharfinger.process_settings import HubSettings
from wharfinger.registry import keys, placement_keys
from wharfinger.registry.etcd import EtcdStore
from wharfinger.registry.store import Condition, Get, Operation, Put, Read, Store, TxnResult
from wharfinger.serving.options import ServingOptions
from wharfinger.settings import EtcdSettings, LeaseSettings, TemporalSettings
from wharfinger.testing.memory_store import MemoryStore

TIME = "2026-01-01T00:00:00Z"
CLUSTER = "wharfinger"
PUTS_AT_ONCE = 200
"""In one transaction."""
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
ONLINE = [{"type": kind, "status": "True"} for kind in ("Joined", "Healthy")]


# --- objects --------------------------------------------------------------------------------------


def encoded(obj: Any) -> bytes:
    return json.dumps(obj).encode()


def member(name: str) -> tuple[str, bytes]:
    kind = {"apiVersion": "cluster.kubernetes-fleet.io/v1", "kind": "MemberCluster"}
    return placement_keys.member_cluster(name), encoded({**kind, "metadata": {"name": name}, "spec": {}})


def placement(name: str) -> tuple[str, bytes]:
    """Selects the namespace of its name with all that is in it, for all members."""
    selector = {"group": "", "version": "v1", "kind": "Namespace", "name": name}
    obj = {
        "apiVersion": "placement.kubernetes-fleet.io/v1",
        "kind": "ClusterResourcePlacement",
        "metadata": {"name": name, "generation": 1},
        "spec": {"resourceSelectors": [selector], "policy": {"placementType": "PickAll"}},
    }
    return placement_keys.placement(f"cluster/{name}"), encoded(obj)


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


async def put_all(store: Store, puts: Iterable[tuple[str, bytes]]) -> None:
    found = [Put(key, value) for key, value in puts]
    for first in range(0, len(found), PUTS_AT_ONCE):
        await store.txn([], found[first : first + PUTS_AT_ONCE])


# --- what a rollout and the agents would have written ----------------------------------------------


async def fill(store: Store, members: int, placements: int, agents: int) -> None:
    """Members, placements, their decisions, snapshots, works and results, all settled. The first `agents` have none."""
    names = [f"m{number:04}" for number in range(members)]
    await put_all(store, map(member, names))
    identities = {
        kv.key.rpartition("/")[2]: kv.create_revision
        async for page in store.list(placement_keys.MEMBER_CLUSTERS)
        for kv in page.items
    }
    status = {"agentStatus": [{"type": "MemberAgent", "conditions": ONLINE}]}
    records = ((placement_keys.member(name), MemberRecord(identity=one).to_bytes()) for name, one in identities.items())
    await put_all(store, records)
    told = ((name, MemberStatusRecord(identity=one, status=status)) for name, one in identities.items())
    await put_all(store, ((placement_keys.member_status(name), record.to_bytes()) for name, record in told))
    for number in range(placements):
        await put_all(store, contents(f"p{number:03}", AT_REST, 1))
    await put_all(store, (placement(f"p{number:03}") for number in range(placements)))
    view = await read_all(store)
    for reference in sorted(view.placements):
        request = DecideInput(placement=reference, workflow_id="w", run_id="r")
        decided = draft(view, request, clock=time.monotonic(), time=TIME, token=reference)
        wanted = CommitDecisionInput(placement=reference, decided=decided, workflow_id="w", run_id="r")
        await commit(store, wanted, TIME)
    view = await read_all(store)
    stamps = await selected_now(store, view)
    for reference in sorted(view.placements):
        await deliver(store, view, reference, stamps[reference], identities)
    for name in names[:agents]:
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
    puts: list[tuple[str, bytes]] = []
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
        puts += [
            (placement_keys.work(reference, one.name), work.to_bytes()),
            (placement_keys.result(reference, one.name), told.to_bytes()),
        ]
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
        if key.startswith(placement_keys.APPLIED):
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
    hub_is, applied = await hub_id(hub), [kv async for page in hub.list(placement_keys.WORKS) for kv in page.items]
    wanted: dict[str, WorkRecord] = {}
    for kv in applied:
        wanted.setdefault(
            kv.key.removeprefix(placement_keys.WORKS).rpartition("/")[0], WorkRecord.model_validate_json(kv.value)
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
        life, puts = f"{hub_is}/{name}/{identities[name]}", []
        for kv in found:
            value = kv.value
            if kv.key.startswith(placement_keys.APPLIED):
                record = AppliedRecord.model_validate_json(value)
                value = record.model_copy(update={"identity": identities[name]}).to_bytes()
            elif kv.key.startswith(placement_keys.MARKS):
                mark = MarkRecord.model_construct(**json.loads(value) | {"life": life})
                value = mark.to_bytes()
            puts.append(Put(kv.key, value))
        for first in range(0, len(puts), 100):
            await store.txn([], puts[first : first + 100])
        await asyncio.sleep(0)


def prefix_of(key: str) -> str:
    """The part of a key that says what it is."""
    known = next((one for one in (placement_keys.HUB, placement_keys.PLACED) if key.startswith(one)), "")
    head, _, rest = key.removeprefix(known).lstrip("/").partition("/")
    return f"{known}{head}" if known else f"/{head}/{rest.partition('/')[0]}"


# --- the processes ---------------------------------------------------------------------------------


def answer_questions(answers: Callable[[], Mapping[str, Any]]) -> None:
    """Answer each line of the standard input by a line."""
    loop = asyncio.get_running_loop()

    def asked() -> None:
        print(json.dumps(answers()), flush=True)

    def listening() -> None:
        for _ in sys.stdin:
            loop.call_soon_threadsafe(asked)

    threading.Thread(target=listening, daemon=True).start()


async def run_agents(url: str, count: int) -> None:
    """The agents of the first members, as `wharfinger member` runs them; the stores are in memory."""
    stop = stop_on_signals()
    hub = await EtcdStore.connect(EtcdSettings(endpoints=(url,)))
    identities = {
        kv.key.rpartition("/")[2]: kv.create_revision
        async for page in hub.list(placement_keys.MEMBER_CLUSTERS)
        for kv in page.items
    }
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
    answer_questions(
        lambda: {
            "online": sum(one.state == "ok" for one in agents),
            "looked": len(COUNTED.looked),
            "looks": COUNTED.reads // 2,
            "writes": COUNTED.writes,
            "stores_mib": stores_mib,
        }
    )
    shared = asyncio.create_task(works.run()), asyncio.create_task(presence.run())
    tasks = [*shared, *(asyncio.create_task(one.run()) for one in agents)]
    await stop.wait()
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def connecting(store: MemoryStore) -> Callable[[], Any]:
    async def connect() -> Store:
        return store.client()

    return connect


async def run_hub(url: str, temporal: str) -> None:
    """A hub, as `wharfinger hub` runs it."""
    settings = HubSettings(name="hub", etcd=EtcdSettings(endpoints=(url,)), temporal=TemporalSettings(temporal))
    tune_garbage_collection()
    stop = stop_on_signals()
    async with opened(
        settings.etcd, settings.format, settings.temporal, serving=ServingOptions(port=-1), stop=stop
    ) as found:
        assert found is not None
        hub = Hub(settings, found.process, found.temporal)
        answer_questions(
            lambda: {
                "ready": all(one == "ok" for one in hub.checks().values()),
                "unsettled": hub.judge.unsettled + hub.rollouts.unsettled,
            }
        )
        await hub.run(stop)


@dataclass
class Part:
    """One process that answers."""

    process: subprocess.Popen[str]

    @classmethod
    def started(cls, *arguments: str) -> Part:
        """A process of this file."""
        command = [sys.executable, __file__, *arguments]
        return cls(subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True))

    async def ask(self) -> dict[str, Any]:
        """What it says of itself."""
        return dict(await asyncio.to_thread(self._ask))

    def _ask(self) -> dict[str, Any]:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        answered: dict[str, Any] = json.loads(self.process.stdout.readline())
        return answered

    def end(self) -> None:
        """Stop it, and wait."""
        self.process.terminate()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


@dataclass
class Scene:
    """The servers, and what runs beside them."""

    etcd: EtcdServer
    temporal: TemporalServer
    pids: dict[str, int]
    store: EtcdStore
    client: Client
    parts: dict[str, Part] = field(default_factory=dict)

    def start(self, part: str, *arguments: str) -> Part:
        """The hub or the agents."""
        servers = f"--etcd={self.etcd.url}", f"--temporal={self.temporal.address}"
        made = Part.started(f"--part={part}", *servers, *arguments)
        self.parts[part] = made
        self.pids[part] = made.process.pid
        return made

    def cpu(self) -> Counter[str]:
        """Seconds so far by process."""
        return Counter({name: cpu_seconds(pid) for name, pid in self.pids.items()})

    async def cores(self, seconds: float) -> dict[str, float]:
        """Shares of a core for so long."""
        before, began = self.cpu(), time.monotonic()
        await asyncio.sleep(seconds)
        elapsed = time.monotonic() - began
        return {name: (used - before[name]) / elapsed for name, used in self.cpu().items()}


@asynccontextmanager
async def scene(folder: Path) -> AsyncIterator[Scene]:
    progress = progress_for(sys.stderr)
    etcd = EtcdServer(binaries.locate(binaries.ETCD, progress), folder, free_port(), fsync=False)
    temporal = TemporalServer(binaries.locate(binaries.TEMPORAL, progress), free_port())
    async with contextlib.AsyncExitStack() as stack:
        pids = {}
        for name, command in (("etcd", etcd.command()), ("temporal", temporal.command())):
            process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)  # noqa: ASYNC220
            stack.callback(process.wait)
            stack.callback(process.terminate)
            pids[name] = process.pid
        while not etcd.is_up() or not await temporal.is_up():  # noqa: ASYNC110 - nothing tells
            await asyncio.sleep(0.1)
        store = await EtcdStore.connect(EtcdSettings(endpoints=(etcd.url,), max_txn_ops=1024))
        stack.push_async_callback(store.close)
        found = Scene(etcd, temporal, pids, store, await Client.connect(temporal.address))
        try:
            yield found
        finally:
            for part in found.parts.values():
                await asyncio.to_thread(part.end)


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


async def at_rest(members: int, placements: int, agents: int, seconds: float) -> dict[str, Any]:
    pairs, looked = members * placements, agents * placements
    with tempfile.TemporaryDirectory() as folder:
        async with scene(Path(folder)) as found:
            began = time.monotonic()
            await fill(found.store, members, placements, agents)
            result: dict[str, Any] = {
                "what": "rest",
                "members": members,
                "placements": placements,
                "pairs": pairs,
                "agents": agents,
            }
            result["fill_seconds"] = round(time.monotonic() - began, 1)
            part = found.start("agents", f"--agents={agents}")
            said = await until("filled", bool, part)
            began, cpu = time.monotonic(), found.cpu()
            await until("looked at", lambda one: one["looked"] >= looked and one["online"] == agents, part)
            result |= {
                "agents_seconds": round(time.monotonic() - began, 1),
                "agents_cpu_s": rounded(found.cpu() - cpu, 1),
                "agents_mib": round(resident_mib(found.pids["agents"]) - said["stores_mib"]),
                "stores_mib": round(said["stores_mib"]),
            }
            result |= await hub_restart(found)
            async with writes(found.store) as written:
                before = await part.ask()
                result["cores"] = rounded(await found.cores(seconds))
                after = await part.ask()
            result |= {
                "seconds": seconds,
                "writes": dict(written),
                "member_writes": dict(Counter(after["writes"]) - Counter(before["writes"])),
                "looks": after["looks"] - before["looks"],
                "looks_at_rest": round(looked * seconds / LONGEST_LOOK),
                "open_runs": len([one async for one in found.client.list_workflows("ExecutionStatus = 'Running'")]),
                "hub_mib": round(resident_mib(found.pids["hub"])),
            }
    return result


async def hub_restart(found: Scene) -> dict[str, Any]:
    """From the start of the process to the last judgement."""
    began, cpu = time.monotonic(), found.cpu()
    hub = found.start("hub")
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
                    if key.startswith(placement_keys.WORKS):
                        self.counters[name] = WorkRecord.model_validate_json(event.kv.value).counter
                    elif key.startswith(placement_keys.RESULTS):
                        result = ResultRecord.model_validate_json(event.kv.value)
                        self.told[name] = result.counter if result.available else 0
                away = sum(self.told.get(name, 0) < counter for name, counter in self.counters.items())
                self.most_away = max(self.most_away, away)


async def delivered(store: Store, snapshot: int, members: int) -> bool:
    """Whether all members have it."""
    works = [
        WorkRecord.model_validate_json(kv.value) async for page in store.list(placement_keys.WORKS) for kv in page.items
    ]
    results = [
        ResultRecord.model_validate_json(kv.value)
        async for page in store.list(placement_keys.RESULTS)
        for kv in page.items
    ]
    return (
        len(works) == len(results) == members
        and all(work.snapshot == snapshot for work in works)
        and all(one.available and one.counter == work.counter for work, one in zip(works, results, strict=True))
    )


async def rolled(members: int, objects: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        async with scene(Path(folder)) as found:
            await put_all(found.store, (member(f"m{number:04}") for number in range(members)))
            agents = found.start("agents", f"--agents={members}")
            await until("online", lambda one: one["online"] == members, agents)
            await until("ready", lambda one: bool(one["ready"]), found.start("hub"))
            await put_all(found.store, contents("web", objects, 1))
            await put_all(found.store, [placement("web")])
            id_ = placement_rollout_id(CLUSTER, "cluster/web")
            await at_an_end(found, id_, 1, members)
            await asyncio.sleep(REPORTED)
            rest = await found.cores(10.0)
            rolling, changed = Rolling(found.store), time.monotonic()
            following = asyncio.create_task(rolling.follow(placement_keys.snapshot("cluster/web", 2), found.cpu))
            await asyncio.sleep(0.5)
            await put_all(found.store, contents("web", objects, 2))
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
    parser.add_argument("--etcd", help=argparse.SUPPRESS)
    parser.add_argument("--temporal", help=argparse.SUPPRESS)
    options = parser.parse_args()
    random.seed(1)
    if options.part:
        hub = options.part == "hub"
        uvloop.run(run_hub(options.etcd, options.temporal) if hub else run_agents(options.etcd, options.agents))
        return
    agents = min(options.agents, options.members)
    if options.only != "roll":
        print(json.dumps(uvloop.run(at_rest(options.members, options.placements, agents, options.seconds)), indent=2))
    if options.only != "rest":
        print(json.dumps(uvloop.run(rolled(options.rolled, options.objects)), indent=2))


if __name__ == "__main__":
    main()
