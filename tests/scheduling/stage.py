"""All loops of a worker on a store in memory, with a Temporal that only writes down what it is asked."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

from temporalio.service import RPCError, RPCStatusCode

from tests.clock import Clock
from tests.patience import patient
from wharfinger.etcd import keys
from wharfinger.etcd.store import Delete, Operation, Put
from wharfinger.framework.profile import Profile
from wharfinger.framework.profiles import load_profiles
from wharfinger.objects.model.gang import GangKey
from wharfinger.objects.model.pod import Pod, PodKey
from wharfinger.process.connecting import data_converter
from wharfinger.process.names import cohort_workflow_id, pod_workflow_id
from wharfinger.process.parts import ProcessParts
from wharfinger.process.records import AttemptRecord, InstanceRecord
from wharfinger.programs.grants import OwnGrant
from wharfinger.programs.loops import Loops
from wharfinger.scheduling.contracts.attempts import AttemptTimings, Wake, backoff, chain_retry
from wharfinger.scheduling.contracts.cohort_scheduling import CohortPod, Turn
from wharfinger.scheduling.loops.run_ends import RunEnds
from wharfinger.scheduling.loops.signals import TemporalSide
from wharfinger.scheduling.state.cache.cache import Cache
from wharfinger.scheduling.state.pool import Ownership, Pool
from wharfinger.scheduling.state.queue.entry import Entry, Part
from wharfinger.settings import DispatchSettings, LeaseSettings, WorkerSettings
from wharfinger.telemetry import Metrics
from wharfinger.testing import node_manifest, pod_manifest
from wharfinger.testing.memory_store import MemoryStore

PROFILES = load_profiles()
GANG_LABELS = ("pod-group.scheduling.sigs.k8s.io/name", "pod-group.scheduling.sigs.k8s.io/min-available")


class Cohort(NamedTuple):
    """A cohort, as it was asked for."""

    name: str
    pods: tuple[CohortPod, ...]
    cause: str
    turn: Turn

    @property
    def names(self) -> list[str]:
        return [one.name for one in self.pods]


class RecordedAttempts:
    """Starts and signals, as they were asked for."""

    def __init__(self) -> None:
        self.started: list[tuple[str, str, bool]] = []
        """Pod's name, cause, whether the task queue was to be checked."""
        self.counted_from: dict[str, int] = {}
        """From which attempt the chain of a pod of this name counts on, as started last."""
        self.woken: list[tuple[str, Wake]] = []
        """Pod's name and the signal."""
        self.closed: set[str] = set()
        """Names of pods without an open chain."""
        self.error: Exception = RPCError("no answer", RPCStatusCode.UNAVAILABLE, b"")
        """What those below fail with."""
        self.failing: set[str] = set()
        """Names of pods whose start and signal fail."""
        self.tries = 0
        self.cohorts: list[Cohort] = []
        self.gangs: list[tuple[str, str, Wake | None]] = []
        """Gang's name, cause, the wake that went with the start."""
        self.accepted: set[str] = set()
        """Names of cohorts that Temporal knows already."""
        self.losing = 0
        """How many answers to starts of cohorts are lost."""
        self.watched: list[str] = []
        """Workflow ids whose ends are waited for."""
        self.ends: dict[str, asyncio.Future[BaseException | None]] = {}
        """How runs end of which the process sees nothing."""
        self.meanwhile: Callable[[], None] = lambda: None
        """Happens while a pod's start is answered."""

    def workflow_id(self, pod: Pod) -> str:
        return pod_workflow_id("wharfinger", pod.namespace, pod.name, pod.uid)

    async def start(self, pod: Pod, *, cause: str, check_queue: bool, attempts_before: int = 0) -> None:
        self.tries += 1
        self.counted_from[pod.name] = attempts_before
        self.meanwhile()
        self._fail(pod.name)
        self.started.append((pod.name, cause, check_queue))

    async def start_cohort(self, name: str, pods: Sequence[CohortPod], *, cause: str, turn: Turn) -> None:
        self.tries += 1
        for one in pods:
            self._fail(one.name)
        await data_converter.encode([pods])  # as a real client does
        self.cohorts.append(Cohort(name, tuple(pods), cause, turn))
        if name in self.accepted:
            raise RPCError("it runs", RPCStatusCode.ALREADY_EXISTS, b"")
        self.accepted.add(name)
        if self.losing:
            self.losing -= 1
            raise self.error

    async def start_gang(
        self,
        gang: GangKey,
        members: Sequence[PodKey],
        *,
        revision: int,
        cause: str,
        check_queue: bool,
        wake: Wake | None = None,
    ) -> None:
        assert members == sorted(members)
        assert all(key.namespace == gang.namespace for key in members)
        self.tries += 1
        self._fail(gang.name)
        await data_converter.encode([gang.name, wake])  # as a real client does
        self.gangs.append((gang.name, cause, wake))

    async def failure_of(self, workflow_id: str) -> BaseException | None:
        self.watched.append(workflow_id)
        return await self.ends.setdefault(workflow_id, asyncio.Future())

    def cohort_workflow_id(self, name: str) -> str:
        return cohort_workflow_id("wharfinger", name)

    def seconds_after(self, attempt: int) -> float:
        return backoff(chain_retry(AttemptTimings()), attempt)

    async def wake(self, workflow_id: str, wake: Wake) -> bool:
        await data_converter.encode([wake])  # as a real client does
        name = workflow_id.split("/")[3]
        self._fail(name)
        if name in self.closed:
            return False
        self.woken.append((name, wake))
        return True

    def _fail(self, name: str) -> None:
        if name in self.failing or "*" in self.failing:
            raise self.error

    @property
    def names(self) -> list[str]:
        return [name for name, _, _ in self.started]

    @property
    def woken_names(self) -> list[str]:
        return [name for name, _ in self.woken]


