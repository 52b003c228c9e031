"""Committing placements: rounds in which all seats that are left are sent once, each to its node.

::

    round:  seats without rules across nodes    a few transactions at a time, many pods each
            seats with rules                    one transaction after the other, in the order decided
            seats that go alone                 one pod a transaction: a lone pod, and whatever held others up
            a gang                              all seats in one transaction, or none
              verify ─► send ── succeeded ─► bound
                ▲        └───── failed: the reads show what moved
                │                 its own pod, node or binding   adopted where it means the same; caught up; then alone
                └─────────────────the rest, once more, half as many a transaction; binds of others came in between
    the next round:  seats that lost their node, on their next runner-up; seats that rely on pods not bound yet

The locks of the pods are held throughout: tries of one bind follow each other (Temporal begins the next one when the
answer is late, whatever the former still does). Those of nodes and namespaces are held for a lane: each bind sees the
versions that the former one wrote. An answer that got lost is resolved by reading: the activity fails, and its retry
finds the pods as they are.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from itertools import chain
from typing import TypeVar
from weakref import WeakValueDictionary

from wharfinger.contracts import lone
from wharfinger.contracts.cohort_scheduling import BindManyInput, BoundMany
from wharfinger.contracts.plugin_calls import CallsMade, Held
from wharfinger.contracts.scheduling import BindInput, BindOutcome, Bound, Contended
from wharfinger.engine.failures import gather_to_end
from wharfinger.engine.pods import across_nodes
from wharfinger.engine.pods.across_nodes import EVERYWHERE
from wharfinger.engine.pods.bind.conflict import Conflicts
from wharfinger.engine.pods.bind.fill import Filling
from wharfinger.engine.pods.bind.outcome import (
    GANG,
    GROUP,
    LONE,
    BindGroup,
    BindPolicy,
    Outcome,
    Outcomes,
    identity,
    tell_bound,
)
from wharfinger.engine.pods.bind.progress import LANES, WHOLE, BindProgress, SendAgain, Sending, SendingLane
from wharfinger.engine.pods.bind.seat import Seated, Seats
from wharfinger.engine.pods.bind.transaction import Commit, Committer, Stamp, ruled, together
from wharfinger.engine.pods.bind.upstream import Keeping
from wharfinger.engine.pods.core import Core
from wharfinger.engine.pods.verification import LEANS
from wharfinger.errors import RequestTooLarge
from wharfinger.manifests.times import rfc3339
from wharfinger.model.pod import PodIdentity
from wharfinger.model.promises import Promise
from wharfinger.registry import keys

TURNS = 5
"""Rounds in which a seat may rely on pods that are being bound themselves, the last one without regard for that."""
TURN = 0.1
"""Seconds at most between them; anything that happens begins the next one."""


class Bindings:
    """Commits the placements of one worker."""

    def __init__(self, core: Core) -> None:
        self._cache = core.pool.cache
        self._committer = Committer(store=core.process.store, cache=core.pool.cache)
        self._settings = core.settings
        self._limits = core.limits
        self._clock = core.process.clock
        self._utc_now = core.process.utc_now
        self._tally = core.tally
        self._locks = Locks()
        self._seats = Seats(core)
        self._filling = Filling(core, self._seats)
        self._conflicts = Conflicts(core, self._seats, self._filling)
        self._upstream = core.upstream
        self._keeping = Keeping(core, self._seats)

    async def bind(self, request: BindInput) -> BindOutcome:
        """Bind the pod to the node chosen for it, or to a runner-up; or hold its room while plugins are to be called.

        Safe to run again. Raises `StoreError` (the outcome is unknown, or etcd does not answer) and `PluginError`.
        """
        return (await self._bind(lone.bind_many_input(request), LONE, request.calls)).of_lone_pod()

    async def bind_many(self, request: BindManyInput) -> BoundMany:
        """Bind each pod to its node, or to a runner-up; a gang whole or not at all.

        Safe to run again. Raises `StoreError`.
        """
        return (await self._bind(request, GANG if request.whole else GROUP)).told(request)

    async def _bind(self, request: BindManyInput, policy: BindPolicy, calls: CallsMade | None = None) -> Outcomes:
        async with self._locks.hold(map(identity, request.seats)):
            group = BindGroup(request, policy, self._clock(), calls)
            left, found = await self._seats.find(group)
            held = policy.holds and (calls is not None or any(seat.held for seat in left))
            room = await self._keeping.look(group, left) if held else None
            if room is not None:
                left, found = list(room.left), {**found, **room.outcomes}
            now = await self._rounds(group, BindProgress(Outcomes(found), self._limits, tuple(left)))
            outcomes = now.outcomes
            if self._upstream is not None:
                outcomes = await self._keeping.keep(group, self._upstream, outcomes, now.promised)
            return outcomes if room is None else await self._keeping.release(group, room, outcomes)

    async def close(self) -> None:
        """The process ends."""
        await self._committer.close()

    def _is_late(self, group: BindGroup) -> bool:
        """Whether others were in the way for too long."""
        return self._clock() - group.began > group.policy.patience

    # --- rounds -------------------------------------------------------------------------------

    async def _rounds(self, group: BindGroup, now: BindProgress) -> BindProgress:
        turns = 0
        while now.later and turns < TURNS and not self._is_late(group):
            before = now
            now = await self._round(group, now, may_wait=turns < TURNS - 1)
            if now.outcomes.transactions > before.outcomes.transactions:
                turns = 0
            elif _whose(now.later) == _whose(before.later):
                turns += 1
                if turns < TURNS:
                    await self._cache.progress.wait_for(self._cache.progress.revision + 1, TURN)
        return await self._place_anew(group, now) if now.later or now.lost else now

    async def _round(self, group: BindGroup, now: BindProgress, *, may_wait: bool) -> BindProgress:
        """All seats that are left once, each on its node."""
        left, now = now.later, replace(now, later=(), may_wait=may_wait)
        for lane in (WHOLE,) if group.policy.whole else LANES:
            seats = [seat for seat in left if lane.has(seat)]
            if seats:
                now = await self._lane(group, lane, now, seats)
        if now.unknown:  # candidates and notes are kept
            asked, outcomes = await self._seats.ask(group, {seat.number: seat for seat in now.unknown})
            now = replace(now, later=(*now.later, *asked), unknown=(), outcomes=now.outcomes | outcomes)
        return replace(now, later=tuple(sorted(now.later, key=lambda seat: seat.number))) if now.later else now

    async def _place_anew(self, group: BindGroup, now: BindProgress) -> BindProgress:
        """Seats for which there was no node, or no time; of the former etcd may show that they are bound after all."""
        lost, outcomes = await self._seats.ask(group, {one.number: one for one in now.lost})
        late = self._is_late(group)
        for seat in (*lost, *now.later):
            reasons = (*seat.notes, LEANS) if seat.leaned else seat.notes
            why = f"no node was left for {seat.found.pod.key}: {'; '.join(reasons)}"
            if seat.candidates and late:
                why = f"the bind took longer than {group.policy.patience:g} s: it is placed anew"
            outcomes[seat.number] = self._seats.ended(seat, Contended(message=why))
        return replace(now, outcomes=now.outcomes | outcomes, later=(), lost=())

    async def _lane(
        self, group: BindGroup, lane: SendingLane, now: BindProgress, seats: Sequence[Seated]
    ) -> BindProgress:
        """Send these seats under their locks, until each is bound, is put off or has its outcome."""
        looked_at = {name for seat in seats for name in seat.rules.looks_at}
        async with (
            self._locks.hold(map(keys.bound, looked_at)),
            self._locks.hold(seat.node for seat in seats),
        ):
            parts = tuple(lane.parts(seats))
            # Binds without rules rewrite versions without comparing them.
            unseen = bool(now.revision)
            now = replace(now, queue=parts, leaning=False, failed=0, window=None, unseen=unseen)
            sending = Sending(group, lane, now)
            senders = min(lane.at_once, len(parts))
            if senders == 1:
                await self._send_all(sending, watched=looked_at >= EVERYWHERE)
            else:
                await gather_to_end(self._send_all(sending) for _ in range(senders))
        now = sending.now
        return replace(now, queue=(), later=(*now.later, *chain.from_iterable(now.queue))) if now.queue else now

    # --- sent ---------------------------------------------------------------------------------

    async def _send_all(self, sending: Sending, *, watched: bool = False) -> None:
        """Fill and send transactions until nothing is left to be sent, beside other senders.

        `watched`: whether rules look everywhere. Raises `StoreError`, and the others send no further transaction.
        """
        lane, group = sending.lane, sending.group
        try:
            while sending.now.queue and not sending.stopped and not (lane.bounded and self._is_late(group)):
                if lane.in_order and (sending.now.unseen or watched):
                    await self._cache.progress.wait_for(sending.now.revision, self._settings.catch_up)
                queued = chain.from_iterable(sending.now.queue)
                sending.stored.update(await self._seats.read_volumes(queued, sending.now.limits))
                commits, rest = self._filling.fill(sending, Stamp(group.attempt, rfc3339(self._utc_now())))
                if commits:
                    await self._send(sending, commits)
                sending.take(map(SendAgain, rest))
        except Exception:
            sending.stopped = True
            raise

    async def _send(self, sending: Sending, commits: Sequence[Commit]) -> None:
        transaction, outcomes = together(commits), sending.now.outcomes
        sending.now = replace(sending.now, outcomes=replace(outcomes, transactions=outcomes.transactions + 1))
        try:
            answer = await self._committer.send(transaction)
        except RequestTooLarge:
            self._filling.too_large(sending, commits)
            return
        if answer.succeeded:
            sending.now = self._bound(sending.group, sending.now, commits, answer.revision)
        else:
            await self._conflicts.sort_out(sending, transaction, answer)

    def _bound(self, group: BindGroup, now: BindProgress, commits: Sequence[Commit], revision: int) -> BindProgress:
        """Their transaction happened."""
        self._committer.happened(commits, revision)
        took = self._clock() - group.began
        outcomes: dict[int, Outcome] = {}
        promised: dict[int, Promise] = {}
        counts: Counter[tuple[str, int]] = Counter()
        for commit in commits:
            seat, node = commit.seat, commit.node.name
            notes = seat.notes if node == seat.seat.node else (*seat.notes, f"bound to the runner-up {node}")
            if commit.promise is not None:
                promised[seat.number] = replace(commit.promise, mod_revision=revision)
            if commit.holds:
                outcomes[seat.number] = Held(node=node, revision=revision, steps=seat.steps, notes=notes)
                continue
            outcomes[seat.number] = Bound(node=node, revision=revision, notes=notes)
            if not seat.steps and not group.by_default:
                tell_bound(seat.profile, seat.state, commit.pod, node)
                counts[seat.profile.name, seat.seat.stretch] += 1
        for (profile, stretch), pods in counts.items():
            self._tally.bound(profile, group.request.computations[stretch], took, pods)
        return replace(
            now,
            outcomes=now.outcomes | outcomes,
            promised={**now.promised, **promised} if promised else now.promised,
            revision=max(now.revision, revision),
            failed=0,
            window=now.window and now.window * 2,
            unseen=across_nodes.rewritten_unseen(ruled(commits)),
        )


def _whose(seats: Iterable[Seated]) -> list[tuple[int, Sequence[str]]]:
    """What tells whether a round changed anything."""
    return [(seat.number, seat.candidates) for seat in seats]


# --- locks ----------------------------------------------------------------------------------------

Kind = TypeVar("Kind", str, PodIdentity)


class Locks:
    """Of pods, nodes and namespaces inside one worker: what is known of them is used by one bind at a time.

    By what is locked: a pod's identity, a node's name, a key of etcd. A bind that takes several takes them in this
    order, each kind sorted: pods, then `bound/<namespace>` keys, then nodes.
    """

    def __init__(self) -> None:
        self._locks: WeakValueDictionary[str | PodIdentity, asyncio.Lock] = WeakValueDictionary()

    @asynccontextmanager
    async def hold(self, several: Iterable[Kind]) -> AsyncIterator[None]:
        """All of one kind, each once; taken in their order, so that no two tasks wait for each other."""
        held: list[asyncio.Lock] = []
        try:
            for what in sorted(set(several)):
                lock = self._locks.get(what)
                if lock is None:  # it lives as long as a task holds or awaits it
                    lock = self._locks[what] = asyncio.Lock()
                await lock.acquire()
                held.append(lock)
            yield
        finally:
            for lock in held:
                lock.release()
