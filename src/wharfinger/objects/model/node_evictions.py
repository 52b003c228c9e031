"""Which pods have to leave a node with a NoExecute taint and when, and how many nodes may be cleared at a time.

The rules for taints are those of Kubernetes' taint eviction controller (`pkg/controller/tainteviction`). A pod that
does not tolerate every NoExecute taint leaves at once. For each taint the first matching toleration counts, and of
those the shortest `tolerationSeconds`; a toleration without them lasts without end. Unlike there, the seconds count
from the taint's `timeAdded`, so that a restart of the scheduler prolongs nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from wharfinger.objects.model.selectors import Taint, Toleration

NO_EXECUTE = "NoExecute"
ONE_IN = 10
"""One node in ten may be cleared within the window, and at least one."""


def no_execute(taints: Iterable[Taint]) -> tuple[Taint, ...]:
    """The taints that evict."""
    return tuple(taint for taint in taints if taint.effect == NO_EXECUTE)


def leaves(tolerations: Iterable[Toleration], taints: Iterable[Taint]) -> bool:
    """Whether a pod with these tolerations has to leave a node with these NoExecute taints, sooner or later."""
    return leaves_at(tolerations, dict.fromkeys(taints, 0.0)) is not None


def leaves_at(
    tolerations: Iterable[Toleration], taints: Mapping[Taint, float], *, bound_at: float = 0.0
) -> float | None:
    """When the pod has to leave, in seconds since 1970: 0 = at once, None = never.

    Args:
        tolerations: The pod's, in its order.
        taints: The node's NoExecute taints, and since when it has each.
        bound_at: When the pod was bound; nothing is counted before.
    """
    ends: list[float] = []
    for taint, since in taints.items():
        matching = next((one for one in tolerations if one.tolerates(taint)), None)
        if matching is None:
            return 0.0
        if matching.seconds is not None:
            ends.append(max(since, bound_at) + matching.seconds if matching.seconds > 0 else 0.0)
    return min(ends, default=None)


@dataclass(frozen=True, slots=True)
class Admission:
    """Whether a node may be cleared now."""

    admitted: Mapping[str, float]
    """The nodes that were admitted within the window, with the time of each; the node itself where it may."""
    wait: float = 0.0
    """Seconds until the node may ask again; 0 = it may be cleared."""
    allowed: int = 1
    """Nodes that may be cleared within the window."""


def recently(admitted: Mapping[str, float], *, now: float, window: float) -> dict[str, float]:
    """The nodes that were admitted within the window; of clocks that differ much, no entry blocks without end."""
    return {name: at for name, at in admitted.items() if abs(now - at) < window}


def admission(recent: Mapping[str, float], node: str, *, now: float, window: float, known: int) -> Admission:
    """Admit at most a tenth of the nodes within the window.

    Args:
        recent: The nodes that were admitted within the window, with the time of each.
        node: The node to be cleared; admitted within the window already, it may go on.
        now: Seconds since 1970.
        window: Seconds.
        known: The number of nodes: present, lost, and cleared within the window.
    """
    allowed = max(1, known // ONE_IN)
    if node in recent:
        return Admission(recent, allowed=allowed)
    if len(recent) < allowed:
        return Admission({**recent, node: now}, allowed=allowed)
    return Admission(recent, wait=max(1.0, min(recent.values()) + window - now), allowed=allowed)
