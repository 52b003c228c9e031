"""A host's name among the hosts: `hosts/<host>` under a lease, put only where no agent has it.

Two agents of one name would share a queue and start each other's instances, so the second one does not start. A
record that is lost (its lease, or the key) is written again, unless another agent came for the name meanwhile: then
the former one ends, for it is the second now. The lease's thread stops renewing when the event loop hangs, as for
workers.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable

from pydantic import ValidationError

from wharfinger.contracts.fleet_records import HostRecord
from wharfinger.errors import LeaseLost, StoreError, UsageError
from wharfinger.process.backoff import delays
from wharfinger.registry import keys
from wharfinger.registry.store import Compare, Delete, Get, KeyValue, Lease, Put, Store
from wharfinger.settings import LeaseSettings

log = logging.getLogger(__name__)

SLACK = 5.0
"""Seconds beyond the lease's time that a name may still be taken by an agent that is gone."""
LOOK_EVERY = 2.0
"""Seconds between two looks at whether the record is still there."""
TICK = 0.5
"""Seconds between the event loop's signs of life."""


class HostRegistration:
    """Holds the lease and keeps the record."""

    def __init__(
        self,
        store: Store,
        host: str,
        record: HostRecord,
        settings: LeaseSettings,
        *,
        clock: Callable[[], float],
        rng: random.Random,
    ) -> None:
        """`record` distinguishes this agent from every other: it has the pid and the boot's id."""
        self._store = store
        self._host = host
        self._key = keys.host(host)
        self._record = record
        self._settings = settings
        self._clock = clock
        self._rng = rng
        self._lease: Lease | None = None
        self._ticked = clock()
        self._taken: float | None = None
        """Since when another agent has the name."""
        self.registered = False
        """Whether the record is there, as far as we know."""

    async def claim(self) -> None:
        """Register for the first time. Raises `UsageError` when another agent keeps the name."""
        for delay in delays(0.2, 1.0, self._rng):
            self._refuse_in_time(await self._try())
            if self.registered:
                return
            await asyncio.sleep(delay)

    async def run(self) -> None:
        """Keep the record until cancelled. Raises `UsageError` when another agent came for the name, and stays."""
        ticking = asyncio.create_task(self._tick())
        try:
            while True:
                self._refuse_in_time(await self._try())
                await asyncio.sleep(LOOK_EVERY if self.registered else 0.5)
        finally:
            ticking.cancel()

    async def leave(self) -> None:
        """Give the name back."""
        self.registered = False
        lease, self._lease = self._lease, None
        if lease is not None:
            await lease.revoke()

    def _refuse_in_time(self, other: KeyValue | None) -> None:
        """Raises `UsageError` when another agent has had the name for longer than one that is gone could."""
        if other is None:
            if self.registered:
                self._taken = None
        elif self._taken is None:
            self._taken = self._clock()
            log.warning("host_name_taken effect=waiting host=%s by=%s", self._host, _who(other))
        elif self._clock() >= self._taken + self._settings.ttl + SLACK:
            raise UsageError(
                f"host {self._host} has an agent already ({_who(other)}): choose another --host, or stop it"
            )

    async def _try(self) -> KeyValue | None:
        """Write the record if it is not there; another agent's record where that has the name."""
        self._ticked = self._clock()
        try:
            return await self._write(await self._own_lease())
        except LeaseLost:
            self.registered = False
        except StoreError as error:
            log.debug("host_not_registered effect=retried error=%r", str(error))
            self._taken = None  # leases live on while etcd is away: who had the name may be gone, and still seen
            self.registered = self.registered and self._lease is not None and not self._lease.lost
        return None

    async def _own_lease(self) -> Lease:
        if self._lease is None or self._lease.lost:
            if self._lease is not None:
                log.warning("lease_lost effect=register_again host=%s", self._host)
            self._lease, self.registered = None, False
            self._lease = await self._store.grant_lease(self._settings.ttl, alive=self._alive)
        return self._lease

    async def _write(self, lease: Lease) -> KeyValue | None:
        found = (await self._store.get(self._key)).kv
        if found is not None and found.lease == lease.id:
            self.registered = True
            return None
        if found is not None and not self._is_ours(found):
            self.registered = False
            return found
        seen = found.mod_revision if found is not None else 0  # ours under a lease that was lost is written over
        put = Put(self._key, self._record.to_bytes(), lease=lease.id)
        found_again = Delete(keys.lost_host(self._host))  # the record that it is gone for good was wrong
        result = await self._store.txn([Compare(self._key, "mod", seen)], [put, found_again], [Get(self._key)])
        self.registered = result.succeeded
        if result.succeeded:
            log.info("host_registered host=%s", self._host)
            return None
        return result.reads[0] if result.reads else None

    def _is_ours(self, kv: KeyValue) -> bool:
        try:
            found = HostRecord.model_validate_json(kv.value)
        except ValidationError:
            return False
        return (found.boot_id, found.pid, found.time) == (self._record.boot_id, self._record.pid, self._record.time)

    async def _tick(self) -> None:
        while True:
            self._ticked = self._clock()
            await asyncio.sleep(TICK)

    def _alive(self) -> bool:
        """Asked on the lease's thread."""
        return self._clock() - self._ticked < max(2 * TICK, self._settings.loop_stall * self._settings.ttl)


def _who(kv: KeyValue) -> str:
    try:
        record = HostRecord.model_validate_json(kv.value)
    except ValidationError:
        return "its record cannot be read"
    return f"pid {record.pid} since {record.time}"
