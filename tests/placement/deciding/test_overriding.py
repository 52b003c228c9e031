"""How overrides change objects per member: KubeFleet's cases, RFC 6902, and hostile input."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from typing import Any

import pytest

from wharfinger.objects.model.selectors import LabelSelector, Operator, Requirement
from wharfinger.placement.deciding.overriding import (
    OverrideError,
    ResolvedOverride,
    by_object,
    digest,
    from_json,
    overridden,
    resolved,
    to_json,
)
from wharfinger.placement.model.delivery import ObjectId, Override, OverridePatch, OverrideRule
from wharfinger.placement.model.placement import PlacementRef

CRP, RP = PlacementRef("", "web"), PlacementRef("team", "web")
ROLE = ObjectId("rbac.authorization.k8s.io", "v1", "ClusterRole", "", "role")
SPACE = ObjectId("", "v1", "Namespace", "", "team")
WEB = ObjectId("apps", "v1", "Deployment", "team", "web")
OTHER = ObjectId("apps", "v1", "Deployment", "elsewhere", "web")
ALL = (ROLE, SPACE, WEB, OTHER)
NAME, LABEL = "${MEMBER-CLUSTER-NAME}", "${MEMBER-CLUSTER-LABEL-KEY-"
EVERYWHERE: tuple[LabelSelector, ...] = ()


def labelled(**labels: str) -> LabelSelector:
    return LabelSelector(tuple(Requirement(key, Operator.IN, (value,)) for key, value in labels.items()))


def add(path: str, value: Any) -> OverridePatch:
    return OverridePatch("add", path, value)


def replace(path: str, value: Any) -> OverridePatch:
    return OverridePatch("replace", path, value)


def remove(path: str) -> OverridePatch:
    return OverridePatch("remove", path)


def rule(*patches: OverridePatch, terms: tuple[LabelSelector, ...] | None = EVERYWHERE) -> OverrideRule:
    return OverrideRule(terms, patches=patches)


def deleting(*terms: LabelSelector) -> OverrideRule:
    return OverrideRule(terms, delete=True)


def cluster_wide(*rules: OverrideRule, name: str = "cro", selects: ObjectId = ROLE, **more: Any) -> Override:
    return Override(name, "", more.get("placement"), (selects,), rules)


def namespaced(*rules: OverrideRule, name: str = "ro", selects: ObjectId = WEB, **more: Any) -> Override:
    return Override(name, selects.namespace, more.get("placement"), (selects,), rules)


MARK = rule(add("/metadata/labels/mark", "x"))


def sources(
    overrides: Iterable[Override],
    placement: PlacementRef = CRP,
    objects: Iterable[ObjectId] = ALL,
    labels: Mapping[str, str] | None = None,
) -> list[tuple[str, ObjectId]]:
    """Which override changes which object."""
    found = resolved(overrides, placement, "cluster-1", labels or {}, frozenset(objects))
    return [(one.source, one.object) for one in found]


def role(**labels: str) -> dict[str, Any]:
    return written(ROLE, labels, rules=[{"verbs": ["create"]}])


def deployment(**labels: str) -> dict[str, Any]:
    return written(WEB, labels)


def written(about: ObjectId, labels: Mapping[str, str] | None = None, **more: Any) -> dict[str, Any]:
    metadata: dict[str, Any] = {"name": about.name}
    if about.namespace:
        metadata["namespace"] = about.namespace
    if labels:
        metadata["labels"] = dict(labels)
    return {"apiVersion": about.api_version, "kind": about.kind, "metadata": metadata, **more}


def applied(
    obj: dict[str, Any], *overrides: Override, labels: Mapping[str, str] | None = None, member: str = "cluster-1"
) -> dict[str, Any] | None:
    """The object as it is on a member."""
    about = ObjectId.of(obj)
    return overridden(obj, about, resolved(overrides, CRP, member, labels or {}, [about]))


def patched(obj: dict[str, Any], *patches: OverridePatch, **labels: str) -> dict[str, Any]:
    found = applied(obj, namespaced(rule(*patches)), labels=labels)
    assert found is not None
    return found


# Which members a rule is for


@pytest.mark.parametrize(
    ("terms", "labels", "wanted"),
    [
        pytest.param(None, {}, False, id="nil cluster selector"),
        pytest.param((), {}, True, id="empty cluster selector terms"),
        pytest.param((LabelSelector((Requirement("", Operator.IN),)),), {}, False, id="nil cluster label selector"),
        pytest.param((LabelSelector(),), {}, True, id="empty cluster label selector"),
        pytest.param((labelled(key1="value1"),), {"key1": "value1"}, True, id="non-empty cluster label"),
        pytest.param(
            (labelled(key1="value2"), labelled(key1="value1")), {"key1": "value1"}, True, id="multiple cluster terms"
        ),
        pytest.param((labelled(key1="value2"),), {"key1": "value1"}, False, id="no matched cluster label"),
    ],
)
def test_is_cluster_matched(terms: tuple[LabelSelector, ...] | None, labels: dict[str, str], *, wanted: bool) -> None:
    override = cluster_wide(OverrideRule(terms, patches=MARK.patches))
    assert bool(sources([override], labels=labels)) is wanted


# Which overrides concern which objects


def test_empty_overrides() -> None:
    assert resolved([], CRP, "cluster-1", {}, ALL) == ()
    assert overridden(role(), ROLE, ()) == role()


def test_a_cluster_scoped_object_is_selected_by_itself() -> None:
    assert sources([cluster_wide(MARK)]) == [("cro", ROLE)]


def test_a_namespace_override_changes_everything_in_it() -> None:
    assert sources([cluster_wide(MARK, selects=SPACE)]) == [("cro", SPACE), ("cro", WEB)]


def test_a_namespace_override_needs_no_selected_namespace() -> None:
    assert sources([cluster_wide(MARK, selects=SPACE)], objects=[WEB]) == [("cro", WEB)]


def test_a_cluster_override_does_not_select_namespaced_objects() -> None:
    assert sources([cluster_wide(MARK, selects=WEB._replace(namespace=""))]) == []


def test_an_object_of_another_version_or_name_is_not_matched() -> None:
    others = [WEB._replace(version="v1beta1"), WEB._replace(name="b"), ROLE._replace(name="b")]
    assert sources([namespaced(MARK), cluster_wide(MARK)], objects=others) == []


def test_an_override_matches_by_any_of_its_selectors_once() -> None:
    missing = WEB._replace(name="missing")
    override = Override("ro", "team", None, (missing, WEB, WEB), (MARK,))
    assert sources([override]) == [("team/ro", WEB)]


def test_overrides_come_cluster_wide_first_and_by_name() -> None:
    given = [
        namespaced(MARK, name="b"),
        namespaced(MARK, name="a", selects=OTHER),
        namespaced(MARK, name="a"),
        cluster_wide(MARK, name="z", selects=SPACE),
        cluster_wide(MARK, name="y"),
    ]
    assert sources(given) == [
        ("y", ROLE),
        ("z", SPACE),
        ("z", WEB),
        ("elsewhere/a", OTHER),
        ("team/a", WEB),
        ("team/b", WEB),
    ]


@pytest.mark.parametrize(
    ("override", "placement", "wanted"),
    [
        (cluster_wide(MARK, placement=CRP), CRP, True),
        (cluster_wide(MARK, placement=PlacementRef("", "other")), CRP, False),
        (cluster_wide(MARK, placement=CRP), RP, False),
        (namespaced(MARK, placement=CRP), CRP, True),
        (namespaced(MARK, placement=RP), RP, True),
        (namespaced(MARK, placement=RP), CRP, False),
        (namespaced(MARK, placement=CRP), RP, False),
        (namespaced(MARK), RP, True),
    ],
)
def test_an_override_may_be_for_one_placement_of_one_scope(
    override: Override, placement: PlacementRef, *, wanted: bool
) -> None:
    assert bool(sources([override], placement)) is wanted


def test_rules_without_effect_are_left_out() -> None:
    assert sources([cluster_wide(), cluster_wide(rule(), name="b")]) == []


# What overrides do to an object

KEYS = {"key1": "value1", "key2": "value2"}


def test_only_one_rule_matched_the_cluster() -> None:
    override = cluster_wide(
        rule(replace("/metadata/labels/app", "new"), terms=(labelled(key1="value1"),)),
        rule(replace("/metadata/labels/app", "newer"), terms=(labelled(key1="value2"),)),
    )
    assert applied(role(app="old"), override, labels=KEYS) == role(app="new")


def test_two_rules_that_do_not_conflict() -> None:
    override = cluster_wide(
        rule(remove("/rules/0/verbs/0"), terms=(labelled(key1="value1"),)),
        rule(add("/rules/0/verbs/0", "get"), terms=(labelled(key2="value2"),)),
    )
    found = applied(role(), override, labels=KEYS)
    assert found is not None
    assert found["rules"] == [{"verbs": ["get"]}]


def test_two_rules_that_conflict_but_still_a_valid_patch() -> None:
    override = cluster_wide(
        rule(replace("/rules/0/verbs/0", "get"), terms=(labelled(key1="value1"),)),
        rule(replace("/rules/0/verbs/0", "list"), terms=(labelled(key2="value2"),)),
    )
    found = applied(role(), override, labels=KEYS)
    assert found is not None
    assert found["rules"] == [{"verbs": ["list"]}]


def test_two_rules_that_conflict_and_result_in_error() -> None:
    override = cluster_wide(
        rule(remove("/rules/0/verbs"), terms=(labelled(key1="value1"),)),
        rule(add("/rules/0/verbs/1", "read"), terms=(labelled(key2="value2"),)),
    )
    with pytest.raises(OverrideError) as caught:
        applied(role(), override, labels=KEYS)
    assert str(caught.value) == (
        "override cro cannot change rbac.authorization.k8s.io/v1 ClusterRole role: add /rules/0/verbs/1: "
        "there is no 'verbs'"
    )


def test_invalid_json_patch_names_override_object_and_path() -> None:
    with pytest.raises(OverrideError, match=r"override team/ro .*Deployment team/web: add /metadata/labels/new: "):
        applied(deployment(), namespaced(rule(add("/metadata/labels/new", "v"))))


def test_delete_during_the_override_ignores_later_rules() -> None:
    override = cluster_wide(deleting(), rule(replace("/metadata/labels/key1", "new")))
    assert applied(role(), override) is None


def test_delete_after_patching() -> None:
    override = cluster_wide(rule(replace("/metadata/labels/key1", "new")), deleting(labelled(key2="value2")))
    assert applied(role(**KEYS), override, labels=KEYS) is None
    assert applied(role(**KEYS), override) == role(key1="new", key2="value2")
    with pytest.raises(OverrideError):
        applied(role(), override, labels=KEYS)


def test_resource_override_wins() -> None:
    given = (
        namespaced(rule(replace("/metadata/labels/app", "ro"))),
        cluster_wide(rule(replace("/metadata/labels/app", "cro"), add("/metadata/labels/more", "1")), selects=SPACE),
    )
    assert applied(deployment(app="old"), *given) == deployment(app="ro", more="1")


def test_resource_override_deletes_after_the_cluster_override() -> None:
    assert applied(deployment(), namespaced(deleting()), cluster_wide(rule(add("/x", 1)), selects=SPACE)) is None


def test_resource_override_is_no_op_when_the_cluster_one_deletes() -> None:
    given = namespaced(rule(remove("/nowhere"))), cluster_wide(deleting(), selects=SPACE)
    assert applied(deployment(), *given) is None


def test_only_overrides_of_the_object_are_applied() -> None:
    given = resolved([cluster_wide(MARK), namespaced(rule(add("/spec", 1)))], CRP, "cluster-1", {}, ALL)
    assert overridden(deployment(), WEB, given) == {**deployment(), "spec": 1}
    assert overridden(deployment(), OTHER, given) == deployment()
    assert {about: [one.source for one in those] for about, those in by_object(given).items()} == {
        ROLE: ["cro"],
        WEB: ["team/ro"],
    }


# JSON patches


def test_empty_override() -> None:
    assert applied(deployment(app="nginx"), namespaced(rule())) == deployment(app="nginx")


@pytest.mark.parametrize("operation", [add, replace])
def test_reset_the_labels(operation: Any) -> None:
    assert patched(deployment(app="nginx"), operation("/metadata/labels", {"b": "c"})) == deployment(b="c")


def test_labels_are_added_removed_and_replaced() -> None:
    assert patched(deployment(), add("/metadata/labels", {"a": "b"})) == deployment(a="b")
    assert patched(deployment(a="b"), add("/metadata/labels/c", "d")) == deployment(a="b", c="d")
    assert patched(deployment(a="b", c="d"), remove("/metadata/labels/a")) == deployment(c="d")
    assert patched(deployment(a="b"), replace("/metadata/labels/a", "c")) == deployment(a="c")


@pytest.mark.parametrize(
    ("patch", "wanted"),
    [
        (add("/list/-", 9), [1, [2, 3], 9]),
        (add("/list/0", 9), [9, 1, [2, 3]]),
        (add("/list/2", 9), [1, [2, 3], 9]),
        (add("/list/1/-", 9), [1, [2, 3, 9]]),
        (replace("/list/1/0", None), [1, [None, 3]]),
        (remove("/list/1"), [1]),
        (remove("/list/0"), [[2, 3]]),
        (replace("/list/0", {"a": []}), [{"a": []}, [2, 3]]),
    ],
)
def test_lists_are_changed_by_index(patch: OverridePatch, wanted: list[Any]) -> None:
    assert patched({**deployment(), "list": [1, [2, 3]]}, patch)["list"] == wanted


@pytest.mark.parametrize(
    ("path", "key"), [("/map/a~1b", "a/b"), ("/map/m~0n", "m~n"), ("/map/~01", "~1"), ("/map/", ""), ("/map/-", "-")]
)
def test_pointers_are_unescaped(path: str, key: str) -> None:
    obj = {**deployment(), "map": {key: 1}}
    assert patched(obj, replace(path, 2))["map"] == {key: 2}
    assert patched(obj, remove(path))["map"] == {}


@pytest.mark.parametrize(
    ("patch", "reason"),
    [
        (replace("/metadata/invalid", 1), "there is no 'invalid'"),
        (remove("/metadata/invalid"), "there is no 'invalid'"),
        (add("/a/b/c", 1), "there is no 'a'"),
        (add("/kind/b", 1), "'kind' is neither a mapping nor a list"),
        (add("/list/4", 1), "the list has no index 4"),
        (add("/list/-1", 1), "'-1' is no index of a list"),
        (add("/list/01", 1), "'01' is no index of a list"),
        (add("/list/१", 1), "'१' is no index of a list"),
        (add("/list/x", 1), "'x' is no index of a list"),
        (replace("/list/-", 1), "'-' is no index of a list"),
        (remove("/list/3"), "the list has no index 3"),
        (remove("/list/" + "9" * 5000), "is no index of a list"),
        (add("/list/0/x", 1), "'0' is neither a mapping nor a list"),
        (add("", {}), "the path must begin with a slash"),
        (add("spec", {}), "the path must begin with a slash"),
        (replace("/metadata/name", "other"), "it would be another object"),
        (replace("/kind", "StatefulSet"), "it would be another object"),
        (remove("/metadata"), "it would be another object"),
        (replace("/metadata", [1]), "it would be another object"),
    ],
)
def test_what_cannot_be_patched_is_a_sentence(patch: OverridePatch, reason: str) -> None:
    with pytest.raises(OverrideError) as caught:
        patched({**deployment(), "list": [1, 2, 3]}, patch)
    assert str(caught.value).startswith("override team/ro cannot change apps/v1 Deployment team/web: ")
    assert str(caught.value).endswith(reason)
    assert len(str(caught.value)) < 500


def test_patching_changes_neither_the_object_nor_the_override() -> None:
    obj = {**deployment(a="b"), "list": [{"x": [1]}]}
    shared = {"deep": {"values": [1]}}
    patches = (
        add("/list/0/x/-", 2),
        add("/shared", shared),
        add("/shared/deep/values/-", 2),
        remove("/metadata/labels/a"),
    )
    before, value = copy.deepcopy(obj), copy.deepcopy(shared)
    found = patched(obj, *patches)
    assert found["shared"] == {"deep": {"values": [1, 2]}}
    assert found["list"] == [{"x": [1, 2]}]
    assert (obj, shared) == (before, value)


# Variables


def test_cluster_name_as_value_in_json_patch() -> None:
    assert patched(deployment(app="nginx"), replace("/metadata/labels/app", NAME)) == deployment(app="cluster-1")


def test_multiple_rules_with_cluster_name_template() -> None:
    value = {"app": f"workload-{NAME}", NAME: ["nginx", f"{NAME}/{NAME}", 1, None, True]}
    assert patched(deployment(), add("/spec", value))["spec"] == {
        "app": "workload-cluster-1",
        "cluster-1": ["nginx", "cluster-1/cluster-1", 1, None, True],
    }


def test_typo_in_template_variable_is_rendered_as_is() -> None:
    found = patched(
        deployment(app="nginx"),
        replace("/metadata/labels/app", "$CLUSTER_NAME"),
        add("/metadata/labels/${Member-Cluster-Name}", "${CLUSTER-NAME}"),
    )
    assert found == deployment(**{"app": "$CLUSTER_NAME", "${Member-Cluster-Name}": "${CLUSTER-NAME}"})


def test_paths_have_no_variables() -> None:
    assert patched(deployment(), add(f"/{NAME}", 1))[NAME] == 1


@pytest.mark.parametrize(
    ("given", "labels", "wanted"),
    [
        pytest.param("The cluster is in us-west-1", {"region": "us-west-1"}, "The cluster is in us-west-1", id="none"),
        pytest.param(f"in {LABEL}region}}", {"region": "us-west-1"}, "in us-west-1", id="replaced"),
        pytest.param("in $MEMBER-CLUSTER-LABEL-KEY-region", {}, "in $MEMBER-CLUSTER-LABEL-KEY-region", id="misspelled"),
        pytest.param(
            f"{LABEL}fleet.azure.com/location-region_public}} and {LABEL}fleet.azure.com/env}}!",
            {"fleet.azure.com/location-region_public": "us-west-1", "fleet.azure.com/env": "prod"},
            "us-west-1 and prod!",
            id="multiple complex",
        ),
        pytest.param(f"{LABEL}{NAME}}}", {"cluster-1": "found"}, "found", id="name inside"),
        pytest.param(f"{LABEL}a}}", {"a": f"{LABEL}a}}"}, f"{LABEL}a}}", id="values are not looked at again"),
    ],
)
def test_replace_using_cluster_label_key_variables(given: str, labels: dict[str, str], wanted: str) -> None:
    assert patched(deployment(), add("/spec", given), **labels)["spec"] == wanted


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        pytest.param(f"in {LABEL}region}}", "the member has no label 'region'", id="not found"),
        pytest.param(f"in {LABEL}REGION}}", "the member has no label 'REGION'", id="case does not match"),
        pytest.param(f"in {LABEL}", f"the variable {LABEL} has no closing brace", id="invalid format"),
        pytest.param(f"in {LABEL}}}", "the member has no label ''", id="key empty"),
    ],
)
def test_replace_with_non_existent_label_key(given: str, reason: str) -> None:
    with pytest.raises(OverrideError) as caught:
        patched(deployment(), add("/spec", [{"a": given}]))
    assert str(caught.value) == f"override team/ro cannot be used on member cluster-1: {reason}"


# Records and digests


def test_resolved_overrides_survive_a_record() -> None:
    override = cluster_wide(rule(add("/a", {"b": [1, None]}), remove("/c")), selects=SPACE)
    given = resolved([override, cluster_wide(deleting()), namespaced(MARK)], CRP, "cluster-1", {}, ALL)
    assert len(given) == 4
    assert len(to_json(given)) == 3
    assert from_json(to_json(given)) == given
    assert (from_json([]), to_json([])) == ((), [])


def test_a_digest_is_of_what_is_done() -> None:
    first = resolved([cluster_wide(rule(add("/a", {"x": 1, "y": 2})))], CRP, "cluster-1", {}, ALL)
    again = resolved([cluster_wide(rule(add("/a", {"y": 2, "x": 1})))], CRP, "cluster-1", {}, ALL)
    other = resolved([cluster_wide(rule(add("/a", {"y": 2, "x": 3})))], CRP, "cluster-1", {}, ALL)
    assert digest(()) == ""
    assert len(digest(first)) == 16
    assert int(digest(first), 16)
    assert digest(first) == digest(again) == digest(from_json(to_json(first)))
    assert digest(first) != digest(other)


@pytest.mark.parametrize(
    "written",
    [
        None,
        3,
        [1],
        [{}],
        "text",
        [{"source": 1, "delete": False, "patches": [], "objects": []}],
        [{"source": "a", "delete": False, "patches": [["add"]], "objects": []}],
        [{"source": "a", "delete": False, "patches": [[1, 2, 3]], "objects": []}],
        [{"source": "a", "delete": False, "patches": 3, "objects": []}],
        [{"source": "a", "delete": False, "patches": [], "objects": [["", "v1"]]}],
        [{"source": "a", "delete": False, "patches": [], "objects": [["", "v1", 3, "", ""]]}],
    ],
)
def test_a_record_that_is_none_is_a_value_error(written: Any) -> None:
    with pytest.raises(ValueError, match="these are no resolved overrides"):
        from_json(written)


# Hostile input


def nested(levels: int) -> Any:
    value: Any = "end"
    for _ in range(levels):
        value = [value]
    return value


def test_a_value_nested_too_deeply_is_a_sentence() -> None:
    with pytest.raises(OverrideError, match="override team/ro: the value for /spec is nested too deeply"):
        patched(deployment(), add("/spec", nested(100_000)))
    with pytest.raises(OverrideError, match="cannot be written as JSON"):
        digest([ResolvedOverride(WEB, False, (add("/spec", nested(100_000)),), "ro")])
    with pytest.raises(OverrideError, match="cannot be written as JSON"):
        digest([ResolvedOverride(WEB, False, (add("/spec", {1, 2}),), "ro")])


def test_a_path_of_many_parts_is_followed() -> None:
    obj = {**deployment(), "deep": nested(50_000)}
    before = obj["deep"]
    found = patched(obj, replace("/deep" + "/0" * 50_000, "changed"))
    value = found["deep"]
    for _ in range(50_000):
        value, before = value[0], before[0]
    assert (value, before) == ("changed", "end")


def test_many_objects_of_a_namespace_are_resolved_quickly() -> None:
    objects = [WEB._replace(name=f"web-{number}") for number in range(10_000)]
    found = resolved([cluster_wide(MARK, selects=SPACE)], CRP, "cluster-1", {}, objects)
    assert len(found) == 10_000
    assert len(to_json(found)) == 1
