"""Parts of a worker that are broken on purpose, a mistake each: what a judge of lives must notice."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from typing import Any, cast

from temporalio.service import RPCError, RPCStatusCode

from tests.scheduling.lives.link import Link
from tests.scheduling.lives.worker import Parts
from wharfinger.etcd import keys
from wharfinger.etcd.store import Compare, Condition, Operation, Store, TxnResult, WatchBatch
from wharfinger.objects.model.pod import Pod
from wharfinger.programs.loops import Loops
from wharfinger.scheduling.contracts.attempts import Wake
from wharfinger.scheduling.contracts.eviction import Evicted
from wharfinger.scheduling.contracts.extenders import ExtendersAnswered, ExtendersFailed
from wharfinger.scheduling.contracts.scheduling import Bound
from wharfinger.scheduling.loops.run_ends import OverdueRuns, RunEnds
from wharfinger.scheduling.loops.signals import Attempts
from wharfinger.scheduling.state.queue.active_queue import (
    ONE_BY_ONE,
    Active,
    InFlight,
    Lane,
    Window,
    by_priority,
)
from wharfinger.scheduling.state.queue.entry import Entry
from wharfinger.scheduling.state.queue.scheduling_queue import SchedulingQueue


class Through:
    """Hands on whatever it does not do itself."""

    def __init__(self, whole: Any) -> None:
        self._whole = whole

    def __getattr__(self, name: str) -> Any:
        return getattr(self._whole, name)


class _ComparesNoVersion(Through):
    async def txn(
        self, compares: Sequence[Condition], success: Sequence[Operation], failure: Sequence[Operation] = ()
    ) -> TxnResult:
        kept = [one for one in compares if not (isinstance(one, Compare) and one.key.startswith(keys.BINDINGS))]
        answer: TxnResult = await self._whole.txn(kept, success, failure)
        return answer


class SkipsACompare(Parts):
    """Binds do not compare what other binds on the node have written."""

    def store(self, link: Link) -> Store:
        return cast("Store", _ComparesNoVersion(link))


class _ComparesNoPod(Through):
    async def txn(
        self, compares: Sequence[Condition], success: Sequence[Operation], failure: Sequence[Operation] = ()
    ) -> TxnResult:
        kept = [one for one in compares if not (isinstance(one, Compare) and one.key.startswith(keys.PODS))]
        answer: TxnResult = await self._whole.txn(kept, success, failure)
        return answer


class SkipsThePod(Parts):
    """Writes of pods do not compare them."""

    def store(self, link: Link) -> Store:
        return cast("Store", _ComparesNoPod(link))


class _LosesEvents(Through):
    def __init__(self, whole: Any) -> None:
        super().__init__(whole)
        self._seen = 0

    @asynccontextmanager
    async def _watch(self, *asked: Any, **options: Any) -> AsyncIterator[AsyncIterator[WatchBatch]]:
        async with self._whole.watch(*asked, **options) as batches:
            yield self._some(batches)

    def watch(self, *asked: Any, **options: Any) -> AbstractAsyncContextManager[AsyncIterator[WatchBatch]]:
        return self._watch(*asked, **options)

    async def _some(self, batches: AsyncIterator[WatchBatch]) -> AsyncIterator[WatchBatch]:
        async for batch in batches:
            self._seen += 1
            yield batch if self._seen % 7 else WatchBatch(batch.revision)


class LosesEvents(Parts):
    """Now and then, the watch passes a revision by."""

    def store(self, link: Link) -> Store:
        return cast("Store", _LosesEvents(link))


class _NeverWakes(Through):
    async def wake(self, workflow_id: str, wake: Wake) -> bool:
        return True


class DropsWakes(Parts):
    """Signals are said to be delivered, and are not."""

    def attempts(self, attempts: Attempts) -> Attempts:
        return cast("Attempts", _NeverWakes(attempts))


class _BelievesAll(Through):
    async def start(self, pod: Pod, **options: Any) -> None:
        with suppress(RPCError):
            await self._whole.start(pod, **options)

    async def start_cohort(self, name: str, pods: Sequence[Any], **options: Any) -> None:
        with suppress(RPCError):
            await self._whole.start_cohort(name, pods, **options)


class BelievesLostAnswers(Parts):
    """A start without an answer counts as accepted."""

    def attempts(self, attempts: Attempts) -> Attempts:
        return cast("Attempts", _BelievesAll(attempts))


class _AsksAnew(Through):
    async def start_cohort(self, name: str, pods: Sequence[Any], **options: Any) -> None:
        try:
            await self._whole.start_cohort(name, pods, **options)
        except RPCError as error:
            if error.status is RPCStatusCode.INVALID_ARGUMENT:
                raise
            await self._whole.start_cohort(f"{name}-again", pods, **options)


class RenamesRetries(Parts):
    """A group whose start got no answer is started under another name, though it may run."""

    def attempts(self, attempts: Attempts) -> Attempts:
        return cast("Attempts", _AsksAnew(attempts))


class ForgetsFailedStarts(Parts):
    """A group that Temporal never accepted stays in flight."""

    def assembled(self, loops: Loops) -> None:
        loops.scheduling.queue.start_failed = lambda *_, **__: None  # type: ignore[method-assign]


class _StartsTwice(Through):
    async def start_cohort(self, name: str, pods: Sequence[Any], **options: Any) -> None:
        await self._whole.start_cohort(name, pods, **options)
        await self._whole.start_cohort(f"{name}-again", pods, **options)


class StartsTwice(Parts):
    """Each group is started under two names."""

    def attempts(self, attempts: Attempts) -> Attempts:
        return cast("Attempts", _StartsTwice(attempts))


class _HalfDeaf(asyncio.Event):
    def __init__(self) -> None:
        super().__init__()
        self._kicks = 0

    def set(self) -> None:
        self._kicks += 1
        if self._kicks % 3:
            super().set()


class DropsKicks(Parts):
    """The dispatcher misses a third of its kicks, and does something at its next tick."""

    def assembled(self, loops: Loops) -> None:
        loops.scheduling.dispatcher._kicked = _HalfDeaf()


class _NeverEnds(Window):
    def ended(self, group: str, now: float, *, told: bool = True) -> None:
        """Forget that it has."""


class ForgetsEnds(Parts):
    """A group counts for ever."""

    def assembled(self, loops: Loops) -> None:
        _look_through(loops, _NeverEnds)


class _CountsNone(Window):
    def began(self, group: str, now: float) -> None:
        """Forget that it has."""


class CountsNoGroups(Parts):
    """No group is counted, so any number is in flight."""

    def assembled(self, loops: Loops) -> None:
        _look_through(loops, _CountsNone)


class _HalfFull(Window):
    @property
    def size(self) -> int:
        return max(1, super().size // 2)


class HalvesGroups(Parts):
    """A group takes half of what it might."""

    def assembled(self, loops: Loops) -> None:
        _look_through(loops, _HalfFull)


class _OneByOne(Window):
    def may_start(self, ready: int, now: float) -> bool:
        return ready > 0 and (not len(self) or len(self.overdue(now)) == len(self) < self._most_groups)


class StartsOneGroup(Parts):
    """In a flood, a full group waits for the one before."""

    def assembled(self, loops: Loops) -> None:
        _look_through(loops, _OneByOne)


class _Patient(Window):
    def may_start(self, ready: int, now: float) -> bool:
        return super().may_start(ready, now) and (not len(self) or ready >= self._most_pods)

    def overdue_at(self) -> None:
        """Never."""


class WaitsForTheSlow(Parts):
    """A group that is overdue holds the next one."""

    def assembled(self, loops: Loops) -> None:
        _look_through(loops, _Patient)


class _Hasty(Window):
    def may_start(self, ready: int, now: float) -> bool:
        return ready > 0 and len(self) < self._most_groups


class StartsWhatComes(Parts):
    """Pods that arrive while a group counts do not wait for it."""

    def assembled(self, loops: Loops) -> None:
        _look_through(loops, _Hasty)


def _look_through(loops: Loops, kind: type[Window]) -> None:
    queue = loops.scheduling.queue
    whole = queue.window
    window = kind(whole._most_pods, whole._most_groups, task_timeout=whole._task_timeout)
    queue.window = queue.in_flight._window = window


class _Deaf(RunEnds):
    def failed(self, workflow_id: str, failure: BaseException) -> None:
        """Report nothing."""


class ForgetsFailures(Parts):
    """It is not noticed that the run of a group fails."""

    def run_ends(self) -> RunEnds:
        return _Deaf()


class IgnoresOverdueRuns(Parts):
    """No end of a run is waited for that another worker may see."""

    def assembled(self, loops: Loops) -> None:
        loops.scheduling.dispatcher._overdue = cast("OverdueRuns", _Follows())


class _Follows:
    def follow(self, workflow_ids: Iterable[str]) -> None:
        """Follow none."""


class ReturnsNoOverdue(Parts):
    """A start that etcd never confirms is not repeated."""

    def assembled(self, loops: Loops) -> None:
        loops.scheduling.queue.return_overdue = lambda: 0  # type: ignore[method-assign]


class HearsNoExtender(Parts):
    """The answers of extenders are thrown away."""

    async def activity(self, name: str, run: Callable[..., Any], request: Any) -> Any:
        outcome = await super().activity(name, run, request)
        return (
            ExtendersFailed(extender="", verb="", message="no answer")
            if isinstance(outcome, ExtendersAnswered)
            else outcome
        )


class TearsGangs(Parts):
    """A gang is bound without one of its members."""

    async def activity(self, name: str, run: Callable[..., Any], request: Any) -> Any:
        if name == "bind_many" and request.whole:
            request = request.model_copy(update={"seats": request.seats[:-1]})
        return await super().activity(name, run, request)


class EvictsNone(Parts):
    """Victims are said to be evicted, and are not."""

    async def activity(self, name: str, run: Callable[..., Any], request: Any) -> Any:
        return Evicted() if name == "evict" else await super().activity(name, run, request)


class HoldsGangs(Parts):
    """Gangs wait for groups."""

    def assembled(self, loops: Loops) -> None:
        queue = loops.scheduling.queue
        pop_gang = queue.pop_gang
        queue.pop_gang = lambda: [] if len(queue.window) else pop_gang()  # type: ignore[method-assign]


class _GangsFirst(Active):
    def first_of_all(self, now: float, lane: Lane) -> Entry | None:
        return self.first(now, (lane,))


class LetsGangsOvertake(Parts):
    """A gang goes before pods that were there before it."""

    def assembled(self, loops: Loops) -> None:
        queue = loops.scheduling.queue
        queue.active = _GangsFirst(by_priority, queue._lane)


class _CountsNoGangs(InFlight):
    gangs = 0  # type: ignore[assignment]


class StartsAllGangs(Parts):
    """Any number of gangs is in flight."""

    def assembled(self, loops: Loops) -> None:
        queue = loops.scheduling.queue
        queue.in_flight = _CountsNoGangs(30.0, queue._clock, queue.window)


class _CountsNotAlone(InFlight):
    alone = 0  # type: ignore[assignment]


class StartsAllAlone(Parts):
    """Any number of pods is in flight alone."""

    def assembled(self, loops: Loops) -> None:
        queue = loops.scheduling.queue
        queue.in_flight = _CountsNotAlone(30.0, queue._clock, queue.window)


class _Holds(Active):
    queue: SchedulingQueue

    def pop(self, now: float, lanes: Iterable[Lane] = ONE_BY_ONE) -> Entry | None:
        return None if tuple(lanes) == (Lane.ALONE,) and len(self.queue.window) else super().pop(now, lanes)


class HoldsTheAlone(Parts):
    """Pods that are never placed with others wait for groups."""

    def assembled(self, loops: Loops) -> None:
        queue = loops.scheduling.queue
        queue.active = active = _Holds(by_priority, queue._lane)
        active.queue = queue


class TurnsTheOrder(Parts):
    """Less important pods go first."""

    def assembled(self, loops: Loops) -> None:
        queue = loops.scheduling.queue
        queue.active = Active(lambda pod, arrival: (pod.priority, arrival), queue._lane)


class SaysBound(Parts):
    """Some binds are reported that never were."""

    async def activity(self, name: str, run: Callable[..., Any], request: Any) -> Any:
        if name == "bind" and request.name.endswith("1"):
            return Bound(node=request.placed.node, revision=request.placed.computation.revision)
        return await super().activity(name, run, request)
