"""What is delivered, as kept in etcd below `/wharfinger.dev/hub/`. Keys: `contracts.placement_keys`.

::

    rollouts/<P>           RolloutRecord    who delivers; every wave rewrites it, and each write of a wave compares it
    snapshots/<P>/<n>      SnapshotRecord   who delivers, create-only
    contents/<P>/<sha256>  bytes            the same transaction: some objects of snapshots, deflated
    works/<P>/<member>     WorkRecord       who delivers
    results/<P>/<member>   ResultRecord     the member's agent
    losses/<P>             bytes            agents: rewritten with each result that ceases to be available
    pins/<P>               PinRecord        the CLI: which snapshot is wanted, instead of the newest
    runs/<P>/<run>/<identity>/...           staged update runs, below:
      plan                            RunPlanRecord      the run; create-only, with a new rollouts/<P>
      progress                        RunProgressRecord  the run, by compare-and-set, before each wave of writes
      approvals/<stage>.before|after  RunApprovalRecord  the CLI or the run; create-only
      retries                         RunRetryRecord     the CLI, by compare-and-set
      end                             RunEndRecord       the run: how it ended

`identity` is the create revision of the run's object, so the records of a former run of that name count for nothing.
Each write compares that revision. A hub removes the records once the object is gone.

In a member's own etcd: `AgentRecord`, `AppliedRecord`, `MarkRecord`. `contracts.placement_records` has what is decided.
"""

from __future__ import annotations

import zlib
from typing import Any, Literal, Self

from pydantic import Field

from wharfinger.placement.contracts.placement_records import inflated_bytes
from wharfinger.placement.contracts.update_runs import RunOutcome
from wharfinger.placement.model.delivery import Want
from wharfinger.placement.model.update_runs import RunPlan, RunProgress
from wharfinger.process.records import Record

DEFLATED_FROM = 64 * 1024
"""Bytes from which a large record is deflated: etcd takes 1.5 MiB in one transaction."""
TOLD = 20
"""Objects that a result tells of, and differences of each."""


class RolloutRecord(Record):
    """Who delivers a placement now."""

    epoch: int = 0
    """Grows whenever another run begins to act."""
    role: Literal["rollout", "run"] = "rollout"
    workflow_id: str = ""
    run_id: str = ""
    run: str = ""
    """The update run that delivers it, or did last: `<name>/<identity>`; waves of other roles keep it."""
    wave: int = 0
    """Grows with each wave of writes."""
    token: str = ""
    """Tells the wave from every other: one whose answer was lost is written once."""
    snapshot: int = 0
    """The newest one."""
    selected: str = ""
    """Stamp of what was looked at last (`state.contents_view`)."""
    trouble: str = ""
    """Why they cannot be placed."""
    time: str = ""
    """RFC 3339, UTC, of the last change of this record."""


class LargeRecord(Record):
    """A record that may become large: then it is deflated. Both forms are read."""

    def to_bytes(self) -> bytes:
        """As stored in etcd: compact JSON, deflated where it is large."""
        value = super().to_bytes()
        return value if len(value) < DEFLATED_FROM else zlib.compress(value, 6)

    @classmethod
    def model_validate_json(cls, json_data: str | bytes | bytearray, **options: Any) -> Self:
        """Of a stored value. Raises `ValueError` for what is none."""
        if isinstance(json_data, bytes) and json_data[:1] == b"\x78":  # no JSON begins so
            json_data = inflated_bytes(json_data)
        return super().model_validate_json(json_data, **options)


class SnapshotRecord(LargeRecord):
    """What was selected at one revision. Its number is its name."""

    digest: str
    """SHA-256 of all objects."""
    parts: tuple[str, ...] = ()
    """SHA-256 of each part, in order."""
    objects: tuple[tuple[str, str, str, str, str], ...] = ()
    """Of each: group, version, kind, namespace, name."""
    enveloped: tuple[tuple[str, str, str, str, str], ...] = ()
    """The same of the objects in envelopes."""
    revision: int = 0
    """Of etcd, at which they were read."""
    time: str = ""
    """RFC 3339, UTC."""


class WorkRecord(LargeRecord):
    """What shall be on one member."""

    counter: int = 0
    """Grows with each write; an agent never applies a lower one."""
    since: int = 0
    """The counter at which the contents changed last: results from there on tell of these contents."""
    want: Want = "present"
    identity: int = 0
    """Of the member: the create revision of its object."""
    placement: int = 0
    """Create revision of the placement's object."""
    snapshot: int = 0
    overrides: str = ""
    """Digest of what is changed for this member."""
    resolved: tuple[dict[str, Any], ...] = ()
    """What is changed for this member."""
    strategy: dict[str, Any] = Field(default_factory=dict)
    """`spec.strategy.applyStrategy`, complete."""

    def answered(self, result: ResultRecord | None) -> ResultRecord | None:
        """The member's result where it is about these contents, on this life of the member; else None."""
        if result is None or result.identity != self.identity:
            return None
        return result if self.since <= result.counter <= self.counter else None


