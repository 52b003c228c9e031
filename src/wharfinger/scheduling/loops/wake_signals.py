"""Sends the signal `wake` to parked chains, a few at a time, until Temporal takes it."""

from __future__ import annotations

import asyncio
import itertools
import logging
import random
from collections.abc import Callable

from wharfinger.objects.model.pod import Pod
from wharfinger.pressure import ConcurrencyLimiter, Slots, delays
from wharfinger.scheduling.contracts.attempts import Wake
from wharfinger.scheduling.loops.signals import Signaller
from wharfinger.scheduling.state.queue.entry import CHAIN_GONE, Entry
from wharfinger.scheduling.state.queue.scheduling_queue import SchedulingQueue

log = logging.getLogger(__name__)

AT_A_TIME = 16
LEAST = 2
"""At a time, however slow Temporal is."""
SLOW = 1.0
"""Seconds after which Temporal's answer is late."""
TRIES = 8
"""With delays up to 5 s, about twenty seconds; the sweep and the repeated start come after that."""


class WakeSignals:
    """Tasks that send signals; the chain of a pod is started again if there is no open run."""

    def __init__(
        self,
        signaller: Signaller,
        queue: SchedulingQueue,
        *,
        workflow_id: Callable[[Pod], str],
        kick: Callable[[], None],
        clock: Callable[[], float],
        rng: random.Random,
    ) -> None:
        """`workflow_id` for records that name none; `kick` after a pod was made active."""
        self._signaller = signaller
        self._queue = queue
        self._workflow_id = workflow_id
        self._kick = kick
        self._rng = rng
        self._slots = Slots(ConcurrencyLimiter(AT_A_TIME, least=LEAST, slow=SLOW), clock)
        self._tasks: set[asyncio.Task[None]] = set()

    def send(self, entry: Entry, wake: Wake) -> None:
        """Wake the pod soon; a pod without a chain is started instead."""
        if entry.refusal is not None and not entry.refusal.parked:
            self._queue.restart(entry, wake.event)
            self._kick()
            return
        task = asyncio.get_running_loop().create_task(self._send(entry, wake))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def settle(self) -> None:
        """Wait until each signal sent so far is accepted or given up."""
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def stop(self) -> None:
        """Send nothing more."""
        for task in tuple(self._tasks):
            task.cancel()

    async def _send(self, entry: Entry, wake: Wake) -> None:
        for delay in itertools.islice(delays(0.1, 5.0, self._rng), TRIES):
            try:
                async with self._slots.slot():
                    if self._queue.waiting.get(entry.key) is not entry:
                        return
                    open_chain = await self._signaller.wake(self._chain(entry), wake)
            except Exception as error:  # whatever the error, a pod that fits now must be woken
                log.debug("wake_failed effect=retried pod=%s error=%r", entry.key, str(error))
                await asyncio.sleep(delay)
                continue
            if not open_chain and self._queue.restart(entry, CHAIN_GONE):
                self._kick()
            return
        log.warning("wake_failed effect=left_to_the_next_sweep pod=%s", entry.key)

    def _chain(self, entry: Entry) -> str:
        named = entry.refusal.workflow_id if entry.refusal is not None else ""
        return named or self._workflow_id(entry.pod)
