"""Filling transactions: which seats go into the next one, verified at one moment.

::

    seats without rules across nodes   those of a node together; each among all pods that are assumed there
    seats with rules                   in the order decided; each after what is sure: facts, this worker's binds that
                                       have happened, and the seats before it in its transaction
    a gang                             all, each among all the others; or none

Nothing is awaited while a transaction is filled and sent: what it compares is known at one moment. It compares the
version of every namespace that one of its rules looks at, so rules hold at every revision, whichever worker binds.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import replace

from wharfinger.contracts.scheduling import Contended, Rejected
from wharfinger.engine.pods.bind.outcome import BINDER, BindGroup, Outcome, rejected
from wharfinger.engine.pods.bind.progress import Ask, Done, Later, SendAgain, Sending, SendingLane, Step
from wharfinger.engine.pods.bind.seat import NoRoom, Seated, Seats
from wharfinger.engine.pods.bind.transaction import Commit, Stamp
from wharfinger.engine.pods.core import Core
from wharfinger.engine.transactions import Load, measure
from wharfinger.errors import InvalidObject
from wharfinger.framework.domain import terms_of
from wharfinger.framework.gangs import seated as with_seat
from wharfinger.framework.snapshot import Snapshot
from wharfinger.model.gang import GANG_SCHEDULING

NOT_BOUND = "the gang was not bound: {why}"
TOO_LARGE = "pod is too large for etcd to hold it bound: it has {size:,} bytes, and etcd takes 1.5 MiB a request"
TOO_MANY = (
    "its {pods} pods need {compares} compares and {writes} writes in one transaction, and {most} of each are allowed: "
    "raise --max-txn-ops of etcd and of the workers, or make the group smaller"
)
TOO_MANY_BYTES = (
    "its {pods} pods come to {size:,} bytes ({compares} compares and {writes} writes) in one transaction, and {most:,} "
    "are allowed, whatever --max-txn-ops says: make the group or its pods smaller"
)
REFUSED = (
    "etcd takes no transaction of {compares} compares and {writes} writes, {size:,} bytes: its --max-txn-ops is not "
    "what the workers were told, or its limit of bytes is lower"
)


class Filling:
    """Fills the transactions of one worker's binds."""

    def __init__(self, core: Core, seats: Seats) -> None:
        self._cache = core.pool.cache
        self._tally = core.tally
        self._seats = seats

    def fill(self, sending: Sending, stamp: Stamp) -> tuple[list[Commit], Sequence[Seated]]:
        """The next transaction, and seats of a node that are not in it with the others: they follow it.

        Seats that are not bound now take another step.
        """
        queue, steps = deque(sending.now.queue), list[Step]()
        fill = self._fill_whole if sending.lane.whole else self._fill_next
        filled = fill(sending, stamp, queue, steps)
        sending.now = replace(sending.now, queue=tuple(queue))
        sending.take(steps)
        return filled

    def _fill_next(
        self, sending: Sending, stamp: Stamp, queue: deque[tuple[Seated, ...]], steps: list[Step]
    ) -> tuple[list[Commit], Sequence[Seated]]:
        lane, now = sending.lane, sending.now
        commits: list[Commit] = []
        # What is all there is to send needs no measuring: a lone pod.
        load = None if lane.alone or sum(map(len, queue)) == 1 else Load(now.limits)
        surely = self._cache.snapshot(confirmed=True) if lane.in_order else None
        while queue and len(commits) < (now.window or sys.maxsize):
            part, rest, by_itself = self._ready(lane, queue.popleft(), steps), list[Seated](), lane.alone
            if by_itself:
                part, rest = part[:1], part[1:]
            shapes = [seat.shape for seat in part] if load is not None else []
            if load is not None and not load.takes(shapes):
                if commits:
                    queue.appendleft(tuple(part))
                    break
                count = load.most(shapes)
                by_itself = count == 0  # too large for any transaction by our limits: etcd may take it all the same
                part, rest = part[: max(1, count)], part[max(1, count) :]
            for seat, verdict in self._verdicts(sending, stamp, part, surely):
                if not isinstance(verdict, Commit):
                    steps.append(self._step(sending, seat, verdict))
                    continue
                commits.append(verdict)
                if surely is not None:
                    surely = with_seat(surely, seat.found.pod, seat.node)
            if rest or by_itself:
                return commits, rest
        return commits, ()

    def _ready(self, lane: SendingLane, part: Iterable[Seated], steps: list[Step]) -> list[Seated]:
        """Those that are still to be bound, by the rules that they were put into this lane for."""
        ready: list[Seated] = []
        for seat in part:
            fresh = self._seats.refreshed(seat)
            if fresh is None:
                steps.append(Ask(seat))
            elif not lane.whole and bool(fresh.rules) is not lane.in_order:
                steps.append(Later(fresh))
            else:
                ready.append(fresh)
        return ready

    def _verdicts(
        self, sending: Sending, stamp: Stamp, part: Sequence[Seated], surely: Snapshot | None
    ) -> list[tuple[Seated, Commit | NoRoom | Outcome]]:
        """Whether each may be bound to its node: after what is sure, or with all that are assumed there.

        Sure are facts, this worker's binds that have happened, and the seats before it in its transaction.
        """
        if surely is not None:
            lost = [self._seats.fits_after(seat, surely, leaning=sending.now.leaning) for seat in part]
        else:
            lost = [self._seats.fits(seat) for seat in part]
            if any(lost) and len(part) > 1:  # where not all fit, the first ones do
                for seat in part:
                    self._cache.forget_unsent(seat.identity)
                lost = [self._seats.fits(seat) for seat in part]
        return [(seat, why or self._commit(sending, stamp, seat)) for seat, why in zip(part, lost, strict=True)]

    def _step(self, sending: Sending, seat: Seated, verdict: NoRoom | Outcome) -> Step:
        """What follows for a seat that is not bound now."""
        if not isinstance(verdict, NoRoom):
            return Done(seat.number, self._seats.ended(seat, verdict))
        if verdict.leans and sending.now.may_wait:
            sending.now = replace(sending.now, leaning=True)
            return Later(replace(seat, leaned=True))
        return self.next_node(seat, verdict.why)

    def next_node(self, seat: Seated, why: str) -> Step:
        """The seat goes to its next runner-up, in the next round."""
        self._cache.forget_unsent(seat.identity)  # its room there is free for others
        return Later(seat.next_node(why))

    def _commit(self, sending: Sending, stamp: Stamp, seat: Seated, pods: int = 0) -> Commit | Outcome:
        """The commit of a seat that fits, unless plugins refuse it or it cannot be written as it would be bound."""
        agreed = self._seats.agreed(sending.group, seat, sending.stored)
        if not isinstance(agreed, Seated):
            return agreed
        node, adopted = self._cache.nodes[seat.node], sending.now.adopted.get(seat.node)
        if adopted is not None and adopted == node and adopted.mod_revision > node.mod_revision:
            node = adopted
        try:
            return Commit.of(agreed, node, self._cache, stamp, pods)
        except InvalidObject as error:
            return rejected(BINDER, f"pod cannot be written bound: {error}")

    # --- all or none --------------------------------------------------------------------------

    def _fill_whole(
        self, sending: Sending, stamp: Stamp, queue: deque[tuple[Seated, ...]], steps: list[Step]
    ) -> tuple[list[Commit], Sequence[Seated]]:
        """The transaction of a gang; none where it is not bound now.

        Its rules across nodes are part of it: members may rely on each other, for they are bound together or not at
        all. What was taken in between gives the whole gang up, and its next attempt places it anew.
        """
        part, gone = queue.popleft(), sending.now.outcomes.first_gone
        if gone is not None:
            why = Contended(message=NOT_BOUND.format(why=f"{sending.group.key(gone)} is gone"))
            steps += self.none(part, why, counted=False)
            return [], ()
        ready = self._ready(sending.lane, part, steps)
        if len(ready) < len(part):
            steps += map(Later, ready)
            return [], ()
        needs, limits = _needs(ready), sending.now.limits
        if max(needs["compares"], needs["writes"]) > limits.operations:
            text = TOO_MANY.format(most=limits.operations, **needs)
        elif needs["size"] > limits.size:
            text = TOO_MANY_BYTES.format(most=limits.size, **needs)
        else:
            text = ""
        if text:
            steps += self.none(ready, rejected(GANG_SCHEDULING, text))
            return [], ()
        for seat in ready:  # each is verified among all the others
            self._cache.assume_there(seat.found.pod, seat.node)
        members = frozenset(seat.identity for seat in ready)
        commits: list[Commit] = []
        for seat in ready:
            lost = self._outside(sending.group, seat) or self._seats.fits(seat, members)
            verdict = lost or self._commit(sending, stamp, seat, len(ready))
            if not isinstance(verdict, Commit):
                waits = isinstance(verdict, NoRoom) and verdict.leans and sending.now.may_wait
                steps += map(Later, ready) if waits else self.none(ready, _of_all(seat, verdict))
                return [], ()
            commits.append(verdict)
        return commits, ()

    def _outside(self, group: BindGroup, seat: Seated) -> NoRoom | None:
        """Whether the node is not in the gang's domain any more."""
        node, domain = self._cache.nodes.get(seat.node), group.request.domain
        outside = node is not None and any(node.labels.get(key) != value for key, value in terms_of(domain))
        return NoRoom(f"the node is not in {domain} any more") if outside else None

    def none(
        self, seats: Sequence[Seated], outcome: Outcome, *, failed: bool = False, counted: bool = True
    ) -> list[Step]:
        """No member is bound, and all seats are free again. `failed`: for an error, and not by a rule."""
        if not isinstance(outcome, Contended):
            return [Done(seat.number, self._seats.ended(seat, outcome, failed=failed)) for seat in seats]
        if counted:
            self._tally.contended(seats[0].computation, len(seats))
        for seat in seats:
            self._seats.give_up(seat)
        return [Done(seat.number, outcome) for seat in seats]

    def too_large(self, sending: Sending, commits: Sequence[Commit]) -> None:
        """The server takes less than configured."""
        seats = [commit.seat for commit in commits]
        if sending.lane.whole:
            outcome = rejected(GANG_SCHEDULING, REFUSED.format(**_needs(seats)))
            sending.take(self.none(seats, outcome, failed=True))
        elif len(seats) > 1:
            sending.now = replace(sending.now, limits=sending.now.limits.halved())
            sending.take(map(SendAgain, seats))
        else:
            outcome = rejected(BINDER, TOO_LARGE.format(size=len(seats[0].found.raw)))
            sending.take([Done(seats[0].number, self._seats.ended(seats[0], outcome))])


def _of_all(seat: Seated, verdict: NoRoom | Outcome) -> Outcome:
    """What a member's verdict means for its gang."""
    key = seat.found.pod.key
    match verdict:
        case NoRoom():
            return Contended(message=NOT_BOUND.format(why=f"{key} on {seat.node}: {verdict.why}"))
        case Contended():
            return Contended(message=NOT_BOUND.format(why=f"{key}: {verdict.message}"))
        case Rejected():
            return rejected(verdict.plugin, f"{key}: {verdict.message}")
    return verdict


def _needs(seats: Sequence[Seated]) -> dict[str, int]:
    """What a gang's transaction comes to."""
    load = measure([seat.shape for seat in seats])
    return {"pods": len(seats), "compares": len(load.compares), "writes": len(load.writes), "size": load.size}
