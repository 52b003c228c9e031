"""Runs a rerun over a span: lists the first state, applies etcd's events, and looks at both clusters on the way.

What the record decided in the span lies in a temporary file. `scheduling.reading.comparing` says when two decisions are
the same.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence

from wharfinger.errors import Compacted
from wharfinger.etcd import keys
from wharfinger.etcd.store import Event, KeyValue, WatchBatch
from wharfinger.framework.profile import Profile
from wharfinger.objects.documents.formats import ObjectFormat, format_of
from wharfinger.objects.model.pod import Pod, PodKey
from wharfinger.replay.changes import ProfileChange
from wharfinger.replay.facts import OFTEN, Facts, KeptStates, oldest_kept
from wharfinger.replay.lived_pods import pod_key_of
from wharfinger.replay.memory_limit import UNLIMITED, MemoryLimit, scratch_database, writing
from wharfinger.replay.recorded import DecidedRun, Unit
from wharfinger.replay.report.rerun_report import SHAPES, RerunReport, Shape, moment, shapes_of
from wharfinger.replay.rerun import Rerun, RerunSimulator
from wharfinger.replay.shadow import SILENCE, Runs
from wharfinger.scheduling.contracts.cohort_scheduling import Seat, TurnedAway
from wharfinger.scheduling.contracts.scheduling import Placed, Refused
from wharfinger.scheduling.reading.comparing import DecisionSaid, MemberPart, said_alone, said_member

_DECIDED_TABLE = (
    "CREATE TABLE pods (namespace, name, created, placed, place, PRIMARY KEY (created, name, namespace, placed)) "
    "WITHOUT ROWID"
)
MOMENTS = 60
"""Looks at both clusters, at most."""
MOST_SHAPES = 10_000
"""Different requests that are counted; beyond that the rarer half is dropped."""
_TABLE = "CREATE TABLE state (rank, key, value, created, changed, lease)"
_RANKS = {keys.PRIORITY_CLASSES: 0, keys.NODES: 2, keys.PODS: 3}
_OTHERS = 1
"""The rank of what stands not among these."""


def said_of(run: DecidedRun, place: int, key: PodKey) -> DecisionSaid | None:
    """What a unit decided for a pod, the last of it; None where it decided nothing for it."""
    decision = dict(run.decided(place)).get(key)
    if isinstance(decision, Placed | Refused):
        return said_alone(decision)
    many = run.many
    if decision is None or many is None:
        return None
    if isinstance(decision, TurnedAway) and decision.reasons >= len(many.reasons):
        return None
    return said_member(MemberPart(decision, many.reasons, many.domain))


class DecidedPods:
    """Pods by key and create revision; contains those that were placed. Close it."""

    def __init__(self, runs: Runs, units: Sequence[Unit]) -> None:
        self._database = scratch_database(_DECIDED_TABLE)
        for number, unit in enumerate(units):
            run = runs.get(unit.run)
            rows = [
                (*key, one.create_revision, isinstance(one, Placed | Seat), number)
                for key, one in run.decided(unit.place)
            ]
            with writing():
                self._database.executemany("INSERT OR REPLACE INTO pods VALUES (?, ?, ?, ?, ?)", rows)

    def __contains__(self, pod: object) -> bool:
        return isinstance(pod, tuple) and self.place(*pod, placed=True) is not None

    def place(self, key: PodKey, create_revision: int, *, placed: bool) -> int | None:
        """The place among the units of the one that placed the pod last, or refused it last; None = none did."""
        found = self._database.execute(
            "SELECT place FROM pods WHERE created = ? AND name = ? AND namespace = ? AND placed = ?",
            (create_revision, key.name, key.namespace, placed),
        ).fetchone()
        return int(found[0]) if found is not None else None

    def known(self, key: PodKey, create_revision: int) -> bool:
        """Whether any of them decided for the pod."""
        return any(self.place(key, create_revision, placed=placed) is not None for placed in (True, False))

    def close(self) -> None:
        """Give the room back."""
        self._database.close()


class FirstState:
    """The first state, in the order in which it is lived: in a temporary file, for a cluster's is large. Close it."""

    def __init__(self) -> None:
        self._database = scratch_database(_TABLE)

    def add(self, items: Iterable[KeyValue]) -> None:
        """A part of it. Raises `UsageError` where no file can be written."""
        with writing():
            self._database.executemany(
                "INSERT INTO state VALUES (?, ?, ?, ?, ?, ?)", ((_rank(kv.key), *kv) for kv in items)
            )

    def events(self) -> Iterator[Event]:
        """Classes first, because pods are resolved by them; then nodes, in the order in which they came; then pods."""
        query = "SELECT key, value, created, changed, lease FROM state ORDER BY rank, created, rowid"
        with writing():
            for row in self._database.execute(query):
                yield Event(KeyValue._make(row))

    def close(self) -> None:
        """Give the room back."""
        self._database.close()


