"""Removes the objects of members that leave, once no decision and no work names them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from wharfinger.engine.parts import ProcessParts
from wharfinger.engine.placements.hub_view import HubView
from wharfinger.engine.placements.seen import SeenMember, held
from wharfinger.errors import StoreError
from wharfinger.registry import keys
from wharfinger.registry.store import Compare, Delete, Store

log = logging.getLogger(__name__)

EVERY = 1.0
"""Seconds between two looks."""
UNREACHABLE = 900.0
"""Seconds without its agent after which a leaving member goes, whatever is on it."""


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
        """Leaving members without an agent that this hub has never heard, and since when it knows them."""

    async def run(self) -> None:
        """Look until cancelled."""
        while True:
            await asyncio.sleep(self._every)
            try:
                await self.look()
            except StoreError as error:
                log.debug("leaver_not_removed effect=tried_again error=%r", str(error))

    async def look(self) -> None:
        """Remove those that have left."""
        if not self._view.in_sync:
            return
        leaving = {
            name: one
            for name, one in self._view.members.items()
            if one.member.leaving and not held(one.obj) and self._mine(name)
        }
        self._since = {name: self._since.get(name, self._clock()) for name in leaving}
        if not leaving:
            return
        named = {one.name for decision in self._view.decisions.values() for one in decision.chosen}
        named |= {name for works in self._view.works.values() for name in works}
        for name, one in leaving.items():
            if name not in named or self._silent(name, one) > UNREACHABLE:
                await self._remove(name, one)

    def _silent(self, name: str, one: SeenMember) -> float:
        if one.there:
            return 0.0
        return self._clock() - (self._since[name] if one.heard is None else max(one.heard, self._since[name]))

    async def _remove(self, name: str, one: SeenMember) -> None:
        key = keys.member_cluster(name)
        gone = [Delete(key), Delete(keys.member_status(name)), Delete(keys.drain(name))]
        answered = await self._store.txn([Compare(key, "mod", one.revision)], gone)
        if answered.succeeded:
            log.info("member_left member=%s", name)
