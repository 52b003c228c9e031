"""A process that has a name among those of its kind and polls Temporal: what agents and hubs share.

::

    prepare ─► claim the name ─► keep it, follow etcd, ask Temporal, poll ─► stop polling ─► give the name back
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Coroutine, Mapping
from typing import Any

from temporalio.client import Client

from wharfinger.process.connecting import Reachability
from wharfinger.process.installation import prepare
from wharfinger.process.parts import ProcessParts
from wharfinger.process.polling import Polling, keep_polling
from wharfinger.process.records import Record
from wharfinger.process.registration import LeasedName, Registration
from wharfinger.process.running import first_to_end, unless_stopped
from wharfinger.serving.content import OK
from wharfinger.settings import LeaseSettings


class NamedProcess(ABC):
    """One process, on a store and a client that the caller opened and closes."""

    def __init__(
        self, process: ProcessParts, client: Client, named: LeasedName, record: Record, lease: LeaseSettings
    ) -> None:
        """`record` distinguishes this process from every other (`Registration`)."""
        self._process = process
        self._client = client
        self._named = named
        self.metrics = process.metrics
        self._registration = Registration(process, named, record, lease)
        self._reachability = Reachability(
            client.service_client.check_health, patience=lease.temporal_unreachable, clock=process.clock
        )
        self._pollings: list[Polling] = []

    @abstractmethod
    def _loops(self) -> Mapping[str, Coroutine[Any, Any, None]]:
        """What runs beside, by name; the first that ends ends the process."""

    async def _before_polling(self) -> None:  # noqa: B027 - most have nothing to wait for
        """Wait until activities may run."""

    async def _before_end(self) -> None:  # noqa: B027 - most leave nothing
        """End what must not outlive the process, once nothing is polled any more."""

    def _checks(self, **listed: bool) -> dict[str, str]:
        """What readiness depends on: name -> `ok`, or why not. `listed`: whether each was listed."""
        return {
            self._named.kind: OK if self._registration.registered else "not registered in etcd",
            **{name: OK if there else "not listed yet" for name, there in listed.items()},
            "temporal": OK if self._reachability.reachable else "does not answer",
            "polling": OK if all(polling.running for polling in self._pollings) else "has not begun",
        }

    async def _serve(self, stop: asyncio.Event, *, cluster: str, kubernetes_uid: str = "") -> None:
        """Serve until `stop` is set. Raises `InstallationMismatch`, and `UsageError` when another has the name."""
        preparing = prepare(self._process, self._client, cluster=cluster, kubernetes_uid=kubernetes_uid)
        await unless_stopped(stop, preparing)
        await unless_stopped(stop, self._registration.claim())
        if stop.is_set():
            return
        work = {
            "registration": self._registration.run(),
            "reachability": self._reachability.run(),
            **self._loops(),
            "polling": self._poll(),
            "stopped": stop.wait(),
        }
        running = [asyncio.create_task(one, name=name) for name, one in work.items()]
        try:
            await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
            for task in running:
                if task.done():
                    await task
        finally:
            await asyncio.gather(*(polling.stop() for polling in self._pollings))
            await self._before_end()
            for task in running:
                task.cancel()
            await asyncio.gather(*running, return_exceptions=True)
            await self._registration.leave()

    async def _poll(self) -> None:
        await self._before_polling()
        await first_to_end(*(keep_polling(polling, self._process.rng) for polling in self._pollings))
