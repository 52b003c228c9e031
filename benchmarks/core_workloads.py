"""The clusters and pods of `core.py`: kube-scheduler's own performance workloads (1.36, scheduler_perf), three zones.

Templates: a node has 4 cpu, 32 GiB and room for 110 pods; a plain pod asks for 100m and 500 MiB.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from wharfinger.testing import node_manifest, pod_manifest

ZONE = "topology.kubernetes.io/zone"
HOSTNAME = "kubernetes.io/hostname"
ZONES = ("zone-1", "zone-2", "zone-3")

Manifest = dict[str, Any]
Template = Callable[[str], Manifest]
"""A pod of a given name."""


def node(number: int, name: str = "") -> Manifest:
    """One node of the template; without a name, it is called by its number."""
    return node_manifest(name or f"node-{number}", "4", "32Gi", labels={ZONE: ZONES[number % len(ZONES)]})


def pod(
    name: str,
    *,
    namespace: str = "sched-1",
    cpu: str = "100m",
    memory: str = "500Mi",
    labels: dict[str, str] | None = None,
    **spec: Any,
) -> Manifest:
    """A pod with one container."""
    uid = {"uid": f"uid-{namespace}-{name}"}
    return pod_manifest(name, cpu, memory, namespace=namespace, labels=labels, metadata=uid, **spec)


def with_node_affinity(name: str) -> Manifest:
    """Two of the three zones will do."""
    term = {"matchExpressions": [{"key": ZONE, "operator": "In", "values": list(ZONES[:2])}]}
    return pod(name, affinity={"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [term]}}})


def spread(name: str, when: str) -> Manifest:
    """Over the zones, at most 5 apart."""
    constraint = {
        "maxSkew": 5,
        "topologyKey": ZONE,
        "whenUnsatisfiable": when,
        "labelSelector": {"matchLabels": {"color": "blue"}},
    }
    return pod(name, labels={"color": "blue"}, topologySpreadConstraints=[constraint])


def inter_pod(name: str, kind: str, color: str, key: str, *, preferred: bool = False) -> Manifest:
    """One term about the pods of the same colour in both namespaces."""
    term = {
        "labelSelector": {"matchLabels": {"color": color}},
        "topologyKey": key,
        "namespaces": ["sched-0", "sched-1"],
    }
    terms = {PREFERRED: [{"weight": 1, "podAffinityTerm": term}]} if preferred else {REQUIRED: [term]}
    return pod(name, labels={"color": color}, affinity={kind: terms})


REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def anti_affinity(name: str) -> Manifest:
    """Never two of a colour on a node."""
    return inter_pod(name, "podAntiAffinity", "green", HOSTNAME)


def affinity(name: str) -> Manifest:
    """All of a colour in one zone."""
    return inter_pod(name, "podAffinity", "blue", ZONE)


def preferred_affinity(name: str) -> Manifest:
    """Rather where the colour is."""
    return inter_pod(name, "podAffinity", "red", HOSTNAME, preferred=True)


def preferred_anti_affinity(name: str) -> Manifest:
    """Rather where the colour is not."""
    return inter_pod(name, "podAntiAffinity", "yellow", HOSTNAME, preferred=True)


def labelled(name: str) -> Manifest:
    """A plain pod that a Service selects."""
    return pod(name, labels={"app": "shop"})


def low_priority(name: str) -> Manifest:
    """Four of them fill a node."""
    return pod(name, cpu="900m", terminationGracePeriodSeconds=0)


def high_priority(name: str) -> Manifest:
    """Fits only where others leave."""
    return pod(name, cpu="3000m", priority=10)


def too_large(name: str) -> Manifest:
    """More than any node has."""
    return pod(name, cpu="9", priority=10)


def gang_member(name: str) -> Manifest:
    """Ten by ten, in the order of their numbers, they are placed all or none."""
    group = {"name": f"gang-{int(name.rpartition('-')[2]) // 10}", "min-available": "10"}
    return pod(name, labels={f"pod-group.scheduling.sigs.k8s.io/{key}": value for key, value in group.items()})


SERVICE: Manifest = {
    "apiVersion": "v1",
    "kind": "Service",
    "metadata": {"name": "shop", "namespace": "sched-1"},
    "spec": {"selector": {"app": "shop"}},
}


@dataclass(frozen=True)
class Workload:
    """What is there before the measurement, and the pods that are measured."""

    name: str
    measured: Template
    before: tuple[tuple[Template, int], ...] = ()
    """Templates, and how many of each are bound first."""
    objects: tuple[Manifest, ...] = ()
    preempts: bool = False
    """Whether each pod needs others to leave first: then `before` is said for 5,000 nodes, and grows with them."""

    def first(self, nodes: int) -> Iterator[Manifest]:
        """The pods that are bound before the measurement."""
        for kind, (template, number) in enumerate(self.before):
            for count in range(number * nodes // 5000 if self.preempts else number):
                yield template(f"init-{kind}-{count}")

    def pods(self, number: int) -> list[Manifest]:
        """The pods that are measured."""
        return [self.measured(f"pod-{count}") for count in range(number)]


_MIXED = (pod, affinity, anti_affinity, preferred_affinity, preferred_anti_affinity)

WORKLOADS = {
    workload.name: workload
    for workload in (
        Workload("basic", pod, ((pod, 1000),)),
        Workload("node-affinity", with_node_affinity, ((pod, 5000),)),
        Workload("hard-spread", lambda name: spread(name, "DoNotSchedule"), ((pod, 5000),)),
        Workload("preferred-spread", lambda name: spread(name, "ScheduleAnyway"), ((pod, 5000),)),
        Workload("default-spread", labelled, ((labelled, 5000),), (SERVICE,)),
        Workload("anti-affinity-hostname", anti_affinity, ((anti_affinity, 1000),)),
        Workload("affinity-zone", affinity, ((affinity, 5000),)),
        Workload("preferred-affinity", preferred_affinity, ((preferred_affinity, 5000),)),
        Workload("unschedulable", too_large, ((pod, 1000),)),
        Workload("mixed", pod, tuple((template, 2000) for template in _MIXED)),
        Workload("preemption", high_priority, ((low_priority, 20000),), preempts=True),
    )
}
