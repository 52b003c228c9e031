"""Choosing nodes for many pods in order, on this worker's evolving snapshot, and holding their seats.

A stretch of decisions is made without an await, each seeing those before it; after some ten milliseconds others have
their turn, and a new stretch begins on what is known then. Etcd is not asked: a pod that does not look pending is left
out, and whoever keeps the queue finds out why.

A pod that may be placed by an attempt of its own at once is said to be so: preemption might help it, or only pods
that other workflows of this worker have placed, and that are not bound yet, are in its way.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from wharfinger.cache.cache import Cache
from wharfinger.contracts.cohort_scheduling import PlacedMany, PlaceManyInput, Seat, Skipped, Stretch, TurnedAway
from wharfinger.contracts.cohorts import CohortPod
from wharfinger.contracts.computation import Computation
from wharfinger.contracts.scheduling import Gone
from wharfinger.engine.failures import MESSAGE_LIMIT, behind
from wharfinger.engine.pods import payload
from wharfinger.engine.pods.cohort_payload import CohortPayload
from wharfinger.engine.pods.eligibility import Eligibility, Life
from wharfinger.engine.pods.gang_members import GangMembers
from wharfinger.engine.pods.sequencer import CohortSequencer
from wharfinger.engine.pods.tally import Tally
from wharfinger.engine.pods.verification import Verification
from wharfinger.errors import PluginError
from wharfinger.framework.evaluation import Evaluation
from wharfinger.framework.preferred_nodes import PreferredNodes
from wharfinger.framework.profile import Profile
from wharfinger.framework.sampling import Start
from wharfinger.framework.snapshot import Snapshot
from wharfinger.framework.status import Code, Status
from wharfinger.model.pod import Pod, PodIdentity, PodKey
from wharfinger.model.texts import one_line
from wharfinger.queue.candidates import PodClass, pod_class
from wharfinger.telemetry import Metrics

log = logging.getLogger(__name__)

STRETCH = 0.05
"""Seconds of deciding at most, before others have their turn."""
LONGEST = 5.0
"""Seconds of deciding in all; the rest is left out, for a cohort whose time is over decided nothing."""
TOO_LONG = "the decisions of its cohort took too long"
TOO_LARGE = "the decisions of its cohort are as large as they may be"


class Candidate(NamedTuple):
    """A pod to be decided for."""

    asked: CohortPod
    pod: Pod


@dataclass(slots=True)
class Refusal:
    """Of a class of pods, for as long as nobody is placed."""

    reasons: int
    own_attempt: bool


@dataclass(slots=True)
class Open:
    """A stretch that is going on."""

    profile: Profile
    first_seat: int
    computation: Computation
    start: int
    began: float
    feasible: int | None = None
    """Of its first decision."""
    decided: int = 0
    failed: int = 0
    """Of these; they are turned away, too."""
    refused: dict[PodClass, Refusal] = field(default_factory=dict)
    """Classes that were refused since somebody was placed."""

    def closed(self, now: float) -> Stretch:
        """As it travels."""
        took = {"micros": round((now - self.began) * 1e6), "feasible": self.feasible or 0}
        return Stretch(first_seat=self.first_seat, computation=self.computation.model_copy(update=took))


@dataclass(slots=True)
class Cohort:
    """One cohort while it is decided."""

    told: CohortPayload
    seats: list[Seat] = field(default_factory=list)
    taken: set[PodIdentity] = field(default_factory=set)
    """By these seats."""
    away: list[TurnedAway] = field(default_factory=list)
    skipped: list[Skipped] = field(default_factory=list)
    stretches: list[Stretch] = field(default_factory=list)
    stretch: Open | None = None
    last: tuple[Evaluation, int | None] | None = None
    """The last placing decision, and the index of why other nodes were refused."""


class ManyPlacements:
    """Decides for the cohorts of one worker."""

    def __init__(
        self,
        *,
        cache: Cache,
        profiles: Mapping[str, Profile],
        eligibility: Eligibility,
        members: GangMembers,
        verification: Verification,
        identity: str,
        behind_limit: float,
        preferred_nodes: PreferredNodes,
        start: Start,
        metrics: Metrics,
        tally: Tally,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        """As of `Placements`."""
        self._cache = cache
        self._profiles = profiles
        self._eligibility = eligibility
        self._members = members
        self._verification = verification
        self._identity = identity
        self._behind_limit = behind_limit
        self._preferred_nodes = preferred_nodes
        self._metrics = metrics
        self._tally = tally
        self._clock = clock
        self._turns = CohortSequencer()
        self._start = start

    async def place(self, request: PlaceManyInput) -> PlacedMany:
        """Decide and assume. A pod whose plugins fail is turned away: an attempt of its own will say so."""
        needed = max((one.revision for one in request.pods), default=0)
        await self._cache.progress.wait_for(needed, self._behind_limit)
        cohort = Cohort(CohortPayload(len(request.pods)))
        try:
            async with self._turns.take(request.turn):
                self._check_seen(request.pods)
                await self._decide(cohort, request.pods)
        except BaseException:  # nobody will bind these
            for identity in cohort.taken:
                self._cache.forget_unsent(identity)
            raise
        return PlacedMany(
            seats=tuple(cohort.seats),
            turned_away=tuple(cohort.away),
            skipped=tuple(cohort.skipped),
            reasons=tuple(cohort.told.reasons),
            stretches=tuple(cohort.stretches),
        )

    def _check_seen(self, pods: tuple[CohortPod, ...]) -> None:
        """Where not one of them has been seen, another worker had better decide; left out, they would wait for long."""
        seen = self._cache.progress.revision
        if pods and all(one.revision > seen for one in pods):
            raise behind(seen, min(one.revision for one in pods))

    async def _decide(self, cohort: Cohort, pods: tuple[CohortPod, ...]) -> None:
        began = self._clock()
        for one in pods:  # whatever an earlier run assumed and never sent: these pods are decided anew
            known = self._cache.pods.get(PodKey(one.namespace, one.name))
            if known is not None:
                self._cache.forget_unsent(known.identity)
        for one in pods:
            stretch = cohort.stretch
            if stretch is not None and self._clock() - stretch.began > STRETCH:
                self._close(cohort)
                await asyncio.sleep(0)
            pod = self._known(cohort, one)
            if isinstance(pod, Pod) and (cohort.told.full or self._clock() - began > LONGEST):
                pod = TOO_LARGE if cohort.told.full else TOO_LONG
            if not isinstance(pod, Pod):
                reason, gone = (pod.reason, pod.why) if isinstance(pod, Gone) else (pod, "")
                cohort.skipped.append(Skipped(namespace=one.namespace, name=one.name, reason=reason, gone=gone))
                continue
            self._decide_one(cohort, Candidate(one, pod))
        self._close(cohort)

    def _known(self, cohort: Cohort, one: CohortPod) -> Pod | Gone | str:
        """The pod as the cache has it, or why it is not decided."""
        life = Life(PodKey(one.namespace, one.name), one.uid)
        if one.revision > self._cache.progress.revision:
            return "this worker has not seen it yet"
        found = self._eligibility.from_cache(life)
        if found is None:
            known = self._cache.pods.get(life.key)
            gone = self._eligibility.verdict(life, known) if known is not None else None
            return gone or "this worker does not know it"
        if found.pod.identity in cohort.taken:
            return "it is named twice"
        return "its bind is on its way" if self._cache.is_sent(found.pod.identity) else found.pod

    # --- one pod ------------------------------------------------------------------------------

    def _decide_one(self, cohort: Cohort, one: Candidate) -> None:
        pod = one.pod
        profile = self._profiles[pod.scheduler_name]
        snapshot = self._cache.snapshot()
        stretch = self._stretch(cohort, profile, snapshot)
        stretch.decided += 1
        try:
            gate = self._members.keeps(pod) or profile.gate(pod)
            if not gate.ok:
                self._refused_by(cohort, stretch, one, gate)
            elif stretch.refused and (known := stretch.refused.get(pod_class(pod))) is not None:
                self._turn_away(cohort, one, known.reasons, own_attempt=known.own_attempt)
            else:
                self._evaluate(cohort, stretch, one, snapshot)
        except PluginError as error:
            log.warning("plugin_failed error=%r", str(error))
            self._failed(cohort, stretch, one, str(error), (error.plugin,))
        except Exception as error:  # whatever is wrong with one pod, the others must not pay for it
            log.exception("cohort_pod_not_decided pod=%s", pod.key)
            if pod.identity not in cohort.taken:
                self._cache.forget_unsent(pod.identity)
            self._failed(cohort, stretch, one, one_line(f"{type(error).__name__}: {error}", MESSAGE_LIMIT), ())

    def _failed(self, cohort: Cohort, stretch: Open, one: Candidate, message: str, rejectors: tuple[str, ...]) -> None:
        """An attempt of its own will say so, and try again."""
        stretch.failed += 1
        self._tally.failed(stretch.profile.name)
        reasons = cohort.told.because({}, payload.message(message), rejectors)
        self._turn_away(cohort, one, reasons, own_attempt=True)

    def _evaluate(self, cohort: Cohort, stretch: Open, one: Candidate, snapshot: Snapshot) -> None:
        pod = one.pod
        preference = self._preferred_nodes.preference(snapshot)
        evaluation = stretch.profile.evaluate(pod, snapshot, start=self._start.position, preference=preference)
        self._start.position = evaluation.next_start
        if stretch.feasible is None:
            stretch.feasible = evaluation.feasible_count
        if evaluation.node is None:
            refusal = self._refusal(cohort, stretch.profile, pod, evaluation)
            stretch.refused[pod_class(pod)] = refusal
            self._turn_away(cohort, one, refusal.reasons, own_attempt=refusal.own_attempt)
            return
        state, node_name = evaluation.state, evaluation.node
        status = stretch.profile.reserve(state, pod, node_name)
        if not status.ok:
            self._refused_by(cohort, stretch, one, status)
            return
        permission = stretch.profile.permit(state, pod, node_name).status
        if not permission.ok:
            stretch.profile.unreserve(state, pod, node_name)
            waits = permission.code is Code.WAIT
            self._refused_by(cohort, stretch, one, permission, own_attempt=waits)
            return
        self._seat(cohort, stretch, one, evaluation, node_name)

    def _seat(self, cohort: Cohort, stretch: Open, one: Candidate, evaluation: Evaluation, node_name: str) -> None:
        pod = one.pod
        before = self._cache.node_info(node_name)
        self._cache.assume(pod, node_name)
        self._verification.decided(pod, node_name, before)
        best, others = evaluation.chosen, evaluation.runners_up(payload.RANKED_LIMIT - 1)
        seat = Seat(
            namespace=pod.namespace,
            name=pod.name,
            uid=pod.uid,
            create_revision=pod.create_revision,
            pod_revision=pod.mod_revision,
            node=node_name,
            score=best.total if best is not None else None,
            plugins=dict(best.plugins) if best is not None else {},
            others=dict(others),
            feasible=evaluation.feasible_count,
            reasons=self._reasons(cohort, evaluation),
            stretch=len(cohort.stretches),
            attempt=one.asked.attempt,
            recorded=one.asked.recorded,
            chained=one.asked.chained,
            record_revision=one.asked.record_revision,
            plugin_data=evaluation.state.baggage,
        )
        cohort.seats.append(cohort.told.seat(seat))
        cohort.taken.add(pod.identity)
        stretch.refused.clear()

    def _reasons(self, cohort: Cohort, evaluation: Evaluation) -> int | None:
        """The index of why other nodes were refused; most decisions refuse what the one before did."""
        if cohort.last is not None and evaluation.refuses_as(cohort.last[0]):
            index = cohort.last[1]
        else:
            index = cohort.told.because(evaluation.refusals) if evaluation.refusals else None
        cohort.last = evaluation, index
        return index

    # --- refused ------------------------------------------------------------------------------

    def _refusal(self, cohort: Cohort, profile: Profile, pod: Pod, evaluation: Evaluation) -> Refusal:
        if profile.at.get("postFilter"):
            self._metrics.preemption_attempts.inc()
        reasons = cohort.told.because(evaluation.refusals, evaluation.message, evaluation.rejectors)
        own_attempt = evaluation.nominated_node is not None or self._fits_without_others(cohort, profile, pod)
        return Refusal(reasons, own_attempt)

    def _fits_without_others(self, cohort: Cohort, profile: Profile, pod: Pod) -> bool:
        """Whether only pods are in the way that are assumed, but not by this cohort: then no event may ever come.

        Should a seat of this cohort not be committed, the workflow sees to those that were decided after it.
        """
        if all(one.identity in cohort.taken for one in self._cache.assumed()):
            return False
        snapshot = self._cache.snapshot(without_assumed=True, counting=cohort.taken)
        return profile.evaluate(pod, snapshot, preempt=False).node is not None

    def _refused_by(
        self, cohort: Cohort, stretch: Open, one: Candidate, status: Status, *, own_attempt: bool = False
    ) -> None:
        """Refused by one plugin before or after the nodes were looked at."""
        if status.code is Code.ERROR:
            raise PluginError(status.plugin, "place_many", status.message)
        counts = {status.plugin: {status.message: stretch.computation.nodes}}
        reasons = cohort.told.because(counts, status.message, (status.plugin,))
        self._turn_away(cohort, one, reasons, own_attempt=own_attempt)

    def _turn_away(self, cohort: Cohort, one: Candidate, reasons: int, *, own_attempt: bool) -> None:
        pod = one.pod
        away = TurnedAway(
            namespace=pod.namespace,
            name=pod.name,
            uid=pod.uid,
            create_revision=pod.create_revision,
            pod_revision=pod.mod_revision,
            reasons=reasons,
            after_seat=len(cohort.seats),
            stretch=len(cohort.stretches),
            attempt=one.asked.attempt,
            chained=one.asked.chained,
            record_revision=one.asked.record_revision,
            own_attempt=own_attempt,
        )
        cohort.away.append(cohort.told.away(away))

    # --- stretches ----------------------------------------------------------------------------

    def _stretch(self, cohort: Cohort, profile: Profile, snapshot: Snapshot) -> Open:
        """The one that is going on; a new one for another profile, and where a sampling profile begins elsewhere."""
        stretch = cohort.stretch
        if stretch is not None and stretch.profile is profile and stretch.start == self._start.position:
            return stretch
        self._close(cohort)
        assumed, approximate = cohort.told.overlay(self._cache.assumed())
        nominated, too_many = cohort.told.nominated(snapshot.nominated)
        preferring = self._preferred_nodes.preference(snapshot) is not None
        computation = Computation(
            revision=snapshot.revision,
            profile=profile.digest,
            profile_name=profile.name,
            assumed=assumed,
            nominated=nominated,
            start=self._start.position,
            own_nodes=cohort.told.own_nodes(self._preferred_nodes) if preferring else None,
            approximate=approximate or too_many,
            nodes=len(snapshot),
            worker=self._identity,
            fleet_revision=self._tally.fleet_revision,
        )
        cohort.stretch = Open(profile, len(cohort.seats), computation, self._start.position, self._clock())
        return cohort.stretch

    def _close(self, cohort: Cohort) -> None:
        stretch, cohort.stretch = cohort.stretch, None
        if stretch is None:
            return
        closed = stretch.closed(self._clock())
        number = len(cohort.stretches)
        cohort.stretches.append(closed)
        each = closed.computation.micros / 1e6 / max(1, stretch.decided)
        refused = -stretch.failed
        for away in reversed(cohort.away):
            if away.stretch != number:
                break
            refused += 1
        if refused > 0:
            self._tally.refused(stretch.profile.name, each, refused)
        for _ in range(stretch.decided):
            self._metrics.algorithm_duration.observe(each)
