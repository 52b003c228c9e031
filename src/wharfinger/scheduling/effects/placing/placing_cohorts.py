"""Places the pods of a cohort in order, each on the snapshot that those before it left.

A stretch of decisions is made without an await. After some ten milliseconds other tasks run, and a new stretch begins
on what is known then. Etcd is not asked: a pod that does not look pending is skipped, and its owner finds out why.
`CohortSequencer` has a dispatcher's cohorts decided one after the other, so that the queue's order holds across them.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import NamedTuple

from wharfinger.errors import PluginError
from wharfinger.framework.evaluation import Evaluation
from wharfinger.framework.profile import Profile
from wharfinger.framework.snapshot import Snapshot
from wharfinger.objects.model.pod import Pod, PodIdentity
from wharfinger.objects.model.texts import one_line
from wharfinger.process.failures import MESSAGE_LIMIT
from wharfinger.scheduling.contracts.cohort_scheduling import (
    CohortPod,
    PlacedMany,
    PlaceManyInput,
    Reasons,
    Seat,
    SeatRanking,
    Skipped,
    Stretch,
    Turn,
    TurnedAway,
)
from wharfinger.scheduling.contracts.computation import Computation
from wharfinger.scheduling.contracts.scheduling import Gone
from wharfinger.scheduling.effects.binding.cohort_payload import Away, CohortPayload
from wharfinger.scheduling.effects.placing.deciding import COHORT, Chosen, Decider, Denied
from wharfinger.scheduling.effects.placing.extenders import ALONE
from wharfinger.scheduling.effects.placing.payload import RANKED_LIMIT, report_again
from wharfinger.scheduling.state.queue.waiting import PodClass, pod_class

PATIENCE = 1.0
"""Seconds to wait for the cohort before."""
IMPATIENCE = 0.05
"""The same, once the one before never came."""
DISPATCHERS = 64
"""Remembered; the one that was heard of longest ago goes."""


@dataclass(slots=True)
class _Row:
    """Of one dispatcher."""

    decided: int = 0
    """The highest number that was decided, or given up."""
    patience: float = PATIENCE
    moved: asyncio.Event = field(default_factory=asyncio.Event)


class CohortSequencer:
    """The order of a dispatcher's cohorts in this process: one is decided after the other, as they were formed.

    Waiting cannot help when another worker decides the cohort before. After a wait that timed out, the next one is
    short. Lives on one event loop.
    """

    def __init__(self, patience: float = PATIENCE) -> None:
        self._patience = patience
        self._rows: OrderedDict[str, _Row] = OrderedDict()

    @asynccontextmanager
    async def take(self, turn: Turn | None) -> AsyncIterator[None]:
        """Wait for the cohort before, within reason; whatever then happens inside, it is the next one's turn after."""
        if turn is None:
            yield
            return
        row = self._row(turn.dispatcher)
        try:
            await self._wait(row, turn.number)
            yield
        finally:
            row.decided = max(row.decided, turn.number)
            moved, row.moved = row.moved, asyncio.Event()
            moved.set()

    async def _wait(self, row: _Row, number: int) -> None:
        try:
            async with asyncio.timeout(row.patience):
                while row.decided < number - 1:
                    await row.moved.wait()
        except TimeoutError:
            row.patience = min(self._patience, IMPATIENCE)
        else:
            row.patience = self._patience

    def _row(self, dispatcher: str) -> _Row:
        row = self._rows.get(dispatcher)
        if row is None:
            row = self._rows[dispatcher] = _Row(patience=self._patience)
        self._rows.move_to_end(dispatcher)
        while len(self._rows) > DISPATCHERS:
            self._rows.popitem(last=False)
        return row


log = logging.getLogger(__name__)

STRETCH = 0.05
"""Seconds of deciding at most, before other tasks run."""
LONGEST = 5.0
"""Seconds of deciding in all. The rest is skipped, because a cohort whose activity times out has decided nothing."""
TOO_LONG = "the decisions of its cohort took too long"
TOO_LARGE = "the decisions of its cohort are as large as they may be"


class Candidate(NamedTuple):
    """A pod to be decided for."""

    asked: CohortPod
    pod: Pod


@dataclass(slots=True)
class OpenStretch:
    """A stretch that is going on."""

    profile: Profile
    first_seat: int
    computation: Computation
    start: int
    began: float
    feasible: int | None = None
    """Of its first decision."""
    decided: int = 0
    refused: int = 0
    """Of these."""
    known: dict[PodClass, Away] = field(default_factory=dict)
    """Classes that were refused since a pod was last placed."""

    def closed(self, now: float) -> Stretch:
        """As it travels."""
        took = {"micros": round((now - self.began) * 1e6), "feasible": self.feasible or 0}
        return Stretch(first_seat=self.first_seat, computation=self.computation.model_copy(update=took))


