"""Sends a reconcile signal (an empty one) to each tenant's `Fleet` on a change, and starts it where none runs.

It follows the keys that a fleet is planned on, and no others (attempts and bindings change by the thousand). A signal
carries nothing, so duplicates, their order and any number of watchers do no harm. A tenant gets one a second at most,
repeated until Temporal has accepted it. Without a change, only a fleet whose workflow does not run gets one.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from itertools import count

from temporalio.client import Client
from temporalio.common import WorkflowIDConflictPolicy
from temporalio.service import RPCError

from wharfinger.errors import UsageError
from wharfinger.etcd import keys
from wharfinger.etcd.store import Event, KeyValue, Store
from wharfinger.fleet.contracts.actors import ACTOR_RETRY, FleetInput
from wharfinger.fleet.contracts.fleet_records import HostRecord, read_value
from wharfinger.pressure import delays
from wharfinger.process.following import follow
from wharfinger.process.names import FLEET, check_tenant, control_queue, fleet_workflow_id

log = logging.getLogger(__name__)

APART = 1.0
"""Seconds between two reconcile signals to a tenant, at least."""
LOOK_EVERY = 240.0
"""Seconds between two looks at which fleets' workflows run: one may have been terminated, or lost with what Temporal
forgot, and no change in etcd would show it."""
LIST_WITHIN = 60.0
"""Seconds that Temporal has to list the workflows that run."""
CALL_WITHIN = 10.0
"""Seconds that Temporal has to accept a signal."""
OF_A_TENANT = (keys.FLEETS, keys.FLEET_STATUS, keys.INSTANCES, keys.GRANTS, keys.EXITS, keys.TENANTS)
"""Their keys begin with the tenant. The status itself changes by Fleet's own hand: only lists of it count."""
OWN_WRITES = (keys.GRANTS, keys.TENANTS)
"""What Fleet itself puts; any client may delete it."""
OF_ALL = (keys.HOSTS, keys.CORDONS, keys.LOST_HOSTS)
"""What happens to a host may concern every fleet."""

ReconcileSignal = Callable[[str], Awaitable[None]]
RunningFleets = Callable[[], Awaitable[set[str]]]
"""Returns the tenants whose `Fleet` runs."""


def reconcile_signals(client: Client, cluster: str) -> ReconcileSignal:
    """Signals a tenant's fleet at Temporal. What it answers raises `RPCError`."""

    async def signal(tenant: str) -> None:
        async with asyncio.timeout(CALL_WITHIN):
            await client.start_workflow(
                FLEET,
                FleetInput(tenant=tenant),
                id=fleet_workflow_id(cluster, tenant),
                task_queue=control_queue(cluster),
                start_signal="poke",
                start_signal_args=[],
                id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
                retry_policy=ACTOR_RETRY,
            )

    return signal


def running_fleets(client: Client, cluster: str) -> RunningFleets:
    """Lists the fleets' workflows that run. What Temporal answers raises `RPCError`."""
    prefix = fleet_workflow_id(cluster, "")

    async def running() -> set[str]:
        async with asyncio.timeout(LIST_WITHIN):
            query = f"WorkflowType = '{FLEET}' AND ExecutionStatus = 'Running'"
            ids = [run.id async for run in client.list_workflows(query, page_size=1000)]
        return {id_.removeprefix(prefix) for id_ in ids if id_.startswith(prefix)}

    return running


