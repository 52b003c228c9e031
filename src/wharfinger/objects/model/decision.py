"""What a decision says: which node, why, and why not the others.

A decision is a value; it can be computed again from the same snapshot, pod and profile. It keeps the
summary; verdicts of every plugin on every node are computed from the snapshot when asked for.
The FailedScheduling text is written as kube-scheduler's FitError writes it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from wharfinger.objects.model.pod import PodKey


@dataclass(frozen=True, slots=True)
class Ranked:
    """A feasible node with its total and the weighted normalised score of each score plugin."""

    node: str
    total: int
    plugins: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Decision:
    """The answer for one pod on one snapshot.

    `message`, `refusals` and `rejectors` follow kube-scheduler: filters are looked at in profile
    order and a node counts under the plugin that refused it first.
    """

    pod: PodKey
    revision: int
    """Of the snapshot."""
    node: str | None
    nodes: int
    """How many nodes the snapshot holds."""
    feasible: tuple[str, ...] = ()
    """Names of the nodes that passed every filter, sorted."""
    ranking: tuple[Ranked, ...] = ()
    """Best first; empty when scoring was skipped (at most one feasible node)."""
    refusals: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """Plugin (that refused first) -> reason -> number of nodes, in profile order."""
    rejectors: tuple[str, ...] = ()
    """Plugins that refused first on some node, or in PreFilter, sorted; empty when placed."""
    message: str = ""
    """The FailedScheduling text, empty when placed."""
    nominated_node: str | None = None
    """Where preemption would make room; None when placed, or when it would not help."""
    victims: tuple[PodKey, ...] = ()
    """The pods preemption would evict there, sorted."""

    @property
    def placed(self) -> bool:
        """Whether a node was found."""
        return self.node is not None

    @property
    def scores(self) -> Mapping[str, Mapping[str, int]]:
        """Node -> plugin -> weighted normalised score; empty when scoring was skipped."""
        return {ranked.node: ranked.plugins for ranked in self.ranking}

    @property
    def totals(self) -> Mapping[str, int]:
        """Node -> total; empty when scoring was skipped."""
        return {ranked.node: ranked.total for ranked in self.ranking}


NO_NODES = "no nodes available to schedule pods"


def refused_before_filtering(nodes: int, reason: str) -> str:
    """A PreFilter plugin refused the pod altogether."""
    return f"0/{nodes} nodes are available: {reason}."


def refused_by_nodes(nodes: int, reasons: Mapping[str, int]) -> str:
    """No node passed; `reasons`: how many nodes gave each. Pairs are sorted as texts, so 10 comes before 9."""
    text = f"0/{nodes} nodes are available:"
    pairs = sorted(f"{count} {reason}" for reason, count in reasons.items())
    return f"{text} {', '.join(pairs)}." if pairs else text


def with_post_filter(message: str, additions: Sequence[str]) -> str:
    """What PostFilter plugins had to add."""
    return " ".join([message, *additions])
