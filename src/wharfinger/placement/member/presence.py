"""What the agents of one process share: one lease for all their names, and one watch of which members are there.

A lease and a read every few seconds for each of a thousand members would cost more than all that is delivered to them.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence

from wharfinger.etcd.store import Event, KeyValue, Lease, Store
from wharfinger.placement.contracts import placement_keys
from wharfinger.process.following import follow
from wharfinger.process.registration import SignsOfLife
from wharfinger.process.running import first_to_end
from wharfinger.settings import LeaseSettings


class Presence:
    """One lease, and what was seen of `members/<m>` and of the members' objects."""

    def __init__(
        self, store: Store, settings: LeaseSettings, *, clock: Callable[[], float], rng: random.Random
    ) -> None:
        """`store`: the hub's."""
        self._store = store
        self._settings = settings
        self._rng = rng
        self._lease: Lease | None = None
        self._granting = asyncio.Lock()
        self._signs = SignsOfLife(clock, settings.stall)
        self._seen: dict[str, KeyValue] = {}
        """By key, without values."""

    async def run(self) -> None:
        """Follow, and keep the lease alive, until cancelled. Raises `RevisionWentBack`."""
        await first_to_end(
            self._signs.run(),
            self._follow(placement_keys.member.prefix),
            self._follow(placement_keys.member_cluster.prefix),
        )

    async def lease(self) -> Lease:
        """The one that all names are under; a new one where it was lost. Raises the store's errors."""
        async with self._granting:
            if self._lease is None or self._lease.lost:
                self._signs.give()
                self._lease = await self._store.grant_lease(self._settings.ttl, alive=self._signs.alive)
            return self._lease

    def seen(self, key: str) -> KeyValue | None:
        """A key as it was seen, without its value; None = not seen, which does not say that it is not there."""
        return self._seen.get(key)

    async def _follow(self, prefix: str) -> None:
        def listed(found: Sequence[KeyValue]) -> None:
            for key in [key for key in self._seen if key.startswith(prefix)]:
                del self._seen[key]
            for kv in found:
                self._seen[kv.key] = kv._replace(value=b"")

        await follow(self._store, prefix, listed=listed, changed=self._changed, survives_restore=False, rng=self._rng)

    def _changed(self, event: Event) -> None:
        if event.deleted:
            self._seen.pop(event.kv.key, None)
        else:
            self._seen[event.kv.key] = event.kv._replace(value=b"")
