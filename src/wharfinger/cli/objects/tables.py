"""Stored objects as tables: name and age of any kind, and what a kind's own table consists of."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from wharfinger.cli.kinds import part
from wharfinger.cli.output import Columns
from wharfinger.objects.documents.kinds import Kind
from wharfinger.objects.documents.times import duration, seconds_since
from wharfinger.process.stored_objects import Stored

_UNKNOWN = "<unknown>"


@dataclass(frozen=True, slots=True)
class KindTable:
    """The table of a kind."""

    headings: Sequence[str]
    row: Callable[[Stored, datetime], Sequence[str]]
    """The cells below the headings, at a time."""

    def columns(self) -> Columns:
        """Columns without rows yet."""
        return Columns(*self.headings)

    def rows(self, found: Iterable[Stored], now: datetime) -> list[Sequence[str]]:
        """A row for each object."""
        return [self.row(entry, now) for entry in found]


def table_of(kind: Kind) -> KindTable:
    """The table of a kind: its wing's, or one of names and ages."""
    table: KindTable = part(kind, "table") or (_IN_NAMESPACES if kind.namespaced else _CLUSTER_WIDE)
    return table


def created(stored: Stored) -> str:
    """`metadata.creationTimestamp`, empty when it cannot be told."""
    metadata = stored.mapping().get("metadata")
    stamp = metadata.get("creationTimestamp") if isinstance(metadata, dict) else None
    return stamp if isinstance(stamp, str) else ""


def age(stamp: str, now: datetime) -> str:
    """How long ago an RFC 3339 time was: `42s`, `7m30s`, `5h`, `12d`."""
    seconds = seconds_since(stamp, now)
    return _UNKNOWN if seconds is None else duration(seconds)


def _named(stored: Stored, now: datetime) -> tuple[str, ...]:
    return stored.name, age(created(stored), now)


def _named_in_namespace(stored: Stored, now: datetime) -> tuple[str, ...]:
    return stored.namespace, *_named(stored, now)


_CLUSTER_WIDE = KindTable(("NAME", "AGE"), _named)
_IN_NAMESPACES = KindTable(("NAMESPACE", "NAME", "AGE"), _named_in_namespace)
