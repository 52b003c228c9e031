"""The cluster at one revision: nodes, pods and where they are, from etcd's changes alone.

Decoded by `objects.documents`, as every user of the objects does; everything that is counted is counted here, from the
sets.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field

from tests.faults.history import Change, Revision
from wharfinger.errors import InvalidObject
from wharfinger.etcd import keys
from wharfinger.objects.documents.decode import decode_node, decode_pod
from wharfinger.objects.model.node import Node
from wharfinger.objects.model.pod import Pod, PodKey


@dataclass(frozen=True, slots=True)
class PodChange:
    """A pod before and after a revision."""

    before: Pod | None
    after: Pod | None

    @property
    def states(self) -> tuple[Pod, ...]:
        """Those that there are."""
        return tuple(pod for pod in (self.before, self.after) if pod is not None)

    @property
    def keys(self) -> set[PodKey]:
        """Whom it is about."""
        return {pod.key for pod in self.states}

    @property
    def is_bind(self) -> bool:
        """It lived on, and has a node since."""
        before, after = self.before, self.after
        return (
            before is not None
            and after is not None
            and before.identity == after.identity
            and not before.node_name
            and bool(after.node_name)
        )

    @property
    def is_eviction(self) -> bool:
        """It has to leave since."""
        before, after = self.before, self.after
        return (
            before is not None
            and after is not None
            and not before.deletion_timestamp
            and bool(after.deletion_timestamp)
        )

    @property
    def matters_to_rules(self) -> bool:
        """Rules across nodes may read something else of a pod with a node, though none was bound."""
        if self.is_bind:
            return False
        return any(pod.bound for pod in self.states) and (_read_by_rules(self.before) != _read_by_rules(self.after))


def _read_by_rules(pod: Pod | None) -> object:
    if pod is None or not pod.bound or pod.finished:
        return None
    return pod.identity, pod.node_name, pod.labels, pod.deletion_timestamp


@dataclass(frozen=True, slots=True)
class Unguarded:
    """What users changed, at a moment: no bind is told of it but by the watch."""

    time: float
    pods: tuple[PodChange, ...] = ()
    nodes: frozenset[str] = frozenset()


@dataclass(slots=True)
class Ledger:
    """Follows the revisions."""

    revision: int = 0
    time: float = 0.0
    nodes: dict[str, Node] = field(default_factory=dict)
    pods: dict[PodKey, Pod] = field(default_factory=dict)
    spaces: dict[str, dict[str, str]] = field(default_factory=dict)
    """Labels of the namespaces that there are objects of."""
    on: dict[str, set[PodKey]] = field(default_factory=dict)
    """Pods that have a node, by its name."""
    unguarded: list[Unguarded] = field(default_factory=list)

    def apply(self, revision: Revision) -> list[PodChange]:
        """Take in a revision; answers what became of which pods."""
        self.revision, self.time = revision.number, revision.time
        pods: list[PodChange] = []
        nodes: set[str] = set()
        for change in revision.changes:
            parsed = keys.parse(change.key)
            match (parsed.prefix, parsed.parts) if parsed is not None else ("", ()):
                case keys.PODS, (namespace, name):
                    pods.append(self._pod(PodKey(namespace, name), change))
                case keys.NODES, (name,):
                    if self._node(name, change):
                        nodes.add(name)
                case keys.NAMESPACES, (name,):
                    self.spaces.pop(name, None)
                    if change.value is not None:
                        self.spaces[name] = json.loads(change.value).get("metadata", {}).get("labels", {})
        relevant = tuple(change for change in pods if change.matters_to_rules)
        if relevant or nodes:
            self.unguarded.append(Unguarded(self.time, relevant, frozenset(nodes)))
        return pods

    def placed(self, without: Iterable[PodKey] = ()) -> list[tuple[Pod, Node]]:
        """Pods that are on nodes and use them, but some, each with its node."""
        left_out = set(without)
        return [
            (pod, self.nodes[name])
            for name, those in self.on.items()
            if name in self.nodes
            for key in those
            if key not in left_out and not (pod := self.pods[key]).finished
        ]

    def changed_since(self, moment: float) -> list[Unguarded]:
        """What users changed since then."""
        found = []
        for change in reversed(self.unguarded):
            if change.time < moment:
                break
            found.append(change)
        return found

    def _pod(self, key: PodKey, change: Change) -> PodChange:
        before = self.pods.pop(key, None)
        if before is not None and before.node_name:
            self.on[before.node_name].discard(key)
        after = None
        if change.value is not None:
            try:
                after = decode_pod(
                    change.value,
                    namespace=key.namespace,
                    name=key.name,
                    create_revision=change.create_revision,
                    mod_revision=change.mod_revision,
                )
            except InvalidObject:
                after = None
        if after is not None:
            self.pods[key] = after
            if after.node_name:
                self.on.setdefault(after.node_name, set()).add(key)
        return PodChange(before, after)

    def _node(self, name: str, change: Change) -> bool:
        """Whether it is another node since, to rules across nodes."""
        before, after = self.nodes.pop(name, None), None
        if change.value is not None:
            try:
                after = decode_node(
                    change.value, name=name, create_revision=change.create_revision, mod_revision=change.mod_revision
                )
            except InvalidObject:
                after = None
        if after is not None:
            self.nodes[name] = after
        if before is None or after is None:
            return before is not after
        same = before.create_revision == after.create_revision
        return not same or before.labels != after.labels or before.taints != after.taints
