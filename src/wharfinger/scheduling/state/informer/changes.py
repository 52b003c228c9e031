"""What a revision of etcd changed, as the informer passes it to the loops.

One `Changes` holds all changes of one revision (or all differences that a list found), with the state
before and after; it is handed on synchronously, in one block, so no loop sees half a revision.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field, fields
from typing import NamedTuple, Protocol

from wharfinger.objects.model.node import Node
from wharfinger.objects.model.pod import Pod, PodKey
from wharfinger.objects.model.pod_records import Refusal
from wharfinger.objects.model.storage import StorageObject
from wharfinger.objects.model.surroundings import NOTHING_AROUND, Surroundings
from wharfinger.process.records import InstanceRecord


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


class StorageChange(NamedTuple):
    """An object about storage before and after; None = there was, or is, none."""

    old: StorageObject | None
    new: StorageObject | None


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


class ConfigChange(NamedTuple):
    """A value of the dynamic configuration after the change."""

    kind: str
    target: str
    value: bytes | None
    """As stored; None = gone."""
    revision: int
    """At which it was written: setting it again, even to the same, is a change."""


@dataclass(slots=True)
class Changes:
    """Everything that changed at one revision."""

    revision: int
    listed: bool = False
    """Found by a list: what lies between the last known state and `revision`, in no order."""
    pods: list[PodChange] = field(default_factory=list)
    nodes: list[NodeChange] = field(default_factory=list)
    storage: list[StorageChange] = field(default_factory=list)
    records: list[RecordChange] = field(default_factory=list)
    instances: list[InstanceChange] = field(default_factory=list)
    config: list[ConfigChange] = field(default_factory=list)
    tenants: bool = False
    """Whether the set of tenants changed."""
    grant: bool = False
    """Whether this worker's own grant changed; what it is now, the view says."""
    released: list[PodChange] = field(default_factory=list)
    """Pods whose room is not held any more, because they are bound, or for another reason: each as if it had been bound
    there, and as it was seen last.
    """
    promises: list[PodKey] = field(default_factory=list)
    """Pods whose promise came, changed or went; what it is now, the cache says."""
    holds: list[PodKey] = field(default_factory=list)
    """Pods for which a room came to be held, or is not held any more; what it is now, the cache says."""
    kubernetes: bool = False
    """Whether the right to bind, or how far the importer has come, changed."""
    reclassified: list[PodChange] = field(default_factory=list)
    """Pods of which only the class changed: they have another priority or preemption policy by it, or have or lack one.
    """
    surroundings: Surroundings = NOTHING_AROUND
    """What there is beside nodes and pods after the changes."""

    def kinds(self) -> set[str]:
        """Of what kinds they are: the names of the fields that are not empty; a list may hold all kinds."""
        return {kind for kind in KINDS if self.listed or getattr(self, kind)}


KINDS = tuple(one.name for one in fields(Changes) if one.name not in ("revision", "listed", "surroundings"))
"""The fields of `Changes` that subscribers follow."""


class Subscriber(Protocol):
    """A subscriber to the cluster's state."""

    @property
    def follows(self) -> Collection[str] | None:
        """The kinds of changes for which `apply` is called, beside lists: fields of `Changes`; None = all."""

    def apply(self, changes: Changes) -> None:
        """Take in one revision's changes; synchronous, quick, and never raises for what they hold."""
