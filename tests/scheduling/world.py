"""Several workers' activities on one store in memory, each with a cache that its own watch feeds."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.patience import patient
from tests.scheduling.intercepted import intercepted
from wharfinger.activities.scheduling import SchedulingActivities
from wharfinger.etcd import keys
from wharfinger.etcd.rk8s_keys import store_of
from wharfinger.etcd.store import Store
from wharfinger.framework.preferred_nodes import PreferredNodes
from wharfinger.framework.profile import Profile
from wharfinger.framework.profiles import load_profiles
from wharfinger.objects.documents.formats import format_of
from wharfinger.objects.model.formats import ClusterFormat
from wharfinger.objects.model.pod import PodKey
from wharfinger.process.names import pod_workflow_id
from wharfinger.process.parts import ProcessParts
from wharfinger.process.records import InstallationRecord
from wharfinger.process.transactions import STOCK, Limits
from wharfinger.scheduling.contracts.cohort_scheduling import (
    BindManyInput,
    BoundMany,
    CohortPod,
    GangName,
    PlacedMany,
    PlaceManyInput,
    RecordedMany,
    RecordManyInput,
    Turn,
)
from wharfinger.scheduling.contracts.scheduling import (
    BindInput,
    BindOutcome,
    Gone,
    Placed,
    PlaceInput,
    PlaceOutcome,
    RefusalInput,
    RefusalOutcome,
    Refused,
)
from wharfinger.scheduling.state.cache.cache import Cache
from wharfinger.scheduling.state.cache.progress import Progress
from wharfinger.scheduling.state.informer.changes import Changes
from wharfinger.scheduling.state.informer.decoding import observe
from wharfinger.scheduling.state.informer.view import View
from wharfinger.scheduling.state.pool import Identity, Ownership, Pool
from wharfinger.settings import BindSettings
from wharfinger.telemetry import Metrics
from wharfinger.testing import MemoryStore, node_manifest, pod_manifest

CLUSTER = "test"
NOW = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)
QUICK = BindSettings(tries=4, catch_up=0.02, behind=0.02)
PROFILES = load_profiles()


def pod_object(name: str, *, cpu: str = "1", namespace: str = "default", **more: Any) -> dict[str, Any]:
    """A pod with a field that wharfinger does not know; `uid` and `annotations` go to its metadata."""
    annotations = {"team": "red"} | more.get("annotations", {})
    made = pod_manifest(
        name,
        cpu,
        namespace=namespace,
        labels=more.get("labels"),
        metadata={"uid": more.get("uid", f"uid-{name}"), "annotations": annotations},
        status=more.get("status", {}),
        **more.get("spec", {}),
    )
    return made | {"unknown": {"kept": True}}


def node_object(name: str, *, cpu: str = "4", heartbeat: str = "1", **more: Any) -> dict[str, Any]:
    """A node; `heartbeat` changes nothing that scheduling reads."""
    made = node_manifest(name, cpu, pods=int(more.get("pods", 110)), labels=more.get("labels"), **more.get("spec", {}))
    made["status"]["conditions"][0]["lastHeartbeatTime"] = heartbeat
    made["metadata"]["uid"] = f"uid-{name}"[:60]
    return made


class FedProgress(Progress):
    """What the watch has to tell is waited for however long it takes: time-outs are for a watch that stands still."""

    def __init__(self, store: MemoryStore) -> None:
        super().__init__()
        self._store = store
        self.feeding: asyncio.Task[None] | None = None

    async def wait_for(self, revision: int, timeout: float) -> bool:
        while self.revision < revision and self._more_to_come():
            await asyncio.sleep(0)
        return await super().wait_for(revision, timeout)

    def _more_to_come(self) -> bool:
        fed = self.feeding is not None and not self.feeding.done()
        return fed and not self._store._paused and self.revision < self._store.revision


@dataclass
class Hand:
    """One worker: a store client of its own, a cache, its activities."""

    name: str
    store: MemoryStore
    cache: Cache
    activities: SchedulingActivities
    metrics: Metrics
    clock: list[float]
    feeding: asyncio.Task[None]
    standing: list[asyncio.Task[None]] = field(default_factory=list)
    """What lets its watch go on."""

    async def place(self, name: str, **more: Any) -> PlaceOutcome:
        """Place a pod under its own workflow id; a pod of rk8s must have been seen: its uid is its create revision."""
        key = PodKey(more.pop("namespace", "default"), name)
        known = self.cache.pods.get(key)
        uid = more.pop("live_uid", known.uid if known is not None and known.uid[:4] == "rev-" else f"uid-{name}")
        request = {"workflow_id": pod_workflow_id(CLUSTER, *key, uid), "run_id": "run-1"} | more
        return await self.activities.place(PlaceInput(namespace=key.namespace, name=key.name, **request))

    async def placed(self, name: str, **more: Any) -> Placed:
        outcome = await self.place(name, **more)
        assert isinstance(outcome, Placed), outcome
        return outcome

    async def refused(self, name: str, **more: Any) -> Refused:
        outcome = await self.place(name, **more)
        assert isinstance(outcome, Refused), outcome
        return outcome

    async def gone(self, name: str, **more: Any) -> Gone:
        outcome = await self.place(name, **more)
        assert isinstance(outcome, Gone), outcome
        return outcome

    async def bind(self, name: str, placed: Placed, **more: Any) -> BindOutcome:
        """Bind a placement of the pod's own attempt."""
        request = {
            "workflow_id": pod_workflow_id(CLUSTER, "default", name, placed.uid),
            "run_id": "run-1",
        } | more
        return await self.activities.bind(BindInput(namespace="default", name=name, placed=placed, **request))

    async def record(self, name: str, **more: Any) -> RefusalOutcome:
        """Record a refusal of the pod."""
        request = {
            "attempt": 1,
            "message": "0/1 nodes are available: 1 Insufficient cpu.",
            "rejectors": ("NodeResourcesFit",),
            "revision": 5,
            "workflow_id": "workflow",
            "run_id": "run-1",
        } | more
        return await self.activities.record_refusal(RefusalInput(namespace="default", name=name, **request))

    async def place_many(self, *names: str, turn: Turn | None = None, **more: Any) -> PlacedMany:
        """Decide for pods of the namespace default in this order; `more` for all of them."""
        pods = tuple(CohortPod(**{"namespace": "default", "name": name} | more) for name in names)
        request = PlaceManyInput(pods=pods, turn=turn, workflow_id="test/cohort/1", run_id="run-1")
        return await self.activities.place_many(request)

    async def place_gang(self, name: str = "team", **more: Any) -> PlacedMany:
        """Decide for a gang of the namespace default, with any members."""
        request = {"workflow_id": f"test/cohort/default/{name}", "run_id": "run-1"} | more
        gang = GangName(namespace="default", name=name)
        return await self.activities.place_many(PlaceManyInput(gang=gang, **request))

    async def bind_many(self, placed: PlacedMany, **more: Any) -> BoundMany:
        """Commit all seats of the cohort."""
        return await self.activities.bind_many(
            BindManyInput(
                seats=tuple(seat.to_commit() for seat in placed.seats),
                computations=tuple(stretch.computation for stretch in placed.stretches),
                **{"workflow_id": "test/cohort/1", "run_id": "run-1"} | more,
            )
        )

    async def record_many(self, placed: PlacedMany, **more: Any) -> RecordedMany:
        """Record all that were turned away."""
        request = {"workflow_id": "test/cohort/1", "run_id": "run-1", "revision": 5} | more
        return await self.activities.record_many(
            RecordManyInput(turned_away=placed.turned_away, reasons=placed.reasons, **request)
        )

    async def seen(self) -> None:
        """Return once the watch has shown everything that is stored now."""
        assert await self.cache.progress.wait_for(self.store.revision, patient(20))

    def stand_still(self, number: int) -> None:
        """Let its watch show nothing for so many turns of the event loop, while others go on."""
        self.store.pause_watches()
        self.standing.append(asyncio.create_task(self._go_on(number)))

    async def _go_on(self, number: int) -> None:
        await turns(number)
        self.store.resume_watches()

    def conflicts(self, moved: str) -> float:
        return self.metrics.bind_conflicts.labels(moved=moved)._value.get()


