"""Workers whose pods are those of a Kubernetes API in memory: copied when the test says so, bound by promises."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.clock import Clock
from tests.scheduling.intercepted import intercepted
from tests.scheduling.world import (
    CLUSTER,
    NOW,
    PROFILES,
    QUICK,
    FedProgress,
    Hand,
    World,
    feed,
    node_object,
    pod_object,
)
from wharfinger.activities.scheduling import SchedulingActivities
from wharfinger.apiserver.client import NODES, PODS
from wharfinger.apiserver.event_lane import EventLane, EventPolicy
from wharfinger.etcd import keys
from wharfinger.framework.extenders.calls import ExtenderCalls
from wharfinger.framework.preferred_nodes import PreferredNodes
from wharfinger.framework.profile import Profile
from wharfinger.kubernetes.effects.adopting import Adopter, present
from wharfinger.kubernetes.effects.evicting import KubernetesEvictions
from wharfinger.kubernetes.effects.extender_binding import ExtenderBinders
from wharfinger.kubernetes.effects.promising import Promises
from wharfinger.kubernetes.effects.states import ObjectState
from wharfinger.kubernetes.effects.telling import Teller
from wharfinger.objects.model.pod import PodKey
from wharfinger.process.parts import ProcessParts
from wharfinger.process.transactions import STOCK
from wharfinger.scheduling.contracts import promise_records
from wharfinger.scheduling.contracts.cohort_scheduling import BoundMany, CohortPod, PlacedMany
from wharfinger.scheduling.effects.binding.right_to_bind import RightToBind
from wharfinger.scheduling.effects.binding.writers import ApiWriters
from wharfinger.scheduling.model.promises import Importer, KubernetesSide, MayBind, Promise
from wharfinger.scheduling.reading.promised_pods import promise_of
from wharfinger.scheduling.state.cache.cache import Cache
from wharfinger.scheduling.state.pool import Identity, Ownership, Pool
from wharfinger.telemetry import Metrics
from wharfinger.testing.memory_upstream import MemoryUpstream


@dataclass
class UpstreamWorld(World):
    """The API beside the store, and the workers on both."""

    api: MemoryUpstream = field(default_factory=MemoryUpstream)
    clients: list[MemoryUpstream] = field(default_factory=list)
    """Of the API, one a worker."""
    epoch: int = 0

    async def begin(self) -> None:
        """There is an importer, and the right to bind."""
        self.epoch = await self.store.put(keys.IMPORTER, promise_records.stored(Importer("here")))
        await self.store.put(keys.ACTIVE, promise_records.stored(MayBind("here")))

    async def imports(self) -> None:
        """Copy what the API has now, as the importer does."""
        adopter = Adopter(self.store, utc_now=lambda: NOW)
        for resource, prefix in ((NODES, keys.NODES), (PODS, keys.PODS)):
            there = {one["metadata"]["name"]: one for one in self.api.objects(resource)}
            for obj in there.values():
                await adopter.adopt(present(resource.plural, obj), epoch=self.epoch)
            async for page in self.store.list(prefix):
                for kv in page.items:
                    namespace, _, name = kv.key.removeprefix(prefix).rpartition("/")
                    if name not in there:
                        gone = ObjectState(resource.plural, namespace, name, self.api.revision)
                        await adopter.adopt(gone, epoch=self.epoch)
        await self.seen()

    async def upstream_hand(
        self,
        *,
        profiles: Mapping[str, Profile] = PROFILES,
        calls: ExtenderCalls | None = None,
        eviction: str = "graceful",
    ) -> Hand:
        """One more worker, synced. `calls`: to the extenders of its profiles."""
        store, api = self.store.client(), self.api.client()
        cache = Cache(clock=lambda: 0.0, assume_expiry=QUICK.assume_expiry)
        cache.kubernetes = KubernetesSide()
        cache.progress = progress = FedProgress(store)
        adopter = Adopter(store, utc_now=lambda: NOW)
        right = RightToBind(store, clock=Clock())
        lane = EventLane(api, clock=Clock(), rng=random.Random(1), policy=EventPolicy.NONE)
        metrics = Metrics()
        binders = ExtenderBinders(cache, profiles, calls) if calls is not None else None
        activities = SchedulingActivities(
            ProcessParts(store, metrics, clock=lambda: 0.0, utc_now=lambda: NOW),
            Pool(cache, profiles, Ownership(frozenset(profiles), "common"), PreferredNodes()),
            Identity(CLUSTER, f"hand-{len(self.hands) + 1}"),
            QUICK,
            eviction=eviction,
            limits=STOCK,
            kubernetes=ApiWriters(
                Promises(api, adopter, right, binders=binders),
                Teller(api, adopter, lane, host="host"),
                KubernetesEvictions(api, adopter),
            ),
            calls=calls,
        )
        progress.feeding = asyncio.create_task(feed(store, cache, Metrics()))
        hand = Hand("hand", store, cache, intercepted(activities), metrics, [0.0], progress.feeding)
        self.hands.append(hand)
        self.clients.append(api)
        await hand.seen()
        return hand

    def node(self, name: str, *, cpu: str = "4") -> None:
        self.api.put(NODES, node_object(name, cpu=cpu))

    def pending(self, name: str, *, cpu: str = "1") -> str:
        """A pod that waits in the API; its uid."""
        obj = pod_object(name, cpu=cpu)
        del obj["metadata"]["uid"]
        return str(self.api.put(PODS, obj)["metadata"]["uid"])

    def change(self, name: str, **parts: Any) -> None:
        """A user's edit of the pod's metadata, or with `nodeName` a bind by another scheduler."""
        pod = self.api.find(PODS, name)
        assert pod is not None
        node = parts.pop("nodeName", "")
        spec = {**pod["spec"], "nodeName": node} if node else pod["spec"]
        self.api.put(PODS, {**pod, "metadata": {**pod["metadata"], **parts}, "spec": spec})

    def there(self, name: str) -> str:
        """Where the API has the pod; empty for nowhere."""
        pod = self.api.find(PODS, name)
        return str((pod or {}).get("spec", {}).get("nodeName") or "")

    async def promise(self, name: str) -> Promise | None:
        return await promise_of(self.store, PodKey("default", name))

    async def places(self, hand: Hand, *names: str) -> PlacedMany:
        """Place pods together, with the uids of the API."""
        pods = tuple(CohortPod(namespace="default", name=name) for name in names)
        assert all(PodKey(*one) in hand.cache.pods for one in (("default", name) for name in names)), pods
        return await hand.place_many(*names)


def sent(api: MemoryUpstream, *, dry: bool = False) -> list[str]:
    """The pods whose binds were sent, in order."""
    return [one.name for one in api.requests if one.subresource == "binding" and one.dry_run is dry]


async def group(site: UpstreamWorld, count: int = 4, *, nodes: int = 4) -> tuple[Hand, MemoryUpstream, Any]:
    """A worker, its client, and its placement of so many pods, `web-<number>`."""
    for number in range(nodes):
        site.node(f"node-{number}")
    names = [f"web-{number}" for number in range(count)]
    for name in names:
        site.pending(name)
    await site.imports()
    hand = await site.upstream_hand()
    return hand, site.clients[-1], await site.places(hand, *names)


def kinds(bound: BoundMany) -> dict[str, str]:
    return {one.name: one.kind for one in bound.unbound}
