"""The steps of a decision, the same for a lone pod and a pod of a cohort: a node and a held seat, or why not.

::

    admit ──► evaluate ──► reserve ──► assume ──► Chosen
      │          │            └─ refused, or waits where a wait is not held ──┐
      └──────────┴─ no node ──► room for it? ────────────────────────────────┴──► Denied

===========  =====================  ===========================  ==================
group        Permit asks to wait    preemption                   unit
===========  =====================  ===========================  ==================
lone pod     the seat is held       nominates, names victims     the pod
cohort       an own attempt         an own attempt               each pod
gang         refuses                for all members, or none     all members
===========  =====================  ===========================  ==================

A gang searches by `framework.gangs.gangs` and shares the steps from `reserve` on, and `room`. From the snapshot to the
assumption nothing is awaited, so two decisions of one worker never see the same room.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace

from wharfinger.errors import PluginError
from wharfinger.framework.evaluation import Evaluation
from wharfinger.framework.extenders.consulting import Consulted, consult
from wharfinger.framework.preferred_nodes import Preference
from wharfinger.framework.profile import Profile
from wharfinger.framework.snapshot import Snapshot
from wharfinger.framework.status import Code, Status
from wharfinger.objects.model.pod import Pod, PodIdentity, PodKey
from wharfinger.scheduling.contracts.computation import Computation, LateVerdict
from wharfinger.scheduling.contracts.eviction import Victim
from wharfinger.scheduling.contracts.scheduling import PermitWait
from wharfinger.scheduling.effects.binding.core import Core
from wharfinger.scheduling.effects.binding.finding import Finder
from wharfinger.scheduling.effects.placing.extenders import Answers
from wharfinger.scheduling.effects.placing.payload import Overlay
from wharfinger.scheduling.effects.refusing import nominations

log = logging.getLogger(__name__)

MOST_VICTIMS = 1000
"""Pods that are evicted for one gang, at most: more do not fit into a payload."""
TOO_MANY_VICTIMS = f" No pod is evicted: more than {MOST_VICTIMS} pods would have to leave."

Nomination = tuple[str, tuple[Victim, ...]]
"""A node, and the pods that must leave it."""


@dataclass(frozen=True, slots=True)
class Policy:
    """How a group differs from others where it is decided."""

    activity: str
    """Named in the error of a plugin that answers with one."""
    holds: bool = False
    """The seat of a pod that Permit lets wait is held; else the wait is a refusal."""
    own_attempt: bool = False
    """Preemption, and pods that only assumed ones hinder, are left to an attempt of the pod's own."""


LONE = Policy("place", holds=True)
COHORT = Policy("place_many", own_attempt=True)
GANG = Policy("place_many")


@dataclass(frozen=True, slots=True)
class Chosen:
    """A pod has a node, and is assumed there."""

    pod: Pod
    node: str
    evaluation: Evaluation
    wait: PermitWait | None = None
    """How long Permit holds the pod; None = it may be bound at once."""


@dataclass(frozen=True, slots=True)
class Late:
    """A refusal of Reserve or Permit, which has been undone already."""

    status: Status
    verdict: LateVerdict


@dataclass(frozen=True, slots=True)
class MadeRoom:
    """What preemption can do for pods that fit nowhere."""

    nominated: Mapping[PodKey, Nomination] = field(default_factory=dict)
    """Where each pod will fit once its victims have left."""
    only_assumed: bool = False
    """Only pods that are not bound yet are in the way, so no event may ever come: place again."""
    leaving: float = 0.0
    """Seconds until earlier victims are overdue; 0 = the pods wait for none, or too long."""
    waits: bool = False
    """Victims of an earlier attempt are still there: the pods keep their nominations."""
    report: str = ""
    """For people: what hinders preemption. Begins with a space unless it is empty."""
    clock: str = ""
    """The time of day that was read (RFC 3339); empty where none was."""

    def of(self, pod: Pod) -> Nomination:
        """The pod's nomination from now on (empty = none), and who is evicted for it."""
        return self.nominated.get(pod.key) or (pod.nominated_node_name if self.waits else "", ())


NO_ROOM = MadeRoom()


@dataclass(frozen=True, slots=True)
class Denied:
    """No node now, as it is decided; it travels as `Refused` of a lone pod, or as `TurnedAway`."""

    counts: Mapping[str, Mapping[str, int]]
    """Plugin -> reason -> nodes that it refused first."""
    message: str
    rejectors: tuple[str, ...]
    room: MadeRoom = NO_ROOM
    own_attempt: bool = False
    """An attempt of the pod's own may help at once."""
    late: LateVerdict | None = None
    """Who refused the node that was chosen; None = no node was."""


