"""Which hubs and which agents of members are there, as their registrations in etcd say.

Hubs register the address of their pages, so their metrics can be read. Agents of members, and of hosts, register none:
what the page knows of them is whether they are there.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass

from wharfinger.errors import StoreError
from wharfinger.etcd.store import Store
from wharfinger.placement.contracts import placement_keys
from wharfinger.placement.contracts.placement_records import HubRecord

log = logging.getLogger(__name__)

LOOK_EVERY = 5.0
"""Seconds."""
MEMBERS_EVERY = 12
"""Looks between two lists of all members, which may be thousands."""
MOST_HUBS = 64
MOST_MEMBERS = 10_000


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
    """Looks now and then."""

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
            members = await self._names(placement_keys.MEMBER_CLUSTERS)
        if members:
            heard = await self._names(placement_keys.MEMBERS)
        self._looks += 1
        self.now = HubRegistrations(tuple(hubs), placements, members, heard)

    async def _names(self, prefix: str) -> frozenset[str]:
        found: set[str] = set()
        async for page in self._store.list(prefix):
            found.update(kv.key.removeprefix(prefix) for kv in page.items)
            if len(found) > MOST_MEMBERS:
                break
        return frozenset(found)
