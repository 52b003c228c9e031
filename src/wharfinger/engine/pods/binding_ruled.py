"""Committing the seats of a cohort whose pods have rules across nodes: many a transaction, in the order decided.

::

    round:  locks of bound/<x> and nodes ─► fill ─► send ─► succeeded: versions advance, fill the next one
                                             ▲                 │ failed: the watch catches up, half as many pods
                                             └─────────────────┘
    a seat that does not hold:   it relies on pods that are not bound yet ─► next round
                                 else                                     ─► its next runner-up, in the next round
    its pod, node or binding version moved:                                  verified anew in its place, a few times

A seat relies on facts, on binds of this worker that have happened, and on the seats before it in its transaction. The
transaction compares the version of every namespace that one of its rules looks at, so the rules hold at every revision,
whichever worker binds. Between reading versions and sending nothing is awaited.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from wharfinger.engine.pods import across_nodes
from wharfinger.engine.pods.across_nodes import EVERYWHERE
from wharfinger.engine.pods.binding import TURN, TURNS, Bindings
from wharfinger.engine.pods.cohort_outcomes import Work
from wharfinger.engine.pods.commit import Commit, Moved, blame, read_failure, together
from wharfinger.engine.pods.core import Core
from wharfinger.engine.pods.seating import Seated, Seating
from wharfinger.engine.pods.verification import LEANS
from wharfinger.engine.transactions import Load
from wharfinger.errors import InvalidObject, PluginError, RequestTooLarge
from wharfinger.framework.gangs import seated as with_seat
from wharfinger.framework.snapshot import Snapshot
from wharfinger.registry import keys
from wharfinger.registry.store import TxnResult


@dataclass(slots=True)
class Ruled:
    """A seat that is still to be bound."""

    number: int
    candidates: tuple[str, ...]
    """The chosen node, then the runners-up that were not tried yet."""
    notes: list[str] = field(default_factory=list)
    tries: int = 0
    """Transactions that failed because its pod, its node or its binding version moved."""

    @property
    def node(self) -> str:
        """The node that it is committed to next."""
        return self.candidates[0]

    def give_up_node(self, why: str) -> None:
        """Go on with the next runner-up."""
        self.note(f"{self.node}: {why}")
        self.candidates = self.candidates[1:]

    def note(self, text: str) -> None:
        """Keep for the explanation, once."""
        if text not in self.notes:
            self.notes.append(text)


@dataclass(slots=True)
class Round:
    """What one round has sent and found."""

    left: list[Ruled]
    """Seats that no transaction of this round has taken or passed over, in the order decided."""
    put_off: list[Ruled] = field(default_factory=list)
    """Seats for the next round."""
    window: int | None = None
    """Pods that the next transaction may have; None = as many as etcd takes."""
    leaning: bool = False
    """Whether a seat relies on pods that are not bound yet: others that do not hold now are not asked why."""
    sent: bool = False
    failed: int = 0
    """Transactions that failed since one succeeded."""
    unseen: bool = False
    """Whether only the watch shows the versions that the last transaction left."""


@dataclass(slots=True)
class Filled:
    """One transaction."""

    seats: list[tuple[Ruled, Seated, Commit]] = field(default_factory=list)

    @property
    def commits(self) -> list[Commit]:
        """In the order of the seats."""
        return [commit for _, _, commit in self.seats]


class RuledBindings:
    """Commits the seats with rules across nodes of one worker's cohorts."""

    def __init__(self, core: Core, bindings: Bindings, *, patience: float) -> None:
        """`patience`: seconds of the whole `bind_many` after which what is left is placed anew."""
        self._bindings = bindings
        self._seating = Seating(core)
        self._committer = core.committer
        self._cache = core.cache
        self._settings = core.settings
        self._metrics = core.metrics
        self._patience = patience
        self._clock = core.clock

    async def bind(self, work: Work) -> None:
        """Bind the ruled seats, each to its node or to a runner-up; a failure of the store is left in `work.error`."""
        left = [self._ruled(work, number) for number in sorted(work.ruled)]
        idle = 0
        while left and idle < TURNS and not self._late(work):
            try:
                this = await self._round(work, left)
            except Exception as error:
                work.error = error
                return
            before, left = left, sorted(this.put_off + this.left, key=lambda one: one.number)
            if this.sent or [one.candidates for one in left] != [one.candidates for one in before]:
                idle = 0
                continue
            idle += 1
            if left and idle < TURNS:
                await self._cache.progress.wait_for(self._cache.progress.revision + 1, TURN)
        for one in left:
            self._contended(work, one)

    def _ruled(self, work: Work, number: int) -> Ruled:
        seat = work.request.seats[number]
        others = tuple(name for name in seat.others if name != seat.node) if self._settings.runners_up else ()
        return Ruled(number, (seat.node, *others))

    async def _round(self, work: Work, seats: Sequence[Ruled]) -> Round:
        """Transactions under one holding of the locks, until none of the seats that are left can go."""
        this = Round([])
        looked_at: set[str] = set()
        for one in seats:
            seated = self._find(work, one)
            if seated is None or not seated.rules:  # only etcd has its state, or a rule went meanwhile
                work.singles.append(one.number)
                continue
            looked_at |= seated.rules.looks_at
            this.left.append(one)
        locks = self._bindings.locks
        async with locks.hold(map(keys.bound, looked_at)), locks.hold(one.node for one in this.left):
            this.unseen = bool(work.revision)  # binds without rules rewrite versions without comparing them
            while this.left and not self._late(work):
                if this.unseen or looked_at >= EVERYWHERE:
                    await self._cache.progress.wait_for(work.revision, self._settings.catch_up)
                    this.unseen = False
                filled = self._fill(work, this)
                if not filled.seats:
                    break
                await self._send(work, this, filled)
        return this

    # --- one transaction ----------------------------------------------------------------------

    def _fill(self, work: Work, this: Round) -> Filled:
        """The next transaction of the seats that hold, in their order; the others are put off."""
        load, filled, surely = Load(work.limits), Filled(), self._cache.snapshot(confirmed=True)
        now = self._seating.now
        later: list[Ruled] = []
        for position, one in enumerate(this.left):
            if this.window is not None and len(filled.seats) >= this.window:
                later = this.left[position:]
                break
            seated = self._find(work, one)
            if seated is None:
                work.singles.append(one.number)
                continue
            after = self._after(work, this, one, seated, surely)
            if after is None:
                continue
            if not load.takes([seated.shape]):
                if filled.seats:
                    later = this.left[position:]
                    break
                work.singles.append(one.number)  # too large by itself: it says so for itself
                continue
            surely = after
            node = self._cache.nodes[one.node]
            filled.seats.append((one, seated, self._seating.commit(work.request, seated, node, now)))
        this.left = later
        return filled

    def _after(self, work: Work, this: Round, one: Ruled, seated: Seated, surely: Snapshot) -> Snapshot | None:
        """What is sure once the seat is bound; None when it is not bound now, and where it goes is settled."""
        try:
            lost = self._seating.refusal_after(seated, surely)
            if lost:
                if this.leaning or (seated.rules.leans and self._seating.leans(seated)):
                    this.leaning = True
                else:
                    one.give_up_node(lost)
                self._put_off(work, this, one)
                return None
            status = self._seating.ask_plugins(seated)
        except PluginError as error:
            self._reject(work, seated, error.plugin, str(error))
            return None
        if not status.ok:
            self._reject(work, seated, status.plugin, status.message)
            return None
        self._cache.assume_there(seated.found.pod, one.node)
        return with_seat(surely, seated.found.pod, one.node)

    def _put_off(self, work: Work, this: Round, one: Ruled) -> None:
        if one.candidates:
            this.put_off.append(one)
        else:
            self._contended(work, one)

    async def _send(self, work: Work, this: Round, filled: Filled) -> None:
        commits = filled.commits
        try:
            transaction = together(commits)
            work.outcomes.transactions += 1
            answer = await self._committer.send(commits, transaction)
        except InvalidObject:
            self._without_unwritable(work, this, filled)
            return
        except RequestTooLarge:  # the server takes less than it said
            if len(filled.seats) == 1:
                work.singles.append(filled.seats[0][0].number)
                return
            work.limits = work.limits.halved()
            this.left = [one for one, _, _ in filled.seats] + this.left
            return
        this.sent = True
        this.failed = 0 if answer.succeeded else this.failed + 1
        if answer.succeeded:
            self._bound(work, this, filled, answer.revision)
        else:
            failures = [read_failure(commit, transaction.answer_for(commit, answer)) for commit in commits]
            await self._sort_out(work, this, filled, failures, answer)

    def _bound(self, work: Work, this: Round, filled: Filled, revision: int) -> None:
        commits = filled.commits
        self._committer.happened(commits, revision)
        work.revision = max(work.revision, revision)
        this.unseen = across_nodes.rewritten_unseen([(commit.found.pod, commit.rules) for commit in commits])
        if this.window is not None:
            this.window *= 2
        took = self._clock() - work.began
        for one, seated, _ in filled.seats:
            seated.tell_bound()
            chosen = work.request.seats[one.number].node
            notes = (*one.notes, f"bound to the runner-up {one.node}") if one.node != chosen else tuple(one.notes)
            work.outcomes.bound(one.number, revision, one.node, notes)
            self._bindings.tally.bound(seated.profile.name, seated.computation, took)

    async def _sort_out(
        self, work: Work, this: Round, filled: Filled, failures: Sequence[Moved], answer: TxnResult
    ) -> None:
        """Verify all seats anew, in their order, after the watch has shown what moved.

        A seat whose own pod, node or binding version moved keeps its place, because seats after it may rely on it.
        After a few such failures, of it or of transactions in a row, or where the watch is behind, it is committed
        alone: that path reads etcd.
        """
        found = blame(failures, answer)
        for what in found.counted:
            self._metrics.bind_conflicts.labels(moved=what).inc()
        seats = [one for one, _, _ in filled.seats]
        if found.revision:  # binds of others came in between: fewer pods, a shorter window
            this.window = max(1, len(seats) // 2)
        progress = self._cache.progress
        newest = max((failures[at].newest for at in found.own), default=0)
        await progress.wait_for(max(found.revision, newest), self._settings.catch_up)
        again: list[Ruled] = []
        for at, one in enumerate(seats):
            if at in found.own and not self._keeps_place(this, one, failures[at]):
                work.singles.append(one.number)
            else:
                again.append(one)
        this.left = again + this.left
        if progress.revision < found.revision:  # this worker's watch is behind
            this.put_off += this.left
            this.left = []

    def _keeps_place(self, this: Round, one: Ruled, moved: Moved) -> bool:
        """Whether a seat whose own pod, node or binding version moved is tried again among the others."""
        one.tries += 1
        # Where one node after the other beats, no seat fails often, and yet no transaction succeeds.
        if max(one.tries, this.failed) >= self._settings.tries or self._cache.progress.revision < moved.newest:
            return False
        for note in moved.adopted_notes:
            one.note(note)
        if moved.must_catch_up:
            one.note(moved.catch_up_note)
        return True

    def _without_unwritable(self, work: Work, this: Round, filled: Filled) -> None:
        """The pods that cannot be written bound go alone, and say so; the others are sent without them."""
        again: list[Ruled] = []
        for one, _, commit in filled.seats:
            try:
                together([commit])
            except InvalidObject:
                work.singles.append(one.number)
            else:
                again.append(one)
        this.left = again + this.left

    # --- one seat -----------------------------------------------------------------------------

    def _find(self, work: Work, one: Ruled) -> Seated | None:
        """The seat on the node that is tried now; None when etcd has to be asked about its pod."""
        seated = self._seating.find(work.request, one.number)
        if seated is not None and seated.seat.node != one.node:
            seated.seat = seated.seat.model_copy(update={"node": one.node})
        return seated

    def _reject(self, work: Work, seated: Seated, plugin: str, message: str) -> None:
        self._seating.give_up(seated)
        work.outcomes.rejected(seated.number, plugin, message)

    def _contended(self, work: Work, one: Ruled) -> None:
        """No node was left, or no time: it is placed anew. No transaction of the seat is out."""
        seated = self._seating.find(work.request, one.number)
        if seated is None:
            work.singles.append(one.number)
            return
        self._seating.give_up(seated)
        self._bindings.tally.contended(seated.computation)
        if self._late(work):
            why = f"the cohort took longer than {self._patience:g} s: it is placed anew"
        else:
            reasons = [*one.notes, LEANS] if one.candidates else one.notes
            why = f"no node was left for {seated.found.pod.key}: {'; '.join(reasons)}"
        work.outcomes.contended(one.number, why)

    def _late(self, work: Work) -> bool:
        """Whether others were in the way for too long."""
        return self._clock() - work.began > self._patience
