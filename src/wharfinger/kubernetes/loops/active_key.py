"""The key `active` in etcd, by which one worker lets its whole installation bind.

With an election the key hangs on a lease of its own. It is renewed only while it would end in time without its holder:
`scheduling.effects.binding.right_to_bind` has the sum. Without one it has no lease, and stays when its worker ends. The
loop that decides when it is put and deleted is `holding_lease`.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable

from wharfinger.errors import WharfingerError
from wharfinger.etcd import keys
from wharfinger.etcd.store import Compare, Delete, Get, KeyValue, Lease, Put
from wharfinger.kubernetes.effects.adopting import NotTheImporter
from wharfinger.objects.documents.times import rfc3339
from wharfinger.process.parts import ProcessParts
from wharfinger.scheduling.contracts import upstream_records
from wharfinger.scheduling.effects.binding.right_to_bind import ActiveTerms
from wharfinger.scheduling.model.promises import MayBind

log = logging.getLogger(__name__)

GIVE_BACK_WITHIN = 2.0
"""Seconds that giving up the lease may take; it ends by itself soon after."""


class ActiveKey:
    """`active`, as one importer keeps it."""

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
        record = upstream_records.stored(MayBind(self._holder, rfc3339(self._process.utc_now())))
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
            async with asyncio.timeout(GIVE_BACK_WITHIN):
                await lease.revoke()
