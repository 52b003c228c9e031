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

The known versions come from the cache, which advances them by the watch or by the header of an own
commit. A version that was merely read says nothing of the pods behind it: it never gets here.

From the moment a transaction is sent, only etcd ends the assumptions of its pods. Where the answer got lost, the bind
fails, and its retry, perhaps on another worker, binds the pod or finds it bound. This worker still counts the pod on
its node: a linearizable read in the background shows from which revision on the watch has the truth.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import NamedTuple

from wharfinger.cache.cache import Cache
from wharfinger.contracts import upstream_records
from wharfinger.contracts.records import BoundByRecord, HoldRecord
from wharfinger.engine.pods import across_nodes, volumes
from wharfinger.engine.pods.bind.seat import Seated
from wharfinger.engine.pods.eligibility import PodAnswer
from wharfinger.engine.upstream.right_to_bind import NOT_HELD
from wharfinger.errors import RequestTooLarge, StoreError, Unavailable, UpstreamUnavailable
from wharfinger.framework.profile import Profile
from wharfinger.manifests.copies import state_of
from wharfinger.model.node import Node
from wharfinger.model.pod import Pod, PodIdentity
from wharfinger.model.promises import Promise
from wharfinger.plugins.volume_binding import VolumeBinding
from wharfinger.registry import keys
from wharfinger.registry.store import Compare, Condition, Delete, Get, Operation, Put, Store, TxnResult

CALL_SLACK = 60.0
"""Seconds beyond the deadlines of plugins after which any worker gives up a promise that waits for them."""
PAUSES = (0.2, 0.5, 1.0, 2.0, 5.0)
"""Seconds between reads while etcd does not answer; the last for ever."""


class Stamp(NamedTuple):
    """Which attempt binds, and when."""

    attempt: str
    """`<workflow id>@<run id>`, written to the pod and to the versions."""
    time: str
    """RFC 3339, UTC."""


@dataclass(frozen=True, slots=True)
class Commit:
    """A bind as it is sent: everything it compares was known at one moment."""

    seat: Seated
    node: Node
    conditions: tuple[Condition, ...]
    """The pod's first, then the node's."""
    writes: Sequence[Operation]
    """Beside the versions."""
    stamp: Stamp
    promise: Promise | None = None
    """What is sent to the Kubernetes API afterwards, where one is the store."""

    @classmethod
    def of(cls, seat: Seated, node: Node, known: Cache, stamp: Stamp, pods: int = 0) -> Commit:
        """The bind of a verified seat, as of now. `pods`: how many are bound together, or not at all; 0 = alone.

        Raises `UpstreamUnavailable` where this installation may not bind, and `InvalidObject` for a pod that cannot be
        written as it would be bound.
        """
        pod, side = seat.found.pod, known.upstream
        conditions: list[Condition] = [
            Compare(keys.pod(*pod.key), "mod", pod.mod_revision),
            Compare(keys.node(node.name), "mod", node.mod_revision),
            Compare(keys.binding(node.name), "mod", known.bindings[node.name]),
            *across_nodes.conditions(pod, seat.rules, known),
        ]
        if pod.claims:
            conditions += volumes.compares(seat.volumes, known)
        if seat.tenant:  # whose pod it is was decided on this
            conditions.append(Compare(keys.tenant(seat.tenant), "create", known.tenants.get(seat.tenant, 0)))
        if seat.hold:  # a bind that was on its way while the room was given back must not happen afterwards
            conditions.append(Compare(keys.hold(*pod.key), "mod", seat.hold))
        promise: Promise | None = None
        if side is not None:
            if not side.active:
                raise UpstreamUnavailable(NOT_HELD)
            conditions.append(Compare(keys.ACTIVE, "mod", side.active))
            promise = _promise(seat, stamp, pods)
        return cls(seat, node, tuple(conditions), _writes(seat, node, stamp, promise), stamp, promise)

    @property
    def pod(self) -> Pod:
        """That is bound."""
        return self.seat.found.pod

    @property
    def holds(self) -> bool:
        """Whether it only holds the room in etcd: asynchronous plugins are to be called before the pod is bound."""
        return bool(self.seat.steps) and self.promise is None

    @property
    def compares(self) -> list[Compare]:
        """The conditions on single keys."""
        return [condition for condition in self.conditions if isinstance(condition, Compare)]

    @property
    def reads(self) -> list[str]:
        """What is read of it when the transaction fails: the compared keys, then the record of the pod's binder."""
        compared = [compare.key for compare in self.compares]
        return compared if self.seat.found.format.marks_pods else [*compared, keys.bound_by(*self.pod.key)]

    def pod_in(self, answer: TxnResult) -> PodAnswer:
        """The pod as the failed transaction's reads have it."""
        record = None if self.seat.found.format.marks_pods else answer.reads[-1]
        return PodAnswer(answer.reads[0], answer.revision, record)

    @property
    def versions(self) -> list[str]:
        """The keys whose rewriting makes this bind visible to others; no rule is about a pod that is not bound yet."""
        binding = keys.binding(self.node.name)
        return [binding] if self.holds else [binding, *across_nodes.rewritten(self.pod, self.seat.rules)]


