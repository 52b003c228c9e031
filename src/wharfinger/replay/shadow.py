"""Shadow: every recorded decision is made again on the state that it then had, whatever the others come to.

The state is listed once, at the first revision that is needed and still kept. Then etcd's events are applied in order,
and each decision is made when its revision is reached. Decisions of one worker are made on one stand-in, which lives
from the worker's first decision to its last.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Protocol

from wharfinger.errors import Compacted
from wharfinger.etcd import keys
from wharfinger.etcd.store import WatchBatch
from wharfinger.framework.profile import Profile
from wharfinger.objects.documents.formats import format_of
from wharfinger.objects.model.pod import PodIdentity, PodKey
from wharfinger.process.transactions import STOCK, Limits
from wharfinger.replay.changes import ProfileChange
from wharfinger.replay.deciding import Again, Deciding, UnitScene, placements
from wharfinger.replay.facts import Facts, KeptStates, oldest_kept
from wharfinger.replay.memory_limit import UNLIMITED, MemoryLimit
from wharfinger.replay.recorded import DecidedRun, Lack, Unit, Unreplayable, worker_of
from wharfinger.replay.stand_in import StandIn
from wharfinger.scheduling.contracts.computation import Computation
from wharfinger.telemetry import Metrics

BREATHE = 64
"""Decisions between two turns of the event loop, and between two looks at the memory, at most."""
MOST_PLACED = 10_000
"""Placements after which those that are bound meanwhile are left out."""
SILENCE = 60.0
"""Seconds without a word from etcd, after which it is no use to wait for events that it has."""

Sink = Callable[["MadeAgain"], None]


class Runs(Protocol):
    """Recorded runs by number."""

    def get(self, number: int) -> DecidedRun:
        """The run of that number."""

    def lost(self, worker: str) -> list[str]:
        """What decisions of the worker placed that are not recorded, in order (`Computation.lost`)."""


@dataclass(frozen=True, slots=True)
class MadeAgain:
    """One pod's decision, made again or not, where it stands in the record."""

    run: DecidedRun
    computation: Computation
    again: Again
    fill: tuple[float | None, float | None] = (None, None)
    """Share of cpu and memory that is in use on the recorded node, and on the other one, with the pod on it."""


