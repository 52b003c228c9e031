"""Volumes, claims and classes as Kubernetes keeps them, as scheduling reads them."""

from __future__ import annotations

from typing import Any

import pytest

from tests.objects.documents.manifests import pod_manifest, raw
from wharfinger.errors import InvalidObject
from wharfinger.objects.documents.decode import decode_surrounding, pod_from_mapping, surrounding_from_mapping
from wharfinger.objects.documents.storage import GROUPS, TYPES
from wharfinger.objects.model.selectors import LabelSelector, NodeSelectorTerm, Operator, Requirement
from wharfinger.objects.model.storage import (
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
from wharfinger.objects.model.volumes import CsiVolume, DiskKind, ExclusiveDisk, InLineVolume, InTreeVolume, PodClaim

GIB = 1000 << 30
ZONE_A = Requirement("topology.kubernetes.io/zone", Operator.IN, ("a",))


def read(kind: str, *, metadata: dict[str, Any] | None = None, **parts: Any) -> StorageObject:
    obj = {"apiVersion": GROUPS[kind], "kind": kind, "metadata": {"name": "one", **(metadata or {})}, **parts}
    found = surrounding_from_mapping(obj, kind, default_namespace="shop")
    assert isinstance(found, TYPES[kind])
    assert decode_surrounding(raw(obj), kind, namespace="shop" if "namespace" in obj["metadata"] else "") is not None
    return found  # type: ignore[return-value]


def read_volume(metadata: dict[str, Any] | None = None, **spec: Any) -> PersistentVolume:
    found = read("PersistentVolume", metadata=metadata, spec=spec)
    assert isinstance(found, PersistentVolume)
    return found


def read_claim(metadata: dict[str, Any] | None = None, status: Any = None, **spec: Any) -> PersistentVolumeClaim:
    found = read("PersistentVolumeClaim", metadata=metadata, spec=spec, status=status)
    assert isinstance(found, PersistentVolumeClaim)
    return found


def affinity(*terms: Any) -> dict[str, Any]:
    return {"required": {"nodeSelectorTerms": list(terms)}}


IN_ZONE = {"matchExpressions": [{"key": ZONE_A.key, "operator": "In", "values": ["a"]}]}


class TestPersistentVolumes:
    def test_a_whole_one(self) -> None:
        found = read(
            "PersistentVolume",
            metadata={"labels": {"speed": "fast"}, "deletionTimestamp": "2026-01-01T00:00:00Z"},
            spec={
                "capacity": {"storage": "2Gi"},
                "accessModes": ["ReadWriteOnce", "ReadOnlyMany"],
                "storageClassName": "fast",
                "volumeMode": "Block",
                "volumeAttributesClassName": "gold",
                "claimRef": {"namespace": "shop", "name": "data", "uid": "u"},
                "csi": {"driver": "d", "volumeHandle": "h"},
                "nodeAffinity": affinity(IN_ZONE),
            },
            status={"phase": "Bound"},
        )

        assert found == PersistentVolume(
            "one",
            {"speed": "fast"},
            2 * GIB,
            ClaimReference(ClaimKey("shop", "data"), "u"),
            frozenset({"ReadWriteOnce", "ReadOnlyMany"}),
            "fast",
            "Block",
            "gold",
            "Bound",
            True,
            (NodeSelectorTerm((ZONE_A,)),),
            CsiVolume("d", "h"),
        )

    def test_defaults_are_those_of_the_api_server(self) -> None:
        assert read_volume() == PersistentVolume("one")

    def test_without_a_phase_it_counts_as_available(self) -> None:
        """On an etcd without Kubernetes' controllers nobody else would say so."""
        assert read_volume().phase == "Available"

    def test_the_old_annotation_names_the_class(self) -> None:
        annotations = {"volume.beta.kubernetes.io/storage-class": "old"}

        assert read_volume({"annotations": annotations}, storageClassName="new").storage_class == "old"

    @pytest.mark.parametrize(("written", "amount"), [("1", 1000), ("1500m", 1500), ("1k", 10**6), ("0.1m", 1)])
    def test_amounts_are_exact(self, written: str, amount: int) -> None:
        assert read_volume(capacity={"storage": written}).capacity == amount

    def test_requirements_on_fields_of_nodes_count_as_met(self) -> None:
        """As in kube-scheduler, which looks at the node's labels alone."""
        field = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}

        assert read_volume(nodeAffinity=affinity({**IN_ZONE, **field})).node_terms == (NodeSelectorTerm((ZONE_A,)),)
        assert read_volume(nodeAffinity=affinity(IN_ZONE, field)).node_terms is None
        assert read_volume(nodeAffinity=affinity()).node_terms == ()


