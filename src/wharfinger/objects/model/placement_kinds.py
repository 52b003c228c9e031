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
CLUSTER_UPDATE_STRATEGY = "ClusterStagedUpdateStrategy"
UPDATE_STRATEGY = "StagedUpdateStrategy"
UPDATE_STRATEGIES = (CLUSTER_UPDATE_STRATEGY, UPDATE_STRATEGY)
CLUSTER_UPDATE_RUN = "ClusterStagedUpdateRun"
UPDATE_RUN = "StagedUpdateRun"
UPDATE_RUNS = (CLUSTER_UPDATE_RUN, UPDATE_RUN)
KUBEFLEET_FINALIZERS = "kubernetes-fleet.io/"
"""What names of KubeFleet's finalizers begin with."""
