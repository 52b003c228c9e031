"""What the demo does: flood a real cluster, fill it, kill a worker meanwhile, and wait until every pod is answered.

::

    nodes ──► the first 3,000 pods of the trace, all at once, for one worker ──► each is bound or refused: the rate
          ──► the fleet is scaled up ──► the other pods, one by one in the trace's order
          ──► half of them are bound: SIGKILL to the first worker
          ──► all are bound or refused ──► audit of etcd's history ──► summary
"""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from wharfinger.dev.demo import openb
from wharfinger.dev.demo.audit import Audit, Ledger, audit
from wharfinger.dev.demo.view import DemoView
from wharfinger.dev.tree import DevTree
from wharfinger.etcd import keys
from wharfinger.etcd.etcd import EtcdStore
from wharfinger.etcd.store import Put, Store
from wharfinger.fleet.reading.fleets import Fleets
from wharfinger.objects.documents.documents import to_json
from wharfinger.objects.documents.times import rfc3339_now
from wharfinger.process.names import COMMON
from wharfinger.settings import DispatchSettings

FLOOD = 3000
"""Pods that are put at once, at most half of all."""
PUTS_A_TRANSACTION = 100
QUIET = 5.0
"""Seconds without news after which refused pods count as answered: nothing is tried for them any more."""
PATIENCE = 90.0
"""Seconds without news after which the demo gives up and lets the audit say what is missing."""
LOOK_EVERY = 0.1
"""Seconds between two looks at how far it is."""
RATE_OVER = 5.0
"""Seconds over which the rate shown is measured."""


@dataclass(frozen=True, slots=True)
class Summary:
    """The end of the story, as `--json` prints it."""

    pods: int
    bound: int
    refused: dict[str, int]
    """Reason (without its numbers) to pods that wait for it."""
    attempts: int
    """Binds and recorded refusals in etcd's history; an attempt that died with its worker leaves no mark."""
    flood: int
    """Pods that were put at once at the beginning."""
    flood_seconds: float
    """From the flood's first put until each of its pods was bound or refused."""
    flood_pods_per_s: float
    seconds: float
    """From the first pod's put to the last answer, the dead worker's recovery included."""
    pods_per_s: float
    lost: int
    doubled: int
    overcommitted: int

    @property
    def sound(self) -> bool:
        """Nothing lost, doubled or overcommitted."""
        return not (self.lost or self.doubled or self.overcommitted)


@dataclass(frozen=True, slots=True)
class Flood:
    """The first part: so many pods were put at once, and answered within these seconds."""

    pods: int
    seconds: float

    @property
    def pods_per_s(self) -> float:
        """Pods a second."""
        return self.pods / self.seconds if self.seconds > 0 else 0.0


async def tell(tree: DevTree, view: DemoView, pods: int, workers: int) -> Summary:
    """The story on a running tree; `workers`: of its second part. Answers the summary, judged from etcd's history."""
    async with EtcdStore(tree.etcd.settings()) as store:
        return await Story(tree, store, view, pods, workers).tell()


