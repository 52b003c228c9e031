"""Holding the Lease of the Kubernetes API for the installation, and the key `active` in etcd while it is held.

By `active` one worker lets its whole installation bind. Nothing is bound before everything has been copied: `active`
comes after the first `imported`. The Lease is taken before that only where an earlier importer had copied everything,
so that another scheduler does not take it meanwhile.

::

    renewed ── not renewed for `gone_after` ──► `active` is deleted ── renewed again ──► put anew
                                                     └── not renewed for renewDeadline ──► the process ends

A worker that cannot renew the API's Lease within renewDeadline ends its process, as kube-scheduler does; another worker
of the installation goes on. Without an election `active` has no lease, and stays when its worker ends.
`scheduling.effects.binding.right_to_bind` has the sum of times.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from wharfinger.errors import LeaderElectionLost, StoreError, UpstreamError, WharfingerError
from wharfinger.etcd import keys
from wharfinger.etcd.store import Compare, Delete, Get, KeyValue, Lease, Put
from wharfinger.kubernetes.effects.adopting import NotTheImporter
from wharfinger.kubernetes.effects.election import Election, HoldState
from wharfinger.objects.documents.times import rfc3339
from wharfinger.process.parts import ProcessParts
from wharfinger.process.records import InstanceRecord
from wharfinger.scheduling.contracts import promise_records
from wharfinger.scheduling.effects.binding.right_to_bind import ActiveTerms
from wharfinger.scheduling.model.promises import MayBind
from wharfinger.settings import ElectionSettings

REVOKE_WITHIN = 2.0
"""Seconds that giving up the lease may take; it ends by itself soon after."""

log = logging.getLogger(__name__)

T = TypeVar("T")
LEASE, RIGHT = "lease", "active"
"""Where troubles of the Lease are noted, and of the key in etcd."""
GIVE_BACK_WITHIN = 5.0
"""Seconds that giving the Lease back may take when the process ends."""
SAY_AFTER = 5.0
"""Seconds without the right to bind after which that is said."""


class ActiveKey:
    """`active`, as one importer keeps it.

    With an election the key hangs on a lease of its own, so that a holder that dies, or is cut off, takes `active` with
    it before the API's Lease can pass to another scheduler.
    """

    def __init__(self, process: ProcessParts, holder: str) -> None:
        """`holder`: this worker, `<pid>@<host>`."""
        self._store = process.store
        self._process = process
        self._holder = holder
        self._there = False
        self._lease: Lease | None = None

    @property
    def there(self) -> bool:
        """Whether this worker has put it, and its lease is not lost."""
        return self._there and (self._lease is None or not self._lease.lost)

    async def put(self, epoch: int) -> None:
        """Put it without a lease, where there is none without. Raises `NotTheImporter` and `StoreError`."""
        there = await self._put(epoch, [Compare(keys.ACTIVE, "create", 0)], 0)
        if there is not None and there.lease:  # of a worker with an election, with whose lease it would go
            await self._put(epoch, [], 0)

    async def put_leased(self, epoch: int, terms: ActiveTerms, age: Callable[[], float]) -> str:
        """Put it under a new lease; why it was not put, empty when it was.

        `age`: seconds since the last renewal of the API's Lease began; any thread calls it. Raises as `put`.
        """
        await self.release()
        granted: list[Lease] = []
        lease = await self._store.grant_lease(
            terms.ttl, alive=lambda: terms.may_keep(age(), granted[0].ttl if granted else terms.ttl)
        )
        granted.append(lease)
        self._lease = lease
        if not terms.may_put(age(), lease.ttl):
            await self.release()
            return (
                f"etcd granted a lease of {lease.ttl:g} s, which may not end within {terms.ended_by:g} s after the "
                "last renewal of the Lease"
            )
        await self._put(epoch, [], lease.id)
        return ""

    async def _put(self, epoch: int, where: list[Compare], lease_id: int) -> KeyValue | None:
        """Put it; what is there instead, where `where` does not hold."""
        record = promise_records.stored(MayBind(self._holder, rfc3339(self._process.utc_now())))
        fence = Compare(keys.IMPORTER, "mod", epoch)
        answer = await self._store.txn(
            [fence, *where], [Put(keys.ACTIVE, record, lease_id)], [Get(keys.IMPORTER), Get(keys.ACTIVE)]
        )
        if not answer.succeeded and not fence.holds(answer.reads[0]):
            raise NotTheImporter
        self._there = True
        log.info("may_bind holder=%s revision=%d", self._holder, answer.revision)
        return None if answer.succeeded else answer.reads[1]

    async def delete(self, epoch: int) -> bool:
        """Delete it, whoever put it: whether this worker is the importer still, so that nothing may be bound now.

        Raises `StoreError`; then it ends with its lease.
        """
        self._there = False
        return (await self._store.txn([Compare(keys.IMPORTER, "mod", epoch)], [Delete(keys.ACTIVE)])).succeeded

    async def release(self) -> None:
        """End the lease, and with it the key; what cannot be told to etcd ends by itself."""
        lease, self._lease = self._lease, None
        if lease is None:
            return
        self._there = False
        with contextlib.suppress(TimeoutError, WharfingerError):
            async with asyncio.timeout(REVOKE_WITHIN):
                await lease.revoke()


class LeaseHolding:
    """Keeps `active` for one worker while it is the importer."""

    def __init__(
        self,
        process: ProcessParts,
        election: Election | None,
        terms: ElectionSettings,
        *,
        holder: str,
        trouble: dict[str, str],
    ) -> None:
        """`election`: None = this installation binds whenever it runs; `holder`: this worker, `<pid>@<host>`;
        `trouble`: where to note what is wrong, under `lease` and `active`.
        """
        self._store = process.store
        self._clock = process.lease_clock
        self._election = election
        self._terms = terms
        self._lives = ActiveTerms.of(terms)
        self._holder = holder
        self._trouble = trouble
        self._pause = process.pause
        self._key = ActiveKey(process, holder)
        self._holds = False
        """Whether `active` was put in this epoch, and the Lease was not lost since."""
        self._renewed_at = float("-inf")
        """When the last renewal that succeeded began."""
        self._lacks_since: float | None = None
        """Since when `active` has not been there, though this installation wants to bind."""

    async def forbid(self, epoch: int) -> None:
        """Nothing may be bound until `hold` allows it. Raises `NotTheImporter` and `StoreError`."""
        if not await self._key.delete(epoch):
            raise NotTheImporter

    async def hold(self, epoch: int, copied: asyncio.Event, *, resumes: bool) -> None:
        """Keep `active` while this installation may bind; ends only by an error.

        `copied`: whether everything has been copied in this epoch; `resumes`: whether an earlier importer had copied
        everything. Raises `LeaderElectionLost`, `NotTheImporter`, `ApiWentBack` and `StoreError`.
        """
        self._holds, self._renewed_at, self._lacks_since = False, float("-inf"), self._clock()
        try:
            if self._election is None:
                await self._hold_always(epoch, copied)
            else:
                await self._key.delete(epoch)  # what a worker without election left
                if not resumes:
                    await copied.wait()
                while True:
                    await self._renew(epoch, self._election, copied)
        finally:
            self._lacks_since = None
            await self._key.release()

    async def _hold_always(self, epoch: int, copied: asyncio.Event) -> None:
        await copied.wait()
        await self._key.put(epoch)
        self._lacks_since = None
        await asyncio.Event().wait()

    async def _renew(self, epoch: int, election: Election, copied: asyncio.Event) -> None:
        """One try to hold the Lease, what it means for `active`, and the pause until the next one."""
        terms = self._terms
        began = self._clock()
        state = await self._try_to_hold(election, max(0.0, self._left) if self._holds else terms.renew_deadline)
        if state is HoldState.HELD:
            self._renewed_at = began  # others count from when it was written, which was later
        if state in (HoldState.HELD, HoldState.ANOTHERS):
            self._trouble.pop(LEASE, None)
        if self._holds and (state is HoldState.ANOTHERS or self._age() >= terms.renew_deadline):
            await self._lose(epoch, election)
        if state is HoldState.HELD and not self._key.there:
            if not copied.is_set():
                await self._at_most(terms.retry_period, copied.wait())
                return  # renewed at once, because the copies may have taken long
            if self._lives.may_put(self._age(), self._lives.ttl):
                await self._activate(epoch)
            else:
                note(self._trouble, RIGHT, "renewing the Lease takes too long to bind under it")
        elif self._key.there and self._age() >= self._lives.gone_after:
            await self._key.delete(epoch)
        self._note_lack(state)
        await self._pause(min(terms.retry_period, self._left) if self._holds else terms.retry_period)

    @property
    def _left(self) -> float:
        """Seconds until something has to be done where the Lease is not renewed."""
        return (self._lives.gone_after if self._key.there else self._terms.renew_deadline) - self._age()

    def _age(self) -> float:
        """Seconds since the last renewal began."""
        return self._clock() - self._renewed_at

    async def _activate(self, epoch: int) -> None:
        why = await self._key.put_leased(epoch, self._lives, self._age)
        self._holds = self._holds or not why
        if why:
            note(self._trouble, RIGHT, why)
        else:
            self._trouble.pop(RIGHT, None)

    def _note_lack(self, state: HoldState | None) -> None:
        if self._key.there or state is HoldState.ANOTHERS:  # a standby lacks nothing
            self._lacks_since = None
        elif self._lacks_since is None:
            self._lacks_since = self._clock()
            log.warning("may_not_bind holder=%s lease_renewed_seconds_ago=%.1f", self._holder, self._age())

    @property
    def hindered(self) -> str:
        """Why this installation has not been able to bind for some seconds; empty where it may, and of a standby."""
        if self._lacks_since is None or self._clock() - self._lacks_since < SAY_AFTER:
            return ""
        return self._trouble.get(LEASE) or self._trouble.get(RIGHT) or "the Lease could not be taken yet"

    async def _at_most(self, seconds: float, waited_for: Coroutine[Any, Any, T]) -> T | None:
        """What it returns or raises; None when it has not ended after so many seconds."""
        asked = asyncio.create_task(waited_for)
        waiting = asyncio.ensure_future(self._pause(seconds))
        try:
            await asyncio.wait({asked, waiting}, return_when=asyncio.FIRST_COMPLETED)
            return asked.result() if asked.done() else None
        finally:
            for task in (asked, waiting):
                task.cancel()
            await asyncio.gather(asked, waiting, return_exceptions=True)

    async def _try_to_hold(self, election: Election, within: float) -> HoldState | None:
        """One try; None when the API did not answer."""
        try:
            state = await self._at_most(within, election.attempt())
        except UpstreamError as error:
            note(self._trouble, LEASE, str(error))
            return None
        if state is None and LEASE not in self._trouble:  # what was answered before says more than how long this was
            note(self._trouble, LEASE, f"the Lease was not answered within {within:.0f} s")
        if state is HoldState.REFUSED:
            note(self._trouble, LEASE, election.trouble)
        return state

    async def _lose(self, epoch: int, election: Election) -> None:
        """Nothing is bound any more from here on."""
        self._holds = False
        try:
            await self._key.delete(epoch)
        except StoreError as error:  # it ends with its lease; this process must end all the same
            log.warning("may_bind_not_deleted effect=expires error=%r", str(error))
        why = self._trouble.get(LEASE) or f"{election.holder or 'another process'} holds the Lease"
        raise LeaderElectionLost(f"leader election lost: {why}")

    async def give_back(self, epoch: int) -> None:
        """The process ends: where this was the last worker, another scheduler may take the Lease at once."""
        if not self._holds or self._election is None:
            return
        with contextlib.suppress(TimeoutError, WharfingerError):
            async with asyncio.timeout(GIVE_BACK_WITHIN):
                if await self._is_last() and await self._key.delete(epoch):
                    await self._election.release()

    async def _is_last(self) -> bool:
        """Whether no other worker is registered; this one may be, or may have left already."""
        async for kv in self._store.each(keys.INSTANCES):
            record = InstanceRecord.from_bytes(kv.value)
            if record is None or f"{record.pid}@{record.host}" != self._holder:
                return False
        return True


def note(troubles: dict[str, str], what: str, why: str) -> None:
    """Log a trouble once, until it is another one."""
    if troubles.get(what) != why:
        log.warning("upstream_trouble effect=retried what=%s error=%r", what, why)
    troubles[what] = why
