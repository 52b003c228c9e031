"""The contract of `Fleet` and `RollingUpdate` themselves: how they are started, what they answer and what they report.

What they ask of agents is in `contracts.fleets`.
"""

from __future__ import annotations

from datetime import timedelta

from pydantic import Field
from temporalio.common import RetryPolicy

from wharfinger.fleet.contracts.fleets import FleetFailure
from wharfinger.fleet.model.fleet import OutcomeName, Role
from wharfinger.fleet.model.rollout import Busy, Memory
from wharfinger.process.contract import Contract
from wharfinger.process.names import FailureType

INPUT_VERSION = 1
"""Of the workflows' inputs: the previous release must read it."""
ACTOR_RETRY = RetryPolicy(
    initial_interval=timedelta(seconds=1),
    backoff_coefficient=2.0,
    maximum_interval=timedelta(seconds=10),
    non_retryable_error_types=[FailureType.WRONG_ID, FailureType.INVALID_INPUT, FleetFailure.FENCED],
)
"""Of `Fleet` and `RollingUpdate`: a run that fails or times out is followed by another one with the same input."""


class FleetInput(Contract):
    """Whose fleet. A person or another program fills in the tenant only (or `common`)."""

    tenant: str = Field("common", min_length=1, max_length=63)
    version: int = INPUT_VERSION
    memory: Memory = Memory()
    rollout: int = 0
    """Generation of the rollout that was open when it continued as new; 0 = none."""
    epoch: int = 0
    """Of the run that it continues, which acted; 0 = it does not act yet."""
    reported: int = 0
    """Generation of the last rollout that reported: it writes nothing more, even while its workflow still ends."""
    poked: bool = False
    """Whether a reconcile signal is still to be passed on to the open rollout."""


class RollingUpdateInput(Contract):
    """One rollout of a tenant's fleet."""

    tenant: str = Field(min_length=1, max_length=63)
    generation: int = Field(ge=1)
    """mod revision of the fleet's object at which it began."""
    version: int = INPUT_VERSION
    memory: Memory = Memory()
    continued: bool = False
    """Whether it is the continuation of an earlier run: then it has the epoch already."""
    epoch: int = 0


class ActorStatus(Contract):
    """The answer to the query `status` of both."""

    tenant: str
    role: Role
    generation: int = 0
    """Of the open rollout; 0 = none."""
    epoch: int = 0
    """Under which it acts; 0 = it does not."""
    doing: str = ""
    """One sentence."""
    busy: tuple[Busy, ...] = ()
    memory: Memory = Memory()


class RolloutReport(Contract):
    """The signal `rolled_out` to Fleet, and the result of RollingUpdate."""

    generation: int
    outcome: OutcomeName
    why: str = ""
    memory: Memory = Memory()
