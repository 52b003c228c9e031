"""The contract of `evict`: the victims of a preemption, and what became of them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Literal

from wharfinger.process.contract import Contract

IMMEDIATE = "immediate"
"""Evicted pods are deleted at once."""
GRACEFUL = "graceful"
"""Evicted pods are marked as terminating, and end within their grace period."""


class Victim(Contract):
    """A pod that has to leave its node for a more important one."""

    pod: str
    """Namespace and name."""
    create_revision: int
    uid: str


LISTED = 8
"""Victims that payloads list by name; the record in etcd has the names of more, and the history their digest."""


def digest(victims: Iterable[Victim]) -> str:
    """SHA-256 of the victims in any order."""
    lines = sorted(f"{victim.pod}@{victim.create_revision}\n" for victim in victims)
    return hashlib.sha256("".join(lines).encode()).hexdigest()


class EvictInput(Contract):
    """Input of `evict`: the victims, and the preemptor."""

    namespace: str
    name: str
    uid: str
    create_revision: int
    node: str
    """Where the victims are."""
    victims: tuple[Victim, ...]
    """All of them, or the first ones."""
    in_record: bool = False
    """Whether only the attempt record lists all of them."""
    record_revision: int
    """Mod revision of the preemptor's attempt record: no pod is evicted once the record has changed or is gone."""
    workflow_id: str
    run_id: str


class Evicted(Contract):
    """What became of the victims."""

    kind: Literal["evicted"] = "evicted"
    evicted: tuple[str, ...] = ()
    """Marked or deleted by this try of the activity: `namespace/name`; the first ones of many."""
    notes: tuple[str, ...] = ()
    """Victims that this try did not touch, and why; for the explanation."""
    leaving: float = 0.0
    """Seconds until those that are still there are overdue; 0 = none is left."""
    revision: int = 0
    """Of etcd, at or past the last eviction: the next attempt must have seen it."""
    complete: bool = True
    """False: a victim or the preemptor has changed; place again."""
