"""What the loops ask of Temporal, as Protocols, and the signal `wake`, sent until Temporal takes it.

`programs.worker.Worker` passes the real ones in.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from wharfinger.objects.model.gang import GangKey
from wharfinger.objects.model.pod import Pod, PodKey
from wharfinger.pressure import ConcurrencyLimiter, Slots, delays
from wharfinger.process.connecting import Probe
from wharfinger.process.parts import ProcessParts
from wharfinger.process.polling import Polling
from wharfinger.scheduling.contracts.attempts import Wake
from wharfinger.scheduling.contracts.cohort_scheduling import CohortPod, Turn
from wharfinger.scheduling.loops.node_evictions import TemporalNodes
from wharfinger.scheduling.loops.run_ends import RunEnds
from wharfinger.scheduling.state.queue.entry import CHAIN_GONE, Entry
from wharfinger.scheduling.state.queue.scheduling_queue import SchedulingQueue


class Attempts(Protocol):
    """Everything the loops ask of Temporal: starts of attempts, cohorts and gangs, and signals to parked runs."""

    async def wake(self, workflow_id: str, wake: Wake) -> bool:
        """Signal the open run of the chain; False when there is none. Raises `RPCError`."""

    async def start(self, pod: Pod, *, cause: str, check_queue: bool, attempts_before: int = 0) -> None:
        """Start the pod's chain, or join the one that is open; returns when Temporal has accepted.

        `check_queue`: the open chain may sit on another tenant's task queue, where perhaps no worker
        polls; then it is terminated and started on ours. `attempts_before`: from which a new chain counts on. Raises
        `temporalio.service.RPCError`.
        """

    async def start_cohort(self, name: str, pods: Sequence[CohortPod], *, cause: str, turn: Turn) -> None:
        """Start a cohort under this unique name; returns when Temporal has accepted the start.

        One of that name that ran or runs already is an `RPCError` (ALREADY_EXISTS): a former call had succeeded.
        """

    async def start_gang(
        self,
        gang: GangKey,
        members: Sequence[PodKey],
        *,
        revision: int,
        cause: str,
        check_queue: bool,
        wake: Wake | None = None,
    ) -> None:
        """Start the gang's chain, or join the one that is open; otherwise as `start`.

        `members`: those that are known here, by which a new run is found; the run looks them up again.
        `wake`: sent with the start, to whichever run is open then: it may be parked, or about to be, without having
        seen all members.
        """

    async def failure_of(self, workflow_id: str) -> BaseException | None:
        """Wait until the run has ended: what it failed with, None when it completed. Raises `RPCError`."""

    def workflow_id(self, pod: Pod) -> str:
        """The id of a pod's chain."""

    def cohort_workflow_id(self, name: str) -> str:
        """The id of the cohort of that name."""

    def seconds_after(self, attempt: int) -> float:
        """The back-off of a chain that is started now: seconds from that attempt to the next."""


@dataclass(frozen=True, slots=True)
class TemporalSide:
    """All that the loops of one worker use of Temporal."""

    attempts: Attempts
    nodes: TemporalNodes
    polling: Polling
    probe: Probe
    """Asks Temporal anything."""
    run_ends: RunEnds
    """Reports runs that fail in this process."""


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
        self, process: ProcessParts, attempts: Attempts, queue: SchedulingQueue, *, kick: Callable[[], None]
    ) -> None:
        """`kick` is called after a pod was made active."""
        self._attempts = attempts
        self._queue = queue
        self._kick = kick
        self._rng = process.rng
        self._slots = Slots(ConcurrencyLimiter(AT_A_TIME, least=LEAST, slow=SLOW), process.clock)
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
                    open_chain = await self._attempts.wake(self._chain(entry), wake)
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
        return named or self._attempts.workflow_id(entry.pod)
