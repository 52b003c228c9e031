"""Objects of placement as users write them, and what agents of members write."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from wharfinger.placement.contracts.placement_records import MemberRecord, MemberStatusRecord

SELECTORS = [{"group": "", "version": "v1", "kind": "Namespace", "name": "web"}]
ONLINE = {
    "agentStatus": [
        {
            "type": "MemberAgent",
            "conditions": [{"type": "Joined", "status": "True"}, {"type": "Healthy", "status": "True"}],
        }
    ]
}


def member_object(
    name: str, labels: Mapping[str, str] | None = None, taints: Sequence[Mapping[str, str]] = (), **metadata: Any
) -> dict[str, Any]:
    return {
        "apiVersion": "cluster.kubernetes-fleet.io/v1",
        "kind": "MemberCluster",
        "metadata": {"name": name, "labels": dict(labels or {}), **metadata},
        "spec": {"taints": list(taints)},
    }


def placement_object(
    name: str = "web", *, namespace: str = "", generation: int = 1, deleting: bool = False, **policy: Any
) -> dict[str, Any]:
    return {
        "apiVersion": "placement.kubernetes-fleet.io/v1",
        "kind": "ResourcePlacement" if namespace else "ClusterResourcePlacement",
        "metadata": {
            "name": name,
            "generation": generation,
            **({"namespace": namespace} if namespace else {}),
            **({"deletionTimestamp": "2026-01-01T00:00:00Z"} if deleting else {}),
        },
        "spec": {"resourceSelectors": SELECTORS, **({"policy": policy} if policy else {})},
    }


def pick(number: int, **policy: Any) -> dict[str, Any]:
    return {"placementType": "PickN", "numberOfClusters": number, **policy}


def in_region(*regions: str) -> dict[str, Any]:
    """Affinity that requires one of these regions."""
    terms = [{"labelSelector": {"matchLabels": {"region": region}}} for region in regions]
    required = {"clusterSelectorTerms": terms}
    return {"affinity": {"clusterAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}}


def eviction_object(name: str, placement: str, cluster: str) -> dict[str, Any]:
    return {
        "apiVersion": "placement.kubernetes-fleet.io/v1",
        "kind": "ClusterResourcePlacementEviction",
        "metadata": {"name": name},
        "spec": {"placementName": placement, "clusterName": cluster},
    }


def budget_object(placement: str, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "placement.kubernetes-fleet.io/v1",
        "kind": "ClusterResourcePlacementDisruptionBudget",
        "metadata": {"name": placement},
        "spec": spec,
    }


def agent_record(identity: int) -> bytes:
    return MemberRecord(identity=identity).to_bytes()


def status_record(identity: int, **status: Any) -> bytes:
    return MemberStatusRecord(identity=identity, status={**ONLINE, **status}).to_bytes()
