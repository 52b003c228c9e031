"""Objects about storage as mappings: volumes, claims, classes, and what CSI drivers say of themselves.

Defaults are those of the API server. A PersistentVolume without a phase counts as Available, and a claim with the
phase Bound as bound: on an etcd without Kubernetes' controllers nobody else would say so.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from wharfinger.errors import InvalidObject
from wharfinger.objects.documents.fields import boolean, integer, mapping, mappings, quantities, text, text_map, texts
from wharfinger.objects.documents.in_tree_volumes import in_tree_volume, migrated_terms
from wharfinger.objects.documents.metadata import (
    METADATA,
    check_kind,
    checked_object,
    object_name,
    object_namespace,
    object_uid,
)
from wharfinger.objects.documents.selectors import label_selector, node_selector
from wharfinger.objects.documents.spelling import SHAPES
from wharfinger.objects.model.quantities import NANO_PER_MILLI
from wharfinger.objects.model.selectors import NodeSelectorTerm, Operator, Requirement
from wharfinger.objects.model.storage import (
    AVAILABLE,
    BOUND,
    FILESYSTEM,
    ClaimKey,
    ClaimReference,
    CsiDriver,
    CsiNode,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageCapacity,
    StorageClass,
    StorageObject,
    VolumeAttachment,
)
from wharfinger.objects.model.volumes import CsiVolume

CLASS_ANNOTATION = "volume.beta.kubernetes.io/storage-class"
BIND_COMPLETED = "pv.kubernetes.io/bind-completed"
SELECTED_NODE = "volume.kubernetes.io/selected-node"
MIGRATED_PLUGINS = "storage.alpha.kubernetes.io/migrated-plugins"
_SPEC = "spec."
_STORAGE = "storage"
_WAITS = "WaitForFirstConsumer"
_MODES = ("Immediate", _WAITS)
_INT32 = 2**31 - 1


def storage_object(given: object, kind: str, default_namespace: str) -> StorageObject:
    """Read an object of one of the `KINDS`; raises `InvalidObject`."""
    group, _, reader = _KINDS[kind]
    obj = checked(given, kind, group, f"{'storage/v1' if '/' in group else 'core/v1'}.{kind}")
    return reader(obj, mapping(obj, "metadata"), default_namespace)


def checked(given: object, kind: str, version: str, shape: str) -> Mapping[str, Any]:
    """An object of this kind and version, whose fields have the spelling and the types of a shape of `SHAPES`.

    Raises `InvalidObject`.
    """
    obj = checked_object(given)
    check_kind(obj, kind, version)
    SHAPES[shape].check_all(obj)
    return obj


def _volume(obj: Mapping[str, Any], metadata: Mapping[str, Any], default_namespace: str) -> PersistentVolume:  # noqa: ARG001
    spec = mapping(obj, "spec")
    labels = text_map(metadata, "labels", METADATA)
    csi = mapping(spec, "csi", _SPEC)
    in_tree = in_tree_volume(spec, _SPEC, labels)
    terms = _node_terms(spec)
    return PersistentVolume(
        object_name(metadata),
        labels,
        _amount(mapping(spec, "capacity", _SPEC).get(_STORAGE), "spec.capacity[storage]") or 0,
        _claim_reference(spec),
        frozenset(texts(spec, "accessModes", _SPEC)),
        _class(metadata, spec),
        text(spec, "volumeMode", _SPEC) or FILESYSTEM,
        text(spec, "volumeAttributesClassName", _SPEC),
        text(mapping(obj, "status"), "phase", "status.") or AVAILABLE,
        bool(text(metadata, "deletionTimestamp", METADATA)),
        over_labels(terms),
        CsiVolume(text(csi, "driver", "spec.csi."), text(csi, "volumeHandle", "spec.csi.")) if csi else None,
        in_tree,
        None if in_tree is None else over_labels(migrated_terms(in_tree.plugin, terms, labels)),
    )


def _claim(obj: Mapping[str, Any], metadata: Mapping[str, Any], default_namespace: str) -> PersistentVolumeClaim:
    spec = mapping(obj, "spec")
    annotations = text_map(metadata, "annotations", METADATA)
    volume_name = text(spec, "volumeName", _SPEC)
    phase = text(mapping(obj, "status"), "phase", "status.")
    requests = mapping(mapping(spec, "resources", _SPEC), "requests", "spec.resources.")
    return PersistentVolumeClaim(
        ClaimKey(object_namespace(metadata, default_namespace), object_name(metadata)),
        object_uid(metadata),
        _owner(metadata),
        _class(metadata, spec),
        volume_name,
        bool(volume_name) and (BIND_COMPLETED in annotations or phase == BOUND),
        phase,
        bool(text(metadata, "deletionTimestamp", METADATA)),
        frozenset(texts(spec, "accessModes", _SPEC)),
        _amount(requests.get(_STORAGE), "spec.resources.requests[storage]"),
        label_selector(spec, "selector", _SPEC),
        text(spec, "volumeMode", _SPEC) or FILESYSTEM,
        text(spec, "volumeAttributesClassName", _SPEC),
        annotations.get(SELECTED_NODE),
    )


def _storage_class(obj: Mapping[str, Any], metadata: Mapping[str, Any], default_namespace: str) -> StorageClass:  # noqa: ARG001
    mode = text(obj, "volumeBindingMode") or _MODES[0]
    if mode not in _MODES:
        raise InvalidObject(f"volumeBindingMode is {mode[:40]!r}, not {' or '.join(_MODES)}")
    topologies = []
    for index, entry in enumerate(mappings(obj, "allowedTopologies")):
        where = f"allowedTopologies[{index}]."
        expressions = mappings(entry, "matchLabelExpressions", where)
        topologies.append(
            tuple(
                [
                    Requirement(
                        text(expression, "key", f"{where}matchLabelExpressions[{number}]."),
                        Operator.IN,
                        texts(expression, "values", f"{where}matchLabelExpressions[{number}]."),
                    )
                    for number, expression in enumerate(expressions)
                ]
            )
        )
    return StorageClass(object_name(metadata), text(obj, "provisioner"), mode == _WAITS, tuple(topologies))


def _csi_node(obj: Mapping[str, Any], metadata: Mapping[str, Any], default_namespace: str) -> CsiNode:  # noqa: ARG001
    limits: dict[str, int | None] = {}
    for index, entry in enumerate(mappings(mapping(obj, "spec"), "drivers", _SPEC)):
        where = f"spec.drivers[{index}]."
        allocatable = mapping(entry, "allocatable", where)
        limits[text(entry, "name", where)] = integer(
            allocatable, "count", f"{where}allocatable.", low=-_INT32 - 1, high=_INT32
        )
    migrated = text_map(metadata, "annotations", METADATA).get(MIGRATED_PLUGINS, "")
    return CsiNode(object_name(metadata), tuple(sorted(limits.items())), frozenset(filter(None, migrated.split(","))))


def _csi_driver(obj: Mapping[str, Any], metadata: Mapping[str, Any], default_namespace: str) -> CsiDriver:  # noqa: ARG001
    return CsiDriver(object_name(metadata), boolean(mapping(obj, "spec"), "storageCapacity", _SPEC))


def _capacity(obj: Mapping[str, Any], metadata: Mapping[str, Any], default_namespace: str) -> StorageCapacity:
    largest = _amount(obj.get("maximumVolumeSize"), "maximumVolumeSize")
    return StorageCapacity(
        object_namespace(metadata, default_namespace),
        object_name(metadata),
        text(obj, "storageClassName"),
        label_selector(obj, "nodeTopology"),
        _amount(obj.get("capacity"), "capacity") if largest is None else largest,
    )


def _attachment(obj: Mapping[str, Any], metadata: Mapping[str, Any], default_namespace: str) -> VolumeAttachment:  # noqa: ARG001
    spec = mapping(obj, "spec")
    return VolumeAttachment(
        object_name(metadata),
        text(spec, "nodeName", _SPEC),
        text(spec, "attacher", _SPEC),
        text(mapping(spec, "source", _SPEC), "persistentVolumeName", "spec.source."),
    )


def over_labels(terms: tuple[NodeSelectorTerm, ...] | None) -> tuple[NodeSelectorTerm, ...] | None:
    """A volume's node affinity as kube-scheduler looks at it: requirements on a node's fields count as met."""
    if terms is None or any(term.fields and not term.expressions for term in terms):
        return None
    return tuple(NodeSelectorTerm(term.expressions) if term.fields else term for term in terms)


def _node_terms(spec: Mapping[str, Any]) -> tuple[NodeSelectorTerm, ...] | None:
    affinity = mapping(spec, "nodeAffinity", _SPEC)
    if affinity.get("required") is None:
        return None
    return node_selector(mapping(affinity, "required", "spec.nodeAffinity."), "spec.nodeAffinity.required.")


def _claim_reference(spec: Mapping[str, Any]) -> ClaimReference | None:
    if spec.get("claimRef") is None:
        return None
    reference, where = mapping(spec, "claimRef", _SPEC), "spec.claimRef."
    key = ClaimKey(text(reference, "namespace", where), text(reference, "name", where))
    return ClaimReference(key, text(reference, "uid", where))


def _class(metadata: Mapping[str, Any], spec: Mapping[str, Any]) -> str:
    """The class's name; the old annotation goes before the field."""
    annotated = text_map(metadata, "annotations", METADATA).get(CLASS_ANNOTATION)
    return text(spec, "storageClassName", _SPEC) if annotated is None else annotated


