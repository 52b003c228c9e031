"""The objects about storage that scheduling reads, beside pods and nodes.

Amounts are whole thousandths of a byte, because a quantity may have three decimals and is compared exactly; where
Kubernetes compares whole bytes, `whole_bytes` rounds up as it does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias, get_args

from wharfinger.objects.model.pod import NO_LABELS
from wharfinger.objects.model.selectors import LabelSelector, NodeSelectorTerm, Requirement
from wharfinger.objects.model.volumes import CsiVolume, InTreeVolume

READ_WRITE_ONCE_POD = "ReadWriteOncePod"
FILESYSTEM = "Filesystem"
AVAILABLE = "Available"
BOUND = "Bound"
LOST = "Lost"
NO_PROVISIONER = "kubernetes.io/no-provisioner"
"""The provisioner of classes whose volumes are all made beforehand."""


class ClaimKey(NamedTuple):
    """Where a claim lies; sorts by namespace, then name."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class ClaimReference:
    """The claim that a volume is kept for, or bound to (`spec.claimRef`)."""

    key: ClaimKey
    uid: str = ""
    """Empty = any claim of this name."""


@dataclass(frozen=True, slots=True)
class PersistentVolume:
    """A PersistentVolume."""

    name: str
    labels: Mapping[str, str] = field(default_factory=lambda: NO_LABELS)
    capacity: int = 0
    claim: ClaimReference | None = None
    access_modes: frozenset[str] = frozenset()
    storage_class: str = ""
    mode: str = FILESYSTEM
    attributes_class: str = ""
    """`spec.volumeAttributesClassName`."""
    phase: str = AVAILABLE
    deleting: bool = False
    node_terms: tuple[NodeSelectorTerm, ...] | None = None
    """ORed, over labels alone; None = it can be reached from every node."""
    csi: CsiVolume | None = None
    in_tree: InTreeVolume | None = None
    migrated_terms: tuple[NodeSelectorTerm, ...] | None = None
    """Of one with `in_tree`: what holds in the place of `node_terms` on nodes where its plugin is migrated."""

    def is_bound_to(self, claim: PersistentVolumeClaim) -> bool:
        """Whether it is kept for this claim, or bound to it."""
        kept = self.claim
        return kept is not None and kept.key == claim.key and kept.uid in ("", claim.uid)


@dataclass(frozen=True, slots=True)
class PersistentVolumeClaim:
    """A PersistentVolumeClaim."""

    key: ClaimKey
    uid: str = ""
    owner: tuple[str, str] | None = None
    """Name and uid of the pod that controls it; None when no pod does."""
    storage_class: str = ""
    volume_name: str = ""
    bound: bool = False
    """Whether binding is complete: it has a volume, and that is no mere wish."""
    phase: str = ""
    deleting: bool = False
    access_modes: frozenset[str] = frozenset()
    request: int | None = None
    """None = it asks for no size at all."""
    selector: LabelSelector | None = None
    mode: str = FILESYSTEM
    attributes_class: str = ""
    selected_node: str | None = None
    """Where its volume is to be provisioned (the annotation `volume.kubernetes.io/selected-node`)."""

    @property
    def namespace(self) -> str:
        """Its namespace."""
        return self.key.namespace

    @property
    def name(self) -> str:
        """Its name."""
        return self.key.name


@dataclass(frozen=True, slots=True)
class StorageClass:
    """A StorageClass."""

    name: str
    provisioner: str = ""
    waits: bool = False
    """Whether volumeBindingMode is WaitForFirstConsumer: a volume is chosen when a pod is placed."""
    allowed_topologies: tuple[tuple[Requirement, ...], ...] = ()
    """Terms over a node's labels, ORed; empty = anywhere. A term without requirements matches nothing."""


@dataclass(frozen=True, slots=True)
class CsiNode:
    """A CSINode: what CSI drivers can do on the node of the same name."""

    name: str
    limits: tuple[tuple[str, int | None], ...] = ()
    """Drivers, sorted, and how many volumes of each may be attached; None = no limit is known."""
    migrated: frozenset[str] = frozenset()
    """In-tree plugins whose volumes are handled by CSI drivers here."""


@dataclass(frozen=True, slots=True)
class CsiDriver:
    """A CSIDriver."""

    name: str
    storage_capacity: bool = False
    """Whether it publishes how much room there is, and provisioning has to mind it."""


@dataclass(frozen=True, slots=True)
class StorageCapacity:
    """A CSIStorageCapacity: how much room there is for volumes of a class, as seen from some nodes."""

    namespace: str
    name: str
    storage_class: str = ""
    topology: LabelSelector | None = None
    """From which nodes; None = from none."""
    limit: int | None = None
    """The largest volume that can be made, if that is known, else all that is free; None = unknown, which is none."""


@dataclass(frozen=True, slots=True)
class VolumeAttachment:
    """A VolumeAttachment: a volume that is attached to a node, or is going to be."""

    name: str
    node: str = ""
    attacher: str = ""
    """The CSI driver."""
    volume: str = ""
    """The PersistentVolume; empty for an in-line volume."""


StorageObject: TypeAlias = (
    PersistentVolume | PersistentVolumeClaim | StorageClass | CsiNode | CsiDriver | StorageCapacity | VolumeAttachment
)
STORAGE_TYPES: frozenset[type[object]] = frozenset(get_args(StorageObject))


def whole_bytes(amount: int) -> int:
    """Thousandths of a byte in bytes, rounded up."""
    return -(-amount // 1000)
