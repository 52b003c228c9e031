"""The volumes of a `v1.PodSpec`: the claims they use, and the disks they name themselves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from wharfinger.errors import InvalidObject
from wharfinger.manifests.fields import boolean, mapping, mappings, text, texts
from wharfinger.manifests.in_tree_volumes import SOURCES, in_tree_volume
from wharfinger.manifests.spelling import SHAPES
from wharfinger.model.names import is_dns_label
from wharfinger.model.volumes import DiskKind, ExclusiveDisk, InLineVolume, PodClaim

_VOLUMES = "spec.volumes"
_CLAIM = SHAPES["core/v1.PersistentVolumeClaimVolumeSource"]
_RBD_POOL = "rbd"
CLAIM_VOLUMES = ("persistentVolumeClaim", "ephemeral")
IN_LINE = tuple(sorted({*SOURCES, *DiskKind}))
"""Fields of a volume whose disks are read here."""


def claims_of(spec: Mapping[str, Any], pod_name: str) -> tuple[PodClaim, ...]:
    """The claims that a pod's volumes use, each once, in the order of its volumes.

    That of an ephemeral volume is named after the pod and the volume. Raises `InvalidObject`.
    """
    if not spec.get("volumes"):
        return ()
    found: dict[PodClaim, None] = {}
    for index, volume in enumerate(mappings(spec, "volumes", "spec.")):
        if volume.get("persistentVolumeClaim") is not None:
            where = f"{_VOLUMES}[{index}]."
            source = mapping(volume, "persistentVolumeClaim", where)
            where = f"{where}persistentVolumeClaim."
            _CLAIM.check(source, where)
            found[PodClaim(text(source, "claimName", where))] = None
        elif volume.get("ephemeral") is not None:
            where = f"{_VOLUMES}[{index}]."
            mapping(volume, "ephemeral", where)
            name = text(volume, "name", where)
            if not is_dns_label(name):
                raise InvalidObject(f"{where}name {name[:80]!r} is no DNS label, and its claim is named after it")
            found[PodClaim(f"{pod_name}-{name}", ephemeral=True)] = None
    return tuple(found)


def in_line_volumes(spec: Mapping[str, Any]) -> tuple[InLineVolume, ...]:
    """The disks that the pod's volumes name themselves, of the kinds in `IN_LINE`; raises `InvalidObject`."""
    if not spec.get("volumes"):
        return ()
    found = []
    for index, volume in enumerate(mappings(spec, "volumes", "spec.")):
        if any(volume.get(field) is not None for field in IN_LINE):
            where = f"{_VOLUMES}[{index}]."
            found.append(InLineVolume(_disk(volume, where), in_tree_volume(volume, where)))
    return tuple(found)


def _disk(volume: Mapping[str, Any], where: str) -> ExclusiveDisk | None:
    for kind in DiskKind:
        if volume.get(kind) is None:
            continue
        source = mapping(volume, kind, where)
        where = f"{where}{kind}."
        identity: tuple[str, ...]
        monitors: tuple[str, ...] = ()
        match kind:
            case DiskKind.GCE_PERSISTENT_DISK:
                identity = (text(source, "pdName", where),)
            case DiskKind.AWS_ELASTIC_BLOCK_STORE:
                identity = (text(source, "volumeID", where),)
            case DiskKind.ISCSI:
                identity = (text(source, "iqn", where),)
            case DiskKind.RBD:
                identity = (text(source, "pool", where) or _RBD_POOL, text(source, "image", where))
                monitors = texts(source, "monitors", where)
        return ExclusiveDisk(kind, identity, boolean(source, "readOnly", where), frozenset(monitors))
    return None
