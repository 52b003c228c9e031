"""The schedulers of an installation in a Kubernetes cluster: permissions, share of the API server, pods, configuration.

The permissions come from the table that workers check at their start (`apiserver.access_checks`), so both agree. Each
pod is one worker, run as `wharfinger kube-scheduler`: all of them bind while their installation holds the Lease.
"""

from __future__ import annotations

from wharfinger.apiserver.access_checks import NeededAccess, cluster_role_rules, needed_access, role_rules
from wharfinger.kubernetes.cli import etcd_objects
from wharfinger.kubernetes.cli.install_choices import (
    NAME,
    InstallChoices,
    Manifest,
    container,
    labels,
    probes,
    spread,
    variables,
)
from wharfinger.kubernetes.loops.connecting import OPTIONAL_KINDS
from wharfinger.objects.documents.yaml_text import to_yaml

RBAC = "rbac.authorization.k8s.io"
LEADER_ELECTION_PRECEDENCE, PRECEDENCE = 200, 900
"""Of FlowSchemas; the lower one counts first. Kubernetes' own for kube-scheduler has 800, for all accounts 9000."""
COMPONENT = "scheduler"
PORT = 10259
CONFIGURATION = "/etc/wharfinger"
FILE = "scheduler.yaml"


def needs(choices: InstallChoices) -> tuple[NeededAccess, ...]:
    """What the installation needs, whether the cluster has all kinds or not."""
    return needed_access(lease=choices.lease, optional=OPTIONAL_KINDS)


def rbac_objects(choices: InstallChoices) -> list[Manifest]:
    """Account, ClusterRole, Roles, their bindings, and FlowSchemas."""
    found: list[Manifest] = []
    if not choices.user:
        found.append(choices.object("v1", "ServiceAccount", NAME))
    wanted = needs(choices)
    rules = cluster_role_rules(wanted)
    found.append(choices.object(f"{RBAC}/v1", "ClusterRole", NAME, namespaced=False, rules=rules))
    found.append(_binding(choices, "ClusterRole", ""))
    for namespace, rules in role_rules(wanted).items():
        metadata = {**choices.metadata(NAME), "namespace": namespace}
        found.append({"apiVersion": f"{RBAC}/v1", "kind": "Role", "metadata": metadata, "rules": rules})
        found.append(_binding(choices, "Role", namespace))
    return [*found, *_flow_schemas(choices)]


def _subject(choices: InstallChoices) -> Manifest:
    if choices.user:
        return {"kind": "User", "name": choices.user, "apiGroup": RBAC}
    return {"kind": "ServiceAccount", "name": NAME, "namespace": choices.namespace}


def _binding(choices: InstallChoices, kind: str, namespace: str) -> Manifest:
    metadata = choices.metadata(NAME, namespaced=False)
    return {
        "apiVersion": f"{RBAC}/v1",
        "kind": f"{kind}Binding",
        "metadata": {"name": NAME, "namespace": namespace, "labels": metadata["labels"]} if namespace else metadata,
        "roleRef": {"apiGroup": RBAC, "kind": kind, "name": NAME},
        "subjects": [_subject(choices)],
    }


def _flow_schemas(choices: InstallChoices) -> list[Manifest]:
    """Binds are not to wait behind other workloads' requests, and the Lease not behind binds."""
    lease = {
        "apiGroups": ["coordination.k8s.io"],
        "resources": ["leases"],
        "verbs": ["get", "create", "update"],
        "namespaces": [choices.lease.namespace],
    }
    everything = {
        "apiGroups": ["*"],
        "resources": ["*"],
        "verbs": ["*"],
        "namespaces": ["*"],
        "clusterScope": True,
    }
    return [
        _flow_schema(choices, f"{NAME}-leader-election", "leader-election", LEADER_ELECTION_PRECEDENCE, lease),
        _flow_schema(choices, NAME, "workload-high", PRECEDENCE, everything),
    ]


def _flow_schema(choices: InstallChoices, name: str, level: str, precedence: int, rule: Manifest) -> Manifest:
    subject = (
        {"kind": "User", "user": {"name": choices.user}}
        if choices.user
        else {"kind": "ServiceAccount", "serviceAccount": {"name": NAME, "namespace": choices.namespace}}
    )
    spec = {
        "priorityLevelConfiguration": {"name": level},
        "matchingPrecedence": precedence,
        "distinguisherMethod": {"type": "ByUser"},
        "rules": [{"subjects": [subject], "resourceRules": [rule]}],
    }
    return choices.object("flowcontrol.apiserver.k8s.io/v1", "FlowSchema", name, namespaced=False, spec=spec)


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
        "WHARFINGER_TEMPORAL_NAMESPACE": choices.in_temporal,
        "XDG_STATE_HOME": "/tmp",  # noqa: S108 - a volume of the pod's own, which outlives its containers
    }


def scheduler_probes(port: int = PORT, host: str = "") -> Manifest:
    """Alive: the process answers. Ready: it may take pods, or it is a standby that could."""
    return probes(port, host, started="/livez", tries=24, scheme="HTTPS")


def scheduler_objects(choices: InstallChoices, temporal: str) -> list[Manifest]:
    """ConfigMap, Deployment and PodDisruptionBudget. `temporal`: `host:port`."""
    scheduler = container(
        "scheduler",
        choices.image,
        args=["kube-scheduler", f"--config={CONFIGURATION}/{FILE}", "--logging-format=json"],
        env=variables(environment(choices, etcd_objects.endpoints(choices), temporal)),
        ports=[{"name": "https", "containerPort": PORT}],
        resources={"requests": {"cpu": "500m", "memory": "512Mi"}, "limits": {"memory": "4Gi"}},
        **scheduler_probes(),
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
    deployment = {
        "replicas": choices.replicas,
        "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1, "maxSurge": 1}},
        "selector": {"matchLabels": labels(COMPONENT)},
        "template": {"metadata": {"labels": labels(COMPONENT)}, "spec": pod},
    }
    return [
        choices.object("v1", "ConfigMap", NAME, COMPONENT, data={FILE: to_yaml(configuration(choices))}),
        choices.object("apps/v1", "Deployment", NAME, COMPONENT, spec=deployment),
        choices.disruption_budget(NAME, COMPONENT),
    ]
