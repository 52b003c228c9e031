"""Policies as users write them, with every field that a policy can have."""

from __future__ import annotations

from typing import Any

_EXPRESSIONS = [
    {"key": "tier", "operator": "In", "values": ["gold", "silver"]},
    {"key": "stage", "operator": "NotIn", "values": ["dev"]},
    {"key": "gpu", "operator": "Exists"},
    {"key": "edge", "operator": "DoesNotExist"},
]
_PROPERTIES = [
    {"name": "resources.kubernetes-fleet.io/total-cpu", "operator": "Ge", "values": ["8"]},
    {"name": "kubernetes-fleet.io/node-count", "operator": "Lt", "values": ["100"]},
]
_REQUIRED = {
    "clusterSelectorTerms": [
        {"labelSelector": {"matchLabels": {"region": "west"}, "matchExpressions": _EXPRESSIONS}},
        {"propertySelector": {"matchExpressions": _PROPERTIES}},
        {"labelSelector": {}},
    ]
}
_PREFERRED = [
    {"weight": 20, "preference": {"labelSelector": {"matchLabels": {"disk": "it's fast"}}}},
    {
        "weight": -7,
        "preference": {
            "propertySorter": {"name": "resources.kubernetes-fleet.io/available-memory", "sortOrder": "Ascending"}
        },
    },
]
_TOLERATIONS = [
    {"key": "maintenance", "operator": "Exists"},
    {"key": "dedicated", "operator": "Equal", "value": "web", "effect": "NoSchedule"},
    {"key": "lost", "effect": "NoExecute", "tolerationSeconds": 30},
]

POLICIES: dict[str, dict[str, Any] | None] = {
    "none": None,
    "all": {"placementType": "PickAll"},
    "fixed": {"placementType": "PickFixed", "clusterNames": ["eu.west", "zürich"]},
    "one fixed": {"placementType": "PickFixed", "clusterNames": ["a"]},
    "some": {"placementType": "PickN", "numberOfClusters": 3},
    "full": {
        "placementType": "PickN",
        "numberOfClusters": 2,
        "affinity": {
            "clusterAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": _REQUIRED,
                "preferredDuringSchedulingIgnoredDuringExecution": _PREFERRED,
            }
        },
        "tolerations": _TOLERATIONS,
        "topologySpreadConstraints": [
            {"topologyKey": "zone", "maxSkew": 2},
            {"topologyKey": "region", "whenUnsatisfiable": "ScheduleAnyway"},
        ],
    },
}
