"""Terms about other pods, as manifests spell them."""

from __future__ import annotations

from typing import Any

import pytest

from tests.objects.documents.manifests import pod_manifest
from wharfinger.errors import InvalidObject
from wharfinger.objects.documents.decode import pod_from_mapping
from wharfinger.objects.model.pod import Pod
from wharfinger.objects.model.selectors import (
    LabelSelector,
    Operator,
    PodAffinityTerm,
    Requirement,
    SpreadConstraint,
    WeightedPodAffinityTerm,
)

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
WEB = LabelSelector((Requirement("app", Operator.IN, ("web",)),))
HARD = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}
SOFT = {**HARD, "whenUnsatisfiable": "ScheduleAnyway"}


def term(**more: Any) -> dict[str, Any]:
    return {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "web"}}, **more}


def requiring(*terms: Any, labels: dict[str, str] | None = None) -> Pod:
    manifest = pod_manifest(
        metadata={"namespace": "team", "labels": labels}, affinity={"podAffinity": {REQUIRED: terms}}
    )
    return pod_from_mapping(manifest)


def spread_over(*constraints: dict[str, Any]) -> Pod:
    return pod_from_mapping(pod_manifest(topologySpreadConstraints=constraints))


def test_terms_are_read_by_direction_and_strength() -> None:
    weighted = {"weight": 7, "podAffinityTerm": term()}
    pod = pod_from_mapping(
        pod_manifest(
            affinity={
                "podAffinity": {REQUIRED: [term()], PREFERRED: [weighted]},
                "podAntiAffinity": {REQUIRED: [term(topologyKey="rack")], PREFERRED: [{**weighted, "weight": 100}]},
            }
        )
    )

    read = PodAffinityTerm("zone", WEB, frozenset({"default"}))
    assert pod.required_affinity == (read,)
    assert pod.required_anti_affinity == (PodAffinityTerm("rack", WEB, frozenset({"default"})),)
    assert pod.preferred_affinity == (WeightedPodAffinityTerm(7, read),)
    assert pod.preferred_anti_affinity == (WeightedPodAffinityTerm(100, read),)
    assert pod.hard_terms_across_nodes


@pytest.mark.parametrize(
    ("said", "namespaces", "selector"),
    [
        ({}, {"team"}, None),
        ({"namespaces": []}, {"team"}, None),
        ({"namespaces": ["a", "b"]}, {"a", "b"}, None),
        ({"namespaceSelector": {}}, set(), LabelSelector()),
        ({"namespaces": ["a"], "namespaceSelector": {"matchLabels": {"app": "web"}}}, {"a"}, WEB),
    ],
)
def test_term_without_namespaces_means_its_own_namespace(
    said: dict[str, Any], namespaces: set[str], selector: LabelSelector | None
) -> None:
    (read,) = requiring(term(**said)).required_affinity

    assert (set(read.namespaces), read.namespace_selector) == (namespaces, selector)


def test_an_empty_selector_matches_every_pod_and_an_absent_one_none() -> None:
    empty, absent = requiring(term(labelSelector={}), term(labelSelector=None)).required_affinity

    assert empty.selects("team", {}, {"any": "label"})
    assert not absent.selects("team", {}, {"any": "label"})


def test_selectors_are_read_whole() -> None:
    expressions = [
        {"key": "tier", "operator": "NotIn", "values": ["x", "y"]},
        {"key": "on", "operator": "Exists"},
        {"key": "off", "operator": "DoesNotExist"},
    ]
    selector = {"matchLabels": {"b": "2", "a": "1"}, "matchExpressions": expressions}

    (read,) = requiring(term(labelSelector=selector)).required_affinity

    assert read.selector == LabelSelector(
        (
            Requirement("a", Operator.IN, ("1",)),
            Requirement("b", Operator.IN, ("2",)),
            Requirement("tier", Operator.NOT_IN, ("x", "y")),
            Requirement("on", Operator.EXISTS),
            Requirement("off", Operator.DOES_NOT_EXIST),
        )
    )


def test_label_keys_are_merged_into_the_selector_with_the_pods_own_values() -> None:
    said = term(matchLabelKeys=["hash", "absent"], mismatchLabelKeys=["tenant"])

    (read,) = requiring(said, labels={"hash": "h1", "tenant": "t1"}).required_affinity

    assert read.selector == LabelSelector(
        (*WEB.requirements, Requirement("hash", Operator.IN, ("h1",)), Requirement("tenant", Operator.NOT_IN, ("t1",)))
    )


