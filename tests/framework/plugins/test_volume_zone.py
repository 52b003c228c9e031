"""Bound volumes that name their zone or region by labels."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from tests.volumes import (
    IMMEDIATE,
    PROFILE,
    bound_claim,
    bound_volume,
    claim,
    cluster,
    refusal,
    storage,
    user,
)
from wharfinger.framework.cycle_state import CycleState
from wharfinger.framework.plugins.volume_zone import VolumeZone
from wharfinger.framework.status import Code, Status
from wharfinger.objects.model.storage import StorageObject
from wharfinger.objects.model.volumes import PodClaim
from wharfinger.testing.builders import node, pod

ZONE = "topology.kubernetes.io/zone"
REGION = "topology.kubernetes.io/region"
BETA_ZONE = "failure-domain.beta.kubernetes.io/zone"
BETA_REGION = "failure-domain.beta.kubernetes.io/region"
ELSEWHERE = ("VolumeZone", ("node(s) had no available volume zone",))


@pytest.mark.parametrize(
    ("volume", "host", "fits"),
    [
        ({ZONE: "a"}, {ZONE: "a"}, True),
        ({ZONE: "a"}, {ZONE: "b"}, False),
        ({REGION: "r"}, {REGION: "r"}, True),
        ({REGION: "r"}, {REGION: "s"}, False),
        ({BETA_ZONE: "a"}, {BETA_ZONE: "a"}, True),
        ({BETA_ZONE: "a"}, {BETA_ZONE: "b"}, False),
        ({BETA_REGION: "r"}, {BETA_REGION: "r"}, True),
        ({BETA_REGION: "r"}, {BETA_REGION: "s"}, False),
        ({BETA_ZONE: "a"}, {ZONE: "a"}, True),
        ({BETA_ZONE: "a"}, {ZONE: "b"}, False),
        ({BETA_ZONE: "a"}, {BETA_ZONE: "b", ZONE: "a"}, False),
        ({ZONE: "a"}, {BETA_ZONE: "a"}, False),
        ({ZONE: "a", REGION: "r"}, {ZONE: "a"}, False),
        ({ZONE: "a", REGION: "r"}, {ZONE: "a", REGION: "r"}, True),
        ({ZONE: "a__b"}, {ZONE: "b"}, True),
        ({ZONE: "a__ b "}, {ZONE: "b"}, True),
        ({ZONE: "a__b"}, {ZONE: "c"}, False),
        ({ZONE: "a__"}, {ZONE: "c"}, True),
        ({ZONE: ""}, {ZONE: "c"}, True),
        ({ZONE: "a"}, {}, True),
        ({ZONE: "a"}, {"disk": "ssd"}, True),
        ({}, {ZONE: "a"}, True),
    ],
    ids=str,
)
def test_a_volume_is_used_where_it_lies(volume: Mapping[str, str], host: Mapping[str, str], fits: bool) -> None:
    around = storage(bound_volume("v", labels=volume), bound_claim("data", "v"))
    snapshot = cluster(node("n1", labels=host), node("other", labels={ZONE: "z"}), around=around)

    assert refusal(user("p1", "data"), snapshot) == (None if fits else ELSEWHERE)


def test_every_volume_of_the_pod_counts() -> None:
    around = storage(
        bound_volume("v", labels={ZONE: "a"}),
        bound_claim("data", "v"),
        bound_volume("w", "more", labels={ZONE: "b"}),
        bound_claim("more", "w"),
    )
    snapshot = cluster(node("n1", labels={ZONE: "a"}), around=around)

    assert refusal(user("p1", "data"), snapshot) is None
    assert refusal(user("p1", "data", "more"), snapshot) == ELSEWHERE


class TestClaimsThatLeadNowhere:
    """VolumeBinding refuses most of them before; a profile may leave that out."""

    def ask(self, *things: StorageObject, named: PodClaim | None = None) -> Status:
        subject = pod("p1", claims=(named or PodClaim("data"),))
        return VolumeZone().pre_filter(CycleState(), subject, cluster(around=storage(*things))).status

    @pytest.mark.parametrize(
        ("things", "reason"),
        [
            ((), 'persistentvolumeclaim "data" not found'),
            ((claim(storage_class=""),), "PersistentVolumeClaim had no pv name and storageClass name"),
            ((claim(storage_class="gone"),), 'storageclass.storage.k8s.io "gone" not found'),
            ((claim(storage_class=IMMEDIATE.name),), "PersistentVolume had no name"),
            ((bound_claim("data", "gone"),), 'persistentvolume "gone" not found'),
        ],
    )
    def test_they_refuse_the_pod(self, things: tuple[StorageObject, ...], reason: str) -> None:
        status = self.ask(*things)

        assert (status.code, status.reasons) == (Code.UNSCHEDULABLE_AND_UNRESOLVABLE, (reason,))

    def test_a_claim_that_waits_for_the_pod_does_not(self) -> None:
        assert self.ask(claim()).code is Code.SKIP

    def test_ephemeral_volumes_are_not_looked_at(self) -> None:
        assert self.ask(named=PodClaim("p1-scratch", ephemeral=True)).code is Code.SKIP


def test_a_volume_that_is_gone_refuses_the_pod_everywhere() -> None:
    around = storage(bound_claim("data", "gone"))

    status = PROFILE.verify(user("p1", "data"), cluster(node("n1"), around=around), "n1")

    assert (status.plugin, status.reasons) == ("VolumeZone", ('persistentvolume "gone" not found',))
