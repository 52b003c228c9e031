"""One node with the pods counted on it: the row behind the columns, and what a one-node plugin sees.

Values: a change makes a new one. Adding a pod adds its numbers; taking one away sums the rest anew, so that the
totals always are those of the pods that are there.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from wharfinger.objects.model.node import PODS, Node
from wharfinger.objects.model.pod import HostPort, Pod, PodIdentity, Request

NO_PORTS: frozenset[HostPort] = frozenset()
_stamps = itertools.count(1)


@dataclass(frozen=True, slots=True)
class NodeInfo:
    """A node, its pods, and their sums (units as in the pod: milli-cpu, bytes, pieces)."""

    node: Node
    pods: Mapping[PodIdentity, Pod] = field(default_factory=dict)
    requested: Mapping[str, int] = field(default_factory=dict)
    """Sum of the pods' real requests, by resource; `pods` is their number."""
    scoring_cpu: int = 0
    """Milli-cpu; containers that ask for none count 100."""
    scoring_memory: int = 0
    """Bytes; containers that ask for none count 200 MiB."""
    host_ports: frozenset[HostPort] = NO_PORTS
    pods_with_terms: tuple[Pod, ...] = field(default=(), compare=False)
    """Those of the pods that have affinity or anti-affinity terms of any kind about other pods."""
    pods_with_volumes: tuple[Pod, ...] = field(default=(), compare=False)
    """Those of the pods that use claims, or disks that they name themselves."""
    stamp: int = field(default_factory=_stamps.__next__, compare=False)
    """Another number for every other state, within one process: what was derived from an equal stamp still holds."""

    @classmethod
    def of(cls, node: Node, pods: Iterable[Pod] = ()) -> NodeInfo:
        """The node with exactly these pods."""
        requested: dict[str, int] = {}
        cpu = memory = 0
        ports: set[HostPort] = set()
        held = {pod.identity: pod for pod in pods}
        for pod in held.values():
            use = _use(pod)
            for resource, amount in use.requests.items():
                requested[resource] = requested.get(resource, 0) + amount
            cpu += use.scoring_cpu
            memory += use.scoring_memory
            ports.update(pod.host_ports)
        if held:
            requested[PODS] = len(held)
        with_terms = tuple(pod for pod in held.values() if _has_terms(pod))
        with_volumes = tuple(pod for pod in held.values() if pod.claims or pod.in_line_volumes)
        taken = frozenset(ports) if ports else NO_PORTS
        return cls(node, held, requested, cpu, memory, taken, with_terms, with_volumes)

    def with_pod(self, pod: Pod) -> NodeInfo:
        """With this pod too; in the place of the same pod's older state, if that is here."""
        identity = pod.identity
        older = self.pods.get(identity)
        if older is not None:
            pods = {**self.pods, identity: pod}
            if not _same_use(older, pod):
                return NodeInfo.of(self.node, pods.values())
            with_terms, with_volumes = self.pods_with_terms, self.pods_with_volumes
            if _has_terms(older) or _has_terms(pod):
                with_terms = tuple(each for each in pods.values() if _has_terms(each))
            if pod.claims or pod.in_line_volumes:
                with_volumes = tuple(pod if each is older else each for each in with_volumes)
            return NodeInfo(
                self.node,
                pods,
                self.requested,
                self.scoring_cpu,
                self.scoring_memory,
                self.host_ports,
                with_terms,
                with_volumes,
            )
        requested, use = dict(self.requested), _use(pod)
        for resource, amount in use.requests.items():
            requested[resource] = requested.get(resource, 0) + amount
        requested[PODS] = len(self.pods) + 1
        return NodeInfo(
            self.node,
            {**self.pods, identity: pod},
            requested,
            self.scoring_cpu + use.scoring_cpu,
            self.scoring_memory + use.scoring_memory,
            self.host_ports.union(pod.host_ports) if pod.host_ports else self.host_ports,
            (*self.pods_with_terms, pod) if _has_terms(pod) else self.pods_with_terms,
            (*self.pods_with_volumes, pod) if pod.claims or pod.in_line_volumes else self.pods_with_volumes,
        )

    def without_pods(self, identities: Iterable[PodIdentity]) -> NodeInfo:
        """Without these pods; those that are not here are ignored."""
        gone = frozenset(identities)
        if gone.isdisjoint(self.pods):
            return self
        return NodeInfo.of(self.node, (pod for identity, pod in self.pods.items() if identity not in gone))

    def with_node(self, node: Node) -> NodeInfo:
        """The same pods on a newer state of the node; a heart-beat means nothing to decisions and keeps the stamp."""
        return replace(self, node=node, stamp=self.stamp if node == self.node else next(_stamps))

    def allocatable(self, resource: str) -> int:
        """What the node offers of a resource, 0 when it does not name it."""
        return self.node.allocatable.get(resource, 0)

    def free(self, resource: str) -> int:
        """Allocatable less requested; negative when other writers put too much here."""
        return self.allocatable(resource) - self.requested.get(resource, 0)


def _has_terms(pod: Pod) -> bool:
    return bool(
        pod.required_affinity or pod.required_anti_affinity or pod.preferred_affinity or pod.preferred_anti_affinity
    )


def _use(pod: Pod) -> Pod | Request:
    """What the pod counts on a node, also on one that it is not bound to yet."""
    return pod if pod.once_moved is None or pod.bound else pod.once_moved


def _same_use(one: Pod, other: Pod) -> bool:
    before, after = _use(one), _use(other)
    return (
        before.requests == after.requests
        and before.scoring_cpu == after.scoring_cpu
        and before.scoring_memory == after.scoring_memory
        and one.host_ports == other.host_ports
        and one.claims == other.claims
        and one.in_line_volumes == other.in_line_volumes
    )
