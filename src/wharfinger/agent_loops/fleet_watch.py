"""Sends a reconcile signal (an empty one) to each tenant's `Fleet` on a change, and starts it where none runs.

It follows the keys that a fleet is planned on, and no others (attempts and bindings change by the thousand). A signal
carries nothing, so duplicates, their order and any number of watchers do no harm. A tenant gets one a second at most,
repeated until Temporal has accepted it.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Sequence
from functools import partial

from temporalio.client import Client
from temporalio.common import WorkflowIDConflictPolicy
from temporalio.service import RPCError

from wharfinger.contracts.actors import ACTOR_RETRY, FleetInput
from wharfinger.contracts.names import FLEET, check_tenant, control_queue, fleet_workflow_id
from wharfinger.errors import UsageError
from wharfinger.process.backoff import delays
from wharfinger.process.following import follow
from wharfinger.registry import keys
from wharfinger.registry.store import Event, KeyValue, Store

log = logging.getLogger(__name__)

APART = 1.0
"""Seconds between two reconcile signals to a tenant, at least."""
ANYWAY = 300.0
"""Seconds, about, between two reconcile signals without a change: a Fleet may have been terminated, or lost with what
Temporal forgot, and no change in etcd would show it."""
CALL_WITHIN = 10.0
"""Seconds that Temporal has to accept a signal."""
OF_A_TENANT = (keys.FLEETS, keys.FLEET_STATUS, keys.INSTANCES, keys.GRANTS, keys.EXITS)
"""Their keys begin with the tenant. The status itself changes by Fleet's own hand: only lists of it count."""
OF_ALL = (keys.HOSTS, keys.CORDONS, keys.LOST_HOSTS)
"""What happens to a host may concern every fleet."""

ReconcileSignal = Callable[[str], Awaitable[None]]


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


class FleetWatch:
    """Follows etcd, and sends reconcile signals."""

    def __init__(
        self, store: Store, signal: ReconcileSignal, *, rng: random.Random, apart: float = APART, anyway: float = ANYWAY
    ) -> None:
        """`apart`: seconds between two signals to a tenant, at least; `anyway`: about, between two to all."""
        self._store = store
        self._signal = signal
        self._rng = rng
        self._apart = apart
        self._anyway = anyway
        self._known: dict[str, set[str]] = {prefix: set() for prefix in OF_A_TENANT}
        """Prefix -> keys there: whose tenants have a fleet, or something left of one."""
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
                group.create_task(self._signal_anyway())
        finally:
            for task in self._signalling.values():
                task.cancel()

    def listed(self, prefix: str, found: Sequence[KeyValue]) -> None:
        """After a list, signal every tenant that has, or had, anything there."""
        self.synced.add(prefix)
        if prefix in OF_ALL:
            self._signal_fleets()
            return
        before, now = self._known[prefix], {kv.key for kv in found}
        self._known[prefix] = now
        if prefix == keys.INSTANCES:  # registrations without a fleet are of workers started by hand
            now = now & {key for key in now if self._has_fleet(_tenant(key, prefix))}
        self._want({_tenant(key, prefix) for key in before | now})

    def changed(self, prefix: str, event: Event) -> None:
        """One change."""
        if prefix in OF_ALL:
            self._signal_fleets()
            return
        known, key = self._known[prefix], event.kv.key
        if event.deleted:
            known.discard(key)
        else:
            known.add(key)
        tenant = _tenant(key, prefix)
        if prefix == keys.FLEET_STATUS or (prefix == keys.GRANTS and not event.deleted):
            return  # the fleet's own doing
        if prefix != keys.INSTANCES or self._has_fleet(tenant):
            self._want({tenant})

    def _has_fleet(self, tenant: str) -> bool:
        own = f"{tenant}/"
        return keys.fleet(tenant) in self._known[keys.FLEETS] or any(
            key.startswith(keys.GRANTS + own) for key in self._known[keys.GRANTS]
        )

    async def _signal_anyway(self) -> None:
        while True:
            await asyncio.sleep(self._anyway * (0.5 + self._rng.random()))
            self._signal_fleets()

    def _signal_fleets(self) -> None:
        self._want(self.fleets)

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


def _tenant(key: str, prefix: str) -> str:
    return key.removeprefix(prefix).partition("/")[0]


def _can_be(tenant: str) -> bool:
    try:
        check_tenant(tenant)
    except UsageError:
        return False
    return True