@dataclass(slots=True)
class Shadow:
    """One replay; `run` once."""

    store: KeptStates
    """Read only: the state of the past and its changes."""
    runs: Runs
    units: Sequence[Unit]
    """Sorted."""
    change: ProfileChange
    cluster: str
    limits: Limits = STOCK
    metrics: Metrics = field(default_factory=Metrics)
    memory: MemoryLimit = UNLIMITED
    first_revision: int = 0
    """At which the state was listed; 0 = not yet."""
    _kept: int = 0
    """The first revision that the store still has."""
    _reader: _Reader | None = None
    _documents: dict[str, bytes | None] = field(default_factory=dict)
    _open: dict[str, Deciding] = field(default_factory=dict)
    _profiles: dict[tuple[str, str, str], Profile] = field(default_factory=dict)
    """By worker, digest and name: profiles remember what they have seen, so no two workers share them."""
    _placed: dict[PodIdentity, str] = field(default_factory=dict)
    """What was placed and is perhaps not bound yet."""
    _most_placed: int = MOST_PLACED
    _names: set[str] = field(default_factory=set)
    """Of the profiles that decided: members of a gang may have several."""

    async def run(self, sink: Sink, progress: Callable[[int, int], None] = lambda _done, _total: None) -> None:
        """Decide all units. Raises `StoreError`."""
        total, done = sum(unit.decisions for unit in self.units), 0
        if not self.units:
            return
        newest = (await self.store.get(keys.INSTALLATION)).revision
        self._kept = await oldest_kept(self.store, min(self.units[0].revision, newest))
        last = {unit.worker: place for place, unit in enumerate(self.units)}
        await self._read_profiles()
        try:
            for place, unit in enumerate(self.units):
                run = self.runs.get(unit.run)
                facts = await self._reach(unit, newest)
                if isinstance(facts, Unreplayable):
                    self._report(run, unit, [Again(None, key, facts) for key, _ in run.decided(unit.place)], sink)
                else:
                    self._report(run, unit, await self._decide(run, unit, facts), sink)
                    if last[unit.worker] == place:
                        self._leave(unit.worker, facts)
                if (done + unit.decisions) // BREATHE > done // BREATHE:
                    await asyncio.sleep(0)
                    if isinstance(facts, Facts):
                        facts.check()
                done += unit.decisions
                progress(done, total)
        finally:
            await self._forget_all()

    # --- reading ------------------------------------------------------------------------------

    async def _reach(self, unit: Unit, newest: int) -> Facts | Unreplayable:
        """The state on which the unit was decided, or what is missing of it. Raises `StoreError`."""
        lack = _lack(unit, self._kept, newest)
        if lack is not None:
            return lack
        try:
            if self._reader is None:
                self._reader = _Reader(self.store, await self._listed(unit.revision))
            await self._reader.advance(unit.revision)
        except Compacted as error:  # etcd compacts while this goes on: begin again where it still can
            await self._forget_all()
            self._kept = max(unit.revision + 1, error.compact_revision)
            return _lack(unit, self._kept, newest) or Unreplayable(Lack.COMPACTED, str(error))
        return self._reader.facts

    async def _forget_all(self) -> None:
        """No worker is stood in for any more: what happens meanwhile is not known."""
        reader, self._reader = self._reader, None
        self._open.clear()
        self._profiles.clear()
        self._placed.clear()
        if reader is not None:
            await reader.close()

    async def _listed(self, revision: int) -> Facts:
        self.first_revision = self.first_revision or revision
        installation = await self.store.get(keys.INSTALLATION)
        copies = installation.kv is not None and b'"upstream":"' in installation.kv.value.replace(b'"upstream":""', b"")
        facts = Facts(
            format_of(self.store.format), copies=copies, check=lambda: self.memory.check(lambda: self._held(facts))
        )
        async for page in self.store.list(keys.ROOT, revision=revision):
            facts.read(page.items)
        facts.begun(revision)
        return facts

    def _held(self, facts: Facts) -> str:
        if facts.waiting:
            return f"for the first {facts.waiting:,} objects of the cluster's state alone"
        workers = len(self._open)
        return f"for the state with {len(facts.cache.pods):,} pods, as {workers} workers knew it at the same time"

    async def _read_profiles(self) -> None:
        for unit in self.units:
            self._names.add(unit.profile_name)
            if unit.profile and unit.profile not in self._documents:
                read = await self.store.get(keys.profile(unit.profile))
                self._documents[unit.profile] = read.kv.value if read.kv is not None else None

    # --- deciding -----------------------------------------------------------------------------

    async def _decide(self, run: DecidedRun, unit: Unit, facts: Facts) -> list[Again]:
        computation = run.computations()[unit.place]
        worker = worker_of(computation)
        deciding = self._open.get(worker)
        if deciding is None:
            deciding = self._open[worker] = self._standing_in(run, worker, facts)
        try:
            profile = self._profile(worker, computation)
        except Unreplayable as error:
            deciding.as_recorded(run, unit.place)
            return [Again(facts.cache.pods.get(key), key, error) for key, _ in run.decided(unit.place)]
        scene = UnitScene(
            computation, profile, facts.memberships, _Candidates(self._placed, facts), self.change.nothing
        )
        found = await deciding.decide(run, unit.place, scene)
        self._placed.update(placements(run, unit.place))
        if len(self._placed) > self._most_placed:
            self._most_placed = MOST_PLACED + 2 * sum(1 for _ in _Candidates(self._placed, facts))
        return found

    def _standing_in(self, run: DecidedRun, worker: str, facts: Facts) -> Deciding:
        stand_in = StandIn(
            facts.follow(),
            self.store.format,
            self.limits,
            self.metrics,
            cluster=self.cluster,
            tenant=run.tenant,
            names=self._names,
            lost=self.runs.lost(worker),
        )
        return Deciding(stand_in, self.cluster)

    def _leave(self, worker: str, facts: Facts) -> None:
        deciding = self._open.pop(worker, None)
        if deciding is not None:
            facts.leave(deciding.stand_in.view)
        self._profiles = {key: one for key, one in self._profiles.items() if key[0] != worker}

    def _profile(self, worker: str, computation: Computation) -> Profile:
        key = worker, computation.profile, computation.profile_name
        profile = self._profiles.get(key)
        if profile is None:
            recorded = self._documents.get(computation.profile)
            profile = self.change.profile(recorded, computation.profile_name, computation.profile)
            self._profiles[key] = profile
        return profile

    def _report(self, run: DecidedRun, unit: Unit, found: Sequence[Again], sink: Sink) -> None:
        computation = run.computations()[unit.place]
        deciding = self._open.get(worker_of(computation))
        for again in found:
            sink(MadeAgain(run, computation, again, _fill(again, deciding)))


