"""A scenario on a real etcd, decided by the activities of one compatible worker, whose cache an informer feeds."""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import time
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

from tests.conformance.scenarios import KINDS, as_object, changed_object, configuration, key_of
from tests.patience import patient
from wharfinger.activities.scheduling import SchedulingActivities
from wharfinger.etcd import keys
from wharfinger.etcd.etcd import EtcdStore
from wharfinger.etcd.store import Delete, Operation, Put
from wharfinger.framework.profiles import load_profiles
from wharfinger.process.names import pod_workflow_id
from wharfinger.process.parts import ProcessParts
from wharfinger.scheduling.contracts.attempts import AttemptInput
from wharfinger.scheduling.contracts.cohort_scheduling import BindManyInput, CohortPod, PlacedMany, PlaceManyInput
from wharfinger.scheduling.contracts.group_payloads import evict_input, numbered, placed_group, refusal_input
from wharfinger.scheduling.contracts.scheduling import BindInput, Bound, Placed, PlaceInput, Recorded, Refused
from wharfinger.scheduling.state.cache.cache import Cache
from wharfinger.scheduling.state.informer.informer import Informer
from wharfinger.scheduling.state.informer.view import View
from wharfinger.scheduling.state.pool import Identity, Ownership, Pool
from wharfinger.settings import COMPATIBLE
from wharfinger.telemetry import Metrics

CLUSTER = "conformance"
AT_ONCE = 100
"""Operations in one transaction; etcd takes 128."""
FIRST_START = datetime(2026, 1, 1, tzinfo=UTC)
"""Of the first pod that is bound; each later one starts a minute later, as in the recording."""

Key = tuple[str, str]


class Live:
    """Objects in etcd, and decisions for pods."""

    def __init__(self, store: EtcdStore, activities: SchedulingActivities, cache: Cache, *, starts: bool) -> None:
        """`starts`: whether pods that are bound get a time of start. Only preemption reads it."""
        self._store = store
        self._activities = activities
        self._cache = cache
        self._revision = 0
        self._nodes: dict[Key, str] = {}
        """Of the pods that are bound."""
        self._starts = starts
        self._started = 0
        self._uids: dict[Key, str] = {}

    # --- objects ------------------------------------------------------------------------------

    async def put(self, objects: Iterable[Mapping[str, Any]]) -> None:
        """Write objects, so that every later decision sees them."""
        await self._write([Put(stored_key(one), json.dumps(one).encode()) for one in objects])

    async def put_pods(self, *pods: Mapping[str, Any]) -> None:
        """Write pods for the default scheduler."""
        named = {"schedulerName": "default-scheduler"}
        written = [as_object("Pod", {**pod, "spec": {**named, **pod["spec"]}}) for pod in pods]
        self._uids |= {key_of(one): one["metadata"].get("uid", "") for one in written}
        self._nodes |= {key_of(one): one["spec"]["nodeName"] for one in written if "nodeName" in one["spec"]}
        await self.put(written)

    async def change(self, changes: Iterable[Mapping[str, Any]]) -> None:
        """What happened to the cluster, one change after the other."""
        for change in changes:
            obj = changed_object(change)
            if change["op"] == "delete":
                await self.delete(obj["kind"], key_of(obj))
            elif obj["kind"] == "Pod":
                await self.put_pods(obj)
            else:
                await self.put([obj])

    async def delete(self, kind: str, key: Key) -> None:
        """Delete an object, and a pod's attempt record with it."""
        namespace, name = key
        if kind == "Pod":
            self._nodes.pop(key, None)
            await self._write([Delete(keys.pod(namespace, name)), Delete(keys.attempt(namespace, name))])
        else:
            await self._write([Delete(keys.stored(f"{kind.lower()}s", "", name))])

    async def pod(self, key: Key) -> dict[str, Any] | None:
        """A pod as etcd has it."""
        found = (await self._store.get(keys.pod(*key))).kv
        return None if found is None else json.loads(found.value)

    async def _write(self, operations: Sequence[Operation]) -> None:
        for at in range(0, len(operations), AT_ONCE):
            self._revision = (await self._store.txn((), operations[at : at + AT_ONCE])).revision
        await self._seen()

    async def _seen(self) -> None:
        assert await self._cache.progress.wait_for(self._revision, patient(20))

    async def _bound(self, nodes: Mapping[Key, str], revision: int) -> None:
        """The pods are bound to these nodes at this revision. They start there, as a kubelet says it."""
        self._nodes |= nodes
        self._revision = max(self._revision, revision)
        operations: list[Operation] = []
        for key in nodes if self._starts else ():
            pod = await self.pod(key)
            assert pod is not None
            started = FIRST_START + timedelta(minutes=self._started)
            self._started += 1
            pod.setdefault("status", {}).setdefault("startTime", started.isoformat().replace("+00:00", "Z"))
            operations.append(Put(keys.pod(*key), json.dumps(pod).encode()))
        await self._write(operations)

    async def check_bound(self) -> None:
        """In etcd, the pods that were bound are on their nodes, and no others are on any."""
        pods = [json.loads(kv.value) async for page in self._store.list(keys.PODS) for kv in page.items]
        assert {key_of(pod): pod["spec"]["nodeName"] for pod in pods if pod["spec"].get("nodeName")} == self._nodes

    # --- one pod ------------------------------------------------------------------------------

    async def place(self, key: Key) -> Placed | Refused:
        """Decide for a pod by the activity of its own attempt."""
        outcome = await self._activities.place(
            PlaceInput(namespace=key[0], name=key[1], revision=self._revision, **self._attempt(key))
        )
        assert isinstance(outcome, Placed | Refused), outcome
        return outcome

    async def bind(self, key: Key, placed: Placed, node: str) -> None:
        """Commit the recorded placement, which the activity verifies, and have the pod started."""
        recorded = placed.model_copy(update={"node": node, "ranking": ()})
        outcome = await self._activities.bind(
            BindInput(namespace=key[0], name=key[1], placed=recorded.to_commit(), **self._attempt(key))
        )
        assert isinstance(outcome, Bound), outcome
        assert outcome.node == node
        await self._bound({key: node}, outcome.revision)

    async def preempt(self, key: Key, refused: Refused) -> None:
        """Record the nomination and evict the victims, by the activities of the attempt."""
        pod = AttemptInput(namespace=key[0], name=key[1], uid=self._uids[key])
        placed = placed_group(pod, refused)
        (one,) = numbered(placed.turned_away, 1)
        recorded = await self._activities.record_refusal(
            refusal_input(placed, "Unschedulable", one, **self._attempt(key))
        )
        assert isinstance(recorded, Recorded), recorded
        outcome = await self._activities.evict(evict_input(one, recorded.revision, **self._attempt(key)))
        self._revision = max(recorded.revision, outcome.revision)
        for victim in refused.victims:
            namespace, _, name = victim.pod.partition("/")
            del self._nodes[namespace, name]
        await self._seen()

    def _attempt(self, key: Key) -> dict[str, str]:
        return {"workflow_id": pod_workflow_id(CLUSTER, *key, self._uids[key]), "run_id": "run"}

    # --- many pods ----------------------------------------------------------------------------

    async def place_many(self, pods: Sequence[Key]) -> PlacedMany:
        """Decide for the pods of a cohort."""
        members = tuple(CohortPod(namespace=key[0], name=key[1], revision=self._revision) for key in pods)
        return await self._activities.place_many(
            PlaceManyInput(pods=members, workflow_id=f"{CLUSTER}/cohort/c", run_id="run")
        )

    async def bind_many(self, placed: PlacedMany, nodes: Mapping[Key, str]) -> None:
        """Commit the recorded placements of a cohort."""
        seats = tuple(
            seat.model_copy(update={"node": nodes[seat.namespace, seat.name], "others": {}}).to_commit()
            for seat in placed.seats
        )
        outcome = await self._activities.bind_many(
            BindManyInput(
                seats=seats,
                computations=tuple(stretch.computation for stretch in placed.stretches),
                workflow_id=f"{CLUSTER}/cohort/c",
                run_id="run",
            )
        )
        assert not outcome.unbound, outcome.unbound
        assert {(one.namespace, one.name): one.node for one in outcome.bound} == nodes
        await self._bound(nodes, max((one.revision for one in outcome.bound), default=0))