class ToldObject(Record):
    """What is said of one object on one member."""

    object: str
    reason: str
    message: str = ""
    diffs: tuple[tuple[str, str, str], ...] = ()
    """Path, the value in the hub, the value in the member."""


class ResultRecord(Record):
    """What is on one member."""

    counter: int = 0
    """Of the work that it tells of."""
    since: int = 0
    """Of that work: the counter at which its contents changed last."""
    identity: int = 0
    """Of the member."""
    applied: bool = False
    available: bool = False
    untrackable: bool = False
    """Whether it is called available because nothing says when it is."""
    failed: bool = False
    passing: bool = False
    """Whether the cause of the failure may end, so that the next look may find none; else it was refused for good."""
    reported: bool = False
    """Whether only differences were looked for, and they were."""
    gone: bool = False
    objects: int = 0
    reason: str = ""
    told: tuple[ToldObject, ...] = ()
    """What is not as it shall be, the first ones."""
    drifted: tuple[ToldObject, ...] = ()
    time: str = ""
    """RFC 3339, UTC."""


class PinRecord(Record):
    """A snapshot that is wanted instead of the newest."""

    snapshot: int
    by: str = ""
    why: str = ""
    time: str = ""
    """RFC 3339, UTC."""


class AgentRecord(Record):
    """Who may write to a member's etcd for its hub; each of its transactions compares it."""

    boot_id: str = ""
    pid: int = 0
    token: str = ""
    """Tells this life of the agent from every other."""


class AppliedRecord(LargeRecord):
    """What of one placement is on a member, or may be: written before the objects."""

    counter: int = 0
    identity: int = 0
    """Of the member, for its hub."""
    objects: tuple[tuple[str, str, str, str, str], ...] = ()
    """Of each: group, version, kind, namespace, name."""


class MarkRecord(Record):
    """That an object on a member is a placement's."""

    placement: str
    """P."""
    life: str = ""
    """Hub and member, in the life in which it was applied."""
    counter: int = 0
    last: dict[str, Any] = Field(default_factory=dict)
    """The manifest that was applied last."""
    removing: str = ""
    """The deletionTimestamp that the agent set while the finalizers of others hold the object.

    Empty for any other deletion, such as a graceful eviction by the member's own scheduler: the agent leaves it alone.
    """


PLAN, PROGRESS, RETRIES, END = "plan", "progress", "retries", "end"
"""Last parts of keys."""
LARGEST_PLAN = 1024 * 1024
"""Bytes of a deflated plan: etcd takes 1.5 MiB in one transaction."""


class _DeflatedRecord(LargeRecord):
    """A record that is deflated, whatever its size."""

    def to_bytes(self) -> bytes:
        """As stored: JSON, deflated."""
        return zlib.compress(self.model_dump_json(exclude_defaults=True).encode(), 6)


class RunPlanRecord(_DeflatedRecord):
    """The frozen plan of a run, and the contents of all overrides that it names."""

    plan: RunPlan
    placement: int
    """Create revision of the placement's object."""
    overrides: dict[str, tuple[dict[str, Any], ...]] = Field(default_factory=dict)
    """Digest -> what is changed, as in works: of what the run writes, and of what members had before."""
    token: str = ""
    time: str = ""
    """RFC 3339, UTC."""


class RunProgressRecord(_DeflatedRecord):
    """How far a run is."""

    progress: RunProgress
    retries: int = 0
    """Retries that it has followed."""
    token: str = ""
    """Identifies the wave: a record whose answer was lost is written once."""
    time: str = ""
    """RFC 3339, UTC."""


class RunApprovalRecord(Record):
    """Who let a stage start, or end."""

    who: str = ""
    why: str = ""
    time: str = ""
    """RFC 3339, UTC."""


class RunRetryRecord(Record):
    """How often a run was asked to try failed and skipped members again."""

    count: int = 0
    who: str = ""
    why: str = ""
    time: str = ""
    """RFC 3339, UTC, of the last one."""


class RunEndRecord(Record):
    """How a run ended."""

    outcome: RunOutcome
    why: str = ""
    retries: int = 0
    """Retries that it had followed: a later one opens the run again."""
    time: str = ""
    """RFC 3339, UTC."""