class _Candidates:
    """Placements that are not bound in etcd, as far as it has come."""

    def __init__(self, placed: dict[PodIdentity, str], facts: Facts) -> None:
        self._placed = placed
        self._facts = facts

    def __iter__(self) -> Iterator[tuple[PodIdentity, str]]:
        pods = self._facts.cache.pods
        for identity in list(self._placed):
            pod = pods.get(PodKey(identity.namespace, identity.name))
            if pod is None or pod.identity != identity or pod.bound:
                del self._placed[identity]
            else:
                yield identity, self._placed[identity]


class _Reader:
    """Applies etcd's events up to the revisions that are asked for."""

    def __init__(self, store: KeptStates, facts: Facts) -> None:
        self.facts = facts
        self._watch: AbstractAsyncContextManager[AsyncIterator[WatchBatch]] = store.watch(keys.ROOT, facts.revision + 1)
        self._batches: AsyncIterator[WatchBatch] | None = None
        self._next: WatchBatch | None = None

    async def advance(self, revision: int) -> None:
        """Apply everything up to that revision. Raises `StoreError`, TimeoutError when etcd says nothing more."""
        if self._batches is None:
            self._batches = await self._watch.__aenter__()
        while self.facts.revision < revision:
            if self._next is None:
                async with asyncio.timeout(SILENCE):
                    self._next = await anext(self._batches)
            if self._next.revision > revision:
                return
            self.facts.take(self._next.events, self._next.revision)
            self._next = None

    async def close(self) -> None:
        """End the watch."""
        if self._batches is not None:
            await self._watch.__aexit__(None, None, None)


def _lack(unit: Unit, kept: int, newest: int) -> Unreplayable | None:
    if unit.revision < kept:
        return Unreplayable(Lack.COMPACTED, f"the state of revision {unit.revision} is compacted in etcd")
    if unit.revision > newest:
        return Unreplayable(
            Lack.FUTURE, f"etcd has no revision {unit.revision} yet: it was restored from a backup since"
        )
    return None


def _fill(again: Again, deciding: Deciding | None) -> tuple[float | None, float | None]:
    if deciding is None or again.pod is None or isinstance(again.found, Unreplayable):
        return None, None
    before = _share(again, deciding, again.found.recorded.node)
    if again.found.again.node == again.found.recorded.node:
        return before, before
    return before, _share(again, deciding, again.found.again.node)


def _share(again: Again, deciding: Deciding, node: str) -> float | None:
    info = deciding.stand_in.cache.node_info(node) if node else None
    if info is None or again.pod is None:
        return None
    counted = again.pod.identity in info.pods
    shares = []
    for resource in ("cpu", "memory"):
        offered = info.node.allocatable.get(resource, 0)
        if offered:
            used = info.requested.get(resource, 0) + (0 if counted else again.pod.requests.get(resource, 0))
            shares.append(used / offered)
    return sum(shares) / len(shares) if shares else None
