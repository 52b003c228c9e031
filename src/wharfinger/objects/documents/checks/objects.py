"""The entry: everything that an API server would refuse of one object.

The types of values come first: a number where a text belongs cannot be read by an API server at all. They are those of
the Go structs (`kubernetes_fields`). As in Kubernetes' decoding, null means absent. Fields that Kubernetes does not
have are left to `unknown`.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from wharfinger.errors import InvalidObject
from wharfinger.objects.documents.checks import pods, volumes, workloads
from wharfinger.objects.documents.checks.metadata import (
    check_label_selector,
    check_labels,
    check_metadata,
    dns_label,
    dns_subdomain,
)
from wharfinger.objects.documents.checks.place import FieldPlace
from wharfinger.objects.documents.checks.pods import PREEMPTION_POLICIES
from wharfinger.objects.documents.checks.resources import check_amount, check_overhead, nanos, shown
from wharfinger.objects.documents.checks.scheduling import check_taints, check_tolerations
from wharfinger.objects.documents.checks.workloads import check_share
from wharfinger.objects.documents.kubernetes_fields import kubernetes_fields
from wharfinger.objects.documents.metadata import OF_THE_API
from wharfinger.objects.model.priority import HIGHEST_OF_USERS, SYSTEM_CLASSES, SYSTEM_PREFIX
from wharfinger.objects.model.quantities import NANO, parse_quantity

MOST = 100
"""Problems of one object that are named."""

_METADATA_ONLY = ("v1 ConfigMap", "v1 Namespace", "v1 Secret", "v1 ServiceAccount", "v1 Service")
_WITHOUT_NAMESPACE = (
    "v1 Node",
    "v1 Namespace",
    "v1 PersistentVolume",
    "node.k8s.io/v1 RuntimeClass",
    "scheduling.k8s.io/v1 PriorityClass",
    "storage.k8s.io/v1 StorageClass",
)
_NAMED_BY_A_LABEL = ("v1 Namespace", "apps/v1 StatefulSet")


def problems_of(obj: Mapping[str, Any]) -> tuple[str, ...]:
    """What an API server of Kubernetes would refuse: a line each, with the path of the field.

    Values of wrong types are found in objects of all kinds that are listed (`kubernetes_fields`); the rest in those
    that concern pods and where they go. Nothing is found in kinds of other makers. Raises `InvalidObject` for what is
    nested too deeply.
    """
    title = f"{obj.get('apiVersion')} {obj.get('kind')}"
    kind = kubernetes_fields().kinds.get(title)
    if kind is None:
        return ()
    place = FieldPlace.whole(obj)
    try:
        check_types(place, kind)
        if not place.problems:
            _check(place, title)
    except RecursionError:
        raise InvalidObject("is nested too deeply") from None
    found = list(dict.fromkeys(place.problems))
    return tuple(found) if len(found) <= MOST else (*found[:MOST], "and more")


def was_taken(obj: Mapping[str, Any]) -> bool:
    """Whether an object comes from a cluster: an API server took it, perhaps of another release or with other gates."""
    metadata, status = obj.get("metadata"), obj.get("status")
    given = isinstance(metadata, Mapping) and any(metadata.get(field) for field in OF_THE_API)
    return given or (isinstance(status, Mapping) and bool(status.get("phase")))


def _check(place: FieldPlace, title: str) -> None:
    check = _CHECKS.get(title)
    if check is not None or title in _METADATA_ONLY:
        name_rule = dns_label if title in _NAMED_BY_A_LABEL else dns_subdomain
        check_metadata(place["metadata"], name_rule, namespaced=title not in _WITHOUT_NAMESPACE)
    if check is not None:
        check(place)


_QUANTITY = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"


def _is_integer(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_quantity(value: Any) -> bool:
    try:
        parse_quantity(value)
    except ValueError:
        return False
    return True


def _is_base64(value: Any) -> bool:
    try:
        base64.b64decode(value, validate=True)
    except (binascii.Error, TypeError, ValueError):
        return False
    return True


_SCALARS: Mapping[str, tuple[Callable[[Any], bool], str]] = {
    "string": (lambda value: isinstance(value, str), "must be a string: write it in quotes"),
    "time": (lambda value: isinstance(value, str), "must be a string: a time such as 2026-01-31T12:00:00Z"),
    "bool": (lambda value: isinstance(value, bool), "must be true or false"),
    "int32": (lambda value: _is_integer(value) and -(2**31) <= value < 2**31, "must be an integer of 32 bits"),
    "int64": (lambda value: _is_integer(value) and -(2**63) <= value < 2**63, "must be an integer of 64 bits"),
    "float64": (lambda value: _is_integer(value) or isinstance(value, float), "must be a number"),
    "quantity": (_is_quantity, _QUANTITY),
    "int-or-string": (lambda value: _is_integer(value) or isinstance(value, str), "must be an integer or a string"),
    "bytes": (_is_base64, "must be a string in base64"),
    "any": (lambda _value: True, ""),
}


def check_types(place: FieldPlace, kind: str) -> None:
    """Find all values of other types than Kubernetes has, at and below a place.

    `kind`: a type of `kubernetes_fields`.
    """
    if not _fits(place.value, kind):
        for wrong, why in _wrong(place, kind):
            wrong.invalid(why)


def _fits(value: Any, kind: str) -> bool:
    """Whether all is of the right type. Almost everything is, and this costs a fifth of looking for places."""
    if value is None:
        return True
    scalar = _SCALARS.get(kind)
    if scalar is not None:
        return scalar[0](value)
    if kind.startswith("[]"):
        return isinstance(value, list) and all(_fits(entry, kind[2:]) for entry in value)
    if not isinstance(value, dict):
        return False
    if kind.startswith("{}"):
        return all(_fits(entry, kind[2:]) for entry in value.values())
    fields = kubernetes_fields().values[kind]
    return all(_fits(entry, fields[key]) for key, entry in value.items() if key in fields)


def _wrong(place: FieldPlace, kind: str) -> Iterator[tuple[FieldPlace, str]]:
    if not place.given:
        return
    if kind.startswith("[]"):
        if not isinstance(place.value, list):
            yield place, "must be a list"
            return
        for entry in place.entries():
            yield from _wrong(entry, kind[2:])
    elif kind.startswith("{}"):
        if not isinstance(place.value, dict):
            yield place, "must be a mapping"
            return
        for _, entry in place.pairs():
            yield from _wrong(entry, kind[2:])
    elif kind in _SCALARS:
        is_right, why = _SCALARS[kind]
        if not is_right(place.value):
            yield place, why
    elif not isinstance(place.value, dict):
        yield place, "must be a mapping"
    else:
        fields = kubernetes_fields().values[kind]
        for key in place.value:
            if key in fields:
                yield from _wrong(place[key], fields[key])


def check_node(node: FieldPlace) -> None:
    """A Node."""
    check_taints(node["spec"]["taints"])
    for field in ("capacity", "allocatable"):
        for name, amount in node["status"][field].pairs():
            check_amount(name, amount)


def check_disruption_budget(budget: FieldPlace) -> None:
    """A PodDisruptionBudget."""
    spec = budget["spec"]
    if spec["minAvailable"].given and spec["maxUnavailable"].given:
        spec.invalid("minAvailable and maxUnavailable cannot be both set")
    check_share(spec["minAvailable"])
    check_share(spec["maxUnavailable"])
    check_label_selector(spec["selector"])
    spec["unhealthyPodEvictionPolicy"].one_of("AlwaysAllow", "IfHealthyBudget")


def check_priority_class(priority_class: FieldPlace) -> None:
    """A PriorityClass."""
    name, value = priority_class["metadata"]["name"], priority_class["value"]
    if name.text.startswith(SYSTEM_PREFIX):
        system = SYSTEM_CLASSES.get(name.text)
        if (None if system is None else system.value) != value.value:
            name.forbidden(
                f"priority class names with '{SYSTEM_PREFIX}' prefix are reserved for system use only. "
                f"error: {name.text} is not a known system priority class"
            )
    elif (value.value or 0) > HIGHEST_OF_USERS:
        value.forbidden(f"maximum allowed value of a user defined priority is {HIGHEST_OF_USERS}")
    priority_class["preemptionPolicy"].one_of(*PREEMPTION_POLICIES)


def check_runtime_class(runtime_class: FieldPlace) -> None:
    """A RuntimeClass."""
    handler = runtime_class["handler"]
    if handler.text:
        handler.each(dns_label(handler.text))
    else:
        handler.required()
    check_overhead(runtime_class["overhead"]["podFixed"])
    check_labels(runtime_class["scheduling"]["nodeSelector"])
    check_tolerations(runtime_class["scheduling"]["tolerations"])


_AMOUNTS = {
    "min": "min value",
    "defaultRequest": "default request value",
    "default": "default value",
    "max": "max value",
}
_ORDERED = (
    ("min", "max", "min"),
    ("min", "defaultRequest", "defaultRequest"),
    ("defaultRequest", "max", "defaultRequest"),
    ("defaultRequest", "default", "defaultRequest"),
    ("min", "default", "default"),
    ("default", "max", "default"),
)
"""What may not be greater than what, and the field that is named."""
_CONFLICTING = ({"BestEffort", "NotBestEffort"}, {"Terminating", "NotTerminating"})
_WITH_VALUES, _WITHOUT_VALUES = ("In", "NotIn"), ("Exists", "DoesNotExist")
_OF_PODS = ("pods", "count/pods")


def check_limit_range(limit_range: FieldPlace) -> None:
    """A LimitRange."""
    types: set[str] = set()
    for limit in limit_range["spec"]["limits"].entries():
        kind = limit["type"]
        if kind.text in types:
            kind.duplicate()
        types.add(kind.text)
        for field in ("default", "defaultRequest") if kind.text == "Pod" else ():
            if limit[field].map:
                limit[field].forbidden("may not be specified when `type` is 'Pod'")
        if kind.text == "PersistentVolumeClaim" and not {"storage"} & (limit["min"].map.keys() | limit["max"].map):
            limit["limits"].required("either minimum or maximum storage value is required, but neither was provided")
        for less, more, field in _ORDERED:
            for name in sorted(limit[less].map.keys() & limit[more].map.keys()):
                _check_order(limit, less, more, field, name)
        for _, ratio in limit["maxLimitRequestRatio"].pairs():
            if nanos(ratio.value) < NANO:
                ratio.invalid(f"ratio {shown(ratio.value)} is less than 1", shown(ratio.value))


def _check_order(limit: FieldPlace, less: str, more: str, field: str, name: str) -> None:
    low, high = limit[less].map[name], limit[more].map[name]
    if nanos(low) > nanos(high):
        most = "default limit value" if (less, more) == ("defaultRequest", "default") else _AMOUNTS[more]
        said = f"{_AMOUNTS[less]} {shown(low)} is greater than {most} {shown(high)}"
        next(place for key, place in limit[field].pairs() if key == name).invalid(said, shown(limit[field].map[name]))


def check_quota(quota: FieldPlace) -> None:
    """A ResourceQuota."""
    spec = quota["spec"]
    for name, amount in spec["hard"].pairs():
        check_amount(name, amount)
    scopes = [str(scope.value) for scope in spec["scopes"].entries()]
    _check_scopes(spec["scopes"], scopes, spec)
    expressions = spec["scopeSelector"]["matchExpressions"]
    for one in expressions.entries():
        operator, values = one["operator"], one["values"]
        if operator.text in _WITH_VALUES and not values.entries():
            values.required("must be at least one value when `operator` is 'In' or 'NotIn' for scope selector")
        elif operator.text in _WITHOUT_VALUES and values.entries():
            values.invalid("must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector")
        elif operator.text not in (*_WITH_VALUES, *_WITHOUT_VALUES):
            operator.invalid("not a valid selector operator")
    _check_scopes(expressions, [one["scopeName"].text for one in expressions.entries()], spec)


def _check_scopes(place: FieldPlace, scopes: list[str], spec: FieldPlace) -> None:
    if "BestEffort" in scopes and any(name not in _OF_PODS and "/" not in name for name in spec["hard"].map):
        place.invalid("unsupported scope applied to resource")
    if any(pair <= set(scopes) for pair in _CONFLICTING):
        place.invalid("conflicting scopes")


_CHECKS: Mapping[str, Callable[[FieldPlace], None]] = {
    "v1 Pod": pods.check_pod,
    "v1 LimitRange": check_limit_range,
    "v1 Node": check_node,
    "v1 PersistentVolume": volumes.check_volume,
    "v1 PersistentVolumeClaim": volumes.check_claim,
    "v1 ResourceQuota": check_quota,
    "v1 ReplicationController": workloads.check_replication_controller,
    "apps/v1 DaemonSet": workloads.check_daemon_set,
    "apps/v1 Deployment": workloads.check_deployment,
    "apps/v1 ReplicaSet": workloads.check_replica_set,
    "apps/v1 StatefulSet": workloads.check_stateful_set,
    "batch/v1 CronJob": workloads.check_cron_job,
    "batch/v1 Job": workloads.check_job,
    "node.k8s.io/v1 RuntimeClass": check_runtime_class,
    "policy/v1 PodDisruptionBudget": check_disruption_budget,
    "scheduling.k8s.io/v1 PriorityClass": check_priority_class,
    "storage.k8s.io/v1 StorageClass": volumes.check_storage_class,
}
