"""Makes one recorded decision again by the engine's own code, and compares it with the record as replay does.

Works on a cache that holds the state of then. A lone pod, and a pod of a cohort, are decided by themselves; of a gang,
all members are. Unlike replay (`wharfinger.replay`), which goes through all decisions of a worker, this knows of the
worker's overlay only what the record names. Where that is not all, the comparison means nothing, and `lacks` says so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import takewhile

from wharfinger.framework.evaluation import Evaluation
from wharfinger.framework.profile import Profile
from wharfinger.objects.model.formats import ClusterFormat
from wharfinger.objects.model.gang import GangKey
from wharfinger.objects.model.pod import Pod, PodIdentity, PodKey
from wharfinger.objects.model.texts import shortened
from wharfinger.process.transactions import STOCK, Limits
from wharfinger.scheduling.contracts.cohort_scheduling import CohortPod, PlacedMany, Reasons, Seat, TurnedAway
from wharfinger.scheduling.contracts.computation import Assumed, Computation
from wharfinger.scheduling.contracts.scheduling import Placed, Refused
from wharfinger.scheduling.effects.binding.cohort_payload import SHORT, UNTOLD
from wharfinger.scheduling.effects.placing.extenders import Answers
from wharfinger.scheduling.effects.placing.payload import refusals
from wharfinger.scheduling.effects.placing.placing_cohorts import CohortDecision
from wharfinger.scheduling.effects.placing.placing_gangs import GangDecision
from wharfinger.scheduling.reading.comparing import Compared, MemberPart, compare_alone, compare_member, gang_parts
from wharfinger.scheduling.reading.recorded_verdicts import RecordedEngine, rejectors, unrecorded
from wharfinger.scheduling.state.cache.assumptions import parsed_digest
from wharfinger.scheduling.state.cache.cache import Cache
from wharfinger.scheduling.state.pool import Identity, Ownership, Pool
from wharfinger.settings import EtcdSettings


def limits_of(etcd: EtcdSettings) -> Limits:
    """What an etcd takes in one transaction, as its settings say."""
    return Limits(etcd.max_txn_ops, etcd.max_txn_bytes)


@dataclass(frozen=True, slots=True)
class Remade:
    """A decision made again."""

    compared: Compared | None
    """None where it could not be made at all; `lacks` says why."""
    evaluation: Evaluation | None
    """Of the pod alone, with the nodes; None where it was refused before any node was looked at."""
    lacks: tuple[str, ...] = ()
    """Why nobody can tell from this whether the record is right, in sentences; empty = it can be told."""


class _LaterInCohort(CohortDecision):
    """A cohort that has come to one of its pods."""

    def seated(self, identities: Iterable[PodIdentity]) -> None:
        """These pods have their seats."""
        self._taken.update(identities)


@dataclass(slots=True)
class Remaking:
    """One decision; to be made once."""

    cache: Cache
    """The state of then; assumed pods are added."""
    pod: Pod
    profile: Profile
    others: Mapping[str, Profile] = field(default_factory=dict)
    """Of the same configuration, by scheduler name: members of a gang may have several."""
    format: ClusterFormat = ClusterFormat.KUBERNETES
    limits: Limits = STOCK
    """Of etcd's transactions: larger gangs are refused."""
    _lacks: list[str] = field(default_factory=list)

    def alone(self, recorded: Placed | Refused, answers: Answers) -> Remade:
        """The decision of an attempt of the pod's own. Raises `PluginError`."""
        computation = recorded.computation
        self._overlay(computation, recorded, self.pod.identity)
        engine = self._engine(computation)
        engine.decider.recall(self.pod.key, recorded)
        again = engine.lone.decide(self.pod, answers)
        if not isinstance(again, Placed | Refused):
            self._lacks.append("extenders would have to be asked about other nodes than they were")
            return Remade(None, None, tuple(self._lacks))
        compared = compare_alone(recorded, again)
        self._unrecorded(computation, again.computation.clock, compared, rejectors(recorded))
        return Remade(compared, engine.decider.evaluation, tuple(self._lacks))

    def in_cohort(self, many: PlacedMany, recorded: Seat | TurnedAway, seats: Iterable[Assumed]) -> Remade:
        """A pod's part in the decision of a cohort. `seats`: those of its stretch before it. Raises `PluginError`."""
        computation = many.stretches[recorded.stretch].computation
        self._overlay(computation, recorded)
        self._assume(seats)
        engine = self._engine(computation)
        engine.decider.recall_member(recorded, many)
        cohort = _LaterInCohort(engine.decider, 1)
        before = takewhile(lambda one: one is not recorded, many.seats)
        taken = many.seats[: recorded.after_seat] if isinstance(recorded, TurnedAway) else before
        cohort.seated(PodIdentity(one.namespace, one.name, one.create_revision) for one in taken)
        again = cohort.decide_one(CohortPod(namespace=self.pod.namespace, name=self.pod.name), self.pod)
        part = _cut(MemberPart(recorded, many.reasons), MemberPart(again, cohort.reasons()))
        compared = compare_member(MemberPart(recorded, many.reasons), part)
        self._unrecorded(computation, "", compared, rejectors(recorded, many))
        return Remade(compared, engine.decider.evaluation, tuple(self._lacks))

    def in_gang(
        self,
        many: PlacedMany,
        recorded: Seat | TurnedAway,
        seats: Iterable[Assumed],
        evaluate: Callable[[], Evaluation],
    ) -> Remade:
        """A member's part in the decision for its gang. `seats`: those before it; `evaluate`: decides for the pod
        alone after these. Raises `PluginError`.
        """
        computation = many.stretches[0].computation
        self._overlay(computation, recorded)
        engine = self._engine(computation)
        engine.decider.recall_gang(many)
        namespace, _, name = computation.gang.partition("/")
        found = engine.decider.finder.members_of(GangKey(namespace, name))
        compared = None
        if isinstance(found, str):
            self._lacks.append(f"gang {computation.gang} is not to be placed in etcd's state: {found}")
        else:
            again = GangDecision(engine.decider, found).decide()
            for seat in again.seats:
                self.cache.forget(PodIdentity(seat.namespace, seat.name, seat.create_revision))
            ours = gang_parts(again).get(self.pod.key)
            if ours is None:
                self._lacks.append("the pod is no pending member of its gang in etcd's state")
            else:
                compared = compare_member(gang_parts(many)[self.pod.key], ours)
            clock = again.stretches[0].computation.clock if again.stretches else ""
            self._unrecorded(computation, clock, compared, rejectors(recorded, many))
        self._assume(seats)
        return Remade(compared, evaluate(), tuple(self._lacks))

    # --- what it is decided on ----------------------------------------------------------------

    def _engine(self, computation: Computation) -> RecordedEngine:
        own = computation.own_nodes
        if own is not None and not own.members:
            self._lacks.append("the record does not name the workers that shared the nodes, only a digest of them")
        profiles = {**self.others, self.profile.name: self.profile}
        pool = Pool(self.cache, profiles, Ownership(frozenset(profiles)))
        engine = RecordedEngine(pool, self.format, Identity("", "explain"), self.limits)
        engine.resume(computation, own.members if own is not None else ())
        return engine

    def _overlay(
        self, computation: Computation, recorded: Placed | Refused | Seat | TurnedAway, but: PodIdentity | None = None
    ) -> None:
        """Assume what the record names, and find out whether that is all."""
        if self.pod.mod_revision != recorded.pod_revision:
            revision = recorded.pod_revision
            self._lacks.append(f"etcd held the pod at revision {self.pod.mod_revision}, and {revision} was decided for")
        self._assume(computation.assumed, but)
        if computation.overlay:
            if self.cache.overlay_digest(but) != computation.overlay:
                count = parsed_digest(computation.overlay)[0]
                pods = "1 pod" if count == 1 else f"{count} pods"
                self._lacks.append(f"the worker had assumed {pods}, and the record has only a digest of them")
        elif computation.approximate and not computation.number:
            self._lacks.append("the worker had assumed, or nominated, more pods than the record keeps")

    def _assume(self, assumed: Iterable[Assumed], but: PodIdentity | None = None) -> None:
        for one in assumed:
            namespace, _, name = one.pod.partition("/")
            found = self.cache.pods.get(PodKey(namespace, name))
            if found is None or found.create_revision != one.create_revision:
                self._lacks.append(f"{one.pod}, which the worker had assumed on {one.node}, is not in etcd's state")
            elif found.identity != but:
                self.cache.assume(found, one.node)

    def _unrecorded(
        self, computation: Computation, clock: str, compared: Compared | None, refusing: tuple[str, ...]
    ) -> None:
        """Where a difference may come from what an earlier release did not record."""
        missing = unrecorded(computation, clock, compared, self.profile, refusing) if compared is not None else ""
        if missing == "verdict":
            who = ", ".join(refusing)
            self._lacks.append(
                f"{who} refused a node afterwards, at Reserve or Permit, and the record does not name it"
            )
        elif missing == "clock":
            self._lacks.append("pods that were being evicted were waited for, and the record does not have the time")


def part_of(many: PlacedMany, key: PodKey) -> Seat | TurnedAway | None:
    """What was decided for this pod; None for nothing."""
    return next((one for one in many.decided if (one.namespace, one.name) == key), None)


def _cut(recorded: MemberPart, again: MemberPart) -> MemberPart:
    """Shorter where the record had to be, because the cohort had much to tell: a pod decided by itself has not."""
    was, now = recorded.decision, again.decision
    if isinstance(was, Seat) and isinstance(now, Seat) and was.score is not None and not (was.plugins or was.others):
        now = now.model_copy(update={"plugins": {}, "others": {}})
    if was.reasons is None or now.reasons is None:
        return replace(again, decision=now)
    told, whole = recorded.reasons[was.reasons], again.reasons[now.reasons]
    counts = {one.plugin: one.reasons for one in whole.refusals}
    few = whole.model_copy(update={"refusals": refusals(counts, 0), "message": shortened(whole.message, SHORT)})
    none = Reasons(rejectors=whole.rejectors, message=UNTOLD if whole.message else "")
    cut = next((one for one in (few, none) if one == told), whole)
    return MemberPart(now.model_copy(update={"reasons": 0}), (cut,))