class TestClaims:
    def test_a_whole_one(self) -> None:
        found = read(
            "PersistentVolumeClaim",
            metadata={
                "namespace": "shop",
                "uid": "u",
                "annotations": {
                    "pv.kubernetes.io/bind-completed": "yes",
                    "volume.kubernetes.io/selected-node": "n1",
                },
                "deletionTimestamp": "2026-01-01T00:00:00Z",
                "ownerReferences": [{"kind": "Pod", "name": "web", "uid": "p", "controller": True}],
            },
            spec={
                "accessModes": ["ReadWriteOncePod"],
                "resources": {"requests": {"storage": "1Gi"}},
                "storageClassName": "fast",
                "volumeMode": "Block",
                "volumeAttributesClassName": "gold",
                "volumeName": "v",
                "selector": {"matchLabels": {"speed": "fast"}},
            },
            status={"phase": "Bound"},
        )

        assert found == PersistentVolumeClaim(
            ClaimKey("shop", "one"),
            "u",
            ("web", "p"),
            "fast",
            "v",
            True,
            "Bound",
            True,
            frozenset({"ReadWriteOncePod"}),
            GIB,
            LabelSelector((Requirement("speed", Operator.IN, ("fast",)),)),
            "Block",
            "gold",
            "n1",
        )

    def test_defaults_are_those_of_the_api_server(self) -> None:
        assert read_claim() == PersistentVolumeClaim(ClaimKey("shop", "one"))

    @pytest.mark.parametrize(
        ("volume", "completed", "phase", "bound"),
        [("v", True, "", True), ("v", False, "", False), ("v", False, "Bound", True), ("", True, "Bound", False)],
    )
    def test_it_is_bound_when_that_is_complete(self, volume: str, completed: bool, phase: str, bound: bool) -> None:
        annotations = {"pv.kubernetes.io/bind-completed": ""} if completed else {}

        assert read_claim({"annotations": annotations}, {"phase": phase}, volumeName=volume).bound is bound

    @pytest.mark.parametrize(
        "owner",
        [
            {"kind": "Pod", "name": "web", "uid": "p"},
            {"kind": "StatefulSet", "name": "web", "uid": "p", "controller": True},
        ],
        ids=["no controller", "no pod"],
    )
    def test_other_owners_do_not_count(self, owner: dict[str, Any]) -> None:
        assert read_claim({"ownerReferences": [owner]}).owner is None

    def test_an_empty_selected_node_is_one(self) -> None:
        assert read_claim({"annotations": {"volume.kubernetes.io/selected-node": ""}}).selected_node == ""


def test_storage_classes() -> None:
    topology = {"matchLabelExpressions": [{"key": ZONE_A.key, "values": ["a"]}]}

    assert read("StorageClass") == StorageClass("one")
    assert read(
        "StorageClass", provisioner="d", volumeBindingMode="WaitForFirstConsumer", allowedTopologies=[topology, {}]
    ) == StorageClass("one", "d", waits=True, allowed_topologies=((ZONE_A,), ()))
    assert read("StorageClass", volumeBindingMode="Immediate") == StorageClass("one")
    with pytest.raises(InvalidObject, match="volumeBindingMode is 'Later'"):
        read("StorageClass", volumeBindingMode="Later")


