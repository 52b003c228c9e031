"""The entry: everything that an API server would refuse of one object."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from wharfinger.errors import InvalidObject
from wharfinger.manifests.checks import others, pods, volumes, workloads
from wharfinger.manifests.checks.metadata import check_metadata
from wharfinger.manifests.checks.place import FieldPlace
from wharfinger.manifests.checks.types import check_types
from wharfinger.manifests.kubernetes_fields import kubernetes_fields
from wharfinger.manifests.metadata import OF_THE_API

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
