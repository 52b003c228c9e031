"""One life: some workers, users, and everything that goes wrong for a while; then calm, in which all must come right.

All chance comes from the seed, and time is virtual, so a life is the same each time that it is played.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from random import Random
from typing import Any

from tests.scheduling.lives import link, temporal
from tests.scheduling.lives.faults import Faults
from tests.scheduling.lives.judge import WorkerJudge
from tests.scheduling.lives.loop import Standstill, VirtualLoop
from tests.scheduling.lives.sdk import Runtime
from tests.scheduling.lives.temporal import Chain, TemporalServer
from tests.scheduling.lives.truth import Truth
from tests.scheduling.lives.users import Users
from tests.scheduling.lives.weather import Weather
from tests.scheduling.lives.worker import WHOLE, Parts, SimulatedWorker
from wharfinger.scheduling.state.queue.entry import Part
from wharfinger.settings import DispatchSettings, EtcdSettings, LeaseSettings, WorkerSettings
from wharfinger.testing import MemoryStore

BOUND = 60.0
"""Seconds after the last fault within which all that fits is bound: far less than a sweep of the waker comes after."""
REST = 2.0
"""Seconds for which it must stay so."""


@dataclass(frozen=True)
class Life:
    """How a life went."""

    seed: int
    violations: tuple[str, ...]
    story: tuple[tuple[float, tuple[Any, ...]], ...]
    seconds: float
    """In virtual time."""
    pods: int
    bound: int


class World:
    """Everything of one life."""

    def __init__(self, seed: int, parts: Parts = WHOLE) -> None:
        self.rng = rng = Random(seed)
        self.seed = seed
        self._parts = parts
        self.loop = VirtualLoop()
        self.story: list[tuple[float, tuple[Any, ...]]] = []
        self.violations: list[str] = []
        operations = rng.choice([16, 40, 128])
        self.store = MemoryStore(clock=self.loop.time, max_txn_ops=operations)
        self.temporal = TemporalServer(self.loop, Random(rng.getrandbits(32)), self.tell)
        self.users = Users(self)
        self.truth = Truth(self.store, self.violated, self.users.leaves)
        self.graceful = rng.random() < 0.5
        self.settings = WorkerSettings(
            etcd=EtcdSettings(max_txn_ops=operations),
            dispatching=DispatchSettings(
                cohort_most=rng.choice([2, 3, 5, 200]),
                cohorts_in_flight=rng.choice([1, 2, 4]),
                cohorts=rng.random() < 0.95,
                hold=rng.choice([0.0, 2.0]),
                in_flight=1 if seed % 5 == 0 else 40,
            ),
            lease=LeaseSettings(loop_stall=1e9),
            eviction="graceful" if self.graceful else "immediate",
        )
        self.workers: dict[str, SimulatedWorker] = {}
        """The newest life of each, by slot."""
        self.judges: dict[str, WorkerJudge] = {}
        self.lives = 0
        self.until = 0.0
        self.weather = link.CALM

    def tell(self, *words: Any) -> None:
        """One line of the story."""
        self.story.append((self.loop.now, words))

    def violated(self, *words: Any) -> None:
        """A rule is broken."""
        self.story.append((self.loop.now, ("!!", *words)))
        if len(self.violations) < 10:
            self.violations.append(" ".join(map(str, words)))

    # --- the whole of it --------------------------------------------------------------------------

    def play(self) -> Life:
        """Live, and be judged."""
        began, loop = self.loop.now, self.loop
        Runtime.install(loop)
        loop.set_exception_handler(self._unhandled)
        loop.moment = self._moment
        self.temporal.started = self._started
        self.temporal.failed = self._failed
        listener = _Listener(self.violated)
        with listener:
            try:
                loop.run_until_complete(self._live())
            except Standstill as error:
                self.violated(str(error))
            seconds = loop.now - began
            loop.moment = lambda: None
            self._end()
        self.truth.follow()
        bound = sum(bool(pod.node) for pod in self.truth.pods.values())
        return Life(self.seed, tuple(self.violations), tuple(self.story), seconds, self.users.pods, bound)

    async def _live(self) -> None:
        rng = self.rng
        for number in range(rng.choice([1, 2, 2, 3, 4])):
            await self.users.put_node(f"n{number}")
        for number in range(rng.choice([1, 1, 1, 2, 2, 3])):
            self.begin(f"w{number}")
        self.until = self.loop.now + rng.uniform(3, 9)
        acting = [asyncio.create_task(self.users.act()), asyncio.create_task(Faults(self).strike())]
        await asyncio.gather(*acting)
        self._heal()
        await self._settle()

    async def _settle(self) -> None:
        last, quiet = self.loop.now + BOUND, 0.0
        while self.loop.now < last:
            await asyncio.sleep(1.0)
            if self.violations:
                return
            self.truth.follow()
            unheard = any(judge.unheard for judge in self.judges.values())
            quiet = 0.0 if unheard or self.truth.left_out() else quiet + 1.0
            if quiet >= REST and not self._unqueued():
                return
        for name in self.truth.left_out():
            self.violated(name, f"could be bound, {BOUND:g} seconds after the last fault:", self._where(name))
        for name in self._unqueued():
            self.violated(name, "is pending and in no queue, or in several:", self._where(name))

    def _unqueued(self) -> list[str]:
        """Pods that do not wait in exactly one queue, though they cannot be bound."""
        return [
            pod.name
            for pod in self.truth.pending()
            if len([part for judge in self.judges.values() if (part := judge.has(pod.name)) is not None]) != 1
        ]

    def _where(self, name: str) -> str:
        places = [f"{slot}: {part}" for slot, judge in self.judges.items() if (part := judge.has(name)) is not None]
        return ", ".join(places) or "nowhere"

    def _moment(self) -> None:
        self.truth.follow()
        for judge in self.judges.values():
            judge.look()

    def _started(self, chain: Chain) -> None:
        for judge in self.judges.values():
            if judge.name == chain.by:
                judge.started(chain, self.temporal.open.values())

    def _failed(self, chain: Chain) -> None:
        for judge in self.judges.values():
            if judge.name == chain.by and chain.kind == "cohort":
                judge.failed(chain)

    def _end(self) -> None:
        for worker in self.workers.values():
            worker.kill()
        for _ in range(3):
            left = asyncio.all_tasks(self.loop)
            if not left:
                break
            for task in sorted(left, key=lambda task: task.get_name()):
                task.cancel()
            ends = asyncio.wait(left, timeout=20)
            try:
                self.loop.run_until_complete(ends)
            except Standstill:
                ends.close()
        self.loop.close()

    def _unhandled(self, _: object, context: dict[str, Any]) -> None:
        self.violated("not handled:", context.get("message", ""), repr(context.get("exception", "")))

    # --- workers ----------------------------------------------------------------------------------

    def begin(self, slot: str) -> None:
        """Start a worker, or its next life."""
        self.lives += 1
        name = f"{slot}.{self.lives}"
        worker = SimulatedWorker(
            name,
            self.loop,
            self.store,
            self.temporal,
            self.rng,
            replace(self.settings, slot=slot),
            self.tell,
            self.truth.answered,
            self._parts,
        )
        worker.link.weather = self.weather
        self.workers[slot] = worker
        self.judges[slot] = WorkerJudge(worker, self.violated)
        self.tell(name, "begins")
        worker.begin()

    def _heal(self) -> None:
        self.tell("the faults are over")
        self.temporal.troubles = temporal.CALM
        if self.temporal.stopped:
            self.temporal.go_on()
        self.set_weather(link.CALM)
        for slot, worker in list(self.workers.items()):
            worker.link.hold(False)
            if worker.gone:
                self.begin(slot)

    def set_weather(self, weather: Weather) -> None:
        """Of all workers' connections to etcd."""
        self.weather = weather
        for worker in self.workers.values():
            worker.link.weather = weather


