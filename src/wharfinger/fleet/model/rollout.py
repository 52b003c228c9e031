"""What is decided about a fleet, and what an actor remembers between two decisions.

A `Plan` is what one look at etcd led to: steps to start, running ones to give up, things to write, and the memory
to look with next time. It is computed by `deciding.planner`, recorded as the result of the activity `plan`, and
followed by the workflows `Fleet` and `RollingUpdate`.

Time is *seen* time: seconds on the actor's own clock, which advances by slices of at most `SLICE` seconds while it
really looks. A late timer counts once, so an outage of Temporal or of the actor lets no deadline pass. Names of hours
and minutes appear in the status alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from wharfinger.fleet.model.fleet import Decisions, FleetSpec, HaltedBy, OutcomeName, SlotTrial

SLICE = 5.0
"""Seconds that a timer of an actor runs at most, and that count at most."""
LATE = 5.0
"""Seconds by which a timer or an answer is late that mean a gap in the actor's sight."""
EPSILON = 1e-6
"""Seconds by which sums of the clock may be wrong."""
IDLE = 300.0
"""Seconds between two looks of a rollout that stands, and of `Fleet` while a rollout is open."""
REST = 21_600.0
"""Seconds between two looks of `Fleet` when nothing is to be done, should a change ever be missed: each change is
signalled, and a thousand fleets at rest must cost next to nothing."""
WHATEVER = -1
"""Instead of a mod revision: it does not matter."""
UNKNOWN = 60.0
"""Seen seconds without the record of an instance that was ready, after which its host is asked whether it runs."""
STEADY = 600.0
"""Seconds of life after which a crash counts as the first again."""
FIRST_BACK_OFF, LONGEST_BACK_OFF = 1.0, 300.0
"""Seconds before a crashed slot is filled again: doubled for every crash in a row."""


# --- steps ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Counted:
    """A ready record that a drain counts on: it must not have changed when the drain is committed."""

    slot: int
    incarnation: int
    mod_revision: int
    """0 = there must be none: the instance that goes was not there, and is not back."""


@dataclass(frozen=True, slots=True)
class Up:
    """Bring up an instance in a slot: grant (unless `incarnation` has its grant), create, await ready."""

    slot: int
    revision: int
    host: str
    incarnation: int = 0
    """0 = grant the next one."""
    after: int = -1
    """The slot's last incarnation as it was seen: a grant that comes late finds another, and is none. -1 = any."""
    settle: bool = False
    assign: bool = False
    """Whether the grant assigns its revision to the slot (nothing else lives there)."""
    why: str = ""
    kind: Literal["up"] = "up"


@dataclass(frozen=True, slots=True)
class Retire:
    """Drain an instance, wait for its end, kill it if it takes too long."""

    slot: int
    incarnation: int
    host: str
    grant_mod_revision: int
    counted: tuple[Counted, ...] = ()
    assign: int = 0
    """Revision assigned to the slot by the same transaction, because a successor of it is ready; 0 = as it is."""
    waited: float = 0.0
    """Seen seconds since it was asked to leave, where it was before: they count for its time-outs."""
    why: str = ""
    kind: Literal["retire"] = "retire"


@dataclass(frozen=True, slots=True)
class Drop:
    """Fence an instance off at once (delete its grant), then make sure that its process ends."""

    slot: int
    incarnation: int
    host: str
    kill: bool = True
    """False: its host is lost, so no agent can be asked."""
    registered: int = WHATEVER
    """mod revision of its registration, for it goes because it does not serve; 0 = it has none."""
    why: str = ""
    kind: Literal["drop"] = "drop"


Step = Annotated[Up | Retire | Drop, "told apart by kind"]


# --- what is written ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Clear:
    """Remove what an ended incarnation left: its grant and its exit record, in one transaction."""

    slot: int
    incarnation: int
    crashes: int
    """Of the slot from now on."""


@dataclass(frozen=True, slots=True)
class Assign:
    """What a slot returns on from now on, where neither a grant nor a drain says so: the former one ended by itself."""

    slot: int
    revision: int


@dataclass(frozen=True, slots=True)
class Outcome:
    """The end of a revision's rollout."""

    revision: int
    outcome: OutcomeName
    why: str = ""


