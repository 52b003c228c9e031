"""Misspelt fields in what scheduling reads: `node_name` where `nodeName` is meant.

Kubernetes ignores fields that it does not have. A field that scheduling reads must not be lost that way: a pod with
`node_name` would be placed anywhere. So an unknown field that is a read one in another spelling makes the object
invalid. Other spellings differ in case, in characters that are neither letters nor digits (`_`, `-`), and between
singular and plural. Any other unknown field is ignored. Keys of maps (labels, resources) are not fields.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from wharfinger.errors import InvalidObject
from wharfinger.objects.documents.kubernetes_fields import kubernetes_fields

LONGEST = 128
"""Characters of a key that can be a misspelt field; the longest field has 46."""
_SHOWN = 80
SHAPES_KEPT = 1024
"""Shapes that an excerpt remembers. They are made of fields of Kubernetes, so they are short."""

_METADATA = "meta/v1.ObjectMeta"
_OBJECT = ("apiVersion", "kind", "metadata", "spec", "status")
_REQUIREMENT = ("key", "operator", "values")
_AFFINITY = ("requiredDuringSchedulingIgnoredDuringExecution", "preferredDuringSchedulingIgnoredDuringExecution")

READ: Mapping[str, tuple[str, ...]] = {
    "core/v1.Pod": _OBJECT,
    "core/v1.Node": _OBJECT,
    "core/v1.Namespace": ("apiVersion", "kind", "metadata"),
    "core/v1.Service": ("apiVersion", "kind", "metadata", "spec"),
    "core/v1.ReplicationController": ("apiVersion", "kind", "metadata", "spec"),
    "apps/v1.ReplicaSet": ("apiVersion", "kind", "metadata", "spec"),
    "apps/v1.StatefulSet": ("apiVersion", "kind", "metadata", "spec"),
    "policy/v1.PodDisruptionBudget": _OBJECT,
    "scheduling/v1alpha2.PodGroup": ("apiVersion", "kind", "metadata", "spec"),
    "resource/v1.DeviceClass": ("apiVersion", "kind", "metadata", "spec"),
    "scheduling/v1.PriorityClass": ("apiVersion", "kind", "metadata", "value", "globalDefault", "preemptionPolicy"),
    "core/v1.PersistentVolume": _OBJECT,
    "core/v1.PersistentVolumeClaim": _OBJECT,
    "storage/v1.StorageClass": (
        "allowedTopologies",
        "apiVersion",
        "kind",
        "metadata",
        "provisioner",
        "volumeBindingMode",
    ),
    "storage/v1.CSINode": ("apiVersion", "kind", "metadata", "spec"),
    "storage/v1.CSIDriver": ("apiVersion", "kind", "metadata", "spec"),
    "storage/v1.CSIStorageCapacity": (
        "apiVersion",
        "capacity",
        "kind",
        "maximumVolumeSize",
        "metadata",
        "nodeTopology",
        "storageClassName",
    ),
    "storage/v1.VolumeAttachment": ("apiVersion", "kind", "metadata", "spec"),
    _METADATA: (
        "annotations",
        "creationTimestamp",
        "deletionTimestamp",
        "labels",
        "name",
        "namespace",
        "ownerReferences",
        "uid",
    ),
    "meta/v1.OwnerReference": ("controller", "kind", "name", "uid"),
    "meta/v1.LabelSelector": ("matchExpressions", "matchLabels"),
    "meta/v1.LabelSelectorRequirement": _REQUIREMENT,
    # --- pods
    "core/v1.PodSpec": (
        "affinity",
        "containers",
        "hostNetwork",
        "hostUsers",
        "initContainers",
        "nodeName",
        "nodeSelector",
        "overhead",
        "preemptionPolicy",
        "priority",
        "priorityClassName",
        "resourceClaims",
        "resources",
        "schedulerName",
        "schedulingGates",
        "schedulingGroup",
        "terminationGracePeriodSeconds",
        "tolerations",
        "topologySpreadConstraints",
        "volumes",
    ),
    "core/v1.PodSchedulingGroup": ("podGroupName",),
    "core/v1.PodSchedulingGate": ("name",),
    "core/v1.Container": ("image", "name", "ports", "resources", "restartPolicy", "restartPolicyRules"),
    "core/v1.ContainerRestartRule": ("action",),
    "core/v1.ContainerPort": ("containerPort", "hostIP", "hostPort", "protocol"),
    "core/v1.ResourceRequirements": ("claims", "limits", "requests"),
    "core/v1.Volume": (
        "awsElasticBlockStore",
        "azureDisk",
        "azureFile",
        "cinder",
        "ephemeral",
        "gcePersistentDisk",
        "image",
        "iscsi",
        "name",
        "persistentVolumeClaim",
        "portworxVolume",
        "rbd",
        "vsphereVolume",
    ),
    "core/v1.PersistentVolumeClaimVolumeSource": ("claimName",),
    "core/v1.AWSElasticBlockStoreVolumeSource": ("readOnly", "volumeID"),
    "core/v1.AzureDiskVolumeSource": ("diskURI", "kind"),
    "core/v1.CinderVolumeSource": ("volumeID",),
    "core/v1.GCEPersistentDiskVolumeSource": ("pdName", "readOnly"),
    "core/v1.ISCSIVolumeSource": ("iqn", "readOnly"),
    "core/v1.PortworxVolumeSource": ("volumeID",),
    "core/v1.RBDVolumeSource": ("image", "monitors", "pool", "readOnly"),
    "core/v1.ImageVolumeSource": ("reference",),
    "core/v1.Toleration": ("effect", "key", "operator", "tolerationSeconds", "value"),
    "core/v1.Affinity": ("nodeAffinity", "podAffinity", "podAntiAffinity"),
    "core/v1.NodeAffinity": _AFFINITY,
    "core/v1.NodeSelector": ("nodeSelectorTerms",),
    "core/v1.NodeSelectorTerm": ("matchExpressions", "matchFields"),
    "core/v1.NodeSelectorRequirement": _REQUIREMENT,
    "core/v1.PreferredSchedulingTerm": ("preference", "weight"),
    "core/v1.PodAffinity": _AFFINITY,
    "core/v1.PodAntiAffinity": _AFFINITY,
    "core/v1.WeightedPodAffinityTerm": ("podAffinityTerm", "weight"),
    "core/v1.PodAffinityTerm": (
        "labelSelector",
        "matchLabelKeys",
        "mismatchLabelKeys",
        "namespaceSelector",
        "namespaces",
        "topologyKey",
    ),
    "core/v1.TopologySpreadConstraint": (
        "labelSelector",
        "matchLabelKeys",
        "maxSkew",
        "minDomains",
        "nodeAffinityPolicy",
        "nodeTaintsPolicy",
        "topologyKey",
        "whenUnsatisfiable",
    ),
    "core/v1.PodStatus": (
        "allocatedResources",
        "conditions",
        "containerStatuses",
        "initContainerStatuses",
        "nominatedNodeName",
        "phase",
        "resources",
        "startTime",
    ),
    "core/v1.ContainerStatus": ("allocatedResources", "name", "resources"),
    "core/v1.PodCondition": ("message", "reason", "status", "type"),
    # --- nodes
    "core/v1.NodeSpec": ("taints", "unschedulable"),
    "core/v1.Taint": ("effect", "key", "timeAdded", "value"),
    "core/v1.NodeStatus": ("allocatable", "capacity", "conditions", "declaredFeatures", "images"),
    "core/v1.NodeCondition": ("status", "type"),
    "core/v1.ContainerImage": ("names", "sizeBytes"),
    # --- storage
    "core/v1.PersistentVolumeSpec": (
        "accessModes",
        "awsElasticBlockStore",
        "azureDisk",
        "azureFile",
        "capacity",
        "cinder",
        "claimRef",
        "csi",
        "gcePersistentDisk",
        "nodeAffinity",
        "portworxVolume",
        "storageClassName",
        "volumeAttributesClassName",
        "volumeMode",
        "vsphereVolume",
    ),
    "core/v1.PersistentVolumeStatus": ("phase",),
    "core/v1.ObjectReference": ("name", "namespace", "uid"),
    "core/v1.CSIPersistentVolumeSource": ("driver", "volumeHandle"),
    "core/v1.CinderPersistentVolumeSource": ("volumeID",),
    "core/v1.VolumeNodeAffinity": ("required",),
    "core/v1.PersistentVolumeClaimSpec": (
        "accessModes",
        "resources",
        "selector",
        "storageClassName",
        "volumeAttributesClassName",
        "volumeMode",
        "volumeName",
    ),
    "core/v1.PersistentVolumeClaimStatus": ("phase",),
    "core/v1.VolumeResourceRequirements": ("requests",),
    "core/v1.TopologySelectorTerm": ("matchLabelExpressions",),
    "core/v1.TopologySelectorLabelRequirement": ("key", "values"),
    "storage/v1.CSINodeSpec": ("drivers",),
    "storage/v1.CSINodeDriver": ("allocatable", "name"),
    "storage/v1.VolumeNodeResources": ("count",),
    "storage/v1.CSIDriverSpec": ("storageCapacity",),
    "storage/v1.VolumeAttachmentSpec": ("attacher", "nodeName", "source"),
    "storage/v1.VolumeAttachmentSource": ("persistentVolumeName",),
    # --- surroundings
    "core/v1.ServiceSpec": ("selector",),
    "core/v1.ReplicationControllerSpec": ("selector", "template"),
    "core/v1.PodTemplateSpec": ("metadata",),
    "apps/v1.ReplicaSetSpec": ("selector",),
    "apps/v1.StatefulSetSpec": ("selector",),
    "policy/v1.PodDisruptionBudgetSpec": ("selector",),
    "policy/v1.PodDisruptionBudgetStatus": ("disruptedPods", "disruptionsAllowed"),
    "resource/v1.DeviceClassSpec": ("extendedResourceName",),
    "scheduling/v1alpha2.PodGroupSpec": ("minMember", "schedulingConstraints", "schedulingPolicy"),
    "scheduling/v1alpha2.PodGroupSchedulingPolicy": ("gang",),
    "scheduling/v1alpha2.GangSchedulingPolicy": ("minCount",),
    "scheduling/v1alpha2.PodGroupSchedulingConstraints": ("topology",),
    "scheduling/v1alpha2.TopologyConstraint": ("key",),
}
"""The fields that scheduling reads, by the type of Kubernetes that has them. A scheduler-plugins PodGroup is read as
Kubernetes' own, with `minMember`."""