def test_csi_nodes_and_drivers() -> None:
    annotations = {"storage.alpha.kubernetes.io/migrated-plugins": "kubernetes.io/cinder,kubernetes.io/gce-pd"}
    drivers = [{"name": "b", "allocatable": {"count": 3}}, {"name": "a"}]

    assert read("CSINode", metadata={"annotations": annotations}, spec={"drivers": drivers}) == CsiNode(
        "one", (("a", None), ("b", 3)), frozenset({"kubernetes.io/cinder", "kubernetes.io/gce-pd"})
    )
    assert read("CSINode") == CsiNode("one")
    assert read("CSIDriver", spec={"storageCapacity": True}) == CsiDriver("one", storage_capacity=True)
    assert read("CSIDriver", spec={}) == CsiDriver("one")


def test_of_a_capacity_the_largest_volume_counts_if_it_is_known() -> None:
    both = read("CSIStorageCapacity", storageClassName="c", nodeTopology={}, capacity="5Gi", maximumVolumeSize="1Gi")
    one = read("CSIStorageCapacity", storageClassName="c", capacity="5Gi")

    assert both == StorageCapacity("shop", "one", "c", LabelSelector(), GIB)
    assert one == StorageCapacity("shop", "one", "c", None, 5 * GIB)
    assert read("CSIStorageCapacity", storageClassName="c") == StorageCapacity("shop", "one", "c", None, None)


def test_volume_attachments() -> None:
    spec = {"attacher": "d", "nodeName": "n1", "source": {"persistentVolumeName": "v"}}

    assert read("VolumeAttachment", spec=spec) == VolumeAttachment("one", "n1", "d", "v")
    assert read("VolumeAttachment", spec={}) == VolumeAttachment("one")


@pytest.mark.parametrize("kind", GROUPS)
def test_an_object_of_another_kind_or_version_is_invalid(kind: str) -> None:
    with pytest.raises(InvalidObject, match="kind is 'Pod'"):
        surrounding_from_mapping({"kind": "Pod", "metadata": {"name": "one"}}, kind)
    with pytest.raises(InvalidObject, match="apiVersion is 'v2'"):
        surrounding_from_mapping({"apiVersion": "v2", "metadata": {"name": "one"}}, kind)


