"""The contract of fleets: what the actors (`contracts.actors`) ask of agents, and what they are told.

::

    control queue (any agent's control part)    plan  grant_instance  await_ready  drain_instance  record_fleet
    a host's queue (that host's agent)          create_instance  kill_instance

Outcomes are values; trouble is an `ApplicationError` of a `FleetFailure`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from datetime import timedelta
from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field
from temporalio import activity
from temporalio.common import RetryPolicy

from wharfinger.fleet.model.fleet import Role
from wharfinger.fleet.model.rollout import WHATEVER, Busy, Counted, Memory, Plan, Writes
from wharfinger.process.contract import Contract


class FleetFailure(StrEnum):
    """Types of errors of a fleet's activities."""

    UNAVAILABLE = "Unavailable"
    """etcd did not answer; retried."""
    FENCED = "Fenced"
    """Another actor took over: this one stops. Never retried."""
    NO_ROOM = "NoRoom"
    """The host is full, or starts enough at the moment; retried."""
    UNKNOWN_VERSION = "UnknownVersion"
    """The host has no executable of that name; not retried there."""
    SECRET_MISSING = "SecretMissing"  # noqa: S105 - a name
    """The host has no such secret; not retried."""
    CANNOT_START = "CannotStart"
    """The executable cannot be run; not retried."""
    FLEET_ERROR = "FleetError"
    """Something that should not happen; retried."""


# --- plan -----------------------------------------------------------------------------------------


class PlanInput(Contract):
    """Look at etcd, and say what to do."""

    tenant: str
    role: Role
    generation: int = 0
    """Of the open rollout: the asker's own, or the one that Fleet started; 0 = none."""
    epoch: int = 0
    """0 = the caller does not act yet (Fleet while a rollout is open, or the first look)."""
    memory: Memory
    busy: tuple[Busy, ...] = ()


class Planned(Contract):
    """The plan, and what the asker needs beside it."""

    plan: Plan
    read_at: int
    """etcd's revision."""
    attempt: int = 1
    """Which try this is the answer of; more than one: etcd was away, or an agent died."""
    rollout_running: bool = False
    """Whether the workflow of the open rollout runs; for Fleet."""
    rollout_failed: bool = False
    """Whether that workflow failed, although failures are retried; for Fleet."""
    open_rollout: int = 0
    """For a Fleet without a rollout in memory: generation of the one that acts, and runs; 0 = there is none."""
    actor_epoch: int = 0
    """As in etcd."""
    desired: int = 0
    """mod revision of the fleet's object; 0 = there is none."""
    min_ready: float = 10.0
    drain_timeout: float = 60.0
    kill_timeout: float = 10.0
    host_silent: float = 30.0
    """Seconds for which a host's queue may be silent."""
    identity: int = 0
    """Create revision of the fleet's object, for grants."""
    summary: str = ""
    """One line for the Temporal UI."""
    phase: str = ""
    """What is done and waited for, also when the status is unchanged and not written again."""


# --- the steps ------------------------------------------------------------------------------------


class Incarnation(Contract):
    """Which life of which slot."""

    tenant: str
    slot: int
    incarnation: int


class GrantInput(Contract):
    """Let the next incarnation of a slot live: slot and grant, one transaction."""

    tenant: str
    epoch: int
    slot: int
    revision: int
    host: str
    identity: int
    settle: float = 0.0
    assign: bool = False
    after: int = -1
    """The slot's last incarnation when that was decided; -1 = any."""


class Granted(Contract):
    """Done (also when an earlier try of the same activity did it)."""

    kind: Literal["granted"] = "granted"
    incarnation: int


class Moved(Contract):
    """What was compared is no longer so: plan again."""

    kind: Literal["moved"] = "moved"
    what: str = ""


GrantOutcome = Annotated[Granted | Moved, Field(discriminator="kind")]


class CreateInput(Incarnation):
    """Start the process of a granted incarnation, or find that it runs. On the host's queue."""


class Created(Contract):
    """The process runs."""

    kind: Literal["created"] = "created"
    pid: int
    adopted: bool = False
    """It ran already."""


class NotGranted(Contract):
    """There is no grant with want = run for this host (any more)."""

    kind: Literal["not-granted"] = "not-granted"


class Ended(Contract):
    """It ended already, or at once; the exit record has how."""

    kind: Literal["ended"] = "ended"
    detail: str = ""


CreateOutcome = Annotated[Created | NotGranted | Ended, Field(discriminator="kind")]


class AwaitInput(Incarnation):
    """Wait until the instance has been ready for `min_ready` seconds of unbroken watch."""

    min_ready: float


class Ready(Contract):
    """It has been."""

    kind: Literal["ready"] = "ready"
    mod_revision: int


ReadyOutcome = Annotated[Ready | NotGranted | Ended, Field(discriminator="kind")]


class AwaitProgress(Contract):
    """What `await_ready` keeps in its heartbeats."""

    mod_revision: int = 0
    """Of the ready record that is counted; 0 = not ready."""
    seconds: float = 0.0
    """For how long it has not changed."""
    waiting_for: str = ""


