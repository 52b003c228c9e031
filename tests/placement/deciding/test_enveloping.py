"""What comes out of envelopes: KubeFleet's cases of extracting manifests, and malformed ones."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from wharfinger.placement.deciding.enveloping import MOST_ENVELOPED, opened

API = "placement.kubernetes-fleet.io/v1"


def config_map(name: str, namespace: str | None = "default") -> dict[str, Any]:
    metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}


def cluster_role(name: str = "test-role") -> dict[str, Any]:
    return {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": name}}


def envelope(data: Any, name: str = "test-envelope", namespace: str = "default") -> dict[str, Any]:
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": API, "kind": "ResourceEnvelope", "metadata": metadata, "data": data}


def cluster_envelope(data: Any, name: str = "test-envelope") -> dict[str, Any]:
    return {"apiVersion": API, "kind": "ClusterResourceEnvelope", "metadata": {"name": name}, "data": data}


def test_valid_resource_envelope_with_one_resource() -> None:
    assert opened([envelope({"resource1": config_map("test-cm")})]) == ([config_map("test-cm")], [])


def test_valid_cluster_resource_envelope_with_one_resource() -> None:
    assert opened([cluster_envelope({"clusterrole1": cluster_role()})]) == ([cluster_role()], [])


def test_envelope_with_multiple_resources_should_have_the_right_order() -> None:
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "namespace": "default"}}
    data = {"a": pod, "b": config_map("test-cm2"), "c": config_map("test-cm1")}
    found, problems = opened([envelope(data)])
    assert [obj["metadata"]["name"] for obj in found] == ["test-cm1", "test-cm2", "a"]
    assert problems == []


@pytest.mark.parametrize("data", [{}, None])
def test_empty_envelope(data: Any) -> None:
    assert opened([envelope(data)]) == ([], [])


def test_other_objects_keep_their_places_around_envelopes() -> None:
    found, problems = opened([cluster_role("a"), envelope({"x": config_map("b")}), cluster_role("c")])
    assert [obj["metadata"]["name"] for obj in found] == ["a", "b", "c"]
    assert problems == []


def test_config_maps_of_former_envelopes_are_ordinary_objects() -> None:
    former = config_map("envelope")
    former["metadata"]["annotations"] = {"kubernetes-fleet.io/envelope-configmap": "true"}
    assert opened([former]) == ([former], [])


RESOURCE, CLUSTER = "ResourceEnvelope default/test-envelope", "ClusterResourceEnvelope test-envelope"


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        pytest.param(
            envelope({"invalid": "{invalid-json}"}),
            f"{RESOURCE}: data[invalid] is no object",
            id="envelope with invalid resource JSON",
        ),
        pytest.param(
            envelope({"resource1": config_map("test-cm", "other")}),
            f"{RESOURCE}: data[resource1] is ConfigMap other/test-cm, an object of another namespace than its envelope",
            id="ResourceEnvelope with manifest in a different namespace",
        ),
        pytest.param(
            envelope({"resource1": cluster_role()}),
            f"{RESOURCE}: data[resource1] is ClusterRole test-role, an object without a namespace; it needs a "
            "ClusterResourceEnvelope",
            id="ResourceEnvelope containing a cluster-scoped resource",
        ),
        pytest.param(
            cluster_envelope({"resource1": config_map("test-cm")}),
            f"{CLUSTER}: data[resource1] is ConfigMap default/test-cm, a namespaced object; it needs a "
            "ResourceEnvelope in its namespace",
            id="ClusterResourceEnvelope with namespaced resource",
        ),
        pytest.param(
            envelope({"x": {"apiVersion": "v1", "kind": "Pod", "metadata": {"generateName": "web-"}}}),
            f"{RESOURCE}: data[x] has metadata.generateName, which is not supported in envelopes; give it a "
            "metadata.name",
            id="generateName",
        ),
        pytest.param(
            envelope({"x": {"apiVersion": "v1", "kind": "Pod", "metadata": {}}}),
            f"{RESOURCE}: data[x] has no metadata.name",
            id="no name",
        ),
        pytest.param(
            envelope({"x": {"metadata": {"name": "a"}}}), f"{RESOURCE}: data[x] has no apiVersion", id="no version"
        ),
        pytest.param(
            envelope({"x": {"apiVersion": "v1", "kind": [], "metadata": {"name": "a"}}}),
            f"{RESOURCE}: data[x] has no kind",
            id="no kind",
        ),
        pytest.param(envelope({"x": {"metadata": 1}}), f"{RESOURCE}: data[x] has no metadata", id="no metadata"),
        pytest.param(
            cluster_envelope(
                {"x": {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "a", "namespace": 7}}}
            ),
            f"{CLUSTER}: data[x] has a metadata.namespace that is no text",
            id="namespace of a wrong type",
        ),
        pytest.param(envelope({"x": None}), f"{RESOURCE}: data[x] is no object", id="null"),
        pytest.param(envelope(["x"]), f"{RESOURCE}: data is no mapping", id="data of a wrong type"),
    ],
)
def test_what_cannot_be_in_an_envelope_is_a_sentence(given: dict[str, Any], problem: str) -> None:
    assert opened([given]) == ([], [problem])


def test_envelope_with_mixed_namespaced_resources_keeps_the_valid_ones() -> None:
    data = {"a": config_map("test-cm1"), "b": config_map("test-cm2", "other"), "c": 3}
    found, problems = opened([envelope(data)])
    assert found == [config_map("test-cm1")]
    assert len(problems) == 2


def test_every_duplicate_is_a_problem_that_names_both_places() -> None:
    other_version = {**config_map("x"), "apiVersion": "v2"}
    given = [
        config_map("selected"),
        config_map("selected"),
        envelope({"a": config_map("selected"), "b": config_map("x")}),
        envelope({"c": other_version}, "second"),
    ]
    found, problems = opened(given)
    assert [obj["metadata"]["name"] for obj in found] == ["selected", "x"]
    assert problems == [
        "ConfigMap default/selected is selected twice",
        f"{RESOURCE}: data[a] is ConfigMap default/selected, which is also selected itself",
        f"ResourceEnvelope default/second: data[c] is ConfigMap default/x, which is also in {RESOURCE}: data[b]",
    ]


def test_an_object_selected_after_its_copy_in_an_envelope_is_a_problem() -> None:
    _, problems = opened([envelope({"a": config_map("x")}), config_map("x")])
    assert problems == [f"{RESOURCE}: data[a] is ConfigMap default/x, which is also selected itself"]


def test_envelopes_hold_a_limited_number_of_objects_together() -> None:
    half = {str(number): config_map(f"a{number}") for number in range(MOST_ENVELOPED)}
    found, problems = opened([envelope(half), envelope({"x": config_map("x")}, "second")])
    assert len(found) == MOST_ENVELOPED
    assert problems == [
        f"ResourceEnvelope default/second: there are more than {MOST_ENVELOPED} objects in all envelopes"
    ]


def test_opening_envelopes_does_not_change_them() -> None:
    given = [envelope({"a": config_map("x"), "b": 1})]
    before = copy.deepcopy(given)
    opened(given)
    assert given == before


def test_deep_content_and_long_names_are_bearable() -> None:
    deep: dict[str, Any] = config_map("x")
    level = deep
    for _ in range(100_000):
        level["below"] = {}
        level = level["below"]
    long = "k" * 10_000
    found, problems = opened([envelope({"a": deep, long: config_map(long, "other")})])
    assert len(found) == 1
    assert len(problems[0]) < 400
