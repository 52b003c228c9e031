"""Objects in which every field stands that scheduling reads, each with a value that changes what is read."""

from __future__ import annotations

from typing import Any

SELECTOR: dict[str, Any] = {
    "matchLabels": {"app": "web"},
    "matchExpressions": [{"key": "tier", "operator": "In", "values": ["front"]}],
}
RESOURCES: dict[str, Any] = {"requests": {"cpu": "1"}, "limits": {"memory": "1Gi"}, "claims": [{"name": "gpu"}]}
CONTAINER: dict[str, Any] = {
    "name": "main",
    "image": "web:1",
    "restartPolicy": "Always",
    "restartPolicyRules": [{"action": "RestartAllContainers"}],
    "resources": RESOURCES,
    "ports": [{"containerPort": 80, "hostPort": 8080, "hostIP": "10.0.0.1", "protocol": "UDP"}],
}
CONTAINER_STATUS: dict[str, Any] = {"name": "main", "resources": RESOURCES, "allocatedResources": {"cpu": "1"}}
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
        "hostUsers": False,
        "overhead": {"cpu": "100m"},
        "resources": RESOURCES,
        "resourceClaims": [{"name": "gpu"}],
        "containers": [CONTAINER],
        "initContainers": [CONTAINER],
        "volumes": [
            {"name": "a", "image": {"reference": "data:1"}},
            {"name": "b", "persistentVolumeClaim": {"claimName": "c"}},
            {"name": "c", "ephemeral": {}},
            {"name": "d", "gcePersistentDisk": {"pdName": "d", "readOnly": True}},
            {"name": "e", "awsElasticBlockStore": {"volumeID": "vol-1", "readOnly": True}},
            {"name": "f", "rbd": {"monitors": ["m"], "pool": "p", "image": "i", "readOnly": True}},
            {"name": "g", "iscsi": {"iqn": "q", "readOnly": True}},
            {"name": "h", "azureDisk": {"diskURI": "u", "kind": "Dedicated"}},
            {"name": "i", "azureFile": {"shareName": "s"}},
            {"name": "j", "cinder": {"volumeID": "v"}},
            {"name": "k", "portworxVolume": {"volumeID": "v"}},
            {"name": "l", "vsphereVolume": {"volumePath": "p"}},
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
        "resources": RESOURCES,
        "allocatedResources": {"cpu": "1"},
        "containerStatuses": [CONTAINER_STATUS],
        "initContainerStatuses": [CONTAINER_STATUS],
    },
}
NODE: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": "n1", "uid": "u-2", "labels": {"disk": "ssd"}},
    "spec": {"unschedulable": True, "taints": [{"key": "k", "value": "v", "effect": "NoSchedule", "timeAdded": "t"}]},
    "status": {
        "allocatable": {"cpu": "4"},
        "capacity": {"cpu": "4"},
        "conditions": [{"type": "Ready", "status": "True"}],
        "images": [{"names": ["web:1"], "sizeBytes": 5}],
        "declaredFeatures": ["UserNamespacesHostNetworkSupport"],
    },
}


def _object(version: str, kind: str, **parts: Any) -> dict[str, Any]:
    metadata: dict[str, Any] = {"name": "web", "labels": {"app": "web"}}
    if kind != "Namespace":
        metadata["namespace"] = "shop"
    return {"apiVersion": version, "kind": kind, "metadata": metadata, **parts}


def _stored(version: str, kind: str, *, namespace: str = "", **parts: Any) -> dict[str, Any]:
    space = {"namespace": namespace} if namespace else {}
    owner = {"kind": "Pod", "name": "web", "uid": "u-4", "controller": True}
    metadata = {"name": "web", "uid": "u-5", "ownerReferences": [owner], **space}
    return {"apiVersion": version, "kind": kind, "metadata": metadata, **parts}


_VOLUME: dict[str, Any] = {
    "capacity": {"storage": "1Gi"},
    "claimRef": {"namespace": "shop", "name": "data", "uid": "u-3"},
    "accessModes": ["ReadWriteOnce"],
    "storageClassName": "fast",
    "volumeMode": "Block",
    "volumeAttributesClassName": "gold",
    "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [EXPRESSION]}]}},
}
STORAGE = (
    _stored(
        "v1",
        "PersistentVolume",
        spec={**_VOLUME, "csi": {"driver": "d", "volumeHandle": "h"}},
        status={"phase": "Bound"},
    ),
    *(
        _stored("v1", "PersistentVolume", spec={**_VOLUME, source: fields})
        for source, fields in (
            ("awsElasticBlockStore", {"volumeID": "vol-1"}),
            ("azureDisk", {"diskURI": "u", "kind": "Dedicated"}),
            ("azureFile", {"shareName": "s"}),
            ("cinder", {"volumeID": "v"}),
            ("gcePersistentDisk", {"pdName": "d"}),
            ("portworxVolume", {"volumeID": "v"}),
            ("vsphereVolume", {"volumePath": "p"}),
        )
    ),
    _stored(
        "v1",
        "PersistentVolumeClaim",
        namespace="shop",
        spec={
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
            "selector": SELECTOR,
            "storageClassName": "fast",
            "volumeMode": "Block",
            "volumeAttributesClassName": "gold",
            "volumeName": "v",
        },
        status={"phase": "Bound"},
    ),
    _stored(
        "storage.k8s.io/v1",
        "StorageClass",
        provisioner="d",
        volumeBindingMode="WaitForFirstConsumer",
        allowedTopologies=[{"matchLabelExpressions": [{"key": "zone", "values": ["a"]}]}],
    ),
    _stored("storage.k8s.io/v1", "CSINode", spec={"drivers": [{"name": "d", "allocatable": {"count": 3}}]}),
    _stored("storage.k8s.io/v1", "CSIDriver", spec={"storageCapacity": True}),
    _stored(
        "storage.k8s.io/v1",
        "CSIStorageCapacity",
        namespace="shop",
        storageClassName="fast",
        nodeTopology=SELECTOR,
        capacity="5Gi",
        maximumVolumeSize="1Gi",
    ),
    _stored("storage.k8s.io/v1", "CSIStorageCapacity", namespace="shop", storageClassName="fast", capacity="5Gi"),
    _stored(
        "storage.k8s.io/v1",
        "VolumeAttachment",
        spec={"attacher": "d", "nodeName": "n1", "source": {"persistentVolumeName": "v"}},
    ),
)
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
    _stored("resource.k8s.io/v1", "DeviceClass", spec={"extendedResourceName": "example.com/gpu"}),
    *STORAGE,
)
EVERYTHING = (POD, NODE, *SURROUNDINGS)
