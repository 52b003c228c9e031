"""The transaction that binds a pod, or many: what is in it, how it is sent, and what its answer means.

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

Where the answer got lost, the bind fails, and its retry, perhaps on another worker, binds the pod or finds it bound.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, repeat
from typing import NamedTuple

from wharfinger.errors import InvalidObject, RequestTooLarge, StoreError, Unavailable, UpstreamUnavailable
from wharfinger.etcd import keys
from wharfinger.etcd.store import Compare, Condition, Delete, Get, KeyValue, Operation, Put, Store, TxnResult
from wharfinger.framework.plugins.volume_binding import VolumeBinding
from wharfinger.objects.documents.copies import state_of
from wharfinger.objects.documents.formats import ObjectFormat
from wharfinger.objects.model.node import Node
from wharfinger.objects.model.pod import Pod, PodIdentity
from wharfinger.process.records import BoundByRecord, HoldRecord
from wharfinger.process.transactions import Shape
from wharfinger.scheduling.contracts import promise_records
from wharfinger.scheduling.effects.binding import across_nodes, volumes
from wharfinger.scheduling.effects.binding.eligibility import PodAnswer
from wharfinger.scheduling.effects.binding.outcome import PendingBind, Stamp
from wharfinger.scheduling.effects.binding.right_to_bind import NOT_HELD
from wharfinger.scheduling.model.promises import Promise
from wharfinger.scheduling.state.cache.cache import Cache

VERSIONS = 256
"""Bytes of the versions that a bind rewrites, about."""
CALL_SLACK = 60.0
"""Seconds beyond the deadlines of plugins after which any worker gives up a promise that waits for them."""
_KINDS = {
    keys.PODS: "pod",
    keys.NODES: "node",
    keys.BINDINGS: "binding",
    keys.BOUND: "bound",
    keys.TERMS: "terms",
    keys.ACTIVE: "active",
    keys.HOLDS: "hold",
    **dict.fromkeys((keys.VOLUMES, keys.PERSISTENT_VOLUMES, keys.PERSISTENT_VOLUME_CLAIMS), "volume"),
}
"""What moved, for the metric, by the prefix of its key; the rest is the tenant."""
OWN = frozenset({"pod", "node", "binding", "volume", "hold"})
"""What moved concerns one commit alone (or those of its node); the rest concerns all commits of a transaction."""
PAUSES = (0.2, 0.5, 1.0, 2.0, 5.0)
"""Seconds between reads while etcd does not answer; the last for ever."""


@dataclass(frozen=True, slots=True)
class Commit:
    """A bind as it is sent: everything it compares was known at one moment."""

    seat: PendingBind
    node: Node
    conditions: tuple[Condition, ...]
    """The pod's first, then the node's."""
    writes: Sequence[Operation]
    """Beside the versions."""
    versions: Sequence[str]
    """The keys whose rewriting makes this bind visible to others; no rule is about a pod that is not bound yet."""
    stamp: Stamp
    promise: Promise | None = None
    """What is sent to the Kubernetes API afterwards, where one is the store."""

    @classmethod
    def of(
        cls,
        seat: PendingBind,
        node: Node,
        known: Cache,
        stamp: Stamp,
        *,
        tenancy: Sequence[Compare] = (),
        pods: int = 0,
    ) -> Commit:
        """The bind of a verified seat, as of now.

        `tenancy`: what its pool was decided on. `pods`: how many are bound together, or not at all; 0 = alone. Raises
        `UpstreamUnavailable` where this installation may not bind, and `InvalidObject` for what cannot be written.
        """
        pod, side = seat.found.pod, known.kubernetes
        conditions: list[Condition] = [
            Compare(keys.pod(*pod.key), "mod", pod.mod_revision),
            Compare(keys.node(node.name), "mod", node.mod_revision),
            # By the watch, or by the header of an own commit. A version that was merely read would let the bind succeed
            # without the pods behind it having been looked at.
            Compare(keys.binding(node.name), "mod", known.bindings[node.name]),
            *across_nodes.conditions(pod, seat.rules, known),
            *(volumes.compares(seat.volumes, known) if pod.claims else ()),
            *tenancy,
        ]
        if seat.hold:  # a bind that was on its way while the room was given back must not happen afterwards
            conditions.append(Compare(keys.hold(*pod.key), "mod", seat.hold))
        if side is not None:
            if not side.active:
                raise UpstreamUnavailable(NOT_HELD)
            conditions.append(Compare(keys.ACTIVE, "mod", side.active))
        promise = _promise(seat, stamp, pods) if side is not None else None
        versions = [keys.binding(node.name)]
        if promise is not None or not seat.steps:
            versions += across_nodes.rewritten(pod, seat.rules)
        return cls(seat, node, tuple(conditions), _writes(seat, node, stamp, promise), versions, stamp, promise)

    @property
    def pod(self) -> Pod:
        """That is bound."""
        return self.seat.found.pod

    @property
    def holds(self) -> bool:
        """Whether it only holds the room in etcd: asynchronous plugins are to be called before the pod is bound."""
        return bool(self.seat.steps) and self.promise is None

    @property
    def reads(self) -> list[str]:
        """What is read of it when the transaction fails: the compared keys, then the record of the pod's binder."""
        compared = [compare.key for compare in self.compares]
        return compared if self.seat.found.format.marks_pods else [*compared, keys.bound_by(*self.pod.key)]

    @property
    def compares(self) -> list[Compare]:
        """The conditions on single keys."""
        return [condition for condition in self.conditions if isinstance(condition, Compare)]

    @property
    def shape(self) -> Shape:
        """What it adds to a transaction."""
        compares = [one.key if isinstance(one, Compare) else one.prefix for one in self.conditions]
        if not self.seat.found.format.marks_pods:  # read when the transaction fails, as what is compared
            compares.append(keys.bound_by(*self.pod.key))
        size = sum(len(write.value) for write in self.writes if isinstance(write, Put))
        return Shape(tuple(compares), (*(write.key for write in self.writes), *self.versions), size + VERSIONS)