class CohortPlacements:
    """Decides for the cohorts of one worker."""

    def __init__(self, decider: Decider) -> None:
        self._decider = decider
        self._finder = decider.finder
        self._sequencer = CohortSequencer()

    async def place(self, request: PlaceManyInput) -> PlacedMany:
        """Decide and assume. A pod whose plugins fail is turned away: an attempt of its own reports why.

        Raises the failure Behind.
        """
        await self._finder.wait_for(request.pods)
        cohort = CohortDecision(self._decider, len(request.pods))
        try:
            async with self._sequencer.take(request.turn):
                self._finder.begin(request.pods)
                return await cohort.decide(request.pods)
        except BaseException:  # no activity will bind these
            cohort.forget()
            raise


class CohortDecision:
    """One cohort while it is decided."""

    def __init__(self, decider: Decider, pods: int) -> None:
        """`pods`: how many there are."""
        self._core = decider.core
        self._finder = decider.finder
        self._decider = decider
        self._payload = CohortPayload(pods)
        self._seats: list[Seat] = []
        self._rankings: list[SeatRanking] = []
        self._taken: set[PodIdentity] = set()
        """By these seats."""
        self._away: list[TurnedAway] = []
        self._skipped: list[Skipped] = []
        self._stretches: list[Stretch] = []
        self._stretch: OpenStretch | None = None
        self._last: tuple[Evaluation, int | None] | None = None
        """The last placing decision, and the index of why other nodes were refused."""

    async def decide(self, pods: tuple[CohortPod, ...]) -> PlacedMany:
        """Decide in order, as far as time and room allow."""
        began = self._core.process.clock()
        for one in pods:
            if self._stretch is not None and self._core.process.clock() - self._stretch.began > STRETCH:
                self.close_stretch()
                await asyncio.sleep(0)
            pod = self._finder.of_cohort(one, self._taken)
            if isinstance(pod, Pod) and (self._payload.full or self._core.process.clock() - began > LONGEST):
                pod = TOO_LARGE if self._payload.full else TOO_LONG
            if isinstance(pod, Pod):
                self.decide_one(one, pod)
            else:
                reason, gone = (pod.reason, pod.why) if isinstance(pod, Gone) else (pod, "")
                self._skipped.append(Skipped(namespace=one.namespace, name=one.name, reason=reason, gone=gone))
        self.close_stretch()
        return PlacedMany(
            seats=tuple(self._seats),
            turned_away=tuple(self._away),
            skipped=tuple(self._skipped),
            reasons=self.reasons(),
            stretches=tuple(self._stretches),
            rankings=tuple(self._rankings) if self._payload.small else (),
        )

    def forget(self) -> None:
        """End the assumptions of all seats, and let the next decision tell what these told: they are not recorded."""
        cache = self._core.pool.cache
        for identity in self._taken:
            cache.forget_unsent(identity)
        made = [stretch.computation for stretch in self._stretches]
        for computation in reversed(made if self._stretch is None else [*made, self._stretch.computation]):
            report_again(cache, computation)

    # --- one pod ------------------------------------------------------------------------------

    def decide_one(self, asked: CohortPod, pod: Pod) -> Seat | TurnedAway:
        """Decide for the next pod, on what is known now, in the open stretch or in a new one."""
        one, seats = Candidate(asked, pod), len(self._seats)
        profile = self._core.pool.profiles[one.pod.scheduler_name]
        snapshot = self._core.pool.cache.snapshot()
        stretch = self._opened(profile, snapshot)
        stretch.decided += 1
        try:
            self._place_or_turn_away(stretch, one, snapshot)
        except PluginError as error:
            log.warning("plugin_failed error=%r", str(error))
            self._failed(stretch, one, str(error), (error.plugin,))
        except Exception as error:  # what is wrong with one pod must not hinder the others
            log.exception("cohort_pod_not_decided pod=%s", one.pod.key)
            if one.pod.identity not in self._taken:
                self._core.pool.cache.forget_unsent(one.pod.identity)
            self._failed(stretch, one, one_line(f"{type(error).__name__}: {error}", MESSAGE_LIMIT), ())
        return self._seats[-1] if len(self._seats) > seats else self._away[-1]

    def reasons(self) -> tuple[Reasons, ...]:
        """Those that were given so far, by index."""
        return tuple(self._payload.reasons)

    def _place_or_turn_away(self, stretch: OpenStretch, one: Candidate, snapshot: Snapshot) -> None:
        pod, profile, decider = one.pod, stretch.profile, self._decider
        denied = decider.admit(pod, profile, snapshot, COHORT) or _left_to_an_own_attempt(pod, profile)
        if denied is not None:
            self._refuse(stretch, one, self._why(denied))
            return
        if stretch.known and (away := stretch.known.get(pod_class(pod))) is not None:
            self._refuse(stretch, one, away)
            return
        evaluation = decider.evaluate(pod, profile, snapshot)
        if stretch.feasible is None:
            stretch.feasible = evaluation.feasible_count
        answer = decider.conclude(pod, profile, evaluation, COHORT, self._taken)
        if isinstance(answer, Denied):
            away = self._why(answer)
            if evaluation.node is None:
                stretch.known[pod_class(pod)] = away
            self._refuse(stretch, one, away)
        else:
            self._seat(stretch, one.asked, answer)

    def _seat(self, stretch: OpenStretch, asked: CohortPod, chosen: Chosen) -> None:
        reasons = self._reasons(chosen.evaluation)
        ranking = self._payload.ranking_of(chosen)
        others = ranking.others if ranking.nodes else chosen.evaluation.runners_up(RANKED_LIMIT - 1)
        self._seats.append(self._payload.seat_of(chosen, asked, reasons, stretch=len(self._stretches), others=others))
        self._rankings.append(ranking)
        self._taken.add(chosen.pod.identity)
        stretch.known.clear()

    def _reasons(self, evaluation: Evaluation) -> int | None:
        """The index of why other nodes were refused; most decisions refuse for the same reasons as the one before."""
        if self._last is not None and evaluation.refuses_as(self._last[0]):
            index = self._last[1]
        else:
            index = self._payload.because(evaluation.refusals) if evaluation.refusals else None
        self._last = evaluation, index
        return index

    def _why(self, denied: Denied) -> Away:
        reasons = self._payload.because(denied.counts, denied.message, denied.rejectors)
        return Away(reasons, denied.own_attempt, denied.late)

    def _failed(self, stretch: OpenStretch, one: Candidate, message: str, rejectors: tuple[str, ...]) -> None:
        """An attempt of its own reports the failure, and tries again."""
        self._core.tally.failed(stretch.profile.name)
        self._turn_away(one, Away(self._payload.because({}, message, rejectors), own_attempt=True))

    def _refuse(self, stretch: OpenStretch, one: Candidate, away: Away) -> None:
        stretch.refused += 1
        self._turn_away(one, away)

    def _turn_away(self, one: Candidate, away: Away) -> None:
        seats, stretches = len(self._seats), len(self._stretches)
        self._away.append(self._payload.away_of(one.pod, one.asked, away, after_seat=seats, stretch=stretches))

    # --- stretches ----------------------------------------------------------------------------

    def _opened(self, profile: Profile, snapshot: Snapshot) -> OpenStretch:
        """The current stretch; a new one for another profile, and where a sampling profile begins elsewhere."""
        start, stretch = self._decider.start, self._stretch
        if stretch is not None and stretch.profile is profile and stretch.start == start:
            return stretch
        self.close_stretch()
        preferring = self._decider.preference(snapshot) is not None
        overlay, began = self._payload.overlay, self._core.process.clock()
        computation = self._decider.computation(profile, snapshot, overlay, start=start, preferring=preferring)
        self._stretch = OpenStretch(profile, len(self._seats), computation, start, began)
        return self._stretch

    def close_stretch(self) -> None:
        """End the open stretch, if there is one: something else may happen now."""
        stretch, self._stretch = self._stretch, None
        if stretch is None:
            return
        closed = stretch.closed(self._core.process.clock())
        self._stretches.append(closed)
        each = closed.computation.micros / 1e6 / max(1, stretch.decided)
        if stretch.refused:
            self._core.tally.refused(stretch.profile.name, each, stretch.refused)
        for _ in range(stretch.decided):
            self._core.process.metrics.algorithm_duration.observe(each)


def _left_to_an_own_attempt(pod: Pod, profile: Profile) -> Denied | None:
    """The refusal of a pod of a cohort that concerns an extender or an asynchronous plugin; None for any other pod.

    Such a pod is placed alone: a cohort leaves it to an attempt of its own, and a gang is refused.
    """
    return Denied({}, ALONE, (), own_attempt=True) if profile.extenders_of(pod) or profile.called.concern(pod) else None
