"""A topology domain: the nodes with one value of each of some labels, to which a search may be confined.

Plugins still see the whole cluster, because pods elsewhere may matter to them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from wharfinger.framework.columns import BoolColumn
from wharfinger.framework.snapshot import Snapshot
from wharfinger.framework.status import Status, unresolvable
from wharfinger.objects.model.gang import GANG_SCHEDULING

Terms = tuple[tuple[str, str], ...]
"""Labels that the nodes of a domain have: keys and values."""
_ESCAPES = (("%", "%25"), (",", "%2C"))
"""No value of Kubernetes has these characters; in other formats it may."""


@dataclass(frozen=True, slots=True)
class Domain:
    """The nodes that may be chosen."""

    terms: Terms
    rows: BoolColumn
    """By row of the snapshot; of every snapshot that has the same nodes."""

    def __str__(self) -> str:
        """As records and messages have it; `terms_of` reads it back."""
        return ",".join([f"{key}={_escaped(value)}" for key, value in self.terms])

    @property
    def outside(self) -> Status:
        """The refusal of all other nodes."""
        return unresolvable(f"node(s) outside the gang's domain {self}").by(GANG_SCHEDULING)


def domain(snapshot: Snapshot, terms: Iterable[tuple[str, str]]) -> Domain:
    """That domain; without any row when no node has all the values."""
    terms = tuple(terms)
    rows = np.ones(len(snapshot), dtype=np.bool_)
    for key, value in terms:
        column = snapshot.label(key)
        rows &= column.codes == column.code(value)  # the code of a value that no node has is negative
    return Domain(terms, rows)


def terms_of(text: str) -> Terms:
    """The labels of a domain by its text; empty for none."""
    parts = [part.partition("=") for part in text.split(",") if part]
    return tuple([(key, _plain(value)) for key, _, value in parts])


def _escaped(value: str) -> str:
    for plain, escape in _ESCAPES:
        value = value.replace(plain, escape)
    return value


def _plain(value: str) -> str:
    for plain, escape in reversed(_ESCAPES):
        value = value.replace(escape, plain)
    return value
