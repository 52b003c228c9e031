"""Nodes and pods as users write them and as kubectl prints them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def node_manifest(
    name: str,
    cpu: str = "4",
    memory: str = "8Gi",
    pods: int = 110,
    *,
    labels: Mapping[str, str] | None = None,
    **spec: Any,
) -> dict[str, Any]:
    """A ready node with so much room; its label `kubernetes.io/hostname` is its name. Other fields are the spec's."""
    room = {"cpu": cpu, "memory": memory, "pods": str(pods)}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "uid": f"uid-{name}", "labels": {"kubernetes.io/hostname": name, **(labels or {})}},
        "spec": spec,
        "status": {"capacity": room, "allocatable": room, "conditions": [{"type": "Ready", "status": "True"}]},
    }


def pod_manifest(
    name: str,
    cpu: str = "1",
    memory: str = "",
    *,
    namespace: str = "default",
    labels: Mapping[str, str] | None = None,
    metadata: Mapping[str, Any] | None = None,
    status: Mapping[str, Any] | None = None,
    **spec: Any,
) -> dict[str, Any]:
    """A pod with one container that asks for so much, pending without a `status`. Other fields are the spec's."""
    requests = {"cpu": cpu} | ({"memory": memory} if memory else {})
    container = {"name": "main", "image": "example/app:1", "resources": {"requests": requests}}
    own = {"name": name, "namespace": namespace, "uid": f"uid-{name}", "labels": dict(labels or {})}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": own | dict(metadata or {}),
        "spec": {"containers": [container], **spec},
        **({"status": dict(status)} if status is not None else {}),
    }
