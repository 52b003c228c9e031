"""Hubs as the page sees them: which are registered, what they see, and that something changed on one.

Hubs register the address of their pages, so their metrics can be read. Agents of members, and of hosts, register none:
what the page knows of them is whether they are there.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from wharfinger.errors import StoreError
from wharfinger.etcd.store import Store
from wharfinger.placement.contracts import placement_keys
from wharfinger.placement.contracts.placement_records import HubRecord
from wharfinger.placement.reading.observe_placements import read_all
from wharfinger.placement.state.hub_view import HubView

log = logging.getLogger(__name__)

LOOK_EVERY = 5.0
"""Seconds."""
MEMBERS_EVERY = 12
"""Looks between two lists of all members, which may be thousands."""
MOST_HUBS = 64
MOST_MEMBERS = 10_000
FRESH = 2.0
"""Seconds for which a view is given again while nothing changes."""
SHORT = 0.25
"""Seconds; a reading that takes no longer may be followed by another at once."""
REST = 4.0
"""After any other one, so many times as long nothing is read, whatever changes: a fifth of a core goes into it."""
LOOK_FOR_VIEWERS = 0.5
"""Seconds between two looks whether it is wanted."""
AGAIN = 2.0
"""Seconds before watching again after a watch that failed."""


@dataclass(frozen=True, slots=True)
class HubRegistrations:
    """Who is there."""

    hubs: tuple[tuple[str, HubRecord], ...] = ()
    """By name."""
    placements: bool = False
    """Whether there is any placement."""
    members: frozenset[str] = frozenset()
    """Member clusters."""
    heard: frozenset[str] = frozenset()
    """Members whose agent is there."""

    @property
    def used(self) -> bool:
        """Whether anything of placements is here at all."""
        return bool(self.hubs or self.placements or self.members)

    @property
    def away(self) -> list[str]:
        """Members without an agent."""
        return sorted(self.members - self.heard)


class HubPresence:
    """Looks now and then which hubs and which agents of members are registered."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.now: HubRegistrations | None = None
        """None = etcd has not said yet."""
        self._looks = 0

    def addresses(self) -> list[str]:
        """Where the metrics of hubs are."""
        return [record.health for _, record in self.now.hubs if record.health] if self.now is not None else []

    async def run(self) -> None:
        """Look again and again, until cancelled. What was seen last stays while etcd does not answer."""
        while True:
            try:
                await self.look()
            except StoreError as error:
                log.debug("hubs_unread error=%r", str(error))
            await asyncio.sleep(LOOK_EVERY)

    async def look(self) -> None:
        """Look once. Raises `StoreError`."""
        hubs: list[tuple[str, HubRecord]] = []
        async for (name,), record in placement_keys.hub.records(self._store, HubRecord.model_validate_json):
            if len(hubs) < MOST_HUBS:
                hubs.append((name, record))
        kinds = (placement_keys.CLUSTER_PLACEMENTS, placement_keys.NAMESPACED_PLACEMENTS)
        placements = any([(await self._store.first(prefix)).items for prefix in kinds])
        members, heard = (self.now.members, self.now.heard) if self.now is not None else (frozenset(), frozenset())
        if self._looks % MEMBERS_EVERY == 0:
            members = await self._names(placement_keys.member_cluster.prefix)
        if members:
            heard = await self._names(placement_keys.member.prefix)
        self._looks += 1
        self.now = HubRegistrations(tuple(hubs), placements, members, heard)

    async def _names(self, prefix: str) -> frozenset[str]:
        found: set[str] = set()
        async for page in self._store.list(prefix):
            found.update(kv.key.removeprefix(prefix) for kv in page.items)
            if len(found) > MOST_MEMBERS:
                break
        return frozenset(found)


class ReadView(NamedTuple):
    """What a reading found."""

    view: HubView
    at: float
    """When it ended, by the clock."""


class HubReading:
    """Reads the hub's view once for all viewers, and not so often that the page does little else.

    Those who ask while it is read get that reading, and its error.
    """

    def __init__(self, store: Store, clock: Callable[[], float]) -> None:
        """`clock`: monotonic seconds."""
        self._store = store
        self._clock = clock
        self.last: ReadView | None = None
        self.took = 0.0
        """Seconds of the last reading."""
        self._expired = False
        self._reading: asyncio.Task[ReadView] | None = None

    def age(self, found: ReadView) -> int:
        """Whole seconds since a view was read."""
        return round(self._clock() - found.at)

    def expire(self) -> None:
        """Something changed: read anew when somebody asks."""
        self._expired = True

    async def view(self) -> ReadView:
        """What hubs have seen by now. Raises `StoreError`."""
        if self.last is not None and not self._is_stale(self.last):
            return self.last
        if self._reading is None:
            self._reading = asyncio.create_task(self._read())
            self._reading.add_done_callback(self._ended)
        return await asyncio.shield(self._reading)  # who gives up ends it for nobody else

    async def _read(self) -> ReadView:
        began = self._clock()
        self._expired = False  # what changes from now on may not be in it
        view = await read_all(self._store)
        self.last = ReadView(view, self._clock())
        self.took = self.last.at - began
        return self.last

    def _ended(self, reading: asyncio.Task[ReadView]) -> None:
        self._reading = None
        if reading.cancelled() or reading.exception() is not None:
            self._expired = True

    def _is_stale(self, last: ReadView) -> bool:
        age = self._clock() - last.at
        if self.took > SHORT and age < REST * self.took:
            return False
        return self._expired or age >= FRESH


class HubChanges:
    """Notices changes on a hub while somebody looks at its placements.

    Decisions, work and results lie outside of what the page follows, because only a hub has them. So they have a watch
    of their own, only while it is wanted. Nothing of it is read: a view asks for what it shows.
    """

    def __init__(self, store: Store, wanted: Callable[[], bool], changed: Callable[[], None]) -> None:
        """`changed` is called for every change, and whenever some may have been missed."""
        self._store = store
        self._wanted = wanted
        self._changed = changed

    async def run(self) -> None:
        """Go on until cancelled."""
        while True:
            if self._wanted():
                try:
                    await self._watch()
                except StoreError as error:
                    log.debug("hub_unwatched error=%r", str(error))
                    await asyncio.sleep(AGAIN)
            await asyncio.sleep(LOOK_FOR_VIEWERS)

    async def _watch(self) -> None:
        revision = (await self._store.first(placement_keys.HUB)).revision
        self._changed()
        async with self._store.watch(placement_keys.HUB, revision + 1) as batches:
            async for batch in batches:
                if not self._wanted():
                    return
                if batch.events:
                    self._changed()
