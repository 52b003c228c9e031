"""Decides one unit again on a stand-in for its worker, by the engine's own code, and compares it with the record.

Afterwards the stand-in knows and assumes what the record says, whatever was decided: the next decision is made on the
state that it then had.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from wharfinger.errors import PluginError, StoreError
from wharfinger.framework.profile import Profile
from wharfinger.objects.model.pod import Pod, PodIdentity, PodKey
from wharfinger.process.names import gang_workflow_id
from wharfinger.replay.facts import Memberships
from wharfinger.replay.recorded import DecidedRun, Lack, Unreplayable, decisions_of, key_of
from wharfinger.replay.stand_in import StandIn
from wharfinger.scheduling.contracts.cohort_scheduling import CohortPod, PlacedMany, PlaceManyInput, Seat, TurnedAway
from wharfinger.scheduling.contracts.computation import Computation
from wharfinger.scheduling.contracts.scheduling import Placed, Refused
from wharfinger.scheduling.effects.placing.extenders import answered
from wharfinger.scheduling.effects.placing.placing_cohorts import Candidate, CohortDecision, OpenStretch
from wharfinger.scheduling.effects.placing.placing_gangs import GangDecision
from wharfinger.scheduling.reading.comparing import Compared, MemberPart, compare_alone, compare_member, gang_parts
from wharfinger.scheduling.reading.recorded_verdicts import rejectors, unrecorded


@dataclass(frozen=True, slots=True)
class Again:
    """One decision, made again or not."""

    pod: Pod | None
    """As it was then; None where etcd did not hold it."""
    key: PodKey
    found: Compared | Unreplayable


@dataclass(frozen=True, slots=True)
class UnitScene:
    """What a unit is decided on, beside its stand-in."""

    computation: Computation
    profile: Profile
    memberships: Memberships
    candidates: Iterable[tuple[PodIdentity, str]]
    """Placements that any worker may have assumed, in the end."""
    same_software: bool = True
    """Whether the profile is the recorded one, so that what is not recorded can be missed."""


class Deciding:
    """All units of one worker."""

    def __init__(self, stand_in: StandIn, cluster: str) -> None:
        self.stand_in = stand_in
        self._cluster = cluster
        self._cohorts: dict[str, CohortAgain] = {}
        """Those that are under way, by run id."""

    async def decide(self, run: DecidedRun, place: int, scene: UnitScene) -> list[Again]:
        """Decide the unit again; an outcome for each of its pods."""
        try:
            self.stand_in.prepare(scene.computation, scene.profile, scene.memberships)
            if run.kind == "lone" and run.lone is not None:
                return [self._alone(run, run.lone, scene)]
            if run.many is None:
                return []
            if run.kind == "gang":
                return await self._gang(run, run.many, scene)
            return self._stretch(run, run.many, place, scene)
        except Unreplayable as error:
            self.as_recorded(run, place)
            pods = self.stand_in.cache.pods
            return [Again(pods.get(key), key, error) for key, _ in run.decided(place)]

    def as_recorded(self, run: DecidedRun, place: int) -> None:
        """Assume what the unit placed, without deciding."""
        for identity, node in placements(run, place):
            pod = self.stand_in.cache.pods.get(PodKey(identity.namespace, identity.name))
            if pod is not None and pod.identity == identity:
                self.stand_in.cache.assume(pod, node)

    def _pod(self, key: PodKey, create_revision: int, pod_revision: int) -> Pod:
        pod = self.stand_in.cache.pods.get(key)
        if pod is None or pod.create_revision != create_revision:
            raise Unreplayable(Lack.STATE, f"etcd held no pod {key} that was decided for")
        if pod.mod_revision != pod_revision:
            raise Unreplayable(Lack.STATE, f"etcd held pod {key} at revision {pod.mod_revision}, not {pod_revision}")
        return pod

    # --- a lone pod ---------------------------------------------------------------------------

    def _alone(self, run: DecidedRun, recorded: Placed | Refused, scene: UnitScene) -> Again:
        key, stand_in = PodKey(run.namespace, run.name), self.stand_in
        pod = self._pod(key, recorded.create_revision, recorded.pod_revision)
        stand_in.assume_as_recorded(scene.computation, scene.candidates, pod.identity)
        stand_in.decider.recall(key, recorded)
        try:
            again = stand_in.lone.decide(pod, answered(run.answers))
        except PluginError as error:
            raise Unreplayable(Lack.PLUGIN, str(error)) from error
        except (TypeError, ValueError) as error:
            raise Unreplayable(Lack.EXTENDER, f"the recorded answers of extenders cannot be read: {error}") from error
        if not isinstance(again, Placed | Refused):
            raise Unreplayable(Lack.EXTENDER, "extenders would be asked about other nodes than they were")
        there = recorded.node if isinstance(recorded, Placed) else None
        stand_in.settle(pod, again.node if isinstance(again, Placed) else None, there)
        clock, compared = again.computation.clock, compare_alone(recorded, again)
        return Again(pod, key, _unless_unrecorded(compared, clock, scene, rejectors(recorded)))

    # --- a cohort -----------------------------------------------------------------------------

    def _stretch(self, run: DecidedRun, many: PlacedMany, place: int, scene: UnitScene) -> list[Again]:
        stand_in = self.stand_in
        cohort = self._cohorts.get(run.run_id)
        if cohort is None:
            cohort = CohortAgain(stand_in.decider, max(len(run.pods), run.decisions))
            self._cohorts[run.run_id] = cohort
            for one in run.pods:  # what an earlier run assumed for them ended when this one began
                known = stand_in.cache.pods.get(PodKey(one.namespace, one.name))
                if known is not None:
                    stand_in.cache.forget_unsent(known.identity)
        stand_in.assume_as_recorded(scene.computation, scene.candidates)
        asked = {PodKey(one.namespace, one.name): one for one in run.pods}
        found = [self._of_cohort(cohort, decision, asked, many, scene) for decision in decisions_of(many, place)]
        cohort.close_stretch()
        if place == len(many.stretches) - 1:
            del self._cohorts[run.run_id]
        return found

    def _of_cohort(
        self,
        cohort: CohortAgain,
        recorded: Seat | TurnedAway,
        asked: Mapping[PodKey, CohortPod],
        many: PlacedMany,
        scene: UnitScene,
    ) -> Again:
        key, stand_in = key_of(recorded), self.stand_in
        seat = recorded if isinstance(recorded, Seat) else None
        try:
            pod = self._pod(key, recorded.create_revision, recorded.pod_revision)
        except Unreplayable as error:
            known = stand_in.cache.pods.get(key)
            if seat is not None and known is not None and known.create_revision == seat.create_revision:
                stand_in.cache.assume(known, seat.node)
            return Again(known, key, error)
        stand_in.decider.recall_member(recorded, many)
        cohort.failed_then = failed_then(recorded, many)
        try:
            again = cohort.decide_one(asked.get(key) or CohortPod(namespace=key.namespace, name=key.name), pod)
        except Unreplayable as error:
            stand_in.settle(pod, None, seat.node if seat is not None else None)
            cohort.put_right(pod, seat)
            return Again(pod, key, error)
        there = again.node if isinstance(again, Seat) else None
        stand_in.settle(pod, there, seat.node if seat is not None else None)
        if there != (seat.node if seat is not None else None):
            cohort.put_right(pod, seat)
        compared = compare_member(MemberPart(recorded, many.reasons), MemberPart(again, cohort.reasons()))
        return Again(pod, key, _unless_unrecorded(compared, "", scene, rejectors(recorded, many)))

    # --- a gang -------------------------------------------------------------------------------

    async def _gang(self, run: DecidedRun, many: PlacedMany, scene: UnitScene) -> list[Again]:
        stand_in, name = self.stand_in, run.gang
        request = PlaceManyInput(
            gang=name, workflow_id=gang_workflow_id(self._cluster, name.namespace, name.name), run_id=run.run_id
        )
        try:
            found = await stand_in.decider.finder.gang(request, name)
        except StoreError as error:
            raise Unreplayable(Lack.STATE, str(error)) from error
        if isinstance(found, str):
            raise Unreplayable(Lack.STATE, f"gang {name.namespace}/{name.name}: {found}")
        stand_in.assume_as_recorded(scene.computation, scene.candidates)
        stand_in.decider.recall_gang(many)
        gang = GangAgain(stand_in.decider, found)
        again = gang.decide()
        if gang.failure is not None and not gang_failed_then(many, gang.failure.plugin):
            raise Unreplayable(Lack.PLUGIN, str(gang.failure))
        for seat in again.seats:
            pod = stand_in.cache.pods[key_of(seat)]
            stand_in.cache.forget(pod.identity)
        self.as_recorded(run, 0)
        return self._members(many, again, scene)

    def _members(self, many: PlacedMany, again: PlacedMany, scene: UnitScene) -> list[Again]:
        ours, clock = gang_parts(again), again.stretches[0].computation.clock
        members = []
        for key, recorded in gang_parts(many).items():
            found: Compared | Unreplayable
            if (decision := ours.get(key)) is None:
                found = Unreplayable(Lack.STATE, f"{key} is no pending member of its gang in etcd's state")
            else:
                compared = compare_member(recorded, decision)
                found = _unless_unrecorded(compared, clock, scene, rejectors(recorded.decision, many))
            members.append(Again(self.stand_in.cache.pods.get(key), key, found))
        return members


def placements(run: DecidedRun, place: int) -> Iterator[tuple[PodIdentity, str]]:
    """All that the unit placed, each with its node."""
    for key, decision in run.decided(place):
        if isinstance(decision, Placed | Seat):
            yield PodIdentity(key.namespace, key.name, decision.create_revision), decision.node


def _unless_unrecorded(
    compared: Compared, clock: str, scene: UnitScene, refusing: tuple[str, ...]
) -> Compared | Unreplayable:
    """What was compared, unless a difference may come from what an earlier release did not record."""
    lack = unrecorded(scene.computation, clock, compared, scene.profile, refusing) if scene.same_software else None
    match lack:
        case "verdict":
            who = ", ".join(refusing)
            return Unreplayable(Lack.VERDICT, f"{who} refused a node that is not recorded, at Reserve or Permit")
        case "clock":
            why = "pods that were being evicted were waited for, and the time is not recorded"
            return Unreplayable(Lack.CLOCK, why)
    return compared


# --- where a plugin failed ------------------------------------------------------------------------
#
# The engine turns pods away when a plugin fails. When decisions are made again such a failure says nothing of the pods,
# unless it is recorded.


class CohortAgain(CohortDecision):
    """A cohort that is decided again, stretch by stretch."""

    failed_then: tuple[str, ...] | None = None
    """Whose failure is recorded of the pod that is decided; None = nobody's."""

    def _failed(self, stretch: OpenStretch, one: Candidate, message: str, rejectors: tuple[str, ...]) -> None:
        """A failure that is not recorded says nothing of the pod."""
        if rejectors != self.failed_then:
            raise Unreplayable(Lack.PLUGIN, message)
        super()._failed(stretch, one, message, rejectors)

    def put_right(self, pod: Pod, seat: Seat | None) -> None:
        """Go on as if the pod had been seated, or turned away, as it was."""
        if seat is None:
            self._taken.discard(pod.identity)
            return
        self._taken.add(pod.identity)
        if self._stretch is not None:
            self._stretch.known.clear()


class GangAgain(GangDecision):
    """A gang that is decided again."""

    failure: PluginError | None = None
    """Why its members are turned away, where a plugin failed."""

    def _decided(self) -> PlacedMany:
        try:
            return super()._decided()
        except PluginError as error:
            self.failure = error
            raise


def failed_then(recorded: Seat | TurnedAway, many: PlacedMany) -> tuple[str, ...] | None:
    """Whose failure is recorded: such a pod is left to an attempt of its own, and no node is counted."""
    if isinstance(recorded, Seat) or not recorded.own_attempt or recorded.late is not None:
        return None
    why = many.reasons[recorded.reasons]
    return why.rejectors if not why.refusals else None


def gang_failed_then(many: PlacedMany, plugin: str) -> bool:
    """Whether this plugin alone turned all members away, as one that fails does."""
    return not many.seats and all(
        one.late is None and many.reasons[one.reasons].rejectors == (plugin,) for one in many.turned_away
    )
