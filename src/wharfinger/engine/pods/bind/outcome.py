r"""The pods that one bind is about, how it treats them, and what became of them: as it travels, for one pod or many.

=========  =========================  ====================  =====================  ==========================
\          transactions               another node          patience               asynchronous plugins
=========  =========================  ====================  =====================  ==========================
lone pod   its own                    its runners-up        until the time-out     called: its room is held
group      many pods in each          each its runners-up   `PATIENCE`             the pod is placed anew, alone
gang       all pods in one, or none   none                  until the time-out     as in a group
=========  =========================  ====================  =====================  ==========================
"""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from wharfinger.contracts.cohort_scheduling import BindManyInput, BoundMany, BoundPod, Seat, Unbound
from wharfinger.contracts.computation import Computation
from wharfinger.contracts.plugin_calls import NO_CALLS, CallPoint, CallsMade, Held, PluginStep
from wharfinger.contracts.scheduling import BindOutcome, Bound, Gone, Rejected
from wharfinger.engine.pods import payload
from wharfinger.engine.pods.cohort_payload import OUTCOMES, SHORT
from wharfinger.engine.pods.eligibility import PodReference
from wharfinger.engine.pods.payload import Room, size
from wharfinger.errors import PluginError
from wharfinger.framework.cycle_state import CycleState
from wharfinger.framework.profile import Profile
from wharfinger.framework.status import Code, Status
from wharfinger.model.pod import Pod, PodIdentity, PodKey
from wharfinger.model.texts import shortened

log = logging.getLogger(__name__)

PATIENCE = 4.0
"""Seconds after which no seat of a group is sent any more: it is placed anew, knowing more. Where a cluster is nearly
full that may be most of a group, each with its runners-up, and the activity has 8 s."""
PREPARING = 300
"""Characters of what a pod waits for."""
BINDER = "DefaultBinder"
"""Whose refusal it is when a pod cannot be written as it would be bound."""
LOST = "the attempt does not hold the pod's room any more"


@dataclass(frozen=True, slots=True)
class BindPolicy:
    """How one bind differs from others."""

    whole: bool = False
    """All pods in one transaction, or none."""
    runners_up: bool = True
    """Whether a pod may go to another node that was nearly as good."""
    patience: float = math.inf
    """Seconds after which seats that others were in the way of are placed anew."""
    holds: bool = False
    """Whether it is a lone pod: only for such ones asynchronous plugins are called, while its room is held."""


LONE = BindPolicy(holds=True)
GROUP = BindPolicy(patience=PATIENCE)
GANG = BindPolicy(whole=True, runners_up=False)


@dataclass(frozen=True, slots=True)
class BindGroup:
    """The pods of one bind: of a lone pod, a group or a gang."""

    request: BindManyInput
    policy: BindPolicy
    began: float
    """By the clock of the process."""
    calls: CallsMade | None = None
    """What asynchronous plugins have answered for the lone pod; None = none was called yet."""

    @property
    def attempt(self) -> str:
        """`<workflow id>@<run id>`."""
        return f"{self.request.workflow_id}@{self.request.run_id}"

    @property
    def chain(self) -> str:
        """What the attempts of all its runs begin with."""
        return f"{self.request.workflow_id}@"

    @property
    def gang(self) -> str:
        """`<namespace>/<name>` of a gang: the last two parts of its workflow id."""
        return "/".join(self.request.workflow_id.split("/")[-2:])

    @property
    def binder(self) -> str:
        """The asynchronous Bind plugin that reported that it has bound the pod: only etcd can tell. Empty = none."""
        return self.calls.bound_by if self.calls is not None else ""

    @property
    def by_default(self) -> bool:
        """Whether a Bind plugin has the pod bound by this bind: PostBind follows once that plugin has answered."""
        return self.calls is not None and self.calls.by_default

    def seat(self, number: int) -> Seat:
        """As decided."""
        return self.request.seats[number]

    def key(self, number: int) -> PodKey:
        """Of that seat's pod."""
        seat = self.request.seats[number]
        return PodKey(seat.namespace, seat.name)

    def pod(self, number: int) -> Pod:
        """As much of a seat's pod as events, evictions and Unreserve need where there is no such pod any more."""
        seat = self.request.seats[number]
        scheduler = self.computation(number).profile_name
        return Pod(seat.namespace, seat.name, seat.uid, create_revision=seat.create_revision, scheduler_name=scheduler)

    def computation(self, number: int) -> Computation:
        """How that seat was decided."""
        return self.request.computations[self.request.seats[number].stretch]

    def state(self, number: int) -> CycleState:
        """What plugins carry to the binding side of that seat."""
        return CycleState((self.calls or NO_CALLS).data(self.request.seats[number].plugin_data))


def reference(seat: Seat) -> PodReference:
    """Whose seat it is."""
    return PodReference(PodKey(seat.namespace, seat.name), seat.uid, seat.create_revision)


def identity(seat: Seat) -> PodIdentity:
    """The very pod that was placed."""
    return PodIdentity(seat.namespace, seat.name, seat.create_revision)


# --- plugins around the commit --------------------------------------------------------------------


