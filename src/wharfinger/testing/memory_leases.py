"""Leases of the store in memory: granted, renewed and expired as a clock says that others move.

The clock is the one given plus what `advance` added. Expiry deletes all keys of a lease as one
revision, as etcd does.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from wharfinger.etcd.store import Lease
from wharfinger.testing.memory_history import History

_ALIVE: Callable[[], bool] = lambda: True  # noqa: E731  # a constant function with a type


class MemoryLease(Lease):
    """A lease as its owner holds it."""

    def __init__(
        self,
        lease_id: int,
        ttl: float,
        *,
        now: float,
        owner: object,
        alive: Callable[[], bool],
        revoke: Callable[[], None],
    ) -> None:
        super().__init__(lease_id, ttl)
        self._revoke = revoke
        self.owner = owner
        self.alive = alive
        self.renew_at = now + ttl / 3
        self.expires = now + ttl

    @property
    def lost(self) -> bool:
        """Whether it expired or was revoked."""
        return self._reason is not None

    async def revoke(self) -> None:
        """Give the lease back; its keys vanish. Idempotent."""
        await asyncio.sleep(0)
        self._revoke()

    def lose(self, reason: str) -> None:
        """Tell the owner."""
        if self._reason is None:
            self._reason = reason
            self._ended.set()


class MemoryLeases:
    """All leases of one store."""

    def __init__(self, history: History, clock: Callable[[], float]) -> None:
        self._history = history
        self._clock = clock
        self._added = 0.0
        self._now = clock()
        self._granted = 0
        self._held: dict[int, MemoryLease] = {}

    def grant(
        self, owner: object, ttl: float, alive: Callable[[], bool] | None, announce: Callable[[], None]
    ) -> MemoryLease:
        """A new lease of `ttl` seconds."""
        self._granted += 1
        lease_id = 0x7000_0000_0000_0000 + self._granted  # beyond 2**53, as etcd's are

        def revoke() -> None:
            self.drop(lease_id, "revoked")
            announce()

        lease = MemoryLease(lease_id, ttl, now=self._now, owner=owner, alive=alive or _ALIVE, revoke=revoke)
        self._held[lease_id] = lease
        self._history.leases.add(lease_id)
        return lease

    def advance(self, seconds: float) -> bool:
        """Let time pass, renewal by renewal and expiry by expiry, in order; whether a lease expired."""
        self._added += seconds
        target = self._clock() + self._added
        expired = False
        while self._held:
            lease = min(self._held.values(), key=lambda lease: min(lease.renew_at, lease.expires))
            due = min(lease.renew_at, lease.expires)
            if due > target:
                break
            self._now = max(self._now, due)
            if lease.expires <= due:
                self.drop(lease.id, "expired")
                expired = True
            elif lease.alive():
                lease.renew_at, lease.expires = due + lease.ttl / 3, due + lease.ttl
            else:
                lease.renew_at = due + lease.ttl / 12
        self._now = max(self._now, target)
        return expired

    def drop(self, lease_id: int, reason: str) -> None:
        """End a lease, if it still is: its keys are deleted as one revision."""
        lease = self._held.pop(lease_id, None)
        if lease is None:
            return
        self._history.leases.discard(lease_id)
        self._history.delete_all(self._history.under_lease(lease_id))
        lease.lose(reason)

    def abandon(self, owner: object) -> None:
        """The owner closed its client: its leases are not renewed any more."""
        for lease in self._held.values():
            if lease.owner is owner:
                lease.alive = lambda: False
                lease.lose("the store was closed")
