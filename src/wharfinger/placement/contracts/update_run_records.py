"""What is kept of staged update runs in etcd, below `/wharfinger.dev/hub/runs/<P>/<run>/<identity>/`.

::

    plan                              RunPlanRecord      the run; create-only, with a new rollouts/<P>
    progress                          RunProgressRecord  the run, by compare-and-set, before each wave of writes
    approvals/<stage>.before|after    RunApprovalRecord  the CLI or the run; create-only
    retries                           RunRetryRecord     the CLI, by compare-and-set
    end                               RunEndRecord       the run: how it ended

`identity` is the create revision of the run's object, so the records of a former run of that name count for nothing.
Each write compares that revision. A hub removes the records once the object is gone.
"""

from __future__ import annotations

import zlib
from typing import Any

from pydantic import Field

from wharfinger.placement.contracts.delivery_records import LargeRecord
from wharfinger.placement.contracts.update_runs import RunOutcome
from wharfinger.placement.model.update_runs import RunPlan, RunProgress
from wharfinger.process.records import Record

PLAN, PROGRESS, RETRIES, END = "plan", "progress", "retries", "end"
"""Last parts of keys."""
LARGEST = 1024 * 1024
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
