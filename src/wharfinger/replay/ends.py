"""How two ends of a pod compare: in the record and in a rerun, or in two reruns. Pure, and quick to import."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping
from typing import Any

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


def chosen(node: str, total: int | None) -> str:
    """The node, with its score where there is one; empty for none."""
    return f"{node} ({total})" if node and total is not None else node


def chosen_or_refused(said: Mapping[str, Any]) -> str:
    """Where a decision put its pod. `said`: as a report has it."""
    refused = f"refused, nominated to {said['nominatedNode']}" if said["nominatedNode"] else "refused"
    return chosen(said["node"], said["total"]) or refused


class PodEnds:
    """Where each pod of a rerun ended, in some 12 bytes beside its name; beyond a number of pods nothing is kept."""

    def __init__(self, most: int) -> None:
        """`most`: the pods of which it is kept."""
        self._most = most
        self._count = 0
        self._names = bytearray()
        """Each with a line's end behind it, which no name has."""
        self._created = array("q")
        self._places = array("i")
        self._nodes = {"": -1}
        self._evicted = array("i")

    def __iter__(self) -> Iterator[tuple[str, int, str]]:
        """Pod, create revision and node of each; empty = none."""
        nodes = {place: node for node, place in self._nodes.items()}
        names = self._names.decode().split("\n")
        for name, created, place in zip(names, self._created, self._places, strict=False):
            yield name, created, nodes[place]

    def add(self, pod: str, create_revision: int, node: str, *, evicted: bool) -> None:
        """The next pod; `evicted`: whether it was a victim."""
        self._count += 1
        if self._count == self._most + 1:
            for kept in (self._names, self._created, self._places, self._evicted):
                del kept[:]
        if self._count > self._most:
            return
        if evicted:
            self._evicted.append(len(self._places))
        self._names += pod.encode() + b"\n"
        self._created.append(create_revision)
        self._places.append(self._nodes.setdefault(node, len(self._nodes) - 1))

    def to_plain(self) -> dict[str, Any] | None:
        """As a kept report has it; None where there were too many."""
        if self._count > self._most:
            return None
        pods = [list(one) for one in zip(self._names.decode().split("\n"), self._created, self._places, strict=False)]
        return {"nodes": list(self._nodes)[1:], "pods": pods, "evicted": list(self._evicted)}
