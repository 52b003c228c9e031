"""What happened a second and how long pods waited: of the whole cluster, and of a bounded number of namespaces.

The rates of a namespace begin when something is counted there, if there is room. They are given up for another
namespace once this one has no pods and all that was counted there is too old to be shown.

Neighbours: `page.read_model` counts into these, `page.follow.rings` are what is counted in.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from wharfinger.page.follow.rings import SLOT_SECONDS, SLOTS, CountRing, DurationRing

MOST_NAMESPACES = 200
"""Namespaces with rates of their own."""


@dataclass(slots=True)
class Rates:
    """What happened, and how long it took."""

    created: CountRing
    bound: CountRing
    refused: CountRing
    latency: DurationRing
    """From a pod's appearance in the watch, without its gates, to its bind in the watch."""
    counted: float = float("-inf")
    """When anything was counted last, monotonic seconds."""

    @classmethod
    def since(cls, began: float) -> Rates:
        """Counted from then on, monotonic seconds."""
        return cls(CountRing(began), CountRing(began), CountRing(began), DurationRing())


class NamespaceRates:
    """The rates of all pods, and of those of as many namespaces as there is room for."""

    def __init__(self, began: float, has_pods: Callable[[str], bool], *, most: int = MOST_NAMESPACES) -> None:
        """`began`: monotonic seconds; `has_pods`: whether a namespace has any; `most`: namespaces."""
        self.whole = Rates.since(began)
        """Of all namespaces."""
        self.by_namespace: dict[str, Rates] = {}
        self.most = most
        self._has_pods = has_pods
        self._known_from = began
        """Since when the rates of a namespace that has none yet are known."""
        self._look_again_at = 0.0

    def of(self, namespace: str) -> Rates | None:
        """Of one namespace, or of all; None where none are kept."""
        return self.by_namespace.get(namespace) if namespace else self.whole

    def note(self, namespace: str) -> str | None:
        """Why no rates of a namespace are kept; None where they are, or will be when something happens."""
        if not namespace or namespace in self.by_namespace or len(self.by_namespace) < self.most:
            return None
        return f"rates are kept of {self.most} namespaces, and there are more"

    def count(self, what: str, namespace: str, now: float) -> None:
        """Something happened there at `now`; `what`: `created`, `bound` or `refused`."""
        for rates in self.counting(namespace, now):
            ring: CountRing = getattr(rates, what)
            ring.add(now)

    def counting(self, namespace: str, now: float) -> Iterable[Rates]:
        """In which rates something is counted that happens in a namespace at `now`."""
        own = self.by_namespace.get(namespace)
        if own is None and (len(self.by_namespace) < self.most or self._give_back(now)):
            own = self.by_namespace[namespace] = Rates.since(self._known_from)
        if own is not None:
            own.counted = now
        return (self.whole, own) if own is not None else (self.whole,)

    def _give_back(self, now: float) -> bool:
        """Give up the rates of namespaces without pods, once all of them are of too long ago; whether any were."""
        if now < self._look_again_at:
            return False
        self._look_again_at = now + SLOT_SECONDS
        gone = [
            name
            for name, rates in self.by_namespace.items()
            if now - rates.counted > SLOTS * SLOT_SECONDS and not self._has_pods(name)
        ]
        for name in gone:
            del self.by_namespace[name]
        if gone:  # what happened before in a namespace that takes such a place was counted nowhere
            self._known_from = now
        return bool(gone)
