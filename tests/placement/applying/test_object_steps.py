"""What is done about objects on a member: KubeFleet's cases by their names, each branch, and the order of objects."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

import pytest

from tests.placement.applying.objects import Object, deployment
from wharfinger.placement.applying.object_steps import WHOLE, ObjectStep, Owner, in_waves, step_for
from wharfinger.placement.spec.placement_fields import ApplyStrategyFields

P, LIFE = "cluster/web", "hub/east/7"
OTHERS = [{"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": "1"}]
NEVER, NO_DIFF = {"whenToTakeOver": "Never"}, {"whenToTakeOver": "IfNoDiff"}
FULL, GUARDED = {"comparisonOption": "FullComparison"}, {"whenToApply": "IfNotDrifted"}
REPORT, SERVER = {"type": "ReportDiff"}, {"type": "ServerSideApply"}
FORCED = {**SERVER, "serverSideApplyConfig": {"force": True}}
SHARED = {"allowCoOwnership": True}


def namespace(labels: Object | None = None, **metadata: Any) -> Object:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ns", "labels": labels or {}, **metadata}}


def secret(value: str, field: str = "data") -> Object:
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "namespace": "d"}, field: {"key": value}}


def pod(image: str = "a", cpu: str = "1", node: str = "", **metadata: Any) -> Object:
    spec: Object = {"containers": [{"name": "c", "image": image, "resources": {"requests": {"cpu": cpu}}}]}
    if node:
        spec["nodeName"] = node
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "d", **metadata}, "spec": spec}


def ours(last: Object) -> Owner:
    return Owner(P, LIFE, last)


def done(
    wanted: Object, live: Object | None, owner: Owner | None = None, group: str = "", **strategy: Any
) -> ObjectStep:
    return step_for(
        wanted, live, owner, ApplyStrategyFields.model_validate(strategy).complete, placement=P, life=LIFE, group=group
    )


BLUE, RED = namespace({"team": "blue"}), namespace({"team": "red"})


@pytest.mark.parametrize(
    ("live", "strategy", "reason"),
    [
        pytest.param(BLUE, {}, "Applied", id="existing non-Fleet owner: take over with no owner"),
        pytest.param(
            namespace({"team": "blue"}, ownerReferences=OTHERS), SHARED, "Applied", id="already owned, co-ownership"
        ),
        pytest.param(
            namespace({"team": "blue"}, ownerReferences=OTHERS), {}, "FailedToTakeOver", id="already owned, no sharing"
        ),
        pytest.param(BLUE, NO_DIFF, "Applied", id="no diff, take over"),
        pytest.param(RED, NO_DIFF, "FailedToTakeOver", id="diff found, no take over"),
        pytest.param(
            namespace({"team": "blue", "extra": "1"}), {**NO_DIFF, **FULL}, "FailedToTakeOver", id="diff found, full"
        ),
        pytest.param(namespace({"team": "blue", "extra": "1"}), NO_DIFF, "Applied", id="extra fields, in part"),
        pytest.param(BLUE, NEVER, "NotTakenOver", id="never take over"),
    ],
)
def test_taking_over_ends_as_in_kubefleet(live: Object, strategy: Object, reason: str) -> None:
    found = done(BLUE, live, **strategy)
    assert found.reason == reason
    assert (found.action == "refuse") is (reason != "Applied")
    assert bool(found.diffs) is ("whenToTakeOver" in strategy and reason == "FailedToTakeOver")


@pytest.mark.parametrize(
    ("live", "owner", "strategy", "action"),
    [
        pytest.param(None, None, {"whenToTakeOver": "Always"}, "create", id="no in member cluster object"),
        pytest.param(BLUE, None, NEVER, "refuse", id="never take over"),
        pytest.param(BLUE, ours(BLUE), {}, "keep", id="owned by Fleet"),
        pytest.param(RED, None, {}, "put", id="no owner, always take over"),
        pytest.param(BLUE, None, NO_DIFF, "keep", id="not owned by Fleet, take over if no diff"),
        pytest.param(None, ours(BLUE), GUARDED, "create", id="it was deleted by others"),
    ],
)
def test_whether_an_object_is_taken_over(
    live: Object | None, owner: Owner | None, strategy: Object, action: str
) -> None:
    assert done(BLUE, live, owner, **strategy).action == action


def test_an_object_is_created_without_what_clusters_write() -> None:
    found = done({**namespace({"a": "b"}, uid="1", generation=3), "status": {"phase": "Active"}, "spec": None}, None)
    assert (found.action, found.obj) == ("create", namespace({"a": "b"}))


@pytest.mark.parametrize("live", [BLUE, None], ids=["there", "deleted"])
@pytest.mark.parametrize("strategy", [{}, REPORT, NEVER, FORCED])
def test_an_object_of_another_placement_is_refused_naming_it(live: Object | None, strategy: Object) -> None:
    found = done(BLUE, live, Owner("ns/team/web", LIFE, BLUE), **strategy)
    assert (found.action, found.reason) == ("refuse", "OwnedByOtherPlacement")
    assert "ns/team/web" in found.message


@pytest.mark.parametrize("placement", [P, "cluster/other"])
def test_a_mark_of_an_earlier_life_counts_as_none(placement: str) -> None:
    before = Owner(placement, "hub/east/3", BLUE)
    assert done(BLUE, RED, before, **NO_DIFF).reason == "FailedToTakeOver"
    assert done(BLUE, RED, before).action == "put"
    assert done(BLUE, RED, before, **NEVER).reason == "NotTakenOver"


def test_others_that_own_it_meanwhile_stop_further_applying() -> None:
    live = namespace({"team": "red"}, ownerReferences=OTHERS)
    assert done(BLUE, live, ours(RED)).reason == "FailedToApply"
    found = done(BLUE, live, ours(RED), **SHARED)
    assert (found.action, found.obj) == ("put", namespace({"team": "blue"}, ownerReferences=OTHERS))


def test_a_manifest_that_names_owners_needs_co_ownership() -> None:
    wanted = namespace(ownerReferences=OTHERS)
    for live, owner in ((None, None), (namespace(), None), (namespace(), ours(namespace()))):
        assert done(wanted, live, owner).reason == "FailedToApply"
        assert done(wanted, live, owner, **SHARED).action in ("create", "put")


def test_conflicts_may_end_and_what_the_strategy_forbids_does_not() -> None:
    dying = namespace(deletionTimestamp="2026-01-01T00:00:00Z")
    apart = done(BLUE, namespace({"team": "red"}), ours(namespace()), type="ServerSideApply")
    for found in (done(BLUE, BLUE, Owner("cluster/other", LIFE, BLUE)), done(BLUE, dying, ours(BLUE)), apart):
        assert (found.action, found.passing) == ("refuse", True)
    owned = namespace(ownerReferences=OTHERS)
    for found in (done(BLUE, RED, None, **NEVER), done(BLUE, RED, ours(BLUE), **GUARDED), done(owned, None, None)):
        assert (found.action, found.passing) == ("refuse", False)


def test_a_drift_is_corrected_and_told() -> None:
    found = done(BLUE, RED, ours(BLUE))
    assert (found.action, found.obj, found.reason) == ("put", BLUE, "Applied")
    assert [(one.path, one.in_hub, one.in_member) for one in found.drifts] == [
        ("/metadata/labels/team", '"blue"', '"red"')
    ]


def test_a_drift_is_left_alone_if_it_says_so() -> None:
    found = done(BLUE, RED, ours(BLUE), **GUARDED)
    assert (found.action, found.reason, len(found.drifts)) == ("refuse", "FoundDrifts", 1)
    assert "1 difference)" in found.message


def test_a_new_manifest_is_applied_over_drifts() -> None:
    new = namespace({"team": "green"})
    for strategy in ({}, GUARDED):
        found = done(new, RED, ours(BLUE), **strategy)
        assert (found.action, found.obj, found.drifts) == ("put", new, ())


EXTRA = namespace({"team": "blue", "extra": "1"})


def test_fields_that_others_add_are_drifts_in_full_only() -> None:
    assert done(BLUE, EXTRA, ours(BLUE), **GUARDED).action == "keep"
    found = done(BLUE, EXTRA, ours(BLUE), **GUARDED, **FULL)
    assert (found.action, [one.path for one in found.drifts]) == ("refuse", ["/metadata/labels/extra"])


def test_what_an_apply_leaves_is_told_with_a_full_comparison() -> None:
    for owner in (ours(BLUE), ours(RED), None):
        found = done(BLUE, EXTRA, owner, **FULL)
        assert (found.action, [one.path for one in found.drifts]) == ("keep", ["/metadata/labels/extra"])


def test_what_the_manifest_dropped_is_removed_and_what_others_added_stays() -> None:
    last, wanted = namespace({"a": "1", "b": "1"}), namespace({"a": "1"})
    found = done(wanted, namespace({"a": "1", "b": "1", "c": "1"}), ours(last))
    assert (found.action, found.obj) == ("put", namespace({"a": "1", "c": "1"}))


def test_true_is_not_the_number_one() -> None:
    number, truth = deployment({"paused": 1}), deployment({"paused": True})
    assert done(truth, number, ours(number), "apps").action == "put"
    assert done(truth, truth, ours(truth), "apps").action == "keep"


@pytest.mark.parametrize(
    ("owner", "strategy", "action"),
    [
        pytest.param(ours(BLUE), SERVER, "refuse", id="others have set it"),
        pytest.param(None, SERVER, "refuse", id="it was there already"),
        pytest.param(ours(RED), SERVER, "put", id="as we applied it last"),
        pytest.param(ours(BLUE), FORCED, "put", id="forced"),
        pytest.param(ours(BLUE), {}, "put", id="client-side"),
    ],
)
def test_server_side_apply_conflicts_unless_forced(owner: Owner | None, strategy: Object, action: str) -> None:
    found = done(namespace({"team": "green"}), RED, owner, **strategy)
    assert found.action == action
    if action == "refuse":
        assert found.reason == "FailedToApply"
        assert "/metadata/labels/team" in found.message
        assert "red" not in found.message


@pytest.mark.parametrize("owner", [None, ours(BLUE), Owner("cluster/other", "hub/east/3", BLUE)])
@pytest.mark.parametrize("live", [None, BLUE, RED, namespace({"team": "red"}, ownerReferences=OTHERS)])
def test_reporting_writes_nothing(live: Object | None, owner: Owner | None) -> None:
    found = done(BLUE, live, owner, **REPORT)
    assert found.action == "report"
    assert found.reason == ("NoDiffFound" if live is BLUE else "FoundDiff")
    assert found.diffs == WHOLE if live is None else bool(found.diffs) is (live is not BLUE)


def test_reporting_compares_as_it_is_asked() -> None:
    assert done(BLUE, EXTRA, **REPORT).reason == "NoDiffFound"
    assert [one.path for one in done(BLUE, EXTRA, **REPORT, **FULL).diffs] == ["/metadata/labels/extra"]


@pytest.mark.parametrize("owner", [None, ours(BLUE)])
def test_an_object_that_is_being_deleted_is_awaited(owner: Owner | None) -> None:
    dying = namespace({"team": "blue"}, deletionTimestamp="2026-01-01T00:00:00Z", finalizers=["x/y"])
    assert done(BLUE, dying, owner).reason == "BeingDeleted"
    assert done(BLUE, dying, owner, **REPORT).reason == "NoDiffFound"


def test_a_bound_pod_whose_spec_changes_is_replaced() -> None:
    live = pod(node="n1", uid="u")
    found = done(pod(cpu="2"), live, ours(pod()))
    assert (found.action, found.obj) == ("replace", pod(cpu="2"))
    assert done(pod(cpu="2"), pod(), ours(pod())).action == "put"


@pytest.mark.parametrize(
    "change",
    [
        {"containers": [{"name": "c", "image": "b", "resources": {"requests": {"cpu": "1"}}}]},
        {"activeDeadlineSeconds": 5},
        {"terminationGracePeriodSeconds": 5},
        {"tolerations": [{"key": "t"}]},
    ],
    ids=lambda change: next(iter(change)),
)
def test_what_a_pod_may_change_is_put_in_place(change: Object) -> None:
    wanted = pod()
    wanted["spec"] = {**wanted["spec"], **change}
    found = done(wanted, pod(node="n1", uid="u"), ours(pod()))
    assert found.action == "put"
    assert found.obj is not None
    assert (found.obj["spec"]["nodeName"], found.obj["metadata"]["uid"]) == ("n1", "u")


def test_a_changed_pod_of_a_workload_is_no_pod() -> None:
    wanted, live = deployment({"nodeName": "n", "replicas": 2}), deployment({"nodeName": "n", "replicas": 1})
    assert done(wanted, live, ours(live), "apps").action == "put"


@pytest.mark.parametrize("field", ["data", "stringData"])
@pytest.mark.parametrize("strategy", [{}, GUARDED, SERVER, REPORT, NO_DIFF, {**GUARDED, **FULL}, {**REPORT, **FULL}])
@pytest.mark.parametrize("owner", [None, "new", "old"])
def test_values_of_secrets_are_never_told(field: str, strategy: Object, owner: str | None) -> None:
    wanted, live = secret("aHVuZ2VyCg==", field), secret("dGhpcnN0Cg==", field)
    of_it = ours(wanted) if owner == "new" else ours(secret("b2xkCg==", field)) if owner == "old" else None
    found = done(wanted, live, of_it, **strategy)
    told = json.dumps([found.message, found.reason, [asdict(one) for one in (*found.diffs, *found.drifts)]])
    assert not any(value in told for value in ("aHVuZ2VyCg", "dGhpcnN0Cg", "b2xkCg"))


def test_an_object_that_is_nested_too_deeply_raises() -> None:
    deep: Any = {}
    for _ in range(200):
        deep = {"a": deep}
    for live, owner in ((None, None), (BLUE, ours(BLUE))):
        with pytest.raises(ValueError, match="nested"):
            done({**BLUE, "spec": deep}, live, owner)


RBAC = "rbac.authorization.k8s.io"
NETWORKING = "networking.k8s.io"
ADMISSION = "admissionregistration.k8s.io"
MIXED = [
    [("", "namespaces"), ("scheduling.k8s.io", "priorityclasses")],
    [
        (NETWORKING, "networkpolicies"),
        ("", "resourcequotas"),
        ("", "limitranges"),
        ("policy", "podsecuritypolicies"),
        ("policy", "poddisruptionbudgets"),
        ("", "serviceaccounts"),
        ("", "secrets"),
        ("", "configmaps"),
        ("storage.k8s.io", "storageclasses"),
        ("", "persistentvolumes"),
        ("", "persistentvolumeclaims"),
        ("apiextensions.k8s.io", "customresourcedefinitions"),
        (NETWORKING, "ingressclasses"),
    ],
    [(RBAC, "clusterroles"), (RBAC, "roles")],
    [(RBAC, "clusterrolebindings"), (RBAC, "rolebindings")],
    [
        ("", "services"),
        ("apps", "daemonsets"),
        ("", "pods"),
        ("", "replicationcontrollers"),
        ("apps", "replicasets"),
        ("apps", "deployments"),
        ("autoscaling", "horizontalpodautoscalers"),
        ("apps", "statefulsets"),
        ("batch", "jobs"),
        ("batch", "cronjobs"),
        (NETWORKING, "ingresses"),
    ],
    [
        ("apiregistration.k8s.io", "apiservices"),
        (ADMISSION, "validatingwebhookconfigurations"),
        (ADMISSION, "mutatingwebhookconfigurations"),
    ],
    [("placement.kubernetes-fleet.io", "clusterresourceplacements"), ("example.com", "deployments")],
]


def waves(*resources: tuple[str, str]) -> list[list[tuple[str, str]]]:
    return in_waves(resources, lambda one: one)


def test_single_known_resource_makes_a_single_wave() -> None:
    assert waves(("", "configmaps")) == [[("", "configmaps")]]
    assert waves() == []


@pytest.mark.parametrize(
    "unknown",
    [
        pytest.param(("", "placeholders"), id="bundle with unknown resource type"),
        pytest.param(("dummy", "deployments"), id="bundle with known resource type but different API group"),
        pytest.param(("dummy", "placeholders"), id="bundle with unknown resource type from unknown API group"),
    ],
)
def test_unknown_resources_come_last(unknown: tuple[str, str]) -> None:
    webhooks = (ADMISSION, "mutatingwebhookconfigurations")
    assert waves(unknown, webhooks, ("", "configmaps")) == [[("", "configmaps")], [webhooks], [unknown]]


def test_mixed_resources_are_sorted_into_all_waves() -> None:
    assert waves(*(one for wave in reversed(MIXED) for one in wave)) == MIXED


def test_objects_of_a_wave_keep_their_order() -> None:
    named = [("b", "secrets"), ("a", "configmaps"), ("n", "namespaces"), ("c", "secrets")]
    found = in_waves(named, lambda one: ("", one[1]))
    assert [[name for name, _ in wave] for wave in found] == [["n"], ["b", "a", "c"]]
