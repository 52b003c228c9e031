"""Stored objects that cannot be read: reported once each; they never stop a loop."""

from __future__ import annotations

import logging
from collections.abc import Callable

from wharfinger.etcd import keys
from wharfinger.telemetry import Metrics

log = logging.getLogger(__name__)

_KINDS = {
    keys.PODS: "pod",
    keys.NODES: "node",
    keys.NAMESPACES: "namespace",
    keys.SERVICES: "service",
    keys.REPLICATION_CONTROLLERS: "replicationcontroller",
    keys.REPLICA_SETS: "replicaset",
    keys.STATEFUL_SETS: "statefulset",
    keys.DISRUPTION_BUDGETS: "poddisruptionbudget",
    keys.POD_GROUPS: "podgroup",
    keys.DEVICE_CLASSES: "deviceclass",
    keys.PRIORITY_CLASSES: "priorityclass",
    keys.PERSISTENT_VOLUMES: "persistentvolume",
    keys.PERSISTENT_VOLUME_CLAIMS: "persistentvolumeclaim",
    keys.STORAGE_CLASSES: "storageclass",
    keys.CSI_NODES: "csinode",
    keys.CSI_DRIVERS: "csidriver",
    keys.CSI_STORAGE_CAPACITIES: "csistoragecapacity",
    keys.VOLUME_ATTACHMENTS: "volumeattachment",
    keys.BINDINGS: "binding",
    keys.ATTEMPTS: "attempt",
    keys.BOUND_BY: "boundby",
    keys.INSTANCES: "instance",
    keys.TENANTS: "tenant",
    keys.REQUEUED: "requeued",
    keys.GRANTS: "grant",
    keys.CONFIG: "config",
}

SHOWN = 512
"""Characters of a key in a line of the log; a key may be as long as a value."""


def kind_of(key: str) -> str:
    """The kind of object a key names, for people."""
    return next((kind for prefix, kind in _KINDS.items() if key.startswith(prefix)), "object")


class InvalidObjects:
    """Which keys hold unreadable values, and why."""

    def __init__(self, metrics: Metrics, as_stored: Callable[[str], str] = str) -> None:
        """`as_stored`: a key as etcd has it, for the log."""
        self._metrics = metrics
        self._as_stored = as_stored
        self._reasons: dict[str, str] = {}
        for kind in _KINDS.values():
            metrics.invalid_objects.labels(kind).set(0)

    @property
    def reasons(self) -> dict[str, str]:
        """Key -> reason, of all that are invalid now."""
        return dict(self._reasons)

    def __contains__(self, key: str) -> bool:
        return key in self._reasons

    def add(self, key: str, reason: str) -> None:
        """The key holds an invalid object; said again only when the reason is another one."""
        before = self._reasons.get(key)
        self._reasons[key] = reason
        if before is None:
            self._metrics.invalid_objects.labels(kind_of(key)).inc()
        if before != reason:
            log.warning(
                "object_invalid kind=%s key=%s reason=%r", kind_of(key), printable(self._as_stored(key)), reason
            )

    def clear(self, key: str) -> None:
        """The key holds a valid object, or none."""
        if self._reasons and self._reasons.pop(key, None) is not None:
            self._metrics.invalid_objects.labels(kind_of(key)).dec()


def printable(key: str) -> str:
    """A key, or a part of one, for a line of the log: bounded; bytes that are no UTF-8, and controls, are spelt out."""
    shown = key if len(key) <= SHOWN else f"{key[:SHOWN]}...({len(key)} characters)"
    text = shown.encode(errors="surrogateescape").decode(errors="backslashreplace")
    return text if text.isprintable() else "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)
