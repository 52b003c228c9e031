"""Holding the Lease of the Kubernetes API for the installation, and `active` in etcd while it is held.

Nothing is bound before everything has been copied: `active` comes after the first `imported`. The Lease is taken before
that only where earlier copies are resumed, so that another scheduler does not take it meanwhile.

`active` hangs on the same lease of etcd as `importer`: an importer that is gone for eight seconds takes the right to
bind with it, before the Lease of the API can pass to another scheduler. A worker that cannot renew that Lease deletes
`active` and ends its process, as kube-scheduler does; another worker of the installation goes on.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

from wharfinger.contracts import upstream_records
from wharfinger.contracts.records import InstanceRecord
from wharfinger.engine.parts import ProcessParts
from wharfinger.engine.upstream.adopting import NotTheImporter
from wharfinger.engine.upstream.election import Election, HoldState
from wharfinger.errors import LeaderElectionLost, StoreError, UpstreamError, WharfingerError
from wharfinger.manifests.times import rfc3339
from wharfinger.model.promises import MayBind
from wharfinger.registry import keys
from wharfinger.registry.store import Compare, Delete, Get, Lease, Put
from wharfinger.settings import ElectionSettings

log = logging.getLogger(__name__)

T = TypeVar("T")

LEASE = "lease"
"""Where troubles of the Lease are noted."""
GIVE_BACK_WITHIN = 5.0
"""Seconds that giving the Lease back may take when the process ends."""


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
        pause: Callable[[float], Awaitable[None]],
    ) -> None:
        """`election`: None = this installation binds whenever it runs; `holder`: this worker, `<pid>@<host>`;
        `trouble`: where to note what is wrong, under `lease`.
        """
        self._store = process.store
        self._process = process
        self._election = election
        self._terms = terms
        self._holder = holder
        self._trouble = trouble
        self._pause = pause
        self._active = False
        self._renewed_at = 0.0
        """When the last renewal that succeeded began."""

    async def hold(self, epoch: int, lease: Lease, copied: asyncio.Event, *, resumes: bool) -> None:
        """Keep `active` while this installation may bind; ends only by an error.

        `copied`: whether everything has been copied in this epoch; `resumes`: whether an earlier importer had copied
        everything. Raises `LeaderElectionLost`, `NotTheImporter`, `UpstreamWentBack` and `StoreError`.
        """
        self._active = False
        if self._election is None:
            await copied.wait()
            await self._activate(epoch, 0)
            await asyncio.Event().wait()
            return
        await self._deactivate(epoch)  # what a worker without election left
        if not resumes:
            await copied.wait()
        terms = self._terms
        while True:
            began = self._process.clock()
            within = self._renewed_at + terms.renew_deadline - began if self._active else terms.renew_deadline
            state = await self._try_to_hold(self._election, within)
            if state is HoldState.HELD:
                self._renewed_at = began  # others count from when it was written, which was later
                self._trouble.pop(LEASE, None)
            left = self._renewed_at + terms.renew_deadline - self._process.clock()
            if self._active and (state is HoldState.ANOTHERS or left <= 0):
                await self._lose(epoch, self._election)
            if state is HoldState.HELD and not self._active:
                await self._at_most(terms.retry_period, copied.wait())
                if copied.is_set() and self._process.clock() - began < terms.renew_deadline:
                    await self._activate(epoch, lease.id)
                continue
            await self._pause(min(terms.retry_period, left) if self._active else terms.retry_period)

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
        self._active = False
        try:
            await self._deactivate(epoch)
        except StoreError as error:  # it goes with the lease of etcd; this process must end all the same
            log.warning("may_bind_not_deleted effect=expires error=%r", str(error))
        why = self._trouble.get(LEASE) or f"{election.holder or 'another process'} holds the Lease"
        raise LeaderElectionLost(f"leader election lost: {why}")

    async def _activate(self, epoch: int, lease_id: int) -> None:
        record = upstream_records.stored(MayBind(self._holder, rfc3339(self._process.utc_now())))
        fence = Compare(keys.IMPORTER, "mod", epoch)
        answer = await self._store.txn(
            [fence, Compare(keys.ACTIVE, "create", 0)], [Put(keys.ACTIVE, record, lease_id)], [Get(keys.IMPORTER)]
        )
        if not answer.succeeded and not fence.holds(answer.reads[0]):
            raise NotTheImporter
        self._active = True
        log.info("may_bind holder=%s revision=%d", self._holder, answer.revision)

    async def _deactivate(self, epoch: int) -> bool:
        """Whether this worker is the importer still; then nothing may be bound now."""
        return (await self._store.txn([Compare(keys.IMPORTER, "mod", epoch)], [Delete(keys.ACTIVE)])).succeeded

    async def give_back(self, epoch: int) -> None:
        """The process ends: where this was the last worker, another scheduler may take the Lease at once."""
        if not self._active or self._election is None:
            return
        with contextlib.suppress(TimeoutError, WharfingerError):
            async with asyncio.timeout(GIVE_BACK_WITHIN):
                if await self._is_last() and await self._deactivate(epoch):
                    await self._election.release()

    async def _is_last(self) -> bool:
        """Whether no other worker is registered; this one may be, or may have left already."""
        async for page in self._store.list(keys.INSTANCES):
            for kv in page.items:
                try:
                    record = InstanceRecord.model_validate_json(kv.value)
                except ValueError:
                    return False
                if f"{record.pid}@{record.host}" != self._holder:
                    return False
        return True


def note(troubles: dict[str, str], what: str, why: str) -> None:
    """Log a trouble once, until it is another one."""
    if troubles.get(what) != why:
        log.warning("upstream_trouble effect=retried what=%s error=%r", what, why)
    troubles[what] = why
