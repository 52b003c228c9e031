"""`MemoryStore`: a `Store` in memory, with true revisions, watches, leases and compaction.

For tests, simulations and trying things out. Time stands still until `advance` is called, unless a
clock is given. `client()` gives another client of the same store. Each client has switches of its
own for what may go wrong on the way to a store:

    store.fail_next(applied=True)       the next write happens, but its answer gets lost
    store.fail_reads(2)                 the next two reads get no answer
    store.before_txn = hook             runs before each write is looked at, say to be faster
    store.after_txn = hook              runs after it happened and before its caller knows
    store.pause_watches()               events wait until `resume_watches()`

and the store itself can `compact`, `restore` an older state, and `drop_lease`.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, aclosing

from wharfinger.errors import Compacted, RevisionWentBack, StoreError, Unavailable
from wharfinger.etcd.store import (
    Condition,
    Event,
    Get,
    Lease,
    Operation,
    Page,
    Read,
    Store,
    TxnResult,
    WatchBatch,
)
from wharfinger.testing.memory_history import History
from wharfinger.testing.memory_leases import MemoryLease, MemoryLeases

TxnHook = Callable[[Sequence[Condition], Sequence[Operation]], Awaitable[None] | None]
"""Given a transaction's compares and the operations of its success; may be a coroutine function.

