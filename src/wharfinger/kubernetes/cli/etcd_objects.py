"""etcd of an installation in a Kubernetes cluster: its command line, and a StatefulSet.

It speaks plain, without users: a NetworkPolicy lets in only the installation's own pods. `dev.etcd` has the
reasons of its settings; a test compares them.
"""

from __future__ import annotations

from wharfinger.kubernetes.cli.install_choices import InstallChoices, Manifest, claim, container, labels, probes, spread

NAME = "wharfinger-etcd"
COMPONENT = "etcd"
IMAGE = "quay.io/coreos/etcd:v3.6.16"
MAX_TXN_OPS = 1024
CLIENT_PORT, PEER_PORT = 2379, 2380
DATA = "/var/lib/etcd"
SETTINGS = {
    "max-txn-ops": str(MAX_TXN_OPS),
    "watch-progress-notify-interval": "5s",
    "auto-compaction-mode": "periodic",
    "auto-compaction-retention": "24h",
    "quota-backend-bytes": str(8 * 1024**3),
    "log-level": "warn",
    "cors": "https://no-origin.invalid:443",
}
"""Those that every etcd of wharfinger has."""
OF_SEVERAL = {
    "feature-gates": "InitialCorruptCheck=true,CompactHashCheck=true",
    "corrupt-check-time": "12h",
}
"""Those that an etcd of several members has besides: a member whose data differ from the others' raises an alarm, and
one that starts with other data than the others does not serve them."""


BACKUPS = f"{NAME}-backups"
BACKUP_SCHEDULE, BACKUPS_KEPT = "17 */6 * * *", 8
"""Every six hours, those of two days."""


def endpoints(choices: InstallChoices) -> str:
    """For `--etcd`: every member."""
    members = (f"http://{NAME}-{number}.{NAME}.{choices.namespace}.svc" for number in range(choices.etcd_replicas))
    return ",".join(f"{member}:{CLIENT_PORT}" for member in members)


def command(options: Manifest) -> list[str]:
    """The command line."""
    return ["etcd", *(f"--{name}={value}" for name, value in {**options, **SETTINGS}.items())]


def etcd_objects(choices: InstallChoices) -> list[Manifest]:
    """Service, StatefulSet, PodDisruptionBudget, NetworkPolicy, and a CronJob that saves backups with its volume."""
    service = {
        "clusterIP": "None",
        "publishNotReadyAddresses": True,  # members have to find each other before they are ready
        "selector": labels(COMPONENT),
        "ports": [{"name": "client", "port": CLIENT_PORT}, {"name": "peer", "port": PEER_PORT}],
    }
    members = {
        "serviceName": NAME,
        "replicas": choices.etcd_replicas,
        "podManagementPolicy": "Parallel",
        "selector": {"matchLabels": labels(COMPONENT)},
        "template": {"metadata": {"labels": labels(COMPONENT)}, "spec": _pod(choices)},
        "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": claim(choices.etcd_storage)}],
    }
    job = {
        "activeDeadlineSeconds": 3600,
        "template": {"metadata": {"labels": labels(BACKUPS)}, "spec": _backup(choices)},
    }
    backups = {"schedule": BACKUP_SCHEDULE, "concurrencyPolicy": "Forbid", "jobTemplate": {"spec": job}}
    return [
        choices.object("v1", "Service", NAME, COMPONENT, spec=service),
        choices.object("apps/v1", "StatefulSet", NAME, COMPONENT, spec=members),
        choices.disruption_budget(NAME, COMPONENT),
        choices.network_policy(NAME, COMPONENT, CLIENT_PORT, PEER_PORT),
        choices.object("v1", "PersistentVolumeClaim", BACKUPS, BACKUPS, spec=claim(choices.etcd_storage)),
        choices.object("batch/v1", "CronJob", BACKUPS, BACKUPS, spec=backups),
    ]


def _backup(choices: InstallChoices) -> Manifest:
    folder = "/backups"
    backup = container(
        "backup",
        choices.image,
        args=["backup", folder, f"--keep={BACKUPS_KEPT}", f"--etcd={endpoints(choices)}"],
        resources={"requests": {"cpu": "50m", "memory": "128Mi"}},
        volumeMounts=[{"name": "backups", "mountPath": folder}],
    )
    return choices.pod_spec(
        {
            "automountServiceAccountToken": False,
            "restartPolicy": "OnFailure",
            "containers": [backup],
            "volumes": [{"name": "backups", "persistentVolumeClaim": {"claimName": BACKUPS}}],
        }
    )


def _pod(choices: InstallChoices) -> Manifest:
    own = f"http://$(POD_NAME).{NAME}.{choices.namespace}.svc"
    peers = (f"{NAME}-{n}=http://{NAME}-{n}.{NAME}.{choices.namespace}.svc" for n in range(choices.etcd_replicas))
    options = {
        "name": "$(POD_NAME)",
        "data-dir": f"{DATA}/data",
        "listen-client-urls": f"http://0.0.0.0:{CLIENT_PORT}",
        "advertise-client-urls": f"{own}:{CLIENT_PORT}",
        "listen-peer-urls": f"http://0.0.0.0:{PEER_PORT}",
        "initial-advertise-peer-urls": f"{own}:{PEER_PORT}",
        "initial-cluster": ",".join(f"{peer}:{PEER_PORT}" for peer in peers),
        "initial-cluster-token": NAME,
        **OF_SEVERAL,
    }
    etcd = container(
        "etcd",
        IMAGE,
        command=command(options),
        env=[{"name": "POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
        ports=[{"name": "client", "containerPort": CLIENT_PORT}, {"name": "peer", "containerPort": PEER_PORT}],
        resources={"requests": {"cpu": "200m", "memory": "512Mi"}},
        **probes(CLIENT_PORT),
        volumeMounts=[{"name": "data", "mountPath": DATA}],
    )
    return choices.pod_spec(
        {
            "automountServiceAccountToken": False,
            "affinity": spread(COMPONENT),
            "terminationGracePeriodSeconds": 30,
            "containers": [etcd],
        }
    )
