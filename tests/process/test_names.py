"""Names that outlive a process, and how the runs that decided a pod are found by them."""

from __future__ import annotations

import hashlib
import json

import pytest
from temporalio.api.common.v1 import SearchAttributes
from temporalio.common import SearchAttributePair, TypedSearchAttributes
from temporalio.converter import encode_search_attributes

from wharfinger.errors import UsageError
from wharfinger.process.names import (
    MOST_LISTED,
    NAME_LIMIT,
    check_cluster,
    check_tenant,
    decisions_query,
    pod_attribute,
    pod_digest,
    pod_digests,
    pod_workflow_id,
    pods_listed,
    task_queue,
)
from wharfinger.scheduling.contracts.cohort_scheduling import MOST_PODS, PODS_KEY
from wharfinger.settings import DispatchSettings


def test_pods_workflow_id_has_cluster_namespace_name_and_identity() -> None:
    assert pod_workflow_id("blue", "default", "web-1", "abc") == "blue/pod/default/web-1/abc"


def test_a_long_name_is_shortened_and_the_uid_never() -> None:
    uid = "u" * 64
    one = pod_workflow_id("c" * 63, "n" * 63, "x" * 252 + "1", uid)
    two = pod_workflow_id("c" * 63, "n" * 63, "x" * 252 + "2", uid)

    assert len(one) <= NAME_LIMIT
    assert one.endswith("/" + uid)
    assert one != two


def test_a_pod_is_found_by_an_attribute_that_sql_stores_can_hold() -> None:
    """Their keyword columns take 255 characters; namespace and name may have 63 and 253."""
    one, two = (pod_attribute("n" * 63, "x" * 252 + last) for last in "12")

    assert len(one) == NAME_LIMIT
    assert one != two
    assert one.startswith("n" * 63 + "/xxx")
    assert pod_attribute("default", "web-1") == "default/web-1"


def test_task_queues_belong_to_a_cluster_and_a_tenant() -> None:
    assert (task_queue("blue"), task_queue("blue", "team")) == ("blue/common", "blue/team")


@pytest.mark.parametrize("name", ["", "Upper", "a_b", "-a", "a/b", "x" * 64], ids=repr)
def test_a_cluster_name_that_is_no_dns_label_is_refused(name: str) -> None:
    with pytest.raises(UsageError):
        check_cluster(name)


@pytest.mark.parametrize("name", ["control", "host", "default", "a b"], ids=repr)
def test_reserved_words_are_no_tenants(name: str) -> None:
    with pytest.raises(UsageError):
        check_tenant(name)


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