class KubernetesType:
    """One type of Kubernetes whose fields scheduling reads.

    The check of a well-spelt mapping is one set operation, `shape.fits(mapping)`. Where it fails, `examine` decides.
    """

    __slots__ = ("_below", "_folded", "_known", "_type", "fits")

    def __init__(self, name: str) -> None:
        self._type = name
        self._folded = {folded(field): field for field in READ[name]}
        self._known = frozenset(READ[name])
        self.fits = self._known.issuperset
        """Whether all fields are Kubernetes' own; before the list of these was read, whether all are read here."""
        self._below: tuple[tuple[str, KubernetesType], ...] | None = None

    def check(self, obj: Mapping[str, Any], where: str = "") -> None:
        """Refuse a mapping with a misspelt field; raises `InvalidObject` naming it. `where` ends with a dot."""
        if not self.fits(obj):
            self.examine(obj, where)

    def examine(self, obj: Mapping[str, Any], where: str = "") -> None:
        """Do what `check` does, for a mapping that does not fit. Readers of many mappings call both, for speed."""
        self._complete()
        for key in obj:
            if key not in self._known:
                meant = self._folded.get(folded(key))
                if meant is not None:
                    raise InvalidObject(f"{where}{shown(key)}: unknown field; did you mean {meant}?")

    def check_all(self, obj: Mapping[str, Any], where: str = "") -> None:
        """Check a mapping, and all below it that scheduling reads."""
        self.check(obj, where)
        self.check_below(obj, where)

    def check_below(self, obj: Mapping[str, Any], where: str = "") -> None:
        """Check what is below a mapping. What is neither a mapping nor a list is left to the reader of the field."""
        for field, shape in self._below if self._below is not None else self._complete():
            value = obj.get(field)
            if not value:
                continue
            if isinstance(value, Mapping):
                shape.check_all(value, f"{where}{field}.")
            elif isinstance(value, list | tuple):
                for index, entry in enumerate(value):
                    if isinstance(entry, Mapping):
                        shape.check_all(entry, f"{where}{field}[{index}].")

    def _complete(self) -> tuple[tuple[str, KubernetesType], ...]:
        if self._below is None:
            fields = kubernetes_fields().types[self._type]
            below = {field: fields.get(field, "") for field in READ[self._type]}
            self._below = tuple([(field, SHAPES[name]) for field, name in below.items() if name in SHAPES])
            self._known = self._known.union(fields)
            self.fits = self._known.issuperset
        return self._below


