"""What a pod asks for that this version cannot honour: such a pod is refused, never placed wrongly."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from wharfinger.manifests.fields import mappings, sequence

CLAIMS = "volume claims"
EXCLUSIVE_DISKS = "exclusive disks"
RESOURCE_CLAIMS = "resource claims"

_CLAIM_VOLUMES = ("persistentVolumeClaim", "ephemeral")
_EXCLUSIVE_VOLUMES = ("gcePersistentDisk", "awsElasticBlockStore", "rbd", "iscsi")
"""Disks of which kube-scheduler allows one user a node."""
VOLUMES_READ = _CLAIM_VOLUMES + _EXCLUSIVE_VOLUMES
"""Kinds of volumes that mean something here."""


def unsupported_features(spec: Mapping[str, Any]) -> tuple[str, ...]:
    """The features in words, in a fixed order."""
    found = []
    volumes = mappings(spec, "volumes", "spec.")
    if _any_volume(volumes, _CLAIM_VOLUMES):
        found.append(CLAIMS)
    if _any_volume(volumes, _EXCLUSIVE_VOLUMES):
        found.append(EXCLUSIVE_DISKS)
    if sequence(spec, "resourceClaims", "spec."):
        found.append(RESOURCE_CLAIMS)
    return tuple(found)


def _any_volume(volumes: Sequence[Mapping[str, Any]], kinds: tuple[str, ...]) -> bool:
    return any(volume.get(kind) is not None for volume in volumes for kind in kinds)