@dataclass
class World:
    """The store, and the workers on it."""

    store: MemoryStore = field(default_factory=MemoryStore)
    format: ClusterFormat = ClusterFormat.KUBERNETES
    """Of the cluster that the workers see on it."""
    hands: list[Hand] = field(default_factory=list)

    async def hand(
        self,
        *,
        settings: BindSettings = QUICK,
        profiles: Mapping[str, Profile] = PROFILES,
        tenant: str = "common",
        cluster: str = CLUSTER,
        eviction: str = "graceful",
        preferred_nodes: PreferredNodes | None = None,
        utc_now: Callable[[], datetime] = lambda: NOW,
        limits: Limits = STOCK,
        fleet_revision: str = "",
        durations: Callable[[], float] = lambda: 0.0,
    ) -> Hand:
        """One more worker, synced; `durations`: the clock by which it measures how long things take."""
        clock = [0.0]
        store = self.store.client()
        spelt = store_of(store, self.format)
        cache = Cache(clock=lambda: clock[0], assume_expiry=settings.assume_expiry)
        cache.progress = progress = FedProgress(store)
        metrics = Metrics()
        name = f"hand-{len(self.hands) + 1}"
        activities = SchedulingActivities(
            ProcessParts(spelt, metrics, clock=durations, utc_now=utc_now),
            Pool(cache, profiles, Ownership(frozenset(profiles), tenant), preferred_nodes or PreferredNodes()),
            Identity(cluster, name, fleet_revision),
            settings,
            eviction=eviction,
            limits=limits,
        )
        progress.feeding = asyncio.create_task(feed(spelt, cache, Metrics()))
        hand = Hand(name, store, cache, intercepted(activities), metrics, clock, progress.feeding)
        self.hands.append(hand)
        await hand.seen()
        return hand

    async def one_placed(self, **options: Any) -> tuple[Hand, Placed]:
        """The node `node-1`, the pod `web`, a worker with these options, and its placement of the pod."""
        await self.put_node("node-1")
        await self.put_pod("web")
        hand = await self.hand(**options)
        return hand, await hand.placed("web")

    async def put_pod(self, name: str, **more: Any) -> int:
        obj = pod_object(name, **more)
        return await self.store.put(keys.pod(obj["metadata"]["namespace"], name), json.dumps(obj).encode())

    async def put_node(self, name: str, **more: Any) -> int:
        return await self.store.put(keys.node(name), json.dumps(node_object(name, **more)).encode())

    async def change_pod(self, name: str, change: Any) -> int:
        """Rewrite a pod as another client does."""
        obj = await self.pod(name)
        change(obj)
        return await self.store.put(keys.pod("default", name), json.dumps(obj).encode())

    async def pod(self, name: str) -> Any:
        kv = (await self.store.get(keys.pod("default", name))).kv
        return None if kv is None else json.loads(kv.value)

    async def node_of(self, name: str) -> str:
        return (await self.pod(name))["spec"].get("nodeName", "")

    async def record_of(self, name: str) -> Any:
        kv = (await self.store.get(keys.attempt("default", name))).kv
        return None if kv is None else json.loads(kv.value)

    async def seen(self) -> None:
        for hand in self.hands:
            await hand.seen()

    async def close(self) -> None:
        for hand in self.hands:
            hand.feeding.cancel()
            with suppress(asyncio.CancelledError):
                await hand.feeding
            await hand.activities.close()


@pytest.fixture
async def world() -> AsyncIterator[World]:
    world = World()
    installation = InstallationRecord(cluster="wharfinger", temporal_namespace="default")
    await world.store.put(keys.INSTALLATION, installation.to_bytes())
    yield world
    await world.close()


async def turns(number: int) -> None:
    """So many turns of the event loop: what happens in between depends on the seed, not on the machine."""
    for _ in range(number):
        await asyncio.sleep(0)


async def settled() -> None:
    """Every task has gone as far as it can, or until its catch-up times out."""
    await asyncio.sleep(5 * QUICK.catch_up)
    for _ in range(100):
        await asyncio.sleep(0)


async def feed(store: Store, cache: Cache, metrics: Metrics) -> None:
    """What an informer does, without its worries."""
    view = View(cache, metrics, format_=format_of(store.format))
    async with store.watch(keys.ROOT, 1) as batches:
        async for batch in batches:
            changes = Changes(batch.revision)
            for event in batch.events:
                observed = observe(event, classes=cache.surroundings.priority_classes, format_=view.format)
                if observed is not None:
                    view.take(observed, changes)
            view.reclassify(changes)
            cache.progress.advance(batch.revision)
