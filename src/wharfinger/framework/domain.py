"""A topology domain: the nodes with one value of a label, when a decision may choose among these alone.

Plugins still see the whole cluster, for pods elsewhere may matter to them; only what is feasible is confined.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from wharfinger.framework.columns import BoolColumn
from wharfinger.framework.snapshot import Snapshot
from wharfinger.framework.status import Status, unresolvable
from wharfinger.model.gang import GANG_SCHEDULING


@dataclass(frozen=True, slots=True)
class Domain:
    """The nodes that may be chosen."""

    key: str
    value: str
    rows: BoolColumn
    """By row of the snapshot; of every snapshot that has the same nodes."""

    def __str__(self) -> str:
        return f"{self.key}={self.value}"

    @property
    def outside(self) -> Status:
        """The refusal of all other nodes."""
        return unresolvable(f"node(s) outside the gang's domain {self}").by(GANG_SCHEDULING)


def domain(snapshot: Snapshot, key: str, value: str) -> Domain:
    """That domain; without any row when no node has the value."""
    column = snapshot.label(key)
    code = column.code(value)
    return Domain(key, value, column.codes == code if code >= 0 else np.zeros(len(snapshot), dtype=np.bool_))
