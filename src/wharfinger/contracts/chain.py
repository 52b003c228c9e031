"""What makes runs of one pod a chain: a retry policy that never gives up, its back-off, and what is handed on.

A failed run is an attempt; Temporal starts the next one by the run's own policy. Pure: the workflow and
whoever starts it ask here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from temporalio.common import RetryPolicy

from wharfinger.contracts.attempts import FailureType, Wake


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


def details(wake: Wake, required: int) -> list[Any]:
    """Of the failure that ends an attempt: what woke it, and the revision it had to have seen where that is newer.

    What an attempt had to have seen, all later ones must: on an older state they would evict once more.
    """
    return [wake.model_dump(exclude_defaults=True), *([required] if required > wake.revision else [])]


def required(details: Sequence[Any]) -> int:
    """The revision that the next attempt must have seen, from those details; 0 = none."""
    if not details:
        return 0
    wake, *newest = details
    return max(Wake.model_validate(wake).revision, *map(int, newest), 0)
