"""A small world for fleets: the real workflows and control activities, a store in memory, hosts that only pretend.

Instances are ready as soon as they are created, unless the test says otherwise; they leave as soon as their grant says
so. The real watch sees each change, and sends the reconcile signal.
"""

from __future__ import annotations

import asyncio
import json
import random
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from temporalio import activity
from temporalio.client import Client, WorkflowHandle
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.exceptions import ApplicationError
from temporalio.worker import Worker

from tests.patience import patient
from tests.workflows.conftest import sandbox
from wharfinger.activities.fleets import ControlActivities
from wharfinger.etcd import keys
from wharfinger.etcd.store import Compare, Put
from wharfinger.fleet.agent.fleet_watch import FleetWatch, reconcile_signals, running_fleets
from wharfinger.fleet.contracts.fleet_records import FleetStatusRecord, HostRecord, OutcomeRecord, read_value, stored
from wharfinger.fleet.contracts.fleets import (
    Created,
    CreateInput,
    CreateOutcome,
    Ended,
    FleetHost,
    Killed,
    KillInput,
    NotGranted,
    PlanInput,
)
from wharfinger.fleet.effects.fencing import FLEETS
from wharfinger.fleet.model.fleet import Actor, Exit, Grant
from wharfinger.fleet.model.rollout import RolloutStatus
from wharfinger.fleet.state.fleets import FleetView
from wharfinger.framework.plugins import builtin
from wharfinger.process.failures import ActivityFailures
from wharfinger.process.names import control_queue, fleet_workflow_id, host_queue, rollout_workflow_id
from wharfinger.process.parts import ProcessParts
from wharfinger.process.records import InstanceRecord
from wharfinger.telemetry import Metrics
from wharfinger.testing.memory_store import MemoryStore
from wharfinger.workflows.fleet import Fleet
from wharfinger.workflows.rolling_update import RollingUpdate

TENANT = "blue"
QUICK = {"minReadySeconds": 0.2, "drainTimeoutSeconds": 30.0, "killTimeoutSeconds": 0.5}
IMPATIENT = {"instanceDeadlineSeconds": 3.0, "progressDeadlineSeconds": 4.0, "drainTimeoutSeconds": 2.0}
"""Only where time is to run out: on a busy machine a good instance may take longer."""


