"""Whether Temporal answers: probed on a timer, so that a worker that cannot reach it withdraws."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from temporalio.service import RPCError, RPCStatusCode

log = logging.getLogger(__name__)

EVERY = 2.0
"""Seconds between two probes."""

_SILENCE = frozenset(
    {RPCStatusCode.UNAVAILABLE, RPCStatusCode.DEADLINE_EXCEEDED, RPCStatusCode.CANCELLED, RPCStatusCode.UNKNOWN}
)
Probe = Callable[[], Awaitable[object]]


class Reachability:
    """Asks `probe` again and again; unreachable after `patience` seconds without an answer."""

    def __init__(
        self,
        probe: Probe,
        *,
        patience: float,
        clock: Callable[[], float],
        changed: Callable[[], None],
        every: float = EVERY,
    ) -> None:
        """`changed` is called when `reachable` changes."""
        self._probe = probe
        self._patience = patience
        self._clock = clock
        self._changed = changed
        self._every = min(every, patience / 3)
        self._answered = clock()
        self.reachable = True

    async def run(self) -> None:
        """Ask until cancelled."""
        while True:
            await self.ask()
            await asyncio.sleep(self._every)

    async def ask(self) -> None:
        """Ask once."""
        try:
            async with asyncio.timeout(self._patience / 2):
                await self._probe()
        except (RPCError, TimeoutError, RuntimeError, OSError) as error:
            if isinstance(error, RPCError) and error.status not in _SILENCE:
                self._heard()  # a refusal is an answer
                return
            silent = self._clock() - self._answered
            if self.reachable and silent >= self._patience:
                log.warning("temporal_unreachable silent_s=%.1f error=%r", silent, str(error))
                self._set(False)
            return
        self._heard()

    def _heard(self) -> None:
        self._answered = self._clock()
        if not self.reachable:
            log.info("temporal_reachable")
            self._set(True)

    def _set(self, reachable: bool) -> None:
        self.reachable = reachable
        self._changed()
