"""This worker's registration among the others: a key under a lease.

The lease's thread stops renewing when the event loop hangs, so that others take over from a worker
that is alive but does nothing. A lease that is lost is granted anew, with a registration of its own.

The dynamic configuration in force has a record of its own beside it, under the same lease. The mod revision of the
registration shows since when a worker is ready, and drains compare it, so only its own changes may rewrite it.

A worker that an agent started registers only under its grant. Each write compares the grant as it was read just before,
so a worker that was cut off cannot register again after it was fenced.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import Callable, Coroutine, Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

from wharfinger.errors import InvalidObject, LeaseLost, StoreError
from wharfinger.etcd import keys
from wharfinger.etcd.store import Compare, Delete, Lease, Operation, Put
from wharfinger.fleet.model.fleet import InstanceState
from wharfinger.pressure import delays
from wharfinger.process.parts import ProcessParts
from wharfinger.process.records import ConfigStatusRecord, InstanceRecord
from wharfinger.process.registration import SignsOfLife
from wharfinger.programs.grants import OwnGrant
from wharfinger.settings import LeaseSettings, WorkerSettings

log = logging.getLogger(__name__)

T = TypeVar("T")

SHARDED = "sharded"
SOON = 1.0
"""Seconds within which servers usually answer: a shorter wait is not logged."""


@dataclass(frozen=True, slots=True)
class Place:
    """Who registers, and as what."""

    tenant: str
    slot: str
    """Empty: `hand-<host>-<lease id>`, another one with each lease."""
    incarnation: int
    """Of a worker started by hand, 1."""
    record: InstanceRecord
    """As it is at the start."""


def place_of(settings: WorkerSettings, health_url: str, scheduler_names: Iterable[str]) -> Place:
    """This process's place; `scheduler_names`: the names of its profiles."""
    grant = settings.grant
    record = InstanceRecord(
        state="starting",
        host=socket.gethostname(),
        pid=os.getpid(),
        health=health_url,
        revision="" if grant is None else str(grant.revision),
        dispatches=settings.dispatch == SHARDED,
        scheduler_names=tuple(sorted(scheduler_names)),
    )
    if grant is None:
        return Place(settings.tenant, settings.slot, 1, record)
    return Place(settings.tenant, str(grant.slot), grant.incarnation, record)


class RegistrationDetails(NamedTuple):
    """What the registration says beside who it is."""

    state: InstanceState
    waiting_for: str = ""