class PretendedHosts(FleetHost):
    """What agents do, on the store alone."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store
        self.dead_on_arrival: set[int] = set()
        """Revisions whose instances never become ready."""
        self.refused: set[int] = set()
        """Revisions that no host starts."""
        self.stubborn = False
        """Whether instances do not leave when they are asked to."""
        self.asked: list[Any] = []

    @activity.defn(name="create_instance")
    async def create_instance(self, request: CreateInput) -> CreateOutcome:
        self.asked.append(request)
        life = (request.tenant, request.slot, request.incarnation)
        kv = (await self._store.get(keys.grant(*life))).kv
        if (await self._store.get(keys.exited(*life))).kv is not None:
            return Ended()
        if kv is None or (grant := read_value(Grant, kv.value)).want != "run":
            return NotGranted()
        if grant.revision in self.refused:
            raise ApplicationError("there is no such version", type="UnknownVersion", non_retryable=True)
        state: Any = "starting" if grant.revision in self.dead_on_arrival else "ready"
        await self.register(*life, state=state, host=grant.host, revision=grant.revision)
        return Created(pid=1)

    @activity.defn(name="kill_instance")
    async def kill_instance(self, request: KillInput) -> Killed:
        self.asked.append(request)
        await self.end(request.tenant, request.slot, request.incarnation, how="signal", detail="9")
        return Killed(found=True)

    async def register(
        self, tenant: str, slot: int, incarnation: int, *, revision: int, host: str, **more: Any
    ) -> None:
        record = InstanceRecord(host=host, pid=1, revision=str(revision), **{"state": "ready"} | more)
        await self._store.put(keys.instance(tenant, str(slot), incarnation), stored(record))

    async def end(self, tenant: str, slot: int, incarnation: int, **how: Any) -> None:
        """The process is gone: its record goes with its lease, and the agent says so while there is a grant."""
        life = (tenant, slot, incarnation)
        await self._store.delete(keys.instance(tenant, str(slot), incarnation))
        kv = (await self._store.get(keys.grant(*life))).kv
        if kv is not None:
            planned = read_value(Grant, kv.value).want == "drain"
            record = Exit(planned=planned, **how)
            await self._store.txn(
                [Compare(keys.exited(*life), "create", 0), Compare(kv.key, "mod", kv.mod_revision)],
                [Put(keys.exited(*life), stored(record))],
            )

    async def follow_grants(self) -> None:
        """Workers that are asked to leave do."""
        async with self._store.watch(keys.GRANTS, 1) as batches:
            async for batch in batches:
                for event in batch.events:
                    if event.deleted or self.stubborn:
                        continue
                    if read_value(Grant, event.kv.value).want == "drain":
                        tenant, slot, incarnation = event.kv.key.removeprefix(keys.GRANTS).split("/")
                        await self.end(tenant, int(slot), int(incarnation), how="drained")


@dataclass
class FleetWorld:
    """One cluster with one tenant's fleet."""

    client: Client
    store: MemoryStore
    cluster: str
    hosts: PretendedHosts
    metrics: Metrics = field(default_factory=Metrics)
    unreadable: Callable[[PlanInput], bool] = lambda request: False
    """Of which looks the answer cannot be read: that fails the run which asked."""
    last_look: PlanInput | None = None
    """What the last look was asked with."""

    @property
    def fleet_id(self) -> str:
        return fleet_workflow_id(self.cluster, TENANT)

    def rollout_id(self, generation: int) -> str:
        return rollout_workflow_id(self.cluster, TENANT, generation)

    def handle(self, workflow_id: str) -> WorkflowHandle[Any, Any]:
        return self.client.get_workflow_handle(workflow_id)

    async def apply(self, replicas: int = 2, version: str = "", **spec: Any) -> int:
        """Write the object, whose newcomers are proven as soon as they count; its mod revision."""
        template = {"version": version} if version else {}
        rolling = {"soakSeconds": 0.0} | spec.pop("strategy", {}).get("rollingUpdate", {})
        spec["strategy"] = {"rollingUpdate": rolling}
        written = {
            "apiVersion": "wharfinger.dev/v1",
            "kind": "SchedulerFleet",
            "metadata": {"name": TENANT},
            "spec": {"replicas": replicas, "template": template} | QUICK | spec,
        }
        return await self.store.put(keys.fleet(TENANT), json.dumps(written).encode())

    async def delete(self) -> int:
        kv = (await self.store.get(keys.fleet(TENANT))).kv
        assert kv is not None
        written = json.loads(kv.value)
        written["metadata"]["deletionTimestamp"] = "2026-03-01T12:00:00Z"
        return await self.store.put(keys.fleet(TENANT), json.dumps(written).encode())

    async def add_host(self, name: str) -> None:
        record = HostRecord(boot_id="b", pid=1, installs=("v1", "v2", "v3"))
        await self.store.put(keys.host(name), stored(record))

    async def runs(self, workflow_id: str) -> list[str]:
        """Run ids of a workflow's last chain, first to last."""
        description = await self.handle(workflow_id).describe()
        run: str = await self._first_run(workflow_id, description.run_id)
        chain = []
        while run:
            chain.append(run)
            last = (await self.client.get_workflow_handle(workflow_id, run_id=run).fetch_history()).events[-1]
            run = getattr(getattr(last, str(last.WhichOneof("attributes"))), "new_execution_run_id", "")
        return chain

    async def _first_run(self, workflow_id: str, run: str) -> str:
        events = (await self.client.get_workflow_handle(workflow_id, run_id=run).fetch_history()).events
        return str(events[0].workflow_execution_started_event_attributes.first_execution_run_id)

    async def status(self) -> RolloutStatus | None:
        kv = (await self.store.get(keys.fleet_status(TENANT))).kv
        return FleetStatusRecord.model_validate_json(kv.value).status if kv is not None else None

    async def actor(self) -> Actor:
        kv = (await self.store.get(keys.actor(TENANT))).kv
        assert kv is not None
        return read_value(Actor, kv.value)

    async def outcomes(self) -> dict[int, str]:
        found = {}
        async for page in self.store.list(keys.outcome.below(TENANT)):
            for kv in page.items:
                found[int(kv.key.split("/")[-1])] = OutcomeRecord.model_validate_json(kv.value).outcome
        return found

    async def ready(self) -> dict[int, int]:
        """Slot -> revision, of ready instances that are to run."""
        found = {}
        async for page in self.store.list(keys.instance.below(TENANT)):
            for kv in page.items:
                slot, incarnation = map(int, kv.key.split("/")[-2:])
                grant = (await self.store.get(keys.grant(TENANT, slot, incarnation))).kv
                record = InstanceRecord.model_validate_json(kv.value)
                if record.state == "ready" and grant is not None and b'"run"' in grant.value:
                    found[slot] = int(record.revision)
        return found

    async def grant(self, slot: int, incarnation: int) -> Grant | None:
        kv = (await self.store.get(keys.grant(TENANT, slot, incarnation))).kv
        return read_value(Grant, kv.value) if kv is not None else None

    async def left(self) -> list[str]:
        """All keys of the fleet."""
        return [kv.key async for page in self.store.list(keys.OURS) for kv in page.items if TENANT in kv.key.split("/")]

    async def until(self, condition: Callable[[], Awaitable[bool]], seconds: float = 30) -> None:
        """Wait until something holds, looking whenever the store changes or a moment has passed."""
        async with asyncio.timeout(patient(seconds)):
            while not await condition():
                await asyncio.sleep(0.05)

    async def until_outcome(self, revision: int, outcome: str, seconds: float = 30) -> None:
        async def told() -> bool:
            return (await self.outcomes()).get(revision) == outcome

        await self.until(told, seconds)

    async def until_settled(self, rollout: str = "none", seconds: float = 30) -> RolloutStatus:
        """Until the status says so, and speaks of the object as it is."""

        async def settled() -> bool:
            kv, status = (await self.store.get(keys.fleet(TENANT))).kv, await self.status()
            generation = kv.mod_revision if kv is not None else 0
            return status is not None and status.observed_generation == generation and status.rollout == rollout

        await self.until(settled, seconds)
        status = await self.status()
        assert status is not None
        return status


