"""Disks that one pod a node may use, and claims that one pod of the cluster may use."""

from __future__ import annotations

from typing import Any

import pytest

from tests.volumes import PROFILE, claim, cluster, host, refusal, storage, user
from wharfinger.framework.status import Code
from wharfinger.objects.model.pod import Pod
from wharfinger.objects.model.storage_index import Storage
from wharfinger.objects.model.volumes import DiskKind, ExclusiveDisk, InLineVolume, PodClaim
from wharfinger.testing.builders import pod

DISK_TAKEN = ("VolumeRestrictions", ("node(s) had no available disk",))
CLAIM_TAKEN = (
    "VolumeRestrictions",
    (
        "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another "
        "pod",
    ),
)
ALONE = frozenset({"ReadWriteOncePod"})


def disk(kind: DiskKind, *identity: str, read_only: bool = False, monitors: tuple[str, ...] = ()) -> InLineVolume:
    return InLineVolume(ExclusiveDisk(kind, identity, read_only, frozenset(monitors)))


def gce(name: str, *, read_only: bool = False) -> InLineVolume:
    return disk(DiskKind.GCE_PERSISTENT_DISK, name, read_only=read_only)


def ebs(name: str, *, read_only: bool = False) -> InLineVolume:
    return disk(DiskKind.AWS_ELASTIC_BLOCK_STORE, name, read_only=read_only)


def iscsi(name: str, *, read_only: bool = False) -> InLineVolume:
    return disk(DiskKind.ISCSI, name, read_only=read_only)


def rbd(image: str, *monitors: str, pool: str = "rbd", read_only: bool = False) -> InLineVolume:
    return disk(DiskKind.RBD, pool, image, read_only=read_only, monitors=monitors)


def holder(*volumes: InLineVolume, name: str = "p1", **fields: Any) -> Pod:
    return pod(name, in_line_volumes=volumes, **fields)


@pytest.mark.parametrize(
    ("wanted", "there", "conflicts"),
    [
        (gce("a"), gce("a"), True),
        (gce("a"), gce("b"), False),
        (gce("a", read_only=True), gce("a", read_only=True), False),
        (gce("a", read_only=True), gce("a"), True),
        (gce("a"), ebs("a"), False),
        (ebs("a"), ebs("a"), True),
        (ebs("a", read_only=True), ebs("a", read_only=True), True),
        (ebs("a"), ebs("b"), False),
        (iscsi("a"), iscsi("a"), True),
        (iscsi("a", read_only=True), iscsi("a", read_only=True), False),
        (iscsi("a"), iscsi("b"), False),
        (rbd("i", "m1", "m2"), rbd("i", "m2", "m3"), True),
        (rbd("i", "m1"), rbd("i", "m2"), False),
        (rbd("i", "m1"), rbd("j", "m1"), False),
        (rbd("i", "m1", pool="a"), rbd("i", "m1", pool="b"), False),
        (rbd("i", "m1", read_only=True), rbd("i", "m1", read_only=True), False),
        (rbd("i", "m1", read_only=True), rbd("i", "m1"), True),
        (InLineVolume(), gce("a"), False),
    ],
)
def test_a_disk_in_use_refuses_its_node(wanted: InLineVolume, there: InLineVolume, conflicts: bool) -> None:
    taken = holder(there, name="other", namespace="elsewhere")
    snapshot = cluster(host("n1"), host("n2"), around=storage(), n1=[taken])

    assert refusal(holder(wanted), snapshot) == (DISK_TAKEN if conflicts else None)
    assert refusal(holder(wanted), snapshot, "n2") is None


def test_any_disk_of_several_counts() -> None:
    snapshot = cluster(host("n1"), around=storage(), n1=[holder(gce("a"), gce("b"), name="other")])

    assert refusal(holder(gce("c"), gce("b")), snapshot) == DISK_TAKEN


