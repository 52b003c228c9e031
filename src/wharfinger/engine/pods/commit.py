"""The transaction that binds a pod, or many, and what its answer means.

::

    compares   pod's mod revision · node's mod revision · binding version as this worker last saw it
               · rules across nodes (`across_nodes`) · the tenant that the pod's label names
               · the volumes that it takes (`volumes`)
               · where a Kubernetes API is the store: that this installation may bind (`active`)
               · where the attempt holds the pod's room by a record: that record
    puts       the pod on its node · the binding version · the versions of rules across nodes
               · which attempt did it, where pods do not carry that (rk8s)
               · the promise of this bind, where a Kubernetes API is the store
    deletes    the attempt record, and the record of a room that was held for the pod
    otherwise  reads the compared keys, so that one answer shows what moved

While asynchronous plugins are called, the same transaction holds the room instead: it puts a record that every worker
counts, and the binding version, but not the pod. With a Kubernetes API it puts a promise that is not ready.

The known versions come from the cache, which advances them by the watch or by the header of an own
commit. A version that was merely read says nothing of the pods behind it: it never gets here.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain

from wharfinger.cache.cache import Cache
from wharfinger.contracts import upstream_records
from wharfinger.contracts.plugin_calls import PluginStep
from wharfinger.contracts.records import BoundByRecord, HoldRecord
from wharfinger.engine.pods import across_nodes, volumes
from wharfinger.engine.pods.across_nodes import AcrossNodes
from wharfinger.engine.pods.eligibility import PodAnswer, StoredPod
from wharfinger.engine.pods.volumes import NO_VOLUMES, VolumeWrites
from wharfinger.engine.upstream.right_to_bind import NOT_HELD
from wharfinger.errors import InvalidObject, UpstreamUnavailable
from wharfinger.manifests.copies import state_of
from wharfinger.manifests.formats import ObjectFormat
from wharfinger.model.node import Node
from wharfinger.model.promises import Promise, UpstreamSide
from wharfinger.registry import keys
from wharfinger.registry.store import Compare, Condition, Delete, Get, KeyValue, Operation, Put, TxnResult

_KINDS = {
    keys.PODS: "pod",
    keys.NODES: "node",
    keys.BINDINGS: "binding",
    keys.BOUND: "bound",
    keys.TERMS: "terms",
    keys.ACTIVE: "active",
    keys.HOLDS: "hold",
    keys.VOLUMES: "volume",
    keys.PERSISTENT_VOLUMES: "volume",
    keys.PERSISTENT_VOLUME_CLAIMS: "volume",
}
"""What moved, for the metric, by the prefix of its key; the rest is the tenant."""
OWN = frozenset({"pod", "node", "binding", "volume", "hold"})
"""What moved concerns one commit alone (or those of its node); the rest concerns all commits of a transaction."""


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
    recorded: bool = True
    """Whether the pod may have an attempt record, which goes."""
    volumes: VolumeWrites = NO_VOLUMES
    """What is compared and written for its volumes."""
    promise: Promise | None = None
    """What is sent to the Kubernetes API afterwards, where one is the store."""
    holds: bool = False
    """Whether it only holds the room: asynchronous plugins are to be called before the pod is bound."""
    held: bool = False
    """Whether a room may be held for the pod, which its bind ends."""
    calls: tuple[str, ...] = ()
    """The calls that are due first, `PreBind/<plugin>`: told to people who ask what the room is held for."""

    @property
    def compares(self) -> list[Compare]:
        """The conditions on single keys: the pod's first, then the node's."""
        return [condition for condition in self.conditions if isinstance(condition, Compare)]

    @property
    def reads(self) -> list[str]:
        """What is read of it when the transaction fails: the compared keys, then the record of the pod's binder."""
        compared = [compare.key for compare in self.compares]
        return compared if self.found.format.marks_pods else [*compared, keys.bound_by(*self.found.pod.key)]

    def pod_in(self, answer: TxnResult) -> PodAnswer:
        """The pod as the failed transaction's reads have it."""
        record = None if self.found.format.marks_pods else answer.reads[-1]
        return PodAnswer(answer.reads[0], answer.revision, record)

    def sent_with(self, pods: int) -> Commit:
        """The same, where the promises of so many pods are sent together or not at all."""
        return self if self.promise is None else replace(self, promise=replace(self.promise, together=pods))

    @property
    def versions(self) -> list[str]:
        """The keys whose rewriting makes this bind visible to others; no rule is about a pod that is not bound yet."""
        if self.holds:
            return [keys.binding(self.node.name)]
        return [keys.binding(self.node.name), *across_nodes.rewritten(self.found.pod, self.rules)]


@dataclass(frozen=True, slots=True)
class Transaction:
    """Commits of one moment as they are sent: what they share is in it once."""

    conditions: list[Condition]
    writes: list[Operation]
    reads: list[Operation]
    """When a compare fails: what the commits read, each key once."""

    def answer_for(self, commit: Commit, answer: TxnResult) -> TxnResult:
        """What the answer says of one of the commits."""
        if len(answer.reads) != len(self.reads):  # it succeeded
            return answer
        read = dict(zip((each.key for each in self.reads), answer.reads, strict=True))
        reads = tuple(read[key] for key in commit.reads)
        return TxnResult(answer.succeeded, answer.revision, reads)


