"""One worker of a life: its loops and activities are the real ones, put together as `worker.Worker` does it."""

from __future__ import annotations

import asyncio
import contextvars
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

import orjson
from temporalio.common import RetryPolicy
from temporalio.exceptions import ApplicationError
from temporalio.service import RPCError, RPCStatusCode

from tests.scheduling.intercepted import execute
from tests.scheduling.lives.link import Link
from tests.scheduling.lives.loop import OWNER, VirtualLoop
from tests.scheduling.lives.sdk import activity_name
from tests.scheduling.lives.temporal import Chain, TemporalServer
from wharfinger.activities.scheduling import SchedulingActivities
from wharfinger.etcd.store import Store
from wharfinger.framework.cycle_state import CycleState
from wharfinger.framework.extenders.calls import CallFailed, ExtenderCalls
from wharfinger.framework.interface import Permission
from wharfinger.framework.profile import Enabled, Profile
from wharfinger.framework.profiles import load_profiles
from wharfinger.objects.model.extenders import Extender
from wharfinger.objects.model.gang import GangKey
from wharfinger.objects.model.pod import Pod, PodKey
from wharfinger.process.names import FailureType, cohort_workflow_id, gang_workflow_id, pod_workflow_id
from wharfinger.process.parts import ProcessParts
from wharfinger.process.transactions import Limits
from wharfinger.programs.loops import Loops
from wharfinger.scheduling.contracts.attempts import AttemptInput, AttemptTimings, Wake, backoff, chain_retry
from wharfinger.scheduling.contracts.cohort_scheduling import CohortInput, CohortPod, GangName, Turn, cohort_retry
from wharfinger.scheduling.loops.run_ends import RunEnds
from wharfinger.scheduling.loops.signals import Attempts, TemporalSide
from wharfinger.scheduling.state.cache.cache import Cache
from wharfinger.scheduling.state.pool import Identity, Ownership, Pool
from wharfinger.scheduling.state.queue.entry import Entry
from wharfinger.settings import WorkerSettings
from wharfinger.telemetry import Metrics
from wharfinger.testing import MemoryStore

CLUSTER = "wharfinger"
ALONE = "alone"
"""The scheduler name of pods that are never placed with others."""
ASKING = "asking"
"""That of pods for which an extender is asked."""
EXTENDER = Extender("extender", "http://extender", filter_verb="filter", node_cache_capable=True)
METRICS = Metrics()
TIMINGS = AttemptTimings()
BEGIN = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)
POISON = "poison"
"""Begins the names of pods with which no cohort can be started."""
SPOILS = "spoils"
"""Begins the names of pods with which no cohort can be decided: its run fails."""
NO_ANSWER = (RPCStatusCode.UNAVAILABLE, RPCStatusCode.DEADLINE_EXCEEDED)
"""What a call ends with that may have happened or not."""
PROMPT = 0.3
"""Seconds within which Temporal's answer is not late."""
HELD_BACK = 10.0
"""Seconds for which a worker may hold back."""


class Nods:
    """A Permit plugin, which might make a pod wait, and never does."""

    name = "Nods"

    def permit(self, state: CycleState, pod: Pod, node_name: str) -> Permission:
        return Permission()


USUAL = load_profiles()["default-scheduler"]
PROFILES = {
    USUAL.name: USUAL,
    ALONE: Profile(ALONE, Enabled.everywhere([*USUAL.plugins, Nods()], {}), digest=ALONE),
    ASKING: Profile(ASKING, Enabled.everywhere(USUAL.plugins, {}), digest=ASKING, extenders=(EXTENDER,)),
}


class PlayedCalls(ExtenderCalls):
    """The extender passes all nodes, after a while; or its answer does not come."""

    def __init__(self, temporal: TemporalServer, rng: Random) -> None:
        super().__init__()
        self._temporal = temporal
        self._rng = rng

    async def call(self, extender: Extender, verb: str, body: bytes, *, once: bool = False) -> bytes | CallFailed:
        fails = self._rng.random() < self._temporal.troubles.unanswered
        await asyncio.sleep(self._rng.choice([0.01, 0.01, 0.2, extender.timeout] if fails else [0.01, 0.01, 0.2, 2.0]))
        return CallFailed("no answer") if fails else orjson.dumps({"NodeNames": orjson.loads(body)["NodeNames"]})


class Parts:
    """What a worker is made of, passed through as it is; tests that break something put another part in its place."""

    def store(self, link: Link) -> Store:
        return link

    def attempts(self, attempts: Attempts) -> Attempts:
        return attempts

    def cache(self, clock: Callable[[], float]) -> Cache:
        return Cache(clock=clock)

    def profiles(self) -> Mapping[str, Profile]:
        return PROFILES

    def run_ends(self) -> RunEnds:
        return RunEnds()

    def assembled(self, loops: Loops) -> None:
        """The loops are put together, and not begun."""

    async def activity(self, name: str, run: Callable[..., Any], request: Any) -> Any:
        return await execute(run, request)


