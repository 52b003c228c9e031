"""Pods that decisions count on a node before etcd shows them there: assumed by this worker, or nominated.

::

    assume ──► unsent ──mark_sent──► sent ──settle(revision)──► settling ; confirmed when it surely happened
                 │ expire, forget     │ forget                    │ the watch reached the revision
                 ▼                    ▼                           ▼
               ended ◄────── the watch shows the pod bound, finished or deleted

An assumption whose transaction was sent is never ended by time: only what etcd says ends it, else a paused worker
would give away room that its own bind has taken. A nomination lasts until the pod is placed. `OverlayChanges` has what
records of decisions contain of all this.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from hashlib import blake2b
from types import MappingProxyType

from wharfinger.framework.snapshot import NO_NOMINATIONS, Nominations
from wharfinger.objects.model.pod import Pod, PodIdentity, PodKey

MOST_TOLD = 100
"""Decisions whose record is waited for: a refusal has no transaction that would show it."""


@dataclass(slots=True)
class OverlayChanges:
    """What became of assumptions since the last decision, other than what decisions and etcd say.

    By pod, where it is assumed now, None = nowhere. A worker's decisions in order and etcd's events show what it had
    assumed but for this: the pods of other workers' decisions that it bound, and placements that were given up. The
    record of each decision contains them, so that the overlay of the next one can be rebuilt. Mostly there are none.

    A decision whose result never came to be recorded (its activity timed out, or its worker was too slow) is lost. What
    it placed is recorded once its assumption ends and no transaction of it went out.
    """

    number: int = 0
    """Of the decision that is being made."""
    _now: dict[PodIdentity, str | None] = field(default_factory=dict)
    _decided: dict[PodIdentity, tuple[str, int]] = field(default_factory=dict)
    """Node and decision of those that are assumed and whose transaction has not gone out."""
    _lost: dict[PodIdentity, tuple[str, int]] = field(default_factory=dict)
    _told: dict[int, dict[PodIdentity, tuple[str, int]]] = field(default_factory=dict)
    """What of these a decision told, until it is known to be recorded: it may be lost itself."""

    def note(self, identity: PodIdentity, node: str | None) -> None:
        """The pod is assumed there, without a decision; or nowhere, without an event."""
        self._now[identity] = node
        self._over(identity)

    def decided(self, identity: PodIdentity, node: str) -> None:
        """The decision that is being made has placed the pod."""
        self.explained(identity)
        self._decided[identity] = node, self.number

    def sent(self, identity: PodIdentity) -> None:
        """The pod's transaction goes out, so the decision is recorded."""
        decided = self._decided.pop(identity, None)
        if decided is not None and self._told:
            self._told.pop(decided[1], None)

    def explained(self, identity: PodIdentity) -> None:
        """A decision, or etcd, says what became of it."""
        self._now.pop(identity, None)
        self._over(identity)

    def _over(self, identity: PodIdentity) -> None:
        decided = self._decided.pop(identity, None)
        if decided is not None:
            self._lost[identity] = decided
            if self._told:
                self._lost |= self._told.pop(decided[1], {})

    def take(self, fits: Callable[[str], bool]) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """What is to be told, the oldest first, as far as it fits: begun and ended; the rest is told next time."""
        begun: list[str] = []
        ended: list[str] = []
        while self._now:
            identity, node = next(iter(self._now.items()))
            told = f"{identity.namespace}/{identity.name} {identity.create_revision}" + (f" {node}" if node else "")
            if not fits(told):
                break
            del self._now[identity]
            (begun if node else ended).append(told)
        return tuple(begun), tuple(ended)

    def take_lost(self, fits: Callable[[str], bool]) -> tuple[str, ...]:
        """What decisions placed that are perhaps not recorded, as far as it fits; the next decision tells it."""
        lost: list[str] = []
        told_now: dict[PodIdentity, tuple[str, int]] = {}
        while self._lost:
            identity, (node, number) = next(iter(self._lost.items()))
            told = f"{identity.namespace}/{identity.name} {identity.create_revision} {node} {number}"
            if not fits(told):
                break
            told_now[identity] = self._lost.pop(identity)
            lost.append(told)
        if told_now:
            self._told[self.number + 1] = told_now
            while len(self._told) > MOST_TOLD:
                del self._told[next(iter(self._told))]
        return tuple(lost)

    def report_again(self, number: int, begun: Iterable[str], ended: Iterable[str], lost: Iterable[str]) -> None:
        """Tell these again, before the others: the decision that told them is not recorded. What came later counts."""
        self._told.pop(number, None)
        told = {identity: node or None for identity, node in map(parsed_change, (*begun, *ended))}
        known = self._now.keys() | self._decided.keys()
        again = {identity: node for identity, node in told.items() if identity not in known}
        self._now = again | self._now
        self._lost = {identity: (node, number) for identity, node, number in map(parsed_lost, lost)} | self._lost


def parsed_change(text: str) -> tuple[PodIdentity, str]:
    """A change that was told: pod, and node (empty = nowhere). ValueError for what is none."""
    pod, create_revision, *node = text.split(" ")
    namespace, _, name = pod.partition("/")
    return PodIdentity(namespace, name, int(create_revision)), "".join(node)


def parsed_lost(text: str) -> tuple[PodIdentity, str, int]:
    """A lost placement that was told: pod, node, and number of the decision. ValueError for what is none."""
    pod, create_revision, node, number = text.split(" ")
    namespace, _, name = pod.partition("/")
    return PodIdentity(namespace, name, int(create_revision)), node, int(number)


# --- the digest: how many pods a worker assumes, and a sum over them ------------------------------
#
# A record of a decision names the digest where it has no room for the pods. A reader that has their names can check
# them, and see from the difference of two sums which pod is too many or missing. It is the same in every release.

BITS = 64
DIGEST_MASK = (1 << BITS) - 1


def digest_term(pod: str, create_revision: int, node: str) -> int:
    """What one assumed pod (`namespace/name`) adds to the sum."""
    said = f"{pod}\n{create_revision}\n{node}".encode("utf-8", "surrogatepass")
    return int.from_bytes(blake2b(said, digest_size=BITS // 8).digest(), "big")


def digest_text(count: int, total: int) -> str:
    """As it is recorded: `<how many>-<sum modulo 2^64, in hex>`."""
    return f"{count}-{total & DIGEST_MASK:016x}"


def parsed_digest(text: str) -> tuple[int, int]:
    """Count and sum of a recorded digest. ValueError for what is none."""
    count, _, total = text.partition("-")
    return int(count), int(total, 16)


def digest_of(pods: Iterable[tuple[str, int, str]]) -> str:
    """The digest of these pods: name, create revision and node of each."""
    terms = [digest_term(*one) for one in pods]
    return digest_text(len(terms), sum(terms))


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
    term: int
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
                count, total = count + 1, total + _digest_term(identity, node)
        held = self._held.get(but) if but is not None else None
        return digest_text(count, total) if held is None else digest_text(count - 1, total - held.term)

    def put(self, pod: Pod, node: str, since: float) -> None:
        """Assume the pod on the node, for expiry since then; an earlier assumption of the same pod is replaced."""
        identity = pod.identity
        self.drop(identity)
        adds = _digest_term(identity, node)
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
        self.total -= held.term
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


def _digest_term(identity: PodIdentity, node: str) -> int:
    return digest_term(f"{identity.namespace}/{identity.name}", identity.create_revision, node)


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
