"""What activities of pods, nodes and placements fail with (`process.failures` maps errors to it)."""

from __future__ import annotations

from temporalio.exceptions import ApplicationError, ApplicationErrorCategory

from wharfinger.errors import PluginError
from wharfinger.process.failures import Failures
from wharfinger.process.names import FailureType

PODS_AND_NODES = Failures(FailureType.UNAVAILABLE, FailureType.SCHEDULER_ERROR, retried=False, speaking=PluginError)
"""A decision that failed is not retried by itself: the next attempt places again."""


def behind(seen: int, wanted: int) -> ApplicationError:
    """This worker's cache has not come far enough to decide."""
    return ApplicationError(
        f"this worker has seen etcd up to revision {seen}, and must have seen {wanted}",
        type=FailureType.BEHIND,
        category=ApplicationErrorCategory.BENIGN,
    )


def check_workflow_id(what: str, found: str, right: str) -> None:
    """Fail with `WrongWorkflowId`, which is never retried, where a run is not the one of what it is about."""
    if found != right:
        raise ApplicationError(
            f"attempts of {what} run under the workflow id {right!r}, not {found!r}: start one with that id",
            type=FailureType.WRONG_ID,
            non_retryable=True,
        )
