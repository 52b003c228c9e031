"""DaemonSets as their pods: one a node, on the nodes that its controller chooses by node affinity and taints.

As in Kubernetes (`pkg/controller/daemon`, NodeShouldRunDaemonPod and CreatePodTemplate): the controller looks at the
node's name, selector, affinity, and the taints that repel; whether the pod also fits there is the scheduler's to say.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator
from functools import cached_property
from typing import Any

from wharfinger.errors import InvalidObject
from wharfinger.framework.plugins.node_matching import node_matches
from wharfinger.framework.plugins.taint_toleration import tolerated
from wharfinger.objects.documents.decode import node_from_mapping, pod_from_mapping
from wharfinger.objects.documents.fields import mapping, mappings
from wharfinger.objects.model.node import Node
from wharfinger.objects.model.pod import Pod
from wharfinger.whatif.inventory import Inventory, Obj, Ref, controller, ended, node_of
from wharfinger.whatif.workloads import by_template, pod_from, template_of

KIND = "DaemonSet"
_NAME_LIMIT = 240
"""Characters of a pod's name; a name has 253."""
_EVERYWHERE = tuple(
    {"key": f"node.kubernetes.io/{key}", "operator": "Exists", "effect": effect}
    for key, effect in (
        ("not-ready", "NoExecute"),
        ("unreachable", "NoExecute"),
        ("disk-pressure", "NoSchedule"),
        ("memory-pressure", "NoSchedule"),
        ("pid-pressure", "NoSchedule"),
        ("unschedulable", "NoSchedule"),
    )
)
_ON_HOST_NETWORK = {"key": "node.kubernetes.io/network-unavailable", "operator": "Exists", "effect": "NoSchedule"}


class MissingDaemons:
    """Makes what the controller of DaemonSets would make. To be used after all nodes are there."""

    def __init__(self, inventory: Inventory) -> None:
        self._inventory = inventory
        self.nowhere: list[Ref] = []
        """DaemonSets that choose none of the nodes."""

    @cached_property
    def _nodes(self) -> list[Node]:
        return [node_from_mapping(obj) for _, obj in self._inventory.of_kind("Node")]

    @cached_property
    def _served(self) -> set[tuple[Ref, str]]:
        return {
            (owner, pinned_to(pod))
            for ref, pod in self._inventory.of_kind("Pod")
            if (owner := controller(ref, pod)) is not None and owner.kind == KIND and not ended(pod)
        }

    def of(self, ref: Ref, on: Collection[str] | None = None) -> Iterator[Obj]:
        """The pods that a DaemonSet lacks, in the order of the nodes. `on`: only these nodes, if not all.

        Raises `InvalidObject`, naming the DaemonSet.
        """
        obj = self._inventory.get(ref)
        if obj is None:
            return
        try:
            wanted, pod = _wanted(ref, obj)
            chosen = [node.name for node in self._nodes if (on is None or node.name in on) and _should_run(pod, node)]
        except InvalidObject as error:
            raise InvalidObject(f"{ref}: {error}") from None
        if not chosen and on is None:
            self.nowhere.append(ref)
        for node in chosen:
            if (ref, node) not in self._served:
                name = self._inventory.free_name("Pod", ref.namespace, joined(ref.name, node))
                yield pinned(wanted, name, node)


def pinned_to(pod: Obj) -> str:
    """The node that a DaemonSet's pod is for, whether it is bound or not."""
    bound = node_of(pod)
    if bound:
        return bound
    affinity = mapping(mapping(mapping(pod, "spec"), "affinity", "spec."), "nodeAffinity", "spec.affinity.")
    required = mapping(affinity, "requiredDuringSchedulingIgnoredDuringExecution", "spec.affinity.nodeAffinity.")
    for term in mappings(required, "nodeSelectorTerms"):
        for field in mappings(term, "matchFields"):
            values = field.get("values")
            if field.get("key") == "metadata.name" and isinstance(values, list) and len(values) == 1:
                return str(values[0])
    return ""


def joined(name: str, node: str) -> str:
    """A pod's name of its own on the node, whatever the lengths of both."""
    whole = f"{name}-{node}"
    if len(whole) <= _NAME_LIMIT:
        return whole
    return f"{whole[: _NAME_LIMIT - 11]}-{hashlib.sha256(whole.encode()).hexdigest()[:10]}"


def is_daemon(ref: Ref, pod: Obj) -> bool:
    """Whether a pod belongs to its node: a DaemonSet's, or one that the node runs by itself."""
    owner = controller(ref, pod)
    return owner is not None and owner.kind in (KIND, "Node")


def _wanted(ref: Ref, obj: Obj) -> tuple[dict[str, Any], Pod]:
    """A pod of the DaemonSet before it is for a node, as it is written and as it is read."""
    wanted = _tolerant(pod_from(ref, template_of(ref, obj), ref.name[:200]))
    try:
        return wanted, pod_from_mapping(wanted)
    except InvalidObject as error:
        raise InvalidObject(by_template(ref, error)) from None


def _should_run(pod: Pod, node: Node) -> bool:
    here = not pod.node_name or pod.node_name == node.name
    return here and node_matches(pod, node) and tolerated(pod.tolerations, node.taints)


def _tolerant(pod: dict[str, Any]) -> dict[str, Any]:
    """With the tolerations that every daemon gets."""
    spec = pod["spec"]
    extra = [*_EVERYWHERE, *([_ON_HOST_NETWORK] if spec.get("hostNetwork") is True else [])]
    return {**pod, "spec": {**spec, "tolerations": [*mappings(spec, "tolerations", "spec."), *extra]}}


def pinned(pod: Obj, name: str, node: str) -> dict[str, Any]:
    """A daemon pod for that node alone: its required node affinity is replaced, as the controller does."""
    spec = mapping(pod, "spec")
    affinity = mapping(spec, "affinity", "spec.")
    field = {"key": "metadata.name", "operator": "In", "values": [node]}
    required = {"nodeSelectorTerms": [{"matchFields": [field]}]}
    here = {
        **mapping(affinity, "nodeAffinity", "spec.affinity."),
        "requiredDuringSchedulingIgnoredDuringExecution": required,
    }
    return {
        **pod,
        "metadata": {**mapping(pod, "metadata"), "name": name},
        "spec": {**spec, "affinity": {**affinity, "nodeAffinity": here}},
    }
