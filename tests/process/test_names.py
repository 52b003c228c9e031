"""Names that outlive a process."""

from __future__ import annotations

import pytest

from wharfinger.errors import UsageError
from wharfinger.process.names import NAME_LIMIT, check_cluster, check_tenant, pod_attribute, pod_workflow_id, task_queue


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
