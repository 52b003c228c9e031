"""What an installation in a Kubernetes cluster is to be: the choices that all of its manifests share.

Neighbours: `scheduler_objects`, `etcd_objects`, `temporal_objects` and `static_pods` make the objects,
`manifests` is the command.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

from wharfinger.apiserver.access_checks import LeaseName
from wharfinger.errors import UsageError
from wharfinger.objects.model.names import is_dns_label, is_dns_subdomain
from wharfinger.objects.model.pod import DEFAULT_SCHEDULER
from wharfinger.options import setting

Manifest = dict[str, Any]
NAME = "wharfinger"
"""Of most objects, and of the image."""
TEMPORAL_NAMESPACE = NAME
"""Temporal's, not Kubernetes', where a Temporal is made."""
USER = 10001
"""User and group id of our image (Dockerfile)."""
STANDBY_LEASE = LeaseName("kube-system", "kube-scheduler")
"""Kube-scheduler's own: where wharfinger schedules in its place, one is the other's standby."""

_choice = partial(setting, variable=False)


@dataclass(frozen=True, slots=True)
class InstallChoices:
    """One installation. Raises `UsageError` for one that could not start again once all of it is down."""

    scheduler_name: str = _choice(
        NAME, "Pods with this spec.schedulerName are scheduled; default-scheduler: pods that name none.", "NAME"
    )
    bootstrap_scheduler: str = _choice(
        DEFAULT_SCHEDULER, "The scheduler that places wharfinger's own pods, and that stays.", "NAME"
    )
    """Of no meaning with `only`."""
    namespace: str = _choice(NAME, "Namespace of all objects.", "NAME", short="n")
    cluster: str = _choice(NAME, "Name of the cluster, and of the Lease.", "NAME")
    image: str = _choice(f"{NAME}:latest", "Image of wharfinger, as the Dockerfile makes it.", "IMAGE")
    replicas: int = _choice(2, "Number of schedulers.", "N", min=1, max=100)
    etcd_replicas: int = _choice(3, "Members of etcd: 1, 3, 5 or 7.", "N", min=1, max=7)
    etcd_storage: str = _choice("16Gi", "Volume of each member.", "SIZE")
    temporal: str = _choice("", "Front end of a Temporal that exists.", "HOST:PORT", shown=False)
    """Empty = one is made."""
    temporal_namespace: str = _choice(
        "", "Its namespace.", "NAME", shown=f"default; {TEMPORAL_NAMESPACE} with --with-temporal"
    )
    with_temporal: bool = _choice(False, "Print a Temporal on PostgreSQL as well.")
    user: str = _choice(
        "", "Grant the permissions to this user of the Kubernetes API, not to a service account.", "NAME", shown=False
    )
    control_plane: tuple[str, ...] = _choice(
        (),
        "Static pods on several nodes, with one etcd: a control-plane node and its IP address. Once for each.",
        "NAME=ADDRESS",
    )
    """Empty = one node, whatever its name."""
    node: str = _choice("", "Of these, the node whose static pods are printed.", "NAME", shown=False)
    joining: bool = _choice(False, "The node joins an etcd that runs, after `etcdctl member add`.")
    only: Literal["rbac", "static-pods"] | None = _choice(
        None,
        "`rbac`: permissions and FlowSchemas alone. `static-pods`: etcd and a scheduler as static pods of a "
        "control-plane node, for a cluster without another scheduler.",
    )

    def __post_init__(self) -> None:
        for option, value, checked in (
            ("--namespace", self.namespace, is_dns_label),
            ("--cluster", self.cluster, is_dns_label),
            ("--scheduler-name", self.scheduler_name, is_dns_subdomain),
            ("--bootstrap-scheduler", self.bootstrap_scheduler, lambda name: self.only or is_dns_subdomain(name)),
        ):
            if not checked(value):
                raise UsageError(f"{option}: {value!r} is no name: lower case letters, digits and dashes")
        if self.only is None and self.bootstrap_scheduler == self.scheduler_name:
            raise UsageError(
                f"--bootstrap-scheduler {self.bootstrap_scheduler}: wharfinger would have to place its own pods, "
                "etcd's and Temporal's, and could not start again once all are down: name a scheduler that stays, or "
                "run static pods (--only static-pods)"
            )
        if self.etcd_replicas % 2 == 0:
            raise UsageError(f"--etcd-replicas {self.etcd_replicas}: etcd needs an odd number of members")

    @property
    def in_temporal(self) -> str:
        """The namespace of Temporal's that its workflows are in."""
        return self.temporal_namespace or ("default" if self.temporal else TEMPORAL_NAMESPACE)

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


def probes(port: int, host: str = "", *, started: str = "/readyz", tries: int = 60, scheme: str = "") -> Manifest:
    """Of a container, by its own pages. `host`: where it listens; empty = the pod's address. `started`: the page that
    answers within `tries` times 5 s.
    """

    def asks(path: str, **fields: int) -> Manifest:
        where = {"scheme": scheme, "host": host}
        get = {"path": path, "port": port, **{name: value for name, value in where.items() if value}}
        return {"httpGet": get, "timeoutSeconds": 5, **fields}

    return {
        "startupProbe": asks(started, periodSeconds=5, failureThreshold=tries),
        "livenessProbe": asks("/livez", periodSeconds=10, failureThreshold=8),
        "readinessProbe": asks("/readyz", periodSeconds=5, failureThreshold=3),
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