def ask_to_bind(
    profile: Profile, state: CycleState, pod: Pod, node_name: str, calls: CallsMade = NO_CALLS
) -> tuple[PluginStep, ...] | Status:
    """PreBind and Bind: the first refusal, or the calls of asynchronous plugins that are due before the pod is bound.

    `calls`: what those have answered so far. Raises `PluginError`, also for what is neither success nor refusal.
    """
    status = profile.pre_bind(state, pod, node_name)
    return steps_due(profile, state, pod, node_name, calls) if status.ok else _refusal(status, "PreBind")


def steps_due(
    profile: Profile, state: CycleState, pod: Pod, node_name: str, calls: CallsMade
) -> tuple[PluginStep, ...] | Status:
    """The same without PreBind of plugins that are not asynchronous."""
    due = [_step(profile, "PreBind", name) for name in profile.called.pre_binds(pod) if not calls.has("PreBind", name)]
    if calls.by_default:
        return ()
    status = profile.bind(state, pod, node_name, after=calls.skipped_binder)
    if status.code is Code.WAIT and profile.called.is_one(status.plugin, "bind"):
        return (*due, _step(profile, "Bind", status.plugin))
    return tuple(due) if status.ok else _refusal(status, "Bind")


def tell_bound(profile: Profile, state: CycleState, pod: Pod, node_name: str) -> None:
    """PostBind: the pod is bound whatever a plugin makes of it."""
    try:
        profile.post_bind(state, pod, node_name)
    except PluginError as error:
        log.warning("plugin_failed error=%r", str(error))


def _refusal(status: Status, point: str) -> Status:
    if status.rejected:
        return status
    raise PluginError(status.plugin, point, status.message or f"answered {status.code.name}")


def _step(profile: Profile, point: CallPoint, name: str) -> PluginStep:
    limits = profile.called.limits(name)
    return PluginStep(
        point=point,
        plugin=name,
        timeout=limits.timeout,
        deadline=limits.deadline,
        attempts=limits.attempts,
        heartbeat=limits.heartbeat,
    )


# --- what became of them --------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Failed:
    """A plugin raised. For a group that is a refusal of this pod; a lone pod's activity fails with it."""

    error: PluginError


Outcome = BindOutcome | Failed


def rejected(plugin: str, message: str) -> Rejected:
    """The pod can never be committed as it was placed."""
    return Rejected(plugin=plugin, message=payload.message(message))


def preparing(bound: Bound, waits_for: str) -> Bound:
    """The pod is bound in etcd, and waits for its volumes before the Kubernetes API is told."""
    return bound.model_copy(update={"preparing": shortened(waits_for, PREPARING)})


def why_unbound(outcome: Outcome) -> str:
    """For people; empty for one that is bound, or held."""
    match outcome:
        case Bound() | Held():
            return ""
        case Gone():
            return outcome.line
        case Failed():
            return payload.message(str(outcome.error))
    return outcome.message


@dataclass(frozen=True, slots=True)
class Outcomes:
    """Of one bind, by the number of the seat."""

    of: Mapping[int, Outcome] = field(default_factory=dict)
    transactions: int = 0
    """Sent so far."""

    def __or__(self, more: Mapping[int, Outcome]) -> Outcomes:
        """With these, which take the place of earlier ones."""
        return replace(self, of={**self.of, **more}) if more else self

    @property
    def bound(self) -> dict[int, Bound]:
        """Those that are bound, in the order of the seats."""
        return {number: one for number, one in sorted(self.of.items()) if isinstance(one, Bound)}

    @property
    def unbound(self) -> dict[int, Outcome]:
        """All others."""
        return {number: one for number, one in sorted(self.of.items()) if not isinstance(one, Bound)}

    @property
    def first_gone(self) -> int | None:
        """The number of the first pod that is gone."""
        return min((number for number, one in self.of.items() if isinstance(one, Gone)), default=None)

    def of_lone_pod(self) -> BindOutcome:
        """The only one. Raises the `PluginError` of a plugin that raised."""
        outcome = self.of[0]
        if isinstance(outcome, Failed):
            raise outcome.error
        tries = max(1, self.transactions)
        return outcome.model_copy(update={"tries": tries}) if isinstance(outcome, Bound) and tries > 1 else outcome

    def told(self, request: BindManyInput) -> BoundMany:
        """All of them, in the order of the seats, with as much of notes and messages as there is room for."""
        room = Room(OUTCOMES)
        bound: list[BoundPod] = []
        unbound: list[Unbound] = []
        for number, one in sorted(self.of.items()):
            seat = request.seats[number]
            who = {"namespace": seat.namespace, "name": seat.name}
            if isinstance(one, Bound):
                notes = tuple(_within(room, note) for note in one.notes if note)
                bound.append(BoundPod(**who, node=one.node, revision=one.revision, notes=notes))
            elif not isinstance(one, Held):  # a lone pod's alone
                known = rejected(one.error.plugin, str(one.error)) if isinstance(one, Failed) else one
                unbound.append(
                    Unbound(
                        **who,
                        uid=seat.uid,
                        create_revision=seat.create_revision,
                        kind=known.kind,
                        plugin=known.plugin if isinstance(known, Rejected) else "",
                        message=_within(room, why_unbound(known)),
                        reason=known.why if isinstance(known, Gone) else "",
                    )
                )
        return BoundMany(bound=tuple(bound), unbound=tuple(unbound), transactions=self.transactions)


def _within(room: Room, text: str) -> str:
    told = payload.message(text)
    return told if room.take(size(told)) else shortened(text, SHORT // 4)