WHOLE = Parts()


@dataclass
class ClientAttempts:
    """`TemporalAttempts` on the server in memory."""

    temporal: TemporalServer
    worker: SimulatedWorker

    def back_off(self, timings: AttemptTimings | None) -> None:
        """They stay as they are."""

    def workflow_ids(self, entry: Entry) -> list[str]:
        """All under which a start of the pod may have been sent last."""
        pod, gang = entry.pod, entry.gang
        found = [self.workflow_id(pod), self.cohort_workflow_id(entry.cohort)]
        return found if gang is None else [*found, gang_workflow_id(CLUSTER, *gang.key)]

    def workflow_id(self, pod: Pod) -> str:
        return pod_workflow_id(CLUSTER, pod.namespace, pod.name, pod.uid)

    def cohort_workflow_id(self, name: str) -> str:
        return cohort_workflow_id(CLUSTER, name)

    def seconds_after(self, attempt: int) -> float:
        return backoff(chain_retry(TIMINGS), attempt)

    async def start(self, pod: Pod, *, cause: str, check_queue: bool, attempts_before: int = 0) -> None:
        request = AttemptInput(
            namespace=pod.namespace,
            name=pod.name,
            uid=pod.uid,
            revision=pod.mod_revision,
            woken_by=cause,
            attempts_before=attempts_before,
        )
        chain = self._chain("attempt", self.workflow_id(pod), request, chain_retry(TIMINGS), (pod.name,), (pod.uid,))
        await self._call("start of " + pod.name, lambda: self.temporal.start(chain, join=True), chain.workflow_id)

    async def start_cohort(self, name: str, pods: Sequence[CohortPod], *, cause: str, turn: Turn) -> None:
        names = tuple(pod.name for pod in pods)
        request = CohortInput(pods=tuple(pods), woken_by=cause, turn=turn)
        uids = tuple(pod.uid for pod in pods)
        chain = self._chain("cohort", self.cohort_workflow_id(name), request, cohort_retry(), names, uids)

        def start() -> None:
            if any(one.startswith(POISON) for one in names):
                raise RPCError("too large", RPCStatusCode.INVALID_ARGUMENT, b"")
            self.temporal.start(chain, join=False)

        await self._call(f"start of cohort {' '.join(names)}", start, chain.workflow_id)

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
        request = CohortInput(gang=GangName(**gang._asdict()), revision=revision, woken_by=cause)
        workflow_id = gang_workflow_id(CLUSTER, *gang)
        names = (f"gang-{gang.name}",)
        chain = self._chain("gang", workflow_id, request, chain_retry(TIMINGS), names)

        def start() -> None:
            self.temporal.start(chain, join=True)
            if wake is not None:
                self.temporal.signal(workflow_id, "wake", wake)

        await self._call(f"start of gang {gang.name}", start, workflow_id)

    async def wake(self, workflow_id: str, wake: Wake) -> bool:
        signalled: bool = await self._call(
            f"wake of {workflow_id}", lambda: self.temporal.signal(workflow_id, "wake", wake), ""
        )
        return signalled

    async def failure_of(self, workflow_id: str) -> BaseException | None:
        return await self.temporal.end_of(workflow_id)

    def _chain(
        self,
        kind: str,
        workflow_id: str,
        request: Any,
        retry: RetryPolicy,
        pods: tuple[str, ...],
        uids: tuple[str, ...] = (),
    ) -> Chain:
        return Chain(workflow_id, kind, request, retry, pods, uids, self.worker.name, self.worker)

    async def _call(self, what: str, effect: Callable[[], Any], starts: str) -> Any:
        """`starts`: the workflow id that it starts; empty: none."""
        if not self.worker.alive:
            raise RPCError("the process is dead", RPCStatusCode.UNAVAILABLE, b"")
        call, now = object(), self.worker.loop.now
        self.worker.calls[call] = now
        try:
            answer = await self.temporal.call(what, effect)
        except RPCError as error:
            self.worker.failed_at = self.worker.loop.now
            if error.status in NO_ANSWER:
                self.worker.unanswered[starts] += 1
            raise
        finally:
            del self.worker.calls[call]
            self.worker.called_at = self.worker.loop.now
            if self.worker.loop.now - now > PROMPT:
                self.worker.late_at = self.worker.loop.now
        if not self.worker.alive:
            raise RPCError("the process is dead", RPCStatusCode.UNAVAILABLE, b"")
        return answer


class NoNodes:
    """Nobody clears nodes."""

    async def start(self, node: str, *, signal: str, serves: Callable[[str], bool]) -> None:
        """Nothing."""

    async def signal(self, node: str, signal: str) -> None:
        """Nothing."""


class SimulatedPolling:
    """Whether this worker polls the server in memory."""

    def __init__(self, temporal: TemporalServer, worker: SimulatedWorker) -> None:
        self._temporal = temporal
        self._worker = worker
        self.running = False

    def on_failure(self, failed: Callable[[], None]) -> None:
        """It does not fail by itself."""

    async def start(self) -> None:
        self.running = True
        self._temporal.poll(self._worker, True)

    async def stop(self) -> None:
        self.running = False
        self._temporal.poll(self._worker, False)
        until = self._worker.loop.now + 10.0
        while self._worker.alive and self._worker.active and self._worker.loop.now < until:
            await asyncio.sleep(0.1)


