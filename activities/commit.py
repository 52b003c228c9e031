"""The one transaction that binds a pod, and what its answer means.

::

    compares   pod's mod revision · node's mod revision · binding version as this worker knows it
    puts       the pod on its node · the binding version
    deletes    the attempt record
    otherwise  reads the three keys, so that one answer tells what moved

The known binding version comes from the cache, which advances it by the watch or by the header of an own
commit. A version that was merely read says nothing of the pods behind it: it never gets here.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from wharfinger.activities.standing import StoredPod
from wharfinger.errors import InvalidObject
from wharfinger.manifests.decode import decode_node
from wharfinger.manifests.edit import bind_pod
from wharfinger.model.node import Node
from wharfinger.registry import keys
from wharfinger.registry.store import Compare, Delete, Get, KeyValue, Operation, Put, TxnResult


@dataclass(frozen=True, slots=True)
class Commit:
    """A bind as it is sent: everything it compares was known at one moment."""

    found: StoredPod
    node: Node
    binding_revision: int
    attempt: str
    """`<workflow id>@<run id>`, written to the pod and to the binding version."""
    now: str
    """RFC 3339, UTC."""

    @property
    def compares(self) -> list[Compare]:
        """Nothing that the decision rests on has moved."""
        return [
            Compare(self._pod_key, "mod", self.found.pod.mod_revision),
            Compare(keys.node(self.node.name), "mod", self.node.mod_revision),
            Compare(keys.binding(self.node.name), "mod", self.binding_revision),
        ]

    @property
    def writes(self) -> list[Operation]:
        """The pod on its node; every other field of it is kept."""
        pod = self.found.pod
        version = json.dumps({"attempt": self.attempt, "pod": str(pod.key)}, separators=(",", ":")).encode()
        bound = bind_pod(self.found.raw, node_name=self.node.name, attempt=self.attempt, now=self.now)
        return [
            Put(self._pod_key, bound),
            Put(keys.binding(self.node.name), version),
            Delete(keys.attempt(pod.namespace, pod.name)),
        ]

    @property
    def reads(self) -> list[Operation]:
        """What is read when a compare fails, in the order of `Moved`."""
        return [Get(self._pod_key), Get(keys.node(self.node.name)), Get(keys.binding(self.node.name))]

    @property
    def _pod_key(self) -> str:
        return keys.pod(self.found.pod.namespace, self.found.pod.name)


@dataclass(frozen=True, slots=True)
class Moved:
    """Which of the compared keys had moved, and what they are now."""

    pod: bool
    node: bool
    binding: bool
    same_node: Node | None
    """The node at its new revision, when nothing that scheduling reads differs (a heart-beat)."""
    node_gone: bool
    revision: int
    """What the watch must have shown before trying again is worth it."""

    @property
    def what(self) -> tuple[str, ...]:
        """For the metric."""
        return tuple(name for name in ("pod", "node", "binding") if getattr(self, name))

    @property
    def must_catch_up(self) -> bool:
        """Only the watch can tell what the change means for this node's room."""
        return self.binding or (self.node and self.same_node is None)


def read_failure(commit: Commit, answer: TxnResult) -> Moved:
    """What the failed transaction's reads say."""
    pod, node, binding = answer.reads
    moved_node = (node.mod_revision if node else 0) != commit.node.mod_revision
    moved_binding = (binding.mod_revision if binding else 0) != commit.binding_revision
    gone = [kv is None and moved for kv, moved in ((node, moved_node), (binding, moved_binding))]
    seen = [kv.mod_revision for kv in (node, binding) if kv is not None]
    return Moved(
        pod=pod is None or pod.mod_revision != commit.found.pod.mod_revision,
        node=moved_node,
        binding=moved_binding,
        same_node=_same(commit.node, node) if moved_node else None,
        node_gone=node is None,
        revision=answer.revision if any(gone) else max(seen, default=0),
    )


def _same(known: Node, stored: KeyValue | None) -> Node | None:
    """The stored node when it is the known one in everything that scheduling reads."""
    if stored is None or stored.create_revision != known.create_revision:
        return None
    try:
        node = decode_node(
            stored.value,
            name=known.name,
            create_revision=stored.create_revision,
            mod_revision=stored.mod_revision,
        )
    except InvalidObject:
        return None
    return node if node == known else None
