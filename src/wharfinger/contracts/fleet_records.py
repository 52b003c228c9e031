"""What lies in etcd of a fleet beside its object and its instances, as JSON. Keys: `registry.keys`.

::

    revisions/<tenant>/<n>                RevisionRecord   the actor, create-only
    outcomes/<tenant>/<n>                 OutcomeRecord    the actor, create-only
    actors/<tenant>                       ActorRecord      the actor, by compare-and-set
    fleetstatus/<tenant>                  FleetStatusRecord  the actor
    slots/<tenant>/<slot>                 SlotRecord       the actor
    grants/<tenant>/<slot>/<incarnation>  GrantRecord      the actor, create-only; then want: run -> drain
    exits/<tenant>/<slot>/<incarnation>   ExitRecord       the host's agent, create-only, while the grant is there
    hosts/<host>                          HostRecord       the agent, under its lease, create-only
    cordons/<host>                        CordonRecord     the CLI
    losthosts/<host>                      LostHostRecord   the CLI; an agent of that name removes it

Every write of the actor compares the mod revision of `actors/<tenant>`, which only actors write: an actor
first adds 1 to its epoch (the very first begins with etcd's revision), and fences the one before off.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from wharfinger.contracts.records import Record
from wharfinger.model.fleet import Decisions, OutcomeName, Want
from wharfinger.model.rollout import Status


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


class ActorRecord(Record):
    """The workflow that acts on the fleet's slots."""

    epoch: int
    workflow_id: str
    run_id: str
    target: int = 0
    """The revision that is wanted."""
    decisions: Decisions | None = None
    """About that target, unless they name another one; None = an earlier release wrote it, or nothing is decided."""


class SlotRecord(Record):
    """A slot's counters."""

    incarnation: int
    revision: int
    crashes: int = 0


class GrantRecord(Record):
    """An incarnation may live."""

    revision: int
    host: str
    want: Want = "run"
    identity: int = 0
    """Create revision of the fleet's object."""
    settle: float = 0.0
    """Seconds that it stays `starting` after it synced, because its predecessor crashed."""
    token: str = ""
    """Which activity put it: a repeated one recognises its own."""


class ExitRecord(Record):
    """How an incarnation ended."""

    how: Literal["drained", "code", "signal", "probe", "never-started"]
    detail: str = ""
    lived: float = 0.0
    planned: bool = False
    host_restarted: bool = False
    """Whether its host was started anew meanwhile."""
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
    time: str = ""


class CordonRecord(Record):
    """Keep off a host; `drain`: leave it too."""

    action: Literal["cordon", "drain"]
    who: str = ""
    why: str = ""
    time: str = ""


class LostHostRecord(Record):
    """A host without an agent is gone for good: what it had need not wait for it."""

    who: str = ""
    why: str = ""
    time: str = ""


class FleetStatusRecord(Record):
    """The projection for readers, and when it was written."""

    status: Status
    digest: str = ""
    """SHA-256 of `status` as written."""
    time: str = ""
    """RFC 3339, UTC: seconds that a step has waited count from here."""
    condition_times: dict[str, str] = Field(default_factory=dict)
    """Condition type -> when it last changed its status."""