def _writes(seat: PendingBind, node: Node, stamp: Stamp, promise: Promise | None) -> list[Operation]:
    pod, key, format_ = seat.found.pod, seat.found.pod.key, seat.found.format
    made = {"node": node.name, "create_revision": pod.create_revision, "attempt": stamp.attempt, "time": stamp.time}
    # A pod that cannot be written bound is refused before any plugin is called for it.
    bound = format_.bind_pod(seat.found.raw, node_name=node.name, attempt=stamp.attempt, now=stamp.time)
    if seat.steps and promise is None:
        record = HoldRecord.model_validate({**made, "calls": _calls(seat)})
        return [Put(keys.hold(*key), record.to_bytes()), *volumes.puts(pod, replace(seat.volumes, stored={}), *stamp)]
    writes: list[Operation] = [Put(keys.pod(*key), bound)]
    if pod.claims:
        writes += volumes.puts(pod, seat.volumes, *stamp)
    if not format_.marks_pods:
        writes.append(Put(keys.bound_by(*key), BoundByRecord.model_validate(made).to_bytes()))
    if promise is not None:
        writes.append(Put(keys.promise(*key), promise_records.stored(promise)))
    if seat.held:
        writes.append(Delete(keys.hold(*key)))
    if seat.seat.recorded:
        writes.append(Delete(keys.attempt(*key)))
    return writes


def _promise(seat: PendingBind, stamp: Stamp, pods: int) -> Promise:
    """What is promised to the Kubernetes API; not ready while volumes or plugins are waited for."""
    state = state_of(seat.found.raw)
    promise = Promise(state.uid, state.revision, seat.node, stamp.attempt, since=stamp.time, together=pods)
    if not (seat.volumes.steps or seat.steps):
        return promise
    waits = (plugin.bind_timeout_seconds for plugin in seat.profile.plugins if isinstance(plugin, VolumeBinding))
    return replace(
        promise,
        ready=False,
        volumes=seat.volumes.steps,
        patience=float(next(waits, 0.0)) if seat.volumes.steps else 0.0,
        calls=_calls(seat),
        call_patience=seat.profile.called.longest + CALL_SLACK if seat.steps else 0.0,
    )


def _calls(seat: PendingBind) -> tuple[str, ...]:
    """The calls that are due first, `PreBind/<plugin>`: for people who ask what the room is held for."""
    return tuple(f"{step.point}/{step.plugin}" for step in seat.steps)