@asynccontextmanager
async def live(store: EtcdStore, scenario: Mapping[str, Any]) -> AsyncIterator[Live]:
    """An etcd with the scenario's objects but its pods, and nothing else; a worker's parts that have seen them."""
    await clear(store)
    profiles = load_profiles(configuration(scenario.get("profile", {})))
    cache, metrics = Cache(clock=time.monotonic), Metrics()
    informer = Informer(store, View(cache, metrics), [], metrics, rng=random.Random(1))
    activities = SchedulingActivities(
        ProcessParts(store, metrics),
        Pool(cache, profiles, Ownership(frozenset(profiles))),
        Identity(CLUSTER, "conformance"),
        COMPATIBLE,
        eviction="immediate",
    )
    following = asyncio.create_task(informer.run())
    try:
        await informer.synced.wait()
        scene = Live(store, activities, cache, starts=_start(scenario))
        await scene.put(
            as_object(kind, fields, version) for plural, kind, version in KINDS for fields in scenario.get(plural, ())
        )
        await scene.put_pods(*scenario.get("bound", ()))
        yield scene
        await scene.check_bound()
    finally:
        following.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await following
        await activities.close()


def _start(scenario: Mapping[str, Any]) -> bool:
    """Where pods preempt, and in a few others: an update right after its bind must not count a pod twice."""
    expected = scenario.get("expect", ())
    return any("nominated" in one for one in expected) or len(expected) % 10 == 0


async def clear(store: EtcdStore) -> None:
    """Delete everything."""
    found = [Delete(kv.key) async for page in store.list(keys.ROOT) for kv in page.items]
    for at in range(0, len(found), AT_ONCE):
        await store.txn((), found[at : at + AT_ONCE])


def stored_key(obj: Mapping[str, Any]) -> str:
    """Where an object lies in etcd."""
    kind, (namespace, name) = obj["kind"], key_of(dict(obj))
    if kind in ("Node", "Namespace"):
        namespace = ""
    return keys.stored(f"{kind.lower()}s", namespace, name)
