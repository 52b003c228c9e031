"""An installation as static pods of control-plane nodes: the kubelet runs them, so no scheduler is needed for them.

They have the host's network, and each scheduler finds the etcd of its own node on loopback. The etcds of several nodes
are members of one, by TLS between the nodes, so what was decided outlives a node. A static pod cannot use a service
account, so it has a kubeconfig of the host: a copy of kube-scheduler's, which kubeadm writes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from ipaddress import ip_address

from wharfinger.errors import UsageError
from wharfinger.kubernetes.cli import etcd_objects, scheduler_objects
from wharfinger.kubernetes.cli.install_choices import (
    NAME,
    USER,
    InstallChoices,
    Manifest,
    container,
    labels,
    probes,
    variables,
)
from wharfinger.objects.model.names import is_dns_subdomain
from wharfinger.objects.model.pod import DEFAULT_SCHEDULER

LOOPBACK = "127.0.0.1"
CLIENT_PORT, PEER_PORT = 12379, 12380
"""The usual ones are those of the cluster's own etcd."""
SECURE_PORT = 11259
"""The usual one is that of a kube-scheduler on the same node."""
FOLDER = "/etc/kubernetes/wharfinger"
"""Of the host: has the kubeconfig."""
KUBECONFIG = f"{FOLDER}/kubeconfig"
ETCD_DATA = "/var/lib/wharfinger-etcd"
"""Of the host."""
PEER_FOLDER = f"{FOLDER}/etcd"
"""Of the host: has the certificates by which members of etcd know each other."""
_EC = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes"
_DAYS = 3650


@dataclass(frozen=True, slots=True)
class ControlPlane:
    """One of several nodes."""

    name: str
    address: str
    """By which the others reach it."""

    @property
    def member(self) -> str:
        """Its name in etcd."""
        return f"{etcd_objects.NAME}-{self.name}"

    @property
    def peer_url(self) -> str:
        """Where the other members reach its etcd."""
        host = f"[{self.address}]" if ":" in self.address else self.address
        return f"https://{host}:{PEER_PORT}"


def static_pods(choices: InstallChoices) -> list[Manifest]:
    """The two pods of one node. Raises `UsageError` for what they cannot be."""
    if choices.scheduler_name != DEFAULT_SCHEDULER:
        raise UsageError(
            f"--only static-pods: these run in kube-scheduler's place, so their name is {DEFAULT_SCHEDULER}, not "
            f"{choices.scheduler_name}"
        )
    several, own = control_planes(choices)
    if own is None:
        return [_pod("etcd", _etcd(_alone()), [_host("data", ETCD_DATA)]), _scheduler(choices)]
    state = "existing" if choices.joining else "new"
    etcd = _etcd(_member(several, own, state, choices.cluster), {"name": "peers", "mountPath": PEER_FOLDER})
    return [_pod("etcd", etcd, [_host("data", ETCD_DATA), _host("peers", PEER_FOLDER)]), _scheduler(choices)]


def control_planes(choices: InstallChoices) -> tuple[list[ControlPlane], ControlPlane | None]:
    """The nodes, and the one whose pods are wanted; None where there is one node. Raises `UsageError`."""
    several = [_control_plane(written) for written in choices.control_plane]
    if not several:
        if choices.node or choices.joining:
            raise UsageError("--node and --joining go with --control-plane NAME=ADDRESS, once for each node")
        return [], None
    if len(several) % 2 == 0:
        raise UsageError(f"--control-plane: {len(several)} nodes, and etcd needs an odd number of members")
    if len({one.name for one in several}) < len(several) or len({one.address for one in several}) < len(several):
        raise UsageError("--control-plane: each node has a name and an address of its own")
    own = next((one for one in several if one.name == choices.node), None)
    if own is None:
        raise UsageError(f"--node: one of {', '.join(one.name for one in several)}; the pods of each node differ")
    return several, own


def _control_plane(written: str) -> ControlPlane:
    name, _, address = written.partition("=")
    try:
        ip_address(address)
    except ValueError:
        raise UsageError(f"--control-plane {written}: is not NAME=ADDRESS with an IP address") from None
    if not is_dns_subdomain(name):
        raise UsageError(f"--control-plane {written}: {name!r} is no name of a node")
    return ControlPlane(name, address)