class Transaction(NamedTuple):
    """Commits of one moment as they are sent: what they share is in it once."""

    commits: Sequence[Commit]
    conditions: list[Condition]
    writes: list[Operation]
    reads: list[Operation]
    """When a compare fails: what the commits read, each key once."""


def together(commits: Sequence[Commit]) -> Transaction:
    """One transaction of one or many commits."""
    conditions = list(dict.fromkeys(chain.from_iterable(commit.conditions for commit in commits)))
    writes: list[Operation] = []
    versions: dict[str, Operation] = {}
    for commit in commits:
        writes += commit.writes
        missing = [name for name in commit.versions if name not in versions]
        if missing:
            said = {"attempt": commit.stamp.attempt, "pod": str(commit.pod.key)}
            version = json.dumps(said, separators=(",", ":")).encode()
            versions.update((name, Put(name, version)) for name in missing)
    reads: list[Operation] = [Get(key) for key in dict.fromkeys(chain.from_iterable(one.reads for one in commits))]
    return Transaction(commits, conditions, [*writes, *versions.values()], reads)


@dataclass(frozen=True, slots=True)
class MovedKeys:
    """Which keys of a commit had moved when its transaction failed, and what they are now."""

    pod: PodAnswer
    node_gone: bool
    what: tuple[str, ...]
    """Kinds of keys, for the metric; empty when only something among all namespaces' binds moved."""
    same_node: Node | None
    """The node at its new revision, when nothing that scheduling reads differs (a heart-beat)."""
    revision: int
    """What the watch must have shown before trying again is worth it."""

    @classmethod
    def of(cls, commit: Commit, read: Mapping[str, KeyValue | None], revision: int) -> MovedKeys:
        """By what was read at that revision of the store."""
        what: dict[str, None] = {}
        seen = 0
        for compare in commit.compares:
            kv = read[compare.key]
            if compare.holds(kv):
                continue
            kind = next((kind for prefix, kind in _KINDS.items() if compare.key.startswith(prefix)), "tenant")
            what[kind] = None
            if kind != "pod":  # of a deletion only the revision of the answer is known
                seen = max(seen, kv.mod_revision if kv is not None else revision)
        node, format_ = read[keys.node(commit.node.name)], commit.seat.found.format
        record = None if format_.marks_pods else read[keys.bound_by(*commit.pod.key)]
        return cls(
            pod=PodAnswer(read[keys.pod(*commit.pod.key)], revision, record),
            node_gone=node is None,
            what=tuple(what),
            same_node=_same(commit.node, node, format_) if "node" in what else None,
            revision=seen if what else revision,
        )

    @property
    def own(self) -> frozenset[str]:
        """What moved of the commit's own pod, node or binding version: others may be sent without it."""
        return OWN.intersection(self.what)

    @property
    def adopted_notes(self) -> tuple[str, ...]:
        """For the explanation: changes of the pod and of the node that need no other decision."""
        changed = ("the pod changed",) if "pod" in self.what else ()
        return changed if self.same_node is None else (*changed, "the node's heart-beat was adopted")

    @property
    def catch_up_note(self) -> str:
        """For the explanation: what the watch has shown since."""
        return "caught up with the node" if set(self.what) <= {"pod", "node"} else "caught up with another bind"

    def needed(self, seat: PendingBind) -> int:
        """What the watch must have shown before the seat is worth trying again: what moved for it alone; 0 = nothing.

        Only the watch can show what a change means for the decision, unless it is adopted.
        """
        adopted = {"pod"} if self.same_node is None else {"pod", "node"}
        return self.revision if (self.own or seat.alone) and not (self.what and adopted.issuperset(self.what)) else 0


def what_moved(transaction: Transaction, answer: TxnResult) -> tuple[list[MovedKeys], Sequence[str], int]:
    """What the reads of a transaction that failed show of each of its commits.

    With what made it fail, for the metric: of each its own, of all what concerns all. And what the watch must have
    shown before those are worth sending again of which nothing moved; 0 = nothing.
    """
    read = dict(zip((each.key for each in transaction.reads), answer.reads, strict=True))
    failures = [MovedKeys.of(commit, read, answer.revision) for commit in transaction.commits]
    shared = [moved for moved in failures if not OWN.issuperset(moved.what)]
    owns = [what for moved in failures for what in moved.own]
    if not shared and not owns:  # nothing that was read moved: another namespace's bind did, or a key came and went
        return failures, (), answer.revision
    concerns_all = {what for moved in shared for what in moved.what if what not in OWN}
    return failures, (*owns, *concerns_all), max((moved.revision for moved in shared), default=0)


