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

An answer that got lost is resolved by reading: the activity fails, and its retry finds the pods as they are.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import chain

from wharfinger.errors import RequestTooLarge
from wharfinger.etcd import keys
from wharfinger.etcd.store import TxnResult
from wharfinger.framework.gangs.gangs import seated as with_seat
from wharfinger.objects.documents.times import rfc3339
from wharfinger.process.failures import gather_to_end
from wharfinger.process.transactions import Load
from wharfinger.scheduling.contracts import group_payloads
from wharfinger.scheduling.contracts.cohort_scheduling import BindManyInput, BoundMany
from wharfinger.scheduling.contracts.plugin_calls import CallsMade, Held
from wharfinger.scheduling.contracts.scheduling import BindInput, BindOutcome, Bound, Contended
from wharfinger.scheduling.effects.binding.across_nodes import EVERYWHERE
from wharfinger.scheduling.effects.binding.after_commit import Keeping
from wharfinger.scheduling.effects.binding.cohort_payload import bound_many
from wharfinger.scheduling.effects.binding.core import Core
from wharfinger.scheduling.effects.binding.outcome import (
    BINDER,
    GANG,
    GROUP,
    LONE,
    LOST,
    BindGroup,
    BindPolicy,
    Done,
    NoRoom,
    Outcome,
    Outcomes,
    PendingBind,
    SendingLane,
    Stamp,
    identity,
    not_taken,
    of_all,
    of_gang,
    rejected,
    too_much,
)
from wharfinger.scheduling.effects.binding.pending_binds import (
    Ask,
    BindProgress,
    Later,
    PendingBinds,
    SendAgain,
    Sending,
    Step,
)
from wharfinger.scheduling.effects.binding.transaction import (
    Commit,
    Committer,
    MovedKeys,
    Transaction,
    together,
    what_moved,
)
from wharfinger.scheduling.effects.binding.verification import LEANS

TURNS = 5
"""Rounds in which a seat may rely on pods that are being bound themselves, the last one without regard for that."""
TURN = 0.1
"""Seconds at most between them; anything that happens begins the next one."""
BEHIND = "this worker's watch is behind"
CHANGED = "it changed during {tries} transactions"
TOO_LARGE = "pod is too large for etcd to hold it bound: it has {size:,} bytes, and etcd takes 1.5 MiB a request"


