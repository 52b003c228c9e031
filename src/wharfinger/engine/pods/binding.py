"""Committing placements, of a lone pod or of a cohort: fill transactions, send them, and make sense of the answers.

::

    round:  seats without rules across nodes    a few transactions at a time, many pods each
            seats with rules                    one transaction after the other, in the order decided
            seats that go alone                 one pod a transaction: a lone pod, and whatever held others up
              fill ─► send ── succeeded ─► bound
                ▲       └──── failed: the reads say what moved
                │               its own pod, node or binding   adopted where it means the same; caught up; then alone
                └───────────────the rest, once more, half as many a transaction; binds of others came in between
    the next round:  seats that lost their node, on their next runner-up; seats that rely on pods not bound yet

The locks of the pods are held throughout: tries of one bind follow each other (Temporal begins the next one when the
answer is late, whatever the former still does). Those of nodes and namespaces are held for a lane: each bind sees the
versions that the former one wrote. Where a Kubernetes API is the store, what is bound here is sent there at the end
(`keeping`). An answer that got lost is resolved by reading: the activity fails, and its retry
finds the pods as they are. A gang is next door (`binding_whole`).
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence

from wharfinger.contracts import lone
from wharfinger.contracts.cohort_scheduling import BindManyInput, BoundMany
from wharfinger.contracts.plugin_calls import CallsMade
from wharfinger.contracts.scheduling import BindInput, BindOutcome
from wharfinger.engine.pods.across_nodes import EVERYWHERE
from wharfinger.engine.pods.answering import Answering
from wharfinger.engine.pods.bind_outcomes import Outcomes
from wharfinger.engine.pods.core import Core
from wharfinger.engine.pods.filling import Filling, SendingLane
from wharfinger.engine.pods.keeping import Keeping
from wharfinger.engine.pods.locks import gather_to_end
from wharfinger.engine.pods.seating import Seating
from wharfinger.engine.pods.seats import Seated, Work, identity
from wharfinger.engine.pods.sending import PATIENCE, Sending
from wharfinger.engine.pods.verification import LEANS
from wharfinger.registry import keys

SENDERS = 3
"""Transactions of seats without rules across nodes that are out at a time."""
SINGLES = 4
"""Seats that go alone at a time; of those with rules it is one."""
TURNS = 5
"""Rounds in which a seat may rely on pods that are being bound themselves, the last one without regard for that."""
TURN = 0.1
"""Seconds at most between them; anything that happens begins the next one."""


class Bindings:
    """Commits the placements of one worker."""

    def __init__(self, core: Core) -> None:
        self._cache = core.pool.cache
        self._settings = core.settings
        self._limits = core.limits
        self._clock = core.process.clock
        self._locks = core.locks
        self._seating = Seating(core)
        self._filling = Filling(core, self._seating)
        self._sending = Sending(core, self._seating, self._filling)
        self._keeping = Keeping(core)
        self._answering = Answering(core, self._filling, self._seating)

    async def bind(self, request: BindInput) -> BindOutcome:
        """Bind the pod to the node chosen for it, or to a runner-up; or hold its room while plugins are to be called.

        Safe to run again. Raises `StoreError` (the outcome is unknown, or etcd does not answer) and `PluginError`.
        """
        return (await self._bind(lone.bind_many_input(request), alone=True, calls=request.calls)).of_lone_pod()

    async def bind_many(self, request: BindManyInput) -> BoundMany:
        """Bind each pod to its node, or to a runner-up. Safe to run again. Raises `StoreError`."""
        return (await self._bind(request, alone=False)).told()

    async def _bind(self, request: BindManyInput, *, alone: bool, calls: CallsMade | None = None) -> Outcomes:
        async with self._locks.hold(map(identity, request.seats)):
            patience = math.inf if alone else PATIENCE
            work = Work(request, Outcomes(request), self._limits, self._clock(), patience, lone=alone, calls=calls)
            await self._seating.find(work)
            for seated in work.left:
                seated.alone = alone
            held = calls is not None or (alone and any(seated.held for seated in work.left))
            await self._answering.look(work)
            self._answering.apply(work)
            await self._rounds(work)
            await self._keeping.keep(work)
            await self._answering.release(work, held=held)
        if work.error is not None:
            raise work.error
        return work.outcomes

    # --- rounds -------------------------------------------------------------------------------

    async def _rounds(self, work: Work) -> None:
        turns = 0
        while work.left and work.error is None and turns < TURNS and not self._sending.is_late(work):
            work.may_wait = turns < TURNS - 1
            before = {seated.number: seated.candidates for seated in work.left}
            sent = await self._round(work)
            if sent:
                turns = 0
            elif all(seated.candidates == before[seated.number] for seated in work.left):
                turns += 1
                if work.left and turns < TURNS:
                    await self._cache.progress.wait_for(self._cache.progress.revision + 1, TURN)
        if work.error is None:
            await self._place_anew(work)

    async def _round(self, work: Work) -> bool:
        """All seats that are left once, each on its node; whether a transaction was sent."""
        singles = [SendingLane(deque([[one]]), in_order=bool(one.rules)) for one in work.left if one.alone]
        lanes = list(singles)
        with_others = [seated for seated in work.left if not seated.alone]
        for in_order in (False, True):  # binds of seats with rules compare what the others rewrite
            seats = [seated for seated in with_others if bool(seated.rules) is in_order]
            if seats:
                lane = SendingLane.of(seats, in_order=in_order)
                lanes.append(lane)
                await self._send_all(work, lane, 1 if in_order else min(SENDERS, len(lane.groups)))
        await self._one_by_one(work, deque(lane for lane in singles if not lane.in_order), SINGLES)
        await self._one_by_one(work, deque(lane for lane in singles if lane.in_order), 1)
        unknown = [seated for lane in lanes for seated in lane.unknown]
        work.left = [seated for lane in lanes for seated in lane.all]
        if work.error is None and unknown:
            await self._ask_again(work, unknown)
        work.left.sort(key=lambda seated: seated.number)
        return any(lane.sent for lane in lanes)

    async def _one_by_one(self, work: Work, lanes: deque[SendingLane], most: int) -> None:
        """Send these lanes, at most so many at a time."""
        if len(lanes) > 1 and most > 1:
            several = (self._one_by_one(work, lanes, 1) for _ in range(min(most, len(lanes))))
            await gather_to_end(several)
        while lanes:
            await self._send_all(work, lanes.popleft())

    async def _ask_again(self, work: Work, unknown: Sequence[Seated]) -> None:
        """Etcd is asked about pods that the watch shows bound, gone or another's; candidates and notes are kept."""
        try:
            work.left += await self._seating.ask(work, {seated.number: seated for seated in unknown})
        except Exception as error:  # raised once the seats that were bound are told
            work.error = error

    async def _place_anew(self, work: Work) -> None:
        """Seats for which there was no node, or no time; of the former etcd may say that they are bound after all."""
        lost = await self._seating.ask(work, {seated.number: seated for seated in work.lost})
        late = self._sending.is_late(work)
        for seated in (*work.left, *lost):
            reasons = [*seated.notes, LEANS] if seated.leaned else seated.notes
            why = f"no node was left for {seated.found.pod.key}: {'; '.join(reasons)}"
            if seated.candidates and late:
                why = f"the bind took longer than {work.patience:g} s: it is placed anew"
            self._filling.contended(work, seated, why)

    async def _send_all(self, work: Work, lane: SendingLane, senders: int = 1) -> None:
        """Send the seats of a lane under their locks; a failure of the store is left in `work.error`."""
        seats = lane.all
        if not seats or work.error is not None or (lane.bounded and self._sending.is_late(work)):
            return
        looked_at = {name for seated in seats for name in seated.rules.looks_at}
        async with self._locks.hold(map(keys.bound, looked_at)), self._locks.hold(seated.node for seated in seats):
            lane.unseen = bool(work.revision)  # binds without rules rewrite versions without comparing them
            watched = looked_at >= EVERYWHERE
            if senders == 1:
                await self._sending.send_all(work, lane, watched)
            else:
                await gather_to_end(self._sending.send_all(work, lane, watched) for _ in range(senders))
