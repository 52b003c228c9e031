"""Removes what has no use any more: objects of members that have left, and records of evictions that are gone.

A member's object goes once no decision and no work names it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from wharfinger.errors import StoreError
from wharfinger.etcd.store import Compare, Delete, Store
from wharfinger.placement.contracts import placement_keys
from wharfinger.placement.state.hub_view import HubView
from wharfinger.placement.state.seen import SeenMember
from wharfinger.process.parts import ProcessParts

log = logging.getLogger(__name__)

EVERY = 1.0
"""Seconds between two looks."""
UNREACHABLE = 900.0
"""Seconds without its agent, or without an answer of the member, after which a leaving member goes, whatever is on
it."""
AT_ONCE = 100
"""Records of evictions that are removed at one look."""


class Leavers:
    """Looks for members that have left, and removes their objects."""

    def __init__(
        self, process: ProcessParts, view: HubView, *, mine: Callable[[str], bool], every: float = EVERY
    ) -> None:
        """`mine`: whether this hub looks after a key."""
        self._store: Store = process.store
        self._clock = process.clock
        self._view = view
        self._mine = mine
        self._every = every
        self._since: dict[str, float] = {}
        """Leaving members, and since when this hub knows that they leave."""
        self._failed: set[str] = set()
        """Keys whose removal failed; it is said once."""

    async def run(self) -> None:
        """Look until cancelled."""
        while True:
            await asyncio.sleep(self._every)
            await self._guarded("all", self.look())

    async def look(self) -> None:
        """Remove those that have left, and records that nothing needs."""
        if not self._view.in_sync:
            return
        await self._look_at_members()
        gone = [
            name
            for name in self._view.ended
            if not self._view.mod_revision(f"{placement_keys.PLACEMENT_EVICTIONS}{name}")
            and self._mine(placement_keys.evicted(name))
        ]
        for name in gone[:AT_ONCE]:
            await self._guarded(placement_keys.evicted(name), self._forget_eviction(name))

    async def _look_at_members(self) -> None:
        leaving = {
            name: one
            for name, one in self._view.members.items()
            if one.member.leaving and not one.held and not one.unreadable and self._mine(name)
        }
        self._since = {name: self._since.get(name, self._clock()) for name in leaving}
        if not leaving:
            return
        named = {one.name for decision in self._view.decisions.values() for one in decision.chosen}
        named |= {name for works in self._view.works.values() for name in works}
        for name, one in leaving.items():
            if name not in named or self._silent(name, one) > UNREACHABLE:
                await self._guarded(placement_keys.member_cluster(name), self._remove(name, one))

    async def _guarded(self, about: str, removal: Awaitable[None]) -> None:
        """What cannot be removed must not keep the others."""
        try:
            await removal
            self._failed.discard(about)
        except StoreError as error:
            log.debug("leaver_not_removed effect=tried_again about=%s error=%r", about, str(error))
        except Exception:  # it is tried again at each look, and logged once
            if about not in self._failed:
                self._failed.add(about)
                log.exception("leaver_not_removed effect=tried_again about=%s", about)

    def _silent(self, name: str, one: SeenMember) -> float:
        """Seconds since this hub knows that nobody reaches a leaving member."""
        if one.reachable:
            return 0.0
        moments = [moment for moment in (None if one.there else one.heard, one.unhealthy) if moment is not None]
        return self._clock() - max(self._since[name], min(moments, default=0.0))

    async def _remove(self, name: str, one: SeenMember) -> None:
        key = placement_keys.member_cluster(name)
        gone = [Delete(key), Delete(placement_keys.member_status(name)), Delete(placement_keys.drain(name))]
        answered = await self._store.txn([Compare(key, "mod", one.revision)], gone)
        if answered.succeeded:
            log.info("member_left member=%s", name)

    async def _forget_eviction(self, name: str) -> None:
        record = placement_keys.evicted(name)
        compares = [
            Compare(record, "mod", self._view.mod_revision(record)),
            Compare(f"{placement_keys.PLACEMENT_EVICTIONS}{name}", "create", 0),
        ]
        await self._store.txn(compares, [Delete(record)])