def test_label_keys_that_an_api_server_merged_already_are_not_merged_twice() -> None:
    merged = {"matchExpressions": [{"key": "hash", "operator": "In", "values": ["h1"]}]}

    (read,) = requiring(term(labelSelector=merged, matchLabelKeys=["hash"]), labels={"hash": "h1"}).required_affinity

    assert read.selector == LabelSelector((Requirement("hash", Operator.IN, ("h1",)),))


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        ({}, r"podAffinity\.required\w+\[0\]\.topologyKey is missing"),
        (term(topologyKey=""), "topologyKey is missing"),
        (term(namespaces="a"), "namespaces is no list"),
        (term(labelSelector=[]), "labelSelector is no mapping"),
        (term(labelSelector={"matchExpressions": [{"key": "a", "operator": "Gt", "values": ["1"]}]}), "for nodes"),
        (term(labelSelector={"matchExpressions": [{"key": "a", "operator": "In"}]}), "values are missing"),
        (term(labelSelector=None, matchLabelKeys=["a"]), "need a labelSelector"),
        (term(matchLabelKeys=["a"], mismatchLabelKeys=["a"]), "both name 'a'"),
    ],
)
def test_what_is_wrong_with_a_term_is_named(wrong: dict[str, Any], reason: str) -> None:
    with pytest.raises(InvalidObject, match=reason):
        requiring(wrong)


@pytest.mark.parametrize(
    ("weight", "reason"), [(None, "missing"), (0, "between 1 and 100"), (101, "between 1 and 100")]
)
def test_a_preference_weighs_1_to_100(weight: int | None, reason: str) -> None:
    affinity = {"podAntiAffinity": {PREFERRED: [{"weight": weight, "podAffinityTerm": term()}]}}

    with pytest.raises(InvalidObject, match=rf"podAntiAffinity\.{PREFERRED}\[0\]\.weight is .*{reason}"):
        pod_from_mapping(pod_manifest(affinity=affinity))


def test_a_constraint_has_the_defaults_of_kubernetes() -> None:
    pod = spread_over(HARD, SOFT)

    assert pod.spread_constraints == (SpreadConstraint(1, "zone", True), SpreadConstraint(1, "zone", False))
    assert pod.hard_terms_across_nodes
    assert not spread_over(SOFT).hard_terms_across_nodes


def test_a_constraint_is_read_whole() -> None:
    more = {"minDomains": 3, "nodeAffinityPolicy": "Ignore", "nodeTaintsPolicy": "Honor", "matchLabelKeys": ["hash"]}

    pod = spread_over({**HARD, **more, "maxSkew": 2, "labelSelector": {"matchLabels": {"app": "web"}}})

    assert pod.spread_constraints == (
        SpreadConstraint(
            2,
            "zone",
            True,
            WEB,
            min_domains=3,
            honor_node_affinity=False,
            honor_node_taints=True,
            match_label_keys=("hash",),
        ),
    )


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        ({**HARD, "maxSkew": None}, "maxSkew is missing"),
        ({**HARD, "maxSkew": 0}, "maxSkew is not between 1"),
        ({**HARD, "topologyKey": None}, r"spec.topologySpreadConstraints\[0\].topologyKey is missing"),
        ({**HARD, "whenUnsatisfiable": None}, "whenUnsatisfiable is missing"),
        ({**HARD, "whenUnsatisfiable": "Maybe"}, "'Maybe' is none of DoNotSchedule, ScheduleAnyway"),
        ({**HARD, "minDomains": 0}, "minDomains is not between 1"),
        ({**SOFT, "minDomains": 1}, "goes with whenUnsatisfiable DoNotSchedule only"),
        ({**HARD, "nodeAffinityPolicy": "No"}, "nodeAffinityPolicy 'No' is none of Honor, Ignore"),
        ({**HARD, "nodeTaintsPolicy": ""}, "nodeTaintsPolicy '' is none of Honor, Ignore"),
        ({**HARD, "matchLabelKeys": ["a"]}, "need a labelSelector"),
    ],
)
def test_what_is_wrong_with_a_constraint_is_named(wrong: dict[str, Any], reason: str) -> None:
    with pytest.raises(InvalidObject, match=reason):
        spread_over(wrong)


def test_one_topology_is_constrained_once_a_strength() -> None:
    with pytest.raises(InvalidObject, match=r"\[1\].topologyKey and whenUnsatisfiable are those of an earlier one"):
        spread_over(HARD, {**HARD, "maxSkew": 2})
