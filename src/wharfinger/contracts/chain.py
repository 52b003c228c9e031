"""What makes runs of one pod a chain: a retry policy that never gives up, and its back-off.

A failed run is an attempt; Temporal starts the next one by the run's own policy. Pure: the workflow and
whoever starts it ask here.
"""

from __future__ import annotations

from temporalio.common import RetryPolicy

from wharfinger.contracts.scheduling import FailureType


def has_chain_policy(policy: RetryPolicy | None) -> bool:
    """Whether failures of this run lead to the next attempt for ever, as those of `chain_retry` do."""
    return (
        policy is not None
        and policy.maximum_attempts == 0
        and FailureType.WRONG_ID in (policy.non_retryable_error_types or ())
    )


def backoff(policy: RetryPolicy | None, attempt: int) -> float:
    """Seconds between this attempt and the next by the policy: doubling, up to its maximum."""
    if policy is None:
        return 0.0
    first = policy.initial_interval.total_seconds()
    last = (policy.maximum_interval or policy.initial_interval * 100).total_seconds()
    return min(first * policy.backoff_coefficient ** min(attempt - 1, 32), last)
