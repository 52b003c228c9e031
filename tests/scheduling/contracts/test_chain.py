"""The chain's retry policy: how it is recognised, and how long it waits."""

from __future__ import annotations

from datetime import timedelta

import pytest
from temporalio.common import RetryPolicy

from wharfinger.process.failures import has_chain_policy
from wharfinger.scheduling.contracts.attempts import AttemptTimings, backoff, chain_retry

OURS = chain_retry(AttemptTimings())


@pytest.mark.parametrize(
    ("attempt", "seconds"), [(1, 1), (2, 2), (3, 4), (4, 8), (5, 10), (50, 10), (10**9, 10)], ids=str
)
def test_the_back_off_doubles_up_to_its_maximum(attempt: int, seconds: float) -> None:
    assert backoff(OURS, attempt) == seconds


def test_without_a_maximum_it_is_a_hundred_times_the_first() -> None:
    assert backoff(RetryPolicy(initial_interval=timedelta(seconds=2)), 100) == 200


def test_without_a_policy_there_is_no_back_off() -> None:
    assert backoff(None, 3) == 0


def test_our_policy_is_recognised_whatever_its_intervals() -> None:
    assert has_chain_policy(OURS)
    assert has_chain_policy(chain_retry(AttemptTimings(backoff_initial=0.01, backoff_maximum=5)))


@pytest.mark.parametrize(
    "policy",
    [None, RetryPolicy(), RetryPolicy(maximum_attempts=3, non_retryable_error_types=["WrongWorkflowId"])],
    ids=["none", "one that retries a wrong id for ever", "one that gives up"],
)
def test_a_policy_that_is_not_ours_is_replaced(policy: RetryPolicy | None) -> None:
    assert not has_chain_policy(policy)
