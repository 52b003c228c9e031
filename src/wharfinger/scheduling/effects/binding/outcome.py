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

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from wharfinger.errors import PluginError
from wharfinger.framework.cycle_state import CycleState
from wharfinger.framework.profile import Profile
from wharfinger.objects.model.gang import GANG_SCHEDULING
from wharfinger.objects.model.pod import Pod, PodIdentity, PodKey
from wharfinger.process.transactions import Limits, Shape, measure
from wharfinger.scheduling.contracts.cohort_scheduling import BindManyInput, Seat
from wharfinger.scheduling.contracts.computation import Computation
from wharfinger.scheduling.contracts.plugin_calls import CallsMade, Held, PluginStep
from wharfinger.scheduling.contracts.scheduling import BindOutcome, Bound, Contended, Gone, Rejected
from wharfinger.scheduling.effects.binding.across_nodes import AcrossNodes
from wharfinger.scheduling.effects.binding.eligibility import PodReference, StoredPod
from wharfinger.scheduling.effects.binding.volumes import NO_VOLUMES, VolumeWrites
from wharfinger.scheduling.effects.placing import payload

TOO_MANY = (
    "its {pods} pods need {compares} compares and {writes} writes in one transaction, and {most} of each are allowed: "
    "raise --max-txn-ops of etcd and of the workers, or make the group smaller"
)
TOO_MANY_BYTES = (
    "its {pods} pods come to {size:,} bytes ({compares} compares and {writes} writes) in one transaction, and {most:,} "
    "are allowed, whatever --max-txn-ops says: make the group or its pods smaller"
)
REFUSED = (
    "etcd takes no transaction of {compares} compares and {writes} writes, {size:,} bytes: its --max-txn-ops is not "
    "what the workers were told, or its limit of bytes is lower"
)
SENDERS = 3
"""Transactions of seats without rules across nodes that are out at a time."""
SINGLES = 4
"""Seats that go alone at a time; of those with rules it is one."""
PATIENCE = 4.0
"""Seconds after which no seat of a group is sent any more: it is placed anew, knowing more. Where a cluster is nearly
full that may be most of a group, each with its runners-up, and the activity has 8 s."""
BINDER = "DefaultBinder"
"""Whose refusal it is when a pod cannot be written as it would be bound."""
LOST = "the attempt does not hold the pod's room any more"


@dataclass(frozen=True, slots=True)
class SendingLane:
    """Seats that are sent under one holding of the locks."""

    at_once: int
    """Transactions that are out at a time."""
    in_order: bool = False
    """Whether the seats have rules across nodes: then each is verified after those before it."""
    alone: bool = False
    """Whether each has transactions of its own."""
    whole: bool = False
    """Whether all are in one transaction, or none."""

    def has(self, seat: PendingBind) -> bool:
        """Whether the seat goes here."""
        return self.whole or (seat.alone is self.alone and bool(seat.rules) is self.in_order)

    @property
    def bounded(self) -> bool:
        """Whether seats are left when the bind's patience is at an end.

        Those that share transactions without rules each go once, and then alone.
        """
        return self.in_order or self.alone

    def parts(self, several: Iterable[PendingBind]) -> list[tuple[PendingBind, ...]]:
        """What goes into a transaction together, or not at all if only it fits.

        Seats on one node stay together, or follow each other: of two transactions that are out at once, the second
        would compare a version that the first rewrites.
        """
        together: dict[object, list[PendingBind]] = {}
        for seat in several:
            part = 0 if self.whole else seat.number if self.in_order else seat.node
            together.setdefault(part, []).append(seat)
        return [tuple(part) for part in together.values()]


LANES = (
    SendingLane(SENDERS),
    SendingLane(1, in_order=True),
    SendingLane(SINGLES, alone=True),
    SendingLane(1, in_order=True, alone=True),
)
"""In this order: binds of seats with rules compare what the others rewrite."""


@dataclass(frozen=True, slots=True)
class BindPolicy:
    """How one bind differs from others."""

    lanes: tuple[SendingLane, ...] = LANES
    runners_up: bool = True
    """Whether a pod may go to another node that was nearly as good."""
    patience: float = math.inf
    """Seconds after which seats that others were in the way of are placed anew."""
    holds: bool = False
    """Whether it is a lone pod: only for such ones asynchronous plugins are called, while its room is held."""

    @property
    def whole(self) -> bool:
        """Whether all pods are bound in one transaction, or none."""
        return self.lanes[0].whole


LONE = BindPolicy(holds=True)
GROUP = BindPolicy(patience=PATIENCE)
GANG = BindPolicy((SendingLane(1, whole=True),), runners_up=False)


@dataclass(frozen=True, slots=True)
class BindGroup:
    """The pods of one bind: of a lone pod, a group or a gang."""

    request: BindManyInput
    policy: BindPolicy
    began: float
    """By the clock of the process."""
    calls: CallsMade | None = None
    """What asynchronous plugins have answered for the lone pod; None = none was called yet."""
    states: dict[int, CycleState] = field(default_factory=dict)
    """What the placements' plugins carry to their binding points, by number."""

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
        if number not in self.states:
            placed = self.seat(number).plugin_data
            self.states[number] = CycleState(placed if self.calls is None else self.calls.data(placed))
        return self.states[number]


