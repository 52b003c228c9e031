"""Places a gang as a whole: seats for as many members as it needs, or all of them are turned away.

From the look-up of the members to the assumptions nothing is awaited. Each member of a refused gang waits with the same
message, and where room can be made for all that are needed, each is nominated.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

from wharfinger.errors import PluginError
from wharfinger.framework.extenders.consulting import not_for_gangs
from wharfinger.framework.gangs import gangs
from wharfinger.framework.gangs.gangs import GangPlacement, SeatedMember, Unseated
from wharfinger.framework.snapshot import Snapshot
from wharfinger.framework.status import Status, unschedulable
from wharfinger.objects.documents.formats import format_of
from wharfinger.objects.model.gang import GANG_SCHEDULING, Wanted
from wharfinger.objects.model.pod import Pod, PodKey
from wharfinger.scheduling.contracts.cohort_scheduling import (
    MOST_PODS,
    CohortPod,
    GangName,
    PlacedMany,
    PlaceManyInput,
    Skipped,
    Stretch,
)
from wharfinger.scheduling.contracts.computation import LateVerdict
from wharfinger.scheduling.effects.binding.cohort_payload import Away, CohortPayload
from wharfinger.scheduling.effects.binding.finding import Found
from wharfinger.scheduling.effects.placing.deciding import GANG, Chosen, Decider, Denied, Late
from wharfinger.scheduling.effects.refusing import nominations

log = logging.getLogger(__name__)

BESIDE = 2
"""Operations that one transaction has at least beside one a member: the node and its binding version."""
SHARED = 8
"""The same for keys that members share: versions of their namespace and of rules across nodes, a tenant."""
TOO_MANY = (
    "gang needs {required} members bound in one transaction, which is {least} operations in one of its lists at least, "
    "and {most} are allowed: raise --max-txn-ops of etcd and of the workers, or make the group smaller"
)
WAITS = "{plugin} would keep the pod waiting: members of a gang are bound in one transaction, and cannot wait singly"
NOT_TAKEN_ALONG = "its gang was bound without it: a transaction holds no more members"


class GangPlacements:
    """Decides for the gangs of one worker."""

    def __init__(self, decider: Decider) -> None:
        self._decider = decider

    async def place(self, request: PlaceManyInput, name: GangName) -> PlacedMany:
        """Decide and assume. Raises `StoreError`, and the failures WrongWorkflowId, Behind and Unavailable."""
        found = await self._decider.finder.gang(request, name)
        if isinstance(found, str):
            return PlacedMany(skipped=(Skipped(namespace=name.namespace, name=name.name, reason=found),))
        return GangDecision(self._decider, found).decide()


class GangDecision:
    """One gang while it is decided."""

    def __init__(self, decider: Decider, found: Found) -> None:
        self._core = core = decider.core
        self._decider = decider
        self._limits = core.limits
        self._records = 0 if format_of(core.process.store.format).marks_pods else 1
        """Operations a member that the records of their binder add to each list."""
        self._found = found
        self._profile = core.pool.profiles[found.pending[0].scheduler_name]
        self._began = core.process.clock()
        self._snapshot = core.pool.cache.snapshot()
        self._preference = decider.preference(self._snapshot)
        self._payload = CohortPayload(min(len(found.pending), MOST_PODS))
        preferring = self._preference is not None
        self._computation = decider.computation(
            self._profile, self._snapshot, self._payload.overlay, start=decider.start, preferring=preferring
        )

    def decide(self) -> PlacedMany:
        """Seats for all that are needed, or all are turned away, also when a plugin fails."""
        try:
            return self._decided()
        except PluginError as error:
            log.warning("plugin_failed error=%r", str(error))
            return self._refused_by(unschedulable(str(error)).by(error.plugin))

    def _decided(self) -> PlacedMany:
        refused = not_for_gangs(self._found.pending, self._profile)
        if refused is not None:
            return self._refused_by(refused)
        required = self._found.gang.required(len(self._found.bound))
        most = (self._limits.operations - BESIDE) // (1 + self._records)
        if required > most:
            least = required * (1 + self._records) + BESIDE
            counts = {"required": required, "least": least, "most": self._limits.operations}
            return self._refused_by(unschedulable(TOO_MANY.format(**counts)).by(GANG_SCHEDULING))
        wanted = Wanted(
            self._found.pending[: min(most, MOST_PODS)], required, self._found.bound, self._found.gang.topology_keys
        )
        placement = self._place(wanted, self._snapshot, preempt=True)
        self._decider.start = placement.next_start
        self._core.process.metrics.algorithm_duration.observe(self._core.process.clock() - self._began)
        return self._placed(placement, required) if placement.placed else self._refused(wanted, placement)

    def _place(self, wanted: Wanted, snapshot: Snapshot, *, preempt: bool) -> GangPlacement:
        """`preempt`: it is the decision itself, and not a question of what would be."""
        start, timed = self._decider.start, preempt
        return gangs.place(
            self._profile, wanted, snapshot, start=start, preempt=preempt, preference=self._preference, timed=timed
        )

    # --- placed -------------------------------------------------------------------------------

    def _placed(self, placement: GangPlacement, required: int) -> PlacedMany:
        """Reserve, permit and assume every member on its node; none of them when one is refused."""
        seats = self._within_limits(placement.seats, required)
        for number, one in enumerate(seats):
            late = self._reserved(one)
            if late is not None:
                for other in reversed(seats[:number]):
                    self._profile.unreserve(other.evaluation.state, other.pod, other.node)
                return self._refused_by(late.status, {one.pod.key: late.verdict})
        chosen = [self._decider.assume(Chosen(one.pod, one.node, one.evaluation)) for one in seats]
        told = tuple(self._payload.seat_of(one, _asked(one.pod), self._reasons(one)) for one in chosen)
        seated = {one.pod.key for one in seats}
        away = {one.pod.key: one for one in placement.away}
        return PlacedMany(
            seats=told,
            turned_away=tuple(
                self._payload.away_of(pod, _asked(pod), Away(self._why_not(away.get(pod.key))), after_seat=len(seats))
                for pod in self._found.pending
                if pod.key not in seated
            ),
            reasons=tuple(self._payload.reasons),
            stretches=(self._stretch(seats[0].evaluation.feasible_count),),
            domain=_domain(placement),
        )

    def _within_limits(self, seats: tuple[SeatedMember, ...], required: int) -> tuple[SeatedMember, ...]:
        """Without those last ones, beyond the ones that are needed, that one transaction does not hold."""
        count = len(seats)
        while count > required:
            nodes = len({one.node for one in seats[:count]})
            most = max(count + 2 * nodes, 2 * count + nodes) + count * self._records
            if most + SHARED <= self._limits.operations:
                break
            count -= 1
        return seats[:count]

    def _reserved(self, one: SeatedMember) -> Late | None:
        """The refusal of Reserve or Permit, which has been undone already; None when both allow the seat."""
        try:
            late = self._decider.reserve(one.pod, self._profile, one.evaluation, one.node, GANG)
        except PluginError as error:
            verdict = LateVerdict(
                point="permit" if error.point == "Permit" else "reserve", plugin=error.plugin, node=one.node
            )
            return Late(unschedulable(str(error)).by(error.plugin), verdict)
        if not isinstance(late, Late):
            return None
        plugin = late.status.plugin
        return (
            replace(late, status=unschedulable(WAITS.format(plugin=plugin)).by(plugin)) if late.verdict.wait else late
        )

    def _reasons(self, chosen: Chosen) -> int | None:
        refusals = chosen.evaluation.refusals
        return self._payload.because(refusals) if refusals else None

    def _why_not(self, one: Unseated | None) -> int:
        if one is None:
            return self._payload.because({}, NOT_TAKEN_ALONG, (GANG_SCHEDULING,))
        return self._payload.because(one.evaluation.refusals, one.evaluation.message, one.evaluation.rejectors)

    # --- refused ------------------------------------------------------------------------------

    def _refused(self, wanted: Wanted, placement: GangPlacement) -> PlacedMany:
        room = self._decider.room(
            wanted.members,
            self._profile,
            self._snapshot,
            {one.pod.key: (one.node, nominations.as_victims(one.victims)) for one in placement.nominations},
            lambda snapshot: self._place(wanted, snapshot, preempt=False).placed,
            gang=str(self._found.gang.key),
        )
        counts = placement.away[0].evaluation.refusals if placement.away else {}
        denied = Denied(counts, placement.message + room.report, placement.rejectors, room)
        return self._all_away(denied, self._found.pending, _domain(placement))

    def _refused_by(self, status: Status, late: Mapping[PodKey, LateVerdict] = MappingProxyType({})) -> PlacedMany:
        """Refused by one plugin for all, or before any member was decided; `late`: of the member whose node it was."""
        counts = {status.plugin: {status.message: len(self._snapshot)}}
        denied = Denied(counts, status.message, (status.plugin,))
        return self._all_away(denied, self._found.pending[:MOST_PODS], late=late)

    def _all_away(
        self,
        denied: Denied,
        members: tuple[Pod, ...],
        domain: str = "",
        late: Mapping[PodKey, LateVerdict] = MappingProxyType({}),
    ) -> PlacedMany:
        room, took = denied.room, self._core.process.clock() - self._began
        self._core.tally.refused(self._profile.name, took, len(self._found.pending), together=True)
        reasons = self._payload.because(denied.counts, denied.message, denied.rejectors)
        return PlacedMany(
            turned_away=tuple(
                self._payload.away_of(pod, _asked(pod), Away(reasons, late=late.get(pod.key)), nomination=room.of(pod))
                for pod in members
            ),
            reasons=tuple(self._payload.reasons),
            stretches=(self._stretch(0, room.clock),),
            domain=domain,
            only_assumed=room.only_assumed,
            leaving=room.leaving,
        )

    def _stretch(self, feasible: int, clock: str = "") -> Stretch:
        micros = round((self._core.process.clock() - self._began) * 1e6)
        took = {"micros": micros, "feasible": feasible, "clock": clock, "gang": str(self._found.gang.key)}
        return Stretch(first_seat=0, computation=self._computation.model_copy(update=took))


def _asked(pod: Pod) -> CohortPod:
    """The member as a dispatcher would name it: a condition that says False comes with an attempt record."""
    recorded = pod.condition is not None and pod.condition[0] == "False"
    return CohortPod(namespace=pod.namespace, name=pod.name, recorded=recorded)


def _domain(placement: GangPlacement) -> str:
    return str(placement.domain) if placement.domain is not None else ""
