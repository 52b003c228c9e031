"""Pods that decisions count on a node before etcd shows them there: assumed by this worker, or nominated.

::

    assume ──► unsent ──mark_sent──► sent ──settle(revision)──► settling ; confirmed when it surely happened
                 │ expire, forget     │ forget                    │ the watch reached the revision
                 ▼                    ▼                           ▼
               ended ◄────── the watch shows the pod bound, finished or deleted

An assumption whose transaction was sent is never ended by time: only what etcd says ends it, else a paused worker
would give away room that its own bind has taken. A nomination lasts until the pod is placed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from types import MappingProxyType

from wharfinger.cache.overlay_changes import digest, mark
from wharfinger.framework.snapshot import NO_NOMINATIONS, Nominations
from wharfinger.model.pod import Pod, PodIdentity, PodKey


@dataclass(frozen=True, slots=True)
class Assumption:
    """One assumed pod."""

    identity: PodIdentity
    node: str
    sent: bool
    """Its transaction has gone out."""


@dataclass(slots=True)
class _Held:
    pod: Pod
    node: str
    since: float
    mark: int
    """What it adds to the digest of all."""
    sent: bool = False
    settles_at: int | None = None
    confirmed: bool = False


class Assumptions:
    """The assumed pods, by identity. Ends of assumptions are reported back, for the cache to recount."""

    def __init__(self) -> None:
        self._held: dict[PodIdentity, _Held] = {}
        self._settling: set[PodIdentity] = set()
        self._soonest = 0
        """No assumption settles before this revision."""
        self.total = 0
        """The sum of `overlay_digest` over all of them."""

    def __len__(self) -> int:
        return len(self._held)

    def __iter__(self) -> Iterator[Assumption]:
        for identity, held in self._held.items():
            yield Assumption(identity, held.node, held.sent)

    def get(self, identity: PodIdentity) -> tuple[Pod, str] | None:
        """The assumed pod and its node, None when it is not assumed."""
        held = self._held.get(identity)
        return None if held is None else (held.pod, held.node)

    def is_sent(self, identity: PodIdentity) -> bool:
        """Whether the pod is assumed and its transaction has gone out."""
        held = self._held.get(identity)
        return held is not None and held.sent

    def is_held(self, pod: Pod, node: str) -> bool:
        """Whether this state of the pod is assumed on that node, with no transaction in doubt."""
        held = self._held.get(pod.identity)
        return held is not None and held.pod is pod and held.node == node and held.settles_at is None

    def digest(self, others: Iterable[tuple[PodIdentity, str]], but: PodIdentity | None) -> str:
        """Of all, and of the others, without that one: see `overlay_digest`."""
        count, total = len(self._held), self.total
        for identity, node in others:
            if identity != but:
                count, total = count + 1, total + _mark(identity, node)
        held = self._held.get(but) if but is not None else None
        return digest(count, total) if held is None else digest(count - 1, total - held.mark)

    def put(self, pod: Pod, node: str, since: float) -> None:
        """Assume the pod on the node, for expiry since then; an earlier assumption of the same pod is replaced."""
        identity = pod.identity
        self.drop(identity)
        adds = _mark(identity, node)
        self._held[identity] = _Held(pod, node, since, adds)
        self.total += adds

    def mark_sent(self, identity: PodIdentity) -> None:
        """The transaction goes out now. Without effect when the pod is not assumed."""
        held = self._held.get(identity)
        if held is not None:
            held.sent = True

    def confirm(self, identity: PodIdentity) -> None:
        """The transaction happened; the watch will say so too."""
        held = self._held.get(identity)
        if held is not None:
            held.sent = held.confirmed = True

    def unconfirmed(self) -> tuple[PodIdentity, ...]:
        """Those whose outcome is still open."""
        return tuple(identity for identity, held in self._held.items() if not held.confirmed)

    def settle_at(self, identity: PodIdentity, revision: int) -> None:
        """The outcome of the transaction is unknown until the watch is at `revision`."""
        held = self._held.get(identity)
        if held is not None:
            held.settles_at = max(revision, held.settles_at or 0)
            self._soonest = min(self._soonest, held.settles_at) if self._settling else held.settles_at
            self._settling.add(identity)

    def drop(self, identity: PodIdentity) -> bool:
        """End it; whether there was one."""
        self._settling.discard(identity)
        held = self._held.pop(identity, None)
        if held is None:
            return False
        self.total -= held.mark
        return True

    def settled(self, revision: int) -> tuple[PodIdentity, ...]:
        """Those whose time to settle has come, now that `revision` is applied."""
        if not self._settling or revision < self._soonest:  # asked for every decision, while hundreds settle
            return ()
        ends = {identity: self._held[identity].settles_at or 0 for identity in self._settling}
        self._soonest = min((end for end in ends.values() if end > revision), default=0)
        return tuple(identity for identity, end in ends.items() if end <= revision)

    def expired(self, before: float) -> tuple[Assumption, ...]:
        """Those assumed before that time whose transaction was never sent."""
        return tuple(
            Assumption(identity, held.node, False)
            for identity, held in self._held.items()
            if not held.sent and held.settles_at is None and held.since < before
        )


def _mark(identity: PodIdentity, node: str) -> int:
    return mark(f"{identity.namespace}/{identity.name}", identity.create_revision, node)


class NominatedPods:
    """Pods for which preemption made room, by node; a pod is nominated to one node at most."""

    def __init__(self) -> None:
        self._node_of: dict[PodKey, str] = {}
        self._by_node: dict[str, dict[PodKey, Pod]] = {}
        self._frozen: Nominations | None = NO_NOMINATIONS

    def put(self, pod: Pod) -> None:
        """The pod waits with this nomination, or with none."""
        key, node = pod.key, pod.nominated_node_name
        if not node and key not in self._node_of:
            return
        self.discard(key)
        if node:
            self._node_of[key] = node
            self._by_node.setdefault(node, {})[key] = pod
            self._frozen = None

    def discard(self, key: PodKey) -> None:
        """The pod needs no nomination any more."""
        node = self._node_of.pop(key, None)
        if node is None:
            return
        pods = self._by_node[node]
        del pods[key]
        if not pods:
            del self._by_node[node]
        self._frozen = None

    def frozen(self) -> Nominations:
        """All of them, highest priority first on each node; the same object until one changes."""
        if self._frozen is None:
            self._frozen = MappingProxyType({
                node: tuple(sorted(pods.values(), key=lambda pod: (-pod.priority, pod.key)))
                for node, pods in sorted(self._by_node.items())
            })  # fmt: skip
        return self._frozen