def _rank(key: str) -> int:
    parsed = keys.parse(key)
    return _RANKS.get(parsed.prefix, _OTHERS) if parsed is not None else _OTHERS


async def rerun(
    store: KeptStates,
    runs: Runs,
    units: Sequence[Unit],
    change: ProfileChange,
    progress: Callable[[int, int], None] = lambda _done, _total: None,
    *,
    memory: MemoryLimit = UNLIMITED,
    cluster: str = "",
    ends: bool = False,
) -> RerunReport:
    """Live the span of these units again. Raises `StoreError`, and `Unreplayable` when a profile cannot be made.

    `cluster`: whose attempts decided; `ends`: whether the span ends with the last of these decisions, and not now.
    """
    if not units:
        return RerunReport(change.told)
    newest = (await store.get(keys.INSTALLATION)).revision
    end = min(units[-1].revision, newest) if ends else newest
    profiles = await _profiles(store, units, change)
    decided = DecidedPods(runs, units)
    wanted = min(units[0].revision, newest)
    format_, life = format_of(store.format), None
    try:
        while True:
            report = RerunReport(change.told)
            if life is not None:
                life.lived.close()
            life = Rerun(RerunSimulator(profiles), decided, frozenset(profiles), cluster, format_)
            span = _Span(report, life, _facts(format_, memory), units)
            try:
                first = await oldest_kept(store, wanted)
                await _live(store, span, (first, max(first, end), newest), progress, memory)
                break
            except Compacted as error:  # etcd compacts while this goes on: begin again where it still can
                wanted = max(wanted + 1, error.compact_revision)
                if wanted > end:
                    raise
        report.close(life, decided.known if ends else lambda _key, _created: True)
        for one in report.shown:
            place = decided.place(one.key, one.create_revision, placed=bool(one.recorded))
            if place is not None:
                unit = units[place]
                said = said_of(runs.get(unit.run), unit.place, one.key)
                report.recorded |= {(one.key, one.create_revision): said} if said is not None else {}
    finally:
        decided.close()
        if life is not None:
            life.lived.close()
    return report


