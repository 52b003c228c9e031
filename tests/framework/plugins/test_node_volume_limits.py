"""How many volumes of a CSI driver fit on a node."""

from __future__ import annotations

from typing import Any

import pytest

from tests.volumes import (
    PROFILE,
    WAIT,
    bound_claim,
    bound_volume,
    claim,
    cluster,
    csi_volume,
    host,
    limited,
    refusal,
    storage,
    user,
    volume,
)
from wharfinger.objects.model.pod import Pod
from wharfinger.objects.model.storage import CsiNode, StorageClass, StorageObject, VolumeAttachment
from wharfinger.objects.model.storage_index import Storage
from wharfinger.objects.model.volumes import CsiVolume, InLineVolume, InTreeVolume, PodClaim
from wharfinger.testing.builders import pod

TOO_MANY = ("NodeVolumeLimits", ("node(s) exceed max volume count",))
EBS = "kubernetes.io/aws-ebs"
EBS_DRIVER = "ebs.csi.aws.com"
IN_TREE_CLASS = StorageClass("in-tree", EBS, waits=True)


def bound(*names: str, driver: str = "csi.example.com") -> list[StorageObject]:
    """Claims of these names with volumes of a driver."""
    volumes = [csi_volume(f"v-{name}", driver, name) for name in names]
    return [*volumes, *(bound_claim(name, f"v-{name}") for name in names)]


def in_tree(name: str, plugin: str = EBS, driver: str = EBS_DRIVER) -> InTreeVolume:
    return InTreeVolume(plugin, CsiVolume(driver, name))


def fits(wanted: Pod, around: Storage, *there: Pod) -> bool:
    found = refusal(wanted, cluster(host("n1"), host("n2"), around=around, n1=list(there)))
    assert found in (None, TOO_MANY)
    return found is None


@pytest.mark.parametrize(("limit", "fit"), [(3, True), (2, False), (None, True), (0, False), (-1, False)])
def test_volumes_of_all_pods_count_against_the_limit(limit: int | None, fit: bool) -> None:
    around = storage(*bound("a", "b", "c"), limited("n1", limit))

    assert fits(user("p1", "c"), around, user("p2", "a"), user("p3", "b")) is fit


def test_a_node_without_csi_node_has_no_limit() -> None:
    around = storage(*bound("a", "b", "c"), limited("other", 1))

    assert fits(user("p1", "c"), around, user("p2", "a", "b"))


def test_a_volume_that_several_pods_use_counts_once() -> None:
    around = storage(*bound("a", "b"), limited("n1", 2))

    assert fits(user("p1", "a"), around, user("p2", "a"), user("p3", "a", "b"))
    assert not fits(user("p1", "c"), around.with_object(claim("c")), user("p2", "a"), user("p3", "a", "b"))


def test_volumes_of_other_drivers_do_not_count() -> None:
    around = storage(*bound("a", "b", driver="other.example.com"), *bound("c"), limited("n1", 1))

    assert fits(user("p1", "c"), around, user("p2", "a", "b"))


def test_a_claim_without_volume_counts_as_one_of_its_classs_driver() -> None:
    around = storage(claim("a"), claim("b"), claim("c", storage_class="gone"), limited("n1", 1))

    assert fits(user("p1", "a"), around)
    assert fits(user("p1", "a"), around, user("p2", "a"))
    assert not fits(user("p1", "a"), around, user("p2", "b"))
    assert fits(user("p1", "a"), around, user("p2", "c"))


def test_a_claim_whose_volume_is_gone_counts_by_its_class() -> None:
    around = storage(claim("a"), bound_claim("b", "gone"), limited("n1", 1))

    assert not fits(user("p1", "a"), around, user("p2", "b"))


def test_a_running_pods_claim_that_is_gone_does_not_count() -> None:
    assert fits(user("p1", "a"), storage(*bound("a"), limited("n1", 1)), user("p2", "gone"))


def test_volumes_that_no_driver_attaches_do_not_count() -> None:
    around = storage(bound_volume("v", "a"), bound_claim("a", "v"), *bound("b"), limited("n1", 1))

    assert fits(user("p1", "b"), around, user("p2", "a"))
    assert fits(user("p1", "a"), around, user("p2", "b"))


def test_a_class_without_provisioner_does_not_count() -> None:
    around = storage(
        StorageClass("bare", waits=True), claim("a", storage_class="bare"), volume("v", storage_class="bare")
    )

    assert fits(user("p1", "a"), around.with_object(limited("n1", 0)))


