"""The entry: everything that an API server would refuse of one object.

The types of values come first: a number where a text belongs cannot be read by an API server at all. They are those of
the Go structs (`kubernetes_fields`). As in Kubernetes' decoding, null means absent. Fields that Kubernetes does not
have are left to `strict`.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from wharfinger.errors import InvalidObject
from wharfinger.objects.documents.checks import others, pods, volumes, workloads
from wharfinger.objects.documents.checks.metadata import check_metadata
from wharfinger.objects.documents.checks.place import FieldPlace
from wharfinger.objects.documents.kubernetes_fields import kubernetes_fields
from wharfinger.objects.documents.metadata import OF_THE_API
from wharfinger.objects.model.quantities import parse_quantity

MOST = 100
"""Problems of one object that are named."""

_CHECKS: Mapping[str, Callable[[FieldPlace], None]] = {
    "v1 Pod": pods.check_pod,
    "v1 LimitRange": others.check_limit_range,
    "v1 Node": others.check_node,
    "v1 Namespace": others.check_namespace,
    "v1 PersistentVolume": volumes.check_volume,
    "v1 PersistentVolumeClaim": volumes.check_claim,
    "v1 ResourceQuota": others.check_quota,
    "v1 ReplicationController": workloads.check_replication_controller,
    "apps/v1 DaemonSet": workloads.check_daemon_set,
    "apps/v1 Deployment": workloads.check_deployment,
    "apps/v1 ReplicaSet": workloads.check_replica_set,
    "apps/v1 StatefulSet": workloads.check_stateful_set,
    "batch/v1 CronJob": workloads.check_cron_job,
    "batch/v1 Job": workloads.check_job,
    "node.k8s.io/v1 RuntimeClass": others.check_runtime_class,
    "policy/v1 PodDisruptionBudget": others.check_disruption_budget,
    "scheduling.k8s.io/v1 PriorityClass": others.check_priority_class,
    "storage.k8s.io/v1 StorageClass": volumes.check_storage_class,
}
_METADATA_ONLY = ("v1 ConfigMap", "v1 Secret", "v1 ServiceAccount", "v1 Service")


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
    if check is not None:
        check(place)
    elif title in _METADATA_ONLY:
        check_metadata(place["metadata"])


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
