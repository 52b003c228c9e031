"""How the runs that decided a pod are found in Temporal."""

from __future__ import annotations

import hashlib
import json

from temporalio.api.common.v1 import SearchAttributes
from temporalio.common import SearchAttributePair, TypedSearchAttributes
from temporalio.converter import encode_search_attributes

from wharfinger.process.names import MOST_LISTED, decisions_query, pod_digest, pod_digests, pods_listed
from wharfinger.scheduling.contracts.cohort_scheduling import MOST_PODS, PODS_KEY
from wharfinger.settings import DispatchSettings

TEMPORAL_LIMIT = 2048
"""`frontend.searchAttributesSizeOfValueLimit`: bytes of one encoded value."""


def encoded(pods: list[tuple[str, str]]) -> bytes:
    """The attribute's value as the SDK sends it."""
    into = SearchAttributes()
    pairs = TypedSearchAttributes([SearchAttributePair(PODS_KEY, pod_digests(pods))])
    encode_search_attributes(pairs, into)
    return into.indexed_fields[PODS_KEY.name].data


def test_digest_is_35_bits_of_sha256_in_lower_case() -> None:
    digest = pod_digest("default", "web-1")
    bits = int(hashlib.sha256(b"default/web-1").hexdigest(), 16) >> (256 - 35)

    assert digest == "szqd2tp"
    value = 0
    for letter in digest:
        value = value * 32 + "abcdefghijklmnopqrstuvwxyz234567".index(letter)
    assert value == bits
    assert pod_digest("default", "web-2") != digest
    assert pod_digest("prod", "web-1") != digest


def test_digests_of_the_largest_cohort_stay_within_temporals_limit() -> None:
    pods = [("default", f"web-{number}") for number in range(MOST_PODS)]

    assert DispatchSettings().cohort_most <= MOST_LISTED
    assert len(pod_digests(pods[:MOST_LISTED])) == MOST_LISTED
    assert len(encoded(pods[:MOST_LISTED])) <= TEMPORAL_LIMIT
    assert len(encoded(pods)) <= TEMPORAL_LIMIT
    assert len(encoded(pods)) + 10 > TEMPORAL_LIMIT  # one more would not fit


def test_query_finds_own_attempts_and_shared_runs_of_one_cluster() -> None:
    assert decisions_query("c", "default", "web-1") == (
        'WorkflowId STARTS_WITH "c/" AND (WharfingerPod = "default/web-1" OR WharfingerPods = "szqd2tp")'
    )


def test_query_of_a_gangs_member_names_the_gangs_workflow() -> None:
    assert decisions_query("c", "ml", "w-0", group="train").endswith(' OR WorkflowId = "c/cohort/ml/train")')


def test_pods_of_a_small_group_are_listed_by_name_too() -> None:
    pods = [("default", f"web-{number}") for number in range(10)]

    assert pods_listed(pods) == [*pod_digests(pods), *(f"default/web-{number}" for number in range(10))]
    more = [*pods, ("default", "one-more")]
    assert pods_listed(more) == pod_digests(more)


def test_listed_pods_stay_within_temporals_limit() -> None:
    pods = [("n" * 63, f"{number}" * 200) for number in range(10)]

    assert pods_listed(pods) == pod_digests(pods)
    assert pods_listed(pods[:5]) != pod_digests(pods[:5])
    for some in (pods[:count] for count in range(11)):
        assert len(json.dumps(pods_listed(some), separators=(",", ":"))) <= 2048