def test_evicting_the_disks_user_makes_room() -> None:
    snapshot = cluster(host("n1"), around=storage(), n1=[holder(gce("a"), name="other", node_name="n1")])

    evaluation = PROFILE.evaluate(holder(gce("a"), priority=9), snapshot)

    assert evaluation.nominated_node == "n1"
    assert [victim.name for victim in evaluation.victims] == ["other"]


def test_a_claim_that_does_not_exist_refuses_the_pod_everywhere() -> None:
    status = PROFILE.verify(user("p1", "data"), cluster(host("n1"), around=storage()), "n1")

    assert (status.plugin, status.reasons) == ("VolumeRestrictions", ('persistentvolumeclaim "data" not found',))
    assert status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE


class TestReadWriteOncePod:
    AROUND: Storage = storage(claim(access_modes=ALONE), claim("shared"), claim(namespace="other", access_modes=ALONE))

    def test_a_claim_in_use_refuses_every_node(self) -> None:
        snapshot = cluster(host("n1"), host("n2"), around=self.AROUND, n1=[user("other", "data")])

        assert refusal(user("p1", "data"), snapshot, "n1") == CLAIM_TAKEN
        assert refusal(user("p1", "data"), snapshot, "n2") == CLAIM_TAKEN

    def test_so_do_two(self) -> None:
        around = self.AROUND.with_object(claim("more", access_modes=ALONE))
        snapshot = cluster(host("n1"), around=around, n1=[user("other", "data", "more")])

        assert refusal(user("p1", "data", "more"), snapshot) == CLAIM_TAKEN

    def test_other_access_modes_do_not(self) -> None:
        snapshot = cluster(host("n1"), around=self.AROUND, n1=[user("other", "shared")])

        assert refusal(user("p1", "shared"), snapshot) is None

    def test_a_claim_of_this_name_elsewhere_does_not(self) -> None:
        snapshot = cluster(host("n1"), around=self.AROUND, n1=[user("other", "data", namespace="other")])

        assert refusal(user("p1", "data"), snapshot) is None

    def test_an_ephemeral_volumes_claim_does_not(self) -> None:
        """As in kube-scheduler, which looks at claims that volumes name alone."""
        snapshot = cluster(host("n1"), around=self.AROUND, n1=[user("other", PodClaim("data", ephemeral=True))])

        assert refusal(user("p1", "data"), snapshot) is None

    def test_users_are_told_from_snapshot_to_snapshot(self) -> None:
        first = user("first", "data")
        before = cluster(host("n1"), host("n2"), around=self.AROUND)
        taken = before.with_pods_changed({1: before.rows[1].with_pod(first)})
        again = taken.with_pods_changed({1: taken.rows[1].without_pods([first.identity])})

        found = [PROFILE.verify(user("p1", "data"), each, "n1").ok for each in (before, taken, again, taken)]

        assert found == [True, False, True, False]

    @pytest.mark.parametrize(("priority", "victims"), [(9, ["other"]), (0, [])])
    def test_a_less_important_user_is_evicted_where_it_is(self, priority: int, victims: list[str]) -> None:
        here = user("other", "data", node_name="n2", priority=0)
        bystander = user("bystander", node_name="n1", priority=0)
        snapshot = cluster(host("n1"), host("n2"), around=self.AROUND, n1=[bystander], n2=[here])

        evaluation = PROFILE.evaluate(user("p1", "data", priority=priority), snapshot)

        assert [victim.name for victim in evaluation.victims] == victims
        assert evaluation.nominated_node == ("n2" if victims else None)

    def test_evicting_a_stranger_with_a_claim_of_that_name_is_no_help(self) -> None:
        """kube-scheduler compares names alone here, and evicts for nothing."""
        stranger = user("stranger", "data", namespace="other", node_name="n1")
        here = user("other", "data", node_name="n2", priority=99)
        snapshot = cluster(host("n1"), host("n2"), around=self.AROUND, n1=[stranger], n2=[here])

        evaluation = PROFILE.evaluate(user("p1", "data", priority=9), snapshot)

        assert evaluation.victims == ()
