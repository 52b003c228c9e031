"""What the loops ask of Temporal, as Protocols; `worker.Worker` passes the real ones in."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from wharfinger.objects.model.pod import Pod, PodKey
from wharfinger.process.connecting import Probe
from wharfinger.scheduling.contracts.attempts import Wake
from wharfinger.scheduling.contracts.cohort_scheduling import CohortPod, GangName, Turn
from wharfinger.scheduling.loops.run_ends import RunEnds


class Signaller(Protocol):
    """Wakes parked runs."""

    async def wake(self, workflow_id: str, wake: Wake) -> bool:
        """Signal the open run of the chain; False when there is none. Raises `RPCError`."""


class Attempts(Signaller, Protocol):
    """Everything the loops ask of Temporal: starts of attempts, cohorts and gangs, and signals to parked runs."""

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
        gang: GangName,
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

    def gang_workflow_id(self, gang: GangName) -> str:
        """The id of a gang's chain."""

    def seconds_after(self, attempt: int) -> float:
        """The back-off of a chain that is started now: seconds from that attempt to the next."""


class NodeStarter(Protocol):
    """Starts and signals the workflows that clear nodes of their pods."""

    async def start(self, node: str, *, signal: str, serves: Callable[[str], bool]) -> None:
        """Start the node's workflow, or join the open run; a signal that is not empty goes to whichever is open then.

        An open run on the task queue of a pool for which `serves` is False is terminated first: no worker polls there.
        Raises `temporalio.service.RPCError`.
        """

    async def signal(self, node: str, signal: str) -> None:
        """Signal the open run; without effect when there is none. Raises `RPCError`."""


class Pollable(Protocol):
    """What polls Temporal for this worker; `process.polling.Polling` in a real one."""

    @property
    def running(self) -> bool:
        """Whether it polls."""

    def on_failure(self, failed: Callable[[], None]) -> None:
        """Call `failed` whenever it stops by itself."""

    async def start(self) -> None:
        """Poll from now on; nothing when it does."""

    async def stop(self) -> None:
        """Poll no more, once what runs has finished; bounded in time."""


@dataclass(frozen=True, slots=True)
class TemporalSide:
    """All that the loops of one worker use of Temporal."""

    attempts: Attempts
    nodes: NodeStarter
    polling: Pollable
    probe: Probe
    """Asks Temporal anything."""
    run_ends: RunEnds
    """Reports runs that fail in this process."""
