"""The schedulers of an installation in a Kubernetes cluster: configuration, Deployment, PodDisruptionBudget.

Each pod is one worker, run as `wharfinger kube-scheduler`: all of them bind while their installation holds the Lease.
"""

from __future__ import annotations

from wharfinger.kubernetes.cli import etcd_objects
from wharfinger.kubernetes.cli.install_choices import (
    NAME,
    InstallChoices,
    Manifest,
    container,
    labels,
    spread,
    variables,
)
from wharfinger.objects.documents.yaml_text import to_yaml

COMPONENT = "scheduler"
PORT = 10259
CONFIGURATION = "/etc/wharfinger"
FILE = "scheduler.yaml"


def configuration(choices: InstallChoices) -> Manifest:
    """A KubeSchedulerConfiguration; the API is that of the pod's service account."""
    lease = choices.lease
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "leaderElection": {"leaderElect": True, "resourceNamespace": lease.namespace, "resourceName": lease.name},
        "profiles": [{"schedulerName": choices.scheduler_name}],
    }


def environment(choices: InstallChoices, etcd: str, temporal: str) -> dict[str, str]:
    """Wharfinger's own options, and where `kubernetes status` finds the Lease. `etcd`: endpoints; `temporal`:
    `host:port`.
    """
    return {
        "WHARFINGER_CLUSTER": choices.cluster,
        "WHARFINGER_ETCD": etcd,
        "WHARFINGER_LEADER_ELECT_RESOURCE_NAMESPACE": choices.lease.namespace,
        "WHARFINGER_MAX_TXN_OPS": str(etcd_objects.MAX_TXN_OPS),
        "WHARFINGER_TEMPORAL": temporal,
        "WHARFINGER_TEMPORAL_NAMESPACE": choices.temporal_namespace,
        "XDG_STATE_HOME": "/tmp",  # noqa: S108 - a volume of the pod's own, which outlives its containers
    }


def probes(port: int = PORT, host: str = "") -> Manifest:
    """Alive: the process answers. Ready: it may take pods, or it is a standby that could."""

    def asks(path: str, **fields: int) -> Manifest:
        get = {"path": path, "port": port, "scheme": "HTTPS", **({"host": host} if host else {})}
        return {"httpGet": get, "timeoutSeconds": 5, **fields}

    return {
        "startupProbe": asks("/livez", periodSeconds=5, failureThreshold=24),
        "livenessProbe": asks("/livez", periodSeconds=10, failureThreshold=8),
        "readinessProbe": asks("/readyz", periodSeconds=5, failureThreshold=3),
    }


def scheduler_objects(choices: InstallChoices, temporal: str) -> list[Manifest]:
    """ConfigMap, Deployment and PodDisruptionBudget. `temporal`: `host:port`."""
    selector = {"matchLabels": labels(COMPONENT)}
    scheduler = container(
        "scheduler",
        choices.image,
        args=["kube-scheduler", f"--config={CONFIGURATION}/{FILE}", "--logging-format=json"],
        env=variables(environment(choices, etcd_objects.endpoints(choices), temporal)),
        ports=[{"name": "https", "containerPort": PORT}],
        resources={"requests": {"cpu": "500m", "memory": "512Mi"}, "limits": {"memory": "4Gi"}},
        **probes(),
        volumeMounts=[
            {"name": "config", "mountPath": CONFIGURATION, "readOnly": True},
            {"name": "tmp", "mountPath": "/tmp"},  # noqa: S108 - a volume of the pod's own
        ],
    )
    pod = choices.pod_spec(
        {
            "serviceAccountName": NAME,
            "affinity": spread(COMPONENT),
            "terminationGracePeriodSeconds": 40,  # it drains within 20 s
            "containers": [scheduler],
            "volumes": [
                {"name": "config", "configMap": {"name": NAME}},
                {"name": "tmp", "emptyDir": {"medium": "Memory", "sizeLimit": "16Mi"}},
            ],
        }
    )
    return [
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": choices.metadata(NAME, COMPONENT),
            "data": {FILE: to_yaml(configuration(choices))},
        },
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": choices.metadata(NAME, COMPONENT),
            "spec": {
                "replicas": choices.replicas,
                "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1, "maxSurge": 1}},
                "selector": selector,
                "template": {"metadata": {"labels": labels(COMPONENT)}, "spec": pod},
            },
        },
        {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": choices.metadata(NAME, COMPONENT),
            "spec": {"maxUnavailable": 1, "selector": selector},
        },
    ]
