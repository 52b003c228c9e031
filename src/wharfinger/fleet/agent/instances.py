"""What is done about the instances of a host: one without a grant is ended, and one that is stuck is killed."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial

import aiohttp
from pydantic import ValidationError

from wharfinger.errors import StoreError
from wharfinger.etcd import keys
from wharfinger.etcd.store import Event, KeyValue, Store
from wharfinger.fleet.agent.host_exits import HostExits
from wharfinger.fleet.contracts.fleet_records import read_value
from wharfinger.fleet.model.fleet import Grant
from wharfinger.process.children.runtime import InstanceId, Runtime
from wharfinger.process.following import follow
from wharfinger.process.records import InstanceRecord

log = logging.getLogger(__name__)

LOOK_EVERY = 5.0
"""Seconds between two looks when nothing was told."""
KILL_AFTER = 10.0
"""Seconds from SIGTERM to SIGKILL for one that lost its grant: it has to stop anyway, and nothing waits for it."""
Ask = Callable[[str], Awaitable[str]]
"""Asks a URL: empty when it answers well, else why not."""


class HostGrants:
    """Follows the grants of a host: an instance without one is ended, and what is left of it removed.

    The watch tells when to look. Whether a grant is gone is read before anything is ended, because a process may be
    younger than what the watch has shown.
    """

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


@dataclass(slots=True)
class _Probed:
    pid: int
    health: str
    draining: bool = False
    failures: int = 0


class HostProbes:
    """Asks `/livez` of the instances of a host, counts failures in a row, and kills what is stuck.

    Those that reported an address are asked from then on, also while their lease is lost; not those that drain.
    """

    def __init__(
        self,
        store: Store,
        runtime: Runtime,
        exits: HostExits,
        ask: Ask,
        *,
        every: float,
        most: int,
        rng: random.Random,
    ) -> None:
        """`every`: seconds; `most`: failures in a row after which an instance is killed."""
        self._store = store
        self._runtime = runtime
        self._exits = exits
        self._ask = ask
        self._every = every
        self._most = most
        self._rng = rng
        self._probed: dict[InstanceId, _Probed] = {}

    async def run(self) -> None:
        """Ask until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(
                follow(self._store, keys.INSTANCES, listed=self.listed, changed=self._changed, rng=self._rng)
            )
            group.create_task(self._again_and_again())

    def listed(self, found: Sequence[KeyValue]) -> None:
        """Take a list in; a host is asked about each instance that is not on it."""
        for kv in found:
            self._take(kv)

    def _changed(self, event: Event) -> None:
        if not event.deleted:
            self._take(event.kv)

    def _take(self, kv: KeyValue) -> None:
        instance = instance_of(kv.key, keys.INSTANCES)
        process = self._runtime.find(instance) if instance is not None else None
        if instance is None or process is None:  # another host's
            return
        record = InstanceRecord.from_bytes(kv.value)
        if record is None or process.pid != record.pid:  # registered by another process
            return
        known = self._probed.setdefault(instance, _Probed(record.pid, record.health))
        known.pid, known.health, known.draining = record.pid, record.health, record.state == "draining"

    async def _again_and_again(self) -> None:
        while True:
            await asyncio.sleep(self._every)
            await self.probe()

    async def probe(self) -> None:
        """Probe every instance once."""
        running = {process.id: process.pid for process in self._runtime.running()}
        self._probed = {
            instance: known for instance, known in self._probed.items() if running.get(instance) == known.pid
        }
        asked = {instance: known for instance, known in self._probed.items() if known.health and not known.draining}
        await asyncio.gather(*(self._probe(instance, known) for instance, known in asked.items()))

    async def _probe(self, instance: InstanceId, known: _Probed) -> None:
        problem = await self._ask(f"{known.health}/livez")
        known.failures = known.failures + 1 if problem else 0
        if not problem:
            return
        log.warning("probe_failed instance=%s failures=%d error=%r", instance, known.failures, problem)
        if known.failures >= self._most and self._runtime.find(instance) is not None:
            # Before the kill: its end may be recorded at once, and would be a signal without a reason.
            self._exits.blame(instance, f"/livez failed {known.failures} times: {problem}")
            await self._runtime.kill(instance)
            known.failures = 0


def asking(session: aiohttp.ClientSession, timeout: float) -> Ask:
    """Asks by HTTP, each time for `timeout` seconds at most."""
    bound = aiohttp.ClientTimeout(total=timeout)

    async def ask(url: str) -> str:
        try:
            # An instance may show a certificate that it signed itself; nothing secret is sent, and it is on this host.
            async with session.get(url, timeout=bound, ssl=False) as answer:
                return "" if answer.status == 200 else f"status {answer.status}"
        except TimeoutError:
            return f"no answer within {timeout:g} s"
        except (aiohttp.ClientError, ValueError) as error:
            return f"{type(error).__name__}: {error}"[:200]

    return ask