def together(commits: Sequence[Commit]) -> Transaction:
    """One transaction of one or many commits. Raises `InvalidObject` for a pod that cannot be written."""
    conditions = list(dict.fromkeys(chain.from_iterable(commit.conditions for commit in commits)))
    writes: list[Operation] = []
    versions: dict[str, Operation] = {}
    for commit in commits:
        pod = commit.found.pod
        writes += _holding(commit) if commit.holds else _binding(commit)
        missing = [name for name in commit.versions if name not in versions]
        if missing:
            said = {"attempt": commit.attempt, "pod": f"{pod.namespace}/{pod.name}"}
            version = json.dumps(said, separators=(",", ":")).encode()
            versions.update((name, Put(name, version)) for name in missing)
        if commit.recorded and not commit.holds:
            writes.append(Delete(keys.attempt(*pod.key)))
    reads: list[Operation] = [Get(key) for key in dict.fromkeys(chain.from_iterable(one.reads for one in commits))]
    return Transaction(conditions, [*writes, *versions.values()], reads)


def _binding(commit: Commit) -> list[Operation]:
    """What binds the pod."""
    pod, format_ = commit.found.pod, commit.found.format
    bound = format_.bind_pod(commit.found.raw, node_name=commit.node.name, attempt=commit.attempt, now=commit.now)
    writes: list[Operation] = [Put(keys.pod(*pod.key), bound)]
    if not format_.marks_pods:
        writes.append(Put(keys.bound_by(*pod.key), _bound_by(commit)))
    writes += volumes.puts(pod, commit.volumes, attempt=commit.attempt, now=commit.now)
    if commit.promise is not None:
        writes.append(Put(keys.promise(*pod.key), upstream_records.stored(commit.promise)))
    if commit.held:
        writes.append(Delete(keys.hold(*pod.key)))
    return writes


def _holding(commit: Commit) -> list[Operation]:
    """What holds the pod's room until it is bound: its record, and the volumes that were chosen."""
    pod = commit.found.pod
    # A pod that cannot be written bound is refused before any plugin is called for it.
    commit.found.format.bind_pod(commit.found.raw, node_name=commit.node.name, attempt=commit.attempt, now=commit.now)
    record = HoldRecord(
        node=commit.node.name,
        create_revision=pod.create_revision,
        attempt=commit.attempt,
        time=commit.now,
        calls=commit.calls,
    )
    taken = replace(commit.volumes, stored={})
    return [
        Put(keys.hold(*pod.key), record.to_bytes()),
        *volumes.puts(pod, taken, attempt=commit.attempt, now=commit.now),
    ]


def _bound_by(commit: Commit) -> bytes:
    pod = commit.found.pod
    return BoundByRecord(
        attempt=commit.attempt, node=commit.node.name, create_revision=pod.create_revision, time=commit.now
    ).to_bytes()


def prepare(
    found: StoredPod,
    node: Node,
    rules: AcrossNodes,
    cache: Cache,
    *,
    tenancy: Sequence[Compare],
    attempt: str,
    now: str,
    recorded: bool = True,
    taken: VolumeWrites = NO_VOLUMES,
    patience: float = 0.0,
    side: UpstreamSide | None = None,
    steps: Sequence[PluginStep] = (),
    call_patience: float = 0.0,
    held: bool = False,
    hold: int = 0,
) -> Commit:
    """The transaction as of now: nothing that the decision rests on may move.

    Args:
        found: The pod.
        node: Where it is bound, or its room is held.
        rules: Of the pod, across nodes.
        cache: What this worker knows.
        tenancy: What whose pod it is was decided on just now (`Eligibility.tenancy`).
        attempt: `<workflow id>@<run id>`.
        now: RFC 3339, UTC.
        recorded: Whether the pod may have an attempt record.
        taken: What the bind means for the pod's volumes.
        patience: Seconds within which these have to be there.
        side: What is known of the Kubernetes API, where one is the store.
        steps: Calls of asynchronous plugins that are due first.
        call_patience: Seconds within which these have to agree.
        held: Whether a room may be held for the pod, which this bind ends.
        hold: Mod revision of the record by which the attempt holds it; 0 = it holds none.

    Raises:
        UpstreamUnavailable: This installation may not bind there.
    """
    pod = found.pod
    promise: Promise | None = None
    calls = tuple(f"{step.point}/{step.plugin}" for step in steps)
    conditions: list[Condition] = [
        Compare(keys.pod(*pod.key), "mod", pod.mod_revision),
        Compare(keys.node(node.name), "mod", node.mod_revision),
        Compare(keys.binding(node.name), "mod", cache.bindings[node.name]),
        *across_nodes.conditions(pod, rules, cache),
        *tenancy,
        *volumes.compares(taken, cache),
    ]
    if hold:  # a bind that was on its way while the room was given back must not happen afterwards
        conditions.append(Compare(keys.hold(*pod.key), "mod", hold))
    if side is not None:
        if not side.active:
            raise UpstreamUnavailable(NOT_HELD)
        conditions.append(Compare(keys.ACTIVE, "mod", side.active))
        state = state_of(found.raw)
        promise = Promise(state.uid, state.revision, node.name, attempt, since=now)
        if taken.steps:
            promise = replace(promise, ready=False, volumes=taken.steps, patience=patience)
        if steps:
            waits = patience if taken.steps else 0.0
            promise = replace(promise, ready=False, calls=calls, patience=waits, call_patience=call_patience)
    return Commit(
        found,
        node,
        rules,
        tuple(conditions),
        attempt,
        now,
        recorded=recorded,
        volumes=taken,
        promise=promise,
        holds=bool(steps) and side is None,
        held=held,
        calls=calls,
    )


