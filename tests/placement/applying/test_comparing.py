"""How an object on a member differs from the hub's."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings

from tests.placement.applying.objects import Object, deployment, deployments, service
from wharfinger.placement.applying.comparing import Difference, differences
from wharfinger.placement.applying.merge import merged

HTTP = {"name": "http", "protocol": "TCP", "port": 80, "targetPort": 8080}
CUSTOM = {"name": "custom", "protocol": "UDP", "port": 10000, "targetPort": 10000}
HTTPS = {"name": "https", "protocol": "TCP", "port": 443, "targetPort": "https"}
REDACTED = "(redacted for security reasons)"


def full(hub: Object, member: Object, group: str = "apps") -> set[tuple[str, str, str]]:
    found = differences(hub, member, group=group, full=True)
    return {(one.path, one.in_hub, one.in_member) for one in found}


def partial(hub: Object, member: Object, last: Object | None = None) -> list[tuple[str, str, str]]:
    found = differences(hub, member, group="apps", full=False, last=last)
    return [(one.path, one.in_hub, one.in_member) for one in found]


SELECTED = {"selector": {"matchLabels": {"app": "nginx"}}}


@pytest.mark.parametrize(
    ("hub", "expected"),
    [
        pytest.param(
            {"strategy": {"type": "Recreate"}},
            {("/spec/strategy/type", '"Recreate"', "")},
            id="field addition, object field (string)",
        ),
        pytest.param(
            {"revisionHistoryLimit": 10},
            {("/spec/revisionHistoryLimit", "10", "")},
            id="field addition, object field (numeral)",
        ),
        pytest.param({"paused": True}, {("/spec/paused", "true", "")}, id="field addition, object field (bool)"),
        pytest.param(
            {"selector": {"matchLabels": {"app": "envoy", "team": "red"}}},
            {
                ("/spec/selector/matchLabels/app", '"envoy"', '"nginx"'),
                ("/spec/selector/matchLabels/team", '"red"', ""),
            },
            id="field addition, nested (object)",
        ),
    ],
)
def test_all_differences_of_deployments(hub: Object, expected: set[tuple[str, str, str]]) -> None:
    there = {**SELECTED, "strategy": {}}
    assert full(deployment({**there, **hub}), deployment(there)) == expected


@pytest.mark.parametrize(
    ("hub", "member", "expected"),
    [
        pytest.param(
            {"ports": [HTTP]},
            {},
            {("/spec/ports", '[{"name": "http", "protocol": "TCP", "port": 80, "targetPort": 8080}]', "")},
            id="field addition, array",
        ),
        pytest.param(
            {"ports": [HTTP, CUSTOM, HTTPS]},
            {"ports": [HTTP, HTTPS]},
            {
                ("/spec/ports/2", '{"name": "https", "protocol": "TCP", "port": 443, "targetPort": "https"}', ""),
                ("/spec/ports/1/name", '"custom"', '"https"'),
                ("/spec/ports/1/port", "10000", "443"),
                ("/spec/ports/1/protocol", '"UDP"', '"TCP"'),
                ("/spec/ports/1/targetPort", "10000", '"https"'),
            },
            id="field addition, array item",
        ),
        pytest.param(
            {"selector": {"app": "nginx"}},
            {},
            {("/spec/selector", '{"app": "nginx"}', "")},
            id="field addition, object",
        ),
        pytest.param(
            {"ports": [HTTP, HTTPS]},
            {"ports": [{**HTTP, "port": 8080}, {**HTTPS, "targetPort": 8443}]},
            {("/spec/ports/0/port", "80", "8080"), ("/spec/ports/1/targetPort", '"https"', "8443")},
            id="field addition, nested (array)",
        ),
        pytest.param({}, {"type": "ClusterIP"}, {("/spec/type", "", '"ClusterIP"')}, id="field of the member alone"),
    ],
)
def test_all_differences_of_services(hub: Object, member: Object, expected: set[tuple[str, str, str]]) -> None:
    assert full(service(hub), service(member), "") == expected


def metadata(domain: str, mark: str) -> Object:
    """Metadata in which a user's labels are equal, and all that does not count is of `mark`."""
    return {
        "name": mark,
        "namespace": mark,
        "generateName": mark,
        "labels": {f"{domain}/key": mark, "key": "1"},
        "annotations": {f"sub.{domain}/key": mark, "key": "2"},
        "finalizers": [mark],
        "managedFields": [{"manager": mark}],
        "ownerReferences": [{"uid": mark}],
        "creationTimestamp": mark,
        "deletionTimestamp": mark,
        "deletionGracePeriodSeconds": mark,
        "generation": mark,
        "resourceVersion": mark,
        "selfLink": mark,
        "uid": mark,
    }


@pytest.mark.parametrize("domain", ["kubernetes.io", "k8s.io", "kubernetes-fleet.io", "wharfinger.dev"])
@pytest.mark.parametrize("whole", [True, False])
def test_what_systems_manage_does_not_count(domain: str, *, whole: bool) -> None:
    template: Object = {"template": {"metadata": {"creationTimestamp": "1"}}}
    job: Object = {"jobTemplate": {"spec": {"template": {"metadata": {"creationTimestamp": "1"}}}}}
    empty: Object = {
        "template": {"metadata": {}},
        "jobTemplate": {"spec": {"template": {"metadata": {"creationTimestamp": None}}}},
    }
    hub = deployment({**template, **job}, {"replicas": 1}, **metadata(domain, "a"))
    member = deployment(empty, {"replicas": 2}, **metadata(domain, "b"))
    assert differences(hub, member, group="apps", full=whole) == ()


