"""How two ends of a pod compare: in the record and in a rerun, or in two reruns. Pure, and quick to import."""

from __future__ import annotations

VERDICTS = ("same", "elsewhere", "refused", "evicted", "placed", "otherwise", "unreplayable")
GRAVEST = ("refused", "evicted", "placed", "elsewhere", "otherwise", "unreplayable")
"""What differs, in the order in which people want to see it."""


def verdict_of(recorded: str, again: str, *, evicted: bool = False) -> str:
    """In one word. Each the node's name; empty = none. `evicted`: the pod was a victim the second time only."""
    if evicted:
        return "evicted" if recorded else "otherwise"
    if recorded and again:
        return "same" if recorded == again else "elsewhere"
    if recorded or again:
        return "placed" if again else "refused"
    return "otherwise"
