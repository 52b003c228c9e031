"""What became of assumptions since the last decision, other than what decisions and etcd say.

Whoever has a worker's decisions in order, and etcd's events, knows what the worker had assumed but for this: the pods
of other workers' decisions that it bound, and placements that were given up. Each decision's record tells them, so
that the overlay of the next one can be rebuilt. Mostly there is nothing to tell.

A decision whose result never came to be recorded (its activity timed out, or its worker was too slow) is lost. What it
placed is told once its assumption ends and no transaction of it went out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from hashlib import blake2b

from wharfinger.model.pod import PodIdentity

MOST_TOLD = 100
"""Decisions whose record is waited for: a refusal has no transaction that would show it."""


@dataclass(slots=True)
class OverlayChanges:
    """By pod, where it is assumed now, None = nowhere; those that can be known otherwise are not here."""

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

    def untold(self, number: int, begun: Iterable[str], ended: Iterable[str], lost: Iterable[str]) -> None:
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
MASK = (1 << BITS) - 1


def mark(pod: str, create_revision: int, node: str) -> int:
    """What one assumed pod (`namespace/name`) adds to the sum."""
    said = f"{pod}\n{create_revision}\n{node}".encode("utf-8", "surrogatepass")
    return int.from_bytes(blake2b(said, digest_size=BITS // 8).digest(), "big")


def digest(count: int, total: int) -> str:
    """As it is recorded: `<how many>-<sum modulo 2^64, in hex>`."""
    return f"{count}-{total & MASK:016x}"


def parsed(text: str) -> tuple[int, int]:
    """Count and sum of a recorded digest. ValueError for what is none."""
    count, _, total = text.partition("-")
    return int(count), int(total, 16)


def digest_of(pods: Iterable[tuple[str, int, str]]) -> str:
    """The digest of these pods: name, create revision and node of each."""
    marks = [mark(*one) for one in pods]
    return digest(len(marks), sum(marks))
