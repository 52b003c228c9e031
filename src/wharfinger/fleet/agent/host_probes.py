"""Whether the instances of a host still turn: `/livez` of each is asked, and one that is stuck is killed.

Asked are those that said where they answer, from then on, also while their lease is lost; not those that drain.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

import aiohttp

from wharfinger.etcd import keys
from wharfinger.etcd.store import Event, KeyValue, Store
from wharfinger.fleet.agent.host_exits import HostExits
from wharfinger.fleet.agent.host_grants import instance_of
from wharfinger.process.children.runtime import InstanceId, Runtime
from wharfinger.process.following import follow
from wharfinger.process.records import InstanceRecord

log = logging.getLogger(__name__)

Ask = Callable[[str], Awaitable[str]]
"""Asks a URL: empty when it answers well, else why not."""


@dataclass(slots=True)
class _Probed:
    pid: int
    health: str
    draining: bool = False
    failures: int = 0


class HostProbes:
    """Asks, counts failures in a row, kills."""

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
        if record is None or process.pid != record.pid:
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
