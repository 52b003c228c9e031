"""What would help pods that wait: one node more, room on the nodes that are nearest, and the events that wake them.

Answers are decided on the present state by the profile that the pods name; nothing is changed. The events are those of
the queueing hints of the plugins that refused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from wharfinger.errors import PluginError
from wharfinger.framework.interface import QueueingHints, offers
from wharfinger.framework.node_info import NodeInfo
from wharfinger.framework.profile import Profile
from wharfinger.framework.snapshot import Snapshot
from wharfinger.objects.model.events import Action
from wharfinger.objects.model.node import Node
from wharfinger.objects.model.pod import Pod
from wharfinger.page.follow.plain import text
from wharfinger.scheduling.page.deciding import PresentState
from wharfinger.scheduling.page.objects import taint

MOST_SHAPES = 8
"""Kinds of nodes that one more is tried of."""
TRIED = 200
"""Pods of the reason that are tried, the oldest ones."""
NEAREST = 5
_OF_ONE_NODE = ("kubernetes.io/hostname",)
PASSING = ("node.kubernetes.io/unschedulable", "node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")

EVENTS: Mapping[str, Mapping[Action, str]] = {
    "Node": {
        Action.ADD: "a node is added",
        Action.UPDATE_NODE_ALLOCATABLE: "a node gets more room",
        Action.UPDATE_NODE_LABEL: "labels of a node change",
        Action.UPDATE_NODE_TAINT: "taints of a node change",
        Action.UPDATE_NODE_CONDITION: "conditions of a node change",
        Action.UPDATE_NODE_DECLARED_FEATURE: "features that a node declares change",
    },
    "AssignedPod": {
        Action.DELETE: "a pod that is bound goes",
        Action.ADD: "another pod is bound",
        Action.UPDATE_POD_LABEL: "labels of a bound pod change",
        Action.UPDATE_POD_SCALE_DOWN: "a bound pod asks for less",
    },
    "UnscheduledPod": {
        Action.UPDATE_POD_LABEL: "its own labels change",
        Action.UPDATE_POD_SCALE_DOWN: "it asks for less",
        Action.UPDATE_POD_TOLERATION: "it gets another toleration",
        Action.UPDATE_POD_GATES_ELIMINATED: "its scheduling gates go",
    },
}


def helps(stage: PresentState, pods: Sequence[Pod]) -> dict[str, Any]:
    """What would help these pods, which wait for the same reason, the oldest first. Raises `ConfigurationError`."""
    first = pods[0]
    profile = stage.profile(first)
    evaluation = profile.evaluate(first, stage.snapshot, preempt=False)
    return {
        "pod": text(str(first.key)),
        "revision": stage.snapshot.revision,
        "held": None,
        "gang": text(first.group) or None,
        "fitsNow": evaluation.node,
        "message": text(evaluation.message),
        "refusals": {plugin: dict(reasons) for plugin, reasons in evaluation.refusals.items()},
        "nearest": _nearest(stage.snapshot, first),
        "oneMoreNode": _one_more_node(stage, pods[:TRIED]),
        "tried": min(len(pods), TRIED),
        "events": _events(profile, evaluation.rejectors),
    }


def _nearest(snapshot: Snapshot, pod: Pod) -> list[dict[str, Any]]:
    """Ready nodes that lack least, with what each lacks; the lack is the share of the pod's own request."""
    found = []
    for info in snapshot.rows:
        if info.node.unschedulable or not info.node.ready:
            continue
        lacks = {
            resource: amount - info.free(resource)
            for resource, amount in {**pod.requests, "pods": 1}.items()
            if amount > info.free(resource)
        }
        if any(info.allocatable(resource) == 0 for resource in lacks):
            continue
        share = max((lack / max(1, pod.requests.get(name, 1)) for name, lack in lacks.items()), default=0.0)
        if lacks:
            found.append((share, info.node.name, lacks))
    found.sort(key=lambda one: one[:2])
    return [{"node": text(name), "lacks": lacks} for _, name, lacks in found[:NEAREST]]


def _one_more_node(stage: PresentState, pods: Sequence[Pod]) -> list[dict[str, Any]]:
    """For each kind of node, how many of the pods one more empty one would take, in their order."""
    told = []
    for like, count in _shapes(stage.snapshot):
        info = NodeInfo.of(_fresh(like))
        taken: list[Pod] = []
        for pod in pods:
            alone = Snapshot.of([info], stage.snapshot.revision, surroundings=stage.snapshot.surroundings)
            try:
                fits = stage.profile(pod).evaluate(pod, alone, preempt=False).node is not None
            except PluginError:
                fits = False
            if fits:
                info = info.with_pod(pod)
                taken.append(pod)
        told.append(
            {
                "like": text(like.name),
                "nodes": count,
                "allocatable": dict(like.allocatable),
                "taints": [taint(one) for one in like.taints if one.key not in PASSING],
                "pods": len(taken),
                "examples": [text(str(pod.key)) for pod in taken[:3]],
            }
        )
    return sorted(told, key=lambda one: (-int(str(one["pods"])), str(one["like"])))


def _shapes(snapshot: Snapshot) -> list[tuple[Node, int]]:
    """One node of each kind, and how many there are: by what they offer, and by their taints."""
    kinds: dict[Any, list[Node]] = {}
    for info in snapshot.rows:
        node = info.node
        taints = tuple(one for one in node.taints if one.key not in PASSING)
        kinds.setdefault((tuple(sorted(node.allocatable.items())), taints, node.declared_features), []).append(node)
    largest = sorted(kinds.values(), key=lambda nodes: -len(nodes))[:MOST_SHAPES]
    return [(nodes[0], len(nodes)) for nodes in largest]


def _fresh(like: Node) -> Node:
    """A node of the same kind that nothing runs on yet."""
    name = f"{like.name[:230]}-one-more"
    own = {key: name for key in _OF_ONE_NODE if key in like.labels}
    return Node(
        name=name,
        labels={**like.labels, **own},
        taints=tuple(one for one in like.taints if one.key not in PASSING),
        allocatable=like.allocatable,
        images=like.images,
        conditions={**like.conditions, "Ready": "True"},
        declared_features=like.declared_features,
    )


def _events(profile: Profile, rejectors: Sequence[str]) -> list[dict[str, str]]:
    """What the rejecting plugins wait for."""
    told: dict[str, dict[str, str]] = {}
    for plugin in profile.plugins:
        if plugin.name not in rejectors or not offers(plugin, QueueingHints):
            continue
        for hint in plugin.queueing_hints():
            words = EVENTS.get(str(hint.resource), {})
            named = [word for action, word in words.items() if action in hint.actions]
            for word in named or [f"{hint.resource} changes"]:
                told.setdefault(word, {"event": word, "plugin": plugin.name})
    return list(told.values())