class TestMigration:
    """What volumes in the old way are to the drivers that took the plugins' place."""

    def in_tree(self, labels: dict[str, str] | None = None, **source: Any) -> InTreeVolume | None:
        return read_volume({"labels": labels or {}}, **source).in_tree

    @pytest.mark.parametrize(
        ("written", "handle"),
        [
            ("vol-1", "vol-1"),
            ("aws://eu-1a/vol-1", "vol-1"),
            ("aws:///vol-1", "vol-1"),
            ("aws://eu-1a/disk", None),
            ("aws://[/vol-1", None),
        ],
    )
    def test_ebs(self, written: str, handle: str | None) -> None:
        csi = CsiVolume("ebs.csi.aws.com", handle) if handle else None

        found = self.in_tree(awsElasticBlockStore={"volumeID": written})

        assert found == InTreeVolume("kubernetes.io/aws-ebs", csi)

    @pytest.mark.parametrize(
        ("labels", "handle"),
        [
            ({}, "projects/UNSPECIFIED/zones/UNSPECIFIED/disks/d"),
            ({"topology.kubernetes.io/zone": "us-b1-a"}, "projects/UNSPECIFIED/zones/us-b1-a/disks/d"),
            (
                {"failure-domain.beta.kubernetes.io/zone": "us-b1-a__us-b1-c"},
                "projects/UNSPECIFIED/regions/us-b1/disks/d",
            ),
            ({"topology.kubernetes.io/zone": "us-b1-a__us-b2-c"}, None),
            ({"topology.kubernetes.io/zone": "here__there"}, None),
        ],
        ids=str,
    )
    def test_gce(self, labels: dict[str, str], handle: str | None) -> None:
        csi = CsiVolume("pd.csi.storage.gke.io", handle) if handle else None

        found = self.in_tree(labels, gcePersistentDisk={"pdName": "d"})

        assert found == InTreeVolume("kubernetes.io/gce-pd", csi)

    @pytest.mark.parametrize(
        ("source", "plugin", "csi"),
        [
            (
                {"azureDisk": {"diskURI": "u", "kind": "Managed"}},
                "azure-disk",
                CsiVolume("disk.csi.azure.com", "u"),
            ),
            ({"azureDisk": {"diskURI": "u"}}, "azure-disk", CsiVolume("disk.csi.azure.com", "u")),
            ({"azureDisk": {"diskURI": "u", "kind": "Dedicated"}}, "azure-disk", None),
            ({"cinder": {"volumeID": "v"}}, "cinder", CsiVolume("cinder.csi.openstack.org", "v")),
            ({"portworxVolume": {"volumeID": "v"}}, "portworx-volume", CsiVolume("pxd.portworx.com", "v")),
            ({"azureFile": {"shareName": "s"}}, "azure-file", None),
            ({"vsphereVolume": {"volumePath": "p"}}, "vsphere-volume", None),
        ],
        ids=str,
    )
    def test_others(self, source: dict[str, Any], plugin: str, csi: CsiVolume | None) -> None:
        assert self.in_tree(**source) == InTreeVolume(f"kubernetes.io/{plugin}", csi)

    def test_other_sources_have_no_driver(self) -> None:
        assert self.in_tree(nfs={"server": "s", "path": "/"}) is None

    def test_the_zone_is_told_in_the_drivers_label(self) -> None:
        found = read_volume(gcePersistentDisk={"pdName": "d"}, nodeAffinity=affinity(IN_ZONE))

        assert found.node_terms == (NodeSelectorTerm((ZONE_A,)),)
        assert found.migrated_terms == (NodeSelectorTerm((Requirement("topology.gke.io/zone", Operator.IN, ("a",)),)),)

    @pytest.mark.parametrize("key", ["topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone"])
    def test_a_zone_that_only_labels_name_becomes_a_requirement(self, key: str) -> None:
        disk = {"expressions": [{"key": "disk", "operator": "Exists"}]}
        alone = read_volume({"labels": {key: "b__a"}}, cinder={"volumeID": "v"})
        beside = read_volume(
            {"labels": {key: "b__a"}},
            cinder={"volumeID": "v"},
            nodeAffinity=affinity({"matchExpressions": disk["expressions"]}),
        )

        added = Requirement("topology.cinder.csi.openstack.org/zone", Operator.IN, ("a", "b"))
        assert alone.migrated_terms == (NodeSelectorTerm((added,)),)
        assert beside.migrated_terms == (NodeSelectorTerm((Requirement("disk", Operator.EXISTS), added)),)

    def test_a_beta_region_is_told_in_todays_label(self) -> None:
        expressions = [
            {"key": "failure-domain.beta.kubernetes.io/zone", "operator": "In", "values": ["a"]},
            {"key": "failure-domain.beta.kubernetes.io/region", "operator": "In", "values": ["r"]},
        ]

        found = read_volume(
            awsElasticBlockStore={"volumeID": "vol-1"}, nodeAffinity=affinity({"matchExpressions": expressions})
        )

        assert found.migrated_terms == (
            NodeSelectorTerm(
                (
                    Requirement("topology.ebs.csi.aws.com/zone", Operator.IN, ("a",)),
                    Requirement("topology.kubernetes.io/region", Operator.IN, ("r",)),
                )
            ),
        )

    def test_plugins_whose_volumes_have_no_zone_keep_their_affinity(self) -> None:
        found = read_volume(azureDisk={"diskURI": "u"}, nodeAffinity=affinity(IN_ZONE))

        assert found.migrated_terms == found.node_terms


