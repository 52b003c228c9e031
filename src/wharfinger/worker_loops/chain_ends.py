"""Ends the parked chains of pods that a cohort bound: slowly, for nobody waits for it.

Such a chain would find out by its own timer, hours later. Told at once, thousands of runs that have nothing left to
do would stand in the way of the pods that are being placed.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections import deque
from collections.abc import Callable

from wharfinger.contracts.attempts import Wake
from wharfinger.process.backoff import delays
from wharfinger.worker_loops.signals import Signaller

log = logging.getLogger(__name__)

AT_A_TIME = 4
PACE = 0.02
"""Seconds after each, so that 200 a second end at most."""
LOOK_AGAIN = 0.25
"""Seconds until somebody busy is looked at again."""
LONGEST_PAUSE = 60.0
"""Seconds that a chain waits for somebody who is busy."""
TRIES = 8
MOST = 100_000
"""Chains remembered; beyond it, the oldest is left to its own timer."""


class ChainEnds:
    """A list of chains to be told, and a few who work on it."""

    def __init__(
        self,
        signaller: Signaller,
        *,
        busy: Callable[[], bool],
        clock: Callable[[], float],
        chance: random.Random,
    ) -> None:
        """`busy`: whether there is something better to do."""
        self._signaller = signaller
        self._busy = busy
        self._clock = clock
        self._chance = chance
        self._chains: deque[tuple[str, str, float]] = deque(maxlen=MOST)
        self._more = asyncio.Event()

    def __len__(self) -> int:
        return len(self._chains)

    def add(self, workflow_id: str, pod: str) -> None:
        """The chain of this pod, which is bound, is to end some time soon."""
        self._chains.append((workflow_id, pod, self._clock()))
        self._more.set()

    async def run(self) -> None:
        """Work until cancelled."""
        async with asyncio.TaskGroup() as group:
            for _ in range(AT_A_TIME):
                group.create_task(self._loop())

    async def _loop(self) -> None:
        while True:
            await self._more.wait()
            if not self._chains:
                self._more.clear()
            elif self._busy() and self._clock() - self._chains[0][2] < LONGEST_PAUSE:
                await asyncio.sleep(LOOK_AGAIN)
            else:
                workflow_id, pod, _ = self._chains.popleft()
                await self._tell(workflow_id, pod)
                await asyncio.sleep(PACE)

    async def _tell(self, workflow_id: str, pod: str) -> None:
        pauses = delays(0.2, 10.0, self._chance)
        for _ in range(TRIES):
            try:
                await self._signaller.wake(workflow_id, Wake(event="PodBound", object=pod))
            except Exception as error:  # one chain that cannot be told must not keep the others from it
                log.debug("ending a chain failed, trying again pod=%s error=%r", pod, str(error))
                await asyncio.sleep(next(pauses))
            else:
                return
        log.info("the chain of a bound pod could not be told, and ends by its own timer pod=%s", pod)
