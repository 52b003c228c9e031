"""The volumes of a pod, as far as scheduling reads them: claims, and disks that the pod itself names.

The objects that claims lead to are in `storage`; who may have which is decided by `volume_matching`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple


class PodClaim(NamedTuple):
    """A PersistentVolumeClaim that a volume of a pod uses, in the pod's namespace."""

    name: str
    ephemeral: bool = False
    """Whether it is made for the pod (`<pod>-<volume>`), and has to be owned by it."""


class CsiVolume(NamedTuple):
    """A volume as its CSI driver knows it."""

    driver: str
    handle: str


class DiskKind(StrEnum):
    """In-line disks of which a node holds one for each user, as VolumeRestrictions has it."""

    GCE_PERSISTENT_DISK = "gcePersistentDisk"
    AWS_ELASTIC_BLOCK_STORE = "awsElasticBlockStore"
    ISCSI = "iscsi"
    RBD = "rbd"


@dataclass(frozen=True, slots=True)
class ExclusiveDisk:
    """An in-line disk; two pods on one node may share it at most where both only read it."""

    kind: DiskKind
    identity: tuple[str, ...]
    """The name of a GCE disk, the id of an EBS volume, the IQN of an iSCSI target, pool and image of an RBD."""
    read_only: bool = False
    monitors: frozenset[str] = frozenset()
    """Of an RBD: two with the same pool and image are one disk if they share a monitor."""

    def conflicts(self, other: ExclusiveDisk) -> bool:
        """Whether two pods with these may not be on one node."""
        if self.kind is not other.kind or self.identity != other.identity:
            return False
        if self.kind is DiskKind.AWS_ELASTIC_BLOCK_STORE:
            return True  # whoever only reads it, too
        if self.kind is DiskKind.RBD and self.monitors.isdisjoint(other.monitors):
            return False
        return not (self.read_only and other.read_only)


@dataclass(frozen=True, slots=True)
class InTreeVolume:
    """A volume that names its storage in the old way, without a CSI driver.

    The CSI driver that took the plugin's place does the work, and the volume counts as its.
    """

    plugin: str
    """`kubernetes.io/aws-ebs`, ..."""
    csi: CsiVolume | None = None
    """What it is to the driver; None for plugins whose volumes kube-scheduler does not count."""


@dataclass(frozen=True, slots=True)
class InLineVolume:
    """A disk that a pod names in its own specification."""

    disk: ExclusiveDisk | None = None
    """None for kinds that any number of pods may use."""
    in_tree: InTreeVolume | None = None
    """None for kinds without a CSI driver to migrate to."""
