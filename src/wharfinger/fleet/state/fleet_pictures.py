"""What etcd has of a fleet, for the planner and for commands: every record of one revision, and their sum. Pure.

Neighbours: `fleet_reading` makes the pictures; `fleets` is what the planner takes of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from wharfinger.etcd.store import KeyValue
from wharfinger.fleet.contracts.fleet_records import (
    FleetStatusRecord,
    HostRecord,
    LostHostRecord,
    OutcomeRecord,
    RevisionRecord,
)
from wharfinger.fleet.model.fleet import Actor, Cordon, Exit, Grant, Slot
from wharfinger.fleet.spec.fleet_fields import CHANGE_CAUSE, CHANGED_BY
from wharfinger.objects.documents.fields import part
from wharfinger.process.records import ConfigStatusRecord, InstanceRecord


class SlotIncarnation(NamedTuple):
    """One incarnation of a slot."""

    slot: int
    incarnation: int


class LastChange(NamedTuple):
    """Who wrote the object last, and why; empty where it does not say. When, no object says."""

    who: str
    why: str

    def __str__(self) -> str:
        by = f"by {self.who}" if self.who else ""
        return ": ".join(part for part in (by, self.why) if part)


@dataclass(slots=True)
class Picture:
    """Everything that etcd has of one fleet."""

    tenant: str
    read_at: int = 0
    """The store's revision."""
    kv: KeyValue | None = None
    """The object; None = there is none."""
    written: dict[str, Any] = field(default_factory=dict)
    """The object as it was written; empty when it is none."""
    wrong_object: str = ""
    """Why what was written is no object; empty when it is one."""
    status: FleetStatusRecord | None = None
    actor: Actor | None = None
    revisions: dict[int, RevisionRecord] = field(default_factory=dict)
    outcomes: dict[int, OutcomeRecord] = field(default_factory=dict)
    slots: dict[int, Slot] = field(default_factory=dict)
    grants: dict[SlotIncarnation, Grant] = field(default_factory=dict)
    instances: dict[SlotIncarnation, InstanceRecord] = field(default_factory=dict)
    exits: dict[SlotIncarnation, Exit] = field(default_factory=dict)
    configs: dict[SlotIncarnation, ConfigStatusRecord] = field(default_factory=dict)
    by_hand: dict[str, InstanceRecord] = field(default_factory=dict)
    """Workers without a slot's number: no fleet manages them."""
    tenant_present: bool = False
    """Whether the tenant has workers of its own, as the record says that pods are told apart by."""
    mod_revisions: dict[str, int] = field(default_factory=dict)
    """Of the records above, by key."""
    unreadable: list[str] = field(default_factory=list)
    """Keys, with the reason."""
    unreadable_by_hand: list[str] = field(default_factory=list)
    """The same of workers started by hand, which concern no plan."""
    blind: bool = False
    """Whether any of these says what may live."""

    @property
    def exists(self) -> bool:
        """Whether anything of a fleet is there; workers started by hand are none."""
        return bool(self.kv or self.status or self.actor or self.slots or self.grants or self.revisions)

    @property
    def generation(self) -> int:
        """The object's mod revision; 0 without one."""
        return self.kv.mod_revision if self.kv is not None else 0

    @property
    def observed(self) -> bool:
        """Whether the status speaks of the object as it is now."""
        return self.status is not None and self.status.status.observed_generation == self.generation

    @property
    def deleting(self) -> bool:
        """Whether the fleet is asked to end, or what is left of it has no object any more."""
        return self.kv is None or bool(part(self.written, "metadata").get("deletionTimestamp"))

    @property
    def spec(self) -> Mapping[str, Any]:
        """The object's spec as written; empty when it is no mapping."""
        return part(self.written, "spec")

    @property
    def template(self) -> Mapping[str, Any]:
        """The spec's template as written."""
        return part(self.spec, "template")

    @property
    def replicas(self) -> int:
        """How many instances are wanted: by the object, else by the last valid spec."""
        if self.deleting:
            return 0
        written = self.spec.get("replicas", 1 if self.written else None)
        if isinstance(written, int) and not isinstance(written, bool) and written >= 0:
            return written
        return self.status.status.replicas if self.status is not None else 0

    @property
    def target(self) -> int:
        """The number of the revision that is wanted; 0 = none was taken yet."""
        if self.actor is not None and self.actor.target:
            return self.actor.target
        return self.status.status.target if self.status is not None else 0

    @property
    def wanted(self) -> set[int]:
        """The wanted revision, and former ones with the same template: what runs one of them is up to date.

        A template that is wanted again after its rollout was left unfinished gets a new number.
        """
        record = self.revisions.get(self.target)
        same = (number for number, one in self.revisions.items() if record and one.template == record.template)
        return {*same, self.target} - {0}

    @property
    def last_change(self) -> LastChange | None:
        """Who wrote the object last; None where it does not say, or says what the wanted revision says itself.

        A revision keeps who wrote it first: only the object shows who went back to it, or scaled.
        """
        annotations = part(self.written, "metadata", "annotations")
        who, why = (str(annotations.get(name) or "") for name in (CHANGED_BY, CHANGE_CAUSE))
        record = self.revisions.get(self.target)
        if not (who or why) or (record is not None and (who, why) == (record.who, record.why)):
            return None
        return LastChange(who, why)

    @property
    def last_completed(self) -> int:
        """The revision that a rollout brought to every slot last; 0 = none.

        Not the highest number that was completed: going back to an earlier revision makes none.
        """
        done = [number for number, ended in self.outcomes.items() if ended.outcome == "completed"]
        said = self.status.status.completed if self.status is not None else 0
        return said if said in done else max(done, default=0)

    @property
    def lives(self) -> list[SlotIncarnation]:
        """Incarnations that may live, that live, or whose exit record is still there; in order."""
        return sorted({*self.grants, *self.instances, *self.exits})

    def problems(self, life: SlotIncarnation) -> dict[str, str]:
        """What an incarnation says is wrong with its dynamic configuration, by kind."""
        return self.configs[life].problems if life in self.configs else {}

    def ready(self, life: SlotIncarnation) -> bool:
        """Whether an incarnation serves: its own record says ready, its grant says run, and it has not ended."""
        record, grant = self.instances.get(life), self.grants.get(life)
        identity = self.kv.create_revision if self.kv is not None else 0
        return (
            record is not None
            and record.state == "ready"
            and grant is not None
            and grant.want == "run"
            and grant.identity in (0, identity)
            and life not in self.exits
        )

    @property
    def ready_slots(self) -> dict[int, int]:
        """Slot -> revision of its ready instance, the newest incarnation's where there are two."""
        return {life.slot: self.grants[life].revision for life in sorted(self.grants) if self.ready(life)}


@dataclass(slots=True)
class Estate:
    """Fleets and hosts, of one revision."""

    read_at: int
    fleets: dict[str, Picture]
    hosts: dict[str, HostRecord] = field(default_factory=dict)
    cordons: dict[str, Cordon] = field(default_factory=dict)
    lost: dict[str, LostHostRecord] = field(default_factory=dict)
    """Hosts that are gone for good, as a person says; one that has an agent is back."""
    granted: dict[str, int] = field(default_factory=dict)
    """How many incarnations, of all fleets that were read, may live on each host."""
    unreadable: list[str] = field(default_factory=list)

    def fleet(self, tenant: str) -> Picture:
        """The picture of a tenant's fleet; an empty one when etcd has nothing of it."""
        return self.fleets.get(tenant) or Picture(tenant, self.read_at)

    @property
    def host_names(self) -> list[str]:
        """Hosts with a live agent, those of which people said something, and those that grants name; in order."""
        return sorted({*self.hosts, *self.cordons, *self.lost, *self.granted})

    @property
    def controlled(self) -> bool:
        """Whether any live agent looks after fleets at all."""
        return any(host.control for host in self.hosts.values())