class SimulatedWorker:
    """One life of a worker process."""

    def __init__(
        self,
        name: str,
        loop: VirtualLoop,
        store: MemoryStore,
        temporal: TemporalServer,
        rng: Random,
        settings: WorkerSettings,
        tell: Callable[..., None],
        answers: Callable[[str, Any, Any], None],
        parts: Parts = WHOLE,
    ) -> None:
        """`settings.slot` is the same in all lives of a worker, `name` is not; `answers` is called with each activity,
        its request and its outcome.
        """
        self.name = name
        self.loop = loop
        self.alive = True
        self.active = 0
        """Activities that are being carried out."""
        self.failed: list[str] = []
        """Workflow ids of runs that failed here."""
        self.calls: dict[object, float] = {}
        """When each call to Temporal began that has no answer yet."""
        self.unanswered: Counter[str] = Counter()
        """How many starts of a workflow id got no answer."""
        self.called_at = self.failed_at = self.late_at = float("-inf")
        """When a call to Temporal last ended, when it last failed to answer, and when it last was late."""
        self.tasks: list[asyncio.Task[Any]] = []
        self.context = contextvars.copy_context()
        self.context.run(OWNER.set, self)
        self.link = Link(store, Random(rng.getrandbits(32)), name, tell)
        self._parts = parts
        self._answers = answers
        self.temporal = temporal
        self._stop = asyncio.Event()
        self.settings = settings
        process = ProcessParts(
            parts.store(self.link),
            METRICS,
            clock=loop.time,
            lease_clock=loop.time,
            utc_now=lambda: BEGIN + timedelta(seconds=loop.now),
            rng=Random(rng.getrandbits(32)),
        )
        profiles = parts.profiles()
        self.cache = parts.cache(loop.time)
        self.pool = Pool(self.cache, profiles, Ownership(frozenset(profiles), "common"))
        self.activities = SchedulingActivities(
            process,
            self.pool,
            Identity(CLUSTER, name),
            settings.binding,
            eviction=settings.eviction,
            limits=Limits(settings.etcd.max_txn_ops),
            calls=PlayedCalls(temporal, Random(rng.getrandbits(32))),
        )
        self._named = {activity_name(one): one for one in self.activities.all}
        self.run_ends = parts.run_ends()
        self.polling = SimulatedPolling(temporal, self)
        self.attempts = ClientAttempts(temporal, self)
        side = TemporalSide(parts.attempts(self.attempts), NoNodes(), self.polling, self._probe, self.run_ends)
        self.loops = Loops(settings, process, self.pool, side)
        parts.assembled(self.loops)
        self.ending: asyncio.Task[None] | None = None

    def begin(self) -> None:
        """Start the loops."""
        self.ending = self.loop.create_task(self._run(), context=self.context)

    async def _run(self) -> None:
        await self.loops.run(self._stop)
        await self.activities.close()

    def drain(self) -> None:
        """End in an orderly way, as on SIGTERM."""
        self._stop.set()

    def kill(self) -> None:
        """Die: nothing of it reaches etcd or Temporal any more."""
        self.alive = False
        self.temporal.poll(self, False)
        self.link.sever()
        for task in list(self.tasks):
            task.cancel()

    @property
    def hindered(self) -> bool:
        """Whether Temporal failed, or was late, so that this worker may hold back (`scheduling.loops.starts`)."""
        now = self.loop.now
        lately = now - max(self.failed_at, self.late_at) <= HELD_BACK
        return lately or any(now - began > PROMPT for began in self.calls.values())

    @property
    def gone(self) -> bool:
        """Whether its process has ended."""
        return not self.alive or (self.ending is not None and self.ending.done())

    async def carry_out(self, activity: str, request: Any) -> Any:
        """Carry out an activity, as the SDK's worker does."""
        if (
            activity == "place_many"
            and len(request.pods) > 1
            and any(one.name.startswith(SPOILS) for one in request.pods)
        ):
            raise ApplicationError("spoiled", type=FailureType.SCHEDULER_ERROR, non_retryable=True)
        self.active += 1
        try:
            outcome = await self._parts.activity(activity, self._named[activity], request)
            self._answers(activity, request, outcome)
            return outcome
        finally:
            self.active -= 1

    def ended(self, workflow_id: str, failure: BaseException | None) -> None:
        """A run ended here; see `scheduling.loops.run_ends.RunEnds`."""
        if failure is not None:
            self.run_ends.failed(workflow_id, failure)
            self.failed.append(workflow_id)

    async def _probe(self) -> None:
        if not self.alive:
            raise RPCError("the process is dead", RPCStatusCode.UNAVAILABLE, b"")
        await self.temporal.probe()