class Excerpt:
    """Chooses fields of mappings that are many and have few shapes, such as containers.

    What is chosen of a shape is remembered, with the result of its check. That costs less than to look for each field.
    """

    __slots__ = ("_chosen", "_fields", "_shape")

    def __init__(self, shape: KubernetesType, fields: tuple[str, ...]) -> None:
        self._shape = shape
        self._fields = fields
        self._chosen: dict[tuple[str, ...], tuple[str, ...]] = {}

    def of(self, obj: Mapping[str, Any], where: str, index: int = -1) -> dict[str, Any]:
        """The fields that the mapping has, in our order. Raises `InvalidObject` for a misspelt one.

        `where` is the mapping's path, with `index` that of its list.
        """
        shape = tuple(obj)
        names = self._chosen.get(shape)
        if names is None:
            names = tuple([name for name in self._fields if name in obj])
            if self._shape.fits(obj):
                if len(self._chosen) >= SHAPES_KEPT:
                    self._chosen.clear()
                self._chosen[shape] = names
            else:
                self._shape.examine(obj, f"{where}." if index < 0 else f"{where}[{index}].")
        return {name: obj[name] for name in names}


def folded(key: object) -> str:
    """What all spellings of a field have in common; empty for what cannot be a field."""
    if not isinstance(key, str) or len(key) > LONGEST:
        return ""
    letters = "".join([char for char in key.lower() if char.isalnum()])
    return letters.rstrip("es").removesuffix("i").removesuffix("y")


