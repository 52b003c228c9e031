"""Volumes that name their storage in the old way, and what they are to the CSI drivers that took the plugins' place.

The same for volumes of pods and for PersistentVolumes, whose node affinity has to be told in the driver's labels.
Rules of `k8s.io/csi-translation-lib` 0.36. A volume that it cannot translate is not counted.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any
from urllib.parse import urlsplit

from wharfinger.objects.documents.fields import mapping, text
from wharfinger.objects.model.selectors import NodeSelectorTerm, Operator, Requirement
from wharfinger.objects.model.volume_limits import MIGRATED_DRIVERS
from wharfinger.objects.model.volumes import CsiVolume, InTreeVolume

ZONE = "topology.kubernetes.io/zone"
REGION = "topology.kubernetes.io/region"
BETA_ZONE = "failure-domain.beta.kubernetes.io/zone"
BETA_REGION = "failure-domain.beta.kubernetes.io/region"
BETWEEN_ZONES = "__"
_UNSPECIFIED = "UNSPECIFIED"
_EBS_VOLUME = re.compile(r"vol-[^/]*")

_PLUGINS: Mapping[str, tuple[str, str]] = {
    "awsElasticBlockStore": ("kubernetes.io/aws-ebs", "volumeID"),
    "azureDisk": ("kubernetes.io/azure-disk", "diskURI"),
    "azureFile": ("kubernetes.io/azure-file", ""),
    "cinder": ("kubernetes.io/cinder", "volumeID"),
    "gcePersistentDisk": ("kubernetes.io/gce-pd", "pdName"),
    "portworxVolume": ("kubernetes.io/portworx-volume", "volumeID"),
    "vsphereVolume": ("kubernetes.io/vsphere-volume", ""),
}
"""By the field that names the storage: the plugin, and the field below it that becomes the driver's handle."""
SOURCES = tuple(_PLUGINS)
_TOPOLOGIES: Mapping[str, str] = {
    "kubernetes.io/aws-ebs": "topology.ebs.csi.aws.com/zone",
    "kubernetes.io/cinder": "topology.cinder.csi.openstack.org/zone",
    "kubernetes.io/gce-pd": "topology.gke.io/zone",
}
"""The label that drivers put on nodes in the place of Kubernetes' zone."""


def in_tree_volume(
    holder: Mapping[str, Any], where: str, labels: Mapping[str, str] | None = None
) -> InTreeVolume | None:
    """The in-tree source that a mapping has, None without one. `labels`: of the PersistentVolume it belongs to."""
    for field, (plugin, handle) in _PLUGINS.items():
        if holder.get(field) is None:
            continue
        source = mapping(holder, field, where)
        name = text(source, handle, f"{where}{field}.") if handle else ""
        kind = text(source, "kind", f"{where}{field}.") if field == "azureDisk" else ""
        found = _handle(plugin, name, kind, labels or {})
        return InTreeVolume(plugin, None if found is None else CsiVolume(MIGRATED_DRIVERS[plugin], found))
    return None


def _handle(plugin: str, name: str, kind: str, labels: Mapping[str, str]) -> str | None:
    """The driver's handle of a disk; None where there is none."""
    match plugin:
        case "kubernetes.io/aws-ebs":
            return _ebs_handle(name)
        case "kubernetes.io/azure-disk":
            return name if kind.lower() in ("", "managed") else None
        case "kubernetes.io/gce-pd":
            return _gce_handle(name, labels)
        case _:
            return name if plugin in MIGRATED_DRIVERS else None


def _ebs_handle(name: str) -> str | None:
    """Of `aws://<zone>/<id>`, `aws:///<id>` or the id alone."""
    if not name.startswith("aws://"):
        return name
    try:
        found = urlsplit(name).path.strip("/")
    except ValueError:
        return None
    return found if _EBS_VOLUME.fullmatch(found) else None


def _gce_handle(name: str, labels: Mapping[str, str]) -> str | None:
    zones = (labels.get(BETA_ZONE) or labels.get(ZONE, "")).split(BETWEEN_ZONES)
    if len(zones) == 1:
        return f"projects/{_UNSPECIFIED}/zones/{zones[0] or _UNSPECIFIED}/disks/{name}"
    regions = {zone.rpartition("-")[0] if zone.count("-") == 2 else "" for zone in zones}
    if len(regions) > 1 or "" in regions:
        return None
    return f"projects/{_UNSPECIFIED}/regions/{regions.pop()}/disks/{name}"


def migrated_terms(
    plugin: str, terms: tuple[NodeSelectorTerm, ...] | None, labels: Mapping[str, str]
) -> tuple[NodeSelectorTerm, ...] | None:
    """A PersistentVolume's node affinity as it holds on nodes where the plugin is migrated.

    The zone is the driver's label there. One that only the volume's labels name becomes a requirement, too.
    """
    topology = _TOPOLOGIES.get(plugin)
    if topology is None:
        return terms
    zone, region = _labels_in_use(terms or (), labels)
    if any(each.key == zone and each.values for term in terms or () for each in term.expressions):
        terms = _renamed(terms or (), zone, topology)
    elif labels.get(zone) is not None:
        zones = sorted({one.strip() for one in labels[zone].split(BETWEEN_ZONES)} - {""})
        if zones:
            added = Requirement(topology, Operator.IN, tuple(zones))
            terms = tuple(
                replace(term, expressions=(*term.expressions, added)) for term in terms or (NodeSelectorTerm(),)
            )
    return _renamed(terms, region, REGION) if terms is not None and region == BETA_REGION else terms


def _labels_in_use(terms: tuple[NodeSelectorTerm, ...], labels: Mapping[str, str]) -> tuple[str, str]:
    """Under which names the volume has its zone and its region."""
    keys = {each.key for term in terms for each in term.expressions}
    for named in (keys, labels):
        if ZONE in named:
            return ZONE, REGION
        if BETA_ZONE in named:
            return BETA_ZONE, BETA_REGION
    return ZONE, REGION


def _renamed(terms: tuple[NodeSelectorTerm, ...], old: str, new: str) -> tuple[NodeSelectorTerm, ...]:
    return tuple(
        replace(
            term,
            expressions=tuple(replace(each, key=new) if each.key == old else each for each in term.expressions),
        )
        for term in terms
    )
