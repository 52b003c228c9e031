"""One bind on its way: the seats that are left, and how far each is; of a lone pod, a cohort or a gang."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from wharfinger.contracts.cohort_scheduling import BindManyInput, Seat
from wharfinger.contracts.computation import Computation
from wharfinger.contracts.plugin_calls import CallsMade, PluginStep
from wharfinger.engine.pods import across_nodes, points
from wharfinger.engine.pods.across_nodes import AcrossNodes
from wharfinger.engine.pods.bind_outcomes import Outcomes
from wharfinger.engine.pods.eligibility import PodReference, StoredPod
from wharfinger.engine.pods.volumes import NO_VOLUMES, VolumeWrites
from wharfinger.engine.transactions import Limits, Shape
from wharfinger.framework.cycle_state import CycleState
from wharfinger.framework.profile import Profile
from wharfinger.model.node import Node
from wharfinger.model.pod import PodIdentity, PodKey
from wharfinger.model.promises import Promise
from wharfinger.registry import keys
from wharfinger.registry.store import KeyValue

BESIDE = 512
"""Bytes that a bind adds to a pod, about: node, attempt and condition; the versions that it rewrites; its promise."""


@dataclass(slots=True, eq=False)
class Seated:
    """A seat whose pod is still to be bound, and what happened to it so far."""

    number: int
    """Of the seat."""
    seat: Seat
    """As decided."""
    candidates: tuple[str, ...]
    """The node that is tried now, then the runners-up that were not tried yet."""
    found: StoredPod
    profile: Profile
    state: CycleState
    """What the placement's plugins carried for their binding points."""
    rules: AcrossNodes
    """Of the pod as it is now."""
    computation: Computation
    tenant: str
    """That the pod's label names; empty when it has none."""
    volumes: VolumeWrites = NO_VOLUMES
    """What the bind compares and writes for the pod's volumes, as of its last verification."""
    stored: Mapping[str, KeyValue] = field(default_factory=dict)
    """Volumes and claims that the bind would write, by key, as they were read last."""
    steps: tuple[PluginStep, ...] = ()
    """Calls of asynchronous plugins that are due before the pod is bound, as of its last verification."""
    held: bool = False
    """Whether a room may be held for the pod, by an earlier transaction of this chain."""
    hold: int = 0
    """Mod revision of the record by which this attempt holds it, where etcd itself is the store; 0 = it holds none."""
    given_up: bool = False
    """Whether it is not bound, and Unreserve follows once that record is gone."""
    promised: bool = False
    """Whether a Kubernetes API is the store: then the transaction has a promise, too."""
    alone: bool = False
    """Whether it goes into transactions of its own."""
    tries: int = 0
    """Transactions for the node that failed. Those of many in order count where its own pod, node or binding moved."""
    leaned: bool = False
    """Whether it was put off, because it relies on pods that are not bound yet."""
    notes: list[str] = field(default_factory=list)

    @property
    def identity(self) -> PodIdentity:
        """The very pod."""
        return self.found.pod.identity

    @property
    def reference(self) -> PodReference:
        """Whose seat it is."""
        return reference(self.seat)

    @property
    def node(self) -> str:
        """The node that is tried now."""
        return self.candidates[0]

    @property
    def shape(self) -> Shape:
        """What it adds to a transaction; of the keys that `commit.prepare` compares and `commit.together` writes."""
        pod = self.found.pod
        pod_key, binding = keys.pod(pod.namespace, pod.name), keys.binding(self.node)
        compares = [pod_key, keys.node(self.node), binding, *across_nodes.compared(pod, self.rules)]
        if self.tenant:
            compares.append(keys.tenant(self.tenant))
        writes = [pod_key, binding, *across_nodes.rewritten(pod, self.rules)]
        if not self.found.format.marks_pods:  # when a compare fails, it is read with what was compared
            record = keys.bound_by(pod.namespace, pod.name)
            compares.append(record)
            writes.append(record)
        if self.promised:
            compares.append(keys.ACTIVE)
            writes.append(keys.promise(pod.namespace, pod.name))
        for claim in pod.claims:  # at most one volume of each is chosen
            taken = [keys.claim(pod.namespace, claim.name), f"{keys.claim(pod.namespace, claim.name)}:volume"]
            compares += taken
            writes += taken
        if self.seat.recorded:
            writes.append(keys.attempt(pod.namespace, pod.name))
        if self.held:
            writes.append(keys.hold(pod.namespace, pod.name))
        return Shape(tuple(compares), tuple(writes), len(self.found.raw) + BESIDE)

    def note(self, text: str) -> None:
        """Keep for the explanation, once."""
        if text not in self.notes:
            self.notes.append(text)

    def give_up_node(self, why: str) -> None:
        """Go on with the next runner-up."""
        self.note(f"{self.node}: {why}")
        self.candidates = self.candidates[1:]
        self.tries = 0
        self.leaned = False

    def tell_bound(self) -> None:
        """PostBind."""
        points.tell_bound(self.profile, self.state, self.found.pod, self.node)


@dataclass(slots=True)
class Work:
    """One bind on its way."""

    request: BindManyInput
    outcomes: Outcomes
    limits: Limits
    began: float
    patience: float = math.inf
    """Seconds after which seats that others were in the way of are placed anew."""
    left: list[Seated] = field(default_factory=list)
    """Seats that are still to be bound, in the order decided."""
    lost: list[Seated] = field(default_factory=list)
    """Seats for which no node was left."""
    adopted: dict[str, Node] = field(default_factory=dict)
    """Nodes at newer revisions that mean the same (heart-beats), by name."""
    may_wait: bool = True
    """Whether there is time for pods that a seat relies on to be bound first."""
    revision: int = 0
    """Of the newest of its transactions that succeeded."""
    promised: dict[int, Promise] = field(default_factory=dict)
    """Promises that this bind has put, by the number of the seat."""
    error: Exception | None = None
    """The first failure: no further transaction is sent."""
    lone: bool = False
    """Whether it is a lone pod: only for such ones asynchronous plugins are called."""
    held: list[Seated] = field(default_factory=list)
    """Seats whose room this attempt holds by a record."""
    calls: CallsMade | None = None
    """What asynchronous plugins have answered for the lone pod; None = none was called yet."""

    @property
    def by_default(self) -> bool:
        """Whether a Bind plugin has the pod bound by it: PostBind follows once that plugin has answered."""
        return self.calls is not None and self.calls.by_default


def reference(seat: Seat) -> PodReference:
    """Whose seat it is."""
    return PodReference(PodKey(seat.namespace, seat.name), seat.uid, seat.create_revision)


def identity(seat: Seat) -> PodIdentity:
    """The very pod that was placed."""
    return PodIdentity(seat.namespace, seat.name, seat.create_revision)