class Decider:
    """Decides for the pods of one worker."""

    def __init__(self, core: Core) -> None:
        self.core = core
        self.finder = Finder(core)
        self._preferred_nodes = core.pool.preferred_nodes
        self.start = 0
        """Where the next search of a sampling profile begins: one for all decisions, as in kube-scheduler."""
        self._number = 0
        """Of the last decision."""

    # --- one pod ------------------------------------------------------------------------------

    def admit(self, pod: Pod, profile: Profile, snapshot: Snapshot, policy: Policy) -> Denied | None:
        """The refusal of a pod that its gang or a PreEnqueue plugin keeps back, else None. Raises `PluginError`."""
        status = self.finder.keeps(pod) or profile.gate(pod)
        return None if status.ok else self.denied_by(status, len(snapshot), policy)

    def preference(self, snapshot: Snapshot) -> Preference | None:
        """This worker's own nodes; None when it prefers none."""
        shared = len(self._preferred_nodes.members) > 1
        return self._preferred_nodes.preference(snapshot) if shared else None

    def evaluate(self, pod: Pod, profile: Profile, snapshot: Snapshot) -> Evaluation:
        """Search from where the last decision ended. Raises `PluginError`."""
        preference = self.preference(snapshot)
        evaluation = profile.evaluate(pod, snapshot, start=self.start, preference=preference, timed=True)
        self.start = evaluation.next_start
        return evaluation

    def consult(self, pod: Pod, profile: Profile, snapshot: Snapshot, answers: Answers) -> Consulted:
        """The same for a pod that may concern extenders, given what they answered so far. Raises `PluginError`."""
        if not profile.extenders_of(pod):
            return self.evaluate(pod, profile, snapshot)
        verdicts = answers.verdicts
        consulted = consult(
            profile,
            pod,
            snapshot,
            start=self.start,
            preference=self.preference(snapshot),
            verdicts=verdicts,
            preemption=answers.preemption,
            timed=True,
        )
        # While extenders were asked, other decisions may have moved the start: theirs counts.
        if isinstance(consulted, Evaluation) and (verdicts is None or verdicts.start == self.start):
            self.start = consulted.next_start
        return consulted

    def conclude(
        self, pod: Pod, profile: Profile, evaluation: Evaluation, policy: Policy, taken: Collection[PodIdentity] = ()
    ) -> Chosen | Denied:
        """Hold the node that was found, or say what hinders. Raises `PluginError`.

        `taken`: pods of the same group that have a seat.
        """
        node = evaluation.node
        if node is None:
            return self._denied(pod, profile, evaluation, policy, taken)
        permitted = self.reserve(pod, profile, evaluation, node, policy)
        if isinstance(permitted, Late):
            waits = permitted.verdict.wait
            denied = self.denied_by(permitted.status, len(evaluation.snapshot), policy, own_attempt=waits)
            return replace(denied, late=permitted.verdict)
        return self.assume(Chosen(pod, node, evaluation, permitted))

    def reserve(
        self, pod: Pod, profile: Profile, evaluation: Evaluation, node: str, policy: Policy
    ) -> PermitWait | Late | None:
        """Reserve and Permit: the refusal, the wait, or None. Raises `PluginError`."""
        state = evaluation.state
        status = profile.reserve(state, pod, node)
        if not status.ok:
            return Late(status, LateVerdict(point="reserve", plugin=status.plugin, node=node))
        try:
            permission = profile.permit(state, pod, node)
        except PluginError:
            profile.unreserve(state, pod, node)
            raise
        status = permission.status
        if status.ok:
            return None
        if status.code is Code.WAIT and policy.holds:
            return PermitWait(plugin=status.plugin, seconds=permission.timeout)
        profile.unreserve(state, pod, node)
        waits = status.code is Code.WAIT
        return Late(status, LateVerdict(point="permit", plugin=status.plugin, node=node, wait=waits))

    def assume(self, chosen: Chosen) -> Chosen:
        """Count the pod on its node from now on."""
        cache, pod, node = self.core.pool.cache, chosen.pod, chosen.node
        before = cache.node_info(node)
        cache.assume(pod, node, held=chosen.wait.seconds if chosen.wait is not None else 0.0, decided=True)
        self.core.verification.decided(pod, node, before)
        return chosen

    # --- no node ------------------------------------------------------------------------------

    def denied_by(self, status: Status, nodes: int, policy: Policy, *, own_attempt: bool = False) -> Denied:
        """Refused by one plugin before or after the nodes were looked at. Raises `PluginError` for an error."""
        if status.code is Code.ERROR:
            raise PluginError(status.plugin, policy.activity, status.message)
        counts = {status.plugin: {status.message: nodes}}
        return Denied(counts, status.message, (status.plugin,), own_attempt=own_attempt)

    def _denied(
        self, pod: Pod, profile: Profile, evaluation: Evaluation, policy: Policy, taken: Collection[PodIdentity]
    ) -> Denied:
        node = evaluation.nominated_node

        def fits(snapshot: Snapshot) -> bool:
            # Assumed pods cannot be evicted. So they may be all that keeps the pod from evicting others.
            again = profile.evaluate(pod, snapshot, preempt=node is None, verdicts=evaluation.extender_verdicts)
            return again.node is not None or again.nominated_node is not None

        counts, message, rejectors = evaluation.refusals, evaluation.message, evaluation.rejectors
        if policy.own_attempt:
            self._count_preemption(profile)
            own = node is not None or self._fits_without_assumed(fits, but=taken, counting=taken)
            return Denied(counts, message, rejectors, own_attempt=own)
        nominated = {pod.key: (node, nominations.as_victims(evaluation.victims))} if node else {}
        room = self.room((pod,), profile, evaluation.snapshot, nominated, fits, but=(pod.identity,))
        return Denied(counts, message + room.report, rejectors, room)

    def room(
        self,
        pods: Collection[Pod],
        profile: Profile,
        snapshot: Snapshot,
        nominated: Mapping[PodKey, Nomination],
        fits: Callable[[Snapshot], bool],
        *,
        but: Collection[PodIdentity] = (),
        gang: str = "",
    ) -> MadeRoom:
        """What preemption can do for the pods, which are decided together.

        Args:
            pods: Those that fit nowhere.
            profile: That decided.
            snapshot: That was decided on.
            nominated: Where PostFilter would make room, and by whose eviction.
            fits: Whether the pods fit on another snapshot.
            but: Assumed pods that are in no pod's way.
            gang: That the pods are; empty for a lone pod.
        """
        metrics = self.core.process.metrics
        self._count_preemption(profile)
        now = self.core.process.utc_now()
        leaving = {pod.key: nominations.leaving(pod, snapshot, now) for pod in pods}
        for key, each in leaving.items():
            if each.overdue:
                metrics.evictions_overdue.inc()
                victims = list(map(str, each.overdue))
                log.warning("evictions_overdue preemptor=%s gang=%s victims=%s", key, gang, victims)
        waits = any(each.present for each in leaving.values())
        report = "".join(sorted({each.report for each in leaving.values()}))
        if gang and waits:  # PostFilter sees to it for each pod; a gang evicts no pod while any of its members waits
            nominated = {}
        if gang and sum(len(victims) for _, victims in nominated.values()) > MOST_VICTIMS:
            nominated, report = {}, report + TOO_MANY_VICTIMS
        # Only pods that etcd holds as bound can be evicted: the next attempt sees the others bound, or gone.
        only_assumed = self._fits_without_assumed(fits, but=but) or self._any_assumed(nominated)
        if only_assumed:
            nominated = {}
        evicted = sum(len(victims) for _, victims in nominated.values())
        if evicted:
            metrics.preemption_victims.observe(evicted)
        seconds = max((each.seconds for each in leaving.values()), default=0.0)
        return MadeRoom(nominated, only_assumed, seconds, waits, report, now.isoformat() if waits else "")

    def _count_preemption(self, profile: Profile) -> None:
        """PostFilter was asked, if the profile has any."""
        if profile.at.get("postFilter"):
            self.core.process.metrics.preemption_attempts.inc()

    def _fits_without_assumed(
        self,
        fits: Callable[[Snapshot], bool],
        *,
        but: Collection[PodIdentity],
        counting: Collection[PodIdentity] = (),
    ) -> bool:
        """Whether only pods that this worker assumes are in the way: then no event may ever come.

        `but`: assumed pods that do not count as such; `counting`: assumed pods that are counted nevertheless.
        """
        cache = self.core.pool.cache
        if all(one.identity in but for one in cache.assumed()):
            return False
        return fits(cache.snapshot(without_assumed=True, counting=counting))

    def _any_assumed(self, nominated: Mapping[PodKey, Nomination]) -> bool:
        if not nominated:
            return False
        assumed = {one.identity for one in self.core.pool.cache.assumed()}
        return any(
            nominations.victim_identity(victim) in assumed for _, victims in nominated.values() for victim in victims
        )

    # --- what it was computed from ------------------------------------------------------------

    def computation(
        self, profile: Profile, snapshot: Snapshot, overlay: Overlay, *, start: int = 0, preferring: bool = False
    ) -> Computation:
        """What is needed to compute the same decision again. `preferring`: whether preferred nodes had a say."""
        cache = self.core.pool.cache
        assumed, approximate = overlay.assumed(cache.assumed())
        nominated, too_many = overlay.nominated(snapshot.nominated)
        begun, ended = cache.overlay_changes.take(overlay.for_changes())
        lost = cache.overlay_changes.take_lost(overlay.for_changes())
        self._number += 1
        cache.overlay_changes.number = self._number
        return Computation(
            revision=snapshot.revision,
            profile=profile.digest,
            profile_name=profile.name,
            assumed=assumed,
            nominated=nominated,
            start=start,
            own_nodes=overlay.own_nodes(self._preferred_nodes) if preferring else None,
            approximate=approximate or too_many,
            overlay=cache.overlay_digest(overlay.but) if approximate else "",
            begun=begun,
            ended=ended,
            lost=lost,
            nodes=len(snapshot),
            worker=self.core.identity.name,
            incarnation=self.core.identity.incarnation,
            number=self._number,
            fleet_revision=self.core.tally.fleet_revision,
        )
