from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from tests.apiserver.api_recorder import UpstreamRecorder, Written
from wharfinger.apiserver.access_checks import (
    BIND_ACCESS,
    DELETE_ACCESS,
    AccessReport,
    LeaseName,
    NeededAccess,
    cluster_role_rules,
    is_allowed,
    needed_access,
    review,
    role_rules,
)
from wharfinger.apiserver.client import NODES, OWN_ACCESS_REVIEWS, PODS, ApiAnswer, ApiResource
from wharfinger.errors import UpstreamDenied, UpstreamUnavailable

LEASE = LeaseName("kube-system", "kube-scheduler")
POD_GROUPS = ApiResource("scheduling.k8s.io", "v1alpha2", "podgroups", namespaced=True)
NEEDS = needed_access(lease=LEASE, optional=[POD_GROUPS])


def verdict(allowed: object) -> ApiAnswer:
    return ApiAnswer(201, {"status": {"allowed": allowed}})


def asked(written: Written) -> Mapping[str, Any]:
    attributes: Mapping[str, Any] = written.body["spec"]["resourceAttributes"]
    return attributes


def grants(rules: list[dict[str, Any]]) -> list[tuple[str, str, str, str]]:
    return [
        (verb, group, resource, name)
        for rule in rules
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
        for name in rule.get("resourceNames", [""])
    ]


def test_review_body_names_verb_resource_and_place() -> None:
    need = NeededAccess(
        "update", ApiResource("coordination.k8s.io", "v1", "leases", namespaced=True), "x", "", "ns", "l"
    )

    assert need.body() == {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {
            "resourceAttributes": {
                "verb": "update",
                "group": "coordination.k8s.io",
                "resource": "leases",
                "namespace": "ns",
                "name": "l",
            }
        },
    }
    assert BIND_ACCESS.body()["spec"]["resourceAttributes"] == {
        "verb": "create",
        "resource": "pods",
        "subresource": "binding",
    }


def test_table_has_no_row_twice_and_says_what_each_is_for() -> None:
    rows = [(need.verb, need.resource, need.subresource, need.namespace, need.name) for need in NEEDS]

    assert len(set(rows)) == len(rows)
    assert all(need.lost for need in NEEDS)


def test_rules_grant_the_table_and_nothing_else() -> None:
    roles = role_rules(NEEDS)
    wide = [(need.verb, need.resource.group, need.target, need.name) for need in NEEDS if not need.namespace]
    local = [(need.verb, need.resource.group, need.target, need.name) for need in NEEDS if need.namespace]

    assert sorted(grants(cluster_role_rules(NEEDS))) == sorted(wide)
    assert list(roles) == ["kube-system"]
    assert sorted(grants(roles["kube-system"])) == sorted(local)