class RecordedNodes:
    """Workflows of nodes that were asked for."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str, str]] = []
        """`start` or `signal`, the node, the signal."""
        self.away = False
        """Whether Temporal does not answer."""
        self.refused: set[str] = set()
        """Nodes whose workflow it does not take."""

    async def start(self, node: str, *, signal: str, serves: Callable[[str], bool]) -> None:
        self._note("start", node, signal)

    async def signal(self, node: str, signal: str) -> None:
        self._note("signal", node, signal)

    def _note(self, what: str, node: str, signal: str) -> None:
        if self.away:
            raise RPCError("no answer", RPCStatusCode.UNAVAILABLE, b"")
        if node in self.refused:
            raise RPCError("too long", RPCStatusCode.INVALID_ARGUMENT, b"")
        self.asked.append((what, node, signal))


class RecordedPolling:
    """Whether it would poll."""

    def __init__(self) -> None:
        self.running = False

    def on_failure(self, failed: Callable[[], None]) -> None:
        self.failed = failed

    async def start(self) -> None:
        self.running = True

    async def stop(self) -> None:
        self.running = False


class Stage:
    """One worker's loops, and a hand on the store that other clients would have."""

    def __init__(
        self,
        store: MemoryStore | None = None,
        *,
        clock: Clock | None = None,
        profiles: Mapping[str, Profile] = PROFILES,
        **settings: Any,
    ) -> None:
        self.store = store if store is not None else MemoryStore()
        self.clock = clock if clock is not None else Clock()
        self.attempts = RecordedAttempts()
        self.polling = RecordedPolling()
        self.nodes = RecordedNodes()
        self.run_ends = RunEnds()
        self.metrics = Metrics()
        self.cache = Cache(clock=self.clock)
        settings.setdefault("dispatching", DispatchSettings(hold=0.0))
        settings.setdefault("lease", LeaseSettings(loop_stall=1e9))
        self.settings = WorkerSettings(**settings)
        self.reachable = True
        self.own = own = self.store.client()
        """The worker's own client, whose connection may fail."""
        granted = self.settings.grant
        self.grant = OwnGrant(own, self.settings.tenant, granted) if granted is not None else None
        self.pool = Pool(
            self.cache, profiles, Ownership(frozenset(profiles), self.settings.tenant, self.settings.tenant_label)
        )
        self.loops = Loops(
            self.settings,
            ProcessParts(own, self.metrics, clock=self.clock, rng=random.Random(1), pause=shortly),
            self.pool,
            TemporalSide(self.attempts, self.nodes, self.polling, self._probe, self.run_ends),
            grant=self.grant,
        )
        self.loops.scheduling.node_evictions._every = 1e9  # it looks when a test says so
        self.queue = self.loops.scheduling.queue
        self._deciding = False
        self._round = self.loops.scheduling.waker.round
        self.loops.scheduling.waker.round = self._noted_round  # type: ignore[method-assign]
        self._stop = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def _noted_round(self) -> None:
        self._deciding = True
        try:
            await self._round()
        finally:
            self._deciding = False

    @property
    def gone(self) -> bool:
        """Whether its grant is, and it knows."""
        return self.grant is not None and self.grant.gone.is_set()

    def begin(self) -> asyncio.Task[None]:
        """Start the loops, without waiting for anything."""
        self._task = asyncio.create_task(self.loops.run(self._stop))
        return self._task

    async def __aenter__(self) -> Stage:
        self.begin()
        await self.until(lambda: self.loops.scheduling.shards.me is not None or self.settings.dispatch != "sharded")
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.drain()

    @asynccontextmanager
    async def in_place_of_another(self) -> AsyncIterator[None]:
        """It starts beside a ready worker, which leaves at once: all pods are gained."""
        other = await self.store.grant_lease(10.0)
        record = InstanceRecord(state="ready", host="h", pid=1)
        await self.store.txn([], [Put(keys.instance("common", "other", 1), record.to_bytes(), lease=other.id)])
        async with self:
            await other.revoke()
            await self.until(lambda: len(self.loops.scheduling.shards.members) == 1)
            yield

    async def drain(self) -> None:
        self._stop.set()
        assert self._task is not None
        await self._task

    async def _probe(self) -> None:
        if not self.reachable:
            raise RPCError("no answer", RPCStatusCode.UNAVAILABLE, b"")

    # --- what other clients do --------------------------------------------------------------------

    async def put_node(self, name: str, *, cpu: str = "4", pods: str = "110", **spec: Any) -> int:
        return await self.store.put(keys.node(name), node_bytes(name, cpu=cpu, pods=pods, **spec))

    async def put_pod(self, name: str, **fields: Any) -> int:
        return await self.store.put(keys.pod("default", name), pod_bytes(name, **fields))

    async def bind(self, name: str, node: str, **fields: Any) -> int:
        """As `bind` does it: pod, binding version and record in one transaction."""
        operations: list[Operation] = [
            Put(keys.pod("default", name), pod_bytes(name, node=node, **fields)),
            Put(keys.binding(node), b"{}"),
            Delete(keys.attempt("default", name)),
        ]
        return (await self.store.txn([], operations)).revision

    async def refuse(
        self, name: str, *, plugins: tuple[str, ...] = ("NodeResourcesFit",), snapshot: int | None = None, **fields: Any
    ) -> int:
        """As `record_refusal` does it; `snapshot`: the refusing snapshot's revision, None = now."""
        found = await self.store.get(keys.pod("default", name))
        assert found.kv is not None
        record = AttemptRecord(
            plugins=plugins,
            revision=found.revision if snapshot is None else snapshot,
            create_revision=found.kv.create_revision,
            **{
                "attempt": 1,
                "workflow_id": f"wharfinger/pod/default/{name}/rev-{found.kv.create_revision}",
                **fields,
            },
        )
        return await self.store.put(keys.attempt("default", name), record.to_bytes())

    async def waiting(self, name: str, **refusal: Any) -> None:
        """A pod that was refused and waits."""
        pod = {key: refusal.pop(key) for key in ("cpu", "priority", "labels", "gang") if key in refusal}
        await self.put_pod(name, **pod)
        await self.refuse(name, **refusal)
        await self.until(lambda: self.part(name) is Part.WAITING)

    # --- what became of it ------------------------------------------------------------------------

    def entry(self, name: str) -> Entry | None:
        return self.queue.get(PodKey("default", name))

    def part(self, name: str) -> Part | None:
        entry = self.entry(name)
        return entry.part if entry is not None else None

    async def until(self, holds: Callable[[], Any], seconds: float = 20.0) -> None:
        """Wait until it holds; fails when it does not in time."""
        async with asyncio.timeout(patient(seconds)):
            while not holds():
                await asyncio.sleep(0.002)

    async def caught_up(self) -> None:
        """Everything written so far was taken in, and no decision is left to make."""
        await self.caught_up_without_signals()
        await self.loops.scheduling.signals.settle()
        await turns()

    async def caught_up_without_signals(self) -> None:
        """The same, with signals perhaps still on their way."""
        await self.applied()
        await asyncio.sleep(0.05)
        # The waker gathers for 0.02 s before it decides; however long that took, it has decided.
        await self.until(lambda: not self._deciding and not self.loops.scheduling.waker._kicked.is_set())
        await turns()

    async def applied(self) -> None:
        """The cache has applied everything written so far; the waker may still gather."""
        revision = (await self.store.get(keys.INSTALLATION)).revision
        await self.until(lambda: self.cache.progress.revision >= revision)
        await turns()

    def later(self, seconds: float) -> None:
        """Time passes, and the loops look at it."""
        self.clock.advance(seconds)
        self.loops.scheduling.dispatcher.kick()