def test_labels_of_systems_alone_equal_no_labels() -> None:
    labelled = deployment(labels={"app.kubernetes.io/name": "web"}, annotations={})
    assert full(labelled, deployment()) == set()
    assert full(deployment(labels={"app": "web"}), deployment()) == {("/metadata/labels", '{"app": "web"}', "")}


def test_fields_of_others_do_not_count_in_part() -> None:
    hub = deployment({"replicas": 2, "a/b": {"c": 1}})
    member = deployment({"replicas": 3, "a/b": {"c": 1, "d": 2}, "paused": True})
    assert partial(hub, member) == [("/spec/replicas", "2", "3")]
    last = deployment({"replicas": 2, "a/b": {"c": 1, "d": 1}})
    assert partial(hub, member, last) == [("/spec/a~1b/d", "", "2"), ("/spec/replicas", "2", "3")]


def test_defaults_beside_retained_keys_do_not_count_in_part() -> None:
    rolling: Object = {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%"}}}
    assert partial(deployment({"strategy": {"type": "RollingUpdate"}}), deployment(rolling)) == []
    assert partial(deployment({"strategy": {"type": "Recreate"}}), deployment(rolling)) == [
        ("/spec/strategy/rollingUpdate", "", '{"maxSurge": "25%"}'),
        ("/spec/strategy/type", '"Recreate"', '"RollingUpdate"'),
    ]


@pytest.mark.parametrize("whole", [True, False])
def test_numbers_and_truths_differ_and_null_is_missing(*, whole: bool) -> None:
    hub = deployment({"a": True, "b": 1, "c": None, "d": [1, "x"]})
    member = deployment({"a": 1, "b": 1.0, "d": [1, None]})
    assert differences(hub, member, group="apps", full=whole) == (
        Difference("/spec/a", "true", "1"),
        Difference("/spec/d/1", '"x"', ""),
    )


def test_values_are_cut_and_a_hundred_differences_reported() -> None:
    hub = deployment({f"f{number:03}": "x" * 300 for number in range(150)})
    found = differences(hub, deployment(), group="apps", full=True)
    assert len(found) == 100
    assert [one.path for one in found[:2]] == ["/spec/f000", "/spec/f001"]
    assert {one.in_hub for one in found} == {'"' + "x" * 199}


def secret(data: Any, kind: str = "Secret", **others: object) -> Object:
    return {"apiVersion": "v1", "kind": kind, "metadata": {"name": "app"}, "data": data, **others}


@pytest.mark.parametrize(
    ("hub", "member", "group", "expected"),
    [
        pytest.param(
            secret({"foo": "bar"}, "ConfigMap"),
            secret({}, "ConfigMap"),
            "",
            {("/data/foo", '"bar"', "")},
            id="not a secret object (same API group, config map)",
        ),
        pytest.param(
            secret({"foo": "bar"}),
            secret({}),
            "example.com",
            {("/data/foo", '"bar"', "")},
            id="not a secret object (different API group)",
        ),
        pytest.param(
            secret({}, type="a", database="b"),
            secret({}),
            "",
            {("/type", '"a"', ""), ("/database", '"b"', "")},
            id="secret object (no data patches)",
        ),
        pytest.param(
            secret({"foo": "bar"}),
            secret({}),
            "",
            {("/data/foo", REDACTED, "")},
            id="secret object (data patches, hub diff only)",
        ),
        pytest.param(
            secret({}),
            secret({"foo": "bar"}),
            "",
            {("/data/foo", "", REDACTED)},
            id="secret object (data patches, member diff only)",
        ),
        pytest.param(
            secret({}, stringData={"foo": "bar"}),
            secret({}, stringData={"foo": "baz"}),
            "",
            {("/stringData/foo", REDACTED, REDACTED)},
            id="secret object (string data patches, both end diffs)",
        ),
        pytest.param(
            secret({"foo": "bar"}),
            secret("text"),
            "",
            {("/data", REDACTED, REDACTED)},
            id="secret object (data is no map)",
        ),
    ],
)
def test_values_of_secrets_are_redacted(
    hub: Object, member: Object, group: str, expected: set[tuple[str, str, str]]
) -> None:
    assert full(hub, member, group) == expected


@pytest.mark.parametrize(
    "broken", [{}, {"metadata": 1}, {"metadata": {"labels": 1}}, {"spec": 1}, {"spec": {"template": 1}}]
)
@pytest.mark.parametrize("whole", [True, False])
def test_malformed_objects_are_compared(broken: Object, *, whole: bool) -> None:
    assert differences(broken, broken, group="apps", full=whole) == ()
    assert differences(deployment({"a": 1}), broken, group="apps", full=whole)
    differences(broken, deployment({"a": 1}), group="apps", full=whole)


def test_objects_that_are_nested_too_deep_are_refused() -> None:
    deep: Object = {}
    for _ in range(5000):
        deep = {"a": deep}
    for whole in (True, False):
        with pytest.raises(ValueError, match="more than 100 levels deep"):
            differences(deployment(), deep, group="apps", full=whole)


@settings(max_examples=60, deadline=None)
@given(deployments, deployments, deployments)
def test_nothing_differs_in_part_after_a_merge(last: Object, hub: Object, member: Object) -> None:
    after = merged(last, hub, member, "apps")
    assert differences(hub, after, group="apps", full=False) == ()
    assert differences(hub, after, group="apps", full=False, last=last) == ()


@settings(max_examples=40, deadline=None)
@given(deployments, deployments)
def test_no_full_difference_means_no_difference_in_part(hub: Object, member: Object) -> None:
    assert differences(hub, hub, group="apps", full=True) == ()
    if not differences(hub, member, group="apps", full=True):
        assert not differences(hub, member, group="apps", full=False)