class TestAttachments:
    """Volumes that are attached although no pod uses them any more."""

    AROUND = storage(*bound("a", "b"), limited("n1", 1))

    def attached(self, **fields: Any) -> Storage:
        return self.AROUND.with_object(
            VolumeAttachment("va", **{"node": "n1", "attacher": "csi.example.com", "volume": "v-b", **fields})
        )

    def test_they_count(self) -> None:
        assert fits(user("p1", "a"), self.AROUND)
        assert not fits(user("p1", "a"), self.attached())

    def test_with_a_pods_volume_they_count_once(self) -> None:
        around = self.attached().with_object(limited("n1", 2))

        assert fits(user("p1", "a"), around, user("p2", "b"))

    @pytest.mark.parametrize(
        "fields",
        [{"node": "n2"}, {"attacher": ""}, {"attacher": "other"}, {"volume": ""}, {"volume": "gone"}],
        ids=str,
    )
    def test_others_do_not(self, fields: dict[str, str]) -> None:
        assert fits(user("p1", "a"), self.attached(**fields))

    def test_one_that_goes_makes_room(self) -> None:
        around = self.attached()

        assert fits(user("p1", "a"), around.without(VolumeAttachment, "", "va"))


class TestEphemeralVolumes:
    MINE = claim("p1-scratch", owner=("p1", "uid-p1"))
    OTHERS = claim("p2-scratch", owner=("p2", "uid-p2"))

    def test_their_claims_count(self) -> None:
        around = storage(self.MINE, self.OTHERS, limited("n1", 1))
        wanted = user("p1", PodClaim("p1-scratch", ephemeral=True))

        assert fits(wanted, around)
        assert not fits(wanted, around, user("p2", PodClaim("p2-scratch", ephemeral=True)))

    def test_a_claim_that_another_made_does_not_count(self) -> None:
        stray = claim("p2-scratch", owner=("p2", "uid-of-another-life"))
        around = storage(self.MINE, stray, limited("n1", 1))

        assert fits(
            user("p1", PodClaim("p1-scratch", ephemeral=True)), around, user("p2", PodClaim("p2-scratch", True))
        )


class TestMigratedPlugins:
    """Volumes in the old way count as those of the driver that does the plugin's work."""

    AROUND = storage(
        bound_volume("v-a", "a", in_tree=in_tree("vol-a")),
        bound_claim("a", "v-a"),
        *bound("b", driver=EBS_DRIVER),
        IN_TREE_CLASS,
        claim("c", storage_class="in-tree"),
    )
    LISTED = limited("n1", 1, EBS_DRIVER, EBS)
    NOT_LISTED = limited("n1", 1, EBS_DRIVER)

    @pytest.mark.parametrize("node", [LISTED, NOT_LISTED], ids=["listed", "not listed"])
    @pytest.mark.parametrize("name", ["a", "c"])
    def test_they_count_whether_the_node_lists_the_plugin_or_not(self, name: str, node: CsiNode) -> None:
        assert not fits(user("p1", name), self.AROUND.with_object(node), user("p2", "b"))
        assert not fits(user("p1", "b"), self.AROUND.with_object(node), user("p2", name))

    @pytest.mark.parametrize("name", ["a", "c"])
    def test_without_a_csi_node_nothing_counts(self, name: str) -> None:
        assert fits(user("p1", name), self.AROUND, user("p2", "b"))

    def test_so_do_disks_that_pods_name_themselves(self) -> None:
        in_line = pod("p1", in_line_volumes=(InLineVolume(in_tree=in_tree("vol-x")),))
        around = self.AROUND.with_object(self.NOT_LISTED)

        assert fits(in_line, around)
        assert not fits(in_line, around, user("p2", "b"))

    def test_one_volume_in_both_ways_counts_once(self) -> None:
        same = pod("p2", in_line_volumes=(InLineVolume(in_tree=in_tree("vol-a")),))

        assert fits(user("p1", "a"), self.AROUND.with_object(self.LISTED), same)

    def test_plugins_that_are_never_counted_are_not(self) -> None:
        files = pod("p1", in_line_volumes=(InLineVolume(in_tree=InTreeVolume("kubernetes.io/azure-file")),))
        node = CsiNode("n1", (("file.csi.azure.com", 0),), frozenset({"kubernetes.io/azure-file"}))

        assert fits(files, storage(node))


def test_only_nodes_that_are_full_are_refused() -> None:
    around = storage(*bound("a", "b"), limited("n1", 1), limited("n2", 2), limited("n3", 1))
    snapshot = cluster(host("n1"), host("n2"), host("n3"), around=around, n1=[user("p2", "b")], n2=[user("p3", "b")])

    assert PROFILE.evaluate(user("p1", "a"), snapshot).feasible == ("n2", "n3")


def test_limits_follow_changes_of_csi_nodes() -> None:
    around = storage(*bound("a"), limited("n1", 0), WAIT)
    wanted = user("p1", "a")

    assert not fits(wanted, around)
    assert fits(wanted, around.with_object(limited("n1", 1)))
    assert fits(wanted, around.without(CsiNode, "", "n1"))
    assert not fits(wanted, around)


def test_evicting_makes_room() -> None:
    around = storage(*bound("a", "b"), limited("n1", 1))
    snapshot = cluster(host("n1"), around=around, n1=[user("p2", "b", node_name="n1")])

    assert PROFILE.evaluate(user("p1", "a", priority=9), snapshot).nominated_node == "n1"
