"""A `v1.Pod` as a mapping to the model's pod; its specification is read in `pod_specs`."""

from __future__ import annotations

from collections.abc import Mapping
from sys import intern
from typing import Any, NamedTuple, Protocol

from wharfinger.errors import InvalidObject
from wharfinger.objects.documents.fields import (
    boolean,
    checked_text,
    integer,
    mapping,
    mappings,
    sequence,
    text,
    text_map,
)
from wharfinger.objects.documents.metadata import (
    METADATA,
    check_kind,
    checked_object,
    object_name,
    object_namespace,
    object_uid,
)
from wharfinger.objects.documents.pod_requests import PARTS_OF_RESIZE, SPEC, STATUS, resize_of, resized_request
from wharfinger.objects.documents.pod_specs import claims_of, fields_of, what_is_read
from wharfinger.objects.documents.spelling import (
    OBJECT_META,
    OWNER,
    POD,
    POD_CONDITION,
    POD_STATUS,
    SCHEDULING_GROUP,
    shown,
)
from wharfinger.objects.model.conditions import (
    DISRUPTION_TARGET,
    INFEASIBLE,
    POD_RESIZE_PENDING,
    POD_SCHEDULED,
    PREEMPTION,
)
from wharfinger.objects.model.gang import number_of, problem_of
from wharfinger.objects.model.pod import NO_TERMS, GangTerms, Pod, Request
from wharfinger.objects.model.priority import NO_CLASSES, PriorityClasses

GROUP_LABEL = "pod-group.scheduling.sigs.k8s.io/name"
MIN_AVAILABLE_LABEL = "pod-group.scheduling.sigs.k8s.io/min-available"
POD_GROUP_LABEL = "scheduling.x-k8s.io/pod-group"
"""Names a PodGroup object, as the coscheduling plugin of the scheduler-plugins reads it."""
_MIN_AVAILABLE_LABELS = {
    GROUP_LABEL: MIN_AVAILABLE_LABEL,
    "pod-group.scheduling.x-k8s.io/name": "pod-group.scheduling.x-k8s.io/min-available",
}
"""For gangs without a PodGroup: which label has the number, by the one that names the group."""
GROUP_LABELS = (POD_GROUP_LABEL, "pod-group.scheduling.sigs.k8s.io", *_MIN_AVAILABLE_LABELS)
"""All labels that name a gang, of which the first that a pod has counts: releases of the scheduler-plugins differ."""
TOPOLOGY_KEY_ANNOTATION = "wharfinger.dev/topology-key"
_GROUP = "spec.schedulingGroup."
INLINE_GROUP = "wharfinger.dev/group"
"""In `spec.schedulingGroup`: what a PodGroup would say, for formats without PodGroups; no field of Kubernetes.

It is part of the specification, so no label selector sees it. Misspelt, it makes the pod wait for a PodGroup.
"""
_OF_GROUP = ("minCount", "topologyKeys")
_UINT32 = 2**32 - 1


class Parts(Protocol):
    """Reads the parts of a pod that many pods have alike."""

    def labels(self, metadata: Mapping[str, Any]) -> Mapping[str, str]:
        """The pod's labels."""

    def controller(self, metadata: Mapping[str, Any]) -> tuple[str, str] | None:
        """Kind and name of the pod's controller, None for a pod of its own."""

    def spec_fields(self, spec: Mapping[str, Any], namespace: str, labels: Mapping[str, str]) -> dict[str, Any]:
        """Arguments of `Pod` that follow from its specification (`pod_specs`)."""


class EachAnew:
    """Reads each part anew."""

    def labels(self, metadata: Mapping[str, Any]) -> Mapping[str, str]:
        """`metadata.labels`."""
        return text_map(metadata, "labels", METADATA)

    def controller(self, metadata: Mapping[str, Any]) -> tuple[str, str] | None:
        """Of the first of `metadata.ownerReferences` that is one."""
        for index, entry in enumerate(mappings(metadata, "ownerReferences", METADATA)):
            where = f"{METADATA}ownerReferences[{index}]."
            OWNER.check(entry, where)
            if boolean(entry, "controller", where):
                return text(entry, "kind", where), text(entry, "name", where)
        return None

    def spec_fields(self, spec: Mapping[str, Any], namespace: str, labels: Mapping[str, str]) -> dict[str, Any]:
        """All that follows from the specification."""
        return fields_of(what_is_read(spec), namespace, labels)


EACH_ANEW = EachAnew()


def pod(
    given: object,
    *,
    create_revision: int = 0,
    mod_revision: int = 0,
    default_namespace: str = "default",
    parts: Parts = EACH_ANEW,
    classes: PriorityClasses = NO_CLASSES,
) -> Pod:
    """Read a pod; raises `InvalidObject`. `classes`: those that are known now, which spares resolving it later."""
    obj = checked_object(given)
    check_kind(obj, "Pod")
    if not POD.fits(obj):
        POD.examine(obj)
    metadata = mapping(obj, "metadata")
    if not OBJECT_META.fits(metadata):
        OBJECT_META.examine(metadata, METADATA)
    spec = mapping(obj, "spec")
    status = mapping(obj, "status")
    if not POD_STATUS.fits(status):
        POD_STATUS.examine(status, STATUS)
    labels = parts.labels(metadata)
    namespace = intern(object_namespace(metadata, default_namespace))
    conditions = _conditions(status)
    group, gang = _gang(metadata, spec, labels)
    name = object_name(metadata)
    fields = _by_class(parts.spec_fields(spec, namespace, labels), classes)
    node_name = text(spec, "nodeName", SPEC)
    if node_name:
        fields = _on_node(fields, spec, status, infeasible=conditions.infeasible)
    return Pod(
        namespace=namespace,
        name=name,
        uid=object_uid(metadata) or f"rev-{create_revision}",
        create_revision=create_revision,
        mod_revision=mod_revision,
        labels=labels,
        node_name=node_name,
        nominated_node_name=text(status, "nominatedNodeName", STATUS),
        phase=intern(text(status, "phase", STATUS)),
        deletion_timestamp=text(metadata, "deletionTimestamp", METADATA),
        creation_timestamp=intern(text(metadata, "creationTimestamp", METADATA)),
        start_time=text(status, "startTime", STATUS),
        disruption_target=conditions.evicted,
        controller=parts.controller(metadata),
        group=group,
        gang=gang,
        condition=conditions.scheduled,
        claims=claims_of(spec, name),
        **fields,
    )


