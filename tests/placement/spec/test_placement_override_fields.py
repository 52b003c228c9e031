"""Overrides: every rule of KubeFleet's, all mistakes at once."""

from __future__ import annotations

from typing import Any

import pytest

from wharfinger.errors import InvalidConfiguration, InvalidObject
from wharfinger.objects.model.selectors import LabelSelector, Operator, Requirement
from wharfinger.placement.model.delivery import (
    ObjectId,
    Override,
    OverridePatch,
    OverrideRule,
    ResourceSelector,
    SelectionScope,
)
from wharfinger.placement.model.placement import PlacementRef
from wharfinger.placement.spec.placement import check_placement_object
from wharfinger.placement.spec.placement_fields import stored_selectors
from wharfinger.placement.spec.placement_override_fields import stored_override

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


# --- as they are stored ----------------------------------------------------------------------------

APP = LabelSelector((Requirement("app", Operator.IN, ("web",)),))


def test_selectors_are_read_whole() -> None:
    spec = {
        "resourceSelectors": [
            {"group": "", "version": "v1", "kind": "Namespace", "name": "web", "selectionScope": "NamespaceOnly"},
            {"group": "apps", "version": "v1", "kind": "Deployment", "labelSelector": {"matchLabels": {"app": "web"}}},
        ]
    }
    assert stored_selectors(spec) == (
        ResourceSelector("", "v1", "Namespace", "web", None, SelectionScope.ALONE),
        ResourceSelector("apps", "v1", "Deployment", "", APP, SelectionScope.WITH_RESOURCES),
    )
    assert stored_selectors({}) == ()


@pytest.mark.parametrize(
    ("written", "reason"),
    [
        ({"resourceSelectors": 3}, "spec.resourceSelectors: Input should be a list, not 3"),
        ({"resourceSelectors": [3]}, "spec.resourceSelectors[0]: Input should be a mapping, not 3"),
        ({"resourceSelectors": [{"kind": 3}]}, "spec.resourceSelectors[0].kind: Input should be a valid string, not 3"),
        (
            {"resourceSelectors": [{"selectionScope": "All"}]},
            "spec.resourceSelectors[0].selectionScope: Input should be 'NamespaceOnly', 'NamespaceWithResources' or "
            "'NamespaceWithResourceSelectors', not \"All\"",
        ),
        (
            {"resourceSelectors": [{"labelSelector": []}]},
            "spec.resourceSelectors[0].labelSelector: Input should be a mapping",
        ),
        (
            {"resourceSelectors": [{"labelSelector": {"matchExpressions": [{"key": "a"}]}}]},
            "spec.resourceSelectors[0].labelSelector.matchExpressions[0].operator: is missing",
        ),
    ],
)
def test_a_wrong_selector_is_reported_with_its_path(written: dict[str, Any], reason: str) -> None:
    with pytest.raises(InvalidObject) as caught:
        stored_selectors(written)
    assert str(caught.value) == reason


def kept_override(**spec: Any) -> dict[str, Any]:
    return {"kind": "ResourceOverride", "metadata": {"name": "ro", "namespace": "team"}, "spec": spec}


def test_a_namespaced_override_is_read_whole() -> None:
    rules = [
        {
            "clusterSelector": {"clusterSelectorTerms": [{"labelSelector": {"matchLabels": {"app": "web"}}}, {}]},
            "jsonPatchOverrides": [
                {"op": "add", "path": "/spec", "value": {"a": [1]}},
                {"op": "remove", "path": "/data", "value": "ignored"},
            ],
        },
        {"clusterSelector": {}, "overrideType": "Delete"},
        {"overrideType": "JSONPatch"},
    ]
    found = stored_override(
        kept_override(
            placement={"name": "web", "scope": "Namespaced"},
            resourceSelectors=[{"group": "apps", "version": "v1", "kind": "Deployment", "name": "web"}],
            policy={"overrideRules": rules},
        )
    )
    nothing = LabelSelector((Requirement("", Operator.IN),))
    assert found == Override(
        name="ro",
        namespace="team",
        placement=PlacementRef("team", "web"),
        selectors=(ObjectId("apps", "v1", "Deployment", "team", "web"),),
        rules=(
            OverrideRule(
                (APP, nothing),
                patches=(OverridePatch("add", "/spec", {"a": [1]}), OverridePatch("remove", "/data")),
            ),
            OverrideRule((), delete=True),
            OverrideRule(None),
        ),
    )
    assert found.source == "team/ro"
    assert [rule.matches({}) for rule in found.rules] == [False, True, False]


def test_a_cluster_override_is_read_whole() -> None:
    found = stored_override(
        {
            "kind": "ClusterResourceOverride",
            "metadata": {"name": "cro"},
            "spec": {
                "placement": {"name": "web"},
                "clusterResourceSelectors": [{"group": "", "version": "v1", "kind": "Namespace", "name": "web"}],
            },
        }
    )
    selected = ObjectId("", "v1", "Namespace", "", "web")
    assert found == Override("cro", "", PlacementRef("", "web"), (selected,), ())
    assert found.source == "cro"


def test_an_override_without_namespace_or_placement() -> None:
    found = stored_override({"kind": "ResourceOverride", "metadata": {"name": "ro"}})
    assert found == Override("ro", "default", None, (), ())


