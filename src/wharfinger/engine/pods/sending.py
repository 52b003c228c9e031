"""Sending the transactions of a bind, and making sense of their answers.

::

    succeeded   bound: versions advance, PostBind is told
    failed      the reads say what moved
                  its own pod, node or binding version   adopted where it means the same, else the watch catches up
                  what concerns all                      the watch catches up; seats in order: half as many pods
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace

from wharfinger.engine.pods import across_nodes
from wharfinger.engine.pods.bind.transaction import Commit, MovedKeys, Transaction, blame, read_failure, ruled, together
from wharfinger.engine.pods.core import Core
from wharfinger.engine.pods.filling import Filled, Filling, SendingLane
from wharfinger.engine.pods.seating import Seating
from wharfinger.engine.pods.seats import Seated, Work
from wharfinger.errors import InvalidObject, RequestTooLarge
from wharfinger.registry.store import TxnResult

PATIENCE = 4.0
"""Seconds after which no seat is sent any more: it is placed anew, knowing more. Where a cluster is nearly full that
may be most of a cohort, each with its runners-up, and the activity has 8 s."""
LOST = "the attempt does not hold the pod's room any more"
TOO_LARGE = "pod is too large for etcd to hold it bound: it has {size:,} bytes, and etcd takes 1.5 MiB a request"


@dataclass(frozen=True, slots=True)
class Failed:
    """A seat whose transaction failed."""

    seated: Seated
    moved: MovedKeys
    own: bool
    """Whether its own pod, node or binding version moved."""

    @property
    def needed(self) -> int:
        """What the watch must have shown before it is worth trying again: what moved for it alone; 0 = nothing."""
        own = self.own or self.seated.alone
        return self.moved.revision if own and self.moved.must_catch_up else 0


class Sending:
    """Sends the transactions of one worker's binds."""

    def __init__(self, core: Core, seating: Seating, filling: Filling) -> None:
        self._seating = seating
        self._filling = filling
        self._cache = core.pool.cache
        self._committer = core.committer
        self._settings = core.settings
        self._metrics = core.process.metrics
        self._tally = core.tally
        self._clock = core.process.clock

    def is_late(self, work: Work) -> bool:
        """Whether others were in the way for too long."""
        return self._clock() - work.began > work.patience

    async def send_all(self, work: Work, lane: SendingLane, watched: bool) -> None:
        """Fill and send transactions until nothing is left to be sent. `watched`: whether rules look everywhere."""
        claims = any(seated.found.pod.claims for seated in lane.all)
        try:
            while lane.groups and work.error is None and not (lane.bounded and self.is_late(work)):
                if lane.in_order and (lane.unseen or watched):
                    await self._cache.progress.wait_for(work.revision, self._settings.catch_up)
                    lane.unseen = False
                if claims:
                    await self._seating.read_volumes(lane.all, work.limits)
                filled, rest = self._filling.fill(work, lane)
                if filled:
                    await self._send(work, lane, filled)
                lane.again(rest)
        except Exception as error:  # raised once the lanes beside this one have ended
            work.error = work.error or error

    async def _send(self, work: Work, lane: SendingLane, filled: Filled) -> None:
        commits = [commit for _, commit in filled]
        try:
            transaction = together(commits)
        except InvalidObject:
            self._reject_unwritable(work, lane, filled)
            return
        work.outcomes.transactions += 1
        try:
            answer = await self._committer.send(transaction)
        except RequestTooLarge:  # the server takes less than configured
            seats = [seated for seated, _ in filled]
            if len(seats) == 1:
                self._filling.cannot_write(work, seats[0], TOO_LARGE.format(size=len(seats[0].found.raw)))
                return
            work.limits = work.limits.halved()
            lane.again(seats)
            return
        lane.sent = True
        if answer.succeeded:
            lane.failed = 0
            lane.unseen = across_nodes.rewritten_unseen(ruled(commits))
            if lane.window is not None:
                lane.window *= 2
            self.bound(work, filled, answer.revision)
        else:
            lane.failed += 1
            await self._sort_out(work, lane, filled, transaction, answer)

    def _reject_unwritable(self, work: Work, lane: SendingLane, filled: Filled) -> None:
        """The others are sent without the pods that cannot be written bound."""
        again: list[Seated] = []
        for seated, commit in filled:
            try:
                together([commit])
            except InvalidObject as error:
                self._filling.cannot_write(work, seated, f"pod cannot be written bound: {error}")
            else:
                again.append(seated)
        lane.again(again)

    def bound(self, work: Work, filled: Filled, revision: int) -> None:
        """Their transaction happened."""
        self._committer.happened([commit for _, commit in filled], revision)
        work.revision = max(work.revision, revision)
        took = self._clock() - work.began
        for seated, commit in filled:
            if commit.promise is not None:
                work.promised[seated.number] = replace(commit.promise, mod_revision=revision)
            if seated.node != seated.seat.node:
                seated.note(f"bound to the runner-up {seated.node}")
            if commit.holds:
                work.outcomes.held(seated.number, revision, seated.node, seated.steps, tuple(seated.notes))
                continue
            told = not seated.steps and not work.by_default
            if told:
                seated.tell_bound()
            work.outcomes.bound(seated.number, revision, seated.node, tuple(seated.notes))
        for (profile, stretch), pods in Counter(
            (one.profile.name, one.seat.stretch) for one, _ in filled if not (one.steps or work.by_default)
        ).items():
            self._tally.bound(profile, work.request.computations[stretch], took, pods)

    # --- a transaction that failed ------------------------------------------------------------

    def taken_in(self, work: Work, seated: Seated, commit: Commit, answer: TxnResult) -> tuple[MovedKeys, bool]:
        """What moved for a seat, adopted where it means the same; and whether its pod is still to be bound."""
        moved = read_failure(commit, answer)
        if "pod" in moved.what and self._seating.resolve(work, seated.number, commit.pod_in(answer), seated) is None:
            return moved, False
        if moved.same_node is not None:
            work.adopted[moved.same_node.name] = moved.same_node
        for note in moved.adopted_notes:
            seated.note(note)
        return moved, True

    async def _sort_out(
        self, work: Work, lane: SendingLane, filled: Filled, transaction: Transaction, answer: TxnResult
    ) -> None:
        """Send the seats again, after the watch has shown what it alone can show.

        A seat with rules whose own pod, node or binding version moved keeps its place, because seats after it may rely
        on it; after a few such failures, of it or of transactions in a row, it goes alone. One without rules does at
        once.
        """
        read = [self.taken_in(work, one, commit, transaction.answer_for(commit, answer)) for one, commit in filled]
        found = blame([moved for moved, _ in read], answer)
        for what in found.counted:
            self._metrics.bind_conflicts.labels(moved=what).inc()
        if found.revision and lane.in_order:  # binds of others came in between: fewer pods, a shorter window
            lane.window = max(1, len(filled) // 2)
        failed: list[Failed] = []
        for at, ((seated, _), (moved, to_be_bound)) in enumerate(zip(filled, read, strict=True)):
            own = at in found.own
            if not to_be_bound:
                continue
            if moved.node_gone:
                self._filling.give_up_node(work, lane, seated, "the node is gone")
            elif "hold" in moved.what:
                self._filling.give_up_node(work, lane, seated, LOST)
            elif own and not lane.in_order and not seated.alone:
                seated.alone = True
                lane.later.append(seated)
            else:
                seated.tries += own or seated.alone or not lane.in_order
                failed.append(Failed(seated, moved, own))
        needed = max(found.revision, *(one.needed for one in failed), 0)
        caught_up = not needed or await self._cache.progress.wait_for(needed, self._settings.catch_up)
        lane.again([one.seated for one in failed if self._goes_again(work, lane, one, caught_up)])

    def _goes_again(self, work: Work, lane: SendingLane, failed: Failed, caught_up: bool) -> bool:
        """Whether it is sent once more in this lane; else it is settled where it goes."""
        seated, tries = failed.seated, self._settings.tries
        if caught_up and failed.needed:
            seated.note(failed.moved.catch_up_note)
        if seated.alone:
            if caught_up and seated.tries < tries:
                return True
            why = f"it changed during {tries} transactions" if caught_up else "this worker's watch is behind"
            self._filling.give_up_node(work, lane, seated, why)
            return False
        in_a_row = lane.failed if lane.in_order and failed.own else 0  # each time by another seat's node, perhaps
        if caught_up and max(seated.tries, in_a_row) < tries:
            return True
        seated.alone = not lane.in_order or failed.own
        seated.tries = 0
        lane.later.append(seated)
        return False