class _Listener(logging.Handler):
    """What the code logs as an error is a broken rule; so is a start that failed, but not for Temporal's sake."""

    def __init__(self, violated: Callable[..., None]) -> None:
        super().__init__(logging.WARNING)
        self._violated = violated
        self._logger = logging.getLogger("wharfinger")

    def emit(self, record: logging.LogRecord) -> None:
        if record.levelno < logging.ERROR and "argument" not in record.getMessage():
            return
        error = record.exc_info[1] if record.exc_info else ""
        self._violated("logged:", record.getMessage(), repr(error))

    def __enter__(self) -> None:
        self._level = self._logger.level
        self._logger.setLevel(logging.WARNING)
        self._logger.addHandler(self)

    def __exit__(self, *_: object) -> None:
        self._logger.setLevel(self._level)
        self._logger.removeHandler(self)


def play(seed: int, parts: Parts = WHOLE) -> Life:
    """The life of a seed."""
    return World(seed, parts).play()


def told(life: Life) -> str:
    """The life's story, the broken rules first, and how it is played again."""
    lines = [f"life {life.seed}: " + "; ".join(life.violations)]
    lines += [f"{at - 1000:8.3f} {' '.join(map(str, words))}" for at, words in life.story]
    lines.append(f"again: python -m tests.soak --life {life.seed}")
    return "\n".join(lines)


__all__ = ["Life", "Part", "World", "play", "told"]