class Membership:
    """Holds the lease and keeps the registration at the wanted state."""

    def __init__(
        self,
        process: ProcessParts,
        place: Place,
        settings: LeaseSettings,
        *,
        changed: Callable[[], None] = lambda: None,
        grant: OwnGrant | None = None,
    ) -> None:
        """`changed` is called on the event loop whenever `held` changes; `grant`: None = started by hand."""
        self._grant = grant
        self._store = process.store
        self._place = place
        self._settings = settings
        self._rng = process.rng
        self._changed = changed
        self._lease: Lease | None = None
        self._slot = ""
        self._stale = ""
        """The slot of an earlier registration: etcd may keep its lost lease for a while (it renews leases when it
        starts), and a member that is gone would keep its share of the pods."""
        self._wanted = RegistrationDetails("starting")
        self._written: RegistrationDetails | None = None
        self._configured = ConfigStatusRecord()
        self._told: ConfigStatusRecord | None = None
        """What etcd was told of the configuration."""
        self._news = asyncio.Event()
        self._signs = SignsOfLife(process.clock, settings.stall)
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
    def incarnation(self) -> int:
        """Which life of the slot this worker is."""
        return self._place.incarnation

    def want(self, state: InstanceState, waiting_for: str = "") -> None:
        """Be registered in this state from now on; `waiting_for`: one line, what it misses to be ready."""
        wanted = RegistrationDetails(state, waiting_for)
        if wanted != self._wanted:
            self._wanted = wanted
            self._news.set()

    def describe(self, configured: ConfigStatusRecord) -> None:
        """Say which dynamic configuration is in force, and what is wrong."""
        if configured != self._configured:
            self._configured = configured
            self._news.set()

    def vanished(self, slot: str, incarnation: int) -> None:
        """This registration is gone from etcd: it is written again where it is ours and the lease is held."""
        if slot == self.slot and incarnation == self.incarnation:
            self._written = self._told = None
            self._news.set()

    async def run(self) -> None:
        """Register, and register again whenever the lease is lost, until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._signs.run())
            group.create_task(self._hold())

    async def leave(self) -> None:
        """Give the lease back for good; the registration vanishes with it."""
        self._leaving = True
        lease, self._lease = self._lease, None
        if lease is not None:
            await lease.revoke()

    async def _hold(self) -> None:
        while not self._leaving:
            await self._acquire()
            self._changed()
            reason = await self._keep()
            self._lease = None
            if not self._leaving:
                log.warning("lease_lost effect=register_again slot=%s reason=%r", self._slot, reason)
            self._changed()

    async def _acquire(self) -> None:
        for delay in delays(0.2, 5.0, self._rng):
            try:
                lease = await self._store.grant_lease(self._settings.ttl, alive=self._signs.alive)
            except StoreError as error:
                log.debug("lease_not_granted effect=retried error=%r", str(error))
                await asyncio.sleep(delay)
                continue
            self._stale, self._slot = self._slot, self._place.slot or f"hand-{self._place.record.host}-{lease.id:x}"
            self._lease, self._written, self._told = lease, None, None
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
        """Write what is not as wanted; seconds to the next try, None when done."""
        self._news.clear()
        wanted, configured = self._wanted, self._configured
        registers, tells = wanted != self._written, configured != self._told
        if not (registers or tells) or lease.lost:
            return None
        try:
            compares = await self._permission(wanted)
        except (StoreError, InvalidObject) as error:
            log.debug("not_registered reason=grant_unreadable error=%r", str(error))
            return 0.5
        if compares is None:
            return None  # the worker is about to be ended, or told to drain
        operations: list[Operation] = []
        if registers:
            operations.append(Put(self._keys(self._slot)[0], self._record(wanted).to_bytes(), lease=lease.id))
            self._written = wanted  # before the answer: what was written may have vanished again when that comes
        if tells:
            operations.append(Put(self._keys(self._slot)[1], configured.to_bytes(), lease=lease.id))
            self._told = configured
        if self._stale not in ("", self._slot):
            operations += [Delete(key) for key in self._keys(self._stale)]
        again = await self._commit(compares, operations)
        if again is not None:  # only what was in it: the other one stands as it is
            self._written = None if registers else self._written
            self._told = None if tells else self._told
            return again
        self._stale = ""
        if registers:
            log.info("registered slot=%s state=%s waiting_for=%r", self._slot, wanted.state, wanted.waiting_for)
        return None

    async def _commit(self, compares: list[Compare], operations: list[Operation]) -> float | None:
        """Seconds until it should be tried again; None when it is done."""
        try:
            answer = await self._store.txn(compares, operations)
        except LeaseLost:
            return 0.2  # the lease's thread will say so in a moment
        except StoreError as error:
            log.debug("not_registered effect=retried state=%s error=%r", self._wanted.state, str(error))
            return 0.5
        return None if answer.succeeded else 0.0  # the grant moved since it was read

    def _keys(self, slot: str) -> tuple[str, str]:
        """Of the registration, and of what is said of the configuration."""
        named = self._place.tenant, slot, self.incarnation
        return keys.instance(*named), keys.config_status(*named)

    def _record(self, said: RegistrationDetails) -> InstanceRecord:
        of_agent = {"host": self._grant.host} if self._grant is not None else {}
        return self._place.record.model_copy(update={**said._asdict(), **of_agent})

    async def _permission(self, wanted: RegistrationDetails) -> list[Compare] | None:
        """What the write compares: the grant, as it is now; None when it does not allow the write.

        Raises `StoreError`, `InvalidObject`.
        """
        if self._grant is None:
            return []
        granted = await self._grant.read()
        if granted is None or (self._grant.draining and wanted.state != "draining"):
            return None
        return [Compare(self._grant.key, "mod", granted.mod_revision)]


async def registered_while(membership: Membership, waiting_for: str, work: Coroutine[Any, Any, T]) -> T:
    """The work's result. Where it takes long, the registration says meanwhile what is waited for.

    So that a rollout can tell why a newcomer is not ready before it has come to its loops, which register anew.
    """
    membership.want("starting", waiting_for)
    registering = asyncio.create_task(_later(membership))
    try:
        return await work
    finally:
        registering.cancel()
        await asyncio.gather(registering, return_exceptions=True)
        with suppress(StoreError):
            await membership.leave()


async def _later(membership: Membership) -> None:
    await asyncio.sleep(SOON)
    await membership.run()
