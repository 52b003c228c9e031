"""What an installation in a Kubernetes cluster is to be: the choices that all of its manifests share.

Neighbours: `scheduler_objects`, `etcd_objects`, `temporal_objects` and `static_pods` make the objects,
`manifests` is the command.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from wharfinger.apiserver.access_checks import LeaseName
from wharfinger.errors import UsageError
from wharfinger.objects.model.names import is_dns_label, is_dns_subdomain
from wharfinger.objects.model.pod import DEFAULT_SCHEDULER

Manifest = dict[str, Any]
NAME = "wharfinger"
"""Of most objects, and of the image."""
USER = 10001
"""User and group id of our image (Dockerfile)."""
STANDBY_LEASE = LeaseName("kube-system", "kube-scheduler")
"""Kube-scheduler's own: where wharfinger schedules in its place, one is the other's standby."""


@dataclass(frozen=True, slots=True)
class InstallChoices:
    """One installation. Raises `UsageError` for one that could not start again once all of it is down."""

    namespace: str = NAME
    cluster: str = NAME
    """Name of the cluster, as `--cluster` of every command."""
    scheduler_name: str = NAME
    """The `spec.schedulerName` of the pods that it schedules."""
    bootstrap_scheduler: str = DEFAULT_SCHEDULER
    """The scheduler that places its own pods, and that stays; empty = they are static pods."""
    image: str = f"{NAME}:latest"
    replicas: int = 2
    etcd_replicas: int = 3
    etcd_storage: str = "16Gi"
    temporal: str = ""
    """`host:port` of a Temporal; empty = one is made."""
    temporal_namespace: str = "default"
    user: str = ""
    """A user of the Kubernetes API that has the permissions; empty = a service account."""
    control_plane: tuple[str, ...] = ()
    """`name=address` of each control-plane node that has static pods; empty = one node, whatever its name."""
    node: str = ""
    """Of these, the node whose static pods are wanted."""
    joining: bool = False
    """Whether that node joins an etcd that runs."""

    def __post_init__(self) -> None:
        for option, value, checked in (
            ("--namespace", self.namespace, is_dns_label),
            ("--cluster", self.cluster, is_dns_label),
            ("--scheduler-name", self.scheduler_name, is_dns_subdomain),
            ("--bootstrap-scheduler", self.bootstrap_scheduler or DEFAULT_SCHEDULER, is_dns_subdomain),
        ):
            if not checked(value):
                raise UsageError(f"{option}: {value!r} is no name: lower case letters, digits and dashes")
        if self.bootstrap_scheduler == self.scheduler_name:
            raise UsageError(
                f"--bootstrap-scheduler {self.bootstrap_scheduler}: wharfinger would have to place its own pods, "
                "etcd's and Temporal's, and could not start again once all are down: name a scheduler that stays, or "
                "run static pods (--only static-pods)"
            )
        if self.etcd_replicas % 2 == 0:
            raise UsageError(f"--etcd-replicas {self.etcd_replicas}: etcd needs an odd number of members")

    @property
    def lease(self) -> LeaseName:
        """The Lease of the installation."""
        if self.scheduler_name == DEFAULT_SCHEDULER:
            return STANDBY_LEASE
        return LeaseName(self.namespace, self.cluster)

    def metadata(self, name: str, component: str = "", *, namespaced: bool = True) -> Manifest:
        """Of an object of the installation."""
        found: Manifest = {"name": name}
        if namespaced:
            found["namespace"] = self.namespace
        return {**found, "labels": labels(component)}

    def object(
        self, api_version: str, kind: str, name: str, component: str = "", *, namespaced: bool = True, **parts: Any
    ) -> Manifest:
        """An object of the installation. `parts`: what it has beside its metadata, usually a `spec`."""
        metadata = self.metadata(name, component, namespaced=namespaced)
        return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **parts}

    def disruption_budget(self, name: str, component: str) -> Manifest:
        """One pod of the component at a time may be evicted."""
        spec = {"maxUnavailable": 1, "selector": {"matchLabels": labels(component)}}
        return self.object("policy/v1", "PodDisruptionBudget", name, component, spec=spec)

    def network_policy(self, name: str, component: str, *ports: int) -> Manifest:
        """Only the installation's own pods reach these ports of the component."""
        spec = {
            "podSelector": {"matchLabels": labels(component)},
            "policyTypes": ["Ingress"],
            "ingress": [
                {"from": [{"podSelector": {"matchLabels": labels()}}], "ports": [{"port": port} for port in ports]}
            ],
        }
        return self.object("networking.k8s.io/v1", "NetworkPolicy", name, component, spec=spec)

    def pod_spec(self, spec: Manifest, *, user: int = USER) -> Manifest:
        """A pod that another scheduler places, and that runs without any privilege."""
        return {
            "schedulerName": self.bootstrap_scheduler,
            "priorityClassName": "system-cluster-critical",
            "securityContext": {
                "runAsNonRoot": True,
                "runAsUser": user,
                "runAsGroup": user,
                "fsGroup": user,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            **spec,
        }


def labels(component: str = "") -> dict[str, str]:
    """Of all objects, or of those of one component, by which its pods are selected."""
    shared = {"app.kubernetes.io/name": NAME}
    return {**shared, "app.kubernetes.io/component": component} if component else shared


def container(name: str, image: str, **fields: Any) -> Manifest:
    """A container that can write nothing but its volumes."""
    return {
        "name": name,
        "image": image,
        **fields,
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
    }


def spread(component: str) -> Manifest:
    """Affinity by which the pods of a component go to different nodes where there are several."""
    term = {"labelSelector": {"matchLabels": labels(component)}, "topologyKey": "kubernetes.io/hostname"}
    rules = [{"weight": 100, "podAffinityTerm": term}]
    return {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": rules}}


def claim(storage: str) -> Manifest:
    """The specification of a claim for a volume of this size."""
    return {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": storage}}}


def variables(values: dict[str, str]) -> list[Manifest]:
    """Environment variables of a container."""
    return [{"name": name, "value": value} for name, value in values.items()]
