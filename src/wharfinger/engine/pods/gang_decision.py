"""The decision for one gang, and how it travels: seats for all that are needed, or all are turned away.

A gang that is refused is refused as a whole: each member waits with the same message, and where room can be made for
all of them, each is nominated.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from wharfinger.cache.cache import Cache
from wharfinger.contracts.cohort_scheduling import PlacedMany, Seat, Stretch, TurnedAway
from wharfinger.contracts.cohorts import MOST_PODS
from wharfinger.contracts.computation import Computation
from wharfinger.contracts.eviction import Victim
from wharfinger.engine.pods import payload, points, preemption
from wharfinger.engine.pods.cohort_payload import CohortPayload
from wharfinger.engine.pods.gang_members import Found
from wharfinger.engine.pods.tally import Tally
from wharfinger.engine.pods.verification import Verification
from wharfinger.engine.transactions import Limits
from wharfinger.errors import PluginError
from wharfinger.framework import gangs
from wharfinger.framework.gangs import GangPlacement, Seated
from wharfinger.framework.preferred_nodes import PreferredNodes
from wharfinger.framework.profile import Profile
from wharfinger.framework.sampling import Start
from wharfinger.framework.snapshot import Snapshot
from wharfinger.framework.status import Code, Status, unschedulable
from wharfinger.model.gang import GANG_SCHEDULING, Wanted
from wharfinger.model.pod import Pod
from wharfinger.telemetry import Metrics

log = logging.getLogger(__name__)

MOST_VICTIMS = 1000
"""Pods that are evicted for one gang: more do not travel."""
TOO_MANY_VICTIMS = f" Nobody is evicted: more than {MOST_VICTIMS} pods would have to leave."
BESIDE = 2
"""Operations that one transaction has at least beside one a member: the node and its binding version."""
SHARED = 8
"""The same for keys that members share: versions of their namespace and of rules across nodes, a tenant."""
TOO_MANY = (
    "gang needs {required} members bound in one transaction, which is {least} operations in one of its lists at least, "
    "and {most} are allowed: raise --max-txn-ops of etcd and of the workers, or make the group smaller"
)
WAITS = "{plugin} would keep the pod waiting: members of a gang are bound in one transaction, and cannot wait singly"


@dataclass(slots=True)
class Deciding:
    """What all decisions of one worker share."""

    cache: Cache
    profiles: Mapping[str, Profile]
    verification: Verification
    identity: str
    limits: Limits
    """Of etcd's transactions."""
    preferred_nodes: PreferredNodes
    start: Start
    metrics: Metrics
    tally: Tally
    utc_now: Callable[[], datetime]
    clock: Callable[[], float] = time.perf_counter


