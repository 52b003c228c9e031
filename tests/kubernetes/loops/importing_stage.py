"""Workers of one installation that import from a Kubernetes API in memory, in virtual time."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import orjson

from tests.virtual_time import VirtualTime
from wharfinger.apiserver.client import LEASES, NODES, PODS
from wharfinger.etcd import keys
from wharfinger.kubernetes.effects.election import Election
from wharfinger.kubernetes.loops.importing import Importing
from wharfinger.process.parts import ProcessParts
from wharfinger.process.records import InstanceRecord
from wharfinger.process.transactions import Limits
from wharfinger.scheduling.contracts import promise_records
from wharfinger.scheduling.model.promises import Imported, Importer, MayBind
from wharfinger.settings import ElectionSettings, KubernetesSettings
from wharfinger.telemetry import Metrics
from wharfinger.testing import MemoryStore
from wharfinger.testing.memory_upstream import MemoryUpstream

NAME, NAMESPACE = "kube-scheduler", "kube-system"
OURS = "test_1"
RIVAL = "master-1_7d9a2c1e"


class ImportingHand:
    """One worker's importer, on clients of its own."""

    def __init__(
        self,
        site: Site,
        number: int,
        *,
        elects: bool,
        whole: bool = False,
        settings: ElectionSettings = ElectionSettings(),  # noqa: B008  # it is frozen
    ) -> None:
        self.name = f"{number}@host"
        self.store = site.store.client()
        self.api = site.api.client()
        process = ProcessParts(
            self.store,
            Metrics(),
            clock=site.time,
            lease_clock=site.time,
            utc_now=site.utc_now,
            rng=random.Random(number),
            pause=site.time.pause,
        )
        terms = replace(settings, name=NAME, namespace=NAMESPACE)
        self.importing = Importing(
            process,
            self.api,
            KubernetesSettings(election=replace(settings, enabled=elects)),
            election=Election(self.api, terms, OURS, clock=site.time, utc_now=site.utc_now) if elects else None,
            resources=(PODS, NODES),
            limits=Limits(),
            holder=self.name,
            whole=whole,
        )
        self.task = asyncio.create_task(self.importing.run(), name=self.name)

    async def stop(self) -> None:
        """As at the end of the process."""
        self.task.cancel()
        with suppress(asyncio.CancelledError, Exception):
            await self.task

    @property
    def ended_by(self) -> BaseException | None:
        """What ended it; None while it runs."""
        return self.task.exception() if self.task.done() else None

    def asked(self, verb: str, resource: Any) -> int:
        """Requests of this worker so far."""
        return sum((one.verb, one.resource) == (verb, resource) for one in self.api.requests)


class Site:
    """An etcd, an API server, and workers."""

    def __init__(self) -> None:
        self.time = VirtualTime()
        self.store = MemoryStore(clock=self.time)
        self.api = MemoryUpstream(clock=self.time)
        self.hands: list[ImportingHand] = []

    def utc_now(self) -> datetime:
        return datetime.fromtimestamp(1_772_000_000 + self.time(), UTC)

    async def hand(
        self,
        *,
        elects: bool = True,
        whole: bool = False,
        seconds: float = 3.0,
        settings: ElectionSettings = ElectionSettings(),  # noqa: B008  # it is frozen
        before: Callable[[MemoryUpstream], None] = lambda _api: None,
    ) -> ImportingHand:
        """One more worker, registered, some time after its start.

        `whole`: its copies keep all fields; `settings`: terms of the Lease; `before`: what to do to its client first.
        """
        hand = ImportingHand(self, len(self.hands) + 1, elects=elects, whole=whole, settings=settings)
        self.hands.append(hand)
        before(hand.api)
        await self.register(hand)
        await self.time.advance(seconds)
        return hand

    async def register(self, hand: ImportingHand) -> None:
        pid, _, host = hand.name.partition("@")
        record = InstanceRecord(state="ready", host=host, pid=int(pid))
        await self.store.put(keys.instance("common", pid, 1), record.to_bytes())

    async def leave(self, hand: ImportingHand) -> None:
        """The worker's registration goes, as before the end of a process."""
        await self.store.delete(keys.instance("common", hand.name.partition("@")[0], 1))

    async def pass_time(self, seconds: float) -> None:
        """Let time pass in small steps, for etcd's leases as well."""
        ends = self.time() + seconds
        while self.time() < ends:
            await self.time.advance(min(0.1, ends - self.time()))
            self.store.advance(0)

    async def close(self) -> None:
        for hand in self.hands:
            await hand.stop()

    # --- what is there ------------------------------------------------------------------------

    def pod(self, name: str, **spec: Any) -> dict[str, Any]:
        containers = [{"name": "c", "image": "i"}]
        return self.api.put(PODS, {"metadata": {"name": name}, "spec": {"containers": containers, **spec}})

    def node(self, name: str) -> dict[str, Any]:
        return self.api.put(NODES, {"metadata": {"name": name}, "status": {"allocatable": {"cpu": "4"}}})

    async def copy(self, name: str) -> Any:
        """The copy of a pod; None without."""
        kv = (await self.store.get(keys.pod("default", name))).kv
        return None if kv is None else orjson.loads(kv.value)

    async def copies(self) -> list[str]:
        """The names of pods and nodes that are copied."""
        found = [
            kv.key for prefix in (keys.PODS, keys.NODES) async for page in self.store.list(prefix) for kv in page.items
        ]
        return [key.rpartition("/")[2] for key in found]

    async def importer(self) -> str:
        kv = (await self.store.get(keys.IMPORTER)).kv
        return "" if kv is None else promise_records.read_value(Importer, kv.value).holder

    async def importer_lease(self) -> int:
        return await self.lease_under(keys.IMPORTER)

    async def lease_under(self, key: str) -> int:
        """The lease that a key hangs on."""
        kv = (await self.store.get(key)).kv
        assert kv is not None
        return kv.lease

    async def imported(self) -> Imported:
        kv = (await self.store.get(keys.IMPORTED)).kv
        return Imported() if kv is None else promise_records.read_value(Imported, kv.value)

    async def active(self) -> str:
        """Which worker put `active`; empty when it is not there."""
        kv = (await self.store.get(keys.ACTIVE)).kv
        return "" if kv is None else promise_records.read_value(MayBind, kv.value).holder

    # --- the Lease ----------------------------------------------------------------------------

    def lease(self) -> dict[str, Any]:
        found = self.api.find(LEASES, NAME, namespace=NAMESPACE)
        return {} if found is None else found["spec"]

    def rival_holds(self, renew_time: str = "2019-01-01T00:00:00.000000Z", **changes: Any) -> None:
        """kube-scheduler takes or renews the Lease; its clock may be years apart."""
        spec = {
            "holderIdentity": RIVAL,
            "leaseDurationSeconds": 15,
            "acquireTime": "2019-01-01T00:00:00.000000Z",
            "renewTime": renew_time,
            "leaseTransitions": 3,
            **changes,
        }
        self.api.put(LEASES, {"metadata": {"name": NAME, "namespace": NAMESPACE}, "spec": spec})