def shown(key: object) -> str:
    """A key as messages name it: bounded, on one line."""
    text = key if isinstance(key, str) else str(key)[: _SHOWN + 1]
    text = text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
    return text if text.isprintable() and text.isascii() and " " not in text else ascii(text)


SHAPES = {name: KubernetesType(name) for name in READ}
POD = SHAPES["core/v1.Pod"]
POD_SPEC = SHAPES["core/v1.PodSpec"]
POD_STATUS = SHAPES["core/v1.PodStatus"]
POD_CONDITION = SHAPES["core/v1.PodCondition"]
CONTAINER_STATUS = SHAPES["core/v1.ContainerStatus"]
RESOURCES = SHAPES["core/v1.ResourceRequirements"]
CONTAINER = SHAPES["core/v1.Container"]
VOLUME = SHAPES["core/v1.Volume"]
SCHEDULING_GROUP = SHAPES["core/v1.PodSchedulingGroup"]
OWNER = SHAPES["meta/v1.OwnerReference"]
OBJECT_META = SHAPES[_METADATA]
NODE = SHAPES["core/v1.Node"]
NODE_SPEC = SHAPES["core/v1.NodeSpec"]
NODE_STATUS = SHAPES["core/v1.NodeStatus"]
NODE_CONDITION = SHAPES["core/v1.NodeCondition"]
CONTAINER_IMAGE = SHAPES["core/v1.ContainerImage"]
