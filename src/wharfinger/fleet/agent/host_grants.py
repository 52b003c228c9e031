"""Whether the instances that run here may: one without a grant is ended, and what is left of it removed.

The watch tells when to look; whether a grant is gone is read before anything is ended, for a process may be younger
than what the watch has shown.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Sequence
from functools import partial

from pydantic import ValidationError

from wharfinger.errors import StoreError
from wharfinger.etcd import keys
from wharfinger.etcd.store import Event, KeyValue, Store
from wharfinger.fleet.contracts.fleet_records import read_value
from wharfinger.fleet.model.fleet import Grant
from wharfinger.process.children.runtime import InstanceId, Runtime
from wharfinger.process.following import follow

log = logging.getLogger(__name__)

LOOK_EVERY = 5.0
"""Seconds between two looks when nothing was told."""
KILL_AFTER = 10.0
"""Seconds from SIGTERM to SIGKILL for one that lost its grant: it has to stop anyway, and nothing waits for it."""


class HostGrants:
    """Follows the grants of a host."""

    def __init__(self, store: Store, runtime: Runtime, host: str, *, rng: random.Random) -> None:
        self._store = store
        self._runtime = runtime
        self._host = host
        self._rng = rng
        self._granted: set[InstanceId] = set()
        self._news = asyncio.Event()
        self._ending: dict[InstanceId, asyncio.Task[None]] = {}
        self.synced = asyncio.Event()
        """Set once the grants were listed."""

    async def run(self) -> None:
        """Follow until cancelled."""
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(
                    follow(self._store, keys.GRANTS, listed=self._listed, changed=self._changed, rng=self._rng)
                )
                group.create_task(self._look_again_and_again())
        finally:
            for task in self._ending.values():
                task.cancel()

    def _listed(self, found: Sequence[KeyValue]) -> None:
        self._granted = {instance for kv in found if (instance := self._ours(kv)) is not None}
        self.synced.set()
        self._news.set()

    def _changed(self, event: Event) -> None:
        instance = instance_of(event.kv.key, keys.GRANTS)
        if instance is None:
            return
        if not event.deleted and self._ours(event.kv) is not None:
            self._granted.add(instance)
        else:
            self._granted.discard(instance)
            self._news.set()

    def _ours(self, kv: KeyValue) -> InstanceId | None:
        instance = instance_of(kv.key, keys.GRANTS)
        try:
            record = read_value(Grant, kv.value)
        except ValidationError:
            return instance  # what cannot be read ends no instance
        return instance if record.host == self._host else None

    async def _look_again_and_again(self) -> None:
        await self.synced.wait()
        while True:
            self._news.clear()
            await self.look()
            try:
                async with asyncio.timeout(LOOK_EVERY):
                    await self._news.wait()
            except TimeoutError:
                pass

    async def look(self) -> None:
        """End what runs without a grant, and remove what ended without one."""
        try:
            for process in self._runtime.running():
                if process.id not in self._ending and await self._is_gone(process.id):
                    log.warning("instance_fenced reason=grant_deleted instance=%s pid=%d", process.id, process.pid)
                    task = self._ending[process.id] = asyncio.create_task(self._end(process.id))
                    task.add_done_callback(partial(self._ended, process.id))
            for instance in self._runtime.remains():
                if await self._is_gone(instance):
                    await self._runtime.forget(instance)
        except StoreError as error:
            log.debug("grants_unreadable error=%r", str(error))

    async def _is_gone(self, instance: InstanceId) -> bool:
        """Whether it has no grant for this host: as the watch shows, and as etcd says now."""
        if instance in self._granted:
            return False
        kv = (await self._store.get(keys.grant(*instance))).kv
        return kv is None or self._ours(kv) is None

    async def _end(self, instance: InstanceId) -> None:
        await self._runtime.terminate(instance)
        if not await self._runtime.wait(instance, KILL_AFTER):
            await self._runtime.kill(instance)
            await self._runtime.wait(instance, KILL_AFTER)

    def _ended(self, instance: InstanceId, _: asyncio.Task[None]) -> None:
        self._ending.pop(instance, None)
        self._news.set()  # what is left of it can go


def instance_of(key: str, prefix: str) -> InstanceId | None:
    """The instance that a key of grants, exits or instances names; None for workers started by hand."""
    tenant, slot, incarnation = [*key.removeprefix(prefix).split("/"), "", "", ""][:3]
    if not all(part.isascii() and part.isdigit() and len(part) <= 18 for part in (slot, incarnation)):
        return None
    return InstanceId(tenant, int(slot), int(incarnation))
