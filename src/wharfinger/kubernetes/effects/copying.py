"""Copying what lists and watches of the API show, many states a transaction. Only the importer does this.

::

    states of one kind ─► the last one of each name ─► read what etcd has, but for new and kept ones ─► steps (`states`)
      ─► transactions, cut by etcd's limits ─► those that failed: read and tried once more, then one by one (`adopting`)

A pod that is bound as it was promised is *kept*: what the informer shows of its promise says enough of its copy.

Each transaction compares the importer's key, so that an importer that was replaced writes nothing more.

After the API was restored from a backup, everything that was copied is forgotten, and copied anew: revisions of the API
went back, so no copy can be compared with what it has now. A restore shows in the Lease, whose revision is read every
two seconds, when a watch is opened again, and in a list that is older than the copies. It does not show where the API
has written more since than was lost.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from wharfinger.errors import InvalidObject, RequestTooLarge
from wharfinger.etcd import keys
from wharfinger.etcd.store import Compare, Delete, Get, Operation, Put, Store
from wharfinger.kubernetes.effects.adopting import Adopter, NotTheImporter
from wharfinger.kubernetes.effects.states import NOTHING, PODS, ObjectState, StateStep, kept
from wharfinger.objects.documents.copies import StateOfCopy, state_of
from wharfinger.objects.model.pod import PodKey
from wharfinger.process.transactions import Limits, Shape, cut
from wharfinger.scheduling.contracts import promise_records
from wharfinger.scheduling.contracts.promise_records import KnownObject, StateEffect, known_object
from wharfinger.scheduling.model.promises import Imported, Promise

TOGETHER = 100
"""Keys that are removed in one transaction."""
ROUNDS = 2
"""Tries of many states together; what is left then goes one by one."""
READ_TOGETHER = 64
"""Objects that are read in one transaction."""


class ApiWentBack(Exception):
    """The API shows an older state than was seen already: it was restored from a backup."""


async def forget_copies(store: Store, plurals: Iterable[str], *, epoch: int, generation: int) -> tuple[int, int]:
    """Remove the copies of these kinds and all promises; how many there were of each.

    `epoch`: of the importer; `generation`: the new one. Raises `StoreError` and `NotTheImporter`: call again.
    """
    # The right to bind goes first, and no promise is kept: the API may give the revisions that they name out again.
    begun = Imported(generation=generation)
    await _write(store, epoch, [Delete(keys.ACTIVE), Put(keys.IMPORTED, promise_records.stored(begun))])
    promises = await _remove(store, epoch, keys.PROMISES)
    copies = 0
    for plural in plurals:
        copies += await _remove(store, epoch, keys.stored_prefix(plural))
    return copies, promises


async def _remove(store: Store, epoch: int, prefix: str) -> int:
    found = [kv.key async for kv in store.each(prefix)]
    for begin in range(0, len(found), TOGETHER):
        await _write(store, epoch, [Delete(key) for key in found[begin : begin + TOGETHER]])
    return len(found)


async def _write(store: Store, epoch: int, writes: list[Operation]) -> None:
    answer = await store.txn([Compare(keys.IMPORTER, "mod", epoch)], writes)
    if not answer.succeeded:
        raise NotTheImporter


class SeenState(NamedTuple):
    """One state as a list or a watch showed it."""

    state: ObjectState
    new: bool = False
    """Whether there was no such object before, as the API says: then nothing is read first."""


@dataclass(slots=True)
class Copied:
    """What became of states."""

    effects: Counter[StateEffect] = field(default_factory=Counter)
    unreadable: list[str] = field(default_factory=list)
    """Objects that are too large, or no objects: one line each."""


class Copying:
    """Copies the states of one importer."""

    def __init__(
        self,
        adopter: Adopter,
        *,
        limits: Limits,
        epoch: int,
        promised: Callable[[PodKey], Promise | None] = lambda _: None,
    ) -> None:
        """`epoch`: mod revision of the importer's key; `promised`: the promise of a pod as it was seen last, perhaps
        not as it is now.
        """
        self._adopter = adopter
        self._store = adopter.store
        self._limits = limits
        self._epoch = epoch
        self._promised = promised

    async def copies(self, plural: str) -> dict[str, StateOfCopy]:
        """Which state each copy of a kind is, by key; none is known where all are made anew. Raises `StoreError`."""
        found: dict[str, StateOfCopy] = {}
        async for kv in self._store.each(keys.stored_prefix(plural)):
            try:
                state = state_of(kv.value)
            except InvalidObject:
                state = StateOfCopy("", 0)
            found[kv.key] = StateOfCopy("", 0, state.group) if self._adopter.anew else state
        return found

    async def take(self, seen: Iterable[SeenState]) -> Copied:
        """Take states in, in the order in which the API had them. Raises `StoreError` and `NotTheImporter`."""
        left = {one.state.key: one for one in seen}
        done = Copied()
        for number in range(ROUNDS):
            if not left:
                return done
            left = await self._round(left, done, guess=number == 0 and not self._adopter.anew)
        for one in left.values():
            await self._alone(one.state, done)
        return done

    async def _round(self, seen: Mapping[str, SeenState], done: Copied, *, guess: bool) -> dict[str, SeenState]:
        """All of them once, together; answers those that were in a transaction that failed, or need two.

        `guess`: go by promises as they were seen last; what turns out to be otherwise is among those that failed.
        """
        as_promised = self._as_promised(seen, done) if guess else {}
        known = await self._read([one.state for key, one in seen.items() if not one.new and key not in as_promised])
        steps: list[tuple[ObjectState, StateStep]] = []
        left: dict[str, SeenState] = {}
        for key, one in seen.items():
            step = as_promised.get(key) or self._step(one.state, known.get(key, KnownObject(None)), done)
            if step.again:
                await self._alone(one.state, done)
            elif step.writes:
                steps.append((one.state, step))
            else:
                done.effects[step.effect] += 1
        shapes = [_shape(step) for _, step in steps]
        for numbers in cut(shapes, self._limits):
            group = [steps[number] for number in numbers]
            if not await self._send([step for _, step in group], done):
                left.update((state.key, SeenState(state)) for state, _ in group)
        return left

    def _as_promised(self, seen: Mapping[str, SeenState], done: Copied) -> dict[str, StateStep]:
        """The steps of pods that are bound and were promised, by key."""
        steps: dict[str, StateStep] = {}
        for key, one in seen.items():
            state = one.state
            promise = self._promised(PodKey(state.namespace, state.name)) if state.plural == PODS else None
            if promise is None:
                continue
            try:
                step = kept(state, promise, whole=self._adopter.whole)
            except (InvalidObject, ValueError, TypeError) as error:
                done.unreadable.append(f"{key}: {error}")
                step = NOTHING
            if step is not None:
                steps[key] = step
        return steps

    def _step(self, state: ObjectState, known: KnownObject, done: Copied) -> StateStep:
        try:
            return self._adopter.step(state, known, imports=True)
        except (InvalidObject, ValueError, TypeError) as error:  # one object must not stop all others
            done.unreadable.append(f"{state.key}: {error}")
            return NOTHING

    async def _read(self, states: Sequence[ObjectState]) -> dict[str, KnownObject]:
        found: dict[str, KnownObject] = {}
        for begin in range(0, len(states), READ_TOGETHER):
            asked = states[begin : begin + READ_TOGETHER]
            reads: list[Operation] = [Get(state.key) for state in asked]
            promises = [Get(state.promise_key) for state in asked if state.promise_key]
            answer = await self._store.txn([], [*reads, *promises])
            promised = answer.reads[len(reads) :] or (None,) * len(asked)
            for state, copy, promise in zip(asked, answer.reads, promised, strict=False):
                found[state.key] = known_object(copy, promise)
        return found

    async def _send(self, steps: Sequence[StateStep], done: Copied) -> bool:
        """One transaction; whether it happened. One that etcd does not take is left to smaller ones."""
        fence = Compare(keys.IMPORTER, "mod", self._epoch)
        compares = [fence, *(compare for step in steps for compare in step.compares)]
        writes = [write for step in steps for write in step.writes]
        try:
            answer = await self._store.txn(compares, writes, [Get(keys.IMPORTER)])
        except RequestTooLarge:
            return False
        if answer.succeeded:
            done.effects.update(step.effect for step in steps)
            return True
        if not fence.holds(answer.reads[0]):
            raise NotTheImporter
        return False

    async def _alone(self, state: ObjectState, done: Copied) -> None:
        try:
            adopted = await self._adopter.adopt(state, epoch=self._epoch)
        except (InvalidObject, RequestTooLarge, ValueError, TypeError) as error:
            done.unreadable.append(f"{state.key}: {error}")
        else:
            done.effects[adopted.effect] += 1


def _shape(step: StateStep) -> Shape:
    compared = tuple(compare.key for compare in step.compares)
    size = sum(len(write.value) for write in step.writes if isinstance(write, Put))
    return Shape((keys.IMPORTER, *compared), tuple(write.key for write in step.writes), size)
