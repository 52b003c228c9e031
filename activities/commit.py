"""The one transaction that binds a pod, and what its answer means.

::

    compares   pod's mod revision · node's mod revision · binding version as this worker knows it
               · rules across nodes (`across_nodes`) · the tenant that the pod's label names
    puts       the pod on its node · the binding version · the versions of rules across nodes
    deletes    the attempt record
    otherwise  reads the compared keys, so that one answer tells what moved

The known versions come from the cache, which advances them by the watch or by the header of an own
commit. A version that was merely read says nothing of the pods behind it: it never gets here.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from wharfinger.activities import across_nodes
from wharfinger.activities.across_nodes import AcrossNodes
from wharfinger.activities.standing import StoredPod
from wharfinger.cache.cache import Cache
from wharfinger.errors import InvalidObject
from wharfinger.manifests.decode import decode_node
from wharfinger.manifests.edit import bind_pod
from wharfinger.model.node import Node
from wharfinger.registry import keys
from wharfinger.registry.store import Compare, Condition, Delete, Get, KeyValue, Operation, Put, TxnResult

_KINDS = {keys.PODS: "pod", keys.NODES: "node", keys.BINDINGS: "binding", keys.BOUND: "bound", keys.TERMS: "terms"}
"""What moved, for the metric, by the prefix of its key; the rest is the tenant."""


@dataclass(frozen=True, slots=True)
class Commit:
    """A bind as it is sent: everything it compares was known at one moment."""

    found: StoredPod
    node: Node
    rules: AcrossNodes
    conditions: tuple[Condition, ...]
    attempt: str
    """`<workflow id>@<run id>`, written to the pod and to the versions."""
    now: str
    """RFC 3339, UTC."""

    @property
    def writes(self) -> list[Operation]:
        """The pod on its node; every other field of it is kept."""
        pod = self.found.pod
        version = json.dumps({"attempt": self.attempt, "pod": str(pod.key)}, separators=(",", ":")).encode()
        bound = bind_pod(self.found.raw, node_name=self.node.name, attempt=self.attempt, now=self.now)
        versions = [keys.binding(self.node.name), *across_nodes.rewritten(pod, self.rules)]
        return [
            Put(keys.pod(*pod.key), bound),
            *(Put(key, version) for key in versions),
            Delete(keys.attempt(*pod.key)),
        ]

    @property
    def reads(self) -> list[Operation]:
        """What is read when a compare fails: every compared key, in order."""
        return [Get(compare.key) for compare in self.compares]

    @property
    def compares(self) -> list[Compare]:
        """The conditions on single keys: the pod's first, then the node's."""
        return [condition for condition in self.conditions if isinstance(condition, Compare)]


def prepare(
    found: StoredPod, node: Node, rules: AcrossNodes, cache: Cache, *, tenant: str, attempt: str, now: str
) -> Commit:
    """The transaction as of now: nothing that the decision rests on may move.

    `tenant`: what the pod's tenant label says; whether there is such a tenant decides whose pod it is.
    """
    pod = found.pod
    conditions: list[Condition] = [
        Compare(keys.pod(*pod.key), "mod", pod.mod_revision),
        Compare(keys.node(node.name), "mod", node.mod_revision),
        Compare(keys.binding(node.name), "mod", cache.bindings[node.name]),
        *across_nodes.conditions(pod, rules, cache),
    ]
    if tenant:
        conditions.append(Compare(keys.tenant(tenant), "create", cache.tenants.get(tenant, 0)))
    return Commit(found, node, rules, tuple(conditions), attempt, now)


@dataclass(frozen=True, slots=True)
class Moved:
    """Which of the compared keys had moved, and what they are now."""

    what: tuple[str, ...]
    """Kinds of keys, for the metric; empty when only something among all namespaces' binds moved."""
    same_node: Node | None
    """The node at its new revision, when nothing that scheduling reads differs (a heart-beat)."""
    node_gone: bool
    revision: int
    """What the watch must have shown before trying again is worth it."""

    @property
    def must_catch_up(self) -> bool:
        """Only the watch can tell what the change means for the decision."""
        adopted = {"pod"} if self.same_node is None else {"pod", "node"}
        return not self.what or not adopted.issuperset(self.what)


def read_failure(commit: Commit, answer: TxnResult) -> Moved:
    """What the failed transaction's reads say."""
    what: list[str] = []
    seen: list[int] = []
    behind_a_delete = False
    for compare, kv in zip(commit.compares, answer.reads, strict=True):
        actual = 0 if kv is None else kv.mod_revision if compare.target == "mod" else kv.create_revision
        if actual == compare.revision:
            continue
        kind = _kind(compare.key)
        what.append(kind)
        if kind != "pod":
            behind_a_delete |= kv is None
            seen.append(kv.mod_revision if kv is not None else 0)
    node = answer.reads[1]
    return Moved(
        what=tuple(dict.fromkeys(what)),
        same_node=_same(commit.node, node) if "node" in what else None,
        node_gone=node is None,
        revision=answer.revision if behind_a_delete or not what else max(seen, default=0),
    )


def _kind(key: str) -> str:
    return next((kind for prefix, kind in _KINDS.items() if key.startswith(prefix)), "tenant")


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