def test_what_hubs_do_not_read_of_an_override_may_be_anything() -> None:
    term = {"labelSelector": {"matchLabels": {"app": None, "no key!": "no value!"}}, "propertySelector": "text"}
    rule = {
        "clusterSelector": {"clusterSelectorTerms": [{**term, "propertySorter": {"sortOrder": "Up"}}]},
        "overrideType": "",
    }
    patch = {"op": "add", "path": "/a", "value": ""}
    obj = kept_override(
        placement={"name": "web", "scope": ""}, policy={"overrideRules": [{**rule, "jsonPatchOverrides": [patch]}]}
    )
    found = stored_override({**obj, "status": "text", "apiVersion": 1})
    equal = Requirement("app", Operator.IN, ("",)), Requirement("no key!", Operator.IN, ("no value!",))
    assert found.rules == (OverrideRule((LabelSelector(equal),), patches=(OverridePatch("add", "/a", ""),)),)
    assert found.placement == PlacementRef("", "web")


def test_strategies_do_not_keep_selectors_from_being_read() -> None:
    selector = {"version": "v1", "kind": "Namespace", "name": "web", "selectionScope": ""}
    found = ResourceSelector("", "v1", "Namespace", "web", None, SelectionScope.WITH_RESOURCES)
    assert stored_selectors({"resourceSelectors": [selector], "strategy": 1}) == (found,)


NAMELESS = "metadata.name or metadata.namespace is missing or no text"
KEPT_RULE = "spec.policy.overrideRules[0]."


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        ({"placement": 3}, "spec.placement: Input should be a mapping, not 3"),
        (
            {"placement": {"scope": "All"}},
            "spec.placement.scope: Input should be 'Cluster' or 'Namespaced', not \"All\"",
        ),
        ({"placement": {"name": []}}, "spec.placement.name: Input should be a valid string"),
        ({"resourceSelectors": {}}, "spec.resourceSelectors: Input should be a list"),
        ({"resourceSelectors": [{"name": 1}]}, "spec.resourceSelectors[0].name: Input should be a valid string, not 1"),
        ({"policy": []}, "spec.policy: Input should be a mapping"),
        ({"policy": {"overrideRules": ["x"]}}, 'spec.policy.overrideRules[0]: Input should be a mapping, not "x"'),
        (
            {"policy": {"overrideRules": [{"overrideType": "Keep"}]}},
            f"{KEPT_RULE}overrideType: Input should be 'JSONPatch' or 'Delete', not \"Keep\"",
        ),
        (
            {"policy": {"overrideRules": [{"clusterSelector": 1}]}},
            f"{KEPT_RULE}clusterSelector: Input should be a mapping, not 1",
        ),
        (
            {"policy": {"overrideRules": [{"jsonPatchOverrides": [{"op": "move"}]}]}},
            f"{KEPT_RULE}jsonPatchOverrides[0].op: Input should be 'add', 'remove' or 'replace', not \"move\"",
        ),
        (
            {"policy": {"overrideRules": [{"jsonPatchOverrides": [{"op": "add", "path": 1}]}]}},
            f"{KEPT_RULE}jsonPatchOverrides[0].path: Input should be a valid string, not 1",
        ),
        (
            {
                "policy": {
                    "overrideRules": [
                        {
                            "clusterSelector": {
                                "clusterSelectorTerms": [
                                    {"labelSelector": {"matchExpressions": [{"key": "a", "operator": "Like"}]}}
                                ]
                            }
                        }
                    ]
                }
            },
            f"{KEPT_RULE}clusterSelector.clusterSelectorTerms[0].labelSelector.matchExpressions[0].operator: "
            "Input should be 'In', 'NotIn', 'Exists' or 'DoesNotExist', not \"Like\"",
        ),
        (
            {"policy": {"overrideRules": [{"jsonPatchOverrides": [{"path": "/a"}]}]}},
            f"{KEPT_RULE}jsonPatchOverrides[0].op: is missing",
        ),
        (
            {
                "policy": {
                    "overrideRules": [
                        {"clusterSelector": {"clusterSelectorTerms": [{"labelSelector": {"matchExpressions": [{}]}}]}}
                    ]
                }
            },
            f"{KEPT_RULE}clusterSelector.clusterSelectorTerms[0].labelSelector.matchExpressions[0].key: is missing",
        ),
    ],
)
def test_a_wrong_override_is_reported_with_its_path(spec: dict[str, Any], reason: str) -> None:
    with pytest.raises(InvalidObject) as caught:
        stored_override(kept_override(**spec))
    assert str(caught.value) == reason


@pytest.mark.parametrize(
    ("obj", "reason"),
    [
        ({"kind": "ResourceOverride"}, NAMELESS),
        ({"kind": "ResourceOverride", "metadata": 1}, "metadata: Input should be a mapping, not 1"),
        ({"kind": "ResourceOverride", "metadata": {"name": 1}}, NAMELESS),
        ({"metadata": {"name": "cro"}}, "kind: is None, and neither ClusterResourceOverride nor ResourceOverride"),
    ],
)
def test_an_override_needs_a_name_and_its_kind(obj: dict[str, Any], reason: str) -> None:
    with pytest.raises(InvalidObject) as caught:
        stored_override(obj)
    assert str(caught.value) == reason