async def shortly(seconds: float) -> None:
    """Wait a hundredth of that."""
    await asyncio.sleep(seconds / 100)


async def turns() -> None:
    """Let every task go as far as it can without a timer."""
    for _ in range(100):
        await asyncio.sleep(0)


def node_bytes(
    name: str, *, cpu: str = "4", pods: str = "110", labels: dict[str, str] | None = None, **spec: Any
) -> bytes:
    return json.dumps(node_manifest(name, cpu, pods=int(pods), labels=labels, **spec)).encode()


def pod_bytes(
    name: str,
    *,
    cpu: str = "1",
    node: str = "",
    priority: int = 0,
    labels: dict[str, str] | None = None,
    gates: tuple[str, ...] = (),
    phase: str = "",
    deleted: str = "",
    scheduler: str = "",
    gang: tuple[str, int] | None = None,
) -> bytes:
    if gang is not None:
        name_label, least_label = GANG_LABELS
        labels = {name_label: gang[0], least_label: str(gang[1]), **(labels or {})}
    metadata = {"uid": ""} | ({"deletionTimestamp": deleted} if deleted else {})  # its create revision is its identity
    spec: dict[str, Any] = {"priority": priority}
    if node:
        spec["nodeName"] = node
    if scheduler:
        spec["schedulerName"] = scheduler
    if gates:
        spec["schedulingGates"] = [{"name": gate} for gate in gates]
    status = {"phase": phase or "Pending"}
    return json.dumps(pod_manifest(name, cpu, labels=labels, metadata=metadata, status=status, **spec)).encode()
