"""Copies of a Kubernetes API's objects: what of an object is kept, and which state of it a copy is.

A copy has the fields that the decoders of this package read, and of what identifies an object everything: no
environment, no commands, no annotations that mean nothing here. So secrets that people put there do not travel, and a
pod takes half its room. Where HTTP extenders are asked, copies of pods and nodes are whole.

Decoding a copy gives what decoding the object gives (`tests/objects/documents/test_copies.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import orjson

from wharfinger.errors import InvalidObject
from wharfinger.objects.documents import documents
from wharfinger.objects.documents.edit import MIRROR_ANNOTATION, bind_pod
from wharfinger.objects.documents.fields import text
from wharfinger.objects.documents.kinds import plural_of
from wharfinger.objects.documents.pod_requests import PARTS_OF_RESIZE, resize_of
from wharfinger.objects.documents.pod_specs import VOLUMES_READ
from wharfinger.objects.documents.pods import TOPOLOGY_KEY_ANNOTATION
from wharfinger.objects.documents.spelling import READ
from wharfinger.objects.documents.storage import CLASS_ANNOTATION, MIGRATED_PLUGINS, SELECTED_NODE
from wharfinger.objects.model.conditions import DISRUPTION_TARGET, POD_RESIZE_PENDING, POD_SCHEDULED
from wharfinger.objects.model.names import ATTEMPT_ANNOTATION

Kept = Mapping[str, "Kept | None"]
"""Fields that are kept; below None all of it, below a mapping those (of each entry, where there is a list)."""


def _fields(*whole: str, **parts: Kept) -> Kept:
    """These fields as a whole, and of others the parts that are kept of them."""
    return {**dict.fromkeys(whole), **parts}


ANNOTATIONS = frozenset({ATTEMPT_ANNOTATION, TOPOLOGY_KEY_ANNOTATION, MIRROR_ANNOTATION})
"""Annotations that mean something here."""
SENT_TO_EXTENDERS = frozenset({"pods", "nodes"})
"""Kinds whose copies can be whole. Others never are: templates of ReplicaSets have the environment of their pods."""
_CONDITIONS = frozenset({POD_SCHEDULED, DISRUPTION_TARGET, POD_RESIZE_PENDING})
_FINISHED = frozenset({"Succeeded", "Failed"})
_META: Kept = _fields("name", "namespace", "uid", "resourceVersion", "creationTimestamp", "deletionTimestamp", "labels")
_OWNER: Kept = _fields("apiVersion", "kind", "name", "uid", "controller")
_CONTAINER: Kept = _fields("name", "image", "ports", "resources", "restartPolicy", restartPolicyRules=_fields("action"))
_SPEC: Kept = _fields(
    "affinity",
    "hostNetwork",
    "hostUsers",
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
    containers=_CONTAINER,
    initContainers=_CONTAINER,
    volumes=dict.fromkeys(("name", "image", *VOLUMES_READ)),
)
_POD: Kept = _fields(
    metadata={
        **_META,
        **_fields(
            "deletionGracePeriodSeconds", "generation", annotations=dict.fromkeys(ANNOTATIONS), ownerReferences=_OWNER
        ),
    },
    spec=_SPEC,
    status=_fields("phase", "conditions", "nominatedNodeName", "startTime"),
)
_NODE: Kept = _fields(
    metadata=_META,
    spec=_fields("taints", "unschedulable"),
    status=_fields(
        "allocatable", "declaredFeatures", conditions=_fields("type", "status"), images=_fields("names", "sizeBytes")
    ),
)
_SELECTING: Kept = _fields(metadata=_META, spec=_fields("selector"))


@dataclass(frozen=True, slots=True)
class CopiedKind:
    """A kind of which there are copies."""

    kind: str
    api_version: str
    kept: Kept | None
    """What of an object is kept; None = all of it."""

    @property
    def plural(self) -> str:
        """As URLs and keys spell it."""
        return plural_of(self.kind)


_OF_VOLUMES = ("pv.kubernetes.io/bind-completed", SELECTED_NODE, CLASS_ANNOTATION, MIGRATED_PLUGINS)
_ANNOTATED: Kept = {**_META, "annotations": dict.fromkeys(_OF_VOLUMES), "ownerReferences": _OWNER}
_STORAGE_KINDS = (
    CopiedKind(
        "PersistentVolume",
        "v1",
        _fields(
            metadata=_ANNOTATED,
            spec={
                **dict.fromkeys(name for name in READ["core/v1.PersistentVolumeSpec"] if name != "csi"),
                "csi": _fields("driver", "volumeHandle"),
            },
            status=_fields("phase"),
        ),
    ),
    CopiedKind("PersistentVolumeClaim", "v1", _fields("spec", metadata=_ANNOTATED, status=_fields("phase"))),
    CopiedKind(
        "StorageClass",
        "storage.k8s.io/v1",
        _fields(
            "provisioner",
            "volumeBindingMode",
            "allowedTopologies",
            metadata={**_META, "annotations": _fields("storageclass.kubernetes.io/is-default-class")},
        ),
    ),
    CopiedKind("CSINode", "storage.k8s.io/v1", _fields("spec", metadata=_ANNOTATED)),
    CopiedKind("CSIDriver", "storage.k8s.io/v1", _fields(metadata=_META, spec=_fields("storageCapacity"))),
    CopiedKind(
        "CSIStorageCapacity",
        "storage.k8s.io/v1",
        _fields("nodeTopology", "storageClassName", "capacity", "maximumVolumeSize", metadata=_META),
    ),
    CopiedKind(
        "VolumeAttachment",
        "storage.k8s.io/v1",
        _fields(metadata=_META, spec=_fields("attacher", "nodeName", source=_fields("persistentVolumeName"))),
    ),
)
"""Of in-line volumes only what identifies them, and never the secrets that they name."""

COPIED: Mapping[str, CopiedKind] = {
    one.plural: one
    for one in (
        CopiedKind("Pod", "v1", _POD),
        CopiedKind("Node", "v1", _NODE),
        CopiedKind("Namespace", "v1", _fields(metadata=_META)),
        CopiedKind("Service", "v1", _SELECTING),
        CopiedKind(
            "ReplicationController",
            "v1",
            _fields(metadata=_META, spec=_fields("selector", template=_fields(metadata=_fields("labels")))),
        ),
        CopiedKind("ReplicaSet", "apps/v1", _SELECTING),
        CopiedKind("StatefulSet", "apps/v1", _SELECTING),
        CopiedKind(
            "PodDisruptionBudget",
            "policy/v1",
            _fields(metadata=_META, spec=_fields("selector"), status=_fields("disruptionsAllowed", "disruptedPods")),
        ),
        CopiedKind(
            "PriorityClass",
            "scheduling.k8s.io/v1",
            _fields("value", "globalDefault", "preemptionPolicy", metadata=_META),
        ),
        *_STORAGE_KINDS,
        CopiedKind("DeviceClass", "resource.k8s.io/v1", _fields(metadata=_META, spec=_fields("extendedResourceName"))),
        CopiedKind("PodGroup", "", _fields("apiVersion", "spec", metadata=_META)),
    )
}
"""By plural."""


class StateOfCopy(NamedTuple):
    """Which state of which object a copy is."""

    uid: str
    revision: int
    """Its resourceVersion; 0 = it was not copied from an API."""
    group: str = ""
    """Its API group, as the copy says it."""


def copy_of(obj: Mapping[str, Any], plural: str, *, whole: bool = False) -> bytes:
    """The copy of an object as the API prints it. `whole`: of pods and nodes all fields but `managedFields`."""
    kind = COPIED[plural]
    kept = None if whole and plural in SENT_TO_EXTENDERS else kind.kept
    copied = _whole(obj) if kept is None else _kept(obj, kept)
    named = {"apiVersion": kind.api_version, "kind": kind.kind} if kind.api_version else {"kind": kind.kind}
    if plural == "pods":
        _leave_resize(obj, copied)
        _leave_conditions(copied)
    elif plural == "nodes":  # a node that has just registered itself has no room yet, and is no mistake
        copied.setdefault("status", {}).setdefault("allocatable", {})
    return orjson.dumps({**named, **copied})


def copy_of_promised(obj: Mapping[str, Any], *, node: str, attempt: str, now: str, whole: bool = False) -> bytes:
    """The copy of a pod that the API has unbound, on the node that it is promised to."""
    return bind_pod(copy_of(obj, "pods", whole=whole), node_name=node, attempt=attempt, now=now)


def state_of(value: bytes) -> StateOfCopy:
    """Which state a stored copy is. Raises `InvalidObject`."""
    obj = documents.parse(value)
    metadata = obj.get("metadata") if isinstance(obj, dict) else None
    if not isinstance(metadata, dict):
        raise InvalidObject("has no metadata")
    revision = metadata.get("resourceVersion") or "0"
    if not (isinstance(revision, str) and revision.isascii() and revision.isdigit()):
        raise InvalidObject(f"metadata.resourceVersion is {str(revision)[:40]!r}, no number")
    uid = metadata.get("uid") or ""
    return StateOfCopy(uid if isinstance(uid, str) else "", int(revision), text(obj, "apiVersion").rpartition("/")[0])


def group_of(value: bytes) -> str:
    """The API group of a stored copy; empty for the core group, and for a copy that cannot be read."""
    try:
        return state_of(value).group
    except InvalidObject:
        return ""


def means_the_same(one: bytes, other: bytes) -> bool:
    """Whether two copies of a pod differ in nothing that its placement rests on: node, status and revision aside.

    Labels, specification, owners, its group, and whether it is being deleted: a promise holds while they stay.
    """
    return _rests_on(one) == _rests_on(other)


def same_but_revision(one: bytes, other: bytes) -> bool:
    """Whether two copies differ in the revision alone, so that the newer one need not be written."""
    return bool(_without_revision(one) == _without_revision(other))


def is_finished(value: bytes) -> bool:
    """Whether a copy is of a pod that runs no more: such a pod has no copy for long."""
    return (documents.parse(value).get("status") or {}).get("phase") in _FINISHED


def _rests_on(value: bytes) -> tuple[Any, ...]:
    obj = documents.parse(value)
    metadata = obj.get("metadata") or {}
    annotations = {key: text for key, text in (metadata.get("annotations") or {}).items() if key in ANNOTATIONS}
    annotations.pop(ATTEMPT_ANNOTATION, None)
    spec = {key: field for key, field in (obj.get("spec") or {}).items() if key != "nodeName"}
    return (
        metadata.get("uid"),
        metadata.get("labels") or {},
        metadata.get("deletionTimestamp"),
        metadata.get("ownerReferences") or [],
        annotations,
        spec,
    )


def _without_revision(value: bytes) -> Any:
    obj = documents.parse(value)
    metadata = obj.get("metadata")
    if isinstance(metadata, dict):
        metadata.pop("resourceVersion", None)
    return obj


def _kept(obj: Mapping[str, Any], kept: Kept) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, below in kept.items():
        value = obj.get(name)
        if value is None:
            continue
        if below is None:
            found[name] = value
        elif isinstance(value, Mapping):
            found[name] = _kept(value, below)
        elif isinstance(value, list):
            found[name] = [_kept(entry, below) if isinstance(entry, Mapping) else entry for entry in value]
        else:
            found[name] = value
    return found


def _whole(obj: Mapping[str, Any]) -> dict[str, Any]:
    metadata = {key: value for key, value in obj["metadata"].items() if key != "managedFields"}
    return {**obj, "metadata": metadata}


def _leave_resize(obj: Mapping[str, Any], copied: dict[str, Any]) -> None:
    """Of a bound pod's status also what it counts during a resize in place, if that is not what its spec says."""
    if (copied.get("spec") or {}).get("nodeName"):
        status = obj.get("status") or {}
        try:
            resize = resize_of(obj["spec"], status)
        except InvalidObject:  # the decoder refuses the copy for the same reason
            resize = {part: status[part] for part in PARTS_OF_RESIZE if part in status}
        if resize:
            copied["status"] |= resize


def _leave_conditions(copied: dict[str, Any]) -> None:
    """Of a pod only the conditions that are read: kubelets change the others often."""
    status = copied.get("status")
    conditions = status.get("conditions") if isinstance(status, dict) else None
    if isinstance(status, dict) and isinstance(conditions, list):
        status["conditions"] = [one for one in conditions if isinstance(one, dict) and one.get("type") in _CONDITIONS]