def _by_class(fields: dict[str, Any], classes: PriorityClasses) -> dict[str, Any]:
    """The fields with what the pod leaves to its class."""
    terms = fields["class_terms"]
    if terms is None or classes is NO_CLASSES:
        return fields
    priority, policy, missing = classes.give(terms)
    return {**fields, "priority": priority, "preemption_policy": policy, "class_missing": missing}


def _on_node(
    fields: dict[str, Any], spec: Mapping[str, Any], status: Mapping[str, Any], *, infeasible: bool
) -> dict[str, Any]:
    """The fields of a bound pod: of what it counts, those that hold on its node."""
    counted = fields["once_moved"]
    reported = any(part in status for part in PARTS_OF_RESIZE)
    resize = resize_of(spec, status) if reported else {}
    if resize:
        counted = resized_request(spec, resize, infeasible=infeasible)
    if counted is None:
        return fields
    asked = Request(fields["requests"], fields["scoring_cpu"], fields["scoring_memory"])
    return {**fields, **counted._asdict(), "once_moved": None if counted == asked else asked}


def _gang(metadata: Mapping[str, Any], spec: Mapping[str, Any], labels: Mapping[str, str]) -> tuple[str, GangTerms]:
    """The group's name, empty for none, and what the pod says of it. What it says wrongly makes it wait, not vanish."""
    if spec.get("schedulingGroup") is not None:
        reference = mapping(spec, "schedulingGroup", SPEC)
        SCHEDULING_GROUP.check(reference, _GROUP)
        named = text(reference, "podGroupName", _GROUP)
        if named:
            return named, _group_terms(named, reference)
    naming = next((label for label in GROUP_LABELS if labels.get(label)), None)
    if naming is None:
        return "", NO_TERMS
    group, number = labels[naming], _MIN_AVAILABLE_LABELS.get(naming)
    written = labels.get(number) if number else None
    annotations = metadata.get("annotations")
    key = annotations.get(TOPOLOGY_KEY_ANNOTATION) if isinstance(annotations, Mapping) else None
    keys = (key,) if isinstance(key, str) and key else ()
    problem = problem_of(group, written, keys)
    return group, GangTerms(
        by_object=number is None,
        min_available=(number_of(written) or 0) if written is not None else 0,
        topology_keys=() if problem else keys,
        problem=problem,
    )


def _group_terms(name: str, reference: Mapping[str, Any]) -> GangTerms:
    """What `spec.schedulingGroup` says: that a PodGroup has the rest, or the rest itself."""
    if reference.get(INLINE_GROUP) is None:
        return GangTerms(by_object=True, problem=problem_of(name, None, ()))
    group, where = mapping(reference, INLINE_GROUP, _GROUP), f"{_GROUP}{INLINE_GROUP}."
    unknown = next((key for key in group if key not in _OF_GROUP), None)
    if unknown is not None:
        raise InvalidObject(f"{where}{shown(unknown)}: unknown field (known are {', '.join(_OF_GROUP)})")
    keys = sorted({checked_text(key, f"{where}topologyKeys") for key in sequence(group, "topologyKeys", where)})
    problem = problem_of(name, None, keys)
    return GangTerms(
        min_available=integer(group, "minCount", where, low=0, high=_UINT32) or 0,
        topology_keys=() if problem else tuple(keys),
        problem=problem,
    )


class _Conditions(NamedTuple):
    """What the conditions of a pod say."""

    scheduled: tuple[str, str, str] | None
    """Of PodScheduled: status, reason, message."""
    evicted: bool
    """Whether the pod is being evicted by this scheduler."""
    infeasible: bool
    """Whether its resize in place can never happen."""


def _conditions(status: Mapping[str, Any]) -> _Conditions:
    """Of each kind the first one counts."""
    scheduled: tuple[str, str, str] | None = None
    evicted: bool | None = None
    infeasible: bool | None = None
    for index, entry in enumerate(mappings(status, "conditions", STATUS)):
        where = f"status.conditions[{index}]."
        if not POD_CONDITION.fits(entry):
            POD_CONDITION.examine(entry, where)
        kind = text(entry, "type", where)
        if kind == POD_SCHEDULED and scheduled is None:
            scheduled = text(entry, "status", where), text(entry, "reason", where), text(entry, "message", where)
        elif kind == DISRUPTION_TARGET and evicted is None:
            evicted = (text(entry, "status", where), text(entry, "reason", where)) == ("True", PREEMPTION)
        elif kind == POD_RESIZE_PENDING and infeasible is None:
            infeasible = text(entry, "reason", where) == INFEASIBLE
    return _Conditions(scheduled, bool(evicted), bool(infeasible))
