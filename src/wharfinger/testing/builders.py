"""Nodes, pods, snapshots and calls as plugins get them, and manifests as kubectl prints them, in few words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from wharfinger.framework.async_plugins import BindCall, PluginCall
from wharfinger.framework.node_info import NodeInfo
from wharfinger.framework.snapshot import Snapshot
from wharfinger.framework.status import SUCCESS, Status
from wharfinger.objects.model.node import Node
from wharfinger.objects.model.pod import Pod

GIB = 1 << 30
"""Bytes."""


def node(name: str = "n1", *, cpu: int = 4000, memory: int = 8 * GIB, pods: int = 110, **fields: Any) -> Node:
    """A node with so much room: `cpu` in millicores, `memory` in bytes.

    `extended`: more resources by name. Other fields are those of `Node`.
    """
    extended = fields.pop("extended", {})
    allocatable = {"cpu": cpu, "memory": memory, "pods": pods, **extended}
    return Node(name, allocatable=fields.pop("allocatable", allocatable), **fields)


def pod(name: str = "p1", *, cpu: int = 0, memory: int = 0, **fields: Any) -> Pod:
    """A pod of the namespace `default` that asks for so much: `cpu` in millicores, `memory` in bytes.

    `extended`: more resources by name. Other fields are those of `Pod`.
    """
    requests = {"cpu": cpu, "memory": memory, **fields.pop("extended", {})}
    defaults: dict[str, Any] = {
        "namespace": "default",
        "uid": f"uid-{name}",
        "requests": {resource: amount for resource, amount in requests.items() if amount},
        # Scores count a container without requests as kube-scheduler does.
        "scoring_cpu": cpu or 100,
        "scoring_memory": memory or 200 << 20,
    }
    return Pod(name=name, **{**defaults, **fields})


def snapshot(*nodes: Node, revision: int = 1, **bound: list[Pod]) -> Snapshot:
    """The nodes with their pods; `bound`: pods by the name of their node."""
    return Snapshot.of((NodeInfo.of(each, bound.get(each.name, [])) for each in nodes), revision)


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


def plugin_call(key: str = "uid/run", attempt: int = 1) -> PluginCall:
    """A call of PreBind."""
    return PluginCall(key, attempt)


def bind_call(
    status: Status = SUCCESS, *, key: str = "uid/run", attempt: int = 1, binding: Mapping[str, Any] | None = None
) -> BindCall:
    """A call of Bind, whose `bind()` answers `status`."""

    async def default() -> Status:
        return status

    return BindCall(key, attempt, binding=binding, default=default)
