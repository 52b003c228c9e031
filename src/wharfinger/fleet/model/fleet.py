"""What a fleet of scheduler instances is, and what etcd shows of it: facts, before any decision.

::

    desired     FleetSpec (one SchedulerFleet, validated), the revisions of its template
    counters    Slot (a place with a stable number), its incarnations
    living      Grant (may live) ── the agent forks ──► Instance (registered) ──► Exit (how it ended)
    where       Host (an agent's lease), Cordon (keep off)

Numbers of slots, incarnations and revisions are integers; durations are seconds; etcd's counters are called mod
revision and create revision, never just revision. `Actor`, `Slot`, `Grant`, `Exit` and `Cordon` lie in etcd as they are
here: what is `IN_KEY` is said by their key, or is its mod revision, and all else by the value. Neighbours:
`spec.fleet` makes the desired part of what users write, `contracts.fleet_records` encodes the records, `fleet`
decides.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal

from wharfinger.objects.model.quantities import IntOrPercent

IN_KEY: Final = {"in_key": True}
"""Metadata of a field that is not part of the stored value; in a record that is to be written it does not matter."""

InstanceState = Literal["starting", "ready", "draining", "withdrawn"]
Want = Literal["run", "drain"]
OutcomeName = Literal["completed", "failed", "superseded", "aborted"]
RolloutAction = Literal["promote", "abort", "resume"]
Role = Literal["fleet", "rollout"]
HaltedBy = Literal["", "deadline", "failures"]
"""What stopped a rollout; empty = nothing, or an earlier release wrote it: the deadline."""
HOST_LOST = 60.0
"""Seen seconds without a host's record, and its queue silent, after which the host is lost; unless set otherwise."""
LONGEST_TIME = 86_400
"""Seconds that any time of a fleet may last: a day."""


@dataclass(frozen=True, slots=True)
class Secret:
    """A reference to a secret that the agent resolves; its value is nowhere but in the instance's files."""

    name: str
    version: str


@dataclass(frozen=True, slots=True)
class Template:
    """What an instance is made from. Two templates are equal when they are equal after completion."""

    version: str = ""
    """A name that agents map to an executable (`--install NAME=PATH`); empty = the agent's own."""
    configuration: dict[str, Any] = field(default_factory=dict)
    """A KubeSchedulerConfiguration, as written; empty = the agent's default."""
    environment: dict[str, str] = field(default_factory=dict)
    secrets: tuple[Secret, ...] = ()
    memory: int = 0
    """Bytes that an instance may use; 0 = no limit."""
    cpu: int = 0
    """Thousandths of a core that an instance may use; 0 = no limit."""
    restarted_at: str = ""
    """Changed by `fleet restart`, so that nothing else differs and all are replaced."""


@dataclass(frozen=True, slots=True)
class RolloutRequest:
    """What the user asks of one rollout, by name of its generation."""

    generation: int
    action: RolloutAction


@dataclass(frozen=True, slots=True)
class FleetSpec:
    """Desired state of one fleet: valid, with nothing left to default."""

    replicas: int = 1
    max_surge: IntOrPercent = IntOrPercent(1)
    max_unavailable: IntOrPercent = IntOrPercent(0)
    """Recreate is max_surge 0 with 100 %."""
    partition: int = 0
    """Slots below are not updated."""
    canary: int = 0
    """So many of the highest slots are updated first; the others wait for promote."""
    min_ready: float = 10.0
    """Seconds that an instance must have been ready without a change to count."""
    instance_deadline: float = 300.0
    """Seen seconds from a grant until the instance must be ready."""
    progress_deadline: float = 600.0
    """Seen seconds without progress after which the rollout pauses or reverts."""
    on_deadline: Literal["pause", "revert"] = "pause"
    history_limit: int = 10
    """Revisions kept beside those in use."""
    drain_timeout: float = 60.0
    kill_timeout: float = 10.0
    soak: float = 30.0
    """Seconds for which an updated slot is observed before it counts as proven."""
    failure_threshold: int = 1
    """Failed slots at which a rollout stops."""
    paused: bool = False
    request: RolloutRequest | None = None


@dataclass(frozen=True, slots=True)
class Desired:
    """The fleet's object as etcd shows it."""

    identity: int
    """Its create revision: a fleet deleted and made again is another one."""
    generation: int
    """Its mod revision."""
    spec: FleetSpec | None
    """None = cannot be read or is invalid; `problems` say why."""
    template: str = ""
    """The completed template's name: equal templates have equal names, by the running code."""
    version: str = ""
    """The template's `version`: which install a host must have."""
    deleting: bool = False
    problems: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Revision:
    """One template that was wanted at a time; never changed."""

    number: int
    template: str
    """The completed template's name, computed by the running code, not the one that it was stored under."""
    outcome: OutcomeName | None = None
    version: str = ""
    """The template's `version`: which install a host must have."""


@dataclass(frozen=True, slots=True)
class Slot:
    """The stable name of an instance's place, and its counters."""

    number: int = field(default=0, metadata=IN_KEY)
    incarnation: int = field(kw_only=True)
    """The last one given; never reused, never lowered."""
    revision: int = field(kw_only=True)
    """Assigned: what a crashed instance returns on."""
    crashes: int = field(default=0, kw_only=True)
    """In a row; decides the back-off. Reset when an instance lived for `STEADY` seconds."""
    mod_revision: int = field(default=0, kw_only=True, metadata=IN_KEY)


