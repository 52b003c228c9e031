"""Nodes and pods of the tests on a real Kubernetes API, and the requests that make, change and delete them."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from typing import Any

from wharfinger.apiserver import client
from wharfinger.apiserver.client import ApiAnswer, ApiClient

NAMESPACE = "default"

Request = Callable[[ApiClient], Coroutine[Any, Any, ApiAnswer]]
"""Sends one request; may be sent again."""


def names(kind: str, count: int, first: int = 0) -> list[str]:
    """`web-000`, `web-001`, ..."""
    return [f"{kind}-{number:03}" for number in range(first, first + count)]


def node(name: str, cpu: str) -> dict[str, Any]:
    """A ready one."""
    room = {"cpu": cpu, "memory": "32Gi", "pods": "110"}
    conditions = [{"type": "Ready", "status": "True"}]
    metadata = {"name": name, "labels": {"kubernetes.io/hostname": name}}
    return {"metadata": metadata, "status": {"allocatable": room, "capacity": room, "conditions": conditions}}


def pod(name: str, cpu: str, scheduler: str, labels: Mapping[str, str]) -> dict[str, Any]:
    """With one container. `scheduler`: whose it is; empty = the default one's."""
    container = {"name": "main", "image": "none", "resources": {"requests": {"cpu": cpu}}}
    metadata = {"name": name, "namespace": NAMESPACE, "labels": dict(labels)}
    whose = {"schedulerName": scheduler} if scheduler else {}
    return {"metadata": metadata, "spec": {"containers": [container], **whose}}


def creating(resource: client.ApiResource, body: dict[str, Any]) -> Request:
    """POST it."""
    namespace = NAMESPACE if resource.namespaced else ""
    return lambda api: api.create(resource, body, namespace=namespace)


def labelling(name: str, patch: dict[str, Any]) -> Request:
    """PATCH a node."""
    return lambda api: api.patch(client.NODES, name, patch)


def deleting(resource: client.ApiResource, name: str, namespace: str) -> Request:
    """DELETE it, without grace: nothing runs it."""
    return lambda api: api.delete(resource, name, namespace=namespace, grace_seconds=0)