def _writes(seat: Seated, node: Node, stamp: Stamp, promise: Promise | None) -> list[Operation]:
    pod, key, format_ = seat.found.pod, seat.found.pod.key, seat.found.format
    made = {"node": node.name, "create_revision": pod.create_revision, "attempt": stamp.attempt, "time": stamp.time}
    # A pod that cannot be written bound is refused before any plugin is called for it.
    bound = format_.bind_pod(seat.found.raw, node_name=node.name, attempt=stamp.attempt, now=stamp.time)
    if seat.steps and promise is None:
        record = HoldRecord.model_validate({**made, "calls": _calls(seat)})
        return [Put(keys.hold(*key), record.to_bytes()), *volumes.puts(pod, replace(seat.volumes, stored={}), *stamp)]
    writes: list[Operation] = [Put(keys.pod(*key), bound)]
    if not format_.marks_pods:
        writes.append(Put(keys.bound_by(*key), BoundByRecord.model_validate(made).to_bytes()))
    if pod.claims:
        writes += volumes.puts(pod, seat.volumes, *stamp)
    if promise is not None:
        writes.append(Put(keys.promise(*key), upstream_records.stored(promise)))
    if seat.held:
        writes.append(Delete(keys.hold(*key)))
    if seat.seat.recorded:
        writes.append(Delete(keys.attempt(*key)))
    return writes


def _promise(seat: Seated, stamp: Stamp, pods: int) -> Promise:
    """What is promised to the Kubernetes API; not ready while volumes or plugins are waited for."""
    state = state_of(seat.found.raw)
    promise = Promise(state.uid, state.revision, seat.node, stamp.attempt, since=stamp.time, together=pods)
    if not (seat.volumes.steps or seat.steps):
        return promise
    return replace(
        promise,
        ready=False,
        volumes=seat.volumes.steps,
        patience=_volume_patience(seat.profile) if seat.volumes.steps else 0.0,
        calls=_calls(seat),
        call_patience=seat.profile.called.longest + CALL_SLACK if seat.steps else 0.0,
    )


def _calls(seat: Seated) -> tuple[str, ...]:
    """The calls that are due first, `PreBind/<plugin>`: for people who ask what the room is held for."""
    return tuple(f"{step.point}/{step.plugin}" for step in seat.steps)


def _volume_patience(profile: Profile) -> float:
    """Seconds that a bind waits for the pod's volumes: of the profile's VolumeBinding."""
    waits = (plugin.bind_timeout_seconds for plugin in profile.plugins if isinstance(plugin, VolumeBinding))
    return float(next(waits, 0.0))


