"""The contract of `NodeEviction`: what clears a lost or tainted node of its pods, and what it asks of activities."""

from __future__ import annotations

from abc import ABC, abstractmethod
from datetime import timedelta
from typing import Literal

from pydantic import Field
from temporalio import activity
from temporalio.common import RetryPolicy

from wharfinger.process.contract import Contract
from wharfinger.process.names import FailureType


class NodeInput(Contract):
    """Which node. The rest is carried over when the workflow continues as new."""

    node: str = Field(min_length=1, max_length=253)
    absent_since: float = 0.0
    """Workflow time, seconds since 1970; 0 = the node was not seen absent yet."""
    tainted_since: dict[str, str] = Field(default_factory=dict)
    """Taints that do not say when they were added -> when they were first seen, RFC 3339."""
    removed: int = 0
    """Pods that were removed so far."""


class NodeResult(Contract):
    """How it ended."""

    outcome: Literal["returned", "cleared", "settled"]
    """`returned`: an absent node is back, `cleared`: pods were removed and none is left to be, `settled`: nothing was
    to be done."""
    removed: int = 0
    why: str = ""


class LookInput(Contract):
    """Input of `look_at_node`."""

    node: str
    now: float
    """Workflow time, seconds since 1970: one clock for all workers that carry out activities of the run."""
    absent_for: float = 0.0
    """Seconds since the node was first seen absent."""
    tainted_since: dict[str, str] = Field(default_factory=dict)


class Looked(Contract):
    """What is to be done about a node now."""

    action: Literal["done", "wait", "clear"]
    why: str
    """One line for people."""
    absent: bool = False
    """Whether the node does not exist; of `clear`, whether its pods are due to be requeued."""
    seconds: float = 0.0
    """How long to wait."""
    tainted_since: dict[str, str] = Field(default_factory=dict)


class ClearInput(Contract):
    """Input of `clear_node`."""

    node: str
    now: float
    """As in `LookInput`."""
    absent: bool
    """Whether pods of an absent node are to be requeued; else those are evicted that do not tolerate its taints."""
    tainted_since: dict[str, str] = Field(default_factory=dict)


class Cleared(Contract):
    """What was done. Names are `namespace/name`, the first ones of many."""

    held: float = 0.0
    """Seconds until it may be tried again, because 10 % of the nodes were cleared a short time ago; 0 = it is not."""
    again: bool = False
    """Whether nothing was done because the look lay too long ago: look again."""
    removed: int = 0
    """Pods that were deleted, or marked as terminating."""
    made_anew: int = 0
    pods: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


class NodeEvictions(ABC):
    """Activities of `NodeEviction`, by their registered names."""

    @activity.defn(name="look_at_node")
    @abstractmethod
    async def look_at_node(self, request: LookInput) -> Looked:
        """Decide what is to be done; changes nothing. Fails with the types `Unavailable`, `SchedulerError`."""

    @activity.defn(name="clear_node")
    @abstractmethod
    async def clear_node(self, request: ClearInput) -> Cleared:
        """Remove the pods that have to leave now, each by compare-and-set. Safe to run again."""


LOOK_TIMEOUT = timedelta(seconds=15)
LONGEST_QUEUED = timedelta(seconds=30)
"""So old a look may be as an absent node is cleared: while no worker was free, the node may have returned."""
CLEAR_TIMEOUT = timedelta(seconds=60)
CLEAR_HEARTBEAT = timedelta(seconds=20)
"""A heartbeat is due after each pod. So another worker goes on soon after one was killed."""


def node_retry() -> RetryPolicy:
    """The workflow's retry policy: whatever fails is tried again."""
    return RetryPolicy(
        initial_interval=timedelta(seconds=1),
        backoff_coefficient=2.0,
        maximum_interval=timedelta(seconds=10),
        non_retryable_error_types=[FailureType.INVALID_INPUT.value],
    )