def preparation(choices: InstallChoices) -> Iterator[str]:
    """What makes a host ready, as lines of a shell with an indent, and sentences that introduce them."""
    _, own = control_planes(choices)
    install = f"install -m 600 -o {USER} -g {USER}"
    if own is not None:
        yield "Once, on a machine that keeps ca.key: an authority for the members of etcd."
        yield f"  openssl req -x509 {_EC} -days {_DAYS} -subj /CN=wharfinger-etcd-ca -keyout ca.key -out ca.crt"
        yield f"There, for {own.name}; take ca.crt and the two files to the node:"
        yield f"  openssl req {_EC} -subj /CN={own.member} -keyout {own.name}.key -out {own.name}.csr"
        extensions = f"subjectAltName=IP:{own.address}\\nextendedKeyUsage=serverAuth,clientAuth\\n"
        signed = f"-CA ca.crt -CAkey ca.key -CAcreateserial -days {_DAYS} -extfile /dev/stdin"
        yield f"  printf '{extensions}' | openssl x509 -req -in {own.name}.csr {signed} -out {own.name}.crt"
    where = own.name if own is not None else "the control-plane node"
    yield f"As root on {where}; the kubeconfig again when it is renewed:"
    folders = (ETCD_DATA, FOLDER, *([PEER_FOLDER] if own is not None else []))
    yield f"  install -d -m 700 -o {USER} -g {USER} {' '.join(folders)}"
    yield f"  {install} /etc/kubernetes/scheduler.conf {KUBECONFIG}"
    if own is not None:
        yield f"  {install} ca.crt {PEER_FOLDER}/ca.crt"
        yield f"  {install} {own.name}.crt {PEER_FOLDER}/peer.crt"
        yield f"  {install} {own.name}.key {PEER_FOLDER}/peer.key"


def _alone() -> Manifest:
    peer = f"http://{LOOPBACK}:{PEER_PORT}"
    return {
        "name": etcd_objects.NAME,
        "listen-peer-urls": peer,
        "initial-advertise-peer-urls": peer,
        "initial-cluster": f"{etcd_objects.NAME}={peer}",
    }


def _member(several: Sequence[ControlPlane], own: ControlPlane, state: str, cluster: str) -> Manifest:
    return {
        "name": own.member,
        "listen-peer-urls": own.peer_url,
        "initial-advertise-peer-urls": own.peer_url,
        "initial-cluster": ",".join(f"{one.member}={one.peer_url}" for one in several),
        "initial-cluster-state": state,
        "initial-cluster-token": f"{etcd_objects.NAME}-{cluster}",
        "peer-cert-file": f"{PEER_FOLDER}/peer.crt",
        "peer-key-file": f"{PEER_FOLDER}/peer.key",
        "peer-trusted-ca-file": f"{PEER_FOLDER}/ca.crt",
        "peer-client-cert-auth": "true",
        **etcd_objects.OF_SEVERAL,
        # Peers compare a certificate's address with that of the connection, and a node may have several addresses.
        "feature-gates": f"{etcd_objects.OF_SEVERAL['feature-gates']},SetMemberLocalAddr=true",
    }


def _etcd(options: Manifest, *mounts: Manifest) -> Manifest:
    url = f"http://{LOOPBACK}:{CLIENT_PORT}"
    own = {
        "data-dir": f"{etcd_objects.DATA}/data",
        "listen-client-urls": url,
        "advertise-client-urls": url,
        "host-whitelist": LOOPBACK,
    }
    return container(
        "etcd",
        etcd_objects.IMAGE,
        command=etcd_objects.command({"name": options["name"], **own, **options}),
        resources={"requests": {"cpu": "200m", "memory": "512Mi"}},
        **probes(CLIENT_PORT, LOOPBACK),
        volumeMounts=[
            {"name": "data", "mountPath": etcd_objects.DATA},
            *({**mount, "readOnly": True} for mount in mounts),
        ],
    )


def _scheduler(choices: InstallChoices) -> Manifest:
    etcd = f"http://{LOOPBACK}:{CLIENT_PORT}"
    scheduler = container(
        "scheduler",
        choices.image,
        args=[
            "kube-scheduler",
            f"--kubeconfig={KUBECONFIG}",
            f"--leader-elect-resource-namespace={choices.lease.namespace}",
            f"--leader-elect-resource-name={choices.lease.name}",
            f"--bind-address={LOOPBACK}",
            f"--secure-port={SECURE_PORT}",
            "--logging-format=json",
        ],
        env=variables(scheduler_objects.environment(choices, etcd, choices.temporal)),
        resources={"requests": {"cpu": "500m", "memory": "512Mi"}},
        **scheduler_objects.scheduler_probes(SECURE_PORT, LOOPBACK),
        volumeMounts=[
            {"name": "kubeconfig", "mountPath": FOLDER, "readOnly": True},
            {"name": "tmp", "mountPath": "/tmp"},  # noqa: S108 - a volume of the pod's own
        ],
    )
    volumes = [
        _host("kubeconfig", FOLDER),
        {"name": "tmp", "emptyDir": {"medium": "Memory", "sizeLimit": "16Mi"}},
    ]
    return _pod("scheduler", scheduler, volumes)


def _pod(component: str, runs: Manifest, volumes: list[Manifest]) -> Manifest:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": f"{NAME}-{component}", "namespace": "kube-system", "labels": labels(component)},
        "spec": {
            "hostNetwork": True,
            "priorityClassName": "system-node-critical",
            "securityContext": {
                "runAsNonRoot": True,
                "runAsUser": USER,
                "runAsGroup": USER,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "terminationGracePeriodSeconds": 40,
            "containers": [runs],
            "volumes": volumes,
        },
    }


def _host(name: str, path: str) -> Manifest:
    return {"name": name, "hostPath": {"path": path, "type": "Directory"}}
