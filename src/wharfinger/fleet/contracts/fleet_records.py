"""What lies in etcd of a fleet beside its object and its instances, as JSON. Keys: `etcd.keys`.

::

    revisions/<tenant>/<n>                RevisionRecord   the actor, create-only
    outcomes/<tenant>/<n>                 OutcomeRecord    the actor, create-only
    actors/<tenant>                       model Actor      the actor, by compare-and-set
    fleetstatus/<tenant>                  FleetStatusRecord  the actor
    slots/<tenant>/<slot>                 model Slot       the actor
    grants/<tenant>/<slot>/<incarnation>  model Grant      the actor, create-only; then want: run -> drain
    exits/<tenant>/<slot>/<incarnation>   model Exit       the host's agent, create-only, while the grant is there
    hosts/<host>                          HostRecord       the agent, under its lease, create-only
    cordons/<host>                        model Cordon     the CLI
    losthosts/<host>                      LostHostRecord   the CLI; an agent of that name removes it

Every write of the actor compares the mod revision of `actors/<tenant>`, which only actors write: an actor
first adds 1 to its epoch (the very first begins with etcd's revision), and fences the one before off.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any, TypeVar

from pydantic import Field, TypeAdapter

from wharfinger.fleet.model.fleet import IN_KEY, Actor, Cordon, Exit, Grant, OutcomeName, Slot
from wharfinger.fleet.model.rollout import RolloutStatus
from wharfinger.process.records import Record

Fact = Actor | Slot | Grant | Exit | Cordon
R = TypeVar("R", bound=Record | Fact)

_FACTS = (Actor, Slot, Grant, Exit, Cordon)
_ADAPTERS: Mapping[type, TypeAdapter[Any]] = {kind: TypeAdapter(kind) for kind in _FACTS}
_IN_KEY: Mapping[type, set[str]] = {
    kind: {one.name for one in fields(kind) if one.metadata == IN_KEY} for kind in _FACTS
}


def stored(record: Record | Fact) -> bytes:
    """As stored in etcd: compact JSON, without what the key says."""
    if isinstance(record, Record):
        return record.to_bytes()
    kind = type(record)
    return _ADAPTERS[kind].dump_json(record, exclude=_IN_KEY[kind], exclude_none=True)


def mapping(record: Fact) -> dict[str, Any]:
    """The stored value for JSON, with all its fields."""
    kind = type(record)
    found: dict[str, Any] = _ADAPTERS[kind].dump_python(record, mode="json", exclude=_IN_KEY[kind])
    return found


def read_value(kind: type[R], value: bytes, **from_key: Any) -> R:
    """The record in a value; `from_key`: what the key says. Raises `ValueError`."""
    if issubclass(kind, Record):
        return kind.model_validate_json(value)
    record = _ADAPTERS[kind].validate_json(value)
    found: R = replace(record, **from_key) if from_key else record
    return found


class RevisionRecord(Record):
    """One template, as it was written. Its name among revisions is its number."""

    template: dict[str, Any]
    """The object's `spec.template`, as written: each reader completes it anew."""
    digest: str = ""
    """SHA-256 over the canonical JSON of the template as written: only a name."""
    generation: int = 0
    """mod revision of the object that it was taken from."""
    who: str = ""
    """From the object's annotation `wharfinger.dev/changed-by`, where the CLI writes it."""
    why: str = ""
    """From its annotation `wharfinger.dev/change-cause`."""
    time: str = ""
    """RFC 3339, UTC."""


class OutcomeRecord(Record):
    """How the rollout of a revision ended: written once."""

    outcome: OutcomeName
    why: str = ""
    generation: int = 0
    """Of the rollout."""
    time: str = ""


class HostRecord(Record):
    """A live agent."""

    boot_id: str
    pid: int
    installs: tuple[str, ...] = ()
    capacity: int = Field(0, ge=0)
    allow_env: tuple[str, ...] | None = None
    """Variables that it passes to instances; None = unknown, because an earlier release wrote it."""
    version: str = ""
    """The agent's release."""
    control: bool = True
    """Whether it has a control part."""
    lease_ttl: float | None = None
    """Seconds of a lease of its instances; None = unknown, as for `allow_env`."""
    host_lost: float | None = None
    """Seconds without an agent after which its control part gives a host up; None = unknown, as for `allow_env`."""
    cpus: int = 0
    """CPUs that the agent and its instances may use; 0 = unknown, as for `allow_env`."""
    time: str = ""


class LostHostRecord(Record):
    """A host without an agent is gone for good: what it had need not wait for it."""

    who: str = ""
    why: str = ""
    time: str = ""


class FleetStatusRecord(Record):
    """The projection for readers, and when it was written."""

    status: RolloutStatus
    digest: str = ""
    """SHA-256 of `status` as written."""
    time: str = ""
    """RFC 3339, UTC: seconds that a step has waited count from here."""
    condition_times: dict[str, str] = Field(default_factory=dict)
    """Condition type -> when it last changed its status."""
