"""What wharfinger itself keeps in etcd, as JSON: attempt records, instances, the installation, configuration.

`fleet.contracts.fleet_records` has the records of fleets. Keys of the dynamic configuration (`etcd.keys`)::

    config/<kind>/<target>                      the value itself, written by the CLI by compare-and-set
    confighistory/<kind>/<target>/<number>      ConfigChangeRecord, create-only in that transaction; no worker lists it
    configstatus/<tenant>/<slot>/<incarnation>  ConfigStatusRecord, the worker's, under the lease of its registration

A worker's registration does not contain the configuration in force. Readiness and drains go by the mod revision of the
registration, and a new value must not begin them again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from wharfinger.objects.model.formats import ClusterFormat
from wharfinger.objects.model.pod_records import HeldPlace


class Record(BaseModel):
    """Base of our records: frozen, and fields of a newer release are kept out of the way.

    What is wrong with a value is told without the value: it may hold contents of objects.
    """

    model_config = ConfigDict(frozen=True, extra="ignore", hide_input_in_errors=True)

    def to_bytes(self) -> bytes:
        """As stored in etcd: compact JSON."""
        return self.model_dump_json(exclude_none=True).encode()

    @classmethod
    def from_bytes(cls, value: bytes | None) -> Self | None:
        """The record that is stored; None without a value, and for what is none, such as what a stranger wrote."""
        try:
            return cls.model_validate_json(value) if value is not None else None
        except ValueError:
            return None


MOST_ATTEMPTS = 10**9
"""Attempts that are counted: any client may write a record."""


class AttemptRecord(Record):
    """The last refused or failed attempt of a waiting pod; deleted by its bind."""

    attempt: Annotated[int, Field(ge=0), AfterValidator(lambda number: min(number, MOST_ATTEMPTS))]
    """Number of the attempt among those of the pod, from 1. The next chain counts on from it."""
    reason: Literal["Unschedulable", "SchedulerError", "Contended"] = "Unschedulable"
    plugins: tuple[str, ...] = ()
    """Plugins that refused first on some node, sorted: their hints decide what wakes the pod."""
    revision: int = 0
    """The snapshot's revision: events up to it are known to the refusal."""
    message: str = ""
    nominated_node: str = ""
    """Where the pod will fit once its victims are gone; empty = it preempts no pod."""
    victims: tuple[str, ...] = ()
    """The pods that are evicted for it: `namespace/name`."""
    victim_revisions: tuple[int, ...] | None = None
    """The create revision of each, where the history does not hold them: they are too many."""
    workflow_id: str = ""
    """The chain that is parked for the pod: its own, or its gang's; of a cohort's record, the cohort."""
    run_id: str = ""
    parked: bool = True
    """Whether that workflow waits to be woken; a cohort does not."""
    urgent: bool = False
    """Whether an attempt of the pod's own may help at once, although nothing has happened since."""
    decided_by: str = ""
    """`<workflow id>@<run id>` of the cohort that decided, where `workflow_id` names a parked chain instead."""
    create_revision: int = 0
    """The pod's: a record of an earlier life of the name counts for nothing."""
    time: str = ""
    """RFC 3339, UTC."""


class BoundByRecord(Record):
    """Which attempt bound a pod, where pods do not carry it themselves; deleted once the pod is gone."""

    attempt: str
    """`<workflow id>@<run id>`."""
    node: str
    create_revision: int
    """The pod's: a record of an earlier life of the name counts for nothing."""
    time: str = ""
    """RFC 3339, UTC."""


class HoldRecord(Record):
    """The room of a pod while asynchronous plugins are called for it, where etcd itself is the store.

    Put by the transaction that holds it; deleted by the pod's bind or refusal, or once the pod is gone.
    """

    node: str
    create_revision: int
    """The pod's: a record of an earlier life of the name counts for nothing."""
    attempt: str
    """`<workflow id>@<run id>`."""
    time: str = ""
    """RFC 3339, UTC."""
    calls: tuple[str, ...] = ()
    """The calls that were due when the room was taken, in this order: `PreBind/<plugin>`; none in older records."""

    def place(self, revision: int) -> HeldPlace:
        """What it holds. `revision`: the mod revision under which it is stored."""
        return HeldPlace(self.node, self.create_revision, self.attempt, revision, self.calls, self.time)