class TestPods:
    def test_claims_stand_in_the_order_of_volumes_each_once(self) -> None:
        found = pod_from_mapping(
            pod_manifest(
                volumes=[
                    {"name": "b", "persistentVolumeClaim": {"claimName": "b"}},
                    {"name": "tmp", "ephemeral": {"volumeClaimTemplate": {}}},
                    {"name": "again", "persistentVolumeClaim": {"claimName": "b"}},
                    {"name": "a", "persistentVolumeClaim": {"claimName": "a"}},
                    {"name": "none", "emptyDir": {}},
                ]
            )
        )

        assert found.claims == (PodClaim("b"), PodClaim("web-tmp", ephemeral=True), PodClaim("a"))
        assert found.unsupported == ()

    def test_pods_that_differ_in_claims_alone_share_the_rest(self) -> None:
        one, other = (
            pod_from_mapping(pod_manifest(volumes=[{"name": "d", "persistentVolumeClaim": {"claimName": name}}]))
            for name in "ab"
        )

        assert (one.claims, other.claims) == ((PodClaim("a"),), (PodClaim("b"),))

    @pytest.mark.parametrize(
        ("volume", "reason"),
        [
            ({"ephemeral": {}}, "spec.volumes[0].name '' is no DNS label"),
            ({"persistentVolumeClaim": {"claim_name": "x"}}, "did you mean claimName?"),
            ({"persistentVolumeClaim": []}, "spec.volumes[0].persistentVolumeClaim is no mapping"),
            ({"rbd": {"Monitors": []}}, "did you mean monitors?"),
            ({"iscsi": {"iqn": 3}}, "spec.volumes[0].iscsi.iqn is no text"),
        ],
    )
    def test_a_volume_that_cannot_be_read_makes_the_pod_invalid(self, volume: dict[str, Any], reason: str) -> None:
        with pytest.raises(InvalidObject) as refused:
            pod_from_mapping(pod_manifest(volumes=[volume]))
        assert reason in str(refused.value)

    @pytest.mark.parametrize(
        ("volume", "disk", "csi"),
        [
            (
                {"gcePersistentDisk": {"pdName": "d", "readOnly": True}},
                ExclusiveDisk(DiskKind.GCE_PERSISTENT_DISK, ("d",), read_only=True),
                CsiVolume("pd.csi.storage.gke.io", "projects/UNSPECIFIED/zones/UNSPECIFIED/disks/d"),
            ),
            (
                {"awsElasticBlockStore": {"volumeID": "vol-1"}},
                ExclusiveDisk(DiskKind.AWS_ELASTIC_BLOCK_STORE, ("vol-1",)),
                CsiVolume("ebs.csi.aws.com", "vol-1"),
            ),
            (
                {"rbd": {"monitors": ["m", "n"], "image": "i"}},
                ExclusiveDisk(DiskKind.RBD, ("rbd", "i"), monitors=frozenset("mn")),
                None,
            ),
            ({"iscsi": {"iqn": "q", "readOnly": False}}, ExclusiveDisk(DiskKind.ISCSI, ("q",)), None),
            ({"cinder": {"volumeID": "v"}}, None, CsiVolume("cinder.csi.openstack.org", "v")),
        ],
        ids=["gce", "ebs", "rbd", "iscsi", "cinder"],
    )
    def test_disks_that_a_pod_names_itself(
        self, volume: dict[str, Any], disk: ExclusiveDisk | None, csi: CsiVolume | None
    ) -> None:
        (found,) = pod_from_mapping(pod_manifest(volumes=[volume])).in_line_volumes

        assert found.disk == disk
        assert (found.in_tree.csi if found.in_tree else None) == csi

    def test_a_plugin_without_handles_is_kept_by_name(self) -> None:
        found = pod_from_mapping(pod_manifest(volumes=[{"azureFile": {"shareName": "s"}}])).in_line_volumes

        assert found == (InLineVolume(in_tree=InTreeVolume("kubernetes.io/azure-file")),)

    def test_volumes_without_effect_are_none(self) -> None:
        found = pod_from_mapping(pod_manifest(volumes=[{"name": "c", "configMap": {"name": "c"}}]))

        assert (found.claims, found.in_line_volumes) == ((), ())