class Bindings:
    """Commits the placements of one worker."""

    def __init__(self, core: Core) -> None:
        self._cache = core.pool.cache
        self._committer = Committer(store=core.process.store, cache=core.pool.cache)
        self._settings = core.settings
        self._limits = core.limits
        self._process = core.process
        self._kubernetes = core.kubernetes
        self._locks, self._binds = core.locks, PendingBinds(core)
        self._keeping = Keeping(core, self._binds)

    async def bind(self, request: BindInput) -> BindOutcome:
        """Bind the pod to the node chosen for it, or to a runner-up; or hold its room while plugins are to be called.

        Safe to run again. Raises `StoreError` (the outcome is unknown, or etcd does not answer) and `PluginError`.
        """
        return (await self._bind(group_payloads.bind_many_input(request), LONE, request.calls)).of_lone_pod()

    async def bind_many(self, request: BindManyInput) -> BoundMany:
        """Bind each pod to its node, or to a runner-up; a gang whole or not at all.

        Safe to run again. Raises `StoreError`.
        """
        return bound_many(request, await self._bind(request, GANG if request.whole else GROUP))

    async def _bind(self, request: BindManyInput, policy: BindPolicy, calls: CallsMade | None = None) -> Outcomes:
        # Temporal begins the next try of a bind when the answer is late, whatever the former one still does.
        async with self._locks.hold(map(identity, request.seats)):
            group = BindGroup(request, policy, self._process.clock(), calls)
            left, found = await self._binds.find(group)
            held = policy.holds and (calls is not None or any(seat.held for seat in left))
            left, more, room = await self._keeping.look(group, left) if held else (left, {}, None)
            side, pods = self._cache.kubernetes, list(map(group.key, range(len(request.seats))))
            with self._cache.unanswered.of(pods, side.promises if side is not None else None) as bound:
                now = await self._rounds(group, BindProgress(Outcomes({**found, **more}), self._limits, tuple(left)))
                outcomes = now.outcomes
                if self._kubernetes is not None:
                    outcomes = await self._keeping.keep(self._kubernetes, group, outcomes, now.promised)
                bound.update(map(group.key, outcomes.bound))
            return await self._keeping.release(group, room, outcomes) if held else outcomes

    async def close(self) -> None:
        """The process ends."""
        await self._committer.close()

    def _is_late(self, group: BindGroup) -> bool:
        """Whether others were in the way for too long."""
        return self._process.clock() - group.began > group.policy.patience

    async def _rounds(self, group: BindGroup, now: BindProgress) -> BindProgress:
        turns = 0
        while any(seat.candidates for seat in now.later) and turns < TURNS and not self._is_late(group):
            before, now = now, await self._round(group, now, may_wait=turns < TURNS - 1)
            if now.outcomes.transactions > before.outcomes.transactions:
                turns = 0
            elif now.nodes == before.nodes:
                turns += 1
                if turns < TURNS:
                    await self._cache.progress.wait_for(self._cache.progress.revision + 1, TURN)
        return await self._place_anew(group, now) if now.later else now

    async def _round(self, group: BindGroup, now: BindProgress, *, may_wait: bool) -> BindProgress:
        """All seats that are left once, each on its node."""
        left = [seat for seat in now.later if seat.candidates]
        now = replace(now, later=tuple(seat for seat in now.later if not seat.candidates), may_wait=may_wait)
        for lane in group.policy.lanes:
            seats = [seat for seat in left if lane.has(seat)]
            if seats:
                now = await self._lane(group, lane, now, seats)
        if now.unknown:  # candidates and notes are kept
            asked, outcomes = await self._binds.ask(group, {seat.number: seat for seat in now.unknown})
            now = replace(now, later=(*now.later, *asked), unknown=(), outcomes=now.outcomes | outcomes)
        return replace(now, later=tuple(sorted(now.later, key=lambda seat: seat.number))) if now.later else now

    async def _place_anew(self, group: BindGroup, now: BindProgress) -> BindProgress:
        """Seats for which there was no node, or no time; of the former etcd may show that they are bound after all."""
        lost, outcomes = await self._binds.ask(group, {one.number: one for one in now.later if not one.candidates})
        for seat in (*lost, *(one for one in now.later if one.candidates)):
            reasons = (*seat.notes, LEANS) if seat.leaned else seat.notes
            why = f"no node was left for {seat.found.pod.key}: {'; '.join(reasons)}"
            if seat.candidates and self._is_late(group):
                why = f"the bind took longer than {group.policy.patience:g} s: it is placed anew"
            outcomes.update(self._binds.ended([seat], Contended(message=why)))
        return replace(now, outcomes=now.outcomes | outcomes, later=())

    async def _lane(
        self, group: BindGroup, lane: SendingLane, now: BindProgress, seats: Sequence[PendingBind]
    ) -> BindProgress:
        """Send these seats under their locks, until each is bound, is put off or has its outcome."""
        looked_at = {name for seat in seats for name in seat.rules.looks_at}
        nodes = {seat.node for seat in seats}
        # Two binds of this worker that compared one version at once would fail each other.
        async with self._locks.hold(map(keys.bound, looked_at)), self._locks.hold(nodes):
            # Binds without rules rewrite versions without comparing them.
            sending = Sending(group, lane, now, deque(lane.parts(seats)), bool(now.revision), looked_at >= EVERYWHERE)
            senders = min(lane.at_once, len(sending.queue))
            if senders == 1:
                await self._send_all(sending)
            else:
                await gather_to_end(self._send_all(sending) for _ in range(senders))
        now, left = sending.now, tuple(chain.from_iterable(sending.queue))
        return replace(now, later=(*now.later, *left)) if left else now

    async def _send_all(self, sending: Sending) -> None:
        """Fill and send transactions until nothing is left to be sent, beside other senders.

        Raises `StoreError`, and the others send no further transaction.
        """
        lane, group = sending.lane, sending.group
        try:
            while sending.queue and not sending.stopped and not (lane.bounded and self._is_late(group)):
                if lane.in_order and (sending.unseen or sending.everywhere):
                    await self._cache.progress.wait_for(sending.now.revision, self._settings.catch_up)
                unsent = chain.from_iterable(sending.queue)
                sending.stored.update(await self._binds.read_volumes(unsent, sending.now.limits))
                commits, rest = self._fill(sending)
                if commits:
                    await self._send(sending, commits)
                sending.take(map(SendAgain, rest))
        except Exception:
            sending.stopped = True
            raise

    def _fill(self, sending: Sending) -> tuple[list[Commit], list[PendingBind]]:
        """The next transaction, and seats of a node that are not in it with the others: they follow it.

        Seats that are not bound now take another step. Nothing is awaited until the transaction is sent.
        """
        lane, queue, now = sending.lane, sending.queue, sending.now
        stamp = Stamp(sending.group.attempt, rfc3339(self._process.utc_now()))
        commits: list[Commit] = []
        # What is all there is to send needs no measuring: a lone pod.
        load = None if lane.alone or lane.whole or sum(map(len, queue)) == 1 else Load(now.limits)
        surely = self._cache.snapshot(confirmed=True) if lane.in_order else None
        while queue and len(commits) < sending.window:
            part = self._ready(sending, queue.popleft())
            part, rest = (part[:1], part[1:]) if lane.alone else (part, [])
            full, fitting = False, 0
            for number, (seat, verdict) in enumerate(self._binds.verdicts(sending, stamp, part, surely)):
                if not isinstance(verdict, Commit):
                    sending.take(self._not_now(sending, part, seat, verdict))
                    if lane.whole:
                        return [], []
                    continue
                full = load is not None and not load.takes([verdict.shape])
                if full and commits:  # plugins are asked about those after it when they are sent
                    rest = part[number:]
                    break
                commits.append(verdict)
                fitting += 1
                if surely is not None:
                    surely = with_seat(surely, verdict.pod, verdict.node.name)
                if full:  # too large for any transaction by our limits: etcd may take it all the same
                    rest = part[number + 1 :]
                    break
            if full and not fitting:  # none of its node is sent, so another sender may take them
                queue.appendleft(tuple(rest))
                break
            if rest or full or lane.alone:
                return commits, rest
        refusal = too_much([commit.shape for commit in commits], now.limits) if lane.whole else None
        if refusal is not None:
            sending.take(self._binds.ended([commit.seat for commit in commits], refusal))
        return [] if refusal else commits, []

    def _ready(self, sending: Sending, part: Sequence[PendingBind]) -> list[PendingBind]:
        """Those that are still to be bound, by the rules that they were put into this lane for; of a gang all or none.

        What came in between gives the whole gang up, and its next attempt places it anew.
        """
        lane, ready, gone = sending.lane, list[PendingBind](), sending.now.outcomes.first_gone
        if lane.whole and gone is not None:
            sending.take(self._binds.ended(part, of_gang(f"{sending.group.key(gone)} is gone"), counted=False))
            return []
        for seat in part:
            fresh = self._binds.refreshed(seat)
            if fresh is None:
                sending.take([Ask(seat)])
            elif not lane.whole and bool(fresh.rules) is not lane.in_order:
                sending.take([Later(fresh)])
            else:
                ready.append(fresh)
        if lane.whole and len(ready) < len(part):
            sending.take(map(Later, ready))
            return []
        return ready

    def _not_now(
        self, sending: Sending, part: Sequence[PendingBind], seat: PendingBind, verdict: NoRoom | Outcome
    ) -> Iterable[Step]:
        """What follows for a seat, or for its gang, that is not bound now."""
        waits = isinstance(verdict, NoRoom) and verdict.leans and sending.now.may_wait
        if sending.lane.whole:
            return map(Later, part) if waits else self._binds.ended(part, of_all(seat, verdict))
        if not isinstance(verdict, NoRoom):
            return self._binds.ended([seat], verdict)
        sending.leaning |= waits
        return [Later(replace(seat, leaned=True)) if waits else self._next_node(seat, verdict.why)]

    def _next_node(self, seat: PendingBind, why: str) -> Step:
        """The seat goes to its next runner-up, in the next round."""
        self._cache.forget_unsent(seat.identity)  # its room there is free for others
        return Later(seat.next_node(why))

    async def _send(self, sending: Sending, commits: Sequence[Commit]) -> None:
        transaction, outcomes = together(commits), sending.now.outcomes
        sending.now = replace(sending.now, outcomes=replace(outcomes, transactions=outcomes.transactions + 1))
        try:
            answer = await self._committer.send(transaction)
        except RequestTooLarge:
            self._too_large(sending, commits)
            return
        if answer.succeeded:
            self._bound(sending, commits, answer.revision)
        else:
            await self._sort_out(sending, transaction, answer)

    def _too_large(self, sending: Sending, commits: Sequence[Commit]) -> None:
        """The server takes less than configured."""
        seats = [commit.seat for commit in commits]
        if sending.lane.whole:
            sending.take(self._binds.ended(seats, not_taken([commit.shape for commit in commits]), failed=True))
        elif len(seats) > 1:
            sending.now = replace(sending.now, limits=sending.now.limits.halved())
            sending.take(map(SendAgain, seats))
        else:
            sending.take(self._binds.ended(seats, rejected(BINDER, TOO_LARGE.format(size=len(seats[0].found.raw)))))

    def _bound(self, sending: Sending, commits: Sequence[Commit], revision: int) -> None:
        """Their transaction happened."""
        sending.unseen = self._committer.happened(commits, revision)
        group, now = sending.group, sending.now
        outcomes: dict[int, Outcome] = {}
        promised, newest = dict(now.promised), max(now.revision, revision)
        for commit in commits:
            seat, node = commit.seat, commit.node.name
            notes = seat.notes if node == seat.seat.node else (*seat.notes, f"bound to the runner-up {node}")
            if commit.promise is not None:
                promised[seat.number] = replace(commit.promise, mod_revision=revision)
            if commit.holds:
                outcomes[seat.number] = Held(node=node, revision=revision, steps=seat.steps, notes=notes)
            else:
                outcomes[seat.number] = Bound(node=node, revision=revision, notes=notes)
            if not seat.steps and not group.by_default:
                self._binds.post_bind(group, seat.number, commit.pod, node)
        sending.failed, sending.window = 0, sending.window * 2
        sending.now = replace(now, outcomes=now.outcomes | outcomes, promised=promised, revision=newest)

    async def _sort_out(self, sending: Sending, transaction: Transaction, answer: TxnResult) -> None:
        """Send the seats of a failed transaction again, after the watch has shown what it alone can show.

        A seat with rules whose own pod, node or binding version moved keeps its place, as later seats may rely on it;
        after a few failures, of it or in a row, it goes alone. One without rules does at once. A gang is sent again.
        """
        lane = sending.lane
        failures, counted, needed = what_moved(transaction, answer)
        for what in counted:
            self._process.metrics.bind_conflicts.labels(moved=what).inc()
        sending.failed += 1
        if needed and lane.in_order:  # binds of others came in between: fewer pods, a shorter window
            sending.window = max(1, len(failures) // 2)
        same = {moved.same_node.name: moved.same_node for moved in failures if moved.same_node is not None}
        sending.now = replace(sending.now, adopted={**sending.now.adopted, **same})
        steps: list[Step] = []
        waiting: list[tuple[PendingBind, MovedKeys]] = []
        for commit, moved in zip(transaction.commits, failures, strict=True):
            seat: PendingBind | Outcome = commit.seat
            if "pod" in moved.what:
                seat = self._binds.resolve(sending.group, commit.seat.number, moved.pod, commit.seat)
            if not isinstance(seat, PendingBind):
                steps.append(Done(commit.seat.number, seat))
                continue
            seat = seat.noted(*moved.adopted_notes)
            if not lane.whole and (moved.node_gone or "hold" in moved.what):
                steps.append(self._next_node(seat, "the node is gone" if moved.node_gone else LOST))
            elif not (lane.whole or lane.bounded) and moved.own:
                steps.append(Later(replace(seat, alone=True)))
            else:
                counts = lane.whole or moved.own or seat.alone or not lane.in_order
                waiting.append((replace(seat, tries=seat.tries + 1) if counts else seat, moved))
                needed = max(needed, moved.needed(seat))
        if lane.whole and steps:  # a member has its outcome: the others are not bound without it
            sending.take([*steps, *(SendAgain(seat) for seat, _ in waiting)])
            return
        sending.take(steps)
        caught_up = not needed or await self._cache.progress.wait_for(needed, self._settings.catch_up)
        if not lane.whole:
            sending.take([self._tried(sending, seat, moved, caught_up=caught_up) for seat, moved in waiting])
            return
        seats, tries = [seat for seat, _ in waiting], self._settings.tries
        why = "" if caught_up else BEHIND
        if any(moved.node_gone for moved in failures):
            why = "a node is gone"
        elif caught_up and any(seat.tries >= tries for seat in seats):
            why = CHANGED.format(tries=tries)
        sending.take(self._binds.ended(seats, of_gang(why)) if why else map(SendAgain, seats))

    def _tried(self, sending: Sending, seat: PendingBind, moved: MovedKeys, *, caught_up: bool) -> Step:
        """Whether a seat is sent once more in this lane, or where it goes."""
        lane, tries = sending.lane, self._settings.tries
        if caught_up and moved.needed(seat):
            seat = seat.noted(moved.catch_up_note)
        # In a row they may have failed by another seat's node each time.
        in_a_row = sending.failed if lane.in_order and moved.own and not seat.alone else 0
        if caught_up and max(seat.tries, in_a_row) < tries:
            return SendAgain(seat)
        if not seat.alone:
            return Later(replace(seat, alone=not lane.in_order or bool(moved.own), tries=0))
        return self._next_node(seat, CHANGED.format(tries=tries) if caught_up else BEHIND)