def binder_of(value: bytes | None, create_revision: int, node: str) -> str:
    """`<workflow id>@<run id>` of what bound a pod to that node, by its stored record; empty when another writer did.

    `create_revision`: the pod's.
    """
    found = BoundByRecord.from_bytes(value)
    return found.attempt if found and (found.create_revision, found.node) == (create_revision, node) else ""


def last_node(value: bytes, create_revision: int) -> str:
    """The node to which wharfinger bound a pod, by its stored record; empty when it is about another pod.

    `create_revision`: the pod's.
    """
    found = BoundByRecord.from_bytes(value)
    return found.node if found and found.create_revision == create_revision else ""


class InstanceRecord(Record):
    """A worker's registration under its lease."""

    state: Literal["starting", "ready", "draining", "withdrawn"]
    host: str
    pid: int
    health: str = ""
    """Base URL of the health endpoints, empty when they are off."""
    revision: str = ""
    """Of the fleet's template; empty for workers started by hand."""
    dispatches: bool = True
    """Whether it takes part in sharing pods out; False for workers that run only what others start."""
    waiting_for: str = ""
    """What `/readyz` misses while it is not ready: one line."""
    scheduler_names: tuple[str, ...] | None = None
    """The values of `spec.schedulerName` that it serves, sorted; None = an earlier release wrote it: unknown."""


class NodeBudgetRecord(Record):
    """Which nodes were cleared of their pods within the last `--lost-after`; by compare-and-set."""

    admitted: dict[str, float] = Field(default_factory=dict)
    """Node -> when, seconds since 1970. Older entries are dropped with the next write."""


class InstallationRecord(Record):
    """Written once, by the first worker that starts: who owns this etcd."""

    cluster: str
    temporal_namespace: str
    format: ClusterFormat = ClusterFormat.KUBERNETES
    """Of its pods and nodes; a record without it means Kubernetes' objects."""
    upstream: str = ""
    """The uid of namespace `kube-system` in the Kubernetes API whose pods are scheduled; empty = the cluster's objects
    are in etcd itself.
    """
    id: str = ""
    """Of this etcd's contents alone; empty where no Kubernetes API is the store."""


class SoftwareRecord(Record):
    """What decides in a worker, create-only under its digest: decisions name the digest."""

    build: str
    """Our version."""
    packages: dict[str, str] = Field(default_factory=dict)
    """Version by distribution, of the plugins that its profiles have from elsewhere."""

    @property
    def digest(self) -> str:
        """8 hex digits of the SHA-256 of the record as stored."""
        return hashlib.sha256(self.to_bytes()).hexdigest()[:8]


def served_names(instances: Iterable[InstanceRecord]) -> frozenset[str] | None:
    """The values of `spec.schedulerName` that these instances serve, whatever their state.

    None = unknown, because an earlier release registered one of them.
    """
    names: set[str] = set()
    for record in instances:
        if record.scheduler_names is None:
            return None
        names.update(record.scheduler_names)
    return frozenset(names)


class ConfigChangeRecord(Record):
    """One change of a value."""

    value: dict[str, Any] | None = None
    """The new value; None = it was removed."""
    digest: str = ""
    """SHA-256 over the value's canonical JSON; empty without one."""
    who: str = ""
    why: str = ""
    time: str = ""
    """RFC 3339, UTC."""


class ConfigStatusRecord(Record):
    """The dynamic configuration of one worker; without the record it is unknown."""

    in_force: dict[str, str] = Field(default_factory=dict)
    """Kind -> SHA-256 of the value; absent = as the worker was started."""
    problems: dict[str, str] = Field(default_factory=dict)
    """Values that were refused or undone: kind -> one line."""
    own: tuple[str, ...] = ()
    """Kinds that the worker's own options set: the target `default` counts for the others only."""
    profiles: dict[str, str] = Field(default_factory=dict)
    """Scheduler name -> digest of the configuration that it decides by, as `profiles/<digest>` has it; empty = an
    earlier release wrote it: unknown."""
