"""What an installation in a Kubernetes cluster is to be: the choices that all of its manifests share.

Neighbours: `install_files` puts their values into the files, `manifests` is the command.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import partial
from ipaddress import ip_address
from typing import Any, Literal

from wharfinger.apiserver.access_checks import LeaseName
from wharfinger.errors import UsageError
from wharfinger.objects.model.names import is_dns_label, is_dns_subdomain
from wharfinger.objects.model.pod import DEFAULT_SCHEDULER
from wharfinger.options import setting

NAME = "wharfinger"
"""Of most objects, and of the image."""
TEMPORAL_NAMESPACE = NAME
"""Temporal's, not Kubernetes', where a Temporal is made."""
ETCD = "wharfinger-etcd"
ETCD_PEER_PORT = 12380
"""Of static pods: the usual one is that of the cluster's own etcd."""
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
    with_hub: bool = _choice(False, "Print hubs of placements as well.")
    with_member: bool = _choice(False, "Print the agent of member clusters as well.")
    monitoring: bool = _choice(False, "Print ServiceMonitors and alerts for the Prometheus operator as well.")
    cert_manager: bool = _choice(
        False, "Let cert-manager sign the certificates, not `wharfinger kubernetes certificates`."
    )
    insecure: bool = _choice(False, "For trials: no TLS and no authentication between the parts.")
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
    def lease(self) -> LeaseName:
        """The Lease of the installation."""
        if self.scheduler_name == DEFAULT_SCHEDULER:
            return STANDBY_LEASE
        return LeaseName(self.namespace, self.cluster)

    def values(self) -> Mapping[str, Any]:
        """What the files' paths refer to, by name; of static pods of several nodes also those of `node`."""
        members = [f"{ETCD}-{number}.{ETCD}.{self.namespace}.svc" for number in range(self.etcd_replicas)]
        own = self.own_control_plane()
        scheme = "http" if self.insecure else "https"
        return {
            **asdict(self),
            "temporal": self.temporal or f"{NAME}-temporal.{self.namespace}.svc:7233",
            "temporal_namespace": self.temporal_namespace or ("default" if self.temporal else TEMPORAL_NAMESPACE),
            "lease_namespace": self.lease.namespace,
            "lease_name": self.lease.name,
            "scheme": scheme,
            "etcd": ",".join(f"{scheme}://{member}:2379" for member in members),
            "etcd_members": ",".join(f"{member.partition('.')[0]}={scheme}://{member}:2380" for member in members),
            "control_planes": ",".join(f"{one.member}={one.peer_url}" for one in self.control_planes()),
            "cluster_state": "existing" if self.joining else "new",
            **({"member": own.member, "peer_url": own.peer_url, "address": own.address} if own else {}),
        }

    def control_planes(self) -> list[ControlPlane]:
        """The nodes of static pods; none = one node, whatever its name. Raises `UsageError`."""
        several = [_control_plane(written) for written in self.control_plane]
        if several and len(several) % 2 == 0:
            raise UsageError(f"--control-plane: {len(several)} nodes, and etcd needs an odd number of members")
        if len({one.name for one in several}) < len(several) or len({one.address for one in several}) < len(several):
            raise UsageError("--control-plane: each node has a name and an address of its own")
        return several

    def own_control_plane(self) -> ControlPlane | None:
        """Of several nodes, the one whose static pods are wanted. Raises `UsageError`."""
        several = self.control_planes()
        if not several and (self.node or self.joining):
            raise UsageError("--node and --joining go with --control-plane NAME=ADDRESS, once for each node")
        own = next((one for one in several if one.name == self.node), None)
        if several and own is None:
            raise UsageError(f"--node: one of {', '.join(one.name for one in several)}; the pods of each node differ")
        return own


@dataclass(frozen=True, slots=True)
class ControlPlane:
    """One of several nodes with static pods."""

    name: str
    address: str
    """By which the others reach it."""

    @property
    def member(self) -> str:
        """Its name in etcd."""
        return f"{ETCD}-{self.name}"

    @property
    def peer_url(self) -> str:
        """Where the other members reach its etcd."""
        host = f"[{self.address}]" if ":" in self.address else self.address
        return f"https://{host}:{ETCD_PEER_PORT}"


def _control_plane(written: str) -> ControlPlane:
    name, _, address = written.partition("=")
    try:
        ip_address(address)
    except ValueError:
        raise UsageError(f"--control-plane {written}: is not NAME=ADDRESS with an IP address") from None
    if not is_dns_subdomain(name):
        raise UsageError(f"--control-plane {written}: {name!r} is no name of a node")
    return ControlPlane(name, address)