def test_rules_are_few_and_narrow() -> None:
    rules = cluster_role_rules(NEEDS)

    assert {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch", "delete"]} in rules
    assert {"apiGroups": [""], "resources": ["pods/binding"], "verbs": ["create"]} in rules
    assert {"apiGroups": [""], "resources": ["pods/status"], "verbs": ["patch"]} in rules
    assert {"apiGroups": ["events.k8s.io"], "resources": ["events"], "verbs": ["create", "patch"]} in rules
    assert not any("*" in rule[part] for rule in rules for part in ("apiGroups", "resources", "verbs"))
    assert len(rules) < 20


def test_lease_is_granted_by_name_in_its_namespace() -> None:
    roles = role_rules(needed_access(lease=LeaseName("prod", "wharf")))

    assert list(roles) == ["kube-system", "prod"]
    assert roles["prod"] == [
        {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["create"]},
        {
            "apiGroups": ["coordination.k8s.io"],
            "resources": ["leases"],
            "verbs": ["get", "update"],
            "resourceNames": ["wharf"],
        },
    ]


def test_what_is_switched_off_is_not_needed() -> None:
    needs = needed_access(lease=None, events=False)

    assert not {"leases", "events", "podgroups"} & {need.resource.plural for need in needs}


async def test_review_finds_what_is_missing() -> None:
    def answers(written: Written) -> ApiAnswer:
        assert written.resource == OWN_ACCESS_REVIEWS
        attributes = asked(written)
        return verdict(not (attributes["resource"] == "pods" and attributes["verb"] in ("create", "delete")))

    recorder = UpstreamRecorder(answers)

    report = await review(recorder.apiserver, NEEDS)

    assert report == AccessReport(missing=(BIND_ACCESS, DELETE_ACCESS))
    assert not report.schedulable
    assert len(recorder.written) == len(NEEDS)
    assert report.sentences() == [
        "may not create pods/binding: nothing can be bound; grant it with the ClusterRole in deploy/kubernetes",
        "may not delete pods: no pod can be preempted; grant it with the ClusterRole in deploy/kubernetes",
    ]


async def test_verbs_of_one_resource_are_one_sentence() -> None:
    recorder = UpstreamRecorder(
        lambda written: verdict(asked(written)["resource"] not in ("csinodes", "configmaps", "leases"))
    )

    report = await review(recorder.apiserver, NEEDS)

    assert report.sentences() == [
        "may not get, list, watch csinodes.storage.k8s.io: pods with volumes stay pending; "
        "grant it with the ClusterRole in deploy/kubernetes",
        "may not get configmaps 'extension-apiserver-authentication' in namespace kube-system: callers of the secure "
        "port are not recognized by client certificates; grant it with the Role in deploy/kubernetes",
        "may not create leases.coordination.k8s.io in namespace kube-system: nothing can be bound, because the Lease "
        "cannot be held; grant it with the Role in deploy/kubernetes",
        "may not get, update leases.coordination.k8s.io 'kube-scheduler' in namespace kube-system: nothing can be "
        "bound, because the Lease cannot be held; grant it with the Role in deploy/kubernetes",
    ]


async def test_everything_allowed_needs_no_sentence() -> None:
    report = await review(UpstreamRecorder(lambda written: verdict(True)).apiserver, NEEDS)

    assert report == AccessReport()
    assert report.schedulable
    assert report.sentences() == []


async def test_optional_access_does_not_stop_scheduling() -> None:
    report = await review(UpstreamRecorder(lambda written: verdict(False)).apiserver, [DELETE_ACCESS])

    assert report.missing == (DELETE_ACCESS,)
    assert report.schedulable


@pytest.mark.parametrize(
    "answer",
    [UpstreamUnavailable("503"), ApiAnswer(404, reason="NotFound"), ApiAnswer(201)],
    ids=["503", "404", "empty"],
)
async def test_no_answer_is_not_a_refusal(answer: ApiAnswer | Exception) -> None:
    recorder = UpstreamRecorder(lambda written: answer)

    report = await review(recorder.apiserver, [BIND_ACCESS, NeededAccess("list", NODES, "x")])

    assert await is_allowed(recorder.apiserver, BIND_ACCESS) is None
    assert report.missing == ()
    assert report.sentences() == [
        "the API server did not answer whether these are allowed: create pods/binding, list nodes"
    ]


async def test_review_ends_at_its_deadline() -> None:
    recorder = UpstreamRecorder(open=asyncio.Event())

    report = await review(recorder.apiserver, NEEDS, deadline=0.01)

    assert report == AccessReport(unanswered=NEEDS)
    assert recorder.at_once == 0


async def test_refused_credentials_are_an_error() -> None:
    recorder = UpstreamRecorder(lambda written: UpstreamDenied("401"))

    with pytest.raises(UpstreamDenied):
        await review(recorder.apiserver, NEEDS)


async def test_one_access_can_be_asked_for() -> None:
    recorder = UpstreamRecorder(lambda written: verdict(asked(written)["verb"] == "list"))

    assert await is_allowed(recorder.apiserver, NeededAccess("list", PODS, "x")) is True
    assert await is_allowed(recorder.apiserver, BIND_ACCESS) is False
