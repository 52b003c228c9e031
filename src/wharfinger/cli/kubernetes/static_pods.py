"""An installation as static pods of control-plane nodes: the kubelet runs them, so no scheduler is needed for them.

They have the host's network, and find etcd on loopback. A static pod cannot use a service account, so it has a
kubeconfig of the host: a copy of kube-scheduler's, which kubeadm writes. On several nodes each is an installation with
an etcd and a cluster name of its own; the Lease elects one of them, as it does with kube-schedulers.
"""

from __future__ import annotations

from wharfinger.cli.kubernetes import etcd_objects, scheduler_objects
from wharfinger.cli.kubernetes.install_choices import (
    NAME,
    USER,
    InstallChoices,
    Manifest,
    container,
    labels,
    variables,
)
from wharfinger.errors import UsageError
from wharfinger.model.pod import DEFAULT_SCHEDULER

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
PREPARE = (
    f"install -d -m 700 -o {USER} -g {USER} {ETCD_DATA} {FOLDER}",
    f"install -m 600 -o {USER} -g {USER} /etc/kubernetes/scheduler.conf {KUBECONFIG}",
)
"""What makes a host ready; the second again whenever kubeadm has renewed its certificates."""


def static_pods(choices: InstallChoices) -> list[Manifest]:
    """The two pods of one node. Raises `UsageError` for what they cannot be."""
    if choices.scheduler_name != DEFAULT_SCHEDULER:
        raise UsageError(
            f"--only static-pods: these run in kube-scheduler's place, so their name is {DEFAULT_SCHEDULER}, not "
            f"{choices.scheduler_name}"
        )
    return [_pod("etcd", _etcd(), [_host("data", ETCD_DATA)]), _scheduler(choices)]


def _etcd() -> Manifest:
    options = {
        "name": etcd_objects.NAME,
        "data-dir": f"{etcd_objects.DATA}/data",
        "listen-client-urls": f"http://{LOOPBACK}:{CLIENT_PORT}",
        "advertise-client-urls": f"http://{LOOPBACK}:{CLIENT_PORT}",
        "listen-peer-urls": f"http://{LOOPBACK}:{PEER_PORT}",
        "initial-advertise-peer-urls": f"http://{LOOPBACK}:{PEER_PORT}",
        "initial-cluster": f"{etcd_objects.NAME}=http://{LOOPBACK}:{PEER_PORT}",
        "host-whitelist": LOOPBACK,
    }
    return container(
        "etcd",
        etcd_objects.IMAGE,
        command=etcd_objects.command(options),
        resources={"requests": {"cpu": "200m", "memory": "512Mi"}},
        **etcd_objects.probes(CLIENT_PORT, LOOPBACK),
        volumeMounts=[{"name": "data", "mountPath": etcd_objects.DATA}],
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
        **scheduler_objects.probes(SECURE_PORT, LOOPBACK),
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
