"""Reads what a placement delivers: its resource selectors, overrides, and objects as they go to members.

`placements` reads the other half of a placement, the policy. `config` validates these objects when a user applies
them; what is read here may be wrong in ways that only `config` finds.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from wharfinger.errors import InvalidObject
from wharfinger.manifests.fields import boolean, mapping, mappings, text
from wharfinger.manifests.selectors import label_selector
from wharfinger.model.contents import (
    ObjectId,
    Override,
    OverridePatch,
    OverrideRule,
    ResourceSelector,
    SelectionScope,
)
from wharfinger.model.names import ATTEMPT_ANNOTATION
from wharfinger.model.placement import PlacementRef
from wharfinger.model.placement_kinds import CLUSTER_OVERRIDE, OVERRIDE
from wharfinger.model.selectors import LabelSelector, Operator, Requirement

_SCOPES = {one.value: one for one in SelectionScope}
_OPERATIONS = ("add", "remove", "replace")
_NOTHING = LabelSelector((Requirement("", Operator.IN),))
"""Matches no labels: a term without a label selector."""
_HUB_METADATA = (
    "resourceVersion",
    "generation",
    "uid",
    "selfLink",
    "creationTimestamp",
    "deletionTimestamp",
    "managedFields",
    "ownerReferences",
)
"""Only true on the hub. Finalizers and the grace period of a deletion stay, as in KubeFleet."""
_HUB_ANNOTATIONS = (
    "kubectl.kubernetes.io/last-applied-configuration",
    "deployment.kubernetes.io/revision",
    ATTEMPT_ANNOTATION,
)
_GENERATED_LABELS = ("controller-uid", "batch.kubernetes.io/controller-uid")
"""The API server puts them on a Job's selector and pods. They name the hub's Job."""


def selectors_from_mapping(spec: Mapping[str, Any]) -> tuple[ResourceSelector, ...]:
    """`spec.resourceSelectors` of a placement. Raises `InvalidObject`, naming the field."""
    return tuple(
        _selector(entry, f"spec.resourceSelectors[{index}].")
        for index, entry in enumerate(mappings(spec, "resourceSelectors", "spec."))
    )


def override_from_mapping(obj: Mapping[str, Any]) -> Override:
    """An override of either kind. Raises `InvalidObject`, naming the field."""
    kind = text(obj, "kind")
    if kind not in (CLUSTER_OVERRIDE, OVERRIDE):
        raise InvalidObject(f"kind {kind[:40]!r} is neither {CLUSTER_OVERRIDE} nor {OVERRIDE}")
    metadata, spec = mapping(obj, "metadata"), mapping(obj, "spec")
    name = text(metadata, "name", "metadata.")
    if not name:
        raise InvalidObject("metadata.name is missing")
    namespace = "" if kind == CLUSTER_OVERRIDE else text(metadata, "namespace", "metadata.") or "default"
    field = "resourceSelectors" if namespace else "clusterResourceSelectors"
    policy = mapping(spec, "policy", "spec.")
    return Override(
        name=name,
        namespace=namespace,
        placement=_placement(spec, namespace),
        selectors=tuple(
            _selected(entry, namespace, f"spec.{field}[{index}].")
            for index, entry in enumerate(mappings(spec, field, "spec."))
        ),
        rules=tuple(
            _rule(entry, f"spec.policy.overrideRules[{index}].")
            for index, entry in enumerate(mappings(policy, "overrideRules", "spec.policy."))
        ),
    )


def sanitised(obj: Mapping[str, Any]) -> dict[str, Any]:
    """An object without what is only true on the hub, as members get it.

    The input is not changed; the result shares with it what stays the same. Raises `InvalidObject`.
    """
    result = {key: value for key, value in obj.items() if key != "status"}
    metadata = mapping(obj, "metadata")
    annotations = mapping(metadata, "annotations", "metadata.")
    kept = {key: value for key, value in metadata.items() if key not in (*_HUB_METADATA, "annotations")}
    remaining = {key: value for key, value in annotations.items() if key not in _HUB_ANNOTATIONS}
    if remaining:
        kept["annotations"] = remaining
    result["metadata"] = kept
    match obj.get("apiVersion"), obj.get("kind"):
        case "v1", "Pod" if ATTEMPT_ANNOTATION in annotations:
            return _without(result, "spec", "nodeName")
        case "v1", "Service":
            return _service(result)
        case "batch/v1", "Job":
            return _job(result)
    return result


def _selector(entry: Mapping[str, Any], where: str) -> ResourceSelector:
    scope = text(entry, "selectionScope", where) or SelectionScope.WITH_RESOURCES
    if scope not in _SCOPES:
        raise InvalidObject(f"{where}selectionScope {scope[:40]!r} is none of {', '.join(_SCOPES)}")
    return ResourceSelector(
        group=text(entry, "group", where),
        version=text(entry, "version", where),
        kind=text(entry, "kind", where),
        name=text(entry, "name", where),
        labels=label_selector(entry, "labelSelector", where),
        scope=_SCOPES[scope],
    )


def _placement(spec: Mapping[str, Any], namespace: str) -> PlacementRef | None:
    """Which placement the override is for. A cluster override is never for a namespaced placement."""
    if spec.get("placement") is None:
        return None
    placement = mapping(spec, "placement", "spec.")
    scope = text(placement, "scope", "spec.placement.") or "Cluster"
    if scope not in ("Cluster", "Namespaced"):
        raise InvalidObject(f"spec.placement.scope {scope[:40]!r} is neither Cluster nor Namespaced")
    return PlacementRef(namespace if scope == "Namespaced" else "", text(placement, "name", "spec.placement."))


def _selected(entry: Mapping[str, Any], namespace: str, where: str) -> ObjectId:
    group, version, kind, name = [text(entry, field, where) for field in ("group", "version", "kind", "name")]
    return ObjectId(group, version, kind, namespace, name)


def _rule(entry: Mapping[str, Any], where: str) -> OverrideRule:
    kind = text(entry, "overrideType", where) or "JSONPatch"
    if kind not in ("JSONPatch", "Delete"):
        raise InvalidObject(f"{where}overrideType {kind[:40]!r} is neither JSONPatch nor Delete")
    terms = None
    if entry.get("clusterSelector") is not None:
        path = f"{where}clusterSelector."
        selector = mapping(entry, "clusterSelector", where)
        terms = tuple(
            label_selector(term, "labelSelector", f"{path}clusterSelectorTerms[{index}].") or _NOTHING
            for index, term in enumerate(mappings(selector, "clusterSelectorTerms", path))
        )
    patches = tuple(
        _patch(patch, f"{where}jsonPatchOverrides[{index}].")
        for index, patch in enumerate(mappings(entry, "jsonPatchOverrides", where))
    )
    return OverrideRule(terms, kind == "Delete", () if kind == "Delete" else patches)


def _patch(entry: Mapping[str, Any], where: str) -> OverridePatch:
    operation = text(entry, "op", where)
    if operation not in _OPERATIONS:
        raise InvalidObject(f"{where}op {operation[:40]!r} is none of {', '.join(_OPERATIONS)}")
    value = None if operation == "remove" else entry.get("value")
    return OverridePatch(operation, text(entry, "path", where), value)


def _service(obj: dict[str, Any]) -> dict[str, Any]:
    """Without addresses and ports that the hub assigned. A headless Service stays headless."""
    spec = mapping(obj, "spec")
    address = spec.get("clusterIP")
    if isinstance(address, str) and address != "None":
        obj = _without(_without(obj, "spec", "clusterIP"), "spec", "clusterIPs")
    obj = _without(obj, "spec", "healthCheckNodePort")
    ports = spec.get("ports")
    if isinstance(ports, list):
        freed = [_without(port, "nodePort") if isinstance(port, Mapping) else port for port in ports]
        obj["spec"] = {**mapping(obj, "spec"), "ports": freed}
    return obj


def _job(obj: dict[str, Any]) -> dict[str, Any]:
    """Without the selector that the API server generated."""
    if boolean(mapping(obj, "spec"), "manualSelector", "spec."):
        return obj
    for label in _GENERATED_LABELS:
        obj = _without(obj, "spec", "selector", "matchLabels", label)
        obj = _without(obj, "spec", "template", "metadata", "labels", label)
    return _without(obj, "spec", "template", "metadata", "creationTimestamp")


def _without(obj: Mapping[str, Any], *path: str) -> dict[str, Any]:
    """A copy without the field at the path; only what lies on the path is copied."""
    key, *rest = path
    if not rest:
        return {name: value for name, value in obj.items() if name != key}
    result = dict(obj)
    below = obj.get(key)
    if isinstance(below, Mapping):
        result[key] = _without(below, *rest)
    return result
