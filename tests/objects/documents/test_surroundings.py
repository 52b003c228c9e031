"""Namespaces, what selects pods, and disruption budgets, as manifests spell them."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.objects.documents.manifests import raw
from wharfinger.errors import InvalidObject
from wharfinger.objects.documents.decode import decode_surrounding, surrounding_from_mapping
from wharfinger.objects.model.gang import PodGroup
from wharfinger.objects.model.priority import PriorityClass
from wharfinger.objects.model.selectors import LabelSelector, Operator, Requirement
from wharfinger.objects.model.surroundings import DisruptionBudget, Namespace, PodCollection

WEB = LabelSelector((Requirement("app", Operator.IN, ("web",)),))
LABELS = {"matchLabels": {"app": "web"}}


def thing(spec: Any = None, status: Any = None, **metadata: Any) -> dict[str, Any]:
    return {"metadata": {"name": "web", "namespace": "team", **metadata}, "spec": spec, "status": status}


def test_a_namespace_has_its_name_as_a_label() -> None:
    read = surrounding_from_mapping(
        {"kind": "Namespace", "metadata": {"name": "team", "labels": {"a": "b"}}}, "Namespace"
    )

    assert read == Namespace("team", {"a": "b", "kubernetes.io/metadata.name": "team"})


@pytest.mark.parametrize(
    ("kind", "selector"),
    [
        ("Service", {"app": "web"}),
        ("ReplicationController", {"app": "web"}),
        ("ReplicaSet", LABELS),
        ("StatefulSet", LABELS),
    ],
)
def test_what_selects_pods_is_read_with_its_selector(kind: str, selector: dict[str, Any]) -> None:
    read = decode_surrounding(raw(thing({"selector": selector})), kind, namespace="team", name="web")

    assert read == PodCollection(kind, "team", "web", WEB)


def test_a_replication_controller_without_selector_selects_what_it_makes() -> None:
    spec = {"template": {"metadata": {"labels": {"app": "web"}}}}

    assert surrounding_from_mapping(thing(spec), "ReplicationController") == PodCollection(
        "ReplicationController", "team", "web", WEB
    )


@pytest.mark.parametrize("kind", ["Service", "ReplicationController", "ReplicaSet", "StatefulSet"])
@pytest.mark.parametrize("spec", [None, {}, {"selector": {}}])
def test_what_selects_nothing_means_nothing(kind: str, spec: Any) -> None:
    assert surrounding_from_mapping(thing(spec), kind) is None


def test_budget_allows_the_disruptions_of_its_status() -> None:
    status = {"disruptionsAllowed": 2, "disruptedPods": {"web-1": "2026-01-01T00:00:00Z"}}

    read = surrounding_from_mapping(thing({"selector": LABELS, "minAvailable": 1}, status), "PodDisruptionBudget")

    assert read == DisruptionBudget("team", "web", WEB, 2, frozenset({"web-1"}))


def test_budget_without_status_allows_none_without_selector_protects_none() -> None:
    assert surrounding_from_mapping(thing(), "PodDisruptionBudget") == DisruptionBudget("team", "web", None)


@pytest.mark.parametrize(
    ("version", "spec", "least", "topology"),
    [
        (
            "scheduling.k8s.io/v1alpha2",
            {
                "schedulingPolicy": {"gang": {"minCount": 8}},
                "schedulingConstraints": {"topology": [{"key": "topology.kubernetes.io/zone"}]},
            },
            8,
            ("topology.kubernetes.io/zone",),
        ),
        ("scheduling.k8s.io/v1alpha2", {"schedulingPolicy": {"basic": {}}}, 0, ()),
        ("scheduling.x-k8s.io/v1alpha1", {"minMember": 3}, 3, ()),
        ("", {}, 0, ()),
    ],
)
def test_pod_group_has_its_minimum_and_topology(
    version: str, spec: dict[str, Any], least: int, topology: tuple[str, ...]
) -> None:
    read = surrounding_from_mapping({**thing(spec), "apiVersion": version, "kind": "PodGroup"}, "PodGroup")

    assert read == PodGroup("team", "web", least, topology)


@pytest.mark.parametrize(
    ("kind", "obj", "reason"),
    [
        ("Service", {**thing(), "kind": "Pod"}, "kind is 'Pod', not 'Service'"),
        ("ReplicaSet", {**thing(), "apiVersion": "v1"}, "apiVersion is 'v1', not 'apps/v1'"),
        ("PodDisruptionBudget", {**thing(), "apiVersion": "policy/v1beta1"}, "not 'policy/v1'"),
        ("Service", thing({"selector": {"a": 1}}), r"spec.selector\['a'\] is no text"),
        ("StatefulSet", thing({"selector": {"matchExpressions": [{"key": "a"}]}}), r"selector.matchExpressions\[0\]"),
        ("PodDisruptionBudget", thing(None, {"disruptionsAllowed": "1"}), "disruptionsAllowed is no integer"),
        ("PodDisruptionBudget", thing(None, {"disruptedPods": []}), "disruptedPods is no mapping"),
        ("PodGroup", thing({"schedulingPolicy": {"gang": {"minCount": 0}}}), "minCount is not between 1"),
        ("PodGroup", {**thing(), "apiVersion": "v1"}, "apiVersion is 'v1', not of 'scheduling.k8s.io'"),
        ("PodGroup", thing({"schedulingConstraints": {"topology": [{}]}}), r"topology\[0\].key '' is no label's name"),
        ("Namespace", thing(name="A"), "no DNS subdomain"),
        ("Service", thing(namespace="other"), "in its key 'team'"),
    ],
)
def test_what_is_wrong_is_named(kind: str, obj: dict[str, Any], reason: str) -> None:
    with pytest.raises(InvalidObject, match=reason):
        decode_surrounding(raw(obj), kind, namespace="" if kind == "Namespace" else "team")


def priority_class(name: str = "high", **fields: Any) -> dict[str, Any]:
    return {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}, **fields}


@pytest.mark.parametrize(
    ("obj", "read"),
    [
        (priority_class(value=10), PriorityClass("high", 10)),
        (priority_class(value=-(2**31), globalDefault=True), PriorityClass("high", -(2**31), global_default=True)),
        (priority_class(value=10**9, preemptionPolicy="Never"), PriorityClass("high", 10**9, False, "Never")),
        (priority_class(value=0, preemptionPolicy=None, description="x"), PriorityClass("high", 0)),
        (priority_class(), PriorityClass("high", 0)),
        (
            priority_class("system-node-critical", value=2_000_001_000),
            PriorityClass("system-node-critical", 2_000_001_000),
        ),
    ],
)
def test_a_priority_class_is_read_as_the_api_server_has_it(obj: dict[str, Any], read: PriorityClass) -> None:
    assert surrounding_from_mapping(obj, "PriorityClass") == read


@pytest.mark.parametrize(
    ("obj", "reason"),
    [
        (priority_class(value=10**9 + 1), "value is 1000000001: the maximum of a user defined priority is 1000000000"),
        (priority_class(value=2**31), "value"),
        (priority_class(value=-(2**31) - 1), "value"),
        (priority_class(value="10"), "value"),
        (priority_class(value=1.5), "value"),
        (priority_class(value=True), "value"),
        (priority_class(preemptionPolicy="Always"), "preemptionPolicy is 'Always'"),
        (priority_class(preemptionPolicy=""), "preemptionPolicy is ''"),
        (priority_class(globalDefault=1), "globalDefault is neither true nor false"),
        (priority_class("system-mine", value=1), "names with 'system-' are for system use only"),
        (priority_class("system-node-critical", value=1), "value of system-node-critical must be 2000001000"),
        (
            priority_class("system-node-critical", value=2_000_001_000, globalDefault=True),
            "globalDefault of system-node-critical must be false",
        ),
        (priority_class("Not a name"), "metadata.name"),
        ({**priority_class(), "apiVersion": "v1"}, "apiVersion is 'v1'"),
    ],
)
def test_a_priority_class_is_refused_as_the_api_server_does(obj: dict[str, Any], reason: str) -> None:
    with pytest.raises(InvalidObject, match=re.escape(reason)):
        surrounding_from_mapping(obj, "PriorityClass")
