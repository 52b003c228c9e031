"""Changes to the nodes that a question supposes: drained and cordoned ones, and more of a kind."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from wharfinger.errors import UsageError
from wharfinger.objects.documents.fields import mapping, mappings
from wharfinger.whatif.daemons import is_daemon, joined, pinned, pinned_to
from wharfinger.whatif.inventory import Inventory, Obj, Ref, ended, labels_of, node_of

HOSTNAME = "kubernetes.io/hostname"
NODES_LIMIT = 20_000
"""Nodes that may be added at a time."""
_PASSING_TAINTS = ("unschedulable", "not-ready", "unreachable", "network-unavailable")
_PASSING_TAINTS_PREFIX = "node.kubernetes.io/"
_OF_ONE_LIFE = ("uid", "resourceVersion", "creationTimestamp", "deletionTimestamp", "managedFields", "selfLink")


@dataclass(frozen=True, slots=True)
class MoreNodes:
    """So many nodes like one that there is."""

    count: int
    like: str


@dataclass(frozen=True, slots=True)
class NodeChanges:
    """What is supposed to happen to the nodes, in this order: more come, some are cordoned, some drained."""

    more: tuple[MoreNodes, ...] = ()
    cordoned: tuple[str, ...] = ()
    drained: tuple[str, ...] = ()

    def check(self, inventory: Inventory) -> None:
        """`UsageError` when a node that is named is not there, or too many are added."""
        for name in (*(one.like for one in self.more), *self.cordoned, *self.drained):
            if Ref("Node", "", name) not in inventory:
                raise UsageError(f"there is no node {name}")
        if sum(one.count for one in self.more) > NODES_LIMIT:
            raise UsageError(f"more than {NODES_LIMIT:,} nodes cannot be added")


def added_nodes(inventory: Inventory, more: MoreNodes) -> Iterator[tuple[Obj, list[Obj]]]:
    """New nodes like an old one, each with the pods that belong to every node of the kind.

    They are new: no image is there yet, nothing is cordoned, and taints of passing conditions are gone.
    """
    like = inventory.get(Ref("Node", "", more.like))
    assert like is not None
    daemons = [
        (ref, pod)
        for ref, pod in inventory.of_kind("Pod")
        if node_of(pod) == more.like and not ended(pod) and is_daemon(ref, pod)
    ]
    names = inventory.free_names("Node", "", f"{more.like[:230]}-new")
    for _ in range(more.count):
        node = _copy(like, next(names))
        yield node, [_moved(inventory, ref, pod, node["metadata"]["name"]) for ref, pod in daemons]


def cordoned(node: Obj) -> Obj:
    """The node, kept free of new pods."""
    return {**node, "spec": {**mapping(node, "spec"), "unschedulable": True}}


def displaced_pods(inventory: Inventory, node: str) -> Iterator[tuple[Ref, Obj]]:
    """The pods that draining the node moves, as they are made again: not its daemons, nor what ends anyway."""
    for ref, pod in inventory.of_kind("Pod"):
        if node_of(pod) == node and not ended(pod) and not is_daemon(ref, pod):
            yield ref, made_again(pod)


def made_again(pod: Obj) -> dict[str, Any]:
    """The same pod in another life, without a node."""
    metadata = {key: value for key, value in mapping(pod, "metadata").items() if key not in _OF_ONE_LIFE}
    spec = {key: value for key, value in mapping(pod, "spec").items() if key != "nodeName"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def _copy(node: Obj, name: str) -> dict[str, Any]:
    metadata = {key: value for key, value in mapping(node, "metadata").items() if key not in _OF_ONE_LIFE}
    labels = dict(labels_of(node))
    if HOSTNAME in labels:
        labels[HOSTNAME] = name
    spec = {key: value for key, value in mapping(node, "spec").items() if key not in ("unschedulable", "providerID")}
    taints = mappings(spec, "taints", "spec.")
    kept = ("allocatable", "capacity", "declaredFeatures")
    status = {key: value for key, value in mapping(node, "status").items() if key in kept}
    return {
        **node,
        "metadata": {**metadata, "name": name, "labels": labels},
        "spec": {**spec, "taints": [taint for taint in taints if not _passing(taint)]},
        "status": {**status, "conditions": [{"type": "Ready", "status": "True"}]},
    }


def _passing(taint: Obj) -> bool:
    key = str(taint.get("key"))
    return key.startswith(_PASSING_TAINTS_PREFIX) and key.removeprefix(_PASSING_TAINTS_PREFIX) in _PASSING_TAINTS


def _moved(inventory: Inventory, ref: Ref, pod: Obj, node: str) -> Obj:
    again = made_again(pod)
    name = inventory.free_name("Pod", ref.namespace, joined(ref.name, node))
    if pinned_to(again):
        again = pinned(again, name, node)
    return {**again, "metadata": {**again["metadata"], "name": name}, "spec": {**again["spec"], "nodeName": node}}