@dataclass(slots=True)
class Story:
    """One demo on a running tree; `tell` once."""

    tree: DevTree
    store: Store
    view: DemoView
    pods: int
    workers: int
    """Of the second part."""
    ledger: Ledger = field(default_factory=Ledger)
    """Followed live, for the show; the summary comes from the audit."""
    _news: float = 0.0
    """When something was bound or refused last."""
    _killed: int = 0
    """Process id of the worker that was killed."""
    _back: bool = False
    """Whether its successor was told."""
    _recent: deque[tuple[float, int]] = field(default_factory=deque)

    async def tell(self) -> Summary:
        """Do it all; answers the summary, judged from etcd's history."""
        first = (await self.store.get(keys.INSTALLATION)).revision + 1
        async with _beside(self._follow(first)):
            await self._put_nodes()
            await asyncio.sleep(DispatchSettings().hold)  # a worker that has just come may hold pods back so long
            self.view.show(self.pods)
            began = self._news = time.monotonic()
            created = rfc3339_now()
            trace = openb.pods(self.pods, created=created)
            flood = await self._flood(islice(trace, min(FLOOD, self.pods // 2)))
            await self._scale_up()
            async with _beside(self._put_in_order(trace)) as putting:
                middle = self.ledger.bound + (self.pods - flood.pods) // 2
                await self._until(lambda: self.ledger.bound >= middle or self._answered())
                self._kill_a_worker()
                await self._until(lambda: self._recovered() and putting.done() and self._answered())
                await putting
            seconds = self._news - began
        self.view.hide()
        self.view.say("Reading etcd's revision history from the first revision on ...")
        return summary(await audit(self.store, first), self.pods, seconds, flood)

    async def _put_nodes(self) -> None:
        nodes = list(openb.nodes(created=rfc3339_now()))
        await self._put_at_once([Put(keys.node(node["metadata"]["name"]), to_json(node)) for node in nodes])
        self.view.say(f"{len(nodes):,} nodes of a production GPU cluster are in etcd.")

    async def _flood(self, pods: Iterable[dict[str, Any]]) -> Flood:
        """Put these pods at once, and wait until each is bound or refused."""
        puts = [_put(pod) for pod in pods]
        self.view.say(f"Part 1, a flood: putting {len(puts):,} of its pods into etcd at once ...")
        began = self._news = time.monotonic()
        await self._put_at_once(puts)
        self.view.say("They are all in etcd.")
        await self._until(lambda: self.ledger.bound + self.ledger.refused() >= len(puts))
        flood = Flood(len(puts), self._news - began)
        self.view.say(
            f"{self.ledger.bound:,} are bound, {self.ledger.refused():,} refused: "
            f"{flood.seconds:.1f} s, {flood.pods_per_s:,.0f} pods/s."
        )
        return flood

    async def _scale_up(self) -> None:
        if self.workers == self.tree.instances.wanted:
            return
        await Fleets(self.store).scale(COMMON, self.workers, reason="the demo's second part")
        self.view.say(f"The fleet is scaled to {self.workers} workers.")
        self._news = time.monotonic()
        instances = self.tree.instances
        await self._until(lambda: instances.wanted == self.workers and instances.complete)

    async def _put_in_order(self, pods: Iterable[dict[str, Any]]) -> None:
        self.view.say("Part 2, a crash: putting the other pods, one by one, in the trace's order ...")
        for pod in pods:
            put = _put(pod)
            await self.store.put(put.key, put.value)
        self.view.say("All pods are in etcd.")

    async def _put_at_once(self, puts: list[Put]) -> None:
        rest = iter(puts)
        while batch := list(islice(rest, PUTS_A_TRANSACTION)):
            await self.store.txn((), batch)

    def _kill_a_worker(self) -> None:
        workers = self.tree.instances.ready
        if not workers:
            return
        victim = workers[0]
        self.view.say(f"{self.ledger.bound:,} pods are bound: SIGKILL to worker {victim.name} ({victim.pid}).")
        self._killed = victim.pid
        with suppress(ProcessLookupError):
            os.kill(victim.pid, signal.SIGKILL)

    def _recovered(self) -> bool:
        """Whether the killed worker has a successor; reported once."""
        workers = self.tree.instances.ready
        recovered = self.tree.instances.complete and all(one.up and one.pid != self._killed for one in workers)
        if recovered and self._killed and not self._back:
            self._back = True
            self.view.say(f"The fleet brought worker {workers[0].name} up again as {workers[0].pid}.")
        return recovered

    def _answered(self) -> bool:
        """Every pod is bound, or was refused and nothing has changed for a while."""
        if len(self.ledger.pods) < self.pods:
            return False
        waiting = self.pods - self.ledger.bound
        return waiting == 0 or (self.ledger.refused() == waiting and time.monotonic() - self._news >= QUIET)

    async def _until(self, done: Callable[[], bool]) -> None:
        """Wait, showing how far it is, until it is done or nothing happens any more."""
        while not done() and time.monotonic() - self._news < PATIENCE:
            up = sum(one.up for one in self.tree.instances.ready)
            refused = self.ledger.refused()
            self.view.update(bound=self.ledger.bound, refused=refused, rate=self._rate(), up=up)
            await asyncio.sleep(LOOK_EVERY)

    def _rate(self) -> float:
        now = time.monotonic()
        self._recent.append((now, self.ledger.bound))
        while now - self._recent[0][0] > RATE_OVER:
            self._recent.popleft()
        since, bound = self._recent[0]
        return (self.ledger.bound - bound) / (now - since) if now > since else 0.0

    async def _follow(self, first: int) -> None:
        async with self.store.watch(keys.ROOT, first) as batches:
            async for batch in batches:
                before = self.ledger.attempts
                self.ledger.apply(batch)
                if before != self.ledger.attempts:
                    self._news = time.monotonic()


@asynccontextmanager
async def _beside(work: Coroutine[Any, Any, None]) -> AsyncIterator[asyncio.Task[None]]:
    """Run something beside the block, and end it with the block however that ends."""
    task = asyncio.create_task(work)
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def summary(judged: Audit, pods: int, seconds: float, flood: Flood) -> Summary:
    """The summary of an audit; pods that never came to be in etcd are lost too."""
    return Summary(
        pods=pods,
        bound=judged.bound,
        refused=judged.reasons(),
        attempts=judged.attempts,
        flood=flood.pods,
        flood_seconds=round(flood.seconds, 2),
        flood_pods_per_s=round(flood.pods_per_s, 1),
        seconds=round(seconds, 1),
        pods_per_s=round(pods / seconds, 1) if seconds > 0 else 0.0,
        lost=len(judged.lost) + max(0, pods - judged.pods),
        doubled=len(judged.doubled),
        overcommitted=len(judged.overcommitted),
    )


def _put(pod: dict[str, Any]) -> Put:
    return Put(keys.pod(openb.NAMESPACE, pod["metadata"]["name"]), to_json(pod))
