"""Resource selectors and overrides as they are read from what is stored."""

from __future__ import annotations

from typing import Any

import pytest

from wharfinger.errors import InvalidObject
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
from wharfinger.placement.spec.placement_fields import stored_selectors
from wharfinger.placement.spec.placement_override_fields import stored_override

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


def override(**spec: Any) -> dict[str, Any]:
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
        override(
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
    obj = override(
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
RULE = "spec.policy.overrideRules[0]."


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
            f"{RULE}overrideType: Input should be 'JSONPatch' or 'Delete', not \"Keep\"",
        ),
        (
            {"policy": {"overrideRules": [{"clusterSelector": 1}]}},
            f"{RULE}clusterSelector: Input should be a mapping, not 1",
        ),
        (
            {"policy": {"overrideRules": [{"jsonPatchOverrides": [{"op": "move"}]}]}},
            f"{RULE}jsonPatchOverrides[0].op: Input should be 'add', 'remove' or 'replace', not \"move\"",
        ),
        (
            {"policy": {"overrideRules": [{"jsonPatchOverrides": [{"op": "add", "path": 1}]}]}},
            f"{RULE}jsonPatchOverrides[0].path: Input should be a valid string, not 1",
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
            f"{RULE}clusterSelector.clusterSelectorTerms[0].labelSelector.matchExpressions[0].operator: "
            "Input should be 'In', 'NotIn', 'Exists' or 'DoesNotExist', not \"Like\"",
        ),
        (
            {"policy": {"overrideRules": [{"jsonPatchOverrides": [{"path": "/a"}]}]}},
            f"{RULE}jsonPatchOverrides[0].op: is missing",
        ),
        (
            {
                "policy": {
                    "overrideRules": [
                        {"clusterSelector": {"clusterSelectorTerms": [{"labelSelector": {"matchExpressions": [{}]}}]}}
                    ]
                }
            },
            f"{RULE}clusterSelector.clusterSelectorTerms[0].labelSelector.matchExpressions[0].key: is missing",
        ),
    ],
)
def test_a_wrong_override_is_reported_with_its_path(spec: dict[str, Any], reason: str) -> None:
    with pytest.raises(InvalidObject) as caught:
        stored_override(override(**spec))
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