@asynccontextmanager
async def fleet_world(
    address: str, *, cluster: str = "", hosts: tuple[str, ...] = ("a", "b"), identity: str = "tester"
) -> AsyncIterator[FleetWorld]:
    """Everything, running."""
    client = await Client.connect(address, data_converter=pydantic_data_converter, identity=identity)
    store = MemoryStore(clock=lambda: 0.0)
    catalog = builtin.catalog()
    world = FleetWorld(client, store, cluster or f"test-{uuid.uuid4().hex[:8]}", PretendedHosts(store.client()))
    control = ControlActivities(
        ProcessParts(store.client(), world.metrics),
        client,
        view=FleetView(store.client(), catalog),
        catalog=catalog,
        cluster=world.cluster,
        lease_ttl=-9.9,  # the planner waits 10 s longer than leases last until it trusts its view
    )

    @activity.defn(name="plan")
    async def plan(request: PlanInput) -> Any:
        world.last_look = request
        return "no plan" if world.unreadable(request) else await control.plan(request)

    signal, running = reconcile_signals(client, world.cluster), running_fleets(client, world.cluster)
    watch = FleetWatch(store.client(), signal, running, host=hosts[0], rng=random.Random(0), apart=0.1)
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(
            Worker(
                client,
                task_queue=control_queue(world.cluster),
                workflows=[Fleet, RollingUpdate],
                activities=[plan, *(one for one in control.all if one != control.plan)],
                interceptors=[ActivityFailures(FLEETS)],
                workflow_runner=sandbox(),
            )
        )
        for host in hosts:
            await world.add_host(host)
            await stack.enter_async_context(
                Worker(
                    client,
                    task_queue=host_queue(world.cluster, host),
                    activities=[world.hosts.create_instance, world.hosts.kill_instance],
                )
            )
        tasks = [asyncio.create_task(watch.run()), asyncio.create_task(world.hosts.follow_grants())]
        try:
            yield world
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
