"""The permissions of an installation, and its share of the API server: account, roles, bindings, FlowSchemas.

The rules come from the table that workers check at their start (`apiserver.access_checks`), so both agree.
"""

from __future__ import annotations

from wharfinger.apiserver.access_checks import NeededAccess, cluster_role_rules, needed_access, role_rules
from wharfinger.kubernetes.cli.install_choices import NAME, InstallChoices, Manifest
from wharfinger.kubernetes.loops.upstream import OPTIONAL_KINDS

RBAC = "rbac.authorization.k8s.io"
LEADER_ELECTION_PRECEDENCE, PRECEDENCE = 200, 900
"""Of FlowSchemas; the lower one counts first. Kubernetes' own for kube-scheduler has 800, for all accounts 9000."""


def needs(choices: InstallChoices) -> tuple[NeededAccess, ...]:
    """What the installation needs, whether the cluster has all kinds or not."""
    return needed_access(lease=choices.lease, optional=OPTIONAL_KINDS)


def rbac_objects(choices: InstallChoices) -> list[Manifest]:
    """Account, ClusterRole, Roles, their bindings, and FlowSchemas."""
    found: list[Manifest] = []
    if not choices.user:
        found.append({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": choices.metadata(NAME)})
    wanted = needs(choices)
    found.append(
        {
            "apiVersion": f"{RBAC}/v1",
            "kind": "ClusterRole",
            "metadata": choices.metadata(NAME, namespaced=False),
            "rules": cluster_role_rules(wanted),
        }
    )
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
    return {
        "apiVersion": "flowcontrol.apiserver.k8s.io/v1",
        "kind": "FlowSchema",
        "metadata": choices.metadata(name, namespaced=False),
        "spec": {
            "priorityLevelConfiguration": {"name": level},
            "matchingPrecedence": precedence,
            "distinguisherMethod": {"type": "ByUser"},
            "rules": [{"subjects": [subject], "resourceRules": [rule]}],
        },
    }
