"""Committing the seats of a cohort: many pods a transaction, and a contended one costs only itself.

::

    seats by node ── verify, fill up to etcd's limits ──► transaction ── succeeded ──► bound
          ▲                │ not verified                     │ failed: the reads say whose it is
          │                ▼                                  ▼
          │            one by one (`binding`) ◄──── theirs: adopt, catch up, runners-up
          └───────────────── the rest, once more ◄────────────┘

Seats with rules across nodes follow when these are done (`binding_ruled`).

The pods' locks are held throughout, the nodes' while transactions are filled and sent, a few at a time. Seats on one
node are in one transaction: of two that are out at once, the second would compare a version that the first rewrites.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Sequence

from wharfinger.contracts.cohort_scheduling import BindManyInput, BoundMany
from wharfinger.engine.pods.binding import Bindings
from wharfinger.engine.pods.binding_ruled import RuledBindings
from wharfinger.engine.pods.cohort_outcomes import Outcomes, Work, by_node, single
from wharfinger.engine.pods.commit import Commit, Moved, blame, read_failure, together
from wharfinger.engine.pods.core import Core
from wharfinger.engine.pods.seating import Seated, Seating, identity
from wharfinger.engine.transactions import Load
from wharfinger.errors import InvalidObject, PluginError, RequestTooLarge
from wharfinger.registry.store import TxnResult

SENDERS = 3
"""Transactions of one cohort that are out at a time."""
SINGLES = 4
"""Seats that are committed one by one at a time; of those with rules across nodes it is one."""
PATIENCE = 4.0
"""Seconds after which no seat is committed by itself any more: whose room others took is placed anew, knowing more.
Where a cluster is nearly full that may be most of a cohort, each with its runners-up, and the activity has 8 s."""


class ManyBindings:
    """Commits the cohorts of one worker."""

    def __init__(self, core: Core, bindings: Bindings) -> None:
        """`bindings`: who commits single pods, and whose locks are shared."""
        self._bindings = bindings
        self._seating = Seating(core)
        self._committer = core.committer
        self._cache = core.cache
        self._settings = core.settings
        self._limits = core.limits
        self._metrics = core.metrics
        self._clock = core.clock
        self._ruled = RuledBindings(core, bindings, patience=PATIENCE)

    async def bind(self, request: BindManyInput) -> BoundMany:
        """Bind each pod to its node, or to a runner-up. Safe to run again. Raises `StoreError`."""
        seats = request.seats
        everybody = range(len(seats))
        groups = deque(by_node(request, everybody))
        work = Work(request, Outcomes(request), self._limits, self._clock(), groups)
        locks = self._bindings.locks
        async with locks.hold(map(identity, seats)):
            async with locks.hold(seat.node for seat in seats):
                await self._together(work)
            if work.error is None and work.ruled:
                await self._ruled.bind(work)
            if work.error is None:
                await self._one_by_one(work)
        if work.error is not None:
            raise work.error
        return work.outcomes.told()

    # --- transactions of many -----------------------------------------------------------------

    async def _together(self, work: Work) -> None:
        senders = min(SENDERS, len(work.groups))
        answers = await asyncio.gather(*(self._sender(work) for _ in range(senders)), return_exceptions=True)
        for answer in answers:
            if isinstance(answer, BaseException):
                raise answer

    async def _sender(self, work: Work) -> None:
        """Fill a transaction and send it, until nothing is left to be sent."""
        while work.error is None and work.groups:
            batch, rest = self._fill(work)
            try:
                if batch:
                    await self._send(work, batch)
            except Exception as error:
                work.error = work.error or error
                return
            work.again(rest)

    def _fill(self, work: Work) -> tuple[list[tuple[Seated, Commit]], list[int]]:
        """The next transaction, and seats of a node that did not fit into it with the others: they follow it.

        Nothing is awaited in between: what it compares is known at one moment.
        """
        load = Load(work.limits)
        batch: list[tuple[Seated, Commit]] = []
        while work.groups:
            group = work.groups.popleft()
            found = [seated for number in group if (seated := self._find(work, number)) is not None]
            shapes = [seated.shape for seated in found]
            if load.takes(shapes):
                batch += self._prepared(work, found)
                continue
            if batch:
                work.groups.appendleft([seated.number for seated in found])
                break
            count = load.most(shapes)
            if count == 0:  # too large by itself
                work.singles.append(found[0].number)
                return [], [seated.number for seated in found[1:]]
            return self._prepared(work, found[:count]), [seated.number for seated in found[count:]]
        return batch, []

    def _find(self, work: Work, number: int) -> Seated | None:
        """The seat if it may go with others; else it goes alone."""
        tries = work.tries.get(number, 0)
        seated = self._seating.find(work.request, number) if tries < self._settings.tries else None
        if seated is None or seated.rules:
            (work.singles if seated is None else work.ruled).append(number)
            return None
        return seated

    def _prepared(self, work: Work, found: Sequence[Seated]) -> list[tuple[Seated, Commit]]:
        """Those that still fit their node, of seats on one node."""
        refusals = self._refusals(found)
        if any(refusals) and len(found) > 1:  # where not all fit, the first ones do
            for seated in found:
                self._cache.forget_unsent(seated.identity)
            refusals = self._refusals(found)
        prepared = []
        now = self._seating.now
        for seated, refusal in zip(found, refusals, strict=True):
            if isinstance(refusal, PluginError):
                self._reject(work, seated, refusal.plugin, str(refusal))
                continue
            if refusal:
                work.singles.append(seated.number)  # it tries the runners-up
                continue
            try:
                status = self._seating.ask_plugins(seated)
            except PluginError as error:
                self._reject(work, seated, error.plugin, str(error))
                continue
            if not status.ok:
                self._reject(work, seated, status.plugin, status.message)
                continue
            node = self._cache.nodes[seated.seat.node]
            prepared.append((seated, self._seating.commit(work.request, seated, node, now)))
        return prepared

    def _refusals(self, found: Sequence[Seated]) -> list[str | PluginError]:
        """Why each must not be bound to its node, with all that are assumed there; empty for those that may."""
        refusals: list[str | PluginError] = []
        for seated in found:
            try:
                refusals.append(self._seating.refusal(seated))
            except PluginError as error:
                refusals.append(error)
        return refusals

    def _reject(self, work: Work, seated: Seated, plugin: str, message: str) -> None:
        self._seating.give_up(seated)
        work.outcomes.rejected(seated.number, plugin, message)

    async def _send(self, work: Work, batch: Sequence[tuple[Seated, Commit]]) -> None:
        numbers = [seated.number for seated, _ in batch]
        commits = [commit for _, commit in batch]
        try:
            transaction = together(commits)
            work.outcomes.transactions += 1
            answer = await self._committer.send(commits, transaction)
        except InvalidObject:  # the one that cannot be written says so for itself
            work.singles += numbers
            return
        except RequestTooLarge:  # the server takes less than configured
            work.limits = work.limits.halved()
            work.again(numbers)
            return
        if answer.succeeded:
            self._bound(work, batch, answer.revision)
            return
        failures = [read_failure(commit, transaction.answer_for(commit, answer)) for commit in commits]
        await self._sort_out(work, numbers, failures, answer)

    def _bound(self, work: Work, batch: Sequence[tuple[Seated, Commit]], revision: int) -> None:
        self._committer.happened([commit for _, commit in batch], revision)
        work.revision = max(work.revision, revision)
        took = self._clock() - work.began
        for seated, _ in batch:
            seated.tell_bound()
            work.outcomes.bound(seated.number, revision)
        for (profile, stretch), pods in Counter((one.profile.name, one.seat.stretch) for one, _ in batch).items():
            self._bindings.tally.bound(profile, work.request.computations[stretch], took, pods)

    async def _sort_out(self, work: Work, numbers: Sequence[int], failures: Sequence[Moved], answer: TxnResult) -> None:
        """Seats that caused the failure go alone, the rest once more, after the watch has shown what moved."""
        found = blame(failures, answer)
        for what in found.counted:
            self._metrics.bind_conflicts.labels(moved=what).inc()
        work.singles += [number for at, number in enumerate(numbers) if at in found.own]
        rest = [number for at, number in enumerate(numbers) if at not in found.own]
        for number in rest:
            work.tries[number] = work.tries.get(number, 0) + 1
        if found.revision and not await self._cache.progress.wait_for(found.revision, self._settings.catch_up):
            work.singles += rest
            return
        work.again(rest)

    # --- one by one ---------------------------------------------------------------------------

    async def _one_by_one(self, work: Work) -> None:
        """The single path, in the order of the seats: first those without rules across nodes, then the others."""
        plain: deque[int] = deque()
        ruled: list[int] = []
        for number in sorted(work.singles):
            seated = self._seating.find(work.request, number)
            (ruled if seated is not None and seated.rules else plain).append(number)
        await asyncio.gather(*(self._singles(work, plain) for _ in range(min(SINGLES, len(plain)))))
        await self._singles(work, deque(ruled))

    async def _singles(self, work: Work, numbers: deque[int]) -> None:
        while numbers and work.error is None:
            number = numbers.popleft()
            if self._clock() - work.began > PATIENCE and (seated := self._seating.find(work.request, number)):
                self._leave(work, seated)
                continue
            try:
                outcome = await self._bindings.bind_locked(single(work.request, number))
            except PluginError as error:
                work.outcomes.rejected(number, error.plugin, str(error))
            except Exception as error:
                work.error = work.error or error
            else:
                work.outcomes.single(number, outcome)

    def _leave(self, work: Work, seated: Seated) -> None:
        """Others were in the way for too long, and no transaction of this seat is out."""
        self._seating.give_up(seated)
        self._bindings.tally.contended(seated.computation)
        work.outcomes.contended(seated.number, f"the cohort took longer than {PATIENCE:g} s: it is placed anew")
