"""Overrides: every rule of KubeFleet's, all mistakes at once."""

from __future__ import annotations

from typing import Any

import pytest

from wharfinger.errors import InvalidConfiguration
from wharfinger.placement.spec.placement import check_placement_object

NAMED = {"group": "apps", "version": "v1", "kind": "Deployment", "name": "web"}
PATCH = {"op": "replace", "path": "/spec/replicas", "value": 3}
RULE = {"clusterSelector": {"clusterSelectorTerms": [{"labelSelector": {}}]}, "jsonPatchOverrides": [PATCH]}
RULES = "spec.policy.overrideRules"


def override(kind: str = "ResourceOverride", rules: Any = (RULE,), selectors: Any = (NAMED,), **spec: Any) -> Any:
    field = "resourceSelectors" if kind == "ResourceOverride" else "clusterResourceSelectors"
    return {
        "apiVersion": "placement.kubernetes-fleet.io/v1",
        "kind": kind,
        "metadata": {"name": "o"},
        "spec": {field: list(selectors), "policy": {"overrideRules": list(rules)}, **spec},
    }


def problems(obj: Any) -> list[str]:
    with pytest.raises(InvalidConfiguration) as refused:
        check_placement_object(obj)
    return [problem.partition(":")[0] for problem in refused.value.problems]


@pytest.mark.parametrize("kind", ["ResourceOverride", "ClusterResourceOverride"])
@pytest.mark.parametrize(
    "rule",
    [
        RULE,
        {"overrideType": "Delete", "clusterSelector": {}},
        {"jsonPatchOverrides": [{"op": "remove", "path": "/metadata/labels/a"}]},
        {"jsonPatchOverrides": [{"op": "add", "path": "/metadata/annotations/a~1b", "value": {"x": [1]}}]},
    ],
)
def test_what_kubefleet_takes_is_taken(kind: str, rule: Any) -> None:
    assert check_placement_object(override(kind, [rule], placement={"name": "web"})) == ()


@pytest.mark.parametrize(
    ("rule", "wrong"),
    [
        ({"jsonPatchOverrides": []}, ["jsonPatchOverrides"]),
        ({"overrideType": "Delete", "jsonPatchOverrides": [PATCH]}, ["jsonPatchOverrides"]),
        ({"overrideType": "Merge", "jsonPatchOverrides": [PATCH]}, ["overrideType"]),
        ({"jsonPatchOverrides": [{"path": "/spec"}]}, ["jsonPatchOverrides[0].op"]),
        ({"jsonPatchOverrides": [{"op": "move", "path": "/spec"}]}, ["jsonPatchOverrides[0].op"]),
        ({"jsonPatchOverrides": [{"op": "add"}]}, ["jsonPatchOverrides[0].path"]),
        ({"jsonPatchOverrides": [{"op": "add", "path": "spec"}]}, ["jsonPatchOverrides[0].path"]),
        ({"jsonPatchOverrides": [{"op": "add", "path": "/kind"}]}, ["jsonPatchOverrides[0].path"]),
        ({"jsonPatchOverrides": [{"op": "add", "path": "/status/x"}]}, ["jsonPatchOverrides[0].path"]),
        ({"jsonPatchOverrides": [{"op": "add", "path": "/metadata"}]}, ["jsonPatchOverrides[0].path"]),
        ({"jsonPatchOverrides": [{"op": "add", "path": "/metadata/name"}]}, ["jsonPatchOverrides[0].path"]),
        ({"jsonPatchOverrides": [{"op": "add", "path": "/spec//x"}]}, ["jsonPatchOverrides[0].path"]),
        ({"jsonPatchOverrides": [{"op": "remove", "path": "/spec", "value": 1}]}, ["jsonPatchOverrides[0].value"]),
        ({"jsonPatchOverrides": [PATCH] * 21}, ["jsonPatchOverrides"]),
    ],
)
def test_a_rule_that_is_wrong_is_told_with_its_path(rule: Any, wrong: list[str]) -> None:
    assert problems(override(rules=[rule])) == [f"{RULES}[0].{field}" for field in wrong]


def test_members_are_selected_by_labels_only() -> None:
    term = {"propertySelector": {"matchExpressions": []}, "propertySorter": {"name": "a", "sortOrder": "Ascending"}}
    where = f"{RULES}[0].clusterSelector.clusterSelectorTerms[0]."
    found = problems(override(rules=[{**RULE, "clusterSelector": {"clusterSelectorTerms": [term]}}]))
    assert found == [f"{where}propertySelector", f"{where}propertySorter", f"{where}labelSelector"]


def test_an_expression_that_no_hub_can_read_is_refused() -> None:
    term = {"labelSelector": {"matchExpressions": [{"key": "a"}]}}
    where = f"{RULES}[0].clusterSelector.clusterSelectorTerms[0].labelSelector.matchExpressions[0]."
    assert problems(override(rules=[{**RULE, "clusterSelector": {"clusterSelectorTerms": [term]}}])) == [
        f"{where}operator"
    ]


def test_all_mistakes_are_told_at_once() -> None:
    unnamed = {"group": "", "kind": "ConfigMap"}
    obj = override("ClusterResourceOverride", [], [unnamed, NAMED, NAMED, {**NAMED, "labelSelector": {}}])
    obj["spec"]["placement"] = {"scope": "Namespaced"}
    assert problems(obj) == [
        "spec.clusterResourceSelectors[3].labelSelector",
        "spec.placement.scope",
        "spec.clusterResourceSelectors[0].version",
        "spec.clusterResourceSelectors[0].name",
        "spec.clusterResourceSelectors",
        "spec.placement.name",
        RULES,
    ]
    assert problems({**obj, "spec": {}}) == ["spec.clusterResourceSelectors", "spec.policy"]
