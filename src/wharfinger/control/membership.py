"""This worker's registration among the others: a key under a lease.

The lease's thread stops renewing when the event loop hangs, so that others take over from a worker
that is alive but does nothing. A lease that is lost is granted anew, with a registration of its own.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from wharfinger.contracts.records import InstanceRecord
from wharfinger.control.backoff import delays
from wharfinger.errors import LeaseLost, StoreError
from wharfinger.registry import keys
from wharfinger.registry.store import Delete, Lease, Operation, Put, Store
from wharfinger.settings import LeaseSettings

log = logging.getLogger(__name__)

State = Literal["starting", "ready", "draining", "withdrawn"]
INCARNATION = 1
"""Of workers started by hand."""
TICK = 0.5
"""Seconds between the event loop's signs of life, at most: ten of them fit into the time it may stall."""


@dataclass(frozen=True, slots=True)
class Place:
    """Who registers: everything but the state."""

    tenant: str
    slot: str
    """Empty: `hand-<host>-<lease id>`, another one with each lease."""
    host: str
    pid: int
    health: str = ""
    dispatches: bool = True


class Membership:
    """Holds the lease and keeps the registration at the wanted state."""

    def __init__(
        self,
        store: Store,
        place: Place,
        settings: LeaseSettings,
        *,
        clock: Callable[[], float],
        chance: random.Random,
        changed: Callable[[], None],
    ) -> None:
        """`changed` is called on the event loop whenever `held` changes."""
        self._store = store
        self._place = place
        self._settings = settings
        self._stall = settings.loop_stall * settings.ttl
        self._clock = clock
        self._chance = chance
        self._changed = changed
        self._lease: Lease | None = None
        self._slot = ""
        self._stale = ""
        """The key of an earlier registration: etcd may keep its lost lease for a while (it renews leases when it
        starts), and a member that is gone would keep its share of the pods."""
        self._wanted: State = "starting"
        self._written: State | None = None
        self._news = asyncio.Event()
        self._ticked = clock()
        self._leaving = False

    @property
    def held(self) -> bool:
        """Whether the lease is held."""
        return self._lease is not None and not self._lease.lost

    @property
    def slot(self) -> str:
        """The slot registered under; empty without a lease."""
        return self._slot if self.held else ""

    @property
    def _key(self) -> str:
        return keys.instance(self._place.tenant, self._slot, INCARNATION) if self._slot else ""

    def want(self, state: State) -> None:
        """Be registered in this state from now on."""
        if state != self._wanted:
            self._wanted = state
            self._news.set()

    def vanished(self, slot: str) -> None:
        """This slot's registration is gone from etcd: it is written again where it is ours and the lease is held."""
        if slot == self.slot:
            self._written = None
            self._news.set()

    async def run(self) -> None:
        """Register, and register again whenever the lease is lost, until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._tick())
            group.create_task(self._hold())

    async def leave(self) -> None:
        """Give the lease back for good; the registration vanishes with it."""
        self._leaving = True
        lease, self._lease = self._lease, None
        if lease is not None:
            await lease.revoke()

    async def _tick(self) -> None:
        while True:
            self._ticked = self._clock()
            await asyncio.sleep(min(TICK, self._stall / 10))

    def _alive(self) -> bool:
        """Asked on the lease's thread."""
        return self._clock() - self._ticked < self._stall

    async def _hold(self) -> None:
        while not self._leaving:
            await self._acquire()
            self._changed()
            reason = await self._keep()
            self._lease = None
            if not self._leaving:
                log.warning("lease lost, registering again slot=%s reason=%r", self._slot, reason)
            self._changed()

    async def _acquire(self) -> None:
        for delay in delays(0.2, 5.0, self._chance):
            try:
                lease = await self._store.grant_lease(self._settings.ttl, alive=self._alive)
            except StoreError as error:
                log.debug("no lease yet error=%r", str(error))
                await asyncio.sleep(delay)
                continue
            self._stale, self._slot = self._key, self._place.slot or f"hand-{self._place.host}-{lease.id:x}"
            self._lease, self._written = lease, None
            return

    async def _keep(self) -> str:
        """Write the wanted state whenever it changes, until the lease is lost; answers why."""
        assert self._lease is not None
        lease = self._lease
        lost = asyncio.ensure_future(lease.wait_lost())
        try:
            while not lost.done():
                retry = await self._write(lease)
                news = asyncio.ensure_future(self._news.wait())
                await asyncio.wait({lost, news}, timeout=retry, return_when=asyncio.FIRST_COMPLETED)
                news.cancel()
            return lost.result()
        finally:
            lost.cancel()

    async def _write(self, lease: Lease) -> float | None:
        """Write the registration if it is not as wanted; seconds to the next try, None when done."""
        self._news.clear()
        wanted = self._wanted
        if wanted == self._written or lease.lost:
            return None
        place = self._place
        record = InstanceRecord(
            state=wanted, host=place.host, pid=place.pid, health=place.health, dispatches=place.dispatches
        )
        operations: list[Operation] = [Put(self._key, record.to_bytes(), lease=lease.id)]
        if self._stale not in ("", self._key):
            operations.append(Delete(self._stale))
        self._written = wanted  # before the answer: what was written may have vanished again when that comes
        try:
            await self._store.txn([], operations)
        except LeaseLost:
            self._written = None
            return 0.2  # the lease's thread will say so in a moment
        except StoreError as error:
            self._written = None
            log.debug("not registered yet state=%s error=%r", wanted, str(error))
            return 0.5
        self._stale = ""
        log.info("registered slot=%s state=%s", self._slot, wanted)
        return None