def _owner(metadata: Mapping[str, Any]) -> tuple[str, str] | None:
    """Name and uid of the pod that controls a claim."""
    for index, entry in enumerate(mappings(metadata, "ownerReferences", METADATA)):
        where = f"{METADATA}ownerReferences[{index}]."
        if boolean(entry, "controller", where):
            of_pod = text(entry, "kind", where) == "Pod"
            return (text(entry, "name", where), text(entry, "uid", where)) if of_pod else None
    return None


def _amount(written: object, path: str) -> int | None:
    """A quantity in thousandths of a byte; None when absent. Raises `InvalidObject`."""
    if written is None:
        return None
    (nanos,) = quantities({"": {path: written}}, "").values()
    return nanos // NANO_PER_MILLI


_KINDS: Mapping[str, tuple[str, type[StorageObject], Callable[..., StorageObject]]] = {
    "PersistentVolume": ("v1", PersistentVolume, _volume),
    "PersistentVolumeClaim": ("v1", PersistentVolumeClaim, _claim),
    "StorageClass": ("storage.k8s.io/v1", StorageClass, _storage_class),
    "CSINode": ("storage.k8s.io/v1", CsiNode, _csi_node),
    "CSIDriver": ("storage.k8s.io/v1", CsiDriver, _csi_driver),
    "CSIStorageCapacity": ("storage.k8s.io/v1", StorageCapacity, _capacity),
    "VolumeAttachment": ("storage.k8s.io/v1", VolumeAttachment, _attachment),
}
"""Of each kind that is read here: its API version, what it is read as, and its reader."""
GROUPS: Mapping[str, str] = {kind: group for kind, (group, _, _) in _KINDS.items()}
"""The kinds that are read here, and their API versions."""
TYPES: Mapping[str, type[StorageObject]] = {kind: what for kind, (_, what, _) in _KINDS.items()}
"""What each kind is read as."""
