"""The FailedScheduling text, word for word as kube-scheduler's FitError writes it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

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


def not_satisfied(plugins: Sequence[str]) -> str:
    """Reason of a node that is not among those that PreFilter plugins named."""
    return f"node(s) didn't satisfy plugin(s) [{' '.join(sorted(plugins))}]"


def contradiction(plugins: Sequence[str]) -> str:
    """Reason when the nodes that PreFilter plugins named have none in common."""
    names = sorted(plugins)
    if len(names) == 1:
        return f"node(s) didn't satisfy plugin {names[0]}"
    return f"node(s) didn't satisfy plugin(s) [{' '.join(names)}] simultaneously"