def _same(known: Node, stored: KeyValue | None, format_: ObjectFormat) -> Node | None:
    """The stored node when it is the known one in everything that scheduling reads."""
    if stored is None or stored.create_revision != known.create_revision:
        return None
    try:
        node = format_.decode_node(stored.value, name=known.name, **stored.revisions)
    except InvalidObject:
        return None
    return node if node == known else None


class Committer:
    """Sends the transactions of one worker's binds."""

    def __init__(self, *, store: Store, cache: Cache) -> None:
        self._store = store
        self._cache = cache
        self._in_doubt: dict[PodIdentity, asyncio.Task[None]] = {}
        """What asks etcd until it answers."""

    async def send(self, transaction: Transaction) -> TxnResult:
        """Bind the pods of this transaction, or none of them.

        Where it did not happen the seats are kept, unsent; where it may never happen as it is (`RequestTooLarge`) too.
        Raises `StoreError`: of an `Unavailable` that may have happened the end is found out in the background.
        """
        commits = transaction.commits
        for commit in commits:  # from here on only etcd ends the assumptions: the pods may be bound unseen
            self._cache.assume_sent(commit.pod, commit.node.name)
        try:
            answer = await self._store.txn(transaction.conditions, transaction.writes, transaction.reads)
        except (Exception, asyncio.CancelledError) as error:
            if isinstance(error, RequestTooLarge):
                self._unsend(commits)
            elif isinstance(error, asyncio.CancelledError) or (isinstance(error, Unavailable) and error.maybe_applied):
                self._doubt(commits)
            else:  # a refusal: nothing was written
                for commit in commits:
                    self._cache.forget(commit.pod.identity)
            raise
        if not answer.succeeded:
            self._unsend(commits)
        return answer

    def happened(self, commits: Sequence[Commit], revision: int) -> bool:
        """Our own commit: the versions it compared advance together with the pods behind them, never without.

        Returns whether only the watch shows some of the versions that it left.
        """
        bound = [(commit.pod, commit.seat.rules) for commit in commits if not commit.holds]
        unseen = across_nodes.rewritten_unseen(bound)
        for commit in commits:
            if commit.holds:  # the record that the watch shows takes the place of the assumption
                self._cache.settle(commit.pod.identity, revision)
        if self._cache.progress.revision >= revision:  # the watch has shown both already, and what came then
            return unseen
        for commit in commits:
            if not commit.holds:
                self._cache.assume_sent(commit.pod, commit.node.name)
                self._cache.confirm(commit.pod.identity, revision)
            self._cache.bindings.set(commit.node.name, revision)
        across_nodes.advance(bound, self._cache, revision)
        return unseen

    def _unsend(self, commits: Sequence[Commit]) -> None:
        for commit in commits:
            self._cache.assume(commit.pod, commit.node.name)

    def _doubt(self, commits: Sequence[Commit]) -> None:
        """Their transaction may or may not have happened."""
        new = [commit.pod.identity for commit in commits if commit.pod.identity not in self._in_doubt]
        if not new:
            return
        task = asyncio.create_task(self._settle(new), name=f"settle {new[0].namespace}/{new[0].name} of {len(new)}")
        self._in_doubt.update(dict.fromkeys(new, task))
        task.add_done_callback(lambda _: [self._in_doubt.pop(identity, None) for identity in new])

    async def _settle(self, identities: Sequence[PodIdentity]) -> None:
        """Find out from which revision on the watch has the truth; until then the pods count on their nodes."""
        # Any linearizable read will do: what matters is the revision that it is answered at.
        key = keys.pod(identities[0].namespace, identities[0].name)
        for pause in chain(PAUSES, repeat(PAUSES[-1])):
            with contextlib.suppress(StoreError):
                read = await self._store.get(key)
                for identity in identities:
                    self._cache.settle(identity, read.revision)
                return
            await asyncio.sleep(pause)

    async def close(self) -> None:
        """Stop asking: the process ends, and its assumptions with it."""
        tasks = set(self._in_doubt.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