@dataclass(frozen=True, slots=True)
class SlotStatus:
    """One slot for readers."""

    slot: int
    assigned: int
    ready: bool
    incarnations: tuple[tuple[int, str, int, str], ...] = ()
    """(incarnation, phase, revision, host), oldest first."""
    crashes: int = 0
    note: str = ""
    """`CrashLoop: again in 40 s`, `no host has version v2`, ..."""
    unproven: bool = False
    """Whether it is updated by the open rollout and has not counted for the soak time yet."""
    ends: int = 0
    """Unasked ends of its instances of the open rollout's target."""


@dataclass(frozen=True, slots=True)
class Condition:
    """As in Kubernetes. Times are added where it is written."""

    type: Literal[
        "Available", "Progressing", "SpecInvalid", "PartitionComplete", "CanaryWaiting", "Paused", "Deleting", "NoHost"
    ]
    status: bool
    reason: str
    message: str = ""


@dataclass(frozen=True, slots=True)
class Running:
    """A step that is being taken, for readers."""

    kind: Literal["up", "retire", "drop"]
    slot: int
    incarnation: int
    sentence: str
    """`slot 7: waits for incarnation 3 on host-a to be ready`."""
    seen: float = 0.0
    """Seconds it has waited."""
    limit: float = 0.0
    """Seconds it may; 0 = no limit."""


@dataclass(frozen=True, slots=True)
class RolloutStatus:
    """The projection for readers; never read back to decide."""

    observed_generation: int
    target: int
    completed: int
    """Number of the newest completed revision; 0 = none."""
    replicas: int
    ready: int
    updated: int
    """Slots whose ready instance is of the target."""
    generation: int = 0
    """Of the open rollout; 0 = none."""
    rollout: Literal["none", "running", "paused", "failed", "completed", "aborted"] = "none"
    phase: str = ""
    """One sentence: what is being done, and what it waits for."""
    conditions: tuple[Condition, ...] = ()
    slots: tuple[SlotStatus, ...] = ()
    running: tuple[Running, ...] = ()
    lost_together: tuple[str, ...] = ()
    """Hosts that were lost with most others at once: what they had is repaired one slot at a time."""


@dataclass(frozen=True, slots=True)
class Writes:
    """What `record_fleet` writes, in this order; everything compares the actor's epoch."""

    target: int | None = None
    """The revision that is wanted from now on; with `new_revision`, its number."""
    new_revision: bool = False
    """Whether the present spec's template is to be written as that revision first."""
    decisions: Decisions | None = None
    """About the target, together with it; None = as they are."""
    outcomes: tuple[Outcome, ...] = ()
    clears: tuple[Clear, ...] = ()
    assigns: tuple[Assign, ...] = ()
    tenant: Literal["present", "absent", "as-is"] = "as-is"
    forget_revisions: tuple[int, ...] = ()
    """Beyond the history limit: revisions and their outcomes are deleted."""
    forget_slots: tuple[int, ...] = ()
    """Counters of slots beyond the replicas stay: incarnations are never reused. Only at the fleet's end."""
    status: RolloutStatus | None = None
    """None = as it is."""
    end: bool = False
    """The fleet is gone: remove all of its keys (object, actor, status, revisions, outcomes, slots)."""

    @property
    def empty(self) -> bool:
        """Whether there is nothing to write."""
        return self == _NOTHING


_NOTHING = Writes()


# --- memory ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ReadySince:
    """An instance seen ready, unchanged, since a moment of the clock."""

    slot: int
    incarnation: int
    mod_revision: int
    """0: it was ready once, and is not at the moment."""
    since: float
    lost: float = 0.0
    """When it went out of sight, or said that it is not ready, and has not counted since; 0 = it counts, or will."""
    counted_since: float = 0.0
    """Clock of the look that found it counted; 0 = it does not count, or its readiness or the view broke since."""


@dataclass(frozen=True, slots=True)
class AwaitedIncarnation:
    """An incarnation that is not ready yet, granted at a moment of the clock."""

    slot: int
    incarnation: int
    since: float
    refused: str = ""
    """Why its host will not start it (no such version, no such secret); empty = it was not refused."""


@dataclass(frozen=True, slots=True)
class Crashed:
    """A slot that crashed: it is filled again not before a moment of the clock."""

    slot: int
    not_before: float
    times: int = 1
    """Crashes in a row; those that left no exit record (a deadline, a refusal) are counted here alone."""
    why: str = ""
    host: str = ""
    """Where: tried last the next time."""
    revision: int = 0
    """What crashed: another template is tried at once. 0 = not known."""


@dataclass(frozen=True, slots=True)
class HostMissing:
    """A host whose record is absent, or whose queue was found silent, since a moment of the clock."""

    host: str
    since: float


