"""What replay reads of the past, and how far back it goes: etcd itself, or an archive."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from wharfinger.errors import Compacted
from wharfinger.etcd import keys
from wharfinger.etcd.store import KeyValue, Page, Read, WatchBatch
from wharfinger.objects.model.formats import ClusterFormat


class KeptStates(Protocol):
    """The part of a `Store` that reads: states of the past, and the changes since then."""

    format: ClusterFormat

    async def get(self, key: str, *, revision: int = 0) -> Read:
        """See `Store.get`."""

    def list(self, prefix: str, *, revision: int = 0, page_size: int = 500) -> AsyncIterator[Page]:
        """See `Store.list`."""

    def watch(
        self, prefix: str, start_revision: int, *, previous: bool = False
    ) -> AbstractAsyncContextManager[AsyncIterator[WatchBatch]]:
        """See `Store.watch`."""


async def oldest_kept(store: KeptStates, wanted: int) -> int:
    """The first revision from `wanted` on that the store still has. Raises `StoreError`."""
    try:
        async for _ in store.list(keys.INSTALLATION, revision=wanted, page_size=1):
            return wanted
    except Compacted as error:
        if error.compact_revision:
            return error.compact_revision
    try:
        async with store.watch(keys.ROOT, 1) as batches:
            async for _ in batches:
                break
    except Compacted as error:
        return max(wanted, error.compact_revision)
    return wanted


async def recorded_configurations(store: KeptStates) -> list[KeyValue]:
    """The recorded configurations of profiles. Raises the store's errors."""
    return [kv async for page in store.list(keys.PROFILES) for kv in page.items]
