"""A lease on etcd, kept alive by a thread of its own.

::

    sent      +TTL/3        +2 TTL/3            0.95 TTL   TTL
     ├───────────┼──────────────┼──────────────────┼────────┤
     kept     renew (tries of TTL/6, until answered)  lost   etcd drops it
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from collections.abc import Awaitable, Callable

from wharfinger.errors import LeaseLost, Unavailable, WharfingerError
from wharfinger.etcd.etcd_connection import Connection
from wharfinger.etcd.etcd_wire import Method
from wharfinger.etcd.store import Lease

LOST_AT = 0.95
"""Share of the TTL after which an unrenewed lease is called lost."""

log = logging.getLogger(__name__)


class EtcdLease(Lease):
    """A granted lease. Made by `EtcdStore.grant_lease`, on the event loop of its owner."""

    def __init__(
        self,
        lease_id: int,
        ttl: float,
        sent: float,
        *,
        open_connection: Callable[[], Connection],
        give_back: Callable[[int], Awaitable[None]],
        alive: Callable[[], bool] | None,
        clock: Callable[[], float],
    ) -> None:
        super().__init__(lease_id, ttl)
        self._open_connection = open_connection
        self._give_back = give_back
        self._alive = alive
        self._clock = clock
        # From when the request was sent: etcd began to count later, so what is lost here is not given to others yet.
        self._expires = sent + ttl * LOST_AT
        self._renew_at = sent + ttl / 3
        self._owner = asyncio.get_running_loop()
        self._lock = threading.Lock()
        self._own_loop: asyncio.AbstractEventLoop | None = None
        self._keeping: asyncio.Task[None] | None = None
        # Neither a busy event loop nor a full connection pool may cost the lease: it has a thread of its own.
        self._thread = threading.Thread(target=self._run, name=f"etcd-lease-{lease_id:x}", daemon=True)
        self._thread.start()

    @property
    def lost(self) -> bool:
        """Whether it is over, or may be: judged by the clock too, should the thread have been paused."""
        return self._reason is not None or self._clock() >= self._expires

    async def revoke(self) -> None:
        """Give the lease back; its keys vanish. Idempotent, and quiet when it is lost already."""
        was_lost = self.lost
        await self.stop("revoked")
        if not was_lost:
            with contextlib.suppress(LeaseLost):
                await self._give_back(self.id)

    async def stop(self, reason: str) -> None:
        """Stop renewing and end the thread; the lease itself runs out at its TTL."""
        self._lose(reason)
        with self._lock:
            if self._own_loop is not None and self._keeping is not None:
                self._own_loop.call_soon_threadsafe(self._keeping.cancel)
        await asyncio.to_thread(self._thread.join)

    def _lose(self, reason: str) -> None:
        """From any thread; the first reason stays."""
        with self._lock:
            if self._reason is not None:
                return
            self._reason = reason
        with contextlib.suppress(RuntimeError):  # the owner's loop is closed: nothing waits
            self._owner.call_soon_threadsafe(self._ended.set)

    def _run(self) -> None:
        try:
            with contextlib.suppress(asyncio.CancelledError):
                asyncio.run(self._keep())
        except Exception as error:  # the thread's end must be known as the lease's end
            log.exception("lease_keep_alive_failed lease=%x", self.id)
            self._lose(f"its keep-alive broke: {error!r}")

    async def _keep(self) -> None:
        with self._lock:
            self._own_loop, self._keeping = asyncio.get_running_loop(), asyncio.current_task()
        try:
            if self._reason is None:
                await self._renew_until_lost()
        finally:
            with self._lock:
                self._own_loop = self._keeping = None

    async def _renew_until_lost(self) -> None:
        connection = self._open_connection()
        try:
            while self._reason is None:
                await asyncio.sleep(max(0.0, min(self._renew_at, self._expires) - self._clock()))
                if self._clock() >= self._expires:
                    self._lose(f"not renewed for {self.ttl * LOST_AT:.1f} s")
                elif self._alive is not None and not self._alive():
                    self._renew_at = self._clock() + self.ttl / 12  # soon again: the process may recover in time
                else:
                    await self._renew(connection)
        finally:
            await connection.close()

    async def _renew(self, connection: Connection) -> None:
        sent = self._clock()
        self._renew_at = sent + self.ttl / 3
        within = min(self.ttl / 3, self._expires - sent)
        try:
            answer = await connection.call(
                Method.KEEP_ALIVE, {"ID": self.id}, repeatable=True, within=within, attempt=self.ttl / 6
            )
        except Unavailable:
            self._renew_at = self._clock()
            return
        except LeaseLost as error:
            self._lose(str(error))
            return
        except WharfingerError as error:  # denied, say: it may be put right before the lease runs out
            log.warning("lease_not_renewed effect=retried lease=%x error=%r", self.id, str(error))
            self._renew_at = self._clock() + self.ttl / 12
            return
        ttl = connection.wire.renewed(answer)
        if ttl <= 0:
            self._lose("etcd no longer has it: expired or revoked")
        elif self._clock() < self._expires:  # else `lost` may have been read already: it stays lost
            self._expires = sent + ttl * LOST_AT
