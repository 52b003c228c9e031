"""Which events the plugins about volumes want a refused pod to be tried again for."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.volumes import GIB, PROFILE, WAIT, bound_claim, bound_volume, claim, host, limited, user, volume
from wharfinger.objects.model.events import ClusterEvent, Resource, assigned_pod_event, node_event, storage_event
from wharfinger.objects.model.node import Node
from wharfinger.objects.model.pod import Pod
from wharfinger.objects.model.selectors import Operator, Requirement
from wharfinger.objects.model.storage import (
    CsiDriver,
    CsiNode,
    StorageCapacity,
    StorageClass,
    StorageObject,
    VolumeAttachment,
)
from wharfinger.objects.model.volumes import CsiVolume, DiskKind, ExclusiveDisk, InLineVolume, InTreeVolume, PodClaim
from wharfinger.testing.builders import pod

RESTRICTIONS, LIMITS, BINDING, ZONE = "VolumeRestrictions", "NodeVolumeLimits", "VolumeBinding", "VolumeZone"
DATA = user("p1", "data")
SCRATCH = user("p1", PodClaim("p1-tmp", ephemeral=True))
EBS = InLineVolume(
    ExclusiveDisk(DiskKind.AWS_ELASTIC_BLOCK_STORE, ("vol-1",)),
    InTreeVolume("kubernetes.io/aws-ebs", CsiVolume("ebs.csi.aws.com", "vol-1")),
)
DISK = pod("p1", in_line_volumes=(EBS,))


def helps(plugin: str, waiting: Pod, event: ClusterEvent | None, *, beyond: bool = False) -> bool:
    assert event is not None
    assert PROFILE.concerns(event, (plugin,)) or not beyond
    return PROFILE.may_help(event, waiting, (plugin,), beyond=beyond) is not None


def comes(thing: StorageObject) -> ClusterEvent | None:
    return storage_event(None, thing, 1)


def goes(thing: StorageObject) -> ClusterEvent | None:
    return storage_event(thing, None, 1)


def becomes(old: StorageObject, new: StorageObject) -> ClusterEvent | None:
    return storage_event(old, new, 1)


def ends(old: Pod) -> ClusterEvent | None:
    return assigned_pod_event(replace(old, node_name="n1"), None, 1)


def appears(new: Node) -> ClusterEvent | None:
    return node_event(None, new, 1)


def test_events_are_named_as_in_kube_scheduler() -> None:
    event = becomes(claim(), claim(phase="Bound"))

    assert event is not None
    assert (event.resource, event.label, event.object_name) == (
        Resource.PERSISTENT_VOLUME_CLAIM,
        "PersistentVolumeClaimUpdate",
        "default/data",
    )
    attached = comes(VolumeAttachment("va"))
    assert attached is not None
    assert (attached.label, attached.object_name) == ("VolumeAttachmentAdd", "va")
    assert becomes(claim(), claim()) is None


@pytest.mark.parametrize("plugin", [RESTRICTIONS, BINDING, ZONE])
def test_a_new_node_helps(plugin: str) -> None:
    assert helps(plugin, DATA, appears(host("n1")))


@pytest.mark.parametrize("plugin", [BINDING, ZONE])
def test_other_labels_of_a_node_help(plugin: str) -> None:
    assert helps(plugin, DATA, node_event(host("n1"), host("n1", zone="a"), 1))


@pytest.mark.parametrize("plugin", [RESTRICTIONS, LIMITS, BINDING, ZONE])
class TestTheClaimOfThePod:
    def test_it_helps_when_it_comes(self, plugin: str) -> None:
        assert helps(plugin, DATA, comes(claim()))

    def test_others_do_not(self, plugin: str) -> None:
        assert not helps(plugin, DATA, comes(claim("other")))
        assert not helps(plugin, DATA, comes(claim(namespace="other")))
        assert not helps(plugin, user("p1"), comes(claim()))

    def test_a_change_helps_where_its_volume_matters(self, plugin: str) -> None:
        change = becomes(claim(), bound_claim("data", "v"))

        assert helps(plugin, DATA, change) is (plugin in (BINDING, ZONE))

    def test_an_ephemeral_one_helps_where_it_is_looked_at(self, plugin: str) -> None:
        assert helps(plugin, SCRATCH, comes(claim("p1-tmp"))) is (plugin in (LIMITS, BINDING))


class TestVolumeRestrictions:
    @pytest.mark.parametrize(
        ("gone", "freed"),
        [
            (user("p2", "data"), True),
            (user("p2", "other"), False),
            (user("p2"), False),
            (user("p2", "data", namespace="other"), False),
            (user("p2", PodClaim("data", ephemeral=True)), False),
        ],
        ids=["the claim", "another", "none", "elsewhere", "ephemeral"],
    )
    def test_the_end_of_a_pod_with_the_claim_helps(self, gone: Pod, freed: bool) -> None:
        assert helps(RESTRICTIONS, DATA, ends(gone)) is freed

    def test_the_end_of_a_pod_with_the_disk_helps(self) -> None:
        assert helps(RESTRICTIONS, DISK, ends(replace(DISK, name="p2")))
        assert not helps(RESTRICTIONS, DISK, ends(user("p2", "data")))

    def test_in_another_namespace_it_does_beyond_kube_scheduler(self) -> None:
        elsewhere = ends(replace(DISK, name="p2", namespace="other"))

        assert not helps(RESTRICTIONS, DISK, elsewhere)
        assert helps(RESTRICTIONS, DISK, elsewhere, beyond=True)


class TestNodeVolumeLimits:
    def test_a_csi_node_that_comes_helps(self) -> None:
        assert helps(LIMITS, DATA, comes(limited("n1")))

    @pytest.mark.parametrize(
        ("old", "new", "raised"),
        [(2, 3, True), (3, 2, False), (None, 2, True), (0, 1, True), (2, None, False)],
        ids=str,
    )
    def test_a_higher_limit_helps(self, old: int | None, new: int | None, raised: bool) -> None:
        assert helps(LIMITS, DATA, becomes(limited("n1", old), limited("n1", new))) is raised

    def test_the_same_limit_does_not(self) -> None:
        moved = replace(limited("n1"), migrated=frozenset({"kubernetes.io/cinder"}))

        assert not helps(LIMITS, DATA, becomes(limited("n1"), moved))

    def test_a_limit_of_another_driver_helps_as_a_new_one(self) -> None:
        assert helps(LIMITS, DATA, becomes(CsiNode("n1"), limited("n1", 1)))

    @pytest.mark.parametrize("new", [limited("n1", None), CsiNode("n1")])
    def test_a_limit_that_is_lifted_helps_beyond_kube_scheduler(self, new: CsiNode) -> None:
        lifted = becomes(limited("n1", 2), new)

        assert not helps(LIMITS, DATA, lifted)
        assert helps(LIMITS, DATA, lifted, beyond=True)

    @pytest.mark.parametrize(
        ("gone", "freed"),
        [(user("p2", "any"), True), (SCRATCH, True), (DISK, True), (pod("p2"), False)],
        ids=["claim", "ephemeral", "in-line", "none"],
    )
    def test_the_end_of_a_pod_with_volumes_helps(self, gone: Pod, freed: bool) -> None:
        assert helps(LIMITS, DATA, ends(gone)) is freed

    def test_a_disk_that_no_driver_attaches_frees_nothing(self) -> None:
        iscsi = InLineVolume(ExclusiveDisk(DiskKind.ISCSI, ("iqn",)))

        assert not helps(LIMITS, DATA, ends(pod("p2", in_line_volumes=(iscsi,))))

    @pytest.mark.parametrize(
        ("waiting", "attacher", "freed"),
        [
            (DATA, "any", True),
            (DISK, "ebs.csi.aws.com", True),
            (DISK, "pd.csi.storage.gke.io", False),
            (pod("p1"), "any", False),
            (SCRATCH, "any", False),
        ],
        ids=["claim", "in-line", "another driver's", "none", "ephemeral"],
    )
    def test_a_detached_volume_helps(self, waiting: Pod, attacher: str, freed: bool) -> None:
        assert helps(LIMITS, waiting, goes(VolumeAttachment("va", "n1", attacher, "v"))) is freed

    def test_ephemeral_claims_are_helped_by_it_beyond_kube_scheduler(self) -> None:
        assert helps(LIMITS, SCRATCH, goes(VolumeAttachment("va", "n1", "any", "v")), beyond=True)

    def test_an_attachment_that_comes_does_not(self) -> None:
        assert not helps(LIMITS, DATA, comes(VolumeAttachment("va")))


class TestVolumeBinding:
    def test_volumes_that_come_or_change_help(self) -> None:
        assert helps(BINDING, DATA, comes(volume("v")))
        assert helps(BINDING, DATA, becomes(volume("v"), bound_volume("v")))
        assert not helps(BINDING, DATA, goes(volume("v")))

    def test_a_new_class_helps(self) -> None:
        assert helps(BINDING, DATA, comes(WAIT))

    def test_a_class_helps_when_its_topologies_change(self) -> None:
        topology = ((Requirement("zone", Operator.IN, ("a",)),),)

        assert helps(BINDING, DATA, becomes(WAIT, replace(WAIT, allowed_topologies=topology)))
        assert not helps(BINDING, DATA, becomes(WAIT, replace(WAIT, provisioner="other")))

    def test_a_csi_node_helps_when_it_comes_or_migrates_others(self) -> None:
        migrated = replace(limited("n1"), migrated=frozenset({"kubernetes.io/cinder"}))

        assert helps(BINDING, DATA, comes(limited("n1")))
        assert helps(BINDING, DATA, becomes(limited("n1"), migrated))
        assert not helps(BINDING, DATA, becomes(limited("n1"), limited("n1", 9)))

    @pytest.mark.parametrize(
        ("old", "new", "grown"),
        [
            (None, GIB, True),
            (GIB, 2 * GIB, True),
            (GIB, GIB // 2, False),
            (GIB, None, False),
        ],
        ids=str,
    )
    def test_more_room_helps(self, old: int | None, new: int | None, grown: bool) -> None:
        before, after = StorageCapacity("s", "c", "wait", None, old), StorageCapacity("s", "c", "wait", None, new)

        assert helps(BINDING, DATA, becomes(before, after)) is grown
        assert helps(BINDING, DATA, comes(after))

    def test_a_driver_that_minds_room_no_more_helps_beyond_kube_scheduler(self) -> None:
        minds, not_any_more = CsiDriver("d", storage_capacity=True), CsiDriver("d")

        assert not helps(BINDING, DATA, becomes(minds, not_any_more))
        assert helps(BINDING, DATA, becomes(minds, not_any_more), beyond=True)
        assert not helps(BINDING, DATA, becomes(not_any_more, minds), beyond=True)
        assert not helps(BINDING, pod("p1"), becomes(minds, not_any_more), beyond=True)

    def test_the_end_of_a_pod_does_not(self) -> None:
        assert not helps(BINDING, DATA, ends(user("p2", "data")))


class TestVolumeZone:
    @pytest.mark.parametrize(("waits", "helped"), [(True, True), (False, False)])
    def test_a_class_that_waits_helps_when_it_comes(self, waits: bool, helped: bool) -> None:
        new = StorageClass("new", waits=waits)

        assert helps(ZONE, DATA, comes(new)) is helped
        assert not helps(ZONE, DATA, becomes(StorageClass("new", waits=not waits), new))

    def test_a_volume_helps_when_it_comes_or_lies_elsewhere(self) -> None:
        there = {"topology.kubernetes.io/zone": "a"}

        assert helps(ZONE, DATA, comes(volume("v")))
        assert helps(ZONE, DATA, becomes(volume("v"), volume("v", labels=there)))
        assert not helps(ZONE, DATA, becomes(volume("v"), volume("v", labels={"other": "a"})))