async def _live(
    store: KeptStates,
    span: _Span,
    bounds: tuple[int, int, int],
    progress: Callable[[int, int], None],
    memory: MemoryLimit,
) -> None:
    """`bounds`: revisions of the first state, of the last change that is lived, and of the last one that there is."""
    first, end, newest = bounds
    life = span.life
    await span.begin(store, first, memory)
    every, due = max(1, (end - first) // MOMENTS), first
    async with store.watch(keys.ROOT, first + 1) as batches:

        async def following() -> WatchBatch:
            async with asyncio.timeout(SILENCE):
                return await anext(batches)

        behind: WatchBatch | None = None
        while span.facts.revision < end:
            batch = await following()
            if batch.revision > end:
                behind = batch
                break
            span.take(batch)
            if batch.revision >= due:
                due = batch.revision + every
                span.look()
                await asyncio.sleep(0)
            memory.check(lambda: f"for the {len(life.lived):,} pods that were lived again so far")
            progress(batch.revision - first, end - first)
        span.look()
        life.close()
        # What was decided last in the span was bound a little later.
        seen = span.facts.revision
        while life.unbound() and seen < newest:
            batch, behind = behind or await following(), None
            life.note(batch.events)
            seen = batch.revision


class _Span:
    """Both clusters on the way, the recorded one and that of the rerun."""

    def __init__(self, report: RerunReport, life: Rerun, facts: Facts, units: Sequence[Unit]) -> None:
        self.facts = facts
        self.life = life
        self._report = report
        self._units = iter(units)
        self._next: Unit | None = next(self._units, None)
        if self._next is not None:
            life.time = self._next.started
        self._seconds: float | None = None
        """When the last run so far began; etcd's revisions have no time of their own."""
        self._asked: Counter[Shape] = Counter()
        """Requests of all pods that there were so far."""

    async def begin(self, store: KeptStates, revision: int, memory: MemoryLimit) -> None:
        """Read the first state."""
        state = FirstState()
        try:
            async for page in store.list(keys.ROOT, revision=revision):
                self.facts.read(page.items)
                state.add(page.items)
            self.facts.begun(revision)
            self.life.begin(_checked(state.events(), memory))
        finally:
            state.close()
        self._count(self.facts.cache.pods.values())

    def take(self, batch: WatchBatch) -> None:
        """All changes of one revision."""
        self.facts.take(batch.events, batch.revision)
        self._pass()
        if self._seconds is not None:
            self.life.time = self._seconds
        self.life.take(batch.events)
        new = [event.kv.key for event in batch.events if event.kv.create_revision == batch.revision]
        found = (self.facts.cache.pods.get(key) for one in new if (key := pod_key_of(one)) is not None)
        self._count(pod for pod in found if pod is not None)

    def _count(self, pods: Iterable[Pod]) -> None:
        self._asked.update(dict(shapes_of((pod.requests for pod in pods), most=None)))
        if len(self._asked) > MOST_SHAPES:
            self._asked = Counter(dict(self._asked.most_common(MOST_SHAPES // 2)))

    def _pass(self) -> None:
        """The runs that began up to here."""
        while self._next is not None and self._next.revision <= self.facts.revision:
            self._seconds = max(self._seconds or 0.0, self._next.started)
            self._next = next(self._units, None)

    def look(self) -> None:
        """Compare the two."""
        self._pass()
        shapes = self._asked.most_common(SHAPES)
        ours, theirs = self.facts.cache.snapshot(), self.life.simulator.snapshot()
        self._report.moments.append(moment(self.facts.revision, ours, theirs, shapes, self._seconds))


def _facts(format_: ObjectFormat, memory: MemoryLimit) -> Facts:
    def held() -> str:
        return f"for the state with {facts.waiting or len(facts.cache.pods):,} pods and other objects"

    facts = Facts(format_, followed=False, check=lambda: memory.check(held))
    return facts


def _checked(events: Iterable[Event], memory: MemoryLimit) -> Iterator[Event]:
    for number, event in enumerate(events, start=1):
        yield event
        if not number % OFTEN:
            memory.check(lambda: f"for the state, twice, with the first {number:,} objects of it")  # noqa: B023 - at once


async def _profiles(store: KeptStates, units: Sequence[Unit], change: ProfileChange) -> dict[str, Profile]:
    """By name, the one that decided last, under the change."""
    last = {unit.profile_name: unit.profile for unit in units}
    made: dict[str, Profile] = {}
    for name, digest in last.items():
        read = await store.get(keys.profile(digest)) if digest else None
        recorded = read.kv.value if read is not None and read.kv is not None else None
        made[name] = change.profile(recorded, name, digest)
    return made
