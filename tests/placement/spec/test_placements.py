"""Placements as deciding reads them."""

from __future__ import annotations

from typing import Any

import pytest

from wharfinger.errors import InvalidObject
from wharfinger.objects.model.selectors import LabelSelector, Operator, Requirement, Toleration
from wharfinger.placement.model.placement import (
    ClusterPreference,
    ClusterSpread,
    ClusterTerm,
    Placement,
    PlacementPolicy,
    PlacementRef,
    PlacementType,
    PropertyRequirement,
    PropertySorter,
)
from wharfinger.placement.spec.placements import placement_from_mapping

POLICY: dict[str, Any] = {
    "placementType": "PickN",
    "numberOfClusters": 3,
    "affinity": {
        "clusterAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "clusterSelectorTerms": [
                    {
                        "labelSelector": {"matchLabels": {"env": "prod"}},
                        "propertySelector": {"matchExpressions": [{"name": "z", "operator": "Ge", "values": ["2"]}]},
                    }
                ]
            },
            "preferredDuringSchedulingIgnoredDuringExecution": [
                {"weight": -5, "preference": {"propertySorter": {"name": "z", "sortOrder": "Ascending"}}}
            ],
        }
    },
    "tolerations": [{"key": "t", "operator": "Exists"}],
    "topologySpreadConstraints": [
        {"topologyKey": "region"},
        {"topologyKey": "zone", "maxSkew": 2, "whenUnsatisfiable": "ScheduleAnyway"},
    ],
}


def placement(policy: Any, **metadata: Any) -> dict[str, Any]:
    return {
        "kind": "ClusterResourcePlacement",
        "metadata": {"name": "web", "generation": 4, **metadata},
        "spec": {} if policy is None else {"policy": policy},
    }


def test_a_placement_is_read_whole() -> None:
    wanted = PlacementPolicy(
        type=PlacementType.PICK_N,
        number=3,
        required=(
            ClusterTerm(
                LabelSelector((Requirement("env", Operator.IN, ("prod",)),)), (PropertyRequirement("z", "Ge", ("2",)),)
            ),
        ),
        preferred=(ClusterPreference(-5, None, PropertySorter("z", "Ascending")),),
        tolerations=(Toleration("t", "Exists"),),
        spread=(ClusterSpread("region"), ClusterSpread("zone", 2, hard=False)),
    )
    assert placement_from_mapping(placement(POLICY), 9) == Placement(PlacementRef("", "web"), 4, wanted, 9)


def test_without_a_policy_every_member_is_wanted() -> None:
    assert placement_from_mapping(placement(None)).policy == PlacementPolicy()


@pytest.mark.parametrize(
    ("obj", "reference"),
    [
        (placement(None), "cluster/web"),
        ({**placement(None), "kind": "ResourcePlacement"}, "ns/default/web"),
        ({**placement(None, namespace="shop"), "kind": "ResourcePlacement"}, "ns/shop/web"),
    ],
)
def test_the_same_name_in_both_scopes_is_another_placement(obj: dict[str, Any], reference: str) -> None:
    assert str(placement_from_mapping(obj).ref) == reference


@pytest.mark.parametrize(
    ("obj", "told"),
    [
        ({**placement(None), "kind": "Pod"}, "kind 'Pod' is none of ClusterResourcePlacement, ResourcePlacement"),
        (placement(None, name=""), "metadata.name is missing"),
        (placement({"placementType": "PickSome"}), "spec.policy.placementType 'PickSome' is none of"),
        (placement({"numberOfClusters": -1}), "spec.policy.numberOfClusters is not between 0 and"),
        (placement({"clusterNames": "a"}), "spec.policy.clusterNames is no list"),
        (placement({"tolerations": [{"key": 1}]}), "spec.policy.tolerations[0].key is no text"),
        (
            placement({"topologySpreadConstraints": [{"maxSkew": 0}]}),
            "spec.policy.topologySpreadConstraints[0].maxSkew is not between 1 and",
        ),
        (placement({"affinity": {"clusterAffinity": 3}}), "spec.policy.affinity.clusterAffinity is no mapping"),
    ],
)
def test_what_is_wrong_is_told_with_its_path(obj: dict[str, Any], told: str) -> None:
    with pytest.raises(InvalidObject) as caught:
        placement_from_mapping(obj)
    assert told in str(caught.value)
