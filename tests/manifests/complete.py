"""Objects in which every field stands that scheduling reads, each with a value that changes what is read."""

from __future__ import annotations

from typing import Any

SELECTOR: dict[str, Any] = {
    "matchLabels": {"app": "web"},
    "matchExpressions": [{"key": "tier", "operator": "In", "values": ["front"]}],
}
RESOURCES: dict[str, Any] = {"requests": {"cpu": "1"}, "limits": {"memory": "1Gi"}}
CONTAINER: dict[str, Any] = {
    "name": "main",
    "image": "web:1",
    "restartPolicy": "Always",
    "resources": RESOURCES,
    "ports": [{"containerPort": 80, "hostPort": 8080, "hostIP": "10.0.0.1", "protocol": "UDP"}],
}
EXPRESSION: dict[str, Any] = {"key": "zone", "operator": "In", "values": ["a"]}
NODE_TERM: dict[str, Any] = {
    "matchExpressions": [EXPRESSION],
    "matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}],
}
POD_TERM: dict[str, Any] = {
    "topologyKey": "zone",
    "labelSelector": SELECTOR,
    "namespaces": ["other"],
    "namespaceSelector": SELECTOR,
    "matchLabelKeys": ["app"],
    "mismatchLabelKeys": ["tier"],
}
POD_AFFINITY: dict[str, Any] = {
    "requiredDuringSchedulingIgnoredDuringExecution": [POD_TERM],
    "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 5, "podAffinityTerm": POD_TERM}],
}

POD: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {
        "name": "web",
        "namespace": "shop",
        "uid": "u-1",
        "labels": {"app": "web", "tier": "front"},
        "annotations": {"wharfinger.dev/topology-key": "zone"},
        "creationTimestamp": "2026-01-01T00:00:00Z",
        "deletionTimestamp": "2026-01-02T00:00:00Z",
        "ownerReferences": [{"kind": "ReplicaSet", "name": "web", "controller": True}],
    },
    "spec": {
        "nodeName": "n1",
        "schedulerName": "mine",
        "schedulingGroup": {"podGroupName": "workers"},
        "schedulingGates": [{"name": "later"}],
        "nodeSelector": {"disk": "ssd"},
        "priority": 7,
        "priorityClassName": "system-node-critical",
        "preemptionPolicy": "Never",
        "terminationGracePeriodSeconds": 5,
        "hostNetwork": True,
        "overhead": {"cpu": "100m"},
        "resources": RESOURCES,
        "resourceClaims": [{"name": "gpu"}],
        "containers": [CONTAINER],
        "initContainers": [CONTAINER],
        "volumes": [
            {"name": "a", "image": {"reference": "data:1"}},
            {"name": "b", "persistentVolumeClaim": {"claimName": "c"}},
            {"name": "c", "ephemeral": {}},
            {"name": "d", "gcePersistentDisk": {}},
            {"name": "e", "awsElasticBlockStore": {}},
            {"name": "f", "rbd": {}},
            {"name": "g", "iscsi": {}},
        ],
        "tolerations": [{"key": "k", "operator": "Equal", "value": "v", "effect": "NoExecute", "tolerationSeconds": 3}],
        "topologySpreadConstraints": [
            {
                "maxSkew": 1,
                "topologyKey": "zone",
                "whenUnsatisfiable": "DoNotSchedule",
                "minDomains": 2,
                "nodeAffinityPolicy": "Ignore",
                "nodeTaintsPolicy": "Honor",
                "labelSelector": SELECTOR,
                "matchLabelKeys": ["app"],
            }
        ],
        "affinity": {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [NODE_TERM]},
                "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 5, "preference": NODE_TERM}],
            },
            "podAffinity": POD_AFFINITY,
            "podAntiAffinity": POD_AFFINITY,
        },
    },
    "status": {
        "phase": "Pending",
        "startTime": "2026-01-01T00:00:01Z",
        "nominatedNodeName": "n2",
        "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no room"}],
    },
}
NODE: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": "n1", "uid": "u-2", "labels": {"disk": "ssd"}},
    "spec": {"unschedulable": True, "taints": [{"key": "k", "value": "v", "effect": "NoSchedule", "timeAdded": "t"}]},
    "status": {
        "allocatable": {"cpu": "4"},
        "conditions": [{"type": "Ready", "status": "True"}],
        "images": [{"names": ["web:1"], "sizeBytes": 5}],
    },
}


def _object(version: str, kind: str, **parts: Any) -> dict[str, Any]:
    metadata: dict[str, Any] = {"name": "web", "labels": {"app": "web"}}
    if kind != "Namespace":
        metadata["namespace"] = "shop"
    return {"apiVersion": version, "kind": kind, "metadata": metadata, **parts}


SURROUNDINGS = (
    _object("v1", "Namespace"),
    _object("v1", "Service", spec={"selector": {"app": "web"}}),
    _object("v1", "ReplicationController", spec={"selector": {"app": "web"}}),
    _object("v1", "ReplicationController", spec={"template": {"metadata": {"labels": {"app": "web"}}}}),
    _object("apps/v1", "ReplicaSet", spec={"selector": SELECTOR}),
    _object("apps/v1", "StatefulSet", spec={"selector": SELECTOR}),
    _object(
        "policy/v1",
        "PodDisruptionBudget",
        spec={"selector": SELECTOR},
        status={"disruptionsAllowed": 1, "disruptedPods": {"web-1": "2026-01-01T00:00:00Z"}},
    ),
    _object(
        "scheduling.k8s.io/v1alpha2",
        "PodGroup",
        spec={"schedulingPolicy": {"gang": {"minCount": 3}}, "schedulingConstraints": {"topology": [{"key": "zone"}]}},
    ),
    {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": "high"},
        "value": 5,
        "globalDefault": True,
        "preemptionPolicy": "Never",
    },
    _object("scheduling.x-k8s.io/v1alpha1", "PodGroup", spec={"minMember": 3}),
)
EVERYTHING = (POD, NODE, *SURROUNDINGS)
