"""What became of assumptions since the last decision, other than what decisions and etcd say.

Whoever has a worker's decisions in order, and etcd's events, knows what the worker had assumed but for this: the pods
of other workers' decisions that it bound, and placements that were given up. Each decision's record tells them, so
that the overlay of the next one can be rebuilt. Mostly there is nothing to tell.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from wharfinger.model.pod import PodIdentity


@dataclass(slots=True)
class OverlayChanges:
    """By pod, where it is assumed now, None = nowhere; those that can be known otherwise are not here."""

    _now: dict[PodIdentity, str | None] = field(default_factory=dict)

    def note(self, identity: PodIdentity, node: str | None) -> None:
        """The pod is assumed there, without a decision; or nowhere, without an event."""
        self._now[identity] = node

    def explained(self, identity: PodIdentity) -> None:
        """A decision, or etcd, says what became of it."""
        self._now.pop(identity, None)

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


def parsed_change(text: str) -> tuple[PodIdentity, str]:
    """A change that was told: pod, and node (empty = nowhere). ValueError for what is none."""
    pod, create_revision, *node = text.split(" ")
    namespace, _, name = pod.partition("/")
    return PodIdentity(namespace, name, int(create_revision)), "".join(node)
