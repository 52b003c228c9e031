"""Volumes of pods, claims, persistent volumes and storage classes."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from wharfinger.objects.documents.checks import metadata
from wharfinger.objects.documents.checks.metadata import (
    check_annotations,
    check_label_selector,
    check_labels,
)
from wharfinger.objects.documents.checks.place import FieldPlace
from wharfinger.objects.documents.checks.resources import nanos, shown
from wharfinger.objects.documents.checks.scheduling import check_node_selector
from wharfinger.objects.documents.kubernetes_fields import kubernetes_fields

_ACCESS_MODES = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")
_ALONE = "ReadWriteOncePod"
_MODES = ("Block", "Filesystem")
_NEEDED: Mapping[str, tuple[str, ...]] = {
    "awsElasticBlockStore": ("volumeID",),
    "configMap": ("name",),
    "csi": ("driver",),
    "gcePersistentDisk": ("pdName",),
    "hostPath": ("path",),
    "local": ("path",),
    "nfs": ("server", "path"),
    "persistentVolumeClaim": ("claimName",),
    "secret": ("secretName",),
}
"""What a volume of a type has to say."""
_NO_SOURCES = {
    "accessModes",
    "capacity",
    "claimRef",
    "mountOptions",
    "nodeAffinity",
    "persistentVolumeReclaimPolicy",
    "storageClassName",
    "volumeAttributesClassName",
    "volumeMode",
}
"""Fields of a PersistentVolume's specification that are no type."""
_ONE_TYPE = "may not specify more than 1 volume type"


def check_volumes(volumes: FieldPlace, pod_name: str = "") -> set[str]:
    """The volumes of a pod; answers the names of those that are right. `pod_name`: empty for a template."""
    names: set[str] = set()
    made = {f"{pod_name}-{one['name'].text}" for one in volumes.entries() if one["ephemeral"].given and pod_name}
    for volume in volumes.entries():
        before, name = len(volume.problems), volume["name"]
        _check_volume(volume, made)
        if not name.text:
            name.required()
        else:
            name.each(metadata.dns_label(name.text))
        if name.text in names:
            name.duplicate()
        if len(volume.problems) == before:
            names.add(name.text)
    return names


def _check_volume(volume: FieldPlace, made: Collection[str]) -> None:
    _check_source(volume, kubernetes_fields().types["core/v1.Volume"].keys() - {"name"})
    if volume["ephemeral"].given:
        template = volume["ephemeral"]["volumeClaimTemplate"]
        if template.given:
            check_labels(template["metadata"]["labels"])
            check_annotations(template["metadata"]["annotations"])
            check_claim_spec(template["spec"])
        else:
            template.required()
    claim = volume["persistentVolumeClaim"]["claimName"]
    if claim.text in made:
        claim.invalid("must not reference a PVC that gets created for an ephemeral volume")
    limit = volume["emptyDir"]["sizeLimit"]
    if limit.given and nanos(limit.value) < 0:
        limit.forbidden("SizeLimit field must be a valid resource quantity")


def _check_source(volume: FieldPlace, types: Collection[str]) -> None:
    """At most one type, with what that type needs. A pod's volume without a type is an empty folder."""
    given = [volume[field] for field in sorted(types) if volume[field].given]
    for source in given[1:]:
        source.forbidden(_ONE_TYPE)
    for source in given[:1]:
        for field in _NEEDED.get(source.path.rpartition(".")[2], ()):
            if not source[field].text:
                source[field].required()


def check_claim(claim: FieldPlace) -> None:
    """A PersistentVolumeClaim."""
    check_claim_spec(claim["spec"])


def check_claim_spec(spec: FieldPlace) -> None:
    """The specification of a claim, also of one in a template."""
    modes = spec["accessModes"]
    if not modes.entries():
        modes.required("at least 1 access mode is required")
    check_label_selector(spec["selector"])
    _check_access_modes(modes)
    resources = spec["resources"]
    storage = resources["requests"].map.get("storage")
    place = resources.renamed(f"{resources.path}[storage]", storage)  # without `requests`, as in Kubernetes
    if storage is None:
        place.required()
    elif nanos(storage) <= 0:
        place.invalid("must be greater than zero", shown(storage))
    _check_class(spec["storageClassName"])
    spec["volumeMode"].one_of(*_MODES)
    for source in (spec["dataSource"], spec["dataSourceRef"]):
        for field in ("kind", "name") if source.given else ():
            if not source[field].text:
                source[field].required()


def check_volume(volume: FieldPlace) -> None:
    """A PersistentVolume."""
    spec = volume["spec"]
    modes, capacity, nodes = spec["accessModes"], spec["capacity"], spec["nodeAffinity"]
    if not modes.entries():
        modes.required()
    _check_access_modes(modes)
    if not capacity.map:
        capacity.required()
    if set(capacity.map) != {"storage"}:
        capacity.unsupported(("storage",))
    for _, amount in capacity.pairs():
        if nanos(amount.value) <= 0:
            amount.invalid("must be greater than zero", shown(amount.value))
    spec["persistentVolumeReclaimPolicy"].one_of("Delete", "Recycle", "Retain")
    if nodes.given:
        if nodes["required"].given:
            check_node_selector(nodes["required"])
        else:
            nodes["required"].required("must specify required node constraints")
    types = kubernetes_fields().types["core/v1.PersistentVolumeSpec"].keys() - _NO_SOURCES
    _check_source(spec, types)
    if not any(spec[field].given for field in types):
        spec.required("must specify a volume type")
    if spec["local"].given and not nodes.given:
        nodes.required("Local volume requires node affinity")
    if spec["csi"].given and not spec["csi"]["volumeHandle"].text:
        spec["csi"]["volumeHandle"].required()
    _check_class(spec["storageClassName"])
    spec["volumeMode"].one_of(*_MODES)


def check_storage_class(storage_class: FieldPlace) -> None:
    """A StorageClass."""
    provisioner = storage_class["provisioner"]
    if provisioner.text:
        provisioner.each(metadata.label_key(provisioner.text.lower()), provisioner.text.lower())
    else:
        provisioner.required()
    storage_class["reclaimPolicy"].one_of("Delete", "Retain")
    storage_class["volumeBindingMode"].one_of("Immediate", "WaitForFirstConsumer")
    for term in storage_class["allowedTopologies"].entries():
        keys: set[str] = set()
        for requirement in term["matchLabelExpressions"].entries():
            _check_topology(requirement)
            if requirement["key"].text in keys:
                requirement["key"].duplicate()
            keys.add(requirement["key"].text)


def _check_topology(requirement: FieldPlace) -> None:
    values = requirement["values"]
    if not values.entries():
        values.required()
    seen: set[str] = set()
    for value in values.entries():
        if value.text in seen:
            value.duplicate()
        seen.add(value.text)
    requirement["key"].each(metadata.label_key(requirement["key"].text), requirement["key"].text)


def _check_access_modes(modes: FieldPlace) -> None:
    found = [mode.text for mode in modes.entries()]
    for mode in found:
        if mode not in _ACCESS_MODES:
            modes.at(mode).unsupported(_ACCESS_MODES)
    if _ALONE in found and any(mode in _ACCESS_MODES and mode != _ALONE for mode in found):
        modes.forbidden("may not use ReadWriteOncePod with other access modes")


def _check_class(name: FieldPlace) -> None:
    if name.text:
        name.each(metadata.dns_subdomain(name.text))
