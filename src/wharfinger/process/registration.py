"""A process's name among those of its kind: a key under a lease, put only where no other process has it.

Two agents of one host would share a queue and start each other's instances, and two of one member would report for each
other; so the second one does not start. A record that is lost (its lease, or the key) is written again, unless another
process came for the name meanwhile: then the former one ends, for it is the second now. The lease's thread stops
renewing when the event loop hangs, as for workers (`programs.membership`, whose records change all the time).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import orjson

from wharfinger.errors import LeaseLost, StoreError, UsageError
from wharfinger.etcd.store import Compare, Delete, Get, KeyValue, Lease, Operation, Put
from wharfinger.pressure import delays
from wharfinger.process.parts import ProcessParts
from wharfinger.process.records import Record
from wharfinger.settings import LeaseSettings

log = logging.getLogger(__name__)

SLACK = 5.0
"""Seconds beyond the lease's time that a name may still be taken by an agent that is gone."""
LOOK_EVERY = 2.0
"""Seconds between two looks at whether the record is still there."""


TICK = 0.5
"""Seconds between two signs of the event loop's life, at most."""


@dataclass(frozen=True, slots=True)
class LeasedName:
    """What a process is called."""

    kind: str
    """In lower case, for messages: `host`."""
    name: str
    key: str
    option: str
    """By which another name is chosen."""
    also: Sequence[Operation] = ()
    """What is written with the record."""
    stands_by: bool = False
    """Whether it waits as long as another process has the name, instead of giving up."""

    @property
    def taken(self) -> str:
        """What is said where another process has the name."""
        return "runs" if self.kind == "hub" else "has an agent"


class SignsOfLife:
    """Signs of the event loop, by which a lease is kept alive: a process that hangs is replaced as one that died."""

    def __init__(
        self, clock: Callable[[], float], stall: float, *, pause: Callable[[float], Awaitable[None]] = asyncio.sleep
    ) -> None:
        """`stall`: seconds without a sign after which the loop counts as hanging."""
        self._clock = clock
        self._stall = stall
        self._pause = pause
        self.give()

    def give(self) -> None:
        """The loop goes on now."""
        self._given = self._clock()

    async def run(self) -> None:
        """Give a sign ten times within the stall, at least twice a second, until cancelled."""
        while True:
            self.give()
            await self._pause(min(TICK, self._stall / 10))

    def alive(self) -> bool:
        """Whether the loop goes on; asked on the lease's thread."""
        return self._clock() - self._given < self._stall


class SharedLease(Protocol):
    """One lease for many names of one process."""

    async def lease(self) -> Lease:
        """The lease; a new one where it was lost. Raises the store's errors."""

    def seen(self, key: str) -> KeyValue | None:
        """A key as it was seen a short time ago; None = not seen."""


class Registration:
    """Holds the lease and keeps the record."""

    def __init__(
        self,
        process: ProcessParts,
        named: LeasedName,
        record: Record,
        settings: LeaseSettings,
        shared: SharedLease | None = None,
    ) -> None:
        """`record` distinguishes this process from every other: it has the pid, the boot's id and the time.

        `shared`: under which lease the record is put; None = one of its own.
        """
        self._store = process.store
        self._named = named
        self._key = named.key
        self._value = record.to_bytes()
        self._settings = settings
        self._clock = process.clock
        self._rng = process.rng
        self._shared = shared
        self._lease: Lease | None = None
        self._written = 0
        """Mod revision of the record, where this wrote it."""
        self._signs = SignsOfLife(process.clock, settings.stall)
        self._taken: float | None = None
        """Since when another process has the name."""
        self.registered = False
        """Whether the record is there, as far as we know."""

    async def claim(self) -> None:
        """Register for the first time. Raises `UsageError` when another process keeps the name."""
        for delay in delays(0.2, 1.0, self._rng):
            self._refuse_in_time(await self._try())
            if self.registered:
                return
            await asyncio.sleep(delay)

    async def run(self) -> None:
        """Keep the record until cancelled. Raises `UsageError` when another process came for the name, and stays."""
        ticking = asyncio.create_task(self._signs.run())
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
        if lease is not None and self._shared is None:
            await lease.revoke()
        elif lease is not None:
            found = (await self._store.get(self._key)).kv
            if found is not None and self._is_ours(found):
                await self._store.txn([Compare(self._key, "mod", found.mod_revision)], [Delete(self._key)])

    def _refuse_in_time(self, other: KeyValue | None) -> None:
        """Raises `UsageError` when another process has had the name for longer than one that is gone could."""
        if other is None:
            if self.registered:
                self._taken = None
        elif self._taken is None:
            self._taken = self._clock()
            log.warning(
                "name_taken effect=waiting kind=%s name=%s by=%s",
                self._named.kind,
                self._named.name,
                _who(other),
            )
        elif not self._named.stands_by and self._clock() >= self._taken + self._settings.ttl + SLACK:
            named = self._named
            raise UsageError(
                f"{named.kind} {named.name} {named.taken} already ({_who(other)}): choose another --{named.option}, "
                "or stop it"
            )

    async def _try(self) -> KeyValue | None:
        """Write the record if it is not there; another process's record where that has the name."""
        self._signs.give()
        try:
            return await self._write(await self._own_lease())
        except LeaseLost:
            self.registered = False
        except StoreError as error:
            log.debug("name_not_registered effect=retried kind=%s error=%r", self._named.kind, str(error))
            self._taken = None  # leases live on while etcd is away: who had the name may be gone, and still seen
            self.registered = self.registered and self._lease is not None and not self._lease.lost
        return None

    async def _own_lease(self) -> Lease:
        if self._lease is None or self._lease.lost:
            if self._lease is not None:
                log.warning("lease_lost effect=register_again kind=%s name=%s", self._named.kind, self._named.name)
            self._lease, self.registered = None, False
            if self._shared is not None:
                self._lease = await self._shared.lease()
            else:
                self._lease = await self._store.grant_lease(self._settings.ttl, alive=self._signs.alive)
        return self._lease

    async def _write(self, lease: Lease) -> KeyValue | None:
        seen = self._shared.seen(self._key) if self._shared is not None else None
        if seen is not None and (seen.lease, seen.mod_revision) == (lease.id, self._written):
            self.registered = True
            return None
        found = (await self._store.get(self._key)).kv
        if found is not None and found.lease == lease.id:
            self.registered = True
            return None
        if found is not None and not self._is_ours(found):
            self.registered = False
            return found
        before = found.mod_revision if found is not None else 0  # ours under a lease that was lost is written over
        put = Put(self._key, self._value, lease=lease.id)
        result = await self._store.txn([Compare(self._key, "mod", before)], [put, *self._named.also], [Get(self._key)])
        self.registered = result.succeeded
        if result.succeeded:
            self._written = result.revision
            log.info("name_registered kind=%s name=%s", self._named.kind, self._named.name)
            return None
        return result.reads[0] if result.reads else None

    def _is_ours(self, kv: KeyValue) -> bool:
        return kv.value == self._value


def _who(kv: KeyValue) -> str:
    try:
        record = orjson.loads(kv.value)
        return f"pid {int(record['pid'])} since {str(record['time'])[:40]}"
    except (ValueError, KeyError, TypeError):
        return "its record cannot be read"
