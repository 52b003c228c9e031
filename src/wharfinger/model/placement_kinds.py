"""Kinds of the objects of placement, and their API groups: KubeFleet's names."""

from __future__ import annotations

PLACEMENT_GROUP = "placement.kubernetes-fleet.io"
CLUSTER_GROUP = "cluster.kubernetes-fleet.io"
VERSIONS = ("v1", "v1beta1")
"""Read as the same."""

MEMBER_CLUSTER = "MemberCluster"
CLUSTER_PLACEMENT = "ClusterResourcePlacement"
NAMESPACED_PLACEMENT = "ResourcePlacement"
PLACEMENTS = (CLUSTER_PLACEMENT, NAMESPACED_PLACEMENT)
EVICTION = "ClusterResourcePlacementEviction"
BUDGET = "ClusterResourcePlacementDisruptionBudget"
CLUSTER_OVERRIDE = "ClusterResourceOverride"
OVERRIDE = "ResourceOverride"
