"""Nodes, pods and snapshots as plugins get them, in few words."""

from __future__ import annotations

from typing import Any

from wharfinger.framework.node_info import NodeInfo
from wharfinger.framework.snapshot import Snapshot
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
