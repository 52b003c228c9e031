"""What a revision of etcd changed, as the informer tells it to the loops behind it.

One `Changes` holds all changes of one revision (or all differences that a list found), with the state
before and after; it is handed on synchronously, in one block, so nobody sees half a revision.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from wharfinger.contracts.records import InstanceRecord
from wharfinger.model.node import Node
from wharfinger.model.pod import Pod, PodKey
from wharfinger.model.refusal import Refusal
from wharfinger.model.surroundings import NOTHING_AROUND, Surroundings


class PodChange(NamedTuple):
    """A pod before and after; None = there was, or is, none."""

    key: PodKey
    old: Pod | None
    new: Pod | None


class NodeChange(NamedTuple):
    """A node before and after."""

    name: str
    old: Node | None
    new: Node | None


class RecordChange(NamedTuple):
    """A pod's attempt record before and after."""

    key: PodKey
    old: Refusal | None
    new: Refusal | None


class InstanceChange(NamedTuple):
    """A worker's registration after the change; None = gone."""

    tenant: str
    slot: str
    incarnation: int
    new: InstanceRecord | None


@dataclass(slots=True)
class Changes:
    """Everything that changed at one revision."""

    revision: int
    listed: bool = False
    """Found by a list: what lies between the last known state and `revision`, in no order."""
    pods: list[PodChange] = field(default_factory=list)
    nodes: list[NodeChange] = field(default_factory=list)
    records: list[RecordChange] = field(default_factory=list)
    instances: list[InstanceChange] = field(default_factory=list)
    tenants: bool = False
    """Whether the set of tenants changed."""
    surroundings: Surroundings = NOTHING_AROUND
    """Namespaces, pod collections and budgets after the changes."""


class Subscriber(Protocol):
    """Somebody who follows the cluster's state."""

    def apply(self, changes: Changes) -> None:
        """Take in one revision's changes; synchronous, quick, and never raises for what they hold."""
