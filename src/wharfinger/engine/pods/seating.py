"""A seat of a cohort on its way into a transaction: found, verified and prepared; shared by cohorts and gangs."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from wharfinger.contracts.cohort_scheduling import BindManyInput, Seat
from wharfinger.contracts.computation import Computation
from wharfinger.engine.pods import across_nodes, points
from wharfinger.engine.pods.across_nodes import AcrossNodes
from wharfinger.engine.pods.commit import Commit, prepare
from wharfinger.engine.pods.core import Core
from wharfinger.engine.pods.eligibility import PodReference, StoredPod
from wharfinger.engine.transactions import Shape
from wharfinger.framework.cycle_state import CycleState
from wharfinger.framework.profile import Profile
from wharfinger.framework.snapshot import Snapshot
from wharfinger.framework.status import Status
from wharfinger.manifests.times import rfc3339
from wharfinger.model.node import Node
from wharfinger.model.pod import Pod, PodIdentity, PodKey
from wharfinger.registry import keys

BESIDE = 512
"""Bytes that a bind adds to a pod, about: node, attempt and condition; and the versions that it rewrites."""


@dataclass(slots=True)
class Seated:
    """A seat whose pod is still to be bound."""

    number: int
    """Of the seat."""
    seat: Seat
    found: StoredPod
    profile: Profile
    state: CycleState
    rules: AcrossNodes
    computation: Computation
    tenant: str
    """That the pod's label names; empty when it has none."""

    @property
    def identity(self) -> PodIdentity:
        """The very pod."""
        return self.found.pod.identity

    def tell_bound(self) -> None:
        """PostBind."""
        points.tell_bound(self.profile, self.state, self.found.pod, self.seat.node)

    @property
    def shape(self) -> Shape:
        """What it adds to a transaction; of the keys that `commit.prepare` compares and `commit.together` writes."""
        pod, node_name = self.found.pod, self.seat.node
        pod_key, binding = keys.pod(pod.namespace, pod.name), keys.binding(node_name)
        compares = [pod_key, keys.node(node_name), binding, *across_nodes.compared(pod, self.rules)]
        if self.tenant:
            compares.append(keys.tenant(self.tenant))
        writes = [pod_key, binding, *across_nodes.rewritten(pod, self.rules)]
        if self.seat.recorded:
            writes.append(keys.attempt(pod.namespace, pod.name))
        return Shape(tuple(compares), tuple(writes), len(self.found.raw) + BESIDE)


class Seating:
    """Finds, verifies and prepares the seats of one worker's cohorts."""

    def __init__(self, core: Core) -> None:
        self._cache = core.cache
        self._profiles = core.profiles
        self._eligibility = core.eligibility
        self._verification = core.verification
        self._utc_now = core.utc_now

    def find(self, request: BindManyInput, number: int) -> Seated | None:
        """The seat with its pod as the watch showed it; None when etcd has to be asked about it."""
        found = self._eligibility.from_cache(reference(request.seats[number]))
        if found is None or self._cache.is_sent(found.pod.identity):
            return None
        return self.with_pod(request, number, found)

    def with_pod(self, request: BindManyInput, number: int, found: StoredPod) -> Seated | None:
        """The seat with its pod; None where this worker has no profile for it."""
        seat, pod = request.seats[number], found.pod
        profile = self._profiles.get(pod.scheduler_name)
        if profile is None:
            return None
        rules = across_nodes.rules_of(pod, profile, self._cache.surroundings)
        tenant = self._eligibility.named_tenant(pod)
        computation = request.computations[seat.stretch]
        return Seated(number, seat, found, profile, CycleState(seat.plugin_data), rules, computation, tenant)

    def refusal(self, seated: Seated, together: Collection[PodIdentity] = ()) -> str:
        """Why the pod must not be bound there; empty when it may: then it counts there. Raises `PluginError`."""
        pod, node_name = seated.found.pod, seated.seat.node
        lost = self._verification.refusal(pod, node_name, seated.computation, seated.rules, together)
        if not lost:
            self._cache.assume_there(pod, node_name)  # those that are verified next see it
        return lost

    def refusal_after(self, seated: Seated, surely: Snapshot) -> str:
        """Why the pod must not be bound after what is sure; empty when it may. Raises `PluginError`."""
        pod, node_name = seated.found.pod, seated.seat.node
        return self._verification.refusal_after(pod, node_name, seated.computation, surely)

    def leans(self, seated: Seated) -> bool:
        """Whether the pod may be bound there if all pods are bound that this worker assumes. Raises `PluginError`."""
        pod, node_name = seated.found.pod, seated.seat.node
        everybody = frozenset(one.identity for one in self._cache.assumed())
        lost = self._verification.refusal(pod, node_name, seated.computation, seated.rules, everybody)
        return not lost

    def ask_plugins(self, seated: Seated) -> Status:
        """PreBind and Bind: the first refusal, or success. Raises `PluginError`."""
        return points.ask_to_bind(seated.profile, seated.state, seated.found.pod, seated.seat.node)

    @property
    def now(self) -> str:
        """RFC 3339, UTC; commits of one moment share it."""
        return rfc3339(self._utc_now())

    def commit(self, request: BindManyInput, seated: Seated, node: Node, now: str) -> Commit:
        """The commit as of now."""
        return prepare(
            seated.found,
            node,
            seated.rules,
            self._cache,
            tenancy=self._eligibility.tenancy(seated.found.pod),
            attempt=f"{request.workflow_id}@{request.run_id}",
            now=now,
            recorded=seated.seat.recorded,
        )

    def give_up(self, seated: Seated) -> None:
        """No transaction of it is out, and its seat is free again."""
        self._cache.forget(seated.identity)
        points.tell_given_up(seated.profile, seated.state, seated.found.pod, seated.seat.node)

    def tell_gone(self, request: BindManyInput, number: int) -> None:
        """Unreserve for a pod that is gone: the plugins get as much of it as is known."""
        seat = request.seats[number]
        profile = self._profiles.get(request.computations[seat.stretch].profile_name)
        pod = self._cache.pods.get(reference(seat).key)
        if pod is None or pod.identity != identity(seat):
            pod = Pod(seat.namespace, seat.name, seat.uid, create_revision=seat.create_revision)
        if profile is not None:
            points.tell_given_up(profile, CycleState(seat.plugin_data), pod, seat.node)


def reference(seat: Seat) -> PodReference:
    """Whose seat it is."""
    return PodReference(PodKey(seat.namespace, seat.name), seat.uid, seat.create_revision)


def identity(seat: Seat) -> PodIdentity:
    """The very pod that was placed."""
    return PodIdentity(seat.namespace, seat.name, seat.create_revision)
