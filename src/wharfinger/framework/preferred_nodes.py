"""Which nodes a worker chooses before others that are hardly better.

Workers that share a cluster and decide at the same time for alike pods would choose the same few best nodes, and all
but one would lose the transaction. So each has preferred nodes, by rendezvous hashing over the ready workers, and takes
one of these first among nodes that are hardly worse than the best. A worker that is wrong about the others only
contends as before.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from wharfinger.framework.columns import BoolColumn, NodeNames, RowNumbers, name_hash
from wharfinger.framework.interface import RowSelection
from wharfinger.framework.snapshot import Snapshot

_STEPS = ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB))
"""Shifts and factors of splitmix64's finalizer (Steele, Lea and Flood 2014): every bit of the sum depends on all."""


@dataclass(frozen=True, slots=True)
class Preference:
    """Nodes to be chosen before others that are not much better."""

    preferred: BoolColumn
    """By row of the snapshot."""
    margin: int
    """Points of the total by which they may be worse than the best."""
    rows: RowNumbers = field(init=False)
    """The preferred ones."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "rows", self.preferred.nonzero()[0])

    def positions(self, rows: RowSelection) -> RowNumbers:
        """The preferred ones among these rows by their position, feasible or not."""
        return self.rows if isinstance(rows, slice) else self.preferred[rows].nonzero()[0]


class PreferredNodes:
    """The nodes of one worker."""

    def __init__(self, margin: int = 0) -> None:
        """`margin`: points of the total by which one's own node may be worse than the best; 0 = all nodes are equal."""
        self.margin = margin
        self.members: tuple[str, ...] = ()
        """The workers that share the nodes, sorted."""
        self.me: str | None = None
        """This worker among them; None while it serves nothing."""
        self.digest = members_digest(self.members)
        """Of the members."""
        self._known: tuple[NodeNames, Preference] | None = None

    def share(self, members: Iterable[str], me: str | None) -> None:
        """Take over who shares the nodes."""
        self.members, self.me = tuple(sorted(members)), me
        self.digest = members_digest(self.members)
        self._known = None

    def preference(self, snapshot: Snapshot) -> Preference | None:
        """This worker's nodes among those of the snapshot; None when no other worker shares them, or it serves nothing.

        Made anew when the nodes or the members changed, not for every decision.
        """
        if not self.margin or self.me not in self.members or len(self.members) == 1:
            return None
        names = snapshot.node_columns.names
        if self._known is None or self._known[0] is not names:
            self._known = names, Preference(owned(names, self.members, self.me), self.margin)
        return self._known[1]


def members_digest(members: Iterable[str]) -> str:
    """What decisions say of members who are too many to be named: 16 hex digits, the same in every release."""
    return hashlib.sha256("\n".join(sorted(members)).encode()).hexdigest()[:16]


def owned(names: NodeNames, members: Iterable[str], me: str) -> BoolColumn:
    """By row, the nodes that rendezvous hashing over the members gives to `me`: the same in every release.

    Decisions are recorded with the members, not with the nodes.
    """
    mine = _weights(names, me)
    owner: BoolColumn = np.ones(len(mine), dtype=np.bool_)
    for member in members:
        if member != me:
            weights = _weights(names, member)
            # Equal weights go by name: two owners would contend for the node, and without one no worker prefers it.
            owner &= (mine > weights) | ((mine == weights) & (me < member))
    return owner


def _weights(names: NodeNames, member: str) -> NDArray[np.uint64]:
    mixed = names.hashes ^ np.uint64(name_hash(member))
    for shift, factor in _STEPS:
        mixed = (mixed ^ (mixed >> np.uint64(shift))) * np.uint64(factor)
    weights: NDArray[np.uint64] = mixed ^ (mixed >> np.uint64(31))
    return weights