class Stamp(NamedTuple):
    """Which attempt binds, and when."""

    attempt: str
    """`<workflow id>@<run id>`, written to the pod and to the versions."""
    time: str
    """RFC 3339, UTC."""


def reference(seat: Seat) -> PodReference:
    """Whose seat it is."""
    return PodReference(PodKey(seat.namespace, seat.name), seat.uid, seat.create_revision)


def identity(seat: Seat) -> PodIdentity:
    """The very pod that was placed."""
    return PodIdentity(seat.namespace, seat.name, seat.create_revision)


# --- its seats ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class PendingBind:
    """A seat whose pod is still to be bound, and what happened to it so far."""

    group: BindGroup
    number: int
    """Of the seat in it."""
    candidates: tuple[str, ...]
    """The node that is tried now, then the runners-up that were not tried yet."""
    found: StoredPod
    profile: Profile
    rules: AcrossNodes
    """Of the pod as it is now."""
    held: bool
    """Whether a room may be held for the pod, by an earlier transaction of this chain."""
    alone: bool
    """Whether it goes into transactions of its own."""
    hold: int = 0
    """Mod revision of the record by which this attempt holds it, where etcd itself is the store; 0 = it holds none."""
    volumes: VolumeWrites = NO_VOLUMES
    """What the bind compares and writes for the pod's volumes, as of its last verification."""
    steps: tuple[PluginStep, ...] = ()
    """Calls of asynchronous plugins that are due before the pod is bound, as of its last verification."""
    tries: int = 0
    """Transactions for the node that failed. Those of many in order count where its own pod, node or binding moved."""
    leaned: bool = False
    """Whether it was put off, because it relies on pods that are not bound yet."""
    notes: tuple[str, ...] = ()
    """For the explanation."""

    @property
    def seat(self) -> Seat:
        """As decided."""
        return self.group.request.seats[self.number]

    @property
    def computation(self) -> Computation:
        """How it was decided."""
        return self.group.computation(self.number)

    @property
    def identity(self) -> PodIdentity:
        """The very pod."""
        return self.found.pod.identity

    @property
    def node(self) -> str:
        """The node that is tried now."""
        return self.candidates[0]

    def noted(self, *texts: str) -> PendingBind:
        """With these for the explanation, each once."""
        new = tuple(text for text in texts if text not in self.notes)
        return replace(self, notes=(*self.notes, *new)) if new else self

    def next_node(self, why: str) -> PendingBind:
        """On its next runner-up; without candidates where there is none."""
        seat = self.noted(f"{self.node}: {why}")
        return replace(seat, candidates=self.candidates[1:], tries=0, leaned=False)


class NoRoom(NamedTuple):
    """The pod must not be bound to its node now."""

    why: str
    leans: bool = False  # whether it may be once pods are bound that it relies on


# --- what became of them --------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Failed:
    """A plugin raised. For a group that is a refusal of this pod; a lone pod's activity fails with it."""

    error: PluginError


Outcome = BindOutcome | Failed


def of_gang(why: str) -> Contended:
    """A gang that is not bound now."""
    return Contended(message=f"the gang was not bound: {why}")


def too_much(shapes: Sequence[Shape], limits: Limits) -> Rejected | None:
    """The outcome of a gang whose transaction etcd never takes; None when it may."""
    needs = _needs(shapes)
    if max(needs["compares"], needs["writes"]) > limits.operations:
        return rejected(GANG_SCHEDULING, TOO_MANY.format(most=limits.operations, **needs))
    if needs["size"] > limits.size:
        return rejected(GANG_SCHEDULING, TOO_MANY_BYTES.format(most=limits.size, **needs))
    return None


def not_taken(shapes: Sequence[Shape]) -> Rejected:
    """The outcome of a gang whose transaction etcd did not take, though the limits allow it."""
    return rejected(GANG_SCHEDULING, REFUSED.format(**_needs(shapes)))


def _needs(shapes: Sequence[Shape]) -> dict[str, int]:
    load = measure(shapes)
    return {"pods": len(shapes), "compares": len(load.compares), "writes": len(load.writes), "size": load.size}


def of_all(seat: PendingBind, verdict: NoRoom | Outcome) -> Outcome:
    """What a member's verdict means for its gang."""
    key = seat.found.pod.key
    match verdict:
        case NoRoom():
            return of_gang(f"{key} on {seat.node}: {verdict.why}")
        case Contended():
            return of_gang(f"{key}: {verdict.message}")
        case Rejected():
            return rejected(verdict.plugin, f"{key}: {verdict.message}")
    return verdict


def rejected(plugin: str, message: str) -> Rejected:
    """The pod can never be committed as it was placed."""
    return Rejected(plugin=plugin, message=payload.message(message))


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


class Done(NamedTuple):
    """A seat has its outcome."""

    number: int
    outcome: Outcome