class GangDecision:
    """One gang while it is decided: nothing is awaited from the snapshot to the assumptions."""

    def __init__(self, deciding: Deciding, found: Found) -> None:
        self._in = deciding
        self._found = found
        self._profile = deciding.profiles[found.pending[0].scheduler_name]
        self._began = deciding.clock()
        self._snapshot = deciding.cache.snapshot()
        self._preference = deciding.preferred_nodes.preference(self._snapshot)
        self._told = CohortPayload(min(len(found.pending), MOST_PODS))
        self._computation = self._computed()

    def decide(self) -> PlacedMany:
        """Seats for all that are needed, or all are turned away: by a plugin that is broken, too."""
        try:
            return self._decided()
        except PluginError as error:
            log.warning("plugin_failed error=%r", str(error))
            return self._refused_by(unschedulable(str(error)).by(error.plugin))

    def _decided(self) -> PlacedMany:
        required = self._found.gang.required(len(self._found.bound))
        most = self._in.limits.operations - BESIDE
        if required > most:
            counts = {"required": required, "least": required + BESIDE, "most": self._in.limits.operations}
            return self._refused_by(unschedulable(TOO_MANY.format(**counts)).by(GANG_SCHEDULING))
        wanted = Wanted(
            self._found.pending[: min(most, MOST_PODS)], required, self._found.bound, self._found.gang.topology_key
        )
        placement = self._place(wanted, self._snapshot, preempt=True)
        self._in.start.position = placement.next_start
        self._in.metrics.algorithm_duration.observe(self._in.clock() - self._began)
        return self._placed(placement, required) if placement.placed else self._refused(wanted, placement)

    def _place(self, wanted: Wanted, snapshot: Snapshot, *, preempt: bool) -> GangPlacement:
        return gangs.place(
            self._profile,
            wanted,
            snapshot,
            start=self._in.start.position,
            preempt=preempt,
            preference=self._preference,
        )

    # --- placed -------------------------------------------------------------------------------

    def _placed(self, placement: GangPlacement, required: int) -> PlacedMany:
        """Reserve, permit and assume every member on its node; none of them when one is refused."""
        seats = self._within_limits(placement.seats, required)
        for number, one in enumerate(seats):
            status = self._reserved(one)
            if not status.ok:
                for other in reversed(seats[:number]):
                    points.tell_given_up(self._profile, other.evaluation.state, other.pod, other.node)
                return self._refused_by(status)
        for one in seats:
            before = self._in.cache.node_info(one.node)
            self._in.cache.assume(one.pod, one.node)
            self._in.verification.decided(one.pod, one.node, before)
        told = tuple(self._seat(one) for one in seats)
        seated = {one.pod.key for one in seats}
        away = {one.pod.key: one for one in placement.away}
        return PlacedMany(
            seats=told,
            turned_away=tuple(
                self._away(pod, self._why_not(away.get(pod.key)), after_seat=len(seats))
                for pod in self._found.pending
                if pod.key not in seated
            ),
            reasons=tuple(self._told.reasons),
            stretches=(self._stretch(seats[0].evaluation.feasible_count),),
            domain=str(placement.domain) if placement.domain is not None else "",
        )

    def _within_limits(self, seats: tuple[Seated, ...], required: int) -> tuple[Seated, ...]:
        """Without those last ones, beyond the ones that are needed, that one transaction does not hold."""
        count = len(seats)
        while count > required:
            nodes = len({one.node for one in seats[:count]})
            if max(count + 2 * nodes, 2 * count + nodes) + SHARED <= self._in.limits.operations:
                break
            count -= 1
        return seats[:count]

    def _reserved(self, one: Seated) -> Status:
        """Reserve and Permit: a refusal has been undone already."""
        state = one.evaluation.state
        try:
            status = self._profile.reserve(state, one.pod, one.node)
            if not status.ok:
                return status
            status = self._profile.permit(state, one.pod, one.node).status
        except PluginError as error:
            status = unschedulable(str(error)).by(error.plugin)
        if status.ok:
            return status
        points.tell_given_up(self._profile, state, one.pod, one.node)
        if status.code is Code.WAIT:
            return unschedulable(WAITS.format(plugin=status.plugin)).by(status.plugin)
        return status

    def _seat(self, one: Seated) -> Seat:
        pod, evaluation = one.pod, one.evaluation
        best = evaluation.chosen
        return self._told.seat(
            Seat(
                namespace=pod.namespace,
                name=pod.name,
                uid=pod.uid,
                create_revision=pod.create_revision,
                pod_revision=pod.mod_revision,
                node=one.node,
                score=best.total if best is not None else None,
                plugins=dict(best.plugins) if best is not None else {},
                feasible=evaluation.feasible_count,
                reasons=self._told.because(evaluation.refusals) if evaluation.refusals else None,
                recorded=pod.condition is not None and pod.condition[0] == "False",
                plugin_data=evaluation.state.baggage,
            )
        )

    def _why_not(self, one: gangs.Unseated | None) -> int:
        if one is None:
            text = "its gang was bound without it: a transaction holds no more members"
            return self._told.because({}, text, (GANG_SCHEDULING,))
        return self._told.because(one.evaluation.refusals, one.evaluation.message, one.evaluation.rejectors)

    # --- refused ------------------------------------------------------------------------------

    def _refused(self, wanted: Wanted, placement: GangPlacement) -> PlacedMany:
        if self._profile.at.get("postFilter"):
            self._in.metrics.preemption_attempts.inc()
        leaving = [preemption.leaving(pod, self._snapshot, self._in.utc_now()) for pod in wanted.members]
        for each in leaving:
            if each.overdue:
                self._in.metrics.evictions_overdue.inc()
                log.warning("evictions_overdue gang=%s victims=%s", self._found.gang.key, list(each.overdue))
        present = any(each.present for each in leaving)
        room = {} if present else {one.pod.key: one for one in placement.nominations}
        victims = {key: preemption.victims(one.victims) for key, one in room.items()}
        too_many = sum(map(len, victims.values())) > MOST_VICTIMS
        if too_many:
            room, victims = {}, {}
        only_assumed = self._fits_without_assumed(wanted) or self._any_assumed(victims.values())
        if only_assumed:
            room, victims = {}, {}
        evicted = sum(map(len, victims.values()))
        if evicted:
            self._in.metrics.preemption_victims.observe(evicted)
        counts = placement.away[0].evaluation.refusals if placement.away else {}
        reports = "".join(sorted({each.report for each in leaving})) + (TOO_MANY_VICTIMS if too_many else "")
        reasons = self._told.because(counts, placement.message + reports, placement.rejectors)
        away = []
        for pod in self._found.pending:
            one = room.get(pod.key)
            node = one.node if one is not None else pod.nominated_node_name if present else ""
            away.append(self._away(pod, reasons, node=node, victims=victims.get(pod.key, ())))
        self._count(len(away))
        return PlacedMany(
            turned_away=tuple(away),
            reasons=tuple(self._told.reasons),
            stretches=(self._stretch(0),),
            domain=str(placement.domain) if placement.domain is not None else "",
            only_assumed=only_assumed,
            leaving=max((each.seconds for each in leaving), default=0.0),
        )

    def _refused_by(self, status: Status) -> PlacedMany:
        """Refused by one plugin for all, or before anybody was decided."""
        counts = {status.plugin: {status.message: len(self._snapshot)}}
        reasons = self._told.because(counts, status.message, (status.plugin,))
        self._count(len(self._found.pending))
        return PlacedMany(
            turned_away=tuple(self._away(pod, reasons) for pod in self._found.pending[:MOST_PODS]),
            reasons=tuple(self._told.reasons),
            stretches=(self._stretch(0),),
        )

    def _away(
        self, pod: Pod, reasons: int, *, after_seat: int = 0, node: str = "", victims: tuple[Victim, ...] = ()
    ) -> TurnedAway:
        return self._told.away(
            TurnedAway(
                namespace=pod.namespace,
                name=pod.name,
                uid=pod.uid,
                create_revision=pod.create_revision,
                pod_revision=pod.mod_revision,
                reasons=reasons,
                after_seat=after_seat,
                nominated_node=node,
                victims=victims,
            )
        )

    def _fits_without_assumed(self, wanted: Wanted) -> bool:
        """Whether only pods that this worker assumes are in the way: then no event may ever come."""
        if not self._in.cache.assumed():
            return False
        return self._place(wanted, self._in.cache.snapshot(without_assumed=True), preempt=False).placed

    def _any_assumed(self, victims: Iterable[tuple[Victim, ...]]) -> bool:
        assumed = {one.identity for one in self._in.cache.assumed()}
        return any(preemption.identity(victim) in assumed for several in victims for victim in several)

    # --- what it took -------------------------------------------------------------------------

    def _computed(self) -> Computation:
        assumed, approximate = self._told.overlay(self._in.cache.assumed())
        nominated, too_many = payload.nominated(self._snapshot.nominated, None)
        return Computation(
            revision=self._snapshot.revision,
            profile=self._profile.digest,
            profile_name=self._profile.name,
            gang=str(self._found.gang.key),
            assumed=assumed,
            nominated=nominated,
            start=self._in.start.position,
            own_nodes=payload.own_nodes(self._in.preferred_nodes) if self._preference is not None else None,
            approximate=approximate or too_many,
            nodes=len(self._snapshot),
            worker=self._in.identity,
            fleet_revision=self._in.tally.fleet_revision,
        )

    def _stretch(self, feasible: int) -> Stretch:
        took = {"micros": round((self._in.clock() - self._began) * 1e6), "feasible": feasible}
        return Stretch(first_seat=0, computation=self._computation.model_copy(update=took))

    def _count(self, pods: int) -> None:
        self._in.tally.refused_together(self._profile.name, self._in.clock() - self._began, pods)