@dataclass(frozen=True, slots=True)
class MovedKeys:
    """Which of the compared keys had moved, and what they are now."""

    what: tuple[str, ...]
    """Kinds of keys, for the metric; empty when only something among all namespaces' binds moved."""
    same_node: Node | None
    """The node at its new revision, when nothing that scheduling reads differs (a heart-beat)."""
    node_gone: bool
    revision: int
    """What the watch must have shown before trying again is worth it."""
    newest: int
    """The revision at which the watch has shown every compared key as it was read, the pod's included."""

    @property
    def adopted_notes(self) -> tuple[str, ...]:
        """For the explanation: changes of the pod and of the node that need no other decision."""
        changed = ("the pod changed",) if "pod" in self.what else ()
        return changed if self.same_node is None else (*changed, "the node's heart-beat was adopted")

    @property
    def catch_up_note(self) -> str:
        """For the explanation: what the watch has shown since."""
        return "caught up with the node" if set(self.what) <= {"pod", "node"} else "caught up with another bind"

    @property
    def must_catch_up(self) -> bool:
        """Only the watch can show what the change means for the decision."""
        adopted = {"pod"} if self.same_node is None else {"pod", "node"}
        return not self.what or not adopted.issuperset(self.what)


def read_failure(commit: Commit, answer: TxnResult) -> MovedKeys:
    """What the failed transaction's reads say."""
    what: list[str] = []
    seen: list[int] = []
    pod_at = 0
    behind_a_delete = False
    for compare, kv in zip(commit.compares, answer.reads, strict=False):  # behind them, the record of the binder
        if compare.holds(kv):
            continue
        kind = _kind(compare.key)
        what.append(kind)
        if kind == "pod":
            pod_at = answer.revision if kv is None else kv.mod_revision
        else:
            behind_a_delete |= kv is None
            seen.append(kv.mod_revision if kv is not None else 0)
    node = answer.reads[1]
    revision = answer.revision if behind_a_delete or not what else max(seen, default=0)
    return MovedKeys(
        what=tuple(dict.fromkeys(what)),
        same_node=_same(commit.node, node, commit.found.format) if "node" in what else None,
        node_gone=node is None,
        revision=revision,
        newest=max(revision, pod_at),
    )


@dataclass(frozen=True, slots=True)
class Blame:
    """Whose fault it is that a transaction of many commits failed."""

    own: frozenset[int]
    """Positions of the commits whose own pod, node or binding version moved: the others may be sent without them."""
    counted: tuple[str, ...]
    """What moved, for the metric: of each commit its own, of all what concerns all."""
    revision: int
    """What the watch must have shown before the others are worth sending again; 0 = nothing."""


def blame(failures: Sequence[MovedKeys], answer: TxnResult) -> Blame:
    """Read the failures of a transaction's commits, in their order."""
    owns = [OWN.intersection(moved.what) for moved in failures]
    shares = [frozenset(moved.what) - OWN for moved in failures]
    kinds = frozenset(chain.from_iterable(shares))
    revision = max((moved.revision for moved, shared in zip(failures, shares, strict=True) if shared), default=0)
    if not kinds and not any(owns):
        revision = answer.revision  # nothing that was read moved: another namespace's bind did, or a key came and went
    counted = (*chain.from_iterable(owns), *kinds)
    return Blame(frozenset(at for at, own in enumerate(owns) if own), counted, revision)


def _kind(key: str) -> str:
    return next((kind for prefix, kind in _KINDS.items() if key.startswith(prefix)), "tenant")


def _same(known: Node, stored: KeyValue | None, format_: ObjectFormat) -> Node | None:
    """The stored node when it is the known one in everything that scheduling reads."""
    if stored is None or stored.create_revision != known.create_revision:
        return None
    try:
        node = format_.decode_node(
            stored.value,
            name=known.name,
            create_revision=stored.create_revision,
            mod_revision=stored.mod_revision,
        )
    except InvalidObject:
        return None
    return node if node == known else None