`put` and `delete` are transactions too, without compares.
"""


class _Shared:
    """What all clients of one store have in common."""

    def __init__(self, clock: Callable[[], float], max_txn_ops: int) -> None:
        self.history = History(max_txn_ops)
        self.leases = MemoryLeases(self.history, clock)
        self.changed = asyncio.Event()

    def announce(self) -> None:
        """Wake all watches; the next change has an event of its own."""
        changed, self.changed = self.changed, asyncio.Event()
        changed.set()


class MemoryStore(Store):
    """One client of a store in memory; all its clients live on one event loop.

    `max_txn_ops` holds for each list of a transaction, as etcd's `--max-txn-ops`; `clock` is in
    seconds and only leases look at it.
    """

    def __init__(self, *, clock: Callable[[], float] = lambda: 0.0, max_txn_ops: int = 128) -> None:
        self._shared = _Shared(clock, max_txn_ops)
        self._reset()

    def _reset(self) -> None:
        self._closed = False
        self._paused = False
        self._seen = 0
        self._lost_writes: list[tuple[bool, StoreError]] = []
        self._lost_reads = 0
        self.before_txn: TxnHook | None = None
        self.after_txn: TxnHook | None = None

    def client(self) -> MemoryStore:
        """Another client of the same store, with faults of its own."""
        other = object.__new__(type(self))
        other._shared = self._shared
        other._reset()
        return other

    @property
    def revision(self) -> int:
        """The store's newest revision."""
        return self._shared.history.revision

    # Faults and time

    def fail_next(self, *, applied: bool, error: StoreError | None = None, times: int = 1) -> None:
        """Let the next writes of this client fail, having happened or not.

        Without an error they raise `Unavailable(maybe_applied=True)`: the caller cannot tell.
        """
        lost = error if error is not None else Unavailable("no answer from the store", maybe_applied=True)
        self._lost_writes += [(applied, lost)] * times

    def fail_reads(self, times: int = 1) -> None:
        """Let the next reads of this client (`get`, and each page of `list`) raise `Unavailable`."""
        self._lost_reads += times

    def pause_watches(self) -> None:
        """Hold back all watches of this client."""
        self._paused = True

    def resume_watches(self) -> None:
        """Let the watches of this client go on."""
        self._paused = False
        self._shared.announce()

    def compact(self, revision: int) -> None:
        """Forget what was before `revision`. Raises `Compacted`, `RevisionFuture`."""
        self._shared.history.compact(revision)
        self._shared.announce()

    def restore(self, revision: int, *, bump: int = 0) -> None:
        """Go back to an older revision, as from a backup; clients that saw more will notice.

        `bump`: as documented, with so many revisions left out and all before compacted: watches have to list again.
        """
        self._shared.history.restore(revision, bump=bump)
        self._shared.announce()

    def advance(self, seconds: float) -> None:
        """Let time pass: leases are renewed while their owners are alive, and expire otherwise."""
        self._shared.leases.advance(seconds)
        self._shared.announce()

    def drop_lease(self, lease: int) -> None:
        """Let a lease expire right now."""
        self._shared.leases.drop(lease, "expired")
        self._shared.announce()

    # The store

    async def get(self, key: str, *, revision: int = 0) -> Read:
        """Read one key, now at revision 0, else as it was at `revision`."""
        await self._arrive(reads=True)
        kv = self._shared.history.read(key, revision)
        return Read(kv, self._answered())

    async def list(self, prefix: str, *, revision: int = 0, page_size: int = 500) -> AsyncIterator[Page]:
        """All keys with the prefix, page by page, all of one revision; at least one page."""
        after: str | None = None
        more = True
        while more:
            await self._arrive(reads=True)
            current = self._answered()
            revision = revision or current
            items, more = self._shared.history.page(prefix, after, revision, page_size)
            after = items[-1].key if items else after
            yield Page(items, revision)

    async def txn(
        self, compares: Sequence[Condition], success: Sequence[Operation], failure: Sequence[Operation] = ()
    ) -> TxnResult:
        """Compare and write in one step."""
        await self._arrive(reads=False)
        await _run(self.before_txn, compares, success)
        writes = any(not isinstance(operation, Get) for branch in (success, failure) for operation in branch)
        applied, lost = self._lost_writes.pop(0) if writes and self._lost_writes else (True, None)
        if applied:
            result = self._shared.history.txn(compares, success, failure)
            self._answered()
            self._shared.announce()
            await _run(self.after_txn, compares, success)
        if lost is not None:
            raise lost
        return result

    def watch(
        self, prefix: str, start_revision: int, *, previous: bool = False
    ) -> AbstractAsyncContextManager[AsyncIterator[WatchBatch]]:
        """Every change under the prefix from `start_revision` on (0 = from now on), a batch a revision.

        Progress comes whenever the store moved on with nothing to tell.
        """
        return aclosing(self._batches(prefix, start_revision or self.revision + 1, previous))

    async def _batches(self, prefix: str, following: int, previous: bool) -> AsyncGenerator[WatchBatch, None]:
        history = self._shared.history
        restores = history.restores
        while True:
            while self._paused and not self._closed:
                await self._shared.changed.wait()
            if self._closed:
                return
            newest = history.revision if history.restores == restores else history.restored_to
            if newest < following - 1:
                raise RevisionWentBack(f"the store is at {newest}, the watch was at {following - 1}")
            restores = history.restores
            if following < history.compacted:
                text = f"nothing before revision {history.compacted} is kept, the watch was at {following}"
                raise Compacted(text, compact_revision=history.compacted)
            batch = self._next_batch(prefix, following, previous)
            if batch is None:
                await self._shared.changed.wait()
                continue
            following = batch.revision + 1
            self._seen = max(self._seen, batch.revision)
            yield batch

    def _next_batch(self, prefix: str, following: int, previous: bool) -> WatchBatch | None:
        for revision, events in self._shared.history.events_from(following, prefix):
            shown = events if previous else tuple(Event(event.kv, event.deleted) for event in events)
            return WatchBatch(revision, shown)
        current = self._shared.history.revision
        return WatchBatch(current) if current >= following else None

    async def grant_lease(self, ttl: float, *, alive: Callable[[], bool] | None = None) -> Lease:
        """A new lease, renewed as time passes while `alive` does not say otherwise."""
        await self._arrive(reads=False)
        lease: MemoryLease = self._shared.leases.grant(self, ttl, alive, self._shared.announce)
        return lease

    async def close(self) -> None:
        """Close this client: its watches end, its leases are renewed no more."""
        self._closed = True
        self._shared.leases.abandon(self)
        self._shared.announce()

    async def _arrive(self, *, reads: bool) -> None:
        """A call takes its time: others run before it is served."""
        await asyncio.sleep(0)
        if self._closed:
            raise Unavailable("the store is closed")
        if reads and self._lost_reads:
            self._lost_reads -= 1
            raise Unavailable("no answer from the store")
        if self._shared.leases.advance(0.0):
            self._shared.announce()

    def _answered(self) -> int:
        revision = self._shared.history.revision
        if revision < self._seen:
            raise RevisionWentBack(f"the store is at revision {revision} and was at {self._seen}")
        self._seen = revision
        return revision


async def _run(hook: TxnHook | None, compares: Sequence[Condition], success: Sequence[Operation]) -> None:
    if hook is not None:
        outcome = hook(compares, success)
        if inspect.isawaitable(outcome):
            await outcome
