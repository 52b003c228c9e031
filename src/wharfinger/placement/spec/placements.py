"""Placements of KubeFleet (`placement.kubernetes-fleet.io`, `v1` and `v1beta1`), read for deciding.

What is read here may be wrong in ways that only `spec.placement` finds: it lists all mistakes when a user applies an
object.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from wharfinger.errors import InvalidObject
from wharfinger.objects.documents.fields import int_or_percent, integer, mapping, mappings, text, texts
from wharfinger.objects.documents.selectors import label_selector, tolerations
from wharfinger.objects.model.placement_kinds import CLUSTER_PLACEMENT, PLACEMENTS
from wharfinger.placement.model.placement import (
    ClusterPreference,
    ClusterSpread,
    ClusterTerm,
    Eviction,
    Placement,
    PlacementBudget,
    PlacementPolicy,
    PlacementRef,
    PlacementType,
    PropertyRequirement,
    PropertySorter,
)

_INT32 = 2**31 - 1
_TYPES = {one.value: one for one in PlacementType}
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def placement_from_mapping(obj: Mapping[str, Any], identity: int = 0) -> Placement:
    """A placement. `identity` is the create revision of its object. Raises InvalidObject, naming the field."""
    metadata, spec = mapping(obj, "metadata"), mapping(obj, "spec")
    return Placement(
        ref=placement_ref(obj),
        generation=integer(metadata, "generation", "metadata.", low=0, high=2**63 - 1) or 0,
        policy=policy_from_mapping(spec),
        identity=identity,
        deleting=metadata.get("deletionTimestamp") is not None,
    )


def placement_ref(obj: Mapping[str, Any]) -> PlacementRef:
    """What the placement is called. A namespaced kind without a namespace is in `default`."""
    kind = text(obj, "kind")
    if kind not in PLACEMENTS:
        raise InvalidObject(f"kind {kind[:40]!r} is none of {', '.join(PLACEMENTS)}")
    metadata = mapping(obj, "metadata")
    name = text(metadata, "name", "metadata.")
    if not name:
        raise InvalidObject("metadata.name is missing")
    namespace = "" if kind == CLUSTER_PLACEMENT else text(metadata, "namespace", "metadata.") or "default"
    return PlacementRef(namespace, name)


def eviction_from_mapping(obj: Mapping[str, Any], name: str) -> Eviction:
    """An eviction; KubeFleet's concern ClusterResourcePlacements. Raises InvalidObject, naming the field."""
    spec = mapping(obj, "spec")
    placement = PlacementRef("", text(spec, "placementName", "spec."))
    return Eviction(name, placement, text(spec, "clusterName", "spec."))


def budget_from_mapping(obj: Mapping[str, Any]) -> PlacementBudget:
    """A disruption budget. Raises InvalidObject, naming the field."""
    spec = mapping(obj, "spec")
    return PlacementBudget(
        int_or_percent(spec, "maxUnavailable", "spec."), int_or_percent(spec, "minAvailable", "spec.")
    )


def policy_from_mapping(spec: Mapping[str, Any]) -> PlacementPolicy:
    """`spec.policy`; absent, it wants every member."""
    if spec.get("policy") is None:
        return PlacementPolicy()
    policy = mapping(spec, "policy", "spec.")
    where = "spec.policy."
    kind = text(policy, "placementType", where) or PlacementType.PICK_ALL
    if kind not in _TYPES:
        raise InvalidObject(f"{where}placementType {kind[:40]!r} is none of {', '.join(_TYPES)}")
    affinity = mapping(mapping(policy, "affinity", where), "clusterAffinity", f"{where}affinity.")
    path = f"{where}affinity.clusterAffinity."
    return PlacementPolicy(
        type=_TYPES[kind],
        number=integer(policy, "numberOfClusters", where, low=0, high=_INT32),
        names=texts(policy, "clusterNames", where),
        required=tuple(
            _term(term, f"{path}{_REQUIRED}.clusterSelectorTerms[{index}].")
            for index, term in enumerate(
                mappings(mapping(affinity, _REQUIRED, path), "clusterSelectorTerms", f"{path}{_REQUIRED}.")
            )
        ),
        preferred=tuple(
            _preference(entry, f"{path}{_PREFERRED}[{index}].")
            for index, entry in enumerate(mappings(affinity, _PREFERRED, path))
        ),
        tolerations=tolerations(policy, where),
        spread=tuple(
            _constraint(entry, f"{where}topologySpreadConstraints[{index}].")
            for index, entry in enumerate(mappings(policy, "topologySpreadConstraints", where))
        ),
    )


def _term(term: Mapping[str, Any], where: str) -> ClusterTerm:
    selector = mapping(term, "propertySelector", where)
    path = f"{where}propertySelector."
    return ClusterTerm(
        labels=label_selector(term, "labelSelector", where),
        properties=tuple(
            PropertyRequirement(
                text(entry, "name", f"{path}matchExpressions[{index}]."),
                text(entry, "operator", f"{path}matchExpressions[{index}]."),
                texts(entry, "values", f"{path}matchExpressions[{index}]."),
            )
            for index, entry in enumerate(mappings(selector, "matchExpressions", path))
        ),
    )


def _preference(entry: Mapping[str, Any], where: str) -> ClusterPreference:
    preference = mapping(entry, "preference", where)
    path = f"{where}preference."
    sorter = mapping(preference, "propertySorter", path)
    return ClusterPreference(
        weight=integer(entry, "weight", where, low=-100, high=100) or 0,
        labels=label_selector(preference, "labelSelector", path),
        sorter=PropertySorter(
            text(sorter, "name", f"{path}propertySorter."), text(sorter, "sortOrder", f"{path}propertySorter.")
        )
        if preference.get("propertySorter") is not None
        else None,
    )


def _constraint(entry: Mapping[str, Any], where: str) -> ClusterSpread:
    skew = integer(entry, "maxSkew", where, low=1, high=_INT32)
    return ClusterSpread(
        key=text(entry, "topologyKey", where),
        max_skew=1 if skew is None else skew,
        hard=text(entry, "whenUnsatisfiable", where) != "ScheduleAnyway",
    )