@dataclass(frozen=True, slots=True)
class Grant:
    """Permission for one incarnation to live; deleting it is the fence."""

    slot: int = field(default=0, metadata=IN_KEY)
    incarnation: int = field(default=0, metadata=IN_KEY)
    revision: int = field(kw_only=True)
    host: str = field(kw_only=True)
    want: Want = field(default="run", kw_only=True)
    identity: int = field(default=0, kw_only=True)
    """Create revision of the object of the fleet that gave it."""
    settle: float = field(default=0.0, kw_only=True)
    """Seconds that it stays `starting` after it synced, because its predecessor crashed."""
    token: str = field(default="", kw_only=True)
    """Which activity put it: a repeated one recognises its own."""
    mod_revision: int = field(default=0, kw_only=True, metadata=IN_KEY)


@dataclass(frozen=True, slots=True)
class Instance:
    """A worker's registration under its lease."""

    slot: int
    incarnation: int
    state: InstanceState
    host: str
    revision: int
    mod_revision: int
    waiting_for: str = ""
    """What /readyz misses while it is not ready."""


@dataclass(frozen=True, slots=True)
class Exit:
    """How an incarnation ended, as its agent saw it."""

    slot: int = field(default=0, metadata=IN_KEY)
    incarnation: int = field(default=0, metadata=IN_KEY)
    how: Literal["drained", "code", "signal", "probe", "never-started"] = field(kw_only=True)
    detail: str = field(default="", kw_only=True)
    lived: float = field(default=0.0, kw_only=True)
    """Seconds."""
    planned: bool = field(default=False, kw_only=True)
    """Whether it was asked to end: no crash then."""
    host_restarted: bool = field(default=False, kw_only=True)
    """Whether its host was started anew: the end is no fault of the template."""
    time: str = field(default="", kw_only=True)
    """RFC 3339, UTC."""


@dataclass(frozen=True, slots=True)
class Host:
    """A live agent."""

    name: str
    installs: tuple[str, ...] = ()
    """Names of versions; the agent's own (the empty name) is always there."""
    capacity: int = 0
    """Instances that it takes; 0 = no bound."""
    instances: int = 0
    """Grants on it, of all fleets."""


@dataclass(frozen=True, slots=True)
class Cordon:
    """Keep off a host; `drain`: also leave it."""

    host: str = field(default="", metadata=IN_KEY)
    action: Literal["cordon", "drain"] = field(kw_only=True)
    who: str = field(default="", kw_only=True)
    why: str = field(default="", kw_only=True)
    time: str = field(default="", kw_only=True)
    """RFC 3339, UTC."""


@dataclass(frozen=True, slots=True)
class SlotTrial:
    """What the instances of an open rollout's target have shown in one slot."""

    slot: int
    proven: bool = False
    """Whether one of them has counted for the soak time without a break."""
    ends: int = 0
    """How many ended though their grant said run."""
    incarnation: int = 0
    """The last one whose end was counted."""
    why: str = ""
    """Its last words."""


@dataclass(frozen=True, slots=True)
class Decisions:
    """What was decided about the target and nothing else in etcd shows: kept beside it, for a memory that is lost.

    Temporal's memory may be gone (a workflow deleted or terminated) or older than etcd (a restored backup). The fields
    are those of `model.rollout.Memory`.
    """

    number: int = 0
    """Counts the writes of a fleet: of two, the higher one is the later."""
    target: int = 0
    """What they are about."""
    canary: tuple[int, ...] = ()
    promoted: bool = False
    halted: str = ""
    frozen: int = 0
    reverted_from: int = 0
    stable: int = 0
    answered: int = 0
    halted_by: HaltedBy = ""
    trials: tuple[SlotTrial, ...] = ()
    """Those with unasked ends alone; what is proven is observed anew."""


@dataclass(frozen=True, slots=True)
class Actor:
    """The workflow that acts on the fleet's slots now."""

    epoch: int
    workflow_id: str
    run_id: str
    target: int = 0
    """Number of the revision that is wanted, once taken; 0 = none yet."""
    decisions: Decisions | None = None
    """About that target, unless they name another one; None = an earlier release wrote it, or nothing is decided."""
    mod_revision: int = field(default=0, kw_only=True, metadata=IN_KEY)


@dataclass(frozen=True, slots=True)
class Observed:
    """Everything of one fleet, of one linearizable read."""

    read_at: int
    """The store's revision."""
    desired: Desired | None
    actor: Actor | None = None
    revisions: tuple[Revision, ...] = ()
    slots: tuple[Slot, ...] = ()
    grants: tuple[Grant, ...] = ()
    instances: tuple[Instance, ...] = ()
    exits: tuple[Exit, ...] = ()
    hosts: tuple[Host, ...] = ()
    cordons: tuple[Cordon, ...] = ()
    tenant_present: bool = False
    """Whether `tenants/<tenant>` exists; always False for the common pool."""
    status: str = ""
    """The digest of the status as it is written, so that it is rewritten only when something changed."""
    unreadable: tuple[str, ...] = ()
    """Keys whose values cannot be read, each with the reason: reported, and never acted on."""
    blind: bool = False
    """Whether one of them says what may live, or on what revision: then nothing can be decided."""
    lost: tuple[str, ...] = ()
    """Hosts that a person says are gone for good."""


if TYPE_CHECKING:
    from dataclasses import replace as altered  # mypy checks both alike
else:

    def altered(record, /, **changes):
        """The record with other values; it must be of a class without slots."""
        # Not `dataclasses.replace`: a plan alters its large records again and again, and that one reads each field and
        # sets each through `object.__setattr__`. This one copies all at once, several times as fast.
        other = object.__new__(type(record))
        vars(other).update(vars(record), **changes)
        if hasattr(other, "__post_init__"):
            other.__post_init__()
        return other


__all__ = ["altered"]  # it is exported though mypy sees an import