@dataclass(frozen=True, slots=True)
class Transaction:
    """Commits of one moment as they are sent: what they share is in it once."""

    commits: Sequence[Commit]
    conditions: list[Condition]
    writes: list[Operation]
    reads: list[Operation]
    """When a compare fails: what the commits read, each key once."""

    def answers(self, answer: TxnResult) -> list[TxnResult]:
        """What the answer of the transaction, which failed, says of each of the commits."""
        read = dict(zip((each.key for each in self.reads), answer.reads, strict=True))
        return [
            TxnResult(answer.succeeded, answer.revision, tuple(read[key] for key in commit.reads))
            for commit in self.commits
        ]


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


# --- sent -----------------------------------------------------------------------------------------


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
        for commit in commits:
            self._cache.assume_sent(commit.pod, commit.node.name)
        try:
            answer = await self._store.txn(transaction.conditions, transaction.writes, transaction.reads)
        except RequestTooLarge:
            self._unsend(commits)
            raise
        except Unavailable as error:
            if error.maybe_applied:
                self._doubt(commits)
            else:
                self._forget(commits)
            raise
        except asyncio.CancelledError:
            self._doubt(commits)
            raise
        except Exception:  # a refusal: nothing was written
            self._forget(commits)
            raise
        if not answer.succeeded:
            self._unsend(commits)
        return answer

    def happened(self, commits: Sequence[Commit], revision: int) -> None:
        """Our own commit: the versions it compared advance together with the pods behind them, never without."""
        for commit in commits:
            if commit.holds:  # the record that the watch shows takes the place of the assumption
                self._cache.settle(commit.pod.identity, revision)
        if self._cache.progress.revision >= revision:  # the watch has shown both already, and what came then
            return
        for commit in commits:
            if not commit.holds:
                self._cache.assume_sent(commit.pod, commit.node.name)
                self._cache.confirm(commit.pod.identity, revision)
            self._cache.bindings.set(commit.node.name, revision)
        across_nodes.advance(ruled(commits), self._cache, revision)

    def _unsend(self, commits: Sequence[Commit]) -> None:
        for commit in commits:
            self._cache.assume(commit.pod, commit.node.name)

    def _forget(self, commits: Sequence[Commit]) -> None:
        for commit in commits:
            self._cache.forget(commit.pod.identity)

    # --- in doubt -----------------------------------------------------------------------------

    def _doubt(self, commits: Sequence[Commit]) -> None:
        """Their transaction may or may not have happened."""
        new = [commit.pod.identity for commit in commits if commit.pod.identity not in self._in_doubt]
        if not new:
            return
        task = asyncio.create_task(self._settle(new), name=f"settle {new[0].namespace}/{new[0].name} of {len(new)}")
        self._in_doubt.update(dict.fromkeys(new, task))
        task.add_done_callback(lambda _: [self._in_doubt.pop(identity, None) for identity in new])

    async def _settle(self, identities: Sequence[PodIdentity]) -> None:
        """Any linearizable read will do: what matters is the revision that it is answered at."""
        first = identities[0]
        for attempt in range(10**9):
            try:
                read = await self._store.get(keys.pod(first.namespace, first.name))
            except StoreError:
                await asyncio.sleep(PAUSES[min(attempt, len(PAUSES) - 1)])
            else:
                for identity in identities:
                    self._cache.settle(identity, read.revision)
                return

    async def close(self) -> None:
        """Stop asking: the process ends, and its assumptions with it."""
        tasks = list(dict.fromkeys(self._in_doubt.values()))
        for task in tasks:
            task.cancel()
        for task in tasks:
            with contextlib.suppress(asyncio.CancelledError):
                await task


def ruled(commits: Sequence[Commit]) -> list[tuple[Pod, across_nodes.AcrossNodes]]:
    """The pods that are bound by these commits, and their rules across nodes."""
    return [(commit.pod, commit.seat.rules) for commit in commits if not commit.holds]
