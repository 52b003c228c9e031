"""The saga of a preemption as it travels: victims, and what became of them."""

from __future__ import annotations

from typing import Literal

from wharfinger.contracts.contract import Contract


class Victim(Contract):
    """A pod that has to leave its node for a more important one."""

    pod: str
    """Namespace and name."""
    create_revision: int
    uid: str


class EvictInput(Contract):
    """Input of `evict`: who has to leave, for whom."""

    namespace: str
    name: str
    uid: str
    create_revision: int
    node: str
    """Where the victims are."""
    victims: tuple[Victim, ...]
    record_revision: int
    """Mod revision of the preemptor's attempt record: nobody is evicted once it is another, or gone."""
    workflow_id: str
    run_id: str


class Evicted(Contract):
    """What became of the victims."""

    kind: Literal["evicted"] = "evicted"
    evicted: tuple[str, ...] = ()
    """Marked or deleted by this try of the activity: `namespace/name`."""
    notes: tuple[str, ...] = ()
    """Victims that this try did not touch, and why; for the explanation."""
    leaving: float = 0.0
    """Seconds until those that are still there are overdue; 0 = none is there."""
    revision: int = 0
    """Of etcd, at or past the last eviction: the next attempt must have seen it."""
    complete: bool = True
    """False: a victim, or the preemptor, is not what it was; place again."""