class DrainInput(Incarnation):
    """Ask an incarnation to drain, and wait for its end."""

    epoch: int
    grant_mod_revision: int
    counted: tuple[Counted, ...] = ()
    assign: int = 0
    decisions: int = -1
    """Number of the last `Decisions` that were known when this was planned: it is off where others were made since, an
    abort perhaps. -1 = whatever they are."""
    timeout: float
    """Seconds to wait for the end after the transaction."""


class Drained(Contract):
    """It ended by itself."""

    kind: Literal["drained"] = "drained"


class StillThere(Contract):
    """The time is over and it has not ended: kill it."""

    kind: Literal["still-there"] = "still-there"


DrainOutcome = Annotated[Drained | StillThere | Moved, Field(discriminator="kind")]


class KillInput(Incarnation):
    """Make sure that the process of an incarnation is gone. On the host's queue."""

    timeout: float
    """Seconds until SIGTERM becomes SIGKILL; 0 = SIGKILL at once."""


class Killed(Contract):
    """There is no such process any more, and none will come: a create that runs late finds no grant, or its exit."""

    found: bool
    """Whether there was one."""


class RecordInput(Contract):
    """Write what was decided, each part comparing the actor's epoch."""

    tenant: str
    role: Role
    generation: int = 0
    epoch: int
    """The actor's; with `take`, the one before, as `plan` saw it (0 = no actor acted yet)."""
    take: bool = False
    """Become the actor first: add 1 to that epoch. Fails as fenced where another has done so meanwhile."""
    desired: int = 0
    """mod revision of the fleet's object that the writes were planned for: a target is not taken from another one."""
    writes: Writes = Writes()
    revoke: tuple[tuple[int, int], ...] = ()
    """(slot, incarnation) whose grant is deleted: the fence."""
    registered: int = WHATEVER
    """mod revision of the registration of all that is revoked, as it was when that was decided; 0 = there was none."""
    lost: str = ""
    """The host for whose loss it is revoked: it must not be back. Empty = for another reason."""


class RecordedFleet(Contract):
    """Written; but for a target (and all with it) where the object changed meanwhile, or an end that is off."""

    epoch: int
    target: int = 0
    """As it is in etcd now."""
    ended: bool = False
    """Whether nothing of the fleet is left."""
    moved: bool = False
    """Nothing was revoked: the registration of what was to be had changed, or its host is back; it may serve by now."""


# --- who does it ----------------------------------------------------------------------------------

SECOND = timedelta(seconds=1)
CONTROL_RETRY = RetryPolicy(
    initial_interval=SECOND,
    maximum_interval=timedelta(seconds=10),
    non_retryable_error_types=[FleetFailure.FENCED],
)
"""Of plan, grant, await, drain and record: etcd comes back."""
CREATE_RETRY = RetryPolicy(
    initial_interval=timedelta(seconds=2),
    maximum_interval=timedelta(seconds=60),
    non_retryable_error_types=[
        FleetFailure.UNKNOWN_VERSION,
        FleetFailure.SECRET_MISSING,
        FleetFailure.CANNOT_START,
    ],
)
KILL_RETRY = RetryPolicy(initial_interval=2 * SECOND, maximum_interval=timedelta(seconds=60))
PLAN_TIMEOUT = timedelta(seconds=15)
WRITE_TIMEOUT = timedelta(seconds=15)
HEARTBEAT = timedelta(seconds=10)


class FleetControl(ABC):
    """What agents' control parts do."""

    @activity.defn(name="plan")
    @abstractmethod
    async def plan(self, request: PlanInput) -> Planned:
        """Read everything of a fleet in one linearizable read and plan; writes nothing."""

    @activity.defn(name="grant_instance")
    @abstractmethod
    async def grant_instance(self, request: GrantInput) -> GrantOutcome:
        """Count a slot's incarnations up and put the grant, in one transaction."""

    @activity.defn(name="await_ready")
    @abstractmethod
    async def await_ready(self, request: AwaitInput) -> ReadyOutcome:
        """Wait by the watch; heartbeats carry `AwaitProgress`."""

    @activity.defn(name="drain_instance")
    @abstractmethod
    async def drain_instance(self, request: DrainInput) -> DrainOutcome:
        """Set the grant to drain while what is counted on is unchanged, then wait for the exit record."""

    @activity.defn(name="record_fleet")
    @abstractmethod
    async def record_fleet(self, request: RecordInput) -> RecordedFleet:
        """Write revisions, outcomes, tenants, status; clear what ended; revoke grants."""


class FleetHost(ABC):
    """What a host's agent does."""

    @activity.defn(name="create_instance")
    @abstractmethod
    async def create_instance(self, request: CreateInput) -> CreateOutcome:
        """Read the grant, resolve version and secrets, fork. Idempotent: a running process is adopted."""

    @activity.defn(name="kill_instance")
    @abstractmethod
    async def kill_instance(self, request: KillInput) -> Killed:
        """End a process through its pidfd, its lock checked. Idempotent."""