@dataclass(frozen=True, slots=True)
class KnownHost:
    """A host that was seen."""

    host: str
    gone: float | None = None
    """Since when its record is absent, by the clock; None = it is there."""


@dataclass(frozen=True, slots=True)
class Vanished:
    """A slot that lost its ready instance unasked, at a moment of the clock."""

    slot: int
    at: float


@dataclass(frozen=True)  # without slots: it is altered many times a plan (`altered`)
class Memory:
    """What an actor carries from plan to plan, through continue-as-new, and from Fleet to RollingUpdate and back."""

    clock: float = 0.0
    """Seen seconds so far."""
    sight_since: float = 0.0
    """When the unbroken view began."""
    spec: FleetSpec | None = None
    """The last valid one, for when the present one is not."""
    ready: tuple[ReadySince, ...] = ()
    waiting: tuple[AwaitedIncarnation, ...] = ()
    leaving: tuple[AwaitedIncarnation, ...] = ()
    """Incarnations that were asked to leave and have not ended, since when."""
    crashed: tuple[Crashed, ...] = ()
    hosts: tuple[HostMissing, ...] = ()
    silent_hosts: tuple[HostMissing, ...] = ()
    """Whose queues did not answer within the schedule-to-start time-out."""
    known: tuple[KnownHost, ...] = ()
    """Hosts that are there, or were not long ago: whether many of them went at once."""
    vanished: tuple[Vanished, ...] = ()
    careful: bool = False
    """More slots than may be unavailable vanished at once: repairs go one at a time until all are back."""
    canary: tuple[int, ...] = ()
    """The slots of the canary, chosen when the target was taken; others follow where a scale-down took some away."""
    promoted: bool = False
    halted: str = ""
    """Why the rollout stands still by itself (a deadline passed, slots failed); empty = it does not."""
    halted_by: HaltedBy = ""
    trials: tuple[SlotTrial, ...] = ()
    """Of the open rollout's slots, by slot: what their instances of the target have shown."""
    looping: tuple[int, ...] = ()
    """Revisions that ended twice in a row in some slot: lately, or since before the open rollout began."""
    answered: int = 0
    """mod revision of the spec whose request (resume) was followed last."""
    progress_at: float = 0.0
    progress_mark: tuple[int, int] = (0, 0)
    """(updated slots, outdated living incarnations) when progress was last made."""
    reverted_from: int = 0
    """The revision that failed and was, or is being, rolled back: the spec still names it; 0 = none."""
    target: int = 0
    """The revision that canary, promoted, halted and progress are about."""
    frozen: int = 0
    """The revision that is not rolled out any more (aborted) until the template changes; 0 = none."""
    stable: int = 0
    """The revision that the last rollout brought to every slot; 0 = not known: the newest completed one."""
    decisions: int = 0
    """Number of the last `Decisions` that it has; 0 = none."""
    rollout: int = 0
    """For Fleet: generation of the rollout that is open and has not reported; 0 = none. Set by the shell once it
    has started one: a plan to start it is not yet a rollout that may be missed. A missed one keeps it until it runs."""
    replicas: int = 0
    """Of the plan before."""
    fresh: tuple[int, ...] = ()
    """Slots that came by scaling up and have had no instance since: they have no revision to return on."""
    gone: tuple[tuple[int, int], ...] = ()
    """(slot, incarnation) whose process has ended for sure, though its grant or record is still seen."""


# --- asking and answering -------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Busy:
    """A step of this actor's that has not ended."""

    kind: Literal["up", "retire", "drop"]
    slot: int
    incarnation: int
    """0: not granted yet, or the answer is not here."""
    revision: int = 0
    """Of an `up`."""
    host: str = ""


@dataclass(frozen=True, slots=True)
class Plan:
    """What one look led to."""

    memory: Memory
    writes: Writes = Writes()
    steps: tuple[Up | Retire | Drop, ...] = ()
    """To be started now; they may run beside each other and beside the busy ones."""
    give_up: tuple[int, ...] = ()
    """Slots whose busy `up` is to be cancelled: its target is no longer wanted, or its deadline passed."""
    wait: float = IDLE
    """Seconds until the next look, unless something happens before."""
    rollout: int = 0
    """For Fleet: the generation of the rollout to start; 0 = none."""
    done: OutcomeName | None = None
    """For RollingUpdate: it is over, with this outcome of its generation."""
    ended: bool = False
    """For Fleet: there is nothing left to look after."""
