"""Which attached volumes a pod means to a node: the rules of NodeVolumeLimits, of one pod.

Rules of kube-scheduler 1.36 (`plugins/nodevolumelimits`). A volume is counted once a node, however many pods use it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from wharfinger.objects.model.pod import Pod
from wharfinger.objects.model.storage import ClaimKey, CsiNode, PersistentVolumeClaim
from wharfinger.objects.model.storage_index import Storage
from wharfinger.objects.model.volume_matching import is_made_for
from wharfinger.objects.model.volumes import CsiVolume, InTreeVolume

MIGRATED_DRIVERS: Mapping[str, str] = {
    "kubernetes.io/aws-ebs": "ebs.csi.aws.com",
    "kubernetes.io/azure-disk": "disk.csi.azure.com",
    "kubernetes.io/cinder": "cinder.csi.openstack.org",
    "kubernetes.io/gce-pd": "pd.csi.storage.gke.io",
    "kubernetes.io/portworx-volume": "pxd.portworx.com",
}
"""In-tree plugins whose volumes count as those of the drivers that do their work: on every node that has a CSINode,
whether it lists the plugin as migrated or not.
"""
UNCOUNTED = frozenset({"kubernetes.io/azure-file", "kubernetes.io/vsphere-volume"})
"""In-tree plugins that have drivers too, but whose volumes kube-scheduler never counts."""


def volumes_of(pod: Pod, storage: Storage, node: CsiNode | None) -> Iterator[CsiVolume]:
    """The volumes that CSI drivers attach to a node for the pod, some perhaps more than once.

    `node`: the node's CSINode; None = it has none. Claims that do not exist mean none.
    """
    for named in pod.claims:
        claim = storage.claims.get(ClaimKey(pod.namespace, named.name))
        if claim is not None and (not named.ephemeral or is_made_for(pod, claim)):
            volume = volume_of(claim, storage, node)
            if volume is not None:
                yield volume
    for in_line in pod.in_line_volumes:
        if in_line.in_tree is not None:
            volume = _by_driver(in_line.in_tree, node)
            if volume is not None:
                yield volume


def volume_of(claim: PersistentVolumeClaim, storage: Storage, node: CsiNode | None) -> CsiVolume | None:
    """What the claim is to a CSI driver; None for what no driver attaches, or where that is not known."""
    volume = storage.volumes.get(claim.volume_name) if claim.volume_name else None
    if volume is None:
        return _to_be_made(claim, storage, node)
    if volume.csi is not None:
        return volume.csi if volume.csi.driver and volume.csi.handle else None
    return None if volume.in_tree is None else _by_driver(volume.in_tree, node)


def attached_to(node_name: str, storage: Storage) -> Iterator[CsiVolume]:
    """The volumes that VolumeAttachments name for a node."""
    for attachment in storage.attached.get(node_name, ()):
        volume = storage.volumes.get(attachment.volume) if attachment.attacher and attachment.volume else None
        if volume is not None and volume.csi is not None:
            yield CsiVolume(attachment.attacher, volume.csi.handle)


def _by_driver(in_tree: InTreeVolume, node: CsiNode | None) -> CsiVolume | None:
    return in_tree.csi if node is not None and in_tree.plugin in MIGRATED_DRIVERS else None


def _to_be_made(claim: PersistentVolumeClaim, storage: Storage, node: CsiNode | None) -> CsiVolume | None:
    """A claim without a volume counts as one of its class's driver."""
    known = storage.classes.get(claim.storage_class) if claim.storage_class else None
    if known is None or not known.provisioner:
        return None
    driver = known.provisioner
    if driver in UNCOUNTED:
        return None
    if driver in MIGRATED_DRIVERS:
        if node is None:
            return None
        driver = MIGRATED_DRIVERS[driver]
    return CsiVolume(driver, f"claim {claim.key}")  # no driver's handle: those have no blanks before a slash