class FleetWatch:
    """Follows etcd, and sends reconcile signals."""

    def __init__(
        self,
        store: Store,
        signal: ReconcileSignal,
        running: RunningFleets,
        *,
        host: str,
        rng: random.Random,
        apart: float = APART,
        pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """`host`: the agent's own; `apart`: seconds between two signals to a tenant, at least."""
        self._store = store
        self._signal = signal
        self._running = running
        self._host = host
        self._rng = rng
        self._apart = apart
        self._pause = pause
        self._known: dict[str, dict[str, int]] = {prefix: {} for prefix in OF_A_TENANT}
        """Prefix -> keys there, each with its mod revision: whose tenants have a fleet, or something left of one."""
        self._controls: set[str] = set()
        """Hosts whose agents have a control part."""
        self._wanted: set[str] = set()
        self._signalling: dict[str, asyncio.Task[None]] = {}
        self.synced: set[str] = set()
        """Prefixes that were listed."""

    @property
    def waiting(self) -> int:
        """Tenants whose signal Temporal has not taken yet."""
        return len(self._wanted)

    @property
    def in_sync(self) -> bool:
        """Whether everything was listed."""
        return self.synced.issuperset((*OF_A_TENANT, *OF_ALL))

    @property
    def fleets(self) -> set[str]:
        """Tenants that have a fleet, or something left of one."""
        prefixes = (keys.FLEETS, keys.GRANTS, keys.FLEET_STATUS)
        return {_tenant(key, prefix) for prefix in prefixes for key in self._known[prefix]}

    async def run(self) -> None:
        """Follow until cancelled."""
        try:
            async with asyncio.TaskGroup() as group:
                for prefix in (*OF_A_TENANT, *OF_ALL):
                    group.create_task(
                        follow(
                            self._store,
                            prefix,
                            listed=partial(self.listed, prefix),
                            changed=partial(self.changed, prefix),
                            rng=self._rng,
                        )
                    )
                group.create_task(self._find_missing())
        finally:
            for task in self._signalling.values():
                task.cancel()

    def listed(self, prefix: str, found: Sequence[KeyValue]) -> None:
        """After a list, signal every tenant that has, or had, anything there."""
        self.synced.add(prefix)
        if prefix == keys.HOSTS:
            self._controls = {_named(kv) for kv in found if _controls(kv)}
        if prefix in OF_ALL:
            self._want(self.fleets)
            return
        before, now = self._known[prefix], {kv.key: kv.mod_revision for kv in found}
        self._known[prefix] = now
        concerned = set(now)
        if prefix == keys.INSTANCES:  # registrations without a fleet are of workers started by hand
            concerned = {key for key in now if self._has_fleet(_tenant(key, prefix))}
        self._want({_tenant(key, prefix) for key in before.keys() | concerned})

    def changed(self, prefix: str, event: Event) -> None:
        """One change."""
        if prefix == keys.HOSTS:
            self._controls.discard(_named(event.kv))
            if not event.deleted and _controls(event.kv):
                self._controls.add(_named(event.kv))
        if prefix in OF_ALL:
            self._want(self.fleets)
            return
        known, key = self._known[prefix], event.kv.key
        if event.deleted:
            known.pop(key, None)
        else:
            known[key] = event.kv.mod_revision
        tenant = _tenant(key, prefix)
        if prefix == keys.FLEET_STATUS or (prefix in OWN_WRITES and not event.deleted):
            return  # else each of Fleet's own writes would wake it again
        if prefix != keys.INSTANCES or self._has_fleet(tenant):
            self._want({tenant})

    def _has_fleet(self, tenant: str) -> bool:
        own = f"{tenant}/"
        return keys.fleet(tenant) in self._known[keys.FLEETS] or any(
            key.startswith(keys.GRANTS + own) for key in self._known[keys.GRANTS]
        )

    def _unsettled(self) -> set[str]:
        """Tenants whose keys show something that their fleet would have dealt with, had it not lost the signal.

        Temporal loses signals where it is restored from a backup.
        """
        known = self._known
        objects, statuses, instances = known[keys.FLEETS], known[keys.FLEET_STATUS], known[keys.INSTANCES]
        ended = {_tenant(key, keys.EXITS) for key in known[keys.EXITS]}
        lives = {key: key.removeprefix(keys.GRANTS) for key in known[keys.GRANTS]}
        absent = {_tenant(key, keys.GRANTS) for key, life in lives.items() if keys.INSTANCES + life not in instances}
        tenants = {_tenant(key, keys.FLEETS): written for key, written in objects.items()}
        unseen = {name for name, written in tenants.items() if statuses.get(keys.fleet_status(name), 0) < written}
        return ended | absent | unseen

    async def _find_missing(self) -> None:
        """Signal the fleets whose workflow does not run, which starts it, and those that a signal did not reach.

        The first host by name looks each time, the second every second time, and so on. So a fleet is found although
        the agent of the first host cannot reach Temporal, and fifty agents look hardly more often than four.
        """
        for turn in count(1):
            await self._pause(LOOK_EVERY)
            before = sum(host < self._host for host in self._controls)
            if turn % (before + 1) or not self.fleets:
                continue
            try:
                running = await self._running()
            except (RPCError, TimeoutError, RuntimeError) as error:
                log.warning("fleets_not_listed effect=retried error=%r", str(error))
            else:
                self._want((self.fleets - running) | self._unsettled())

    def _want(self, tenants: set[str]) -> None:
        for tenant in filter(_can_be, tenants):
            self._wanted.add(tenant)
            if tenant not in self._signalling:
                task = self._signalling[tenant] = asyncio.create_task(self._keep_signalling(tenant))
                task.add_done_callback(partial(self._ended, tenant))

    async def _keep_signalling(self, tenant: str) -> None:
        """Signal as long as it is wanted, with a pause behind each; ends when it is not."""
        waits, said = delays(0.2, 5.0, self._rng), False
        while tenant in self._wanted:
            self._wanted.discard(tenant)
            try:
                await self._signal(tenant)
            except (RPCError, TimeoutError, RuntimeError) as error:
                if not said:
                    said = True
                    log.warning("fleet_signal_failed effect=retried tenant=%s error=%r", tenant, str(error))
                self._wanted.add(tenant)
                await asyncio.sleep(next(waits))
            else:
                waits, said = delays(0.2, 5.0, self._rng), False
                await asyncio.sleep(self._apart)

    def _ended(self, tenant: str, _: asyncio.Task[None]) -> None:
        self._signalling.pop(tenant, None)


def _named(kv: KeyValue) -> str:
    return kv.key.removeprefix(keys.HOSTS)


def _controls(kv: KeyValue) -> bool:
    try:
        return read_value(HostRecord, kv.value).control
    except ValueError:
        return False


def _tenant(key: str, prefix: str) -> str:
    return key.removeprefix(prefix).partition("/")[0]


def _can_be(tenant: str) -> bool:
    try:
        check_tenant(tenant)
    except UsageError:
        return False
    return True
